"""Names of persons: as first and last name, in lists of objects, and as the only name that is left."""

from typing import Final

from .evidence import FORMED, give, phrases, without_own
from .filling import Filling, named, own_parts
from .message import Span
from .prompt import Parameter
from .words import DAYS, MONTHS, SETS

_NO_NAMES: Final = (*((kind,) for kind in sorted(FORMED)), ("zone",), ("language",), ("body",), ("host",), ("pattern",))
"""Kinds that no left name has."""


def persons(f: Filling) -> None:
    """Give a first and a last name the parts of a capitalized name: *Priya Nair*."""
    for p in [p for p in f.left if p.type == "array" and p.inner]:
        if people := [q for q in p.inner if q.type == "string" and not q.choices and not q.optional]:
            _people(f, p, people)
    given = next((p for p in f.texts() if {"first", "given"} & {*own_parts(p)}), None)
    family = next((p for p in f.texts() if {"last", "family", "surname"} & {*own_parts(p)}), None)
    if given is None or family is None or not (named(given, ("name",)) or named(family, ("name", "surname"))):
        return
    for c in phrases(f):
        first, last = without_own(f, given, c.first, c.last)
        if last - first > 1 and all(f.message.large(i) for i in range(first, last)):
            f.give_span(given, f.message.span(first, first + 1))
            f.give_span(family, f.message.span(first + 1, last))
            return


def _people(f: Filling, p: Parameter, parts: list[Parameter]) -> None:
    """Give a list of persons the names in a message, whole or as first and last name: *Anya Garcia and Omar Garcia*."""
    m = f.message
    first = next((q for q in parts if {"first", "given"} & {*own_parts(q)}), None)
    last = next((q for q in parts if {"last", "family", "surname"} & {*own_parts(q)}), None)
    if first is None or last is None or len(parts) > 2:
        return
    found: list[Span] = []
    for c in phrases(f):
        begin, end = without_own(f, first, c.first, c.last)
        if end - begin > 1 and all(m.large(i) for i in range(begin, end)):
            found.append(m.span(begin, end))
    if not found:
        return
    for s in found:
        m.take(s)
    split = [(m.said(s.first, s.first + 1), m.said(s.first + 1, s.last)) for s in found]
    f.give(p, [{first.name: given, last.name: family} for given, family in split])


def names(f: Filling) -> None:
    """Give the only optional text that may be a name the only name that is left: what tickets does *Priya* have?"""
    m = f.message
    wanted = [p for p in f.texts() if p.type == "string" and p.optional and p.kinds[:1] not in _NO_NAMES]
    first = wanted[:1] if all(p.optional for p in f.tool.parameters) else []
    if not wanted or (len(wanted) > 1 and not first):
        return
    found = [
        c
        for c in phrases(f)
        if c.quoted
        or (c.first > 0 and m.large(c.first) and not m.shouted(c.first))
        or (c.lead in ("does", "did") and m.has(c.last, SETS["holds"]))
    ]
    found = [c for c in found if not m.has(c.first, f.tool.asking | DAYS | MONTHS | SETS["function"])]
    if len(found) == 1:
        s = m.span(*without_own(f, wanted[0], found[0].first, found[0].last))
        give(f, wanted[0], found[0], s)
