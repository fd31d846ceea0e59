"""Parts of a request that begin with a preposition: *by Ursula Le Guin*, *in src*, *to the cart*."""

from typing import Final

from .filling import Filling, own_parts, role
from .message import Message, Span
from .prompt import Parameter
from .spans import quotes
from .words import DAYS, GENERIC, KINDS, PREPOSITIONS, RELATIVE, SETS, STARTERS, STOP, parts_of, stem

_MOST: Final = 5
"""Words of a value after a preposition."""
_OTHERS: Final = frozenset(("place", "zone", "date", "time", "email", "people", "unit", "currency", "language", "url"))
"""Kinds that are found otherwise."""


def labels(f: Filling) -> None:
    """Take the words that name what has been given: *his email is* anna@x.io."""
    m = f.message
    names = {stem(w) for p in f.tool.parameters for w in parts_of(p.name)}
    names |= {"number"} if any("phone" in p.kinds for p in f.tool.parameters) else set()
    for i in range(1, len(m)):
        first = i
        if not m.taken[i] or m.taken[i - 1]:
            continue
        while first > 0 and not m.taken[first - 1] and m.has(first - 1, SETS["equals"] | SETS["called by"]):
            first -= 1
        if 0 < first < i and m.words[first - 1].low.endswith("'s"):
            m.take(m.span(first, i))  # Jane's number is 12
        if first > 0 and not m.taken[first - 1] and stem(m.words[first - 1].low) in names:
            first -= 1
            while first > 0 and not m.taken[first - 1] and m.has(first - 1, SETS["before a label"]):
                first -= 1
            m.take(m.span(first, i))


def own(f: Filling) -> None:
    """Take what only says again what the tool is for: *to the cart*, *on youtube*; *videos* before *about*."""
    m = f.message
    inside = {i for s in quotes(m) for i in range(s.first, s.last)}
    for i in range(1, len(m) - 1):
        behind = m.has(i, SETS["before own"]) and i not in inside and not m.taken[i]
        last = _own(f, i + 1) if behind else i
        ends = last == len(m) or m.taken[last] or not m.words[last].low[0].isalnum() or m.has(last, PREPOSITIONS)
        if behind and last > i + 1 and ends:
            m.take(m.span(i, last))
    for i in range(1, min(len(m) - 2, _MOST)):
        last = (
            _own(f, i, also=f.tool.described | f.tool.nouns)
            if m.has(i - 1, f.tool.asking | STARTERS | {"me"}) or m.taken[i - 1]
            else i
        )
        if last > i and m.has(last, SETS["about what"]) and last + 1 < len(m):
            leads = any(
                not PREPOSITIONS.get(m.words[last].low, frozenset()).isdisjoint(own_parts(p)) for p in f.texts()
            )
            m.take(m.span(i, last + (not leads)))


def _own(f: Filling, begin: int, also: frozenset[str] = frozenset()) -> int:
    """Where words end that name the tool, or after an article what describes it; ``begin`` where there are none."""
    m = f.message
    first = begin + m.has(begin, SETS["determiners"])
    about = f.tool.nouns | f.tool.described if first > begin else f.tool.name_words | also
    last = first
    while last < len(m) and not m.taken[last] and stem(m.words[last].low) in about and last - first < _MOST:
        last += 1
    return last if last > first else begin


def noun(f: Filling) -> None:
    """Give a text that is needed what comes before its name: *the customers table*."""
    m = f.message
    for p in f.texts():
        words = [w for w in own_parts(p) if stem(w) not in GENERIC and len(w) > 3]
        called = not p.kinds or (p.kinds == ("subject",) and len(own_parts(p)) > 1)
        if p.type == "array" or not called or not words:
            continue
        no_value = STOP | STARTERS | f.tool.asking
        for last in range(1, len(m)):
            first = last
            while first > 0 and m.words[first - 1].low[0].isalpha() and m.words[first - 1].low not in no_value:
                if m.taken[first - 1]:
                    break
                first -= 1
            if first == last > 1 and m.has(last - 2, ("the",)) and not m.taken[last - 1]:
                first -= m.words[last - 1].low in SETS["people nouns"]  # the people table
            placed = m.has(first - 1, ("the", "my", "our")) and m.has(
                first - 2, SETS["before own"]
            )  # at the main branch
            if p.optional and not placed and any(not q.optional for q in f.tool.parameters):
                continue
            if stem(m.words[last].low) == stem(words[-1]) and 0 < last - first < _MOST - 1:
                m.taken[last] = True
                f.give_span(p, m.span(first, last + (words[-1] in SETS["rooms"])))
                break


def prepositional(f: Filling) -> None:
    """Give texts what comes after the preposition that one uses for them."""
    m = f.message
    inside = {i for s in quotes(m) for i in range(s.first, s.last)}
    texts = [p for p in f.tool.parameters if p.type in ("string", "any", "array") and not p.choices]
    for p in f.texts():
        needed = any(q.kinds[:1] == ("place",) and not q.optional for q in f.left)
        region = p.kinds[:1] == ("place",) and p.optional and len(texts) > 1 and not needed
        if region and (found := _region(f)) is not None:
            f.give_span(p, found)
            continue
        if (p.kinds[:1] and p.kinds[0] in _OTHERS) or role(p) is not None or (len(texts) < 2 and not p.optional):
            continue
        own_words = {w for part in own_parts(p) for w in (part, stem(part))}
        for i, w in enumerate(m.words[:-1]):
            if own_words.isdisjoint(PREPOSITIONS.get(w.low, ())) or m.taken[i] or i in inside:
                continue
            span = _named(f, p, i + 1)
            if span is not None:
                m.taken[i] = True
                f.give_span(p, span)
                break


def _region(f: Filling) -> Span | None:
    """A name that is written large, after *in*."""
    m = f.message
    for i in m.at.get("in", ()):
        last = i + 1
        while m.large(last) and not m.taken[last] and m.words[last].low not in STOP | DAYS:
            last += 1
        if last > i + 1 and not m.taken[i]:
            m.taken[i] = True
            return m.span(i + 1, last)
    return None


def _named(f: Filling, p: Parameter, begin: int) -> Span | None:
    """The name that is there; ``None`` where something else does."""
    m = f.message
    first = begin + m.has(begin, ("the",))
    last = first
    stops = PREPOSITIONS.keys() | SETS["ends value"] | DAYS | RELATIVE
    joins = SETS["joins"] if p.type == "array" else frozenset()
    while last < len(m) and not m.taken[last] and (last == first or not m.has(last, stops - joins)):
        short = m.has(last, (".",)) and m.has(last - 1, SETS["short"])
        if not m.words[last].low[0].isalnum() and not m.has(last, joins) and not short:
            break
        last += 1
    names = {stem(w) for w in (*own_parts(p), *(KINDS[p.kinds[0]] if p.kinds else ()))}
    while last > first + 1 and stem(m.words[last - 1].low) in names:
        last -= 1
    while last > first + 1 and stem(m.words[first].low) in names:
        first += 1
    low = [w.low for w in m.words[first:last]]
    if not low or len(low) > _MOST or low[0] in STOP | STARTERS | SETS["determiners"] or _number(m, first):
        return None
    if {stem(w) for w in low} <= f.tool.name_words | f.tool.described and not m.large(first):
        return None
    return m.span(first, last) if m.large(first) or len(low) < 3 or joins else None


def _number(m: Message, i: int) -> bool:
    return m.words[i].low[0].isdigit()
