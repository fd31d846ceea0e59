"""Lists of numbers: *x = [1, 2, 3], y = [2.1, 3.9, 6.2]*, *12, 14 and 15 versus 10, 11 and 13*."""

import itertools
from typing import Final

from .assign import assign
from .filling import Filling, named, own_parts
from .message import Message, Span
from .prompt import NUMERIC, Parameter
from .spans import numbers, value_of
from .words import SETS, stem

_BETWEEN: Final = (frozenset((",",)), frozenset((",", "and", "&")))
"""The words between the members of a list, if there are several lists."""
_LEAD: Final = 4
"""The most words between a parameter's name and its list."""

_Run = list[Span]


def series(f: Filling) -> None:
    """Give lists of numbers to the parameters for them."""
    m = f.message
    wanted = [
        p for p in f.left if p.type == "array" and (p.members in NUMERIC or (not p.inner and named(p, SETS["series"])))
    ]
    free = [s for s in numbers(m) if m.free(s)]
    if not wanted or not free:
        return
    needed = [p for p in wanted if not p.optional] or wanted[:1]
    runs = _bracketed(m, free)
    if not runs and len(needed) == 1:
        others = any(p.type in NUMERIC for p in f.left)
        runs = [max(_split(m, free, _BETWEEN[1]), key=len)] if others else [free]
    elif not runs:
        split = [_split(m, free, between) for between in _BETWEEN]
        runs = next((some for some in split if len(some) == len(needed)), [])
    before = [0, *(run[-1].last for run in runs)]
    labels = {run[0].first: _labels(m, first, run[0].first) for first, run in zip(before, runs, strict=False)}
    for p, run in assign(needed, runs, lambda p, run: 1 + 5 * (not labels[run[0].first].isdisjoint(_names(p)))):
        first, last = run[0].first, run[-1].last
        m.take(m.span(first - m.has(first - 1, ("[",)), last + m.has(last, ("]",))))
        f.give(p, [value_of(s) for s in run])


def _bracketed(m: Message, free: list[Span]) -> list[_Run]:
    """The lists in square brackets."""
    opening, closing = m.at.get("[", []), m.at.get("]", [])
    pairs = zip(opening, closing, strict=False)
    runs = [[s for s in free if first < s.first < last] for first, last in pairs]
    return [run for run in runs if run]


def _split(m: Message, free: list[Span], between: frozenset[str]) -> list[_Run]:
    """Numbers, divided at any words but these."""
    runs = [free[:1]]
    for a, b in itertools.pairwise(free):
        if {w.low for w in m.words[a.last : b.first]} <= between:
            runs[-1].append(b)
        else:
            runs.append([b])
    return runs


def _labels(m: Message, first: int, last: int) -> set[str]:
    """The words before a list, which may name its parameter."""
    return {stem(w.low) for w in m.words[max(first, last - _LEAD) : last]}


def _names(p: Parameter) -> set[str]:
    own = own_parts(p)
    return {stem(w) for w in (own[-1:] if len(own) > 1 else own)}
