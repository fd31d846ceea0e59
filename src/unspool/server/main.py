"""Running the server: uvicorn, a line that tells what holds, and an orderly end."""

import asyncio
import logging
import math
import socket
from typing import TYPE_CHECKING

import uvicorn

from ..engines import Engine
from .app import create_app
from .core import log
from .settings import Settings

if TYPE_CHECKING:
    from .prompts import Prompts

_AFTER_DRAIN = 5.0  # seconds for the last errors to be sent


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
                timeout_graceful_shutdown=math.ceil(settings.limits.drain + _AFTER_DRAIN),
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
            settings = self._core.settings
            host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
            log.info("listening on http://%s:%d; %s", host, self.port, settings.holds())
            log.info("try: %s", settings.example(f"http://{host}:{self.port}"))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let the running responses end, for a while."""
        self._core.draining = True
        drain = asyncio.ensure_future(self._core.drain(self._core.settings.limits.drain))
        await super().shutdown(sockets)
        drain.cancel()
        await asyncio.gather(drain, return_exceptions=True)


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
    server = Server(settings, engine, host, port, prompts)
    server.run(None if listener is None else [listener])
    return bool(server.started)
