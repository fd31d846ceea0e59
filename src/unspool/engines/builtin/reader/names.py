"""Names of persons: as first and last name, in lists of objects, and as the only name that is left."""

from collections.abc import Iterable, Iterator
from typing import Final

from .division import FORMED, phrases
from .evidence import give, without_own
from .filling import Filling, named, own_parts
from .message import Span
from .prompt import Parameter
from .words import DAYS, DEEDS, MONTHS, SETS, parts_of

_NO_NAMES: Final = (*((kind,) for kind in sorted(FORMED)), ("zone",), ("language",), ("body",), ("host",), ("pattern",))
"""Kinds that no left name has."""


def persons(f: Filling) -> None:
    """Give a first and a last name the parts of a capitalized name: *Priya Nair*; a list of persons, those of all."""
    m = f.message
    for p in [p for p in f.left if p.type == "array" and p.inner]:
        parts = [q for q in p.inner if q.type == "string" and not q.choices and not q.optional]
        pair = _pair(parts) if len(parts) < 3 else None
        if pair is not None and (found := list(_full_names(f, pair[0]))):
            for s in found:
                m.take(s)
            given, family = (q.name for q in pair)
            f.give(p, [{given: m.said(s.first, s.first + 1), family: m.said(s.first + 1, s.last)} for s in found])
    pair = _pair(f.texts())
    if pair is None or not (named(pair[0], ("name",)) or named(pair[1], ("name", "surname"))):
        return
    if (name := next(_full_names(f, pair[0]), None)) is not None:
        f.give_span(pair[0], m.span(name.first, name.first + 1))
        f.give_span(pair[1], m.span(name.first + 1, name.last))


def _pair(parameters: Iterable[Parameter]) -> tuple[Parameter, Parameter] | None:
    """The parameters for a person's first and last name."""
    own = [(p, {*own_parts(p)}) for p in parameters]
    given = next((p for p, words in own if words & {"first", "given"}), None)
    family = next((p for p, words in own if words & {"last", "family", "surname"}), None)
    return None if given is None or family is None else (given, family)


def _full_names(f: Filling, p: Parameter) -> Iterator[Span]:
    """The capitalized names of at least two words."""
    m = f.message
    for c in phrases(f):
        first, last = without_own(f, p, c.first, c.last)
        if last - first > 1 and all(m.large(i) for i in range(first, last)):
            yield m.span(first, last)


def names(f: Filling) -> None:
    """Give the only optional text that may be a name the only name that is left: what tickets does *Priya* have?"""
    m = f.message
    wanted = [p for p in f.texts() if p.type == "string" and p.optional and p.kinds[:1] not in _NO_NAMES]
    first = wanted[:1] if all(p.optional for p in f.tool.parameters) else []
    if not wanted or (len(wanted) > 1 and not first):
        return
    named_so = first and not f.filled.values and own_parts(first[0]) in (["name"], ["device"], ["entity"])
    acts = named_so and not any(DEEDS.get(w) == "read" for w in parts_of(f.tool.name))
    found = [
        c
        for c in phrases(f)
        if c.quoted
        or acts  # turn on the *fan*
        or (c.first > 0 and m.large(c.first) and not m.shouted(c.first))
        or (c.lead in ("does", "did") and m.has(c.last, SETS["holds"]))
    ]
    found = [c for c in found if not m.has(c.first, f.tool.asking | DAYS | MONTHS | SETS["function"])]
    if acts and len(found) > 1 and f.filled.several is None:
        f.give_all(wanted[0], [m.span(c.first, c.last) for c in found])
    elif len(found) == 1:
        s = m.span(*without_own(f, wanted[0], found[0].first, found[0].last))
        give(f, wanted[0], found[0], s)
