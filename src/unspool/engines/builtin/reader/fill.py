"""Fills arguments: decides which values in a message belong to which of a tool's parameters."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from .addresses import addressed
from .amounts import amounts
from .choices import choose
from .conditions import comparisons, conditions
from .evidence import marked, weighed
from .examples import exemplified
from .fields import fields, separators
from .filling import Filled, Filling, is_cased, named
from .forms import formed
from .message import Message
from .names import names, persons
from .parts import rows, side_by_side
from .phrases import labels, own
from .places import place, sides
from .prompt import NUMERIC, Tool, parameter
from .remarks import remarks
from .series import series
from .texts import announced, framed, labelled, listed, quoted, sorts, worded
from .words import QUESTION, first_word, stem

STEPS: Final = (
    separators,
    fields,
    conditions,
    comparisons,
    choose,
    addressed,
    rows,
    persons,
    side_by_side,
    formed,
    sides,
    exemplified,
    series,
    amounts,
    labels,
    labelled,
    announced,
    remarks,
    listed,
    sorts,
    marked,
    own,
    framed,
    weighed,
    quoted,
    worded,
    names,
)
"""The steps, the clearest first. Each takes its words from the message."""
_WITH_REMARKS: Final = tuple(step for step in STEPS if step is not remarks)
"""Also reads values in remarks."""
_POLITE: Final = re.compile(r"(?i)\W*(?:\w+[\s,]+){0,2}(?:can|could|would|will) you\b")
"""The beginning of an order with a question mark."""
_HEADING: Final = 6
"""The number of words of a text that become its subject, if the message names none."""


def fill(tool: Tool, message: Message, *, cased: bool = False) -> Filled:
    """The arguments of a tool.

    Args:
        message: the message, from which the words of values are taken.
        cased: whether names are capitalized in the conversation, even if not in this part of it.
    """
    taken = list(message.taken)
    f = _stepped(tool, message, STEPS, cased=cased)
    if f.told and any(not p.optional for p in f.left):  # a remark may hold it
        message.taken[:] = taken
        f = _stepped(tool, message, _WITH_REMARKS, cased=cased)
    body = next(
        (f.filled.values[p.name] for p in f.tool.parameters if p.kinds[:1] == ("body",) and p.name in f.filled.values),
        None,
    )
    if (
        body is not None
        and str(body).endswith("?")
        and _POLITE.match(message.text)
        and not QUESTION.match(body.lower())
    ):
        f.filled.values |= {k: body.rstrip("? ") for k, v in f.filled.values.items() if v == body}
        body = body.rstrip("? ")  # *could you text Bob hi?*
    for p in f.filled.missing[:]:
        if {"on", "off"} <= {*p.choices} and any(q in f.filled.values for q in _set_with(f.tool)):
            f.filled.put(p, "on", several=False)  # a lamp that is dimmed or coloured is on
        elif p.type == "boolean" and named(p, ("on",)) and any(q in f.filled.values for q in _set_with(f.tool)):
            f.filled.put(p, True, several=False)
        elif "start" in p.choices and _begun(f.tool, message):
            f.filled.put(p, "start", several=False)  # *vacuum* the kitchen
    for p in f.left[:]:
        if p.kinds[:1] == ("subject",) and body is not None and not p.optional:
            f.give(p, " ".join(str(body).split()[:_HEADING]))
        else:
            f.miss(p)
    return f.filled


def lacks(tool: Tool, text: str) -> bool:
    """Whether a text has not all that a tool needs."""
    return bool(fill(tool, Message(text)).missing)


def _stepped(tool: Tool, message: Message, steps: Sequence[Callable[[Filling], None]], *, cased: bool) -> Filling:
    f = Filling(tool, message, cased=cased)
    for step in steps:
        step(f)
    return f


def _begun(tool: Tool, message: Message) -> bool:
    """Whether a message begins with the tool's own verb."""
    return stem(first_word(message.text)) in tool.name_words


def _set_with(tool: Tool) -> list[str]:
    """The parameters of a switch that only make sense if it is on."""
    return [p.name for p in tool.parameters if p.type in NUMERIC or p.kinds[:1] == ("color",)]


def value(key: str, message: Message) -> str | None:
    """The text that a message states for a key of JSON, if any. Its words are taken."""
    p = parameter(key)
    f = Filling(Tool("", "", (p,), ((), ()), *[frozenset()] * 4), message, cased=is_cased(message))
    for step in (formed, labelled, marked):
        step(f)
    if p.kinds[:1] == ("place",) and p in f.left:
        place(f, p)
    found = f.filled.values.get(p.name)
    return found if isinstance(found, str) else None
