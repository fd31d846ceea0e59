"""The candle profile, compared with the examples of its specification."""

import json
from typing import Any

import pytest

import unspool
from unspool import Event
from unspool.wire import Failure, Usage

from .readers import frames
from .streams import IDENTITY, called, candle, content, finished, reasoning, stream
from .test_mindie import SAMPLES

HEAD = {**IDENTITY, "object": "chat.completion.chunk"}


def chunk(delta: Any, finish_reason: str | None = None, **members: Any) -> dict[str, Any]:
    return {**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}], **members}


def chunks(events: list[Event], **options: Any) -> list[Any]:
    return [f.data for f in frames(stream(candle(**options), events), done=True)]


def test_a_call_is_streamed_as_the_specification_shows() -> None:
    call = called(0, "call_abc123", "get_weather", '{"location":', ' "Paris"}')
    function = {"name": "get_weather", "arguments": ""}
    start = {"index": 0, "id": "call_abc123", "type": "function", "function": function}
    assert chunks(finished("tool_calls", call)) == [
        chunk({"role": "assistant", "tool_calls": [start]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"location":'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ' "Paris"}'}}]}),
        chunk({}, "tool_calls"),
    ]


def test_reasoning_is_streamed_with_its_markers_in_the_first_and_the_last_delta() -> None:
    thought = reasoning("Let me analyze this problem...", "First, I need to consider...")
    assert chunks(finished("stop", thought, content("The weather in"))) == [
        chunk({"role": "assistant", "reasoning": "<think>Let me analyze this problem..."}),
        chunk({"reasoning": "First, I need to consider..."}),
        chunk({"reasoning": "</think>"}),
        chunk({"content": "The weather in"}),
        chunk({}, "stop"),
    ]


@pytest.mark.parametrize(("thought", "written"), [(reasoning(), "[]"), (reasoning("a", closed=False), "[a")])
def test_reasoning_that_is_empty_or_never_closed_has_the_markers_it_has(thought: list[Event], written: str) -> None:
    sent = [c["choices"][0]["delta"] for c in chunks(finished("stop", thought), markers=("[", "]"))]
    assert sent == [{"role": "assistant", "reasoning": written}, {}]


def test_an_empty_answer_still_has_the_role() -> None:
    assert chunks(finished("stop")) == [chunk({"role": "assistant"}, "stop")]


INVALID = finished("tool_calls", called(0, "call_1", "f", "{oops", status="invalid"), content("more"))
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
    writer.events(0, finished("stop", content("a")))
    writer.events(1, content("a"))
    (sent,) = (f.data for f in frames(writer.error(Failure("engine died")), done=True))
    assert sent["choices"] == [{"index": 1, "delta": {}, "finish_reason": "error"}]
    assert sent["error"] == {"message": "engine died", "type": "generation_error"}


def test_a_whole_answer_is_the_specifications_with_its_extensions() -> None:
    events = finished(
        "tool_calls",
        reasoning("Let me think about this...", "First, I'll calculate 6 times 7...", "The result is 42."),
        content("The answer ", "is 42."),
        called(0, "call_abc123", "calculate", '{"expression": "6*7"}'),
    )
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
    message = unspool.fold(finished("stop", content("Hi")))
    assert "extensions" not in json.loads(candle().whole([message]))
