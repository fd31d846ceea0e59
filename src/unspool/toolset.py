"""Reads the tools of a request and its tool choice, once and by the same rules for all callers.

The parser, the grammar, the protocols and the command line accept and refuse the same tools, with the same errors.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from .errors import ToolsError
from .schema import Schema, for_tool, function_of, tool_name
from .validation import json_kind, json_shown

ToolChoice = str | Mapping[str, Any]
"""``auto``, ``none``, ``required``, or an object as in OpenAI's API: a named function, or allowed tools."""
Kind = Literal["auto", "none", "required", "named"]

CHOICES: Final = ("none", "auto", "required")
MAX_TOOLS: Final = 1024  # how many tools a request may declare
_NAMED: Final = '{"type": "function", "function": {"name": …}}'
_LISTED: Final = 8  # how many declared names an error lists


class Toolset(msgspec.Struct, frozen=True):
    """The tools of a request and its tool choice.

    Attributes:
        tools: the declared tools by name, in order; ``None`` if unknown.
        kind: the kind of the choice.
        name: the function that the choice names, or ``""``.
        allowed: the names of the tools that may be called; ``None`` if the tools are unknown, and any may be called.
    """

    tools: dict[str, Mapping[str, Any]] | None
    kind: Kind = "auto"
    name: str = ""
    allowed: tuple[str, ...] | None = None
    _schemas: dict[str, Schema] = {}
    """The schemas of the tools' arguments, each read on first use."""

    @property
    def names(self) -> Mapping[str, Any] | None:
        """The tools that may be called, by name; ``None`` if any may be."""
        if self.tools is None and self.name:
            return {self.name: None}
        return self.tools

    def schema(self, name: str) -> Schema | None:
        """The schema of a tool's arguments; ``None`` if the tool is not declared."""
        found = self._schemas.get(name)
        if found is None and self.tools is not None and name in self.tools:
            found = self._schemas[name] = for_tool(self.tools[name])
        return found

    @property
    def choice(self) -> ToolChoice:
        """The choice in the form of chat completions; for a list of allowed tools, its mode."""
        return choice_of(self.name) if self.kind == "named" else self.kind

    @property
    def callable(self) -> list[Mapping[str, Any]]:
        """The declared tools that may be called."""
        return [] if self.tools is None else [self.tools[name] for name in self.allowed or ()]


def choice_of(name: str) -> dict[str, Any]:
    """The choice of one function, in the form of chat completions."""
    return {"type": "function", "function": {"name": name}}


def read_toolset(tools: object = None, tool_choice: object = None) -> Toolset:
    """Read the tools and the choice of a request.

    Args:
        tools: OpenAI tool dicts, nested (``function``) or flat; ``None`` if unknown. A `Toolset` stays as it is.
        tool_choice: see `ToolChoice`; ``None`` is ``auto``. If the tools are unknown, it may name any function.

    Raises:
        ToolsError: names the field, its value and what is allowed.
    """
    if type(tools) is not list and isinstance(tools, Toolset):  # the second test alone is slow for a list
        if tool_choice is not None and tool_choice != "auto":
            raise ToolsError("tool_choice", "a Toolset has its own choice; allowed is 'auto', which leaves it")
        return tools
    found = read_tools(tools)
    names = None if found is None else tuple(found)
    if tool_choice is None or tool_choice == "auto":
        return Toolset(found, "auto", "", names)
    if tool_choice == "none":
        return Toolset(found, "none", "", ())
    if tool_choice == "required":
        return Toolset(found, _required(found), "", names)
    if isinstance(tool_choice, Mapping):
        kind = tool_choice.get("type", "function")
        if kind == "function":
            name = _named("tool_choice", tool_choice, found)
            return Toolset(found, "named", name, (name,))
        if kind == "allowed_tools":
            return _allowed(tool_choice, found)
        raise ToolsError("tool_choice.type", f"{json_shown(kind)} is not one of function, allowed_tools")
    raise ToolsError("tool_choice", f"{json_shown(tool_choice)} is not one of {', '.join(CHOICES)} or {_NAMED}")


