"""A server with ``/v1/completions`` like vLLM's, around a model in the batching loop, with real sockets.

Unlike vLLM, it stops an output whose client does not read, buffers little for it, and refuses unknown fields.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, Final

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HTTPRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from tokenizers import Tokenizer
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tests.engines.batching.support import Watched
from unspool.engines import Delta, EngineError, Request, Sampling
from unspool.engines.batching import Batching

PATIENCE: Final = 20.0
NAME: Final = "babble"
_HELD: Final = 16 * 1024
"""How many bytes the server's side of a socket holds, about."""
_PADDING: Final = b":" + b" " * 4000 + b"\n"
"""A comment in every event, so that a few events fill the client's buffers, whose size is not set here."""


class Completions:
    """The server; it listens from the start.

    Args:
        model: the model. Its tokenizer gets an end that is no token, so that the loop reports the token that ends an
            output, as vLLM does.
        slots: how many outputs are generated at once.
        ahead: how many pieces the loop may be ahead of a client, without those in the sockets.

    Attributes:
        url: its address.
        engine: the engine that it serves.
    """

    def __init__(self, model: Watched, *, slots: int, ahead: int) -> None:
        model.tokenizer = Tokenizer.from_str(model.tokenizer.to_str())
        model.tokenizer.eos_token_id = -1
        self.engine = Batching(model, slots=slots, ahead=ahead)
        self._model = model
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
        app = Starlette(routes=routes, lifespan=self._lifespan)
        self._server = uvicorn.Server(
            uvicorn.Config(app, http=_Narrow, ws="none", log_config=None, access_log=False, timeout_graceful_shutdown=1)
        )
        self._thread = threading.Thread(target=self._server.run, args=([listening],), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the server and the loop, and wait until they have ended."""
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        await self.engine.close()

    # -- answers ---------------------------------------------------------------------------------------------------

    async def _health(self, request: HTTPRequest) -> Response:
        return Response()

    async def _models(self, request: HTTPRequest) -> Response:
        card = {"id": NAME, "object": "model", "owned_by": "vllm", "max_model_len": self._model.context}
        return JSONResponse({"object": "list", "data": [card]})

    async def _complete(self, request: HTTPRequest) -> "Response | Stream":
        try:
            asked = msgspec.json.decode(await request.body(), type=Asked)
        except msgspec.ValidationError as wrong:
            return _refusal(400, str(wrong))
        if asked.model not in (None, NAME):
            return _refusal(404, f"The model `{asked.model}` does not exist.")
        if not asked.stream or asked.skip_special_tokens or asked.add_special_tokens:
            return _refusal(400, "this server streams alone, shows special tokens, and adds none to prompts")
        sampling = Sampling(**{name: getattr(asked, name) for name in Sampling.__struct_fields__})
        wanted = Request(prompt=asked.prompt, sampling=sampling, max_tokens=asked.max_tokens)
        return Stream(asked, self.engine.generate(wanted), self._model.tokenizer)


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """A request. The defaults are vLLM's."""

    prompt: str | list[int]
    model: str | None = None
    stream: bool = False
    stream_options: dict[str, bool] | None = None
    max_tokens: int | None = 16
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    logprobs: int | None = None
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    add_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    return_token_ids: bool = False


class Stream:
    """An answer: the pieces of an output as events, until it ends or the client leaves.

    A failure before the first piece is an HTTP error; a later one is an event.
    """

    def __init__(self, asked: Asked, pieces: AsyncGenerator[Delta, None], tokenizer: Any) -> None:
        self._asked = asked
        self._pieces = pieces
        self._tokenizer = tokenizer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        work = asyncio.ensure_future(self._answer(scope, receive, send))
        gone = asyncio.ensure_future(receive())  # the body was read, so the next message says that the client has left
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        for task in (work, gone):
            task.cancel()
        await asyncio.wait((work, gone))
        await self._pieces.aclose()
        if not work.cancelled():
            work.result()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            piece = await anext(self._pieces)
        except EngineError as error:
            await _refusal(error.status, str(error))(scope, receive, send)
            return
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        usage = None
        try:
            await send(_event(self._told(piece)))
            usage = piece.usage
            async for piece in self._pieces:
                await send(_event(self._told(piece)))
                usage = piece.usage
        except EngineError as error:
            await send(_event(_complaint(error.status, str(error))))
        if usage is not None and (self._asked.stream_options or {}).get("include_usage"):
            counts = {
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            }
            await send(_event({**_HEAD, "choices": [], "usage": counts}))
        await send(_event(b"[DONE]", more=False))

    def _told(self, piece: Delta) -> dict[str, Any]:
        """The event of a piece. The ids include the token that ends an output; the text does so on demand."""
        text = piece.text
        if piece.finish_reason == "stop" and not self._asked.include_stop_str_in_output:
            text = text.removesuffix(self._tokenizer.decode(piece.token_ids, skip_special_tokens=False))
        choice = {
            "index": 0,
            "text": text,
            "logprobs": None if self._asked.logprobs is None else _logprobs(piece.logprobs),
            "finish_reason": piece.finish_reason,
            "stop_reason": None,
        }
        if self._asked.return_token_ids:
            choice |= {"prompt_token_ids": None, "token_ids": piece.token_ids}
        return {**_HEAD, "choices": [choice], "usage": None}


_HEAD: Final = {
    "id": "cmpl-8f14e45fceea167a5a36dedd4bea2543",
    "object": "text_completion",
    "created": 1763700000,
    "model": NAME,
}


def _logprobs(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Entries as in completions. The chosen token is always among the alternatives."""
    return {
        "text_offset": [0] * len(entries),
        "tokens": [e["token"] for e in entries],
        "token_logprobs": [e["logprob"] for e in entries],
        "top_logprobs": [{t["token"]: t["logprob"] for t in (*e["top_logprobs"], e)} for e in entries],
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
