"""Arguments that are recognized by their form: addresses, paths, days, units, languages."""

import re
from typing import Final

from .filling import Filling, named, own_parts, role
from .message import Span
from .prompt import Parameter
from .sides import sided
from .spans import FORMS, addresses, dates, repositories, times
from .words import SETS, SQL, STOP, UNITS, stem

_CONVERTED: Final = ("unit", "currency", "language")
_LISTED: Final = ("email", "path", "symbol", "expression", "url", "directory", "zone")
_MOMENTS: Final = ("date", "time")
_CALLED: Final = ("email", "url", "path")
_CLOCK: Final = re.compile(r"\bhh:?mm\b|\b(?:24|12)[- ]?hour")
"""Words in descriptions of times without a day."""


def formed(f: Filling) -> None:
    """Give parameters the values in the form of their kind: an address, a URL, a currency."""
    _owned(f)
    _stated(f)
    _called(f)
    for p in f.texts():
        house = next((s for s in addresses(f.message) if f.message.free(s)), None)
        if house is not None and "address" in own_parts(p) and p.kinds[:1] == ("place",):
            f.give_span(p, house)
    for kind, spans in FORMS:
        for p in sorted(f.texts(), key=lambda p: p.optional):
            if kind not in p.kinds[:3] or not _meant(f, p, kind):
                continue
            free = [s for s in spans(f.message) if f.message.free(s) and not _others(f, p, s)]
            if kind == "currency" and "crypto" in f.tool.concepts[0]:
                free = [s for s in free if s.value not in SETS["coins of chains"]]
            if kind == "repository":
                free.sort(key=lambda s: not f.message.has(s.first - 1, SETS["before a repository"]))
            if not free:
                continue
            if kind in _MOMENTS and p.kinds[0] in _MOMENTS:
                _moment(f, p, kind)
            elif kind in _CONVERTED:
                _converted(f, p, kind, free)
            elif len(alike := _alike(f, p, kind)) > 1 and len(free) >= len(alike):
                f.give_span(p, free[0])
            elif len(free) > 1 and (p.type == "array" or (not p.optional and kind in _LISTED)):
                f.give_all(p, free)
            else:
                f.give_span(p, free[0])


def _stated(f: Filling) -> None:
    """Give a text for SQL the whole statement, with its numbers: SELECT * FROM users *LIMIT 5*."""
    m = f.message
    p = next((p for p in f.texts() if named(p, ("sql",))), None)
    found = SQL.search(m.text)
    if p is not None and found is not None:
        span = m.covering(found.start(), len(m.text), m.text[found.start() :].rstrip(" .?!\n"))
        if m.free(span):
            f.give_span(p, span)


def _called(f: Filling) -> None:
    """Give values after their parameter's own name: *cc eve@site.org*, *returning 3 May*."""
    m = f.message
    for kind, spans in FORMS:
        for p in [p for p in f.texts() if kind in p.kinds[:1] and kind in _CALLED]:
            names = {stem(w) for w in own_parts(p)} - {kind, *STOP}
            for s in spans(m):
                if m.free(s) and s.first and stem(m.words[s.first - 1].low) in names:
                    m.taken[s.first - 1] = True
                    f.give_span(p, s)
                    break


def _owned(f: Filling) -> None:
    """Give an owner and a repository their halves of ``owner/name``."""
    owner = next((p for p in f.texts() if named(p, ("owner", "org", "organization"))), None)
    name = next((p for p in f.texts() if p is not owner and p.kinds[:1] == ("repository",)), None)
    whole = next(repositories(f.message), None)
    if owner is None or name is None or whole is None:
        return
    f.message.take(whole)
    one, _, other = whole.value.partition("/")
    f.give(owner, one)
    f.give(name, other)


def _others(f: Filling, p: Parameter, s: Span) -> bool:
    """Whether the name of another parameter precedes the value: *a branch called* fix/login, *value* b.org."""
    m = f.message
    i = s.first - 1 - m.has(s.first - 1, SETS["calls"])
    if i < 0 or m.has(i, SETS["function"] | SETS["imperatives"] | {*own_parts(p)}):
        return False
    begins = i == 0 or not m.words[i - 1].low[0].isalnum() or m.has(i - 1, SETS["function"])  # not *bedside lamp* green
    name = stem(m.words[i].low)
    others = [q for q in f.texts() if q is not p and name in map(stem, own_parts(q))]
    return begins and any(name not in f.tool.name_words or role(q) is None for q in others)


