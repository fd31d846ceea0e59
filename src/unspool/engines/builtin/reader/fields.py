"""Values after their parameters' names and a colon: *title: Wifi, content: the password is sun22*."""

from typing import Final

from .filling import Filling, own_parts
from .message import Message, items
from .prompt import Parameter
from .spans import quotes

_ENDS: Final = (".", "?", "!", ";", ",")


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
