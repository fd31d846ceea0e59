"""Calls of tools other than plain functions: custom tools, tools in namespaces, the search for tools, and those that
OpenAI defines and clients run.

The model only calls functions. `ClientTool` describes what such a call is for the client, and `Input` extracts the
text of a custom tool from the arguments as they stream.
"""

import re
from typing import Any, Final, Literal, NamedTuple

import msgspec

from ..regex import Regex
from ..validation import json_object
from .encoding import clean

INPUT: Final = "input"  # the argument that contains the text


OpenAIs = Literal["shell", "local_shell", "apply_patch", "computer", "computer_use"]
"""The tools that OpenAI defines and clients run."""


class ClientTool(msgspec.Struct, frozen=True):
    """A declared tool as the client knows it: how it was declared, its name there, and its namespace, if any."""

    kind: Literal["function", "custom", "tool_search"] | OpenAIs
    name: str
    namespace: str = ""


class Item(NamedTuple):
    """How Responses writes the call of a tool that OpenAI defines and clients run: the type of the item, the field with
    the arguments, and those of them that clients expect in any case."""

    type: str
    field: str
    fixed: dict[str, Any]


ITEMS: Final[dict[OpenAIs, Item]] = {
    "shell": Item("shell_call", "action", {"commands": []}),
    "local_shell": Item("local_shell_call", "action", {"type": "exec", "command": [], "env": {}}),
    "apply_patch": Item("apply_patch_call", "operation", {}),
    "computer": Item("computer_call", "actions", {}),  # a list, which is one argument
    "computer_use": Item("computer_call", "action", {}),
}


_BEGIN: Final = Regex(r'\s*\{\s*"' + INPUT + r'"\s*:\s*"')
_MARGIN: Final = 1024  # the largest number of characters before the text
_SIMPLE: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ESCAPE: Final = Regex(r"\\(?:u(?:([0-9a-fA-F]{4})|.{4})|(.))", re.S)
_HALF: Final = r"[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u.{0,3})?)?\Z"  # of a surrogate pair that is not complete yet
_COMPLETE: Final = Regex(rf'(?:[^"\\]+|\\[^u]|\\u(?!{_HALF}).{{4}})*', re.S)


class Input:
    """Decodes the text of a custom tool, ``{"input": "…"}``, from pieces of its JSON.

    Arguments of any other form are returned as they are, once they are complete.
    """

    def __init__(self) -> None:
        self._raw: list[str] = []
        self._state: Literal["before", "inside", "after", "other"] = "before"
        self._held = ""  # an incomplete escape, or what comes before the text
        self._decoded: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._decoded)

    def feed(self, piece: str) -> str:
        """The text of the next piece; may be empty."""
        self._raw.append(piece)
        if self._state in ("after", "other"):
            return ""
        if self._state == "inside" and not self._held and '"' not in piece and "\\" not in piece and piece.isascii():
            self._decoded.append(piece)  # as most pieces
            return piece
        self._held += piece
        if self._state == "before":
            begun = _BEGIN.match(self._held)
            if begun is None:
                self._state = "other" if len(self._held) > _MARGIN else "before"
                return ""
            self._state, self._held = "inside", self._held[begun.end() :]
        complete = _COMPLETE.match(self._held)
        end = complete.end() if complete is not None else 0
        text, self._held = _decoded(self._held[:end]), self._held[end:]
        if self._held.startswith('"'):
            self._state = "after"
        self._decoded.append(text)
        return text

    def close(self) -> str:
        """Return the rest: the arguments themselves if they contain no text."""
        if self._state in ("inside", "after"):
            return ""
        text = _other("".join(self._raw))
        self._decoded.append(text)
        return text


def _decoded(text: str) -> str:
    """Decode the inside of a JSON string. Lone surrogates and wrong escapes of them become U+FFFD."""
    text = _ESCAPE.sub(_character, clean(text))
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _character(escape: re.Match[str]) -> str:
    if escape[2]:
        return _SIMPLE.get(escape[2], escape[2])
    return chr(int(escape[1], 16)) if escape[1] else "\ufffd"


def _other(arguments: str) -> str:
    """The text of arguments in another form, such as in another order, or without a text."""
    text = (json_object(arguments) or {}).get(INPUT)
    return text if isinstance(text, str) else arguments


def input_of(arguments: str) -> str:
    """The text of whole arguments, equal to the text of their pieces."""
    decoder = Input()
    decoder.feed(arguments)
    decoder.close()
    return decoder.text
