"""The two sides of a conversion or a journey."""

import re
from typing import Final

from .message import Message, Span
from .words import NUMBERS, SETS

_DIGIT: Final = re.compile(r"\d$")
_AMOUNT: Final = re.compile(r"[$€£]?\d")


def sided(m: Message, spans: list[Span], side: str) -> Span | None:
    """Among units, currencies or languages, the source (``from``) or the target (``to``) of a conversion."""
    measured = [s for s in spans if _measured(m, s)]
    rest = [s for s in spans if s not in measured]
    if side == "from":
        if len(spans) == 1 and not measured:
            return None
        return next(iter(measured or [s for s in spans if not m.has(s.first - 1, SETS["turned into"])]), None)
    asked = [s for s in rest if m.has(s.first - 1, SETS["asked unit"]) or s is spans[-1]]
    return next(reversed(asked or rest), None)


def _measured(m: Message, s: Span) -> bool:
    """Whether a number is given in this unit."""
    if s.first < len(m) and _AMOUNT.match(m.words[s.first].low):
        return True
    if s.first == 0:
        return False
    before = m.words[s.first - 1].low
    return bool(_DIGIT.search(before)) or before in NUMBERS or before in SETS["measured"]
