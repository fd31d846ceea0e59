"""Calls of tools other than plain functions: custom tools, tools in namespaces, the search for tools.

The model only calls functions. `Kind` describes what such a call is for the client, and `Input` extracts the text of
a custom tool from the arguments as they stream.
"""

import json
from typing import Final, Literal

import msgspec

from ..regex import Regex

INPUT: Final = "input"  # the argument that contains the text


class Kind(msgspec.Struct, frozen=True):
    """A declared tool as the client knows it: how it was declared, its name there, and its namespace, if any."""

    kind: Literal["function", "custom", "tool_search"]
    name: str
    namespace: str = ""


_BEGIN: Final = Regex(r'\s*\{\s*"' + INPUT + r'"\s*:\s*"')
_MARGIN: Final = 1024  # the largest number of characters before the text
_SIMPLE: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_CUT: Final = Regex(r'["\\]')


class Input:
    """Decodes the text of a custom tool, ``{"input": "…"}``, from pieces of its JSON.

    Arguments of any other form are returned as they are, once they are complete.
    """

    def __init__(self) -> None:
        self._raw: list[str] = []
        self._state: Literal["before", "inside", "behind", "other"] = "before"
        self._held = ""  # an incomplete escape, or what comes before the text
        self._decoded: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._decoded)

    def feed(self, piece: str) -> str:
        """The text of the next piece; may be empty."""
        self._raw.append(piece)
        if self._state == "before":
            self._held += piece
            begun = _BEGIN.match(self._held)
            if begun is None:
                self._state = "other" if len(self._held) > _MARGIN else "before"
                return ""
            self._state, piece, self._held = "inside", self._held[begun.end() :], ""
        if self._state != "inside":
            return ""
        text = self._inside(self._held + piece)
        self._decoded.append(text)
        return text

    def close(self) -> str:
        """Return the rest: the arguments themselves if they contain no text."""
        if self._state in ("inside", "behind"):
            return ""
        text = _other("".join(self._raw))
        self._decoded.append(text)
        return text

    def _inside(self, text: str) -> str:
        out: list[str] = []
        at = 0
        while (cut := _CUT.search(text, at)) is not None:
            out.append(text[at : cut.start()])
            if cut[0] == '"':
                self._state, self._held = "behind", ""
                return "".join(out)
            found = _escape(text, cut.start())
            if found is None:
                self._held = text[cut.start() :]
                return "".join(out)
            character, at = found
            out.append(character)
        self._held = ""
        return "".join([*out, text[at:]])


def _escape(text: str, at: int) -> tuple[str, int] | None:
    """The character of an escape, and the place after it; ``None`` if more must come."""
    kind = text[at + 1 : at + 2]
    if kind != "u":
        return (_SIMPLE.get(kind, kind), at + 2) if kind else None
    code = _hex(text[at + 2 : at + 6])
    if code is None:
        return None if len(text) < at + 6 else ("\ufffd", at + 6)
    if not 0xD800 <= code < 0xDC00:
        return ("\ufffd" if 0xDC00 <= code < 0xE000 else chr(code)), at + 6
    rest = text[at + 6 : at + 12]
    if len(rest) < 6 and "\\u".startswith(rest[:2]):
        return None
    low = _hex(rest[2:]) if rest.startswith("\\u") else None
    if low is None or not 0xDC00 <= low < 0xE000:
        return "\ufffd", at + 6
    return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), at + 12


def _hex(digits: str) -> int | None:
    try:
        return int(digits, 16) if len(digits) == 4 and digits.isalnum() else None
    except ValueError:
        return None


def _other(arguments: str) -> str:
    """The text of arguments in another form, such as in another order, or without a text."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    text = value.get(INPUT) if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments


def input_of(arguments: str) -> str:
    """The text of whole arguments, equal to the text of their pieces."""
    decoder = Input()
    decoder.feed(arguments)
    decoder.close()
    return decoder.text
