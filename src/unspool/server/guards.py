"""Checks before routing: that the host is this server's, and that a POST has JSON.

A website can make its own name resolve to this machine (DNS rebinding), so that its pages have the same origin as the
server. Only the ``Host`` that the browser sends reveals them. Addresses cannot be rebound.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from starlette.types import Scope

from ..arguments import json_shown
from ..regex import Regex
from ..wire.common import Failure
from .replies import header

_NAME: Final = Regex(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\.?")
_HOST: Final = Regex(r"(?:\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|([^:\[\]@]+))(?::[0-9]{1,5})?")
_LONGEST: Final = 300
_ONCE: Final = (b"host", b"origin", b"content-type")


def check_host(name: str) -> str:
    """Check the name of a host, or ``*``; a `ValueError` names what is allowed."""
    if name != "*" and not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a host; allowed are HOST, without scheme and port, and *")
    return name.lower().rstrip(".")


class Hosts:
    """The hosts by which clients may reach the server: the loopback's names, addresses, and a list (``*``: any)."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed = {"localhost", *allowed}

    def refusal(self, scope: Scope) -> Failure | None:
        """Why a request is refused because of its ``Host``, or ``None``. Browsers always send one.

        A header that decides who may do what may occur once: a proxy may check one of two, and the server the other.
        """
        for once in _ONCE:
            if sum(given == once for given, _ in scope["headers"]) > 1:
                return Failure(f"{once.decode()}: occurs more than once", 400)
        host = header(scope, b"host")
        if host is None or "*" in self._allowed:
            return None
        name = _name(host)
        if name in self._allowed or name.endswith(".localhost") or _is_address(name):
            return None
        return Failure(
            f"the host {json_shown(host[:_LONGEST])} is not this server's; --allowed-host HOST allows it", 403
        )


def _name(host: str) -> str:
    """A host without its port, in lower case; ``""`` if it is none."""
    found = _HOST.fullmatch(host)
    return "" if found is None else (found[1] or found[2]).lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def unsupported(scope: Scope) -> Failure | None:
    """Why a POST is refused because of its ``Content-Type``, or ``None``.

    Browsers let pages of any origin send other types, or none, without a preflight request, but name the page then.
    """
    given = header(scope, b"content-type")
    if given is None and header(scope, b"origin") is None and header(scope, b"sec-fetch-site") is None:
        return None
    if given is not None and given.partition(";")[0].strip().lower() == "application/json":
        return None
    problem = "is missing" if given is None else f"{json_shown(given[:_LONGEST])} is not supported"
    return Failure(f"Content-Type: {problem}; add the header 'Content-Type: application/json'", 415)
