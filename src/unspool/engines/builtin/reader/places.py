"""Places: names after *in*, *for*, *at*, and capitalized names; one or several, however they are joined."""

import re
from typing import Final, NamedTuple

from .addresses import address
from .filling import Filling, keeps, named, own_parts, role
from .message import Message, Span
from .prompt import Parameter
from .words import (
    BEFORE_PLACE,
    CITIES,
    DAYS,
    MEANT,
    MONTHS,
    PREPOSITIONS,
    REGIONS,
    RELATIVE,
    SETS,
    STARTERS,
    STOP,
    TOWNS,
    UNITS,
    WRITE,
    stem,
)

_PLACES: Final = REGIONS | TOWNS
"""Places whose names may have several words."""
_NO_NAME: Final = (STOP - SETS["in a name"]) | RELATIVE | DAYS | SETS["no place"]
"""Words at which a place's name ends."""
_SURE: Final = 5
_LIKELY: Final = 4
_BETWEEN_CODES: Final = re.compile(r"([A-Z]{3})-([A-Z]{3})")

_FROM_CODE: Final = re.compile(
    r"\bfrom ([A-Za-z-]{0,4}\d[\w-]{2,9}) (?:to|-|–|→) ([A-Za-z-]{0,4}\d[\w-]{2,9})(?![\w:.])"
)
"""Two postal codes and the like."""


class _Found(NamedTuple):
    """Places that a message may name, and how certain that is."""

    weight: int
    spans: list[Span]

    @property
    def large(self) -> bool:
        return self.spans[0].value[0].isupper()


def place(f: Filling, p: Parameter) -> bool:
    """Give a parameter its place or places. Returns whether there is one."""
    m = f.message
    house = address(m) if not named(p, SETS["towns"]) else None
    if house is not None and m.free(span := m.span(house.first, house.last)):
        f.give_span(p, span)
        return True
    skipped = f.tool.asking
    cased = f.cased and not named(p, SETS["rooms"])
    best = _behind(m, skipped)
    if cased and (best is None or not best.large or (len(best.spans) == 1 and _compared(m))):
        large = _large(m, skipped)
        if _compared(m) and (len(large) > 1 or (large and best is None)):
            best = _Found(_SURE, large)
        elif best is not None and not best.large:
            best = _Found(_SURE, large[:1]) if large else best if best.weight >= _SURE else None
    there = "there" in m.at
    if best is None and (not p.optional or _meant(f, p)):
        best = _alone(m, skipped, cased=cased)
        if best is not None and there and not best.large:
            return False
    if best is None or (p.optional and not _meant(f, p) and best.weight < _LIKELY and not best.large):
        return False
    best = best._replace(spans=[_unnamed(f, p, s) for s in best.spans])
    region = next((q for q in f.texts() if q is not p and named(q, SETS["regions"])), None)
    city, _, rest = best.spans[0].value.partition(", ")
    both = len(best.spans) == 2 and m.has(best.spans[0].last, (",",))  # *dallas, texas*
    if region is not None and rest and len(best.spans) == 1:
        m.take(best.spans[0])
        f.give(p, city)
        f.give(region, rest)
    elif region is not None and not region.optional and both:
        f.give_span(p, best.spans[0])
        f.give_span(region, best.spans[1])
    else:
        f.give_all(p, best.spans)
    return True


def _unnamed(f: Filling, p: Parameter, s: Span) -> Span:
    """A name without what it is the name of, and what follows: *the Hamburg store open*, but *the Hall lamp*."""
    m = f.message
    kinds = {*own_parts(p)} | f.tool.nouns | f.tool.described
    small = [i for i in range(s.first + 1, s.last) if not m.large(i) and not keeps(p, m.words[i].low)]
    ends = (i for i in small if {low := m.words[i].low, stem(low)} & kinds or low.endswith(("ed", "ing")))
    end = next(ends, s.last) if m.large(s.first) else s.last  # Seattle *rated* at least 4
    return m.span(s.first, end) if end < s.last else s


def _meant(f: Filling, p: Parameter) -> bool:
    """Whether an optional place is the tool's main value."""
    first = next((q for q in f.tool.parameters if q.kinds[:1] == ("place",)), None)
    return p is first and any(MEANT.get(c) == "place" for c in f.tool.concepts[0])


