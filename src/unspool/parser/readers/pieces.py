"""A cache of the JSON of pieces of strings: tokens recur, and so does their JSON.

The JSON of a piece depends on how the string is written and on what ends it: its kind. Only short pieces are
remembered, and only a limited number of each kind; then they are forgotten.
"""

import re
from collections.abc import Callable, Sequence, Set
from typing import Final

from ..white import held_suffix
from .strings import JSON_PARTIAL, JSON_RUN, PYTHON_RUNS, SHORT, escaped, translated

_MOST_PIECES: Final = 4_096
_MOST_KINDS: Final = 64

Part = tuple[str, str]
"""The complete part of a piece, as the inside of a JSON string, and the rest, which must wait for more."""
_NEW: Final[Part] = ("", "")


class Pieces(dict[str, str]):
    """Maps short, complete pieces of one kind of string, here of JSON's, to the inside of a JSON string, and any others
    to ``""``.

    Attributes:
        stop, stop2: the first characters of what may end such a string, besides JSON's quote. If there are more than
            two, the empty string, which every text contains; if there are fewer, ``None``.
    """

    __slots__ = ("_parts", "stop", "stop2")

    def __init__(self, stops: Sequence[str] = "") -> None:
        self.stop, self.stop2 = (*stops, None, None)[:2] if len(stops) <= 2 else ("", None)
        self._parts: dict[str, Part | None] = {}  # the short pieces that are not complete

    def __missing__(self, text: str) -> str:
        """Add a piece."""
        if len(text) > SHORT:
            return ""
        part = self._split(text)
        if len(self) >= _MOST_PIECES:
            self.clear()
            self._parts.clear()
        if part is None or part[1]:
            self._parts[text] = part
            fragment = ""
        else:
            fragment = part[0]
        self[text] = fragment
        return fragment

    def part(self, text: str) -> Part | None:
        """Split a piece that is not known to be complete; ``None`` if the string ends in it, may end in it, or is
        wrong."""
        part = self._parts.get(text, _NEW)
        return self._split(text) if part is _NEW else part

    def _split(self, text: str) -> Part | None:
        if text.endswith("\\") and JSON_RUN.fullmatch(text, 0, len(text) - 1):
            return text[:-1], "\\"
        if JSON_RUN.fullmatch(text):
            return text, ""
        end = JSON_RUN.match(text).end()
        return (text[:end], text[end:]) if text[end] == "\\" and JSON_PARTIAL.match(text, end) else None


class _Guarded(Pieces):
    """Pieces of JSON strings that a marker ends too."""

    __slots__ = ("_scan",)

    def __init__(self, scan: re.Pattern[str], firsts: Sequence[str]) -> None:
        super().__init__(firsts)
        self._scan = scan

    def _split(self, text: str) -> Part | None:
        m = self._scan.search(text)
        if m is None:
            return super()._split(text)
        end = m.start()
        whole = m.end() == len(text) and JSON_RUN.match(text, 0, end).end() == end
        return (text[:end], text[end:]) if whole else None


class _Python(Pieces):
    """Pieces of Python strings."""

    __slots__ = ("_quote",)

    def __init__(self, quote: str) -> None:
        super().__init__(quote)
        self._quote = quote

    def _split(self, text: str) -> Part | None:
        end = PYTHON_RUNS[self._quote].match(text).end()
        rest = text[end:]
        return (translated(text[:end]), rest) if not rest or rest == "\\" else None


class _Quoted(Pieces):
    """Pieces of strings that only a quote ends."""

    __slots__ = ("_delimiter", "_scan")

    def __init__(self, scan: re.Pattern[str], delimiter: str) -> None:
        super().__init__(delimiter[0])
        self._scan = scan
        self._delimiter = delimiter

    def _split(self, text: str) -> Part | None:
        m = self._scan.search(text) if self._delimiter[0] in text else None
        if m is None:
            return escaped(text), ""
        if m.end() < len(text) or m.end() - m.start() == len(self._delimiter):
            return None
        return escaped(text[: m.start()]), m.group()


class _Value(Pieces):
    """Pieces of arguments in markup."""

    __slots__ = ("_firsts", "_margin", "_scan", "_triggers")

    def __init__(self, scan: re.Pattern[str], firsts: str, triggers: Set[str], margin: str) -> None:
        super().__init__([""] if " " in margin else firsts)
        self._scan = scan
        self._firsts = firsts
        self._triggers = triggers
        self._margin = margin

    def _split(self, text: str) -> Part | None:
        end = len(text)
        m = None if len(self._firsts) == 1 and self._firsts not in text else self._scan.search(text)
        if m is not None:
            if m.end() < end or m.group() in self._triggers:
                return None
            end = m.start()
        if end and text[end - 1] in self._margin:
            end -= held_suffix(text, 0, end, self._margin)
        return (escaped(text), "") if end == len(text) else (escaped(text[:end]), text[end:])


_kinds: Final[dict[tuple[str, ...], Pieces]] = {}
"""All kinds, shared by all readers."""


def _kind(key: tuple[str, ...], make: Callable[[], Pieces]) -> Pieces:
    """The shared pieces of a kind."""
    found = _kinds.get(key)
    if found is None:
        if len(_kinds) >= _MOST_KINDS:
            _kinds.clear()  # readers of such strings keep theirs
        found = _kinds[key] = make()
    return found


def json_pieces() -> Pieces:
    """Pieces of JSON strings."""
    return _kind(("json",), Pieces)


def guarded_pieces(scan: re.Pattern[str], firsts: Sequence[str]) -> Pieces:
    """Pieces of JSON strings that a marker ends too; the arguments are as in `value_pieces`."""
    return _kind(("guarded", scan.pattern), lambda: _Guarded(scan, firsts))


def python_pieces(quote: str) -> Pieces:
    """Pieces of Python strings that end with a quote, or with three."""
    return _kind(("python", quote), lambda: _Python(quote))


def quoted_pieces(scan: re.Pattern[str], delimiter: str) -> Pieces:
    """Pieces of strings that only a quote ends; ``scan`` finds it, or its beginning at the end of a text."""
    return _kind(("quoted", delimiter), lambda: _Quoted(scan, delimiter))


def value_pieces(scan: re.Pattern[str], firsts: str, triggers: Set[str], margin: str) -> Pieces:
    """Pieces of arguments in markup.

    Args:
        scan: finds a marker that may end an argument, or the beginning of one at the end of a text.
        firsts: the first characters of those markers.
        triggers: the markers.
        margin: white space that may belong to a marker that follows it.
    """
    return _kind(("value", scan.pattern, margin), lambda: _Value(scan, firsts, triggers, margin))
