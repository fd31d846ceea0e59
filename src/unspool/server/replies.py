"""HTTP answers over ASGI: `Reply` is a whole one, `StreamReply` a stream of server-sent events."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.types import Message, Receive, Scope, Send

from ..regex import Regex
from ..wire import sse
from ..wire.common import Failure

JSON: Final = "application/json"
ErrorBody = Callable[[Failure], bytes]  # writes the body of an answer that is an error, in the form of a protocol

_ID: Final = Regex(r"[!-~]{1,128}")  # the form of accepted request ids: visible ASCII


def header(scope: Scope, wanted: bytes) -> str | None:
    for name, value in scope["headers"]:
        if name == wanted:
            return str(value.decode("latin-1"))
    return None


def client_id(scope: Scope) -> str:
    """The client's own id of a request (``X-Request-Id``); empty if there is none."""
    text = header(scope, b"x-request-id")
    return text if text is not None and _ID.fullmatch(text) else ""


def with_id(scope: Scope, send: Send) -> Send:
    """A ``send`` that reports the client's own id of a request instead of ours."""
    id = client_id(scope)
    if not id:
        return send

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [h for h in message.get("headers", ()) if h[0].lower() != b"x-request-id"]
            message = {**message, "headers": [*kept, (b"x-request-id", id.encode())]}
        await send(message)

    return sending


class Reply(msgspec.Struct, frozen=True):
    """A whole answer. With ``close``, the connection is closed afterwards, because the request was not read."""

    body: bytes
    status: int = 200
    media_type: str = JSON
    request_id: str = ""
    retry_after: int | None = None
    allow: str = ""
    close: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all of it, as an ASGI application."""
        await self.send(send)

    async def send(self, send: Send) -> None:
        headers = [(b"content-type", self.media_type.encode()), (b"content-length", b"%d" % len(self.body))]
        if self.request_id:
            headers.append((b"x-request-id", self.request_id.encode()))
        if self.retry_after is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after))
        if self.allow:
            headers.append((b"allow", self.allow.encode()))
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if self.close:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def failed(error_body: ErrorBody, failure: Failure, request_id: str = "", *, close: bool = False) -> Reply:
    return Reply(
        error_body(failure),
        failure.status,
        request_id=request_id,
        retry_after=failure.retry_after,
        allow=failure.allow,
        close=close,
    )


_STREAM_HEADERS: Final = [
    (b"content-type", sse.MEDIA_TYPE.encode() + b"; charset=utf-8"),
    *((name.encode(), value.encode()) for name, value in sse.HEADERS.items()),
]


class StreamReply:
    """A stream of server-sent events; a `Sink` of `unspool.generation.outbox`. The head goes with the first bytes."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._head: dict[str, Any] | None = {
            "type": "http.response.start",
            "status": 200,
            "headers": [*_STREAM_HEADERS, (b"x-request-id", request_id.encode())],
        }

    @property
    def begun(self) -> bool:
        return self._head is None

    def write(self, data: bytes) -> Awaitable[None]:
        body = {"type": "http.response.body", "body": data, "more_body": True}
        return self._send(body) if self._head is None else self._first(self._head, body)

    def end(self) -> Awaitable[None]:
        return self._send({"type": "http.response.body", "body": b""})

    async def _first(self, head: dict[str, Any], body: dict[str, Any]) -> None:
        self._head = None
        await self._send(head)
        await self._send(body)
