"""Servers on real sockets that write exactly the bytes that a test chooses, and helpers for the tests."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import msgspec
from anyio.from_thread import start_blocking_portal

from unspool.engines import Delta, EngineError, Request, Sampling
from unspool.engines.upstream import Upstream

PATIENCE = 60.0
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
STREAM = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS = HEAD + b"Connection: close\r\n\r\n"
"""A stream that ends with the connection."""

GENERATE = ("/v1/completions", "/completion", "/generate", "/api/generate")
"""The paths of requests to generate."""


class Asked(msgspec.Struct):
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Connection:
    """One connection of a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *pieces: bytes) -> None:
        """Write pieces, and flush after each."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def stream(self, *pieces: bytes, head: bytes = STREAM) -> None:
        """A whole stream, each piece as a chunk."""
        await self.send(head, *map(chunk, pieces), b"0\r\n\r\n")

    async def json(self, value: Any, status: int = 200, content_type: str = "application/json") -> None:
        """An answer that is not a stream."""
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        head = f"HTTP/1.1 {status} Whatever\r\nContent-Type: {content_type}\r\nContent-Length: {len(data)}\r\n\r\n"
        await self.send(head.encode() + data)

    async def gone(self) -> None:
        """Return when the other side has closed."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass


Answer = Callable[[Connection, Asked], Awaitable[None]]


class Fake:
    """A server.

    Args:
        owner: the owner of the model that it lists.
        answer: answers requests to generate.
        routes: answer requests to other paths.
    """

    def __init__(self, owner: str, answer: Answer, **routes: Answer) -> None:
        self.answer = answer
        self.owner = owner
        self.routes = {"/" + path.replace("__", "/"): route for path, route in routes.items()}
        self.context: int | None = 4096
        self.asked: list[Asked] = []
        self.open = 0
        self.port = 0
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def generated(self) -> list[Asked]:
        """The requests to generate."""
        return [a for a in self.asked if a.path in GENERATE]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Fake"]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            for listening in server.sockets:
                asyncio.get_running_loop().remove_reader(listening.fileno())
            await _turns()  # accepted connections must reach us: asyncio loses them if the server closes first
            server.close()
            serving = dict(self._serving)
            for task, writer in serving.items():
                task.cancel()
                writer.transport.abort()  # closing would wait for the client; a task that never began closes nothing
            await asyncio.gather(*serving, return_exceptions=True)
            await _turns()  # aborted connections are now closed

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(Connection(reader, writer)))
        self._serving[task] = writer
        task.add_done_callback(self._serving.pop)

    async def _serve(self, connection: Connection) -> None:
        self.open += 1
        try:
            head = (await connection.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip().split("\r\n")
            method, path, _ = first.split(" ")
            headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines)}
            body = await connection.reader.readexactly(int(headers.get("content-length", 0)))
            asked = Asked(method, path, headers, json.loads(body) if body else None)
            self.asked.append(asked)
            await self._route(path)(connection, asked)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client left
        finally:
            self.open -= 1
            connection.writer.close()
            with contextlib.suppress(ConnectionError):
                await connection.writer.wait_closed()

    def _route(self, path: str) -> Answer:
        if path in self.routes:
            return self.routes[path]
        if path in GENERATE:
            return self.answer
        return {"/v1/models": self._models, "/health": self._health}.get(path, self._unknown)

    async def _models(self, connection: Connection, asked: Asked) -> None:
        card = {"id": "model-of-it", "object": "model", "owned_by": self.owner, "max_model_len": self.context}
        await connection.json({"object": "list", "data": [card]})

    async def _health(self, connection: Connection, asked: Asked) -> None:
        await connection.json(b"")

    async def _unknown(self, connection: Connection, asked: Asked) -> None:
        await connection.json({"detail": "Not Found"}, 404)


async def _turns() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


def chunk(data: bytes) -> bytes:
    """A chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(value: Any) -> bytes:
    """An event of a stream."""
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def said(text: str, reason: str | None = None, **more: Any) -> bytes:
    """An event of completions."""
    return event({"id": "cmpl-1", "choices": [{"index": 0, "text": text, "finish_reason": reason, **more}]})


DONE = event(b"[DONE]")


def says(*pieces: bytes, head: bytes = STREAM) -> Answer:
    """Answers with a whole stream."""

    async def answer(connection: Connection, asked: Asked) -> None:
        await connection.stream(*pieces, head=head)

    return answer


def tells(body: Any, status: int = 200, content_type: str = "application/json") -> Answer:
    """Answers with one value."""

    async def answer(connection: Connection, asked: Asked) -> None:
        await connection.json(body, status, content_type)

    return answer


def fails(status: int, body: Any = None, content_type: str = "application/json") -> Answer:
    """Answers with an error."""
    return tells({} if body is None else body, status, content_type)


@contextlib.asynccontextmanager
async def connected(*fakes: Fake, **options: Any) -> AsyncIterator[Upstream]:
    """An engine that is connected to running servers."""
    async with contextlib.AsyncExitStack() as stack:
        for fake in fakes:
            await stack.enter_async_context(fake.running())
        engine = Upstream([f.url for f in fakes], **options)
        try:
            yield engine
        finally:
            await engine.close()


F = TypeVar("F", bound=Fake)


@contextlib.contextmanager
def threaded(fake: F) -> Iterator[F]:
    """A server that runs in a thread of its own."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(fake.running()):
        yield fake


def request(prompt: Any = "<s>Hi", **fields: Any) -> Request:
    sampling = {k: fields.pop(k) for k in list(fields) if k in Sampling.__struct_fields__}
    return Request(prompt=prompt, sampling=Sampling(**sampling), **fields)


async def collect(engine: Upstream, asked: Request | None = None) -> list[Delta]:
    return [delta async for delta in engine.generate(asked or request())]


async def fault(engine: Upstream, asked: Request | None = None) -> tuple[str, EngineError]:
    """The text up to an error, and the error."""
    found = ""
    try:
        async for delta in engine.generate(asked or request()):
            found += delta.text
    except EngineError as error:
        return found, error
    raise AssertionError(f"no error after {found!r}")
