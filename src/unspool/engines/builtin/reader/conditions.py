"""Objects without declared keys: *where country is NL and status = active*."""

import re
from typing import Any, Final

from .filling import Filling, named
from .message import Message
from .spans import numbers, quotes, value_of
from .words import SETS

_PAIR: Final = re.compile(r"[\w.-]+")
_WORDS: Final = {"true": True, "false": False}


def conditions(f: Filling) -> None:
    """Give an object without declared keys the keys and values of a message."""
    m = f.message
    p = next((p for p in f.left if p.type == "object" and not p.inner and named(p, SETS["conditions"])), None)
    if p is None:
        return
    found: dict[str, Any] = {}
    for i in range(1, len(m) - 1):
        sign = m.has(i, ("=", ":", "=="))
        led = m.has(i - 2, SETS["before a condition"]) or (found and m.has(i - 2, ("and", ",")))
        said = m.has(i, SETS["equals"]) and led
        if (sign or said) and not any(m.taken[i - 1 : i + 2]) and _PAIR.fullmatch(m.words[i - 1].text):
            found[m.words[i - 1].text], last = _value(m, i + 1)
            m.take(m.span(i - 1 - m.has(i - 2, SETS["before a condition"] | {"and", ","}), last))
    if found:
        f.give(p, found)


def _value(m: Message, i: int) -> tuple[Any, int]:
    """The value that begins at a word, and its end."""
    if whole := next((s for s in quotes(m) if s.first == i), None):
        return whole.value, whole.last
    if number := next((s for s in numbers(m) if s.first == i), None):
        return value_of(number), number.last
    return _WORDS.get(m.words[i].low, m.words[i].text), i + 1
