"""Checks before routing: that a website may use the server, by its host and its own origin, and that a POST has JSON.

A website can make its own name resolve to this machine (DNS rebinding), so that its pages have the same origin as the
server. Only the ``Host`` that the browser sends reveals them. Addresses cannot be rebound.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Scope

from ..regex import Regex
from ..validation import json_shown
from ..wire.common import Failure
from .replies import header

_NAME: Final = Regex(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\.?")
_HOST: Final = Regex(r"(?:\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|([^:\[\]@]+))(?::[0-9]{1,5})?")
_LONGEST: Final = 300
_ONCE: Final = (b"host", b"origin", b"content-type")
_LOOPBACK: Final = {"localhost", "127.0.0.1", "::1"}
_PLAIN: Final = Regex(r"[ -~]{1,2048}")  # values that may be repeated in a header


def check_host(name: str) -> str:
    """Check the name of a host, or ``*``; a `ValueError` names what is allowed."""
    if name != "*" and not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a host; allowed are HOST, without scheme and port, and *")
    return name.lower().rstrip(".")


def check_origin(origin: str) -> str:
    """Check an origin, in the form that browsers send, or ``*``; a `ValueError` names what is allowed."""
    if origin != "*" and _split(origin) is None:
        raise ValueError(f"{origin!r} is not an origin; allowed are SCHEME://HOST[:PORT] without a path, and *")
    return origin.lower()


class Guard:
    """Decides whose requests are answered: those to the loopback's names, to addresses and to listed hosts, of pages of
    the loopback and of listed origins (``*``: any)."""

    def __init__(self, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        self._hosts = {"localhost", *hosts}
        self._origins = {origin.lower() for origin in origins}

    def refusal(self, scope: Scope) -> Failure | None:
        """Why a request is refused because of its ``Host``, which browsers always send, or its ``Origin``, or ``None``.

        A header that decides who may do what may occur once: a proxy may check one of two, and the server the other.
        """
        for once in _ONCE:
            if sum(given == once for given, _ in scope["headers"]) > 1:
                return Failure(f"{once.decode()}: occurs more than once", 400)
        host, origin = header(scope, b"host"), header(scope, b"origin")
        if host is not None and not self._knows(host):
            text = f"the host {json_shown(host[:_LONGEST])} is not this server's; --allowed-host HOST allows it"
            return Failure(text, 403)
        if origin is not None and not self.allows(origin, host):
            return Failure(f"pages of {json_shown(origin)} may not use the server; --cors ORIGIN allows them", 403)
        return None

    def _knows(self, host: str) -> bool:
        if "*" in self._hosts:
            return True
        found = _HOST.fullmatch(host)
        name = "" if found is None else (found[1] or found[2]).lower().rstrip(".")
        return name in self._hosts or name.endswith(".localhost") or _is_address(name)

    def allows(self, origin: str, host: str | None) -> bool:
        """Whether pages of this origin may use the server; its own pages, from ``host``, may."""
        if not _PLAIN.fullmatch(origin):
            return False
        if "*" in self._origins or origin.lower() in self._origins:
            return True
        parts = _split(origin)
        if parts is None or parts.scheme not in ("http", "https"):
            return False
        # A proxy that terminates TLS changes the scheme, which must not matter.
        return parts.hostname in _LOOPBACK or (host is not None and parts.netloc.lower() == host.lower())


def _split(origin: str) -> SplitResult | None:
    """The parts of an origin; ``None`` if it has others than a scheme, a host and a port, which browsers never send."""
    try:
        parts = urlsplit(origin)
        plain = f"{parts.scheme}://{parts.netloc}" == origin and parts.hostname and "@" not in parts.netloc
    except ValueError:
        return None
    return parts if plain else None


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


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


def unsupported(scope: Scope) -> Failure | None:
    """Why a POST is refused because of its ``Content-Type`` or ``Content-Encoding``, or ``None``.

    Browsers let pages of any origin send other types, or none, without a preflight request, but name the page then.
    """
    encodings = b",".join(value for name, value in scope["headers"] if name == b"content-encoding").decode("latin-1")
    if any(each.strip().lower() not in ("", "identity") for each in encodings.split(",")):
        shown = json_shown(encodings[:_LONGEST])
        return Failure(f"Content-Encoding: {shown} is not supported; send the body as it is", 415)
    given = header(scope, b"content-type")
    if given is None and header(scope, b"origin") is None and header(scope, b"sec-fetch-site") is None:
        return None
    if given is not None and given.partition(";")[0].strip().lower() == "application/json":
        return None
    problem = "is missing" if given is None else f"{json_shown(given[:_LONGEST])} is not supported"
    return Failure(f"Content-Type: {problem}; add the header 'Content-Type: application/json'", 415)
