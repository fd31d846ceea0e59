"""`serve`: runs the application in uvicorn, logs its settings, and shuts it down gracefully."""

import asyncio
import ctypes
import gc
import logging
import math
import os
import signal
import socket
import sys
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import uvicorn
from starlette.applications import Starlette

from ..engines import Engine
from ..generation.service import Service, log, watch
from ..request.prompts import Prompts
from ..request.settings import Settings
from ..store import Store
from ..tools import Tools
from ..wire.common import Failure
from .app import create_app
from .connection import limited
from .logs import AccessLog, set_up_logs
from .models import Served
from .workers import ServerWorker

if TYPE_CHECKING:
    from ..generation.telemetry import Telemetry

_CONNECTIONS = 0.5  # seconds between two looks at the connections
_AFTER_DRAIN = 0.5  # seconds for the last errors to be sent
_SWITCH = 0.0005  # seconds after which a computing thread yields to the loop; Python's default is 0.005
_ANY = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
"""Wildcard addresses, each with an address by which this machine reaches it."""
_M_MMAP_THRESHOLD = -3  # of glibc's malloc.h


class Operation(NamedTuple):
    """The settings of the process, independent of what it serves. The certificate (for TLS) and the key are files."""

    log_format: str = "text"
    log_level: str = "info"
    access_log: bool = False
    certificate: str | None = None
    key: str | None = None
    password: str | None = None
    worker: ServerWorker | None = None
    telemetry: "Telemetry | None" = None


_PLAIN = Operation()


class Server(uvicorn.Server):
    """uvicorn, with a shutdown that lets running answers end. Port 0 means a free one.

    Attributes:
        interrupted: whether it ended, or ends, because of SIGINT.
    """

    interrupted = False

    def __init__(self, app: Starlette, host: str, port: int, operation: Operation = _PLAIN) -> None:
        self._service: Service = app.state.service
        settings = self._service.settings
        self._operation = operation
        self._within = AsyncExitStack()
        super().__init__(
            uvicorn.Config(
                AccessLog(app) if operation.access_log else app,
                host=host,
                port=port,
                lifespan="on",
                ws="none",
                access_log=False,
                log_level=logging.WARNING,
                log_config=None,
                server_header=False,
                ssl_certfile=operation.certificate,
                ssl_keyfile=operation.key,
                ssl_keyfile_password=operation.password,
                http=limited(settings.limits),
                timeout_keep_alive=settings.limits.idle,  # seconds need not be whole
                timeout_graceful_shutdown=math.ceil(settings.limits.drain + 4 * _AFTER_DRAIN),
            )
        )

    @property
    def port(self) -> int:
        """The port on which it listens; 0 before that."""
        for server in getattr(self, "servers", ()):
            for listening in server.sockets:
                return int(listening.getsockname()[1])
        return 0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.interrupted = self.interrupted or sig == signal.SIGINT
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # what was loaded so far stays: looking through it for garbage would hold up every stream
        if self.started:
            self._watch = asyncio.ensure_future(watch(self.server_state.connections, _CONNECTIONS))
            worker = self._operation.worker
            if worker is not None:
                await self._within.enter_async_context(worker.serving(self._service.counts, self._orphaned))
            if worker is None or worker.number == 0:
                self._announce()

    def _announce(self) -> None:
        settings = self._service.settings
        scheme = "http" if self._operation.certificate is None else "https"
        host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
        log.info("listening on %s://%s:%d; %s", scheme, host, self.port, settings.summary())
        for other in self._service.models[1:]:
            log.info("further model: %s", other.settings.summary())
        reached = _ANY.get(self.config.host, host)
        log.info("try: %s", settings.example(f"{scheme}://{reached}:{self.port}"))
        if settings.ui:
            log.info("open %s://%s:%d/ in a browser: the page explains every output", scheme, reached, self.port)

    def _orphaned(self) -> None:
        log.warning("the process that started this one is gone")
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down, after running responses had time to end."""
        for service in self._service.models:
            service.draining = True
        end = asyncio.ensure_future(self._end())
        await super().shutdown(sockets)
        for task in (end, self._watch):
            task.cancel()
        await asyncio.gather(end, self._watch, return_exceptions=True)
        await self._within.aclose()

    async def _end(self) -> None:
        """Wait for running responses, then end them with an error, then close all connections."""
        connections, drain = self.server_state.connections, self._service.settings.limits.drain
        running = sum(len(service.runs) for service in self._service.models)
        if running:
            log.info("draining: %d responses have %g s to end", running, drain)
        await _empty(connections, drain)
        for service in self._service.models:
            service.abort(Failure("the server is shutting down", 503))
        await _empty(connections, _AFTER_DRAIN)
        for connection in list(connections):
            connection.transport.abort()


async def _empty(connections: Collection[Any], seconds: float) -> None:
    """Wait until there are no connections, but no longer than this."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while connections and loop.time() < deadline:
        await asyncio.sleep(0.02)


def serve(
    settings: Settings,
    engine: Engine,
    host: str = "127.0.0.1",
    port: int = 8192,
    prompts: Prompts | None = None,
    *,
    tools: Tools | None = None,
    listener: socket.socket | None = None,
    others: Sequence[Served] = (),
    operation: Operation = _PLAIN,
    store: Store | None = None,
) -> bool:
    """Serve until SIGTERM or SIGINT; then running responses have `Limits.drain` seconds to end.

    Args:
        settings, engine, prompts, tools, others, store: see `create_app`.
        host, port: the address to listen on; port 0 means a free one.
        listener: a socket that already listens there.
        operation: how the process is run.

    Returns:
        Whether it ever listened; if not, the log has the reason.
    """
    set_up_logs(operation.log_format, operation.log_level)
    _return_large_blocks()
    # `tokenizers` would warn about each child that is forked after a long prompt.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.setswitchinterval(_SWITCH)
    app = create_app(
        settings,
        engine,
        prompts,
        tools,
        others=others,
        worker=operation.worker,
        store=store,
        telemetry=operation.telemetry,
    )
    server = Server(app, host, port, operation)
    server.run(None if listener is None else [listener])
    if server.interrupted:  # uvicorn raises the signal again, which may be too late for its loop
        raise KeyboardInterrupt
    return bool(server.started)


def _return_large_blocks() -> None:
    """Make glibc return the memory of bodies and prompts to the system as soon as it is free.

    glibc does so for blocks above a threshold, which it raises with every large block that is freed, up to 32 MiB, so
    the memory of many requests would stay with the process. Setting it prevents that.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 128 * 1024)
