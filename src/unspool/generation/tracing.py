"""`Trace`: reports how each piece of an output was read, for the explain page."""

from collections.abc import Sequence
from typing import Any, Final

from ..dialect.file import Dialect
from ..dialect.registry import get_dialect, list_dialects
from ..dialect.template import pieces
from ..errors import UnknownDialect
from ..events import Event
from ..parser import Parser

_TEMPLATES: Final = ("reasoning", "content", "preamble", "calls", "call", "argument", "item")
_LONGEST: Final = 64  # the longest beginning of a marker, in characters
_MOST: Final = 6  # how many markers are named


class Trace:
    """Follows a new parser, which it only observes."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._fed = self._said = 0
        self._tail = ""

    def step(self, text: str, events: Sequence[Event]) -> dict[str, Any]:
        """Report how a piece was read, as JSON: the events that the parser returned for it, the stage after it, and
        the text that is held."""
        self._fed += len(text)
        if events:
            self._said = max(events[-1].end, self._said)
        self._tail = (self._tail + text)[-_LONGEST:]
        held = {"held": self._held(self._fed - self._said)} if self._fed > self._said else {}
        return {"events": events, "stands": self._parser.stage, **held}

    def _held(self, count: int) -> dict[str, Any]:
        """The text at the end that has no event yet: its offsets, and why it waits, which is a reason of the ledger
        (``header``, ``bad call``, …), ``marker``: it may be one, or begin one (``may_be``), ``space``: white space that
        may be beside a marker, or ``more``: what follows decides."""
        held: dict[str, Any] = {"start": self._said, "end": self._fed}
        if holds := self._parser._machine.ledger.holds:
            return {**held, "why": holds[0].why}
        if count > _LONGEST:
            return {**held, "why": "more"}
        word = self._tail[-count:].strip()
        if not word:
            return {**held, "why": "space"}
        markers = self._parser.dialect.derived("waiting", _markers)
        found = [m for m in markers if m.startswith(word)][:_MOST]
        return {**held, "why": "marker", "may_be": found} if found else {**held, "why": "more"}


def _markers(dialect: Dialect) -> tuple[str, ...]:
    literals = [p for key in _TEMPLATES for t in getattr(dialect, key) for p in pieces(t.text) if isinstance(p, str)]
    stripped = [p.strip() for p in (*literals, *dialect.end)]
    return tuple(dict.fromkeys(p for p in stripped if p))


def named(dialect: Dialect) -> tuple[str, str | None, str]:
    """The dialect of a recording: its name, the name of the dialect with its reasoning, and the text of its file.

    The last two are empty if they are not needed: if the reasoning is its own, and if its file is shipped.
    """
    try:
        known = get_dialect(dialect.name)
    except UnknownDialect:
        known = None
    if known is dialect:
        return dialect.name, None, ""
    if known is not None and known.file == dialect.file:
        others = (d.name for d in list_dialects() if d.reasoning == dialect.reasoning)
        return dialect.name, next(others, None), ""
    return dialect.name, None, dialect.file[1]
