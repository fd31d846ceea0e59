"""The begin, end and trigger of calls, for hosts that build structural tags, and what is constrained."""

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ..dialect.file import Dialect
from ..dialect.patterns import joined, pattern, worded
from ..dialect.registry import as_dialect
from ..dialect.template import written
from ..errors import ConstraintError
from ..renderer.values import JSON
from ..schema import function_of, tool_name
from ..validation import check


class ToolStrictLevel(enum.IntEnum):
    """How strictly calls are constrained if the request does not ask for it: off < function < parameter."""

    OFF = 0
    """Only as the request demands."""
    FUNCTION = 1
    """Calls are well-formed and name a declared tool."""
    PARAMETER = 2
    """Their arguments also match the tool's schema."""


LEVELS: Final = {level.name.lower(): level for level in ToolStrictLevel}
"""The levels by the words that arguments and requests have for them."""


class StructureInfo(msgspec.Struct, frozen=True):
    """How calls of one tool are written: ``begin``, the arguments as one JSON object, ``end``.

    ``trigger`` is the start of ``begin`` by which a call is recognized.
    """

    begin: str
    end: str
    trigger: str


def structure_info(dialect: str | Dialect, tool: "Mapping[str, Any] | str", *, index: int = 0) -> StructureInfo | None:
    """Return how a dialect writes calls of a tool, with the white space of its template.

    Args:
        dialect: a name or a `Dialect`.
        tool: an OpenAI tool dict, or its name.
        index: the call's index in the answer, from 0, if the dialect numbers calls (Kimi's ids). Calls with the same
            number would have the same id, and the parser would have to replace the second one.

    Returns:
        ``None`` if the arguments are not a JSON object (Python, markup, JSON with other quotes), if no marker
        distinguishes a call from text, if a call has an id, or if each part of a message is framed (the first begins
        in the prompt).

    Raises:
        ConstraintError: the tool has no name.
        TypeError, ValueError: an argument is wrong; the message names it.
    """
    d = as_dialect(dialect)
    check("tool", tool, (str, Mapping), "an OpenAI tool dict, or a tool's name")
    check("index", index, int, "an integer from 0")
    if index < 0 or isinstance(index, bool):
        raise ValueError(f"index: {index} is not an index; it counts from 0")
    name = tool if isinstance(tool, str) else tool_name(tool)
    if not name:
        raise ConstraintError("tool: needs a name")
    if not d.call or d.argument_format != "json" or any(own.name == name for own in d.trained.text):
        return None
    block, call = d.calls[0], d.call_of(name)
    escaped = JSON.string(name)[1:-1] if call.object is not None else name
    fields = {"name": escaped, "index": str(index), "number": str(index + 1)}
    try:
        head, tail = written(call.head, fields), written(call.tail, fields)
    except KeyError:
        return None
    opening, closing = block.opening, block.closing
    trigger = joined(pattern(block.before), pattern(call.before)).first
    begin = opening + head.lstrip() if not opening else opening + head
    if not worded(trigger) or not begin.startswith(trigger) or begin.startswith(d.start):
        return None
    return StructureInfo(begin, tail + closing, trigger)


def strict_tools(tools: Sequence[Mapping[str, Any]]) -> bool:
    return any(function_of(t).get("strict") is True for t in tools)
