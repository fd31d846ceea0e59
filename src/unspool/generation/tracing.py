"""`Trace`: reports how each piece of an output was read, for the explain page."""

from collections.abc import Sequence
from typing import Any

from ..dialect.file import Dialect
from ..dialect.registry import get_dialect, list_dialects
from ..errors import UnknownDialect
from ..events import Event
from ..parser import Parser
from ..wire.trace import step
from .waiting import LONGEST, waiting


class Trace:
    """Follows a new parser, which it only observes."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._fed = self._said = 0
        self._tail = ""

    def step(self, text: str, events: Sequence[Event]) -> dict[str, Any]:
        """Report how a piece was read: the text that the parser was fed, and the events that it returned."""
        self._fed += len(text)
        if events:
            self._said = max(events[-1].end, self._said)
        waits = self._fed - self._said
        self._tail = (self._tail + text)[-LONGEST:]
        held = None
        if waits > 0:
            held = waiting(self._parser, self._said, self._fed, self._tail[-waits:])
        return step(events, self._parser.stage, held)


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
