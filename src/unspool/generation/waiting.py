"""The text that a parser holds back, and the reason, for displays of how an output is read."""

from typing import Final

import msgspec

from ..dialect.file import Dialect
from ..dialect.template import pieces
from ..parser import Parser

__all__ = ["LONGEST", "Waiting", "waiting"]

_TEMPLATES: Final = ("reasoning", "content", "preamble", "calls", "call", "argument", "item")
LONGEST: Final = 64  # the longest beginning of a marker, in characters
_MOST: Final = 6


class Waiting(msgspec.Struct, frozen=True, omit_defaults=True):
    """Text that was fed, but has no event yet."""

    # start, end: its offsets in the output.
    start: int
    end: int
    # The value of a reason of the ledger (``header``, ``bad call``, …); ``marker``: it may be one or begin one;
    # ``space``: white space that may be beside a marker; ``more``: what follows decides.
    why: str
    may_be: tuple[str, ...] = ()  # the markers that it may become, if any


def waiting(parser: Parser, start: int, end: int, tail: str) -> Waiting:
    """Describe the text that a parser holds back.

    Args:
        parser: a parser that was fed up to ``end``.
        start, end: the offsets of the text without an event; at least one character.
        tail: the last `LONGEST` characters of that text.
    """
    holds = parser._machine.ledger.holds
    if holds:
        return Waiting(start, end, holds[0].why)
    word = tail.strip() if end - start <= LONGEST else ""
    if not word:
        return Waiting(start, end, "more" if end - start > LONGEST else "space")
    markers = parser.dialect.derived("waiting", _markers)
    found = tuple(m for m in markers if m.startswith(word))[:_MOST]
    return Waiting(start, end, "marker" if found else "more", found)


def _markers(dialect: Dialect) -> tuple[str, ...]:
    literals = [p for key in _TEMPLATES for t in getattr(dialect, key) for p in pieces(t.text) if isinstance(p, str)]
    stripped = [p.strip() for p in (*literals, *dialect.end)]
    return tuple(dict.fromkeys(p for p in stripped if p))
