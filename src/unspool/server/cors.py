"""CORS: decides which websites may use the server. Starlette adds the headers that their pages need."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import SplitResult, urlsplit

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Scope, Send

from ..regex import Regex
from .replies import client_id

_LOOPBACK: Final = {"localhost", "127.0.0.1", "::1"}

_PLAIN: Final = Regex(r"[ -~]{1,2048}")  # values that may be repeated in a header


def check_origin(origin: str) -> str:
    """Check an origin, in the form that browsers send, or ``*``; a `ValueError` names what is allowed."""
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
    """The origins that may use the server: those of the loopback, and those in a list (``*``: any)."""

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


def with_cors(app: ASGIApp) -> ASGIApp:
    """An application that answers preflight requests, and whose answers pages may read.

    The server refuses requests of other origins before they get here, so every origin that does is allowed.
    """
    return CORSMiddleware(
        app,
        allow_origin_regex=".*",
        allow_methods=("GET", "POST", "DELETE", "OPTIONS"),
        allow_headers=("*",),
        allow_private_network=True,
        expose_headers=("x-request-id", "retry-after"),
    )


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
