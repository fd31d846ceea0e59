"""Values in the form of the example in a parameter's description: *e.g. PAY-12*, *such as user:42*, *like DE*."""

import itertools
from typing import Final

from .filling import Filling
from .formats import exampled
from .message import Message, Span
from .prompt import Parameter
from .spans import FORMS
from .words import PREPOSITIONS, SETS, initials

_FORMED: Final = frozenset(kind for kind, _ in FORMS)


def exemplified(f: Filling) -> None:
    """Give texts the words that have the form of their descriptions' examples."""
    for p in f.texts():
        if p.type == "string" and not _FORMED.intersection(p.kinds[:1]):
            found = [s for s in alike(f.message, p) if f.message.free(s) and not _own(f, s)]
            others = [q for q in f.texts() if q is not p and exampled(q.description) == exampled(p.description)]
            if len(found) == 1:
                f.give_span(p, found[0])
            elif found and not (p.optional or others or f.filled.several) and _listed(f.message, found):
                f.give_all(p, found)


def alike(m: Message, p: Parameter) -> list[Span]:
    """The words of a message that have the form of a parameter's example."""
    form = exampled(p.description)
    if form is None:
        return []
    spans = [m.covering(found.start(1), found.end(1), found[1]) for found in form.finditer(m.text)]
    return [s for s in spans if not s.value.isalpha() or m.has(s.first - 1, PREPOSITIONS)]  # the VAT *in DE*


def _listed(m: Message, found: list[Span]) -> bool:
    """Whether codes follow each other: *in AMS1 and in BER1*."""
    between = (w.low for a, b in itertools.pairwise(found) for w in m.words[a.last : b.first])
    return {*between} <= SETS["joins"] | PREPOSITIONS.keys()


def _own(f: Filling, s: Span) -> bool:
    """Whether a word is short for the tool's name: the *VAT* of calculate_vat."""
    low = s.value.lower()
    return low in f.tool.name_words or low in initials(f.tool.name)
