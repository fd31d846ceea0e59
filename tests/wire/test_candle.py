"""The candle profile, compared with the examples of its specification."""

import json
from typing import Any

import pytest

import unspool
from unspool import (
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
from unspool.wire import Failure, Usage

from .readers import frames
from .streams import IDENTITY, candle, stream
from .test_mindie import SAMPLES

HEAD = {**IDENTITY, "object": "chat.completion.chunk"}


def chunk(delta: Any, finish_reason: str | None = None, **members: Any) -> dict[str, Any]:
    return {**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}], **members}


def chunks(events: list[Event], **options: Any) -> list[Any]:
    return [f.data for f in frames(stream(candle(**options), events), done=True)]


CALL: list[Event] = [
    ToolCallStart(0, "call_abc123", "get_weather", 0, 0),
    ToolCallDelta(0, '{"location":', 0, 12),
    ToolCallDelta(0, ' "Paris"}', 12, 21),
    ToolCallEnd(0, "ok", 21, 21),
    Finish("tool_calls", 21, 21),
]
OPENED = {"index": 0, "id": "call_abc123", "type": "function"}


def test_a_call_is_streamed_as_the_specification_shows() -> None:
    start = {**OPENED, "function": {"name": "get_weather", "arguments": ""}}
    assert chunks(CALL) == [
        chunk({"role": "assistant", "tool_calls": [start]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"location":'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ' "Paris"}'}}]}),
        chunk({}, "tool_calls"),
    ]


def test_reasoning_is_streamed_with_its_markers_in_the_first_and_the_last_delta() -> None:
    events: list[Event] = [
        ReasoningStart(0, 7),
        ReasoningDelta("Let me analyze this problem...", 7, 37),
        ReasoningDelta("First, I need to consider...", 37, 65),
        ReasoningEnd(65, 73),
        ContentDelta("The weather in", 73, 87),
        Finish("stop", 87, 87),
    ]
    assert chunks(events) == [
        chunk({"role": "assistant", "reasoning": "<think>Let me analyze this problem..."}),
        chunk({"reasoning": "First, I need to consider..."}),
        chunk({"reasoning": "</think>"}),
        chunk({"content": "The weather in"}),
        chunk({}, "stop"),
    ]


def test_reasoning_that_is_empty_or_never_closed_has_the_markers_it_has() -> None:
    empty: list[Event] = [ReasoningStart(0, 1), ReasoningEnd(1, 2), Finish("stop", 2, 2)]
    cut: list[Event] = [ReasoningStart(0, 1), ReasoningDelta("a", 1, 2), Finish("length", 2, 2)]
    assert [c["choices"][0]["delta"] for c in chunks(empty, markers=("[", "]"))] == [
        {"role": "assistant", "reasoning": "[]"},
        {},
    ]
    assert [c["choices"][0]["delta"] for c in chunks(cut, markers=("[", "]"))] == [
        {"role": "assistant", "reasoning": "[a"},
        {},
    ]


def test_an_empty_answer_still_has_the_role() -> None:
    assert chunks([Finish("stop", 0, 0)]) == [chunk({"role": "assistant"}, "stop")]


INVALID: list[Event] = [
    ToolCallStart(0, "call_1", "f", 0, 0),
    ToolCallDelta(0, "{oops", 0, 5),
    ToolCallEnd(0, "invalid", 5, 5, "{oops"),
    ContentDelta("more", 5, 9),
    Finish("tool_calls", 9, 9),
]
PARSE_ERROR = {"message": "Tool call parsing failed: Invalid JSON", "type": "tool_call_parse_error"}


@pytest.mark.parametrize("include_usage", [False, True])
@pytest.mark.parametrize("size", [1, 99])
def test_a_call_that_cannot_be_parsed_ends_the_stream_with_the_error_chunk(include_usage: bool, size: int) -> None:
    out = stream(candle(include_usage=include_usage), INVALID, None, size)
    usage = {"usage": None} if include_usage else {}
    sent = [f.data for f in frames(out, done=True)]
    assert sent[2:] == [chunk({}, "error", error=PARSE_ERROR, **usage)]


def test_a_call_that_cannot_be_parsed_ends_the_whole_answer_at_the_same_place() -> None:
    for events in ([INVALID], []):
        answer = json.loads(candle().whole([unspool.fold(INVALID)], events=events))
        (choice,) = answer["choices"]
        call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{oops"}}
        assert choice["message"] == {"role": "assistant", "content": None, "tool_calls": [call]}
        assert choice["finish_reason"] == "error"
        assert answer["error"] == PARSE_ERROR
        assert [c["type"] for c in answer["extensions"]["tool_call_chunks"]] == ["start", "args", "end"]


def test_a_failing_engine_ends_every_open_choice_with_the_error_chunk() -> None:
    writer = candle(n=2)
    assert writer.start() == b""
    writer.events(0, [ContentDelta("a", 0, 1), Finish("stop", 1, 1)])
    writer.events(1, [ContentDelta("a", 0, 1)])
    (sent,) = (f.data for f in frames(writer.error(Failure("engine died")), done=True))
    assert sent["choices"] == [{"index": 1, "delta": {}, "finish_reason": "error"}]
    assert sent["error"] == {"message": "engine died", "type": "generation_error"}


def test_a_whole_answer_is_the_specifications_with_its_extensions() -> None:
    thoughts = ["Let me think about this...", "First, I'll calculate 6 times 7...", "The result is 42."]
    arguments = '{"expression": "6*7"}'
    events: list[Event] = [
        ReasoningStart(0, 0),
        *(ReasoningDelta(t, 0, 0) for t in thoughts),
        ReasoningEnd(0, 0),
        ContentDelta("The answer ", 0, 0),
        ContentDelta("is 42.", 0, 0),
        ToolCallStart(0, "call_abc123", "calculate", 0, 0),
        ToolCallDelta(0, arguments, 0, 0),
        ToolCallEnd(0, "ok", 0, 0),
        Finish("tool_calls", 0, 0),
    ]
    usage = Usage(prompt_tokens=50, completion_tokens=100, cached_tokens=20)
    # By the specification's list of reasons, the answer finishes with `tool_calls`; its example has `stop`.
    expected = json.loads((SAMPLES / "candle_whole.json").read_text(encoding="utf-8"))
    message = unspool.fold(events)
    assert json.loads(candle().whole([message], usage, events=[events])) == expected
    stop = candle(calls_reason="stop").whole([message], usage, events=[events])
    assert json.loads(stop)["choices"][0]["finish_reason"] == "stop"
    expected["extensions"]["content_chunks"] = ["The answer ", "is 42."]
    assert json.loads(candle(content_chunks=True).whole([message], usage, events=[events])) == expected


def test_an_answer_of_content_alone_has_no_extensions() -> None:
    message = unspool.fold([ContentDelta("Hi", 0, 2), Finish("stop", 2, 2)])
    assert "extensions" not in json.loads(candle().whole([message]))
