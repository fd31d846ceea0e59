"""`Stops`: ends an output before its engine does, at a stop string in the content or after the first call."""

from collections.abc import Sequence

import msgspec

from ..events import ContentDelta, Event, Finish, Markup, Notice, ToolCallEnd


class Stops:
    """Cuts the events of one choice before a stop string in its content, or after its first call.

    Text that may begin a stop string is held back. A stop string cannot span anything but content, such as a call.
    ``matched`` is the stop string that ended the content, else ``None``.
    """

    def __init__(self, stops: Sequence[str], *, one_call: bool) -> None:
        self._stops = tuple(stops)
        self._longest = max(map(len, stops), default=0)
        self._one_call = one_call
        self._held: list[ContentDelta] = []
        self._calls = False
        self.over = False
        self.matched: str | None = None

    def feed(self, events: Sequence[Event]) -> list[Event]:
        """The events up to the cut, followed there by a `Finish`. Later events are dropped."""
        out: list[Event] = []
        for event in events:
            if self.over:
                break
            if isinstance(event, ContentDelta) and self._stops:
                self._content(event, out)
                continue
            if not isinstance(event, Markup | Notice):
                out += self._held
                self._held = []
            out.append(event)
            if isinstance(event, ToolCallEnd):
                self._calls = True
                if self._one_call:
                    self._cut(event.end, out)
        return out

    def _cut(self, at: int, out: list[Event]) -> None:
        self.over = True
        out.append(Finish("tool_calls" if self._calls else "stop", at, at))

    def _content(self, event: ContentDelta, out: list[Event]) -> None:
        self._held.append(event)
        text = "".join([e.text for e in self._held])
        found = [(at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            at, self.matched = min(found)
            self._release(at, out)
            self._held = []
            self._cut(event.end, out)
        else:
            self._release(len(text) - self._beginning(text), out)

    def _beginning(self, text: str) -> int:
        """The number of characters at the text's end that may begin a stop string."""
        for n in range(min(self._longest - 1, len(text)), 0, -1):
            tail = text[-n:]
            if any(len(stop) > n and stop.startswith(tail) for stop in self._stops):
                return n
        return 0

    def _release(self, size: int, out: list[Event]) -> None:
        """Pass on the first ``size`` characters of the held text."""
        while size > 0:
            event = self._held[0]
            if len(event.text) <= size:
                out.append(self._held.pop(0))
                size -= len(event.text)
                continue
            cut = event.start + size
            out.append(msgspec.structs.replace(event, text=event.text[:size], end=cut))
            self._held[0] = msgspec.structs.replace(event, text=event.text[size:], start=cut)
            return
