"""Answers for hosts that know structural tags of their own: begin, end and trigger of a call, and which
constraint applies."""

import enum
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..dialect.file import Dialect
from ..dialect.patterns import Pattern, joined
from ..dialect.registry import as_dialect
from ..dialect.template import written
from ..errors import ConstraintError
from ..schema import function_of, tool_name
from ..values import JSON

__all__ = ["StructureInfo", "ToolStrictLevel", "structure_info"]


class ToolStrictLevel(enum.IntEnum):
    """How strictly calls are constrained where the request does not ask for it: off < function < parameter."""

    OFF = 0
    """Only as the request asks."""
    FUNCTION = 1
    """Calls are well-formed and name a declared tool."""
    PARAMETER = 2
    """Their arguments keep to the tool's schema too."""


class StructureInfo(msgspec.Struct, frozen=True):
    """How a call of one tool is written: ``begin``, the arguments as one JSON object, ``end``.

    ``trigger`` begins ``begin`` and shows that a call has begun.
    """

    begin: str
    end: str
    trigger: str


def structure_info(dialect: str | Dialect, tool: "Mapping[str, Any] | str", *, index: int = 0) -> StructureInfo | None:
    """How a dialect writes a call of a tool, with the white space of its template.

    Args:
        dialect: a name or a `Dialect`.
        tool: an OpenAI tool dict, or its name.
        index: which call of the answer it is, from 0, where the dialect counts them (Kimi's ids). Calls that begin with
            the same number would get one id, and the parser would have to give the second another.

    Returns:
        ``None`` where the arguments are not a JSON object (Python, markup, quotes of its own), where no marker
        distinguishes a call from text, where a call has an id, and where each part of a message is framed (the first
        begins in the prompt).

    Raises:
        ConstraintError: the tool has no name.
    """
    d = as_dialect(dialect)
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
    trigger = joined(Pattern(block.before), Pattern(call.before)).first
    begin = opening + head.lstrip() if not opening else opening + head
    if not any(c.isalnum() for c in trigger) or not begin.startswith(trigger) or begin.startswith(d.start):
        return None
    return StructureInfo(begin, tail + closing, trigger)


def strict_tools(tools: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a tool asks for strictness."""
    return any(function_of(t).get("strict") is True for t in tools)
