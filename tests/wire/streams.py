"""Inputs for the tests of the wires: events of the dialects' examples, and writers with all fields set."""

import random
from collections.abc import Iterable, Iterator
from typing import Any

from unspool import (
    ContentDelta,
    Event,
    Finish,
    Message,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from unspool.wire import (
    AguiWriter,
    CandleWriter,
    ChatWriter,
    MessagesWriter,
    MindieWriter,
    ResponsesWriter,
    Usage,
    Writer,
)

from ..support import Trial, parse_case, random_split

USAGE = Usage(prompt_tokens=31, completion_tokens=10, total_tokens=41, cached_tokens=16, reasoning_tokens=4)
IDENTITY: dict[str, Any] = {"id": "chatcmpl-123", "model": "some-model", "created": 1234567890}


# -- events, whose spans no wire reads ---------------------------------------------------------------------------------


def reasoning(*pieces: str, closed: bool = True) -> list[Event]:
    """A block of reasoning, in pieces."""
    end: list[Event] = [ReasoningEnd(0, 0)] if closed else []
    return [ReasoningStart(0, 0), *(ReasoningDelta(p, 0, 0) for p in pieces), *end]


def content(*pieces: str) -> list[Event]:
    """Content, in pieces."""
    return [ContentDelta(p, 0, 0) for p in pieces]


def called(index: int, id: str, name: str, *pieces: str, status: Any = "ok") -> list[Event]:
    """A call, whose arguments come in pieces."""
    deltas = (ToolCallDelta(index, p, 0, 0) for p in pieces)
    return [ToolCallStart(index, id, name, 0, 0), *deltas, ToolCallEnd(index, status, 0, 0)]


def finished(reason: str, *blocks: list[Event]) -> list[Event]:
    """The events of blocks, up to the end of the answer."""
    return [*(event for block in blocks for event in block), Finish(reason, 0, 0)]


# -- writers -----------------------------------------------------------------------------------------------------------


def stream(writer: Writer, events: Iterable[Event], usage: Usage | None = USAGE, size: int = 1) -> bytes:
    """A whole stream of one choice, ``size`` events at a time."""
    listed = list(events)
    out = [writer.start()]
    out += [writer.events(0, listed[i : i + size]) for i in range(0, len(listed), size)]
    out.append(writer.finish(usage))
    return b"".join(out)


def chat(**options: Any) -> ChatWriter:
    return ChatWriter(**{**IDENTITY, **options})


def mindie(**options: Any) -> MindieWriter:
    return MindieWriter(**{**IDENTITY, **options})


def candle(**options: Any) -> CandleWriter:
    return CandleWriter(**{**IDENTITY, "markers": ("<think>", "</think>"), **options})


def responses(**options: Any) -> ResponsesWriter:
    return ResponsesWriter(**{**IDENTITY, "id": "resp_123", **options})


def messages(**options: Any) -> MessagesWriter:
    return MessagesWriter(**{"id": "msg_123", "model": "some-model", **options})


def agui(**options: Any) -> AguiWriter:
    return AguiWriter(**{"thread_id": "thread-1", "run_id": "run-1", "model": "some-model", **options})


def runs(case: Trial, **options: Any) -> Iterator[tuple[Message, list[Event]]]:
    """An example's message and events: whole, by character, and at random."""
    rng = random.Random(case.raw)
    for chunks in ([case.raw], list(case.raw), random_split(case.raw, rng)):
        yield parse_case(case, chunks, **options)
