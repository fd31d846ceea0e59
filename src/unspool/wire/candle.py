"""The candle profile of chat completions.

It differs from OpenAI's: ``delta.reasoning`` has the reasoning, with its markers in the first and the last delta. The
role is in a choice's first delta and has no chunk of its own. A whole answer lists its chunks in ``extensions``. A
call that cannot be parsed, or an engine that fails, ends the choice with a chunk with the finish reason ``error``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Unpack

import msgspec

from ..events import (
    ContentDelta,
    Event,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..message import Message, fold
from . import sse
from .blocks import replay
from .chat import ChatWriter, Options, StreamedChoice, error_body, tool_call
from .common import Failure, WholeAnswer
from .encoding import encode, on_one_line
from .server_tools import AnyEvent, Clients
from .summary import Detail, summarized

__all__ = ["CandleWriter", "error_body"]

_INVALID_CALL: Final = {"message": "Tool call parsing failed: Invalid JSON", "type": "tool_call_parse_error"}


class CandleWriter(ChatWriter):
    """Writes one response.

    Args:
        markers: the opening and closing of reasoning, which events do not contain.
        content_chunks: whether the extensions of a whole answer also list the pieces of the content. They list the
            pieces of the events; without events, each block is one piece.
        summary: how detailed the summary of reasoning in the extensions is; ``None`` if there is none.
        n, include_usage, options: as for `ChatWriter`.
    """

    ROLE_CHUNK = False
    NO_LOGPROBS = b""

    def __init__(
        self,
        *,
        markers: tuple[str, str],
        content_chunks: bool = False,
        summary: Detail | None = None,
        n: int = 1,
        include_usage: bool = False,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(n=n, reasoning_field="reasoning", include_usage=include_usage, **options)
        self._markers = markers
        self._content_chunks = content_chunks
        self._summary = summary
        self._unsaid: dict[StreamedChoice, str] = {}
        self._begun: set[int] = set()

    def _handle(self) -> dict[type, Callable[[StreamedChoice, Any], bytes]]:
        return {
            **super()._handle(),
            ReasoningStart: self._reasoning_start,
            ReasoningEnd: self._reasoning_end,
            ToolCallEnd: self._call_end,
        }

    # -- streaming -------------------------------------------------------------------------------------------------

    def events(self, choice: int, events: Sequence[AnyEvent], logprobs: Sequence[Any] = ()) -> bytes:
        """The next events of a choice; see `ChatWriter.events`."""
        out = super().events(choice, events, logprobs)
        if out and choice not in self._begun:
            self._begun.add(choice)
            # Strings are escaped, so only a delta looks like this; it is empty if nothing is sent.
            filled = b'"delta":{"' in out
            old, new = (b'{"', b'{"role":"assistant","') if filled else (b"{}", b'{"role":"assistant"}')
            out = out.replace(b'"delta":' + old, b'"delta":' + new, 1)
        return out

    def _reasoning_start(self, c: StreamedChoice, event: ReasoningStart) -> bytes:
        self._unsaid[c] = self._markers[0]  # goes with the first text
        return b""

    def _reasoning(self, c: StreamedChoice, event: ReasoningDelta) -> bytes:
        opening = self._unsaid.pop(c, "")
        return super()._reasoning(c, msgspec.structs.replace(event, text=opening + event.text) if opening else event)

    def _reasoning_end(self, c: StreamedChoice, event: ReasoningEnd) -> bytes:
        return self._reasoning(c, ReasoningDelta(self._markers[1], event.start, event.end))

    def _call_end(self, c: StreamedChoice, event: ToolCallEnd) -> bytes:
        return self._broken(c, _INVALID_CALL) if event.status == "invalid" else b""

    def _broken(self, c: StreamedChoice, error: dict[str, str]) -> bytes:
        c.over = True
        chunk = c.head + self._tail(c.logprobs, b'"error"')
        return chunk.removesuffix(b"}\n\n") + b',"error":' + on_one_line(encode(error)) + b"}\n\n"

    def error(self, failure: Failure) -> bytes:
        """A failure after the first byte: every choice that still runs ends with ``error``."""
        error = {"message": failure.message, "type": failure.type or "generation_error"}
        return b"".join([self._broken(c, error) for c in self._choices if not c.over]) + sse.DONE

    # -- whole -----------------------------------------------------------------------------------------------------

    def _whole(self, answer: WholeAnswer) -> dict[str, Any]:
        seen = [Clients().take(e) for e in answer.events] or [replay(m) for m in answer.messages]
        runs = [_before_failure(e) for e in seen]
        whole = super()._whole(msgspec.structs.replace(answer, messages=[fold(run) for run in runs]))
        extensions = self._extensions(runs)
        if any(extensions.values()):
            whole["extensions"] = extensions
        if any(_fails(run[-1]) for run in runs if run):
            whole["error"] = _INVALID_CALL
        return whole

    def _message(self, message: Message) -> dict[str, Any]:
        sent: dict[str, Any] = {"role": "assistant", "content": message.content or None}
        if message.tool_calls:
            sent["tool_calls"] = [tool_call(c) for c in message.tool_calls]
        return sent

    def _reason(self, reason: str) -> str:
        return super()._reason(reason) or "error"  # a run that was cut off has no finish

    def _extensions(self, runs: Sequence[Sequence[Event]]) -> dict[str, list[Any]]:
        reasoning = [e.text for run in runs for e in run if isinstance(e, ReasoningDelta)]
        extensions: dict[str, list[Any]] = {
            "reasoning_chunks": reasoning,
            "tool_call_chunks": [chunk for run in runs for chunk in _call_chunks(run)],
        }
        if self._content_chunks:
            extensions["content_chunks"] = [e.text for run in runs for e in run if isinstance(e, ContentDelta)]
        if self._summary is not None:
            extensions["reasoning_summary"] = summarized("".join(reasoning), self._summary)
        return extensions


def _call_chunks(run: Iterable[Event]) -> Iterator[dict[str, str]]:
    ids: dict[int, str] = {}
    for event in run:
        if isinstance(event, ToolCallStart):
            ids[event.index] = event.id
            yield {"type": "start", "tool_call_id": event.id, "tool_name": event.name}
        elif isinstance(event, ToolCallDelta):
            yield {"type": "args", "tool_call_id": ids[event.index], "delta": event.arguments}
        elif isinstance(event, ToolCallEnd):
            yield {"type": "end", "tool_call_id": ids[event.index]}


def _fails(event: Event) -> bool:
    return isinstance(event, ToolCallEnd) and event.status == "invalid"


def _before_failure(events: Sequence[Event]) -> Sequence[Event]:
    """The events up to the first call that cannot be parsed, where a stream and a whole answer end."""
    at = next((i for i, e in enumerate(events) if _fails(e)), None)
    return events if at is None else events[: at + 1]
