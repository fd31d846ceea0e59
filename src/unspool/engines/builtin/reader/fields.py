"""Values after their parameters' names and a colon: *title: Wifi, content: the password is sun22*."""

from typing import Final

from .filling import Filling, named, own_parts
from .message import Message, items
from .prompt import Parameter
from .spans import quotes
from .words import SEPARATORS

_ENDS: Final = (".", "?", "!", ";", ",")
_SEPARATOR: Final = frozenset(("delimiter", "separator", "sep", "delim"))
_SEPARATED: Final = frozenset(("separated", "delimited", "delimiters", "separators"))
_NEAR: Final = 4
"""The greatest distance between a separator and its name."""


def fields(f: Filling) -> None:
    """Give free texts the words behind their names, if a message names at least two parameters so."""
    m = f.message
    labels = sorted((i, p) for p in f.left if (i := _label(m, p)) is not None)
    starts = [first for first, _ in labels]
    texts = {p.name: p for p in f.texts()}
    for i, (first, p) in enumerate(labels if len(labels) > 1 else ()):
        begin = first + len(own_parts(p)) + 1
        last = starts[i + 1] if i + 1 < len(starts) else _end(m, begin, p)
        last = m.trimmed(begin, last, (".", ",", ";") if p.kinds[:1] == ("body",) else (*_ENDS, "and"))
        if begin >= last or p.name not in texts or not m.free(m.span(begin, last)):
            continue
        whole = next((s for s in quotes(m) if s.first == begin), m.span(begin, last))
        if p.type == "array":
            f.give_all(p, items(m, begin, last))
        elif p.kinds[:1] not in (("date",), ("time",)):
            m.take(whole)
            f.give(p, whole.value)
        m.take(m.span(first, begin))


def separators(f: Filling) -> None:
    """Give a separator of fields the mark that a message names or shows beside it: *separated by semicolons*."""
    m = f.message
    p = next((p for p in f.left if p.type in ("string", "any") and named(p, _SEPARATOR)), None)
    if p is None:
        return
    label = next((i for i, w in enumerate(m.words) if w.low.rpartition("-")[2] in _SEPARATOR | _SEPARATED), len(m))
    near = range(max(0, label - _NEAR), min(len(m), label + _NEAR + 1) if label < len(m) else 0)
    found = {i: SEPARATORS[name] for i in near if (name := m.words[i].low.partition("-")[0]) in SEPARATORS}
    shown = {i: m.words[i].text for i in near if m.words[i].text in SEPARATORS.values() and not m.has(i, ",:")}
    behind = {i: "," for i in near if i > label and m.has(i, ",")}
    for i, mark in (found | shown | behind).items():
        m.take(m.span(min(i, label), max(i, label) + 1))
        if not p.choices or mark in p.choices:
            f.give(p, mark)
            return
    if p.choices:  # a comma of the message is none of the table
        f.miss(p)


def _label(m: Message, p: Parameter) -> int | None:
    """Where a parameter's name stands before a colon or an equals sign."""
    own = own_parts(p)
    for i in m.at.get(own[0], ()) if own else ():
        behind = i + len(own)
        if [w.low for w in m.words[i:behind]] == own and m.has(behind, (":", "=")):
            return i
    return None


def _end(m: Message, i: int, p: Parameter) -> int:
    """The end of the last value: that of the message for a long text, otherwise that of its part."""
    long = p.kinds[:1] == ("body",)
    return next((k for k in range(i, len(m)) if not long and m.words[k].low in _ENDS), len(m))
