"""A real server in a thread, and engines that do what a test needs."""

import asyncio
import contextlib
import json
import socket
import threading
import time
import types
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ag_ui.core
import httpx2
import openai
import pydantic
import uvicorn
import uvicorn.server

from unspool import get_dialect
from unspool.engines import Delta, Engine, EngineError, Recording, Replay, Request
from unspool.engines.capture import Asked
from unspool.server import Limits, Settings, create_app
from unspool.server.main import Server
from unspool.store import Store
from unspool.tools import Approval, Tools, ToolServer
from unspool.wire import Usage

from ..wire.readers import chunks as chunks
from .writing import Writing, template

PATIENCE = 20.0  # seconds; a loaded machine may take its time
CHAT = "/v1/chat/completions"
USAGE = Usage(prompt_tokens=11, completion_tokens=7, cached_tokens=3, reasoning_tokens=2)
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
HEAD = "HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HELLO: Any = [{"role": "user", "content": "Hello"}]
TALK: Any = {"max_tokens": 9, "messages": HELLO}
MINIMAL: dict[str, dict[str, Any]] = {
    CHAT: {"messages": HELLO},
    "/v1/completions": {"prompt": "Once"},
    "/v1/responses": {"input": "x"},
    "/v1/messages": TALK,
    "/ag-ui": {"threadId": "t", "runId": "r", "messages": []},
}
"""The least that each protocol asks for."""
AGUI_EVENT: Any = pydantic.TypeAdapter(ag_ui.core.Event)


def _hasten() -> None:
    """Make uvicorn check for its end twenty times as often as every tenth of a second.

    Hundreds of servers end in these tests.
    """

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds / 20)

    hasty = types.ModuleType("asyncio")
    vars(hasty).update(vars(asyncio) | {"sleep": sleep})
    vars(uvicorn.server)["asyncio"] = hasty


_hasten()


class Scripted:
    """Plays pieces; may wait for a signal, fail, or never end. Records the requests and their cancellations.

    Args:
        pieces: the raw output.
        fail_after: after how many pieces the engine fails.
        hang_after: after how many pieces nothing more comes.
        gates: what must be set before a piece comes, by its place.
    """

    tokenizer: Any = None

    def __init__(
        self,
        pieces: Sequence[str | Delta],
        *,
        fail_after: int | None = None,
        hang_after: int | None = None,
        error: Exception | None = None,
        usage: Usage | None = USAGE,
        reason: str = "stop",
        gates: Mapping[int, threading.Event] | None = None,
    ) -> None:
        self.reason = reason
        self.gates = gates or {}
        self.pieces = pieces
        self.fail_after = fail_after
        self.hang_after = hang_after
        self.error = error or EngineError("the device is lost", 500)
        self.usage = usage
        self.requests: list[Request] = []
        self.pulled = 0
        self.running = 0
        self.cancelled = 0
        self.most_running = 0
        self.hanging = threading.Event()
        self.closed = False
        self.sick: str | None = None

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        self.requests.append(request)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        done = False
        try:
            for i, piece in enumerate(self.pieces):
                await self._maybe_end(i)
                self.pulled += 1
                yield piece if isinstance(piece, Delta) else Delta(text=piece)
                await asyncio.sleep(0)
            await self._maybe_end(len(self.pieces))
            done = True
            yield Delta(finish_reason=self.reason, usage=self.usage)
        finally:
            self.running -= 1
            if not done:
                self.cancelled += 1

    async def _maybe_end(self, i: int) -> None:
        if self.fail_after == i:
            raise self.error
        while i in self.gates and not self.gates[i].is_set():
            await asyncio.sleep(0.01)
        if self.hang_after == i:
            self.hanging.set()
            await asyncio.Event().wait()

    async def health(self) -> None:
        if self.sick:
            raise EngineError(self.sick, 503)

    async def close(self) -> None:
        self.closed = True


def recorded(pieces: Iterable[str], match: str | None = None) -> Recording:
    """An output in pieces, for requests whose last message contains a text."""
    deltas = [*(Delta(text=piece) for piece in pieces), Delta(finish_reason="stop", usage=USAGE)]
    return Recording(Asked(match=match), tuple((0.0, delta) for delta in deltas))


