"""Messages, and how they are assembled from events."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from .events import (
    ContentDelta,
    Event,
    Finish,
    Notice,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Status,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from .validation import json_kind, refuse_constant, wrong_type


class ToolCall(msgspec.Struct):
    """One call of a tool.

    Attributes:
        index: its index among the message's calls, from 0.
        id: the model's own, or one made by the parser's ``ids``.
        name: the tool's name.
        arguments: JSON text; one JSON object if the status is ``ok``.
        status: ``ok``; ``repaired``; ``invalid`` (the arguments are what the model wrote); ``incomplete`` (cut off).
        known: whether the request declares the tool; ``None`` if the request's tools are unknown.
        raw: what the model wrote for the call, if the status is not ``ok``.
    """

    index: int
    id: str
    name: str
    arguments: str
    status: Status = "ok"
    known: bool | None = None
    raw: str = ""

    def arguments_dict(self) -> dict[str, Any]:
        """Return the arguments as a dict, as `json.loads` decodes them.

        Raises:
            ValueError: they are not one JSON object, as with the status ``invalid`` or ``incomplete``.
        """
        try:
            value = _ARGUMENTS.decode(self.arguments)
        except (ValueError, RecursionError) as error:
            raise self._broken(f"not JSON: {error}") from None
        if not isinstance(value, dict):
            raise self._broken(f"{json_kind(value)}, not an object")
        return value

    def _broken(self, why: str) -> ValueError:
        return ValueError(f"arguments of call {self.index} ({self.name}, {self.status}): {why}")


_ARGUMENTS: Final = json.JSONDecoder(parse_constant=refuse_constant)


class Segment(msgspec.Struct, frozen=True):
    """A part of the message, in order: ``text`` for reasoning and content, ``call`` (an index) for a call.

    ``start`` and ``end`` are code-point offsets into the output; ``token_start`` and ``token_end`` are offsets into
    its token ids, or ``-1`` if it was not parsed by ids.
    """

    kind: Literal["reasoning", "content", "tool_call"]
    start: int
    end: int
    text: str = ""
    call: int = -1
    token_start: int = -1
    token_end: int = -1


class Message(msgspec.Struct):
    """An assistant's answer.

    Attributes:
        reasoning, content: the concatenated text of the segments; ``""`` if there is none.
        tool_calls: the calls in order of appearance.
        finish_reason: the finish reason; ``""`` until the output is closed.
        segments: the same as parts in order, which keeps interleaved reasoning in its place.
        notices: the deviations from the format.
        reasoning_tokens: the number of tokens of the reasoning, without markers; ``None`` without token ids.
    """

    reasoning: str = ""
    content: str = ""
    tool_calls: list[ToolCall] = []
    finish_reason: str = ""
    segments: list[Segment] = []
    notices: list[Notice] = []
    reasoning_tokens: int | None = None

    def to_openai(self) -> dict[str, Any]:
        """Return the OpenAI assistant message, in which empty ``content`` is ``None``."""
        message: dict[str, Any] = {
            "role": "assistant",
            "content": self.content or None,
            "reasoning_content": self.reasoning or None,
        }
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in self.tool_calls
            ]
        return message


class Growing(list[str]):
    """Text that grows by pieces. The parser's consumers keep its ``append``, and call it for every piece."""

    __slots__ = ()

    def since(self, count: int) -> str:
        """The text after so many pieces."""
        return "".join(self[count:])

    def join(self) -> str:
        """Replace the pieces with one, so that frequent access stays cheap, and return it."""
        text = "".join(self)
        self[:] = [text]
        return text


class OpenSegment(msgspec.Struct, eq=False):
    """A segment that may still grow; ``text`` is ``None`` for a call."""

    kind: Literal["reasoning", "content", "tool_call"]
    start: int
    end: int
    text: Growing | None = None
    call: int = -1
    token_start: int = -1
    token_end: int = -1


