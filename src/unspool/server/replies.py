"""Answers that are not streamed, as ASGI's messages."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.types import Scope

from ..regex import Regex
from ..wire import sse
from ..wire.common import Failure
from .protocols import Protocol

JSON: Final = "application/json"


_ID: Final = Regex(r"[!-~]{1,128}")
"""What is taken for the id of a request: so many visible characters of ASCII at most."""


def client_id(scope: Scope) -> str:
    """The client's own id of a request (``X-Request-Id``), else nothing."""
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text = value.decode("latin-1")
            return text if _ID.fullmatch(text) else ""
    return ""


class Reply(msgspec.Struct, frozen=True):
    """A whole answer.

    Attributes:
        body: its bytes.
        status: HTTP's.
        media_type: of the body.
        request_id: told in a header, where there is one.
        retry_after: seconds, told in a header.
        close: whether the connection ends with it, as the request has not been read.
    """

    body: bytes
    status: int = 200
    media_type: str = JSON
    request_id: str = ""
    retry_after: int | None = None
    close: bool = False

    async def send(self, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        """Send all of it."""
        headers = [(b"content-type", self.media_type.encode()), (b"content-length", b"%d" % len(self.body))]
        if self.request_id:
            headers.append((b"x-request-id", self.request_id.encode()))
        if self.retry_after is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after))
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if self.close:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def failed(protocol: Protocol, failure: Failure, request_id: str = "") -> Reply:
    """An answer that is an error."""
    return Reply(protocol.error_body(failure), failure.status, request_id=request_id, retry_after=failure.retry_after)


_STREAM_HEADERS: Final = [
    (b"content-type", sse.MEDIA_TYPE.encode() + b"; charset=utf-8"),
    *((name.encode(), value.encode()) for name, value in sse.HEADERS.items()),
]


def stream_start(request_id: str) -> dict[str, Any]:
    """What begins a stream of server-sent events."""
    headers = [*_STREAM_HEADERS, (b"x-request-id", request_id.encode())]
    return {"type": "http.response.start", "status": 200, "headers": headers}
