"""Joins deltas into fewer and larger ones: by sentence, at boundaries of JSON, or by time.

Only the cuts change. The concatenated text is the same, spans still tile the output, and every other event passes at
once, after what was held back before it.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from ..events import ContentDelta, Event, ReasoningDelta, ToolCallDelta, ToolCallStart

Delta = ReasoningDelta | ContentDelta | ToolCallDelta

MAX_HELD: Final = 4096
"""How many characters may be held: a text without sentences, or a long string, is sent then anyway."""

_LOOK_BACK: Final = 4
_SENTENCE: Final = re.compile(r"[.!?…][\"')\]]*\s+|[。！？]+[」』”）]*|\n")
_STRUCTURE: Final = re.compile(r'["{}\[\],:]')
_IN_STRING: Final = re.compile(r'["\\]')


class Coalescer:
    """Holds back deltas of one choice, and joins them.

    Args:
        sentences: send reasoning sentence by sentence.
        boundaries: send arguments up to a bracket, a comma, a colon or the closing quote of a string.
        max_delay: the longest hold, in the unit of the caller's clock. On its own, it holds every delta that long.

    The caller passes the time: ``now`` is any monotonic clock, and `due` is when to call `tick`.
    """

    def __init__(self, *, sentences: bool = False, boundaries: bool = False, max_delay: float | None = None) -> None:
        only_time = max_delay is not None and not (sentences or boundaries)
        held: dict[type, bool] = {ReasoningDelta: sentences, ToolCallDelta: boundaries, ContentDelta: False}
        self._kinds = {kind for kind, by in held.items() if by or only_time}
        self._cuts = not only_time
        self._max_delay = max_delay
        self._held: list[Delta] = []
        self._size = 0
        self._since = 0.0
        self._in_string = self._escaped = False  # the state of the open call's arguments

    @property
    def due(self) -> float | None:
        """When the held deltas must be sent; ``None`` if there is no such time."""
        return self._since + self._max_delay if self._held and self._max_delay is not None else None

    def feed(self, events: Iterable[Event], now: float = 0.0) -> list[Event]:
        """Take the next events, and return those to send."""
        out = self.tick(now)
        for event in events:
            if type(event) in self._kinds and isinstance(event, Delta):
                self._take(event, now, out)
            else:
                out += self.flush()
                if isinstance(event, ToolCallStart):
                    self._in_string = self._escaped = False
                out.append(event)
        return out

    def tick(self, now: float) -> list[Event]:
        """Return the events that were held for long enough."""
        due = self.due
        return self.flush() if due is not None and now >= due else []

    def flush(self) -> list[Event]:
        """Return everything that is held, as one delta."""
        held, self._held, self._size = self._held, [], 0
        return [_joined(held)] if held else []

    def _take(self, event: Delta, now: float, out: list[Event]) -> None:
        if self._held and not _continues(self._held[-1], event):
            out += self.flush()
        if not self._held:
            self._since = now
        cut = self._cut(event) if self._cuts else 0
        if cut:
            head, rest = _split(event, cut)
            self._held.append(head)
            out += self.flush()
            if rest is None:
                return
            event, self._since = rest, now
        self._held.append(event)
        self._size += len(_text(event))
        if self._size >= MAX_HELD:
            out += self.flush()

    def _cut(self, event: Delta) -> int:
        """The end of the last boundary in a piece; 0 if there is none."""
        if isinstance(event, ToolCallDelta):
            return self._boundary(event.arguments)
        text, before = event.text, "".join([_text(e) for e in self._held[-_LOOK_BACK:]])[-_LOOK_BACK:]
        # A boundary may be between pieces: the punctuation in one, the white space in the next.
        ends = [m.end() for m in _SENTENCE.finditer(before + text)]
        return max(ends[-1] - len(before), 0) if ends else 0

    def _boundary(self, text: str) -> int:
        """One pass over the arguments, from string to string."""
        at = cut = 0
        if self._escaped and text:
            at, self._escaped = 1, False
        while at < len(text):
            found = (_IN_STRING if self._in_string else _STRUCTURE).search(text, at)
            if found is None:
                break
            at = found.end()
            if found[0] == "\\":
                if at == len(text):
                    self._escaped = True
                at += 1
            elif found[0] == '"':
                self._in_string = not self._in_string
                cut = cut if self._in_string else at
            else:
                cut = at
        return cut


def _text(event: Delta) -> str:
    return event.arguments if isinstance(event, ToolCallDelta) else event.text


def _continues(event: Delta, later: Delta) -> bool:
    if isinstance(event, ToolCallDelta):
        return isinstance(later, ToolCallDelta) and later.index == event.index
    return type(event) is type(later)


def _joined(held: list[Delta]) -> Delta:
    first, last = held[0], held[-1]
    if first is last:
        return first
    text = "".join([_text(e) for e in held])
    field = {"arguments": text} if isinstance(first, ToolCallDelta) else {"text": text}
    return msgspec.structs.replace(first, **field, end=last.end, token_end=last.token_end)


def _split(event: Delta, at: int) -> tuple[Delta, Delta | None]:
    """Split a delta in two. Tokens, and the span of arguments, which may differ from the text, stay with the first."""
    text = _text(event)
    if at == len(text):
        return event, None
    replace = msgspec.structs.replace
    if isinstance(event, ToolCallDelta):
        tail = replace(event, arguments=text[at:], start=event.end, token_start=event.token_end)
        return replace(event, arguments=text[:at]), tail
    middle = event.start + at
    head = replace(event, text=text[:at], end=middle)
    return head, replace(event, text=text[at:], start=middle, token_start=event.token_end)