def pair(f: Filling, first: Parameter, second: Parameter) -> None:
    """Give two similar parameters their places: *between Rome and Milan*, *from Rome to Milan*."""
    m = f.message
    for cue in ("between", "from"):
        for i in m.at.get(cue, ()):
            spans = named_from(m, i + 1, f.tool.asking)
            if len(spans) == 1 and m.has(spans[0].last, SETS["turned into"]):
                spans += named_from(m, spans[0].last + 1, f.tool.asking)
            if len(spans) == 2:
                f.give_span(first, spans[0])
                f.give_span(second, spans[1])
                return


def sides(f: Filling) -> None:
    """Give the two sides of a journey the names around *to*, a dash or an arrow: *JFK to MIA*, *Rome - Oslo*."""
    m = f.message
    texts = [p for p in f.texts() if not p.optional and p.type == "string" and p.kinds[:1] in ((), ("place",))]
    start = next((p for p in texts if role(p) == "from"), None)
    end = next((p for p in texts if role(p) == "to"), None)
    if start is None or end is None:
        return
    if found := _FROM_CODE.search(m.text):
        f.give(start, found[1])
        f.give(end, found[2])
        m.take(m.covering(found.start(), found.end(), ""))
        return
    if "between" in m.at:
        pair(f, start, end)
    if not {"from", "between"}.isdisjoint(m.at):
        return  # those words lead to the sides
    idle = f.tool.asking | STARTERS | SETS["imperatives"] | DAYS | MONTHS
    for i, w in enumerate(m.words):
        if (both := _BETWEEN_CODES.fullmatch(w.text)) and not m.taken[i]:
            m.taken[i] = True
            f.give(start, both[1])
            f.give(end, both[2])
            return
        if not m.has(i, SETS["leads to an end"]):
            continue
        behind = i + 1 + m.has(i + 1, (">",))
        first, last = i, behind
        while first > 0 and m.large(first - 1) and not m.taken[first - 1] and m.words[first - 1].low not in idle:
            first -= 1
        while m.large(last) and not m.taken[last] and m.words[last].low not in idle:
            last += 1
        if first < i and behind < last:
            f.give_span(start, m.span(first, i))
            f.give_span(end, m.span(behind, last))
            m.taken[i] = True
            return


def bare(m: Message) -> list[Span]:
    """The names that a message consists of: *Paris and Berlin?*"""
    spans = named_from(m, 0, frozenset()) if len(m) else []
    first = m.words[0].low if spans else ""
    whole = spans and all(not w.low[0].isalnum() for w in m.words[spans[-1].last :])
    return spans if whole and first not in STARTERS | SETS["verbs"] | WRITE else []


def _compared(m: Message) -> bool:
    return not SETS["comparing"].isdisjoint(m.at)


def _behind(m: Message, skipped: frozenset[str]) -> _Found | None:
    """The likeliest of the places after *in*, *for*, *at* and the like."""
    best: _Found | None = None
    for i, w in enumerate(m.words[:-1]):
        if w.low in BEFORE_PLACE and (spans := named_from(m, i + 1, skipped)):
            found = _Found(BEFORE_PLACE[w.low] + 2 * spans[0].value[0].isupper(), spans)
            best = found if best is None or found.weight > best.weight else best
    return best


def _alone(m: Message, skipped: frozenset[str], *, cased: bool) -> _Found | None:
    """Names, if all other words mean nothing."""
    best: _Found | None = None
    no_place = skipped | RELATIVE | DAYS | MONTHS | UNITS.keys() | SETS["no place"]
    for first in _runs(m, STOP | no_place | (STARTERS if not cased else frozenset())):
        spans = named_from(m, first, skipped)
        if spans and (spans[0].value[0].isupper() or not cased):
            found = _Found(1 + 2 * spans[0].value[0].isupper(), spans)
            best = found if best is None or found.weight > best.weight else best
    return best


def _runs(m: Message, skipped: frozenset[str]) -> list[int]:
    """The beginnings of meaningful words that belong to no value."""
    found: list[int] = []
    inside = False
    for i, w in enumerate(m.words):
        link = inside and w.low in SETS["links"] and not m.taken[i] and (m.large(i + 1) or w.low == ".")
        plain = not m.taken[i] and w.low not in skipped and w.low[0].isalnum()
        if plain and not inside:
            found.append(i)
        inside = plain or link
    return found


