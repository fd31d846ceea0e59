"""Validates the arguments of calls against the tools' schemas, with ``jsonschema_rs``.

Whatever schemas and arguments contain, nothing is fetched, and patterns are matched in linear time.
"""

from collections.abc import Sequence
from typing import Any

import jsonschema_rs

from ..message import ToolCall
from ..schema import function_of, tool_name


class Validators:
    """The validators of a request's tools, if they are known. ``unusable``: tools without a usable schema, and why."""

    def __init__(self, tools: Sequence[Any] | None) -> None:
        self._unknown = tools is None
        self._known: dict[str, Any] = {}
        self.unusable: dict[str, str] = {}
        options = jsonschema_rs.RegexOptions()
        for tool in tools or ():
            name = tool_name(tool)
            if name is None:
                continue
            schema = function_of(tool).get("parameters") or {}
            try:
                self._known[name] = jsonschema_rs.validator_for(schema, offline=True, pattern_options=options)
            except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
                self.unusable[name] = str(error).partition("\n")[0]

    def valid(self, call: ToolCall) -> bool | None:
        """Whether a call's arguments match its tool's schema; ``None`` if that is unknown."""
        if self._unknown or call.name in self.unusable:
            return None
        validator = self._known.get(call.name)
        if validator is None or call.status in ("invalid", "incomplete"):
            return False
        try:
            return bool(validator.is_valid(call.arguments_dict()))
        except ValueError:
            return False
