"""Values in the form of the example in a parameter's description: *e.g. PAY-12*, *such as user:42*, *like DE*."""

import re
from functools import cache
from typing import Final

from .filling import Filling
from .message import Message, Span
from .prompt import Parameter
from .spans import FORMS
from .words import PREPOSITIONS, initials

_EXAMPLE: Final = re.compile(
    r"(?i)(?:\be\.?g\b\.?|\bfor example|\bsuch as|\blike|\bexamples?:|\beg:)[\s:,]*[\"'`]?([^\s,;)\"'`]{2,40})"
)
_RUN: Final = re.compile(r"[A-Z]+|[a-z]+|\d+|[^A-Za-z\d]")
_CODE: Final = re.compile(r"[A-Z]{2,4}|(?=.*[A-Za-z])(?=.*[\d_:*#-]).*[\w*]")
"""Examples whose form tells them from other words."""
_FORMED: Final = frozenset(kind for kind, _ in FORMS)


def exemplified(f: Filling) -> None:
    """Give texts the words that have the form of their descriptions' examples."""
    for p in f.texts():
        if p.type == "string" and not _FORMED.intersection(p.kinds[:1]):
            found = [s for s in alike(f.message, p) if f.message.free(s) and not _own(f, s)]
            if len(found) == 1:
                f.give_span(p, found[0])


def alike(m: Message, p: Parameter) -> list[Span]:
    """The words of a message that have the form of a parameter's example."""
    form = _form(p.description)
    if form is None:
        return []
    spans = [m.covering(found.start(1), found.end(1), found[1]) for found in form.finditer(m.text)]
    return [s for s in spans if not s.value.isalpha() or m.has(s.first - 1, PREPOSITIONS)]  # the VAT *in DE*


def _own(f: Filling, s: Span) -> bool:
    """Whether a word is short for the tool's name: the *VAT* of calculate_vat."""
    low = s.value.lower()
    return low in f.tool.name_words or low in initials(f.tool.name)


@cache
def _form(description: str) -> re.Pattern[str] | None:
    """The form of a description's example; ``None`` if it has no example or one that looks like any word."""
    found = _EXAMPLE.search(description)
    example = found[1].rstrip(".:!?") if found else ""
    if not _CODE.fullmatch(example):
        return None
    runs = [_run(run, example) for run in _RUN.findall(example)]
    return re.compile(rf"(?<![\w-])({''.join(runs)})(?![\w-])")


def _run(run: str, example: str) -> str:
    """The pattern for letters of one case, digits, or a mark of an example."""
    if run.isdigit():
        return r"\d+"
    if run.isalpha():
        letters = "A-Z" if run.isupper() else "a-z"
        return f"[{letters}]{{{len(run)}}}" if run == example else f"[{letters}]+"
    return re.escape(run) if run != "*" else r"[\w*]+"
