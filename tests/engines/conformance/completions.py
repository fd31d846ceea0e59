"""A server that writes scripted outputs at vLLM's endpoint, over real sockets, for the engine `Upstream`."""

import asyncio
import codecs
import socket
import threading
import zlib
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HTTPRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tests.engines.generation import EOS

PATIENCE: Final = 20.0
NAME: Final = "scripted"
CONTEXT: Final = 20_000
_HELD: Final = 16 * 1024
"""How many bytes the server's side of a socket holds, about."""
_PADDING: Final = b":" + b" " * 4000 + b"\n"
"""A comment in every event, so that a few events fill the client's buffers, whose size is not set here."""
_WORDS: Final = ("stone", "größe", "river", "œuvre", "lamp", "日本", "leaf", "north")


def written(prompt: str) -> Iterator[int]:
    """The bytes of the output after a prompt: words that depend on all of it. It ends after thirty words, unless the
    prompt begins with an exclamation mark."""
    for i in count() if prompt.startswith("!") else range(30):
        yield from f"{_WORDS[zlib.crc32(f'{prompt}{i}'.encode()) % len(_WORDS)]}{i} ".encode()


class Completions:
    """The server; it listens from the start. Each byte is a token.

    Attributes:
        url: its address.
        generated: the number of tokens so far.
        running: how many answers are being written.
        fail_after: after how many more tokens it fails, once.
    """

    def __init__(self) -> None:
        self.generated = self.running = 0
        self.fail_after: int | None = None
        routes = [
            Route("/v1/completions", self._complete, methods=["POST"]),
            Route("/v1/models", self._models),
            Route("/health", self._health),
        ]
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _HELD)  # connections inherit it
        listening.bind(("127.0.0.1", 0))
        listening.listen(512)
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        app = Starlette(routes=routes)
        self._server = uvicorn.Server(
            uvicorn.Config(app, http=_Narrow, ws="none", log_config=None, access_log=False, timeout_graceful_shutdown=1)
        )
        self._thread = threading.Thread(target=self._server.run, args=([listening],), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the server, and wait until it has ended."""
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def tick(self) -> None:
        """Count a token, or fail.

        Raises:
            RuntimeError: it is time to fail.
        """
        if self.fail_after is not None:
            if not self.fail_after:
                self.fail_after = None
                raise RuntimeError("the device is lost")
            self.fail_after -= 1
        self.generated += 1

    # -- answers ---------------------------------------------------------------------------------------------------

    async def _health(self, request: HTTPRequest) -> Response:
        return Response()

    async def _models(self, request: HTTPRequest) -> Response:
        card = {"id": NAME, "object": "model", "owned_by": "vllm", "max_model_len": CONTEXT}
        return JSONResponse({"object": "list", "data": [card]})

    async def _complete(self, request: HTTPRequest) -> "Response | Stream":
        try:
            asked = msgspec.json.decode(await request.body(), type=Asked)
        except msgspec.ValidationError as wrong:
            return _refusal(400, str(wrong))
        if not asked.stream or asked.skip_special_tokens or asked.add_special_tokens:
            return _refusal(400, "this server streams alone, shows special tokens, and adds none to prompts")
        if not 0 < len(asked.prompt) < CONTEXT:
            return _refusal(400, f"The prompt (length {len(asked.prompt)}) is empty, or leaves no room.")
        return Stream(self, asked)


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """A request. The defaults are vLLM's; what the script does not depend on is accepted."""

    prompt: str
    model: str
    stream: bool = False
    stream_options: dict[str, bool] | None = None
    max_tokens: int | None = 16
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    add_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    return_token_ids: bool = False


class Stream:
    """An answer: an event for each token, until the output ends or the client leaves.

    A failure before the first token is an HTTP error; a later one is an event.
    """

    def __init__(self, server: Completions, asked: Asked) -> None:
        self._server = server
        self._asked = asked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._server.running += 1
        work = asyncio.ensure_future(self._answer(scope, receive, send))
        gone = asyncio.ensure_future(receive())  # the body was read, so the next message says that the client has left
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        for task in (work, gone):
            task.cancel()
        await asyncio.wait((work, gone))
        self._server.running -= 1
        if not work.cancelled():
            work.result()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        begin = {"type": "http.response.start", "status": 200, "headers": headers}
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        limit = self._asked.max_tokens or CONTEXT
        told = 0
        try:
            for token in written(self._asked.prompt):
                self._server.tick()
                if not told:
                    await send(begin)
                told += 1
                last = told == limit
                text = decoder.decode(bytes([token]), final=last)
                await send(_event(self._told(text, token, "length" if last else None)))
                await asyncio.sleep(0)
                if last:
                    break
            else:
                await send(_event(self._told("", EOS, "stop")))
                told += 1
        except RuntimeError as error:
            if not told:
                await _refusal(500, str(error))(scope, receive, send)
                return
            await send(_event(_complaint(500, str(error))))
        else:
            if (self._asked.stream_options or {}).get("include_usage"):
                prompt = len(self._asked.prompt.encode())
                counts = {"prompt_tokens": prompt, "completion_tokens": told, "total_tokens": prompt + told}
                await send(_event({**_HEAD, "choices": [], "usage": counts}))
        await send(_event(b"[DONE]", more=False))

    def _told(self, text: str, token: int, reason: str | None) -> dict[str, Any]:
        """The event of a token. The ids include the token that ends an output; the text does so on demand."""
        if token == EOS and self._asked.include_stop_str_in_output:
            text = "<eos>"
        choice: dict[str, Any] = {"index": 0, "text": text, "finish_reason": reason, "stop_reason": None}
        if self._asked.return_token_ids:
            choice |= {"prompt_token_ids": None, "token_ids": [token]}
        return {**_HEAD, "choices": [choice], "usage": None}


_HEAD: Final = {
    "id": "cmpl-8f14e45fceea167a5a36dedd4bea2543",
    "object": "text_completion",
    "created": 1763700000,
    "model": NAME,
}


def _event(value: Any, more: bool = True) -> dict[str, Any]:
    data = value if isinstance(value, bytes) else msgspec.json.encode(value)
    return {"type": "http.response.body", "body": b"%bdata: %b\n\n" % (_PADDING, data), "more_body": more}


def _complaint(status: int, message: str) -> dict[str, Any]:
    kind = "BadRequestError" if status < 500 else "InternalServerError"
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


def _refusal(status: int, message: str) -> Response:
    return JSONResponse(_complaint(status, message), status)


class _Narrow(HttpToolsProtocol):
    """Stops writing as soon as the socket is full."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)
