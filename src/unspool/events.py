"""The parser's events: small frozen objects whose spans tile the model's output.

Every event carries ``start`` and ``end``, code-point offsets into the output; the ``end`` of one is the ``start`` of
the next. With token ids (`Parser.feed_tokens`) it also carries ``token_start`` and ``token_end``, offsets into the ids;
a token belongs to the event that contains its first character. Without ids both are ``-1``.
"""

import enum
from typing import Literal

import msgspec

Status = Literal["ok", "incomplete", "invalid", "repaired"]


class Stage(enum.StrEnum):
    """The stage of an output: what the model is writing."""

    REASONING = "reasoning"
    CONTENT = "content"
    TOOL_CALL = "tool_call"
    UNDECIDED = "undecided"


class _Span(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Base class of all events: a half-open span of the output, in code points."""


class _MarkerEvent(_Span, frozen=True, gc=False):
    start: int
    end: int
    token_start: int = -1
    token_end: int = -1


class _TextEvent(_Span, frozen=True, gc=False):
    text: str
    start: int
    end: int
    token_start: int = -1
    token_end: int = -1


class ReasoningStart(_MarkerEvent, frozen=True, gc=False, tag="reasoning_start"):
    """Reasoning opens; the span is its opening marker (empty if the prompt opened it)."""


class ReasoningDelta(_TextEvent, frozen=True, gc=False, tag="reasoning_delta"):
    """Reasoning text; ``text == output[start:end]``."""


class ReasoningEnd(_MarkerEvent, frozen=True, gc=False, tag="reasoning_end"):
    """Reasoning closes; the span is its closing marker (empty if none was written)."""


class ContentDelta(_TextEvent, frozen=True, gc=False, tag="content_delta"):
    """Text for the user; ``text == output[start:end]``."""


class ToolCallStart(_Span, frozen=True, gc=False, tag="tool_call_start"):
    """The header of a call, sent once: its index among the calls (from 0), its id and its full name.

    ``known`` is whether the request declares the tool; ``None`` if the request's tools are unknown.
    """

    index: int
    id: str
    name: str
    start: int
    end: int
    known: bool | None = None
    token_start: int = -1
    token_end: int = -1


class ToolCallDelta(_Span, frozen=True, gc=False, tag="tool_call_delta"):
    """The next piece of a call's arguments, as JSON text; the span is what the model wrote for it.

    The text is empty where what the model wrote last, such as white space in a Python literal, is no JSON.
    """

    index: int
    arguments: str
    start: int
    end: int
    token_start: int = -1
    token_end: int = -1


class ToolCallEnd(_Span, frozen=True, gc=False, tag="tool_call_end"):
    """A call ends. ``raw`` is what the model wrote for the call if the status is not ``ok``, else empty."""

    index: int
    status: Status
    start: int
    end: int
    raw: str = ""
    token_start: int = -1
    token_end: int = -1


class Markup(_TextEvent, frozen=True, gc=False, tag="markup"):
    """Framing: markers, end-of-turn strings, dropped white space."""


class Notice(_Span, frozen=True, gc=False, tag="notice"):
    """The output deviates from its format; ``kind`` is one of `NOTICES`. The span is empty."""

    kind: str
    detail: str
    start: int
    end: int
    token_start: int = -1
    token_end: int = -1


class Finish(_Span, frozen=True, gc=False, tag="finish"):
    """The output ends. ``reason`` is the engine's finish reason; ``stop`` becomes ``tool_calls`` if a call ended."""

    reason: str
    start: int
    end: int
    token_start: int = -1
    token_end: int = -1


Event = (
    ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ContentDelta
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | Markup
    | Notice
    | Finish
)
"""Any event."""

NOTICES: dict[str, str] = {
    "answer_closed_in_reasoning": "a closing of the answer ended reasoning that was still open",
    "bad_arguments": "the arguments of a call are malformed; its status is `invalid`",
    "call_markers_as_text": "calls after prose were left as text, as a policy demands",
    "call_without_name": "a call without a name came back as text",
    "cut_character": "the output ended inside a multi-byte character",
    "doubled_marker": "a tag was written twice; it counts once",
    "duplicate_arguments": "an argument, or all arguments of a call, came twice; the first counts",
    "duplicate_id": "a call had the id of an earlier call, and got another",
    "empty": "the output has text, but no reasoning, no call, and no content except white space",
    "hold_overflow": "held text exceeded its limit and was released",
    "loose_arguments": "the arguments of a call were members beside its name; the detail is the first one's key",
    "mended_name": "a call named a declared tool with its id or prefix written wrongly; the detail is the written name",
    "missing_close": "an argument, a call, a block or a frame had no closing marker",
    "missing_open": "a tag or a quote before a key or a value was missing, or the opening of a call",
    "opening_as_text": "text followed the opening of a call that has no block or no closing, so both are text",
    "other_syntax": "a call was written in another format than the dialect's: as JSON, or its only string as bare text",
    "repaired": "the arguments of a call were repaired; the detail names the first repair",
    "skipped_member": "a call had an argument without a value, or a member beside its arguments or in their place",
    "stray_close": "a closing marker closed nothing, and was dropped",
    "stray_open": "an opening marker was followed by nothing to open, and was dropped",
    "text_in_block": "text inside a block of calls came back as content",
    "unclosed_reasoning": "the output ended before the reasoning was closed",
    "undeclared_tool": "a call names a tool that the request does not declare",
    "value_type": "an argument does not match its schema, and was kept as a string",
}
"""Every `Notice.kind` and its meaning. The kinds are stable."""
