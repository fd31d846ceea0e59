"""Answers as blocks: reasoning, text and calls in order, each opened and closed, one at a time.

The Responses API, Anthropic's Messages and AG-UI are written that way. `BlockWriter` turns events into blocks and
leaves the bytes to its subclasses. `replay` divides a message in the same way, so that a whole answer equals its
stream.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

from ..events import (
    ContentDelta,
    Event,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..message import Message, ToolCall, checked_messages
from ..validation import wrong_type
from .common import WholeAnswer, Writer, not_written
from .server_tools import AnyEvent, ApprovalAsked, ServerCallResult, ServerCallStart, ServerEvent, ToolsListed

TextKind = Literal["reasoning", "content"]


def replay(message: Message) -> list[Event]:
    """Events that make a message, with one delta for each block and empty spans. A message made by hand, without
    segments, has its reasoning first and its calls last. Between two texts, there was reasoning without text."""
    blocks: list[tuple[str, str] | ToolCall]
    if message.segments:
        blocks = [message.tool_calls[s.call] if s.kind == "tool_call" else (s.kind, s.text) for s in message.segments]
    else:
        texts = ("reasoning", message.reasoning), ("content", message.content)
        blocks = [*(block for block in texts if block[1]), *message.tool_calls]
    events: list[Event] = []
    for block in blocks:
        if isinstance(block, ToolCall):
            events.append(ToolCallStart(block.index, block.id, block.name, 0, 0, block.known))
            if block.arguments:
                events.append(ToolCallDelta(block.index, block.arguments, 0, 0))
            events.append(ToolCallEnd(block.index, block.status, 0, 0, block.raw))
        elif block[0] == "reasoning":
            events += (ReasoningStart(0, 0), ReasoningDelta(block[1], 0, 0), ReasoningEnd(0, 0))
        else:
            if events and isinstance(events[-1], ContentDelta):
                events += (ReasoningStart(0, 0), ReasoningEnd(0, 0))
            events.append(ContentDelta(block[1], 0, 0))
    events.append(Finish(message.finish_reason, 0, 0))
    return events


class BlockWriter(Writer):
    """Turns the events of the one choice of a response into blocks.

    A block of text opens with its first piece, so that no block is empty. Reasoning closes where it ends; other text
    closes with the next block or the finish. What arrives inside a call waits until the call ends.
    """

    def __init__(self) -> None:
        self._kind: TextKind | None = None
        self._apart = False  # the next text begins a new block
        self._call: int | None = None
        self._waiting: list[AnyEvent] = []
        self._finish_reason = ""

    def events(self, choice: int, events: Sequence[AnyEvent], logprobs: Sequence[Any] = ()) -> bytes:
        """The next events; a `ValueError` if the choice is not 0. These protocols have no field for ``logprobs``."""
        if choice != 0:
            raise ValueError(f"choice: got {choice}; the protocol has only one choice")
        out: list[bytes] = []
        if not isinstance(events, list | tuple):
            raise wrong_type("events", events, "a list of events")
        for event in events:
            self._take(event, out)
        return b"".join(out)

    def _take(self, event: AnyEvent, out: list[bytes]) -> None:
        if self._call is not None:
            self._inside(self._call, event, out)
        elif isinstance(event, ContentDelta | ReasoningDelta):
            kind: TextKind = "content" if isinstance(event, ContentDelta) else "reasoning"
            if kind != self._kind or self._apart:
                self._shut(out)
                self._kind = kind
                out.append(self._open(kind))
            out.append(self._text(event.text))
        elif isinstance(event, ReasoningStart):
            self._apart = True
        elif isinstance(event, ReasoningEnd):
            self._apart = True
            if self._kind == "reasoning":
                self._shut(out)
        elif isinstance(event, ToolCallStart):
            self._shut(out)
            self._call = event.index
            out.append(self._open_call(event))
        elif isinstance(event, Finish):
            self._finish_reason = event.reason
            self._shut(out)
        elif isinstance(event, ServerEvent):
            self._shut(out)
            self._server(event, out)
        else:
            not_written(event)

    def _server(self, event: ServerEvent, out: list[bytes]) -> None:
        if isinstance(event, ServerCallStart):
            self._call = event.index
            out.append(self._open_server_call(event))
        elif isinstance(event, ServerCallResult):
            out.append(self._result(event))
        elif isinstance(event, ApprovalAsked):
            out.append(self._ask(event))
        else:
            out.append(self._listed(event))

    def _inside(self, call: int, event: AnyEvent, out: list[bytes]) -> None:
        if isinstance(event, ToolCallDelta) and event.index == call:
            out.append(self._arguments(event.arguments))
        elif isinstance(event, ToolCallEnd) and event.index == call:
            out.append(self._close_call(event))
            self._call = None
            waiting, self._waiting = self._waiting, []
            for later in waiting:
                self._take(later, out)
        elif isinstance(event, Finish):
            self._inside(call, ToolCallEnd(call, "incomplete", event.start, event.start), out)
            self._take(event, out)
        else:
            self._waiting.append(event)

    def _shut(self, out: list[bytes]) -> None:
        if self._kind is not None:
            out.append(self._close(self._kind))
        self._kind = None
        self._apart = False

    @abstractmethod
    def _open(self, kind: TextKind) -> bytes:
        """Open a block of text."""

    @abstractmethod
    def _text(self, text: str) -> bytes:
        """The next piece of the open block."""

    @abstractmethod
    def _close(self, kind: TextKind) -> bytes:
        """The open block of text closes; at the end of the answer, the finish reason is already known."""

    @abstractmethod
    def _open_call(self, event: ToolCallStart) -> bytes: ...

    @abstractmethod
    def _arguments(self, text: str) -> bytes:
        """The next piece of the call's arguments."""

    @abstractmethod
    def _close_call(self, event: ToolCallEnd) -> bytes: ...

    # Events of the server's tools.

    @abstractmethod
    def _open_server_call(self, event: ServerCallStart) -> bytes:
        """Open a call that the server runs; its arguments and its end follow as those of any call."""

    @abstractmethod
    def _result(self, event: ServerCallResult) -> bytes:
        """The result of a call that the server ran."""

    def _ask(self, event: ApprovalAsked) -> bytes:
        """A complete call waits for approval."""
        raise TypeError("events: the protocol has no words for ApprovalAsked")

    def _listed(self, event: ToolsListed) -> bytes:
        """The tools of a tool server."""
        return b""


def events_of(answer: WholeAnswer) -> Sequence[AnyEvent]:
    """The events of the only choice, or those of its message. A `ValueError` if there is not one message."""
    if len(checked_messages(answer.messages)) != 1:
        raise ValueError(f"messages: got {len(answer.messages)}; the protocol has only one choice")
    return answer.events[0] if answer.events else replay(answer.messages[0])
