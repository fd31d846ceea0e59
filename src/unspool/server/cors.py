"""CORS: decides which websites may use the server, and adds the headers that their pages need."""

from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from starlette.types import Message, Scope, Send

from ..regex import Regex
from .replies import client_id

_METHODS: Final = b"GET, POST, OPTIONS"
_EXPOSED: Final = b"x-request-id, retry-after"
_AGE: Final = b"600"  # seconds for which a browser need not ask again
_LOOPBACK: Final = {"localhost", "127.0.0.1", "::1"}

_PLAIN: Final = Regex(r"[ -~]{1,2048}")
"""Values that may be repeated in a header."""

Headers = list[tuple[bytes, bytes]]


def check_origin(origin: str) -> str:
    """Check an origin, in the form that browsers send, or ``*``.

    Raises:
        ValueError: it is neither; names what is allowed.
    """
    if origin == "*":
        return origin
    if _split(origin) is None:
        raise ValueError(f"{origin!r} is not an origin; allowed are SCHEME://HOST[:PORT] without a path, and *")
    return origin.lower()


def _split(origin: str) -> SplitResult | None:
    """The parts of an origin; ``None`` if it has others than a scheme, a host and a port, which browsers never send."""
    try:
        parts = urlsplit(origin)
        plain = f"{parts.scheme}://{parts.netloc}" == origin and parts.hostname and "@" not in parts.netloc
    except ValueError:
        return None
    return parts if plain else None


class Origins:
    """The origins that may use the server: those of the loopback, and those in a list.

    Args:
        allowed: origins as browsers write them; ``*``: any.
    """

    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed = {origin.lower() for origin in allowed}

    def allow(self, origin: str, host: str | None = None) -> bool:
        """Whether pages of this origin may use the server; its own pages, from ``host``, may."""
        if not _PLAIN.fullmatch(origin):
            return False
        if "*" in self._allowed or origin.lower() in self._allowed:
            return True
        parts = _split(origin)
        if parts is None or parts.scheme not in ("http", "https"):
            return False
        # A proxy that terminates TLS changes the scheme, which must not matter.
        return parts.hostname in _LOOPBACK or (host is not None and parts.netloc.lower() == host.lower())


def header(scope: Scope, wanted: bytes) -> str | None:
    """The value of a request's header."""
    for name, value in scope["headers"]:
        if name == wanted:
            return str(value.decode("latin-1"))
    return None


async def preflight(scope: Scope, send: Send, methods: Sequence[str]) -> None:
    """Answer a preflight request, which a browser sends before a page's request."""
    headers: Headers = [(b"allow", ", ".join(methods).encode()), (b"content-length", b"0")]
    if header(scope, b"access-control-request-method") is not None:
        asked = header(scope, b"access-control-request-headers")
        headers += [(b"access-control-allow-methods", _METHODS), (b"access-control-max-age", _AGE)]
        if asked is not None and _PLAIN.fullmatch(asked):
            headers.append((b"access-control-allow-headers", asked.encode()))
        if header(scope, b"access-control-request-private-network") == "true":
            headers.append((b"access-control-allow-private-network", b"true"))
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def with_headers(scope: Scope, send: Send, origin: str | None) -> Send:
    """A ``send`` that adds the headers that a page needs to read an answer, and the client's own id.

    Args:
        scope: the request.
        send: takes messages of ASGI.
        origin: the allowed origin of the page that sent the request; ``None`` if no page sent it.
    """
    id = client_id(scope)
    if origin is None and not id:
        return send
    more: Headers = []
    if origin is not None:
        more += [
            (b"access-control-allow-origin", origin.encode()),
            (b"access-control-expose-headers", _EXPOSED),
            (b"vary", b"origin"),
        ]
    if id:
        more.append((b"x-request-id", id.encode()))

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept: Any = [h for h in message.get("headers", ()) if not (id and h[0].lower() == b"x-request-id")]
            message = {**message, "headers": [*kept, *more]}
        await send(message)

    return sending


__all__ = ["Origins", "check_origin", "header", "preflight", "with_headers"]
