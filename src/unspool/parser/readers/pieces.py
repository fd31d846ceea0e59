"""Pieces of strings that need a look, remembered: tokens recur, and so does what they are as JSON.

What a piece of a string is depends on how the string is written and on what ends it: that is its kind. Only short
pieces are remembered, and of each kind only so many; then they are forgotten.
"""

import re
from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import Final

from ..white import held_suffix
from .strings import JSON_PARTIAL, JSON_RUN, PYTHON_RUNS, SHORT, escaped, translated

_MOST_PIECES: Final = 4_096
_MOST_KINDS: Final = 64

Part = tuple[str, str]
"""What of a piece is whole, as the inside of a JSON string, and what must wait for more."""
Split = Callable[[str], Part | None]
"""The part of a piece; ``None`` where the string ends in it, or may, or is wrong."""


class Pieces(dict[str, str]):
    """The short pieces of one kind of string that are whole, as the inside of a JSON string; ``""`` for any other.

    Attributes:
        split: takes any piece apart.
        stop, stop2: the characters with which anything begins that may end such a string, other than JSON's quote;
            the empty string, which all hold, where there are more; ``None`` where there are fewer.
        parts: the pieces of which something must wait.
    """

    __slots__ = ("parts", "split", "stop", "stop2")

    def __init__(self, split: Split, stops: Sequence[str]) -> None:
        self.split = split
        self.stop, self.stop2 = (*stops, None, None)[:2] if len(stops) <= 2 else ("", None)
        self.parts: dict[str, Part] = {}

    def __missing__(self, text: str) -> str:
        """Learn what a piece is."""
        part = self.split(text) if len(text) <= SHORT else None
        if part is None:
            return ""
        fragment, rest = part
        if len(self) >= _MOST_PIECES:
            self.clear()
            self.parts.clear()
        if rest:
            fragment = ""
            self.parts[text] = part
        self[text] = fragment
        return fragment


_kinds: Final[dict[tuple[str, ...], Pieces]] = {}
"""All kinds, for all readers together."""


def _kind(key: tuple[str, ...], stops: Sequence[str], split: Callable[..., Part | None], *how: object) -> Pieces:
    """The pieces of a kind, the same for all; ``split`` takes one apart, by ``how``."""
    found = _kinds.get(key)
    if found is None:
        if len(_kinds) >= _MOST_KINDS:
            _kinds.clear()  # who reads such a string keeps its own
        found = _kinds[key] = Pieces(partial(split, *how) if how else split, stops)
    return found


def json_pieces() -> Pieces:
    """Of JSON strings."""
    return _kind(("json",), "", _json)


def python_pieces(quote: str) -> Pieces:
    """Of Python strings that a quote ends, once or three times."""
    return _kind(("python", quote), quote, _python, quote)


def quoted_pieces(scan: re.Pattern[str], delimiter: str) -> Pieces:
    """Of strings that only a quote ends, which a scan finds, or its beginning at the end of a text."""
    return _kind(("quoted", delimiter), delimiter[0], _quoted, scan, delimiter)


def guarded_pieces(scan: re.Pattern[str], firsts: Sequence[str]) -> Pieces:
    """Of JSON strings that a marker ends too, as in `value_pieces`."""
    return _kind(("guarded", scan.pattern), firsts, _guarded, scan)


def value_pieces(scan: re.Pattern[str], firsts: str, triggers: Set[str], margin: str) -> Pieces:
    """Of arguments in markup.

    Args:
        scan: finds the markers that may end one, or the beginning of one at the end of a text.
        firsts: what those begin with.
        triggers: the markers.
        margin: white space that may belong to a marker that follows it.
    """
    stops = [""] if " " in margin else firsts
    return _kind(("value", scan.pattern, margin), stops, _value, scan, firsts, triggers, margin)


def _json(text: str) -> Part | None:
    end = JSON_RUN.match(text).end()
    whole = end == len(text) or (text[end] == "\\" and JSON_PARTIAL.match(text, end))
    return (text[:end], text[end:]) if whole else None


def _python(quote: str, text: str) -> Part | None:
    end = PYTHON_RUNS[quote].match(text).end()
    rest = text[end:]
    return (translated(text[:end]), rest) if not rest or rest == "\\" else None


def _quoted(scan: re.Pattern[str], delimiter: str, text: str) -> Part | None:
    m = scan.search(text) if delimiter[0] in text else None
    if m is None:
        return escaped(text), ""
    if m.end() < len(text) or m.end() - m.start() == len(delimiter):
        return None
    return escaped(text[: m.start()]), m.group()


def _guarded(scan: re.Pattern[str], text: str) -> Part | None:
    m = scan.search(text)
    if m is None:
        return _json(text)
    end = m.start()
    whole = m.end() == len(text) and JSON_RUN.match(text, 0, end).end() == end
    return (text[:end], text[end:]) if whole else None


def _value(scan: re.Pattern[str], firsts: str, triggers: Set[str], margin: str, text: str) -> Part | None:
    end = len(text)
    m = None if len(firsts) == 1 and firsts not in text else scan.search(text)
    if m is not None:
        if m.end() < end or m.group() in triggers:
            return None
        end = m.start()
    if end and text[end - 1] in margin:
        end -= held_suffix(text, 0, end, margin)
    return escaped(text[:end]), text[end:]
