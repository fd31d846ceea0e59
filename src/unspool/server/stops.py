"""Stop strings, matched on content alone: reasoning and arguments may hold them."""

from collections.abc import Sequence

import msgspec

from ..events import ContentDelta, Event, Finish, Markup, Notice, ToolCallEnd


class Stops:
    """Cuts the events of one choice where its content holds a stop string, which is left out.

    A text that may be the beginning of a stop string waits. Other blocks interrupt the content: a stop string does not
    reach across them.

    Attributes:
        matched: the stop string that ended the content, else ``None``.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._longest = max(map(len, stops))
        self._held: list[ContentDelta] = []
        self._calls = False
        self.matched: str | None = None

    def feed(self, events: Sequence[Event]) -> list[Event]:
        """The events that may go on; after a match the last one is a `Finish`, and later events are dropped."""
        out: list[Event] = []
        for event in events:
            if self.matched is not None:
                break
            if isinstance(event, ContentDelta):
                self._content(event, out)
            else:
                if not isinstance(event, Markup | Notice):
                    out += self._held
                    self._held = []
                self._calls = self._calls or isinstance(event, ToolCallEnd)
                out.append(event)
        return out

    def _content(self, event: ContentDelta, out: list[Event]) -> None:
        self._held.append(event)
        text = "".join([e.text for e in self._held])
        found = [(at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            at, self.matched = min(found)
            self._release(at, out)
            self._held = []
            end = event.end
            out.append(Finish("tool_calls" if self._calls else "stop", end, end))
        else:
            self._release(len(text) - self._beginning(text), out)

    def _beginning(self, text: str) -> int:
        """How many characters at the text's end may begin a stop string."""
        for n in range(min(self._longest - 1, len(text)), 0, -1):
            tail = text[-n:]
            if any(len(stop) > n and stop.startswith(tail) for stop in self._stops):
                return n
        return 0

    def _release(self, size: int, out: list[Event]) -> None:
        """Let the first characters go on."""
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