def _large(m: Message, skipped: frozenset[str]) -> list[Span]:
    """All capitalized names."""
    found: list[Span] = []
    i = 0
    no_name = STOP | skipped | DAYS | MONTHS
    while i < len(m):
        spans = named_from(m, i, skipped) if m.large(i) and m.words[i].low not in no_name else []
        found += [s for s in spans if s.value[0].isupper()]
        i = max(i + 1, spans[-1].last if spans else 0)
    return found


def named_from(m: Message, i: int, skipped: frozenset[str]) -> list[Span]:
    """The name that begins here, and those that a comma or *and* adds to it."""
    found: list[Span] = []
    pairs = _pairs(m, i, skipped)
    while i < len(m):
        while m.has(i, SETS["before a name"]):
            i += 1
        end = _name(m, i, skipped)
        if end == i or (found and m.large(found[0].first) and not m.large(i) and m.words[i].low.endswith("ing")):
            break
        end = _name(m, end + 1, skipped) if pairs else _with_region(m, i, end, alone=not found)
        found.append(m.span(i, end))
        i = _next(m, end)
        if i == end:
            break
    return found


def _pairs(m: Message, i: int, skipped: frozenset[str]) -> bool:
    """Whether two names begin here, each with its region: *Portland, Oregon and Austin, Texas*."""
    for join in (",", "", ","):
        end = _name(m, i, skipped)
        if end == i or not m.large(i) or not m.has(end, (join,) if join else SETS["also joins"] | {"and", "or", "&"}):
            return False
        i = end + 1
    end = _name(m, i, skipped)
    return end > i and m.large(i) and not m.has(end, SETS["joins"])


def _name(m: Message, first: int, skipped: frozenset[str]) -> int:
    """The end of a name: *New York*, *St. John's*, *Rio de Janeiro*."""
    i = first
    while i < len(m) and not m.taken[i] and m.words[i].low[0].isalpha():
        if (m.words[i].low in _NO_NAME or m.words[i].low in skipped) and not (i > first and m.large(i)):
            break
        i += 1
        if i + 1 < len(m) and m.has(i, (".", "'")) and m.has(i - 1, SETS["short"]):
            i += 1
        if m.has(i, SETS["within a name"]) and m.large(i + 1) and not m.taken[i]:
            i += 1
        if i < len(m) and m.words[i].low.isdigit() and m.large(i - 1) and not m.taken[i] and i - first > 1:
            i += 1  # *BBC Radio 4*
    return i


def _with_region(m: Message, first: int, end: int, *, alone: bool) -> int:
    """The end of a name, including a state or country after a comma: *Austin, TX*, *Lyon, France*."""
    if not m.has(end, (",",)) or end + 1 >= len(m) or m.taken[end + 1]:
        return end
    region = m.words[end + 1]
    if len(region.text) == 2 and (region.text.isupper() or region.low in SETS["states"]):
        return end + 2
    long = [n for n in range(end + 3, min(end + 4, len(m)) + 1) if m.said(end + 1, n).lower() in _PLACES]
    after = long[-1] if long else end + 2
    listed = m.has(after, SETS["joins"] | SETS["also joins"]) and not m.has(after + 1, PREPOSITIONS)
    last = alone and not listed and m.large(first) and m.large(end + 1)
    two = {m.said(first, end).lower(), m.said(end + 1, after).lower()}
    cities = len(two) == 2 and two <= CITIES  # *Paris, Berlin*
    return after if last and not cities and not joined(m, end) else end


def joined(m: Message, comma: int) -> bool:
    """Whether an *and* soon follows a comma, so that the comma belongs to a list."""
    return any(w.low == "and" for w in m.words[comma : comma + 6])


def _next(m: Message, end: int) -> int:
    """The beginning of the next name of a list; ``end`` if there is none."""
    i = end
    if m.has(i, SETS["joins"] | SETS["also joins"]):
        i += 1
        while m.has(i, SETS["between joined"]):
            i += 1
        if m.has(i, STARTERS - {"the"}) and not m.large(i):
            return end
    elif m.has(i, ("as",)) and m.has(i + 1, ("well",)) and m.has(i + 2, ("as",)):
        i += 3
    return i
