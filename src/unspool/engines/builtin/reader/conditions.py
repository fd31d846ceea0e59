"""Conditions: objects without declared keys, *where country is NL and status = active*, and lists of comparisons."""

import re
from typing import Any, Final

from .filling import Filling, named
from .message import Message
from .prompt import NUMERIC
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


def comparisons(f: Filling) -> None:
    """Give a list of objects with a name, a sign and a value the comparisons of a message: *age > 21*."""
    m = f.message
    for p in [p for p in f.left if p.type == "array"]:
        signs = [q for q in p.inner if {"=", "<", ">", "=="} & {*map(str, q.choices)}]
        key, value = [q for q in p.inner if q not in signs] if len(p.inner) == 3 and signs else (None, None)
        if key is None or value is None or key.type != "string" or value.type not in ("string", "any", *NUMERIC):
            continue
        found: list[dict[str, Any]] = []
        for i in range(1, len(m) - 1):
            if m.words[i].text in signs[0].choices and not any(m.taken[i - 1 : i + 2]):
                given, last = _value(m, i + 1)
                if value.type in NUMERIC and not isinstance(given, (int, float)):
                    continue
                given = given if value.type != "string" else m.said(i + 1, last).strip("'\"")
                found.append({key.name: m.words[i - 1].text, signs[0].name: m.words[i].text, value.name: given})
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