def _alike(f: Filling, p: Parameter, kind: str) -> list[Parameter]:
    """The texts that need a value of the same kind: *move a.txt to b.txt*."""
    return [q for q in f.texts() if q is p or (kind in q.kinds[:1] and not q.optional and q.type == p.type)]


def _meant(f: Filling, p: Parameter, kind: str) -> bool:
    """Whether a parameter may have a kind that is not its likeliest."""
    if kind in _CONVERTED and kind != p.kinds[0]:
        return sum(kind in q.kinds or bool(role(q)) for q in f.tool.parameters) > 1
    if kind in _MOMENTS:
        return p.kinds[0] in _MOMENTS or (kind == "date" and "date" in p.name.lower())
    return True


def _converted(f: Filling, p: Parameter, kind: str, free: list[Span]) -> None:
    """Give a unit, currency or language. Several targets become several calls."""
    side = role(p)
    if side is None and any(role(q) == "to" and kind in q.kinds[:3] for q in f.tool.parameters if q is not p):
        side = "from"
    last = _listed(f, free)
    if kind != "unit" and len(last) > 1 and side != "from" and f.filled.several is None and p.type != "array":
        f.give_all(p, last)
        return
    temperature = kind == "unit" and UNITS.get(free[0].value.lower()) in ("celsius", "fahrenheit")
    if side is None:
        if kind == "currency" and len(free) > 1:
            free = [s for s in free if f.message.has(s.first - 1, SETS["asked unit"])] or free
        if kind != "unit" or temperature or not any("unit" in q.kinds[:1] for q in f.left if q is not p):
            f.give_span(p, free[0])
    elif (chosen := sided(f.message, free, side)) is not None:
        f.give_span(p, chosen)


def _listed(f: Filling, free: list[Span]) -> list[Span]:
    """The last values, if they form a list."""
    first = len(free) - 1
    words = f.message.words
    while first > 0:
        between = {w.low for w in words[free[first - 1].last : free[first].first]}
        if not between <= SETS["listed"] | {"in", "to", "into"} or between.isdisjoint(SETS["listed"]):
            break
        first -= 1
    return free[first:]


def _moment(f: Filling, p: Parameter, kind: str) -> None:
    """Give a day, a time, or both if one parameter takes both."""
    m = f.message
    others = any(
        q is not p
        and not named(q, SETS["births"])
        and q.kinds[:1] != p.kinds[:1]
        and q.kinds[:1] in (("date",), ("time",))
        and q.type == "string"
        for q in f.left
    )
    if p.type == "array":
        found = [s for s in (dates(m) if kind == "date" else times(m)) if m.free(s)]
        if found:
            f.give_all(p, found)
        return
    if named(p, SETS["births"]) and SETS["births"].isdisjoint(m.at):
        return
    either = named(p, SETS["when names"]) and not others
    clock = _CLOCK.search(p.description.lower()) is not None
    one = others or clock or named(p, SETS["date names"]) or (named(p, ("time",)) and not named(p, SETS["dated"]))
    dated = named(p, SETS["due names"]) or (p.kinds[0] == "date" and not named(p, SETS["time names"]))
    if one and kind != ("date" if dated else "time") and not (kind == "date" and either and not clock):
        return
    timed = not one or (named(p, SETS["when names"]) and not clock)
    days = [s for s in dates(m) if m.free(s)][:1] if kind == "date" or timed else []
    hours = [s for s in times(m) if m.free(s)][:1] if kind == "time" or not one or either else []
    spans = sorted(days + hours)
    if not spans:
        return
    if spans[-1].last - spans[0].first > sum(s.last - s.first for s in spans) + 1:  # not side by side
        del spans[1:]
    for s in spans:
        m.take(s)
    f.give(p, m.said(spans[0].first, spans[-1].last))