class Fold(msgspec.Struct, eq=False):
    """Assembles a message from events, with constant work per event."""

    _segments: list[OpenSegment] = []
    _calls: list[ToolCall] = []
    _open: OpenSegment | None = None
    _growing: dict[int, Growing] = {}
    _notices: list[Notice] = []
    _finish: str = ""
    reasoning_tokens: int | None = None

    def extend(self, events: Iterable[Event]) -> None:
        growing, takes = self._growing, _TAKES
        for event in events:
            kind = event.__class__
            if kind is ToolCallDelta:
                growing[event.index].append(event.arguments)  # type: ignore[union-attr]  # its class says so
            elif kind in takes:
                takes[kind](self, event)

    def _content(self, event: ContentDelta) -> None:
        self._text("content", event)
        if event.token_start >= 0:
            self.reasoning_tokens = self.reasoning_tokens or 0

    def _reasoning(self, event: ReasoningDelta) -> None:
        self._text("reasoning", event)
        if event.token_start >= 0:
            self.reasoning_tokens = (self.reasoning_tokens or 0) + event.token_end - event.token_start

    def _text(self, kind: Literal["content", "reasoning"], event: ContentDelta | ReasoningDelta) -> None:
        segment = self._open
        if segment is None or segment.text is None or segment.kind != kind:
            segment = self._open = OpenSegment(kind, event.start, event.end, Growing((event.text,)))
            segment.token_start = event.token_start
            self._segments.append(segment)
        else:
            segment.text.append(event.text)
            segment.end = event.end
        segment.token_end = event.token_end

    def _call(self, event: ToolCallStart) -> None:
        start, token = event.start, event.token_start
        self._open = OpenSegment("tool_call", start, start, None, len(self._calls), token, token)
        self._segments.append(self._open)
        self._growing[event.index] = Growing()
        self._calls.append(ToolCall(event.index, event.id, event.name, "", "incomplete", event.known))

    def _call_ends(self, event: ToolCallEnd) -> None:
        call = self._calls[event.index]
        call.status = event.status
        call.raw = event.raw
        call.arguments = "".join(self._growing.pop(event.index))
        if self._open is not None:
            self._open.end = event.end
            self._open.token_end = event.token_end
        self._open = None

    def _part(self, event: ReasoningStart | ReasoningEnd) -> None:
        self._open = None

    def _notice(self, event: Notice) -> None:
        self._notices.append(event)

    def _finished(self, event: Finish) -> None:
        self._finish = event.reason
        if event.token_start >= 0 and self.reasoning_tokens is None:
            self.reasoning_tokens = 0

    def claim(self, start: int, end: int) -> None:
        """Take the token span of text that was added to the open segment."""
        segment = self._open
        if segment is None or segment.text is None or start == end:
            return
        segment.token_end = end
        if segment.kind == "reasoning":
            self.reasoning_tokens = (self.reasoning_tokens or 0) + end - start

    def growing(self, kind: str) -> OpenSegment | None:
        """The segment to which text of a kind is added."""
        segment = self._open
        return segment if segment is not None and segment.kind == kind else None

    def arguments(self, index: int) -> Growing:
        """The arguments of an open call."""
        return self._growing[index]

    def message(self) -> Message:
        """The message so far; a call that has not ended is ``incomplete``."""
        calls = []
        for c in self._calls:
            growing = self._growing.get(c.index)
            arguments = c.arguments if growing is None else growing.join()
            calls.append(ToolCall(c.index, c.id, c.name, arguments, c.status, c.known, c.raw))
        segments = []
        texts: dict[str, list[str]] = {"reasoning": [], "content": []}
        for s in self._segments:
            text = ""
            if s.text is not None:
                text = "".join(s.text)
                texts[s.kind].append(text)
            segments.append(Segment(s.kind, s.start, s.end, text, s.call, s.token_start, s.token_end))
        return Message(
            reasoning="".join(texts["reasoning"]),
            content="".join(texts["content"]),
            tool_calls=calls,
            finish_reason=self._finish,
            segments=segments,
            notices=list(self._notices),
            reasoning_tokens=self.reasoning_tokens,
        )


_TAKES: Final[dict[type[Event], Callable[[Fold, Any], None]]] = {
    ContentDelta: Fold._content,
    Finish: Fold._finished,
    Notice: Fold._notice,
    ReasoningDelta: Fold._reasoning,
    ReasoningEnd: Fold._part,
    ReasoningStart: Fold._part,
    ToolCallEnd: Fold._call_ends,
    ToolCallStart: Fold._call,
}
"""How each other type of event is added; markup adds nothing."""


def fold(events: Iterable[Event]) -> Message:
    """Return the message of a list of events.

    Raises:
        TypeError: these are not events.
        ValueError: an event belongs to a call that has not begun.
    """
    folding = Fold()
    for i, event in enumerate(checked_events(events)):
        try:
            folding.extend((event,))
        except (KeyError, IndexError):
            raise ValueError(f"events[{i}]: refers to a call without a ToolCallStart: {event!r}") from None
    return folding.message()


def checked_events(events: Iterable[Event]) -> Iterator[Event]:
    """Yield events; `TypeError` if one is something else."""
    if isinstance(events, str | Message) or not isinstance(events, Iterable):
        raise wrong_type("events", events, "a list of events")
    for i, event in enumerate(events):
        if not isinstance(event, Event):
            raise wrong_type(f"events[{i}]", event, "an event")
        yield event


def checked_messages(messages: Sequence[Message]) -> Sequence[Message]:
    """Check a list of messages; `TypeError` if it is something else."""
    if not isinstance(messages, list | tuple):
        raise wrong_type("messages", messages, "a list of messages")
    for i, message in enumerate(messages):
        if not isinstance(message, Message):
            raise wrong_type(f"messages[{i}]", message, "a Message")
    return messages
