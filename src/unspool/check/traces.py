"""How the text of an example was read: its notices and events, in short."""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from ..dialect.file import Dialect, Example
from ..events import (
    NOTICES,
    ContentDelta,
    Event,
    Markup,
    Notice,
    ReasoningDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..message import Message


class ExampleReading(msgspec.Struct, frozen=True):
    """A text of an example, and what it was read as."""

    dialect: Dialect
    example: Example
    raw: str
    message: Message
    events: Sequence[Event]


class ExampleWriting(msgspec.Struct, frozen=True):
    """The first text of an example, whether it is read as the message, and what writes the message in a dialect."""

    dialect: Dialect
    raw: str
    written: str
    understood: bool
    write: Callable[[Dialect], str]


_AROUND = 12  # how many events a trace shows on either side of the difference
_MAX_TEXT = 40  # how many characters of an event's text it shows


def trace(reading: ExampleReading) -> Iterator[str]:
    """How a text was read: its notices, and the events around the first one that the example does not have."""
    events = reading.events
    for event in events:
        if isinstance(event, Notice):
            detail = f" ({event.detail})" if event.detail else ""
            yield f"notice {event.kind} at {event.start}: {NOTICES[event.kind]}{detail}"
    at = _first_wrong(events, reading.example)
    begin = max(0, at - _AROUND)
    words = [word for event in events[begin : at + _AROUND] if (word := _in_short(event))]
    before = ["…"] if any(map(_in_short, events[:begin])) else []
    behind = ["…"] if any(map(_in_short, events[at + _AROUND :])) else []
    yield "read as: " + ", ".join([*before, *words, *behind])


def _first_wrong(events: Sequence[Event], example: Example) -> int:
    """The index of the first event that the example does not have; the number of events if it has all."""
    rest = {ReasoningDelta: example.reasoning, ContentDelta: example.content}
    names = [call.name for call in example.tool_calls]
    for at, event in enumerate(events):
        if isinstance(event, ReasoningDelta | ContentDelta):
            if not rest[type(event)].startswith(event.text):
                return at
            rest[type(event)] = rest[type(event)][len(event.text) :]
        elif isinstance(event, ToolCallStart):
            if names[event.index : event.index + 1] != [event.name]:
                return at
        elif isinstance(event, ToolCallEnd) and event.status not in ("ok", "repaired"):
            return at
    return len(events)


def _in_short(event: Event) -> str:
    """A line of a trace for an event; empty if it adds nothing."""
    if isinstance(event, ReasoningDelta | ContentDelta | Markup):
        kind = {ReasoningDelta: "reasoning", ContentDelta: "content", Markup: "markup"}[type(event)]
        return f"{kind} {_short(event.text)}"
    if isinstance(event, ToolCallStart):
        return f"call {event.name}"
    if isinstance(event, ToolCallDelta):
        return f"arguments {_short(event.arguments)}"
    if isinstance(event, ToolCallEnd):
        return f"{event.status} call ends"
    return ""


def _short(text: str) -> str:
    return repr(text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…")
