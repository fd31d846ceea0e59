"""Postal addresses, for tools that take their parts: *14 Rue Cler, Paris 75007*, *Lindenweg 4, 79098 Freiburg*."""

import re
from typing import Final, NamedTuple

from .filling import Filling, own_parts
from .message import Message
from .prompt import Parameter, Tool
from .words import CURRENCIES, SETS

_NUMBER: Final = re.compile(r"\d+[a-z]?")
_PART: Final = re.compile(r",\s*([^,.?!;]+)")
_POSTAL: Final = re.compile(
    r"\b(?:\d{3}[ -]\d{2,4}|\d{4} ?[A-Z]{2}|\d{4,6}(?:-\d{3,4})?"
    r"|[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}|[A-Z]\d[A-Z] ?\d[A-Z]\d)\b"
)
_STATE: Final = re.compile(r"\b[A-Z]{2}\b")
_NAME: Final = re.compile(r"[^\W\d_][\w'-]+(?:\.? [A-Z][\w'-]*)*")
_NAMES: Final = (("city", "town"), ("state", "province"), ("country",))
"""The words for the places of an address, in the order in which it names them."""
_WAY: Final = 4
"""The most words of a street's name in lower case."""


class _Address(NamedTuple):
    """An address, and the words that it has."""

    first: int
    last: int
    street: str
    more: str
    postal: str
    places: list[str]


def addressed(f: Filling) -> None:
    """Give a street and the other parts of an address, which belong together, their values."""
    groups: dict[str, list[Parameter]] = {}
    for p in f.left:
        if p.type in ("string", "any", "integer") and not p.choices:
            groups.setdefault(p.name.rpartition(".")[0], []).append(p)
    for group in groups.values():
        streets = [p for p in group if not SETS["streets"].isdisjoint(own_parts(p)) and "email" not in p.name]
        others = [p for p in group if p not in streets and _part(p)]
        found = address(f.message) if streets and others else None
        if found is None:
            continue
        f.message.take(f.message.span(found.first, found.last))
        f.give(streets[0], found.street if streets[1:] or not found.more else f"{found.street}, {found.more}")
        if streets[1:] and found.more:
            f.give(streets[1], found.more)
        _give(f, others, found)


def _give(f: Filling, others: list[Parameter], found: _Address) -> None:
    """Give the places, in order, and the postal code. A code of two letters is a state."""
    kinds = {_part(p): p for p in others}
    if found.postal and (postal := kinds.get("postal")):
        whole = postal.type == "integer"
        if not whole or found.postal.isdigit():
            f.give(postal, int(found.postal) if whole else found.postal)
    places = list(found.places)
    for names in _NAMES:
        p = kinds.get(names[0])
        if not places or p is None:
            continue
        coded = next((i for i, place in enumerate(places) if _STATE.fullmatch(place)), 0) if names[0] == "state" else 0
        few = p.optional and names[0] == "state" and not _STATE.fullmatch(places[coded]) and len(places) == 1
        if not (few and "country" in kinds):
            f.give(p, places.pop(coded))


def _part(p: Parameter) -> str:
    """The part of an address that a parameter is: ``postal``, or the first of its `_NAMES`; empty if it is none."""
    own = {*own_parts(p)}
    if own & SETS["postal"]:
        return "postal"
    return next((names[0] for names in _NAMES if own & {*names}), "")


def takes_address(tool: Tool) -> bool:
    """Whether a tool takes an address in parts."""
    parts = [p for q in tool.parameters for p in (q.inner or (q,))]
    return any(map(_part, parts)) and any(not SETS["streets"].isdisjoint(own_parts(p)) for p in parts)


def address(m: Message) -> _Address | None:
    """The first address of a message: a street with a number and, after a comma, a town."""
    for i in range(len(m)) if "," in m.at else ():
        last = _street(m, i)
        if last == i or not m.has(last, (",",)):
            continue
        more, postal, end = [], "", m.words[last].start
        places: list[str] = []
        while part := _PART.match(m.text, end):
            said = part[1]
            code = next((c for c in _POSTAL.finditer(said) if not postal), None)
            if not places and any(said.lower().startswith(w) for w in SETS["inside a house"]):
                more.append(said.strip())
                end = part.end()
                continue
            rest = said if code is None else f"{said[: code.start()]} {said[code.end() :]}"
            state = _STATE.search(rest) if places or rest.split()[1:] else None
            named = _NAME.match(rest.replace(state[0], " ", 1).strip() if state else rest.strip())
            if named and (places or m.words[last - 1].low not in SETS["ways"]) and not named[0][0].isupper():
                named = None
            if code is None and state is None and named is None:
                break
            postal = code[0] if code else postal
            places += [text for text in (named and named[0], state and state[0]) if text]
            stop = max(said.find(text) + len(text) for text in (*places, postal) if text and text in said)
            end = part.end() if not said[stop:].strip() else part.start(1) + stop
            if said[stop:].strip():
                break
        if places or postal:
            words = [k for k, w in enumerate(m.words) if w.start < end]
            return _Address(i, words[-1] + 1, m.said(i, last), ", ".join(more), postal, places)
    return None


def _street(m: Message, i: int) -> int:
    """The end of a street with its number that begins at ``i``; ``i`` if there is none."""
    last = i + 1
    if _NUMBER.fullmatch(m.words[i].low):
        if m.has(last, CURRENCIES):
            return i  # 1250 *USD*, due on Friday
        while m.large(last) and m.words[last].low[0].isalpha():
            last += 1
        ways = (k + 1 for k in range(i + 2, i + _WAY) if m.has(k, SETS["ways"]))
        return last if last > i + 1 or m.has(last, SETS["function"]) else next(ways, i)
    while m.large(i) and m.large(last) and m.words[last].low[0].isalpha():
        last += 1
    last += m.has(last, (".",))  # Hauptstr. 5
    numbered = m.large(i) and last < len(m) and _NUMBER.fullmatch(m.words[last].low)
    return last + 1 if numbered else i
