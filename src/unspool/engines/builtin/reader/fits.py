"""Finds the tool for a message that names none, by the values in the message."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from .fill import fill
from .message import Message, Span
from .prompt import NUMERIC, Parameter, Tool
from .scores import scores, unread
from .spans import FORMS, quotes

LONGEST: Final = 50
"""The most words of a message that is examined this way."""
_SURE: Final = 1.5
"""The least score of a tool that fits."""
_APART: Final = 0.8
"""The least lead over the scores of other tools."""
_UNREAD: Final = 0.4
"""The penalty for each word that neither belongs to the tool nor is in a value."""
_CLEAR: Final = 1.0
"""The clarity of a value whose form alone decides its parameter."""
_WORD: Final = 0.5
"""The least score from words."""
_FORMS: Final[dict[str, Callable[[Message], Iterable[Span]]]] = dict(FORMS)


def fitting(tools: tuple[Tool, ...], text: str) -> Tool | None:
    """The tool for whose required parameters the message has values with unmistakable forms."""
    message = Message(text)
    if len(message) > LONGEST:
        return None
    found = scores(tools, message)
    spoken = [(i, t) for i, t in enumerate(tools) if found.get(t.name, 0) >= _WORD]
    each = sorted(((_fit(t, text) + found[t.name], i) for i, t in spoken), reverse=True)
    if not each or each[0][0] < _SURE or (len(each) > 1 and each[0][0] < each[1][0] + _APART):
        return None
    return tools[each[0][1]]


def _fit(tool: Tool, text: str) -> float:
    """The score of a tool from the values of a message; below zero if a required value is missing."""
    message = Message(text)
    f = fill(tool, message)
    if f.missing:
        return -9
    given = {p.name: p for p in tool.parameters if p.name in f.values}
    score = sum(_shown(p, f.values[name], message) * (0.5 if p.optional else 1) for name, p in given.items())
    return score - _UNREAD * unread(tool, message)


def clear(p: Parameter, value: Any, message: Message) -> bool:
    """Whether a value has a form that only such a parameter accepts: a number, a time, an address."""
    return p.type in NUMERIC or (p.type == "string" and not p.choices and _shown(p, value, message) >= _CLEAR)


def _shown(p: Parameter, value: Any, message: Message) -> float:
    """How clearly a value is one of a parameter's."""
    if p.choices and p.type != "array":
        return 1.2 if str(value).lower().replace("_", " ") in message.low else 0.8
    if p.type == "boolean":
        return 1.2
    if p.type in NUMERIC:
        return 0.8
    if not isinstance(value, str):
        return 0.3
    if any(value == s.value for s in quotes(message)):
        return 0.6
    form = _FORMS.get(p.kinds[0]) if p.kinds else None
    if form is not None and any(s.value in value for s in form(message)):
        return 1.0
    if any(map(str.isdigit, value)):
        return 1.0 if " " not in value else 0.3
    return 0.4 if value[:1].isupper() else 0.1
