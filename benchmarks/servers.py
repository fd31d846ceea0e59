"""Servers to measure, each in its own process: ``python -m benchmarks.servers NAME``.

``bare`` is the most that starlette and uvicorn can do: it streams prepared bytes. ``fastapi`` is a typical server: the
request and each chunk are pydantic models. ``unspool`` is ours. All three get the same chunks from a source that is
never late, answer the same request and send as many events; only unspool parses.

The process prints its port, then answers each line on standard input: its processor time in seconds and its memory in
bytes.
"""

import asyncio
import logging
import random
import re
import resource
import sys
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import fastapi
import msgspec
import pydantic
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import StreamingResponse
from starlette.routing import Route

import unspool
from unspool.engines import Delta, Request
from unspool.server import Limits, Settings, create_app
from unspool.wire import ChatWriter

PATH: Final = "/v1/chat/completions"
CHUNKS: Final = 200
DIALECT: Final = "deepseekv31"
TICK: Final = 0.05  # seconds between two chunks of a stream that ticks

_WORDS: Final = ("the", "wind", "has", "turned", "so", "boats", "stay", "in", "their", "harbour", "until", "morning")


def pieces() -> list[str]:
    """An output in `CHUNKS` pieces of one word: a third is reasoning, a third content, and a third a call."""
    text = "".join([f" {_WORDS[i % len(_WORDS)]}" for i in range(CHUNKS // 3)])
    call = {"function": {"name": "write", "arguments": {"text": text}}}
    message = {"role": "assistant", "reasoning_content": text, "content": text, "tool_calls": [call]}
    raw = unspool.render(message, DIALECT, tools=TOOLS, stage="reasoning")
    words = re.split("(?= )", raw)
    return [*words[: CHUNKS - 1], "".join(words[CHUNKS - 1 :])]


def frames(texts: list[str]) -> list[bytes]:
    """The bytes that the client gets for each piece, made by our parser and writer."""
    writer = ChatWriter(id="chatcmpl-0", model="served", created=0)
    parser = unspool.Parser(DIALECT, tools=TOOLS, stage="reasoning")
    parts = [writer.events(0, parser.feed(text)) for text in texts]
    return [writer.start(), *[p for p in parts if p], writer.events(0, parser.close("stop")) + writer.finish()]


TOOLS: Final[list[Any]] = [
    {
        "type": "function",
        "function": {
            "name": "write",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        },
    }
]
BODY: Final = msgspec.json.encode(
    {
        "model": "served",
        "messages": [{"role": "user", "content": "Write down what the harbour looks like."}],
        "tools": TOOLS,
        "stream": True,
        "thinking": True,
    }
)


async def source(kind: str) -> AsyncIterator[str]:
    """The pieces of an output: as fast as they are read, at intervals, or one piece and then none for an hour."""
    if kind == "flood":
        for text in PIECES:
            yield text
    elif kind == "turns":
        for text in PIECES:
            await asyncio.sleep(0)
            yield text
    elif kind == "tick":
        await asyncio.sleep(1 + random.random())  # all streams have begun, and they neither tick nor end together
        for _ in range(40):
            await asyncio.sleep(TICK)
            yield f"{time.monotonic_ns()} "  # the client reads the same clock
    else:
        yield "idle"
        await asyncio.sleep(3600)


PIECES: Final = pieces()


# -- bare --------------------------------------------------------------------------------------------------------------


def bare(kind: str) -> Any:
    """Prepared bytes, which is the limit."""
    made = frames(PIECES)

    async def constant() -> AsyncIterator[bytes]:
        if kind == "tick":
            async for text in source(kind):
                yield b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % text.encode()
            return
        rest = iter(made)
        async for _ in source(kind):
            yield next(rest, b": nothing\n\n")
        yield b"".join(rest)

    async def answer(request: HttpRequest) -> StreamingResponse:
        await request.body()
        return StreamingResponse(constant(), media_type="text/event-stream")

    return Starlette(routes=[Route(PATH, answer, methods=["POST"])])


# -- fastapi -----------------------------------------------------------------------------------------------------------


class _Function(pydantic.BaseModel):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(pydantic.BaseModel):
    type: str = "function"
    function: _Function


class _Message(pydantic.BaseModel):
    role: str
    content: str | None = None


class _Body(pydantic.BaseModel):
    model: str
    messages: list[_Message]
    tools: list[_Tool] | None = None
    stream: bool = False


class _Delta(pydantic.BaseModel):
    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None


class _Choice(pydantic.BaseModel):
    index: int
    delta: _Delta
    logprobs: Any = None
    finish_reason: str | None = None


class _Chunk(pydantic.BaseModel):
    id: str
    object: str = "chat.completion.chunk"
    created: int
    model: str
    choices: list[_Choice]


def typical(kind: str) -> Any:
    """FastAPI and pydantic. Every piece is content, and nothing is parsed."""
    app = fastapi.FastAPI()

    async def chunks(body: _Body) -> AsyncIterator[str]:
        created = int(time.time())
        async for text in source(kind):
            choice = _Choice(index=0, delta=_Delta(content=text))
            chunk = _Chunk(id="chatcmpl-0", created=created, model=body.model, choices=[choice])
            yield f"data: {chunk.model_dump_json(exclude_unset=True)}\n\n"
        yield "data: [DONE]\n\n"

    @app.post(PATH)
    async def answer(body: _Body) -> StreamingResponse:
        return StreamingResponse(chunks(body), media_type="text/event-stream")

    return app


# -- unspool -----------------------------------------------------------------------------------------------------------


class _Source:
    """The source as an engine."""

    tokenizer: Any = None

    def __init__(self, kind: str) -> None:
        self._kind = kind

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        """The pieces."""
        async for text in source(self._kind):
            yield Delta(text=text)
        yield Delta(finish_reason="stop")

    async def health(self) -> None:
        """The source is always healthy."""

    async def close(self) -> None:
        """There is nothing to close."""


def ours(kind: str) -> Any:
    """unspool's server."""
    limits = Limits(generations=1000)
    settings = Settings(model="served", dialect=unspool.get_dialect(DIALECT), limits=limits)
    return create_app(settings, _Source(kind))


SERVERS: Final[dict[str, Callable[[str], Any]]] = {"bare": bare, "fastapi": typical, "unspool": ours}


def main(name: str, kind: str) -> None:
    """Serve until standard input ends."""
    config = uvicorn.Config(
        SERVERS[name](kind),
        port=0,
        access_log=False,
        log_level="warning",
        loop="uvloop",
        http="httptools",
        ws="none",
        backlog=2048,
    )
    server = uvicorn.Server(config)

    def report() -> None:
        while not server.started:
            time.sleep(0.01)
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)
        for _ in sys.stdin:
            memory = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
            print(time.process_time(), memory, flush=True)
        server.should_exit = True

    logging.disable(logging.WARNING)  # streams that only tick end within their reasoning
    threading.Thread(target=report, daemon=True).start()
    server.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
