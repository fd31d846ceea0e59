"""A cache of the JSON of pieces of strings: tokens recur, and so does their JSON.

The JSON of a piece depends on how the string is written and on what ends it: its kind. Only short pieces are
remembered, and only a limited number of each kind; then they are forgotten.
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
"""The complete part of a piece, as the inside of a JSON string, and the rest, which must wait for more."""
Split = Callable[[str], Part | None]
"""Splits a piece; ``None`` if the string ends in it, may end in it, or is wrong."""


class Pieces(dict[str, str]):
    """Maps short, complete pieces of one kind of string to the inside of a JSON string, and any others to ``""``.

    Attributes:
        split: splits any piece.
        stop, stop2: the first characters of what may end such a string, besides JSON's quote. If there are more than
        two, the empty string, which every text contains; if there are fewer, ``None``.
        parts: the pieces of which a part must wait.
    """

    __slots__ = ("parts", "split", "stop", "stop2")

    def __init__(self, split: Split, stops: Sequence[str]) -> None:
        self.split = split
        self.stop, self.stop2 = (*stops, None, None)[:2] if len(stops) <= 2 else ("", None)
        self.parts: dict[str, Part] = {}

    def __missing__(self, text: str) -> str:
        """Add a piece."""
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
"""All kinds, shared by all readers."""


def _kind(key: tuple[str, ...], stops: Sequence[str], split: Callable[..., Part | None], *how: object) -> Pieces:
    """The shared pieces of a kind, which ``split`` splits, given ``how``."""
    found = _kinds.get(key)
    if found is None:
        if len(_kinds) >= _MOST_KINDS:
            _kinds.clear()  # readers of such strings keep theirs
        found = _kinds[key] = Pieces(partial(split, *how) if how else split, stops)
    return found


def json_pieces() -> Pieces:
    """Pieces of JSON strings."""
    return _kind(("json",), "", _json)


def python_pieces(quote: str) -> Pieces:
    """Pieces of Python strings that end with a quote, or with three."""
    return _kind(("python", quote), quote, _python, quote)


def quoted_pieces(scan: re.Pattern[str], delimiter: str) -> Pieces:
    """Pieces of strings that only a quote ends; ``scan`` finds it, or its beginning at the end of a text."""
    return _kind(("quoted", delimiter), delimiter[0], _quoted, scan, delimiter)


def guarded_pieces(scan: re.Pattern[str], firsts: Sequence[str]) -> Pieces:
    """Pieces of JSON strings that a marker ends too; the arguments are as in `value_pieces`."""
    return _kind(("guarded", scan.pattern), firsts, _guarded, scan)


def value_pieces(scan: re.Pattern[str], firsts: str, triggers: Set[str], margin: str) -> Pieces:
    """Pieces of arguments in markup.

    Args:
        scan: finds a marker that may end an argument, or the beginning of one at the end of a text.
        firsts: the first characters of those markers.
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
