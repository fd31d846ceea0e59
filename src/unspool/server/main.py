"""Running the server: uvicorn, a line that tells what holds, and an orderly end."""

import asyncio
import ctypes
import logging
import math
import socket
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import uvicorn

from ..engines import Engine
from ..wire.common import Failure
from .app import create_app
from .core import log
from .http import limited, patrol
from .settings import Settings

if TYPE_CHECKING:
    from .prompts import Prompts

_AFTER_DRAIN = 0.5  # seconds for the last errors to be sent
_SWITCH = 0.0005  # seconds: threads that compute give way to the loop sooner than by default (0.005)
_M_MMAP_THRESHOLD = -3  # of glibc's malloc.h


class Server(uvicorn.Server):
    """uvicorn, draining.

    Args:
        settings: what holds.
        engine: what generates.
        host, port: where to listen; port 0 takes any that is free.
        prompts: the model's chat template.
    """

    def __init__(
        self, settings: Settings, engine: Engine, host: str, port: int, prompts: "Prompts | None" = None
    ) -> None:
        app = create_app(settings, engine, prompts)
        self._core = app.state.core
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                lifespan="on",
                ws="none",
                access_log=False,
                log_level=logging.WARNING,
                server_header=False,
                http=limited(settings.limits),
                timeout_keep_alive=settings.limits.idle,  # type: ignore[arg-type]  # seconds need not be whole
                timeout_graceful_shutdown=math.ceil(settings.limits.drain + 4 * _AFTER_DRAIN),
            )
        )

    @property
    def port(self) -> int:
        """Where it listens; 0 before it does."""
        for server in getattr(self, "servers", ()):
            for listening in server.sockets:
                return int(listening.getsockname()[1])
        return 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and tell what holds."""
        await super().startup(sockets)
        if self.started:
            self._patrol = asyncio.ensure_future(patrol(self.server_state.connections))
            settings = self._core.settings
            host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
            log.info("listening on http://%s:%d; %s", host, self.port, settings.holds())
            log.info("try: %s", settings.example(f"http://{host}:{self.port}"))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let the running responses end, for a while."""
        self._core.draining = True
        end = asyncio.ensure_future(self._end())
        await super().shutdown(sockets)
        for task in (end, self._patrol):
            task.cancel()
        await asyncio.gather(end, self._patrol, return_exceptions=True)

    async def _end(self) -> None:
        """Give what runs its time, then end it with an error, then close what is still open."""
        connections = self.server_state.connections
        if self._core.runs:
            log.info("draining: %d responses have %g s to end", len(self._core.runs), self._core.settings.limits.drain)
        await _empty(connections, self._core.settings.limits.drain)
        self._core.abort(Failure("the server is shutting down", 503))
        await _empty(connections, _AFTER_DRAIN)
        for connection in list(connections):
            connection.transport.abort()


async def _empty(connections: Collection[Any], seconds: float) -> None:
    """Return when there are no connections, or after so long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while connections and loop.time() < deadline:
        await asyncio.sleep(0.02)


def serve(
    settings: Settings,
    engine: Engine,
    host: str = "127.0.0.1",
    port: int = 8192,
    prompts: "Prompts | None" = None,
    *,
    listener: socket.socket | None = None,
) -> bool:
    """Serve until SIGTERM or SIGINT; then running responses have `Limits.drain` seconds to end.

    Args:
        settings, engine, host, port, prompts: see `Server`.
        listener: a socket that listens there already.

    Returns:
        Whether it ever listened; why it did not is in the log.
    """
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.INFO)
    _return_large_blocks()
    sys.setswitchinterval(_SWITCH)
    server = Server(settings, engine, host, port, prompts)
    server.run(None if listener is None else [listener])
    return bool(server.started)


def _return_large_blocks() -> None:
    """Have the memory of bodies and prompts go back to the system as soon as it is free.

    glibc raises the size from which on it does so with every large block that is freed, up to 32 MiB: what many clients
    sent would then stay with the process. Naming a size ends that; other libraries have no such call.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 128 * 1024)