def replay(*outputs: str, size: int = 3) -> Replay:
    """Plays raw outputs, cut into pieces of a few characters, one after another."""
    cut = ([raw[i : i + size] for i in range(0, len(raw), size)] for raw in outputs)
    return Replay(list(map(recorded, cut)), speed=0)


class Live:
    """A running server."""

    def __init__(self, server: Server, engine: Any, key: str | None) -> None:
        self.server = server
        self.engine = engine
        self.connections: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{server.port}"
        # Nothing is encrypted here, and reading certificates would take longer than most tests.
        self.http = httpx2.Client(
            base_url=self.url, timeout=PATIENCE, verify=False, headers={"Content-Type": "application/json"}
        )
        self.openai = openai.OpenAI(
            base_url=f"{self.url}/v1",
            api_key=key or "EMPTY",
            max_retries=0,
            http_client=openai.DefaultHttpxClient(timeout=PATIENCE, verify=False),
        )

    def post(self, path: str = CHAT, **body: Any) -> httpx2.Response:
        """Send a request, and return its answer."""
        return self.http.post(path, content=json.dumps(body).encode())  # allows lone surrogates

    def ok(self, path: str = CHAT, **body: Any) -> httpx2.Response:
        """Send a request that must be answered, and return its answer."""
        answer = self.post(path, **body)
        assert answer.status_code == 200, answer.text
        return answer

    def connect(self) -> socket.socket:
        """A plain connection with a small receive buffer."""
        connection = socket.socket()
        self.connections.append(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", self.server.port))
        return connection

    def request(self, path: str = CHAT, headers: str = "", /, **body: Any) -> socket.socket:
        """A plain connection that has sent a request and read nothing."""
        connection = self.connect()
        payload = json.dumps(body).encode()
        head = f"POST {path} {HEAD}{headers}Content-Length: {len(payload)}\r\n\r\n"
        connection.sendall(head.encode() + payload)
        return connection


@contextlib.contextmanager
def live(
    engine: Engine,
    dialect: str = "deepseek",
    *,
    reasoning: str | None = None,
    port: int = 0,
    prompts: Any = None,
    servers: Sequence[ToolServer] = (),
    approval: Approval | None = None,
    store: Store | None = None,
    telemetry: Any = None,
    **options: Any,
) -> Iterator[Live]:
    """Run a server with tool servers for the duration of the context.

    Other options are those of `Settings` and `Limits`.
    """
    others = options.pop("others", ())
    limits = {k: options.pop(k) for k in list(options) if k in Limits.__struct_fields__}
    settings = Settings(
        model=options.pop("model", "served"),
        dialect=get_dialect(dialect, reasoning),
        limits=Limits(**{"drain": 1.0, **limits}),
        **options,
    )
    tools = Tools(servers, approval)
    app = create_app(settings, engine, prompts, tools, others=others, store=store, telemetry=telemetry)
    server = Server(app, "127.0.0.1", port)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    running = Live(server, engine, settings.api_key)
    try:
        yield running
    finally:
        for connection in running.connections:
            connection.close()
        running.http.close()
        running.openai.close()
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


@contextlib.contextmanager
def running(app: Any) -> Iterator[str]:
    """Run an ASGI application on a free port during the block, and yield its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, ws="none", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextlib.contextmanager
def written(*outputs: str, ids: bool = True, **options: Any) -> Iterator[tuple[Live, Writing]]:
    """A server whose model writes these outputs, one after another, behind the prompts of a chat template."""
    engine = Writing(*outputs, ids=ids)
    with live(engine, "hermes", **{"prompts": template(), **options}) as server:
        yield server, engine


def until(condition: Callable[[], Any], patience: float = PATIENCE) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def both(resource: Any, **ask: Any) -> list[Any]:
    """The whole answer, and the one that the official client's helper puts together from a stream."""
    with resource.stream(**ask) as stream:
        names = ("get_final_message", "get_final_response", "get_final_completion")
        return [resource.create(**ask), next(getattr(stream, name) for name in names if hasattr(stream, name))()]


def agui_events(text: str) -> list[dict[str, Any]]:
    """The events of a run, checked by the protocol's types."""
    events = chunks(text)
    for event in events:
        AGUI_EVENT.validate_python(event)
    return events


def write_lines(file: Path, *lines: dict[str, Any]) -> None:
    """Write a recording."""
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
