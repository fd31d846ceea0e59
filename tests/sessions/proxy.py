"""A proxy between a server and its engine, which records what the engine was sent and what it sampled."""

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from anyio.from_thread import start_blocking_portal


class Sampling(msgspec.Struct):
    """What an engine was sent, and what it sampled."""

    prompt: list[int]
    ids: list[int]
    logprobs: list[float]


_GENERATE = ("/completion", "/v1/completions", "/generate", "/inference/v1/generate", "/v1/chat/completions")
_PROMPTS = ("prompt", "input_ids", "token_ids", "messages")


@contextlib.contextmanager
def serving(app: web.Application) -> Iterator[str]:
    """A server in a thread; its URL."""

    @contextlib.asynccontextmanager
    async def running() -> AsyncIterator[str]:
        runner = web.AppRunner(app, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        await runner.cleanup()

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(running()) as url:
        yield url


class Proxy:
    """Passes requests on to an engine, byte by byte.

    Args:
        url: the engine's base URL.

    Attributes:
        url: its own.
        record: the outputs, in the order in which they were requested, as the engine reported them.
        bodies: the requests to generate.
        answers: the bytes of the answers to them.
        hidden: how many tokens the engine left out.
    """

    def __init__(self, url: str) -> None:
        self._engine = url
        self.url = ""
        self.record: list[Sampling] = []
        self.bodies: list[dict[str, Any]] = []
        self.answers: list[bytearray] = []
        self.hidden = 0

    @contextlib.contextmanager
    def running(self) -> "Iterator[Proxy]":
        app = web.Application(client_max_size=1 << 26)
        app.cleanup_ctx.append(self._client_of)
        app.router.add_route("*", "/{path:.*}", self._pass)
        with serving(app) as self.url:
            yield self

    async def _client_of(self, app: web.Application) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(auto_decompress=False) as self._client:
            yield

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {k: v for k, v in request.headers.items() if k.lower() not in ("host", "content-length")}
        async with self._client.request(
            request.method, self._engine + request.path_qs, data=body or None, headers=headers
        ) as answer:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            reader, copy = None, bytearray()
            if request.path in _GENERATE and answer.status == 200:
                asked = json.loads(body)
                self.bodies.append(asked)
                self.answers.append(copy)
                reader = _Reader(Sampling(next(asked[f] for f in _PROMPTS if f in asked), [], []))
                self.record.append(reader.sampled)
            async for chunk in answer.content.iter_any():
                copy += chunk
                if reader is not None:
                    self.hidden += reader.feed(chunk)
                await response.write(chunk)
            await response.write_eof()
            return response


class _Reader:
    """Reads the tokens of a stream, as llama.cpp's ``/completion`` and vLLM's ``/v1/completions`` write them."""

    def __init__(self, sampled: Sampling) -> None:
        self.sampled = sampled
        self._left = b""

    def feed(self, chunk: bytes) -> int:
        """Take some bytes, and return how many tokens were left out in them."""
        *whole, self._left = (self._left + chunk).split(b"\n\n")
        hidden = 0
        for event in whole:
            data = event.removeprefix(b"data: ").strip()
            if not data or data == b"[DONE]":
                continue
            found = json.loads(data)
            if "choices" in found:
                for choice in found["choices"]:
                    self.sampled.ids += choice.get("token_ids") or []
                    reported = choice.get("logprobs") or {}
                    listed = [entry["logprob"] for entry in reported.get("content") or ()]
                    self.sampled.logprobs += reported.get("token_logprobs") or listed
                continue
            self.sampled.ids += found.get("tokens", [])
            self.sampled.logprobs += [p["logprob"] for p in found.get("completion_probabilities", [])]
            hidden = max(hidden, found["tokens_predicted"] - len(self.sampled.ids))
        return hidden
