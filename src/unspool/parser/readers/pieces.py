"""What pieces of strings become: an automaton that grows as pieces come, since tokens recur, and so does their JSON.

The JSON of a piece depends on how the string is written and on what ends it, which is its kind, and on the text before
it that waits: the beginning of an escape or of a marker. Only short pieces are remembered, and only a limited number
of each kind; then all of that kind are forgotten.
"""

import re
from collections.abc import Callable, Set
from typing import Final

from ...dialect.literals import Finder
from ..white import held_suffix
from .strings import JSON_PARTIAL, JSON_RUN, PYTHON_RUN, SHORT, escaped, quote_in, translated

_MOST_PIECES: Final = 4_096
_MOST_KINDS: Final = 64
_MOST_STATES: Final = 64

Part = tuple[str, str]
"""The complete part of a text, as the inside of a JSON string, and the rest, which must wait for more."""

Split = Callable[[str], Part | None]

Turn = tuple[str, str, "PieceState"]
"""The effect of a piece: the inside of a JSON string, the text that was written for it, and the state after it. If
everything waits, both are empty, and the state is another."""


class PieceState(dict[str, str | Turn | None]):
    """A state of the automaton: maps pieces to their effects; to their JSON alone, if that is all of them; ``None`` if
    the string ends in them, may end in them, or is wrong. It remembers short pieces.

    Attributes:
        stop, stop2: the two characters, besides those that JSON escapes, without which a piece is plain: it is its own
            JSON. The empty string, which every text contains, if no piece is plain; ``None`` if there are fewer.
        waits: the text that waits.
    """

    __slots__ = ("_kind", "stop", "stop2", "waits")

    def __init__(self, kind: "StringKind", waits: str) -> None:
        self._kind = kind
        self.waits = waits
        self.stop, self.stop2 = stops_of(None if waits else kind.stops)

    def __missing__(self, text: str) -> str | Turn | None:
        """Read a piece."""
        kind, whole = self._kind, self.waits + text
        part = kind.split(whole)
        turn: str | Turn | None = None
        if part is not None:
            json, rest = part
            if rest or self.waits:
                turn = json, whole[: len(whole) - len(rest)], kind.state(rest)
            else:
                turn = json
        if len(text) <= SHORT:
            kind.count()
            self[text] = turn
        return turn


def stops_of(stops: str | None) -> tuple[str | None, str | None]:
    """`PieceState.stop` and `PieceState.stop2` for some characters; ``None``: no piece is plain."""
    if stops is None or len(stops) > 2:
        return "", None
    return stops[:1] or None, stops[1:] or None


class StringKind:
    """A kind of string, with the states of its automaton."""

    def __init__(self, split: Split, stops: str | None = "") -> None:
        self.split = split  # splits a text; ``None`` if the string ends in it, may end in it, or is wrong
        # The characters, besides those that JSON escapes, without which a piece is its own JSON while no text waits;
        # ``None``: no piece is.
        self.stops = stops
        self._size = 0  # how many pieces the states contain
        self.empty = PieceState(self, "")  # the state in which no text waits
        self._states = {"": self.empty}

    def state(self, waits: str) -> PieceState:
        """The state in which a text waits."""
        if not waits:
            return self.empty
        found = self._states.get(waits)
        if found is None:
            found = PieceState(self, waits)
            if len(self._states) < _MOST_STATES:
                self._states[waits] = found
        return found

    def count(self) -> None:
        """Count a piece; if there are too many, forget all."""
        self._size += 1
        if self._size > _MOST_PIECES:
            self._size = 1
            for state in list(self._states.values()):
                state.clear()


_kinds: Final[dict[tuple[str, ...], StringKind]] = {}  # all kinds, shared by all readers


def _kind(key: tuple[str, ...], split: Split, stops: str | None) -> StringKind:
    """The shared automaton of a kind."""
    found = _kinds.get(key)
    if found is None:
        if len(_kinds) >= _MOST_KINDS:
            _kinds.clear()  # readers of such strings keep theirs
        found = _kinds[key] = StringKind(split, stops)
    return found


def _json(text: str) -> Part | None:
    end = JSON_RUN.match(text).end()
    if end == len(text):
        return text, ""
    return (text[:end], text[end:]) if text[end] == "\\" and JSON_PARTIAL.match(text, end) else None


JSON_STRINGS: Final = StringKind(_json)


def guarded_strings(inner: StringKind, scan: Finder, heads: str) -> StringKind:
    """Strings of a kind that a marker ends too; the other arguments are as in `markup_values`."""

    def split(text: str) -> Part | None:
        m = scan.search(text)
        if m is None:
            return inner.split(text)
        part = inner.split(text[: m.start()]) if m.end() == len(text) else None
        return None if part is None or part[1] else (part[0], m.group())

    stops = None if inner.stops is None else inner.stops + heads
    return _kind(("guarded", str(id(inner)), scan.pattern), split, stops)


def python_strings(delimiter: str) -> StringKind:
    """Python strings that end with a quote, or with three."""

    def split(text: str) -> Part | None:
        end = PYTHON_RUN.match(text, 0, quote_in(text, 0, delimiter)).end()
        rest = text[end:]
        return (translated(text[:end]), rest) if not rest or rest == "\\" else None

    return _kind(("python", delimiter), split, delimiter[0])


def quoted_strings(scan: re.Pattern[str], delimiter: str) -> StringKind:
    """Strings that only a quote ends; ``scan`` finds it, or its beginning at the end of a text."""

    def split(text: str) -> Part | None:
        m = scan.search(text) if delimiter[0] in text else None
        if m is None:
            return escaped(text), ""
        if m.end() < len(text) or m.end() - m.start() == len(delimiter):
            return None
        return escaped(text[: m.start()]), m.group()

    return _kind(("quoted", delimiter), split, delimiter[0])


def begun_tag(text: str, start: int, end: int, tag: str) -> int:
    """How many characters before ``end`` are the beginning of a tag."""
    at = text.rfind("<", max(start, end - len(tag)), end) if tag else -1
    return end - at if at >= 0 and tag.startswith(text[at:end]) else 0


def markup_values(scan: Finder, heads: str, triggers: Set[str], margin: str, tag: str = "") -> StringKind:
    """Arguments in markup.

    Args:
        scan: finds a marker that may end an argument, or the beginning of one at the end of a text.
        heads: the first characters of those markers.
        triggers: the markers.
        margin: text that may belong to a marker that follows it.
        tag: a tag that may end it too, or nothing.
    """
    if tag and "<" not in heads:
        heads += "<"
    first = heads if len(heads) == 1 else ""

    def split(text: str) -> Part | None:
        end = len(text)
        m = scan.search(text) if first in text else None
        if m is not None:
            if m.end() < end or m.group() in triggers:
                return None
            end = m.start()
        if tag and tag in text:
            return None
        end = min(end, len(text) - begun_tag(text, 0, len(text), tag))
        if end and text[end - 1] in margin:
            end -= held_suffix(text, 0, end, margin)
        return (escaped(text), "") if end == len(text) else (escaped(text[:end]), text[end:])

    # JSON escapes control characters such as line breaks, so pieces that contain them are not plain anyway.
    return _kind(("value", scan.pattern, margin, tag), split, None if any(c >= " " for c in margin) else heads)