def read_tools(tools: object) -> dict[str, Mapping[str, Any]] | None:
    """Read tools by name, in order; ``None`` if they are unknown; `ToolsError` if they are not a list, there are too
    many, or one has no name, that of another, or wrong parameters."""
    if tools is None:
        return None
    if type(tools) is not list and (isinstance(tools, str | bytes) or not isinstance(tools, Sequence)):
        raise ToolsError("tools", f"must be a list of tools, not {json_kind(tools)}")
    if len(tools) > MAX_TOOLS:
        raise ToolsError("tools", f"{len(tools):,} tools; allowed are {MAX_TOOLS:,}")
    found = _written_plainly(tools)
    if found is not None:
        return found
    found = {}
    for i, tool in enumerate(tools):
        name = tool_name(tool)
        if name is None:
            raise _nameless(f"tools[{i}]", tool)
        if name in found:
            raise ToolsError(f"tools[{i}]", f"the name {json_shown(name)} is declared twice")
        parameters = function_of(tool).get("parameters")
        if parameters is not None and not isinstance(parameters, Mapping):
            where = f"tools[{i}].function" if "function" in tool else f"tools[{i}]"
            raise ToolsError(f"{where}.parameters", f"must be an object, not {json_kind(parameters)}")
        found[name] = tool
    return found


def _written_plainly(tools: Sequence[Any]) -> dict[str, Mapping[str, Any]] | None:
    """The tools by name, if all are written as in chat completions; else ``None``, and each is checked."""
    found: dict[str, Mapping[str, Any]] = {}
    try:
        for tool in tools:
            function = tool["function"]
            name = function["name"]
            # Every parser comes here, and `type(tool)` would be a call.
            if tool.__class__ is dict and name.__class__ is str and name and function["parameters"].__class__ is dict:
                found[name] = tool
    except (KeyError, TypeError):
        return None
    return found if len(found) == len(tools) else None


def _nameless(where: str, tool: object) -> ToolsError:
    if not isinstance(tool, Mapping):
        return ToolsError(where, f"must be an object, not {json_kind(tool)}")
    if "name" not in tool or "function" in tool:
        where = f"{where}.function"
        tool = tool.get("function")
        if not isinstance(tool, Mapping):
            return ToolsError(where, f"must be an object, not {json_kind(tool)}")
    return ToolsError(f"{where}.name", _no_name(tool.get("name")))


def _no_name(name: object) -> str:
    if name is None:
        return "is required"
    return "is empty" if name == "" else f"must be a string, not {json_kind(name)}"


def _required(tools: Mapping[str, Any] | None) -> Kind:
    if tools is not None and not tools:
        raise ToolsError("tool_choice", "'required' needs tools")
    return "required"


def _named(where: str, choice: Mapping[str, Any], tools: Mapping[str, Any] | None) -> str:
    if "name" not in choice or "function" in choice:
        where = f"{where}.function"
        choice = choice.get("function", {})
        if not isinstance(choice, Mapping):
            raise ToolsError(where, f"must be an object, not {json_kind(choice)}")
    name = choice.get("name")
    field = f"{where}.name"
    if not isinstance(name, str) or not name:
        raise ToolsError(field, _no_name(name))
    if tools is not None and name not in tools:
        some = [*tools][:_LISTED]
        allowed = ", ".join(some) + (", …" if len(tools) > len(some) else "") if some else "none: no tools"
        raise ToolsError(field, f"{json_shown(name)} is not declared; allowed are {allowed}")
    return name


def _allowed(choice: Mapping[str, Any], tools: dict[str, Mapping[str, Any]] | None) -> Toolset:
    """A list of allowed tools, nested as in chat completions or flat as in Responses."""
    inner = choice.get("allowed_tools", choice)
    where = "tool_choice.allowed_tools" if "allowed_tools" in choice else "tool_choice"
    if not isinstance(inner, Mapping):
        raise ToolsError(where, f"must be an object, not {json_kind(inner)}")
    mode = inner.get("mode")
    if mode not in ("auto", "required"):
        raise ToolsError(f"{where}.mode", f"{json_shown(mode)} is not one of auto, required")
    listed = inner.get("tools")
    if not isinstance(listed, list | tuple) or not listed:
        raise ToolsError(f"{where}.tools", "must be a non-empty list")
    names = set()
    for i, one in enumerate(listed):
        if not isinstance(one, Mapping):
            raise ToolsError(f"{where}.tools[{i}]", f"must be an object, not {json_kind(one)}")
        names.add(_named(f"{where}.tools[{i}]", one, tools))
    order = names if tools is None else [name for name in tools if name in names]
    return Toolset(tools, "auto" if mode == "auto" else _required(tools), "", tuple(order))
