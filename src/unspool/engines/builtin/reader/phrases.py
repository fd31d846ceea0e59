"""Parts of a request that begin with a preposition: *by Ursula Le Guin*, *in src*, *to the cart*."""

from typing import Final

from .filling import Filling, keeps, own_parts
from .spans import quotes
from .words import PREPOSITIONS, SETS, STARTERS, parts_of, stem

_MOST: Final = 5
"""The most words of a value after a preposition."""


def labels(f: Filling) -> None:
    """Take the words that name a given value: *his email is* anna@x.io."""
    m = f.message
    waiting = {stem(w) for p in f.texts() if any(keeps(p, w) for w in own_parts(p)) for w in own_parts(p)}
    names = {stem(w) for p in f.tool.parameters for w in parts_of(p.name)} - waiting
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
    """Take phrases that only repeat the tool's purpose: *to the cart*, *on youtube*; *videos* before *about*."""
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
    """The end of words that name the tool or, after an article, describe it; ``begin`` if there are none."""
    m = f.message
    first = begin + m.has(begin, SETS["determiners"])
    about = f.tool.nouns | f.tool.described if first > begin else f.tool.name_words | also
    last = first
    while last < len(m) and not m.taken[last] and stem(m.words[last].low) in about and last - first < _MOST:
        last += 1
    return last if last > first else begin
