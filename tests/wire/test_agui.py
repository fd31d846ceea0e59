"""AG-UI, to the field."""

import json
from typing import Any

import pytest

import unspool
from unspool import ToolCallDelta, ToolCallEnd
from unspool.wire import Failure
from unspool.wire.agui import error_body
from unspool.wire.server_tools import ServerCallResult, ServerCallStart

from .readers import agui_stream, frames
from .streams import USAGE, agui, called, finished, reasoning, stream
from .test_chat import EVENTS

RUN = {"threadId": "thread-1", "runId": "run-1"}


def test_a_run_is_the_full_sequence_of_starts_contents_and_ends() -> None:
    thought: dict[str, Any] = {"messageId": "reasoning-msg-run-1-1"}
    text: dict[str, Any] = {"messageId": "msg-run-1"}
    call: dict[str, Any] = {"toolCallId": "call_1"}
    usage = {
        "model": "some-model",
        "inputTokens": 31,
        "outputTokens": 10,
        "totalTokens": 41,
        "reasoningTokens": 4,
        "cachedInputTokens": 16,
    }
    assert [f.data for f in frames(stream(agui(), EVENTS))] == [
        {"type": "RUN_STARTED", **RUN, "protocolVersion": "1.0"},
        {"type": "REASONING_START", **thought},
        {"type": "REASONING_MESSAGE_START", **thought, "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", **thought, "delta": "plan"},
        {"type": "REASONING_MESSAGE_END", **thought},
        {"type": "REASONING_END", **thought},
        {"type": "TEXT_MESSAGE_START", **text, "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", **text, "delta": "Sure."},
        {"type": "TEXT_MESSAGE_END", **text},
        {"type": "TOOL_CALL_START", **call, "toolCallName": "get_weather", "parentMessageId": "msg-run-1"},
        {"type": "TOOL_CALL_ARGS", **call, "delta": '{"city": '},
        {"type": "TOOL_CALL_ARGS", **call, "delta": '"Paris"}'},
        {"type": "TOOL_CALL_END", **call},
        {
            "type": "RUN_FINISHED",
            **RUN,
            "result": {"finishReason": "tool_calls"},
            "outcome": {"type": "success", "pendingToolCallIds": ["call_1"]},
            "usage": [usage],
        },
    ]


def test_ids_of_the_request_are_used() -> None:
    writer = agui(message_id="m-7", parent_run_id="run-0")
    first, *rest = (f.data for f in frames(stream(writer, EVENTS)))
    assert first["parentRunId"] == "run-0"
    assert {e.get("parentMessageId") for e in rest} == {None, "m-7"}


def test_each_block_of_reasoning_is_a_message_of_its_own() -> None:
    sent = [f.data for f in frames(stream(agui(), finished("stop", reasoning("a"), reasoning("b"))))]
    assert [e["messageId"] for e in sent if e["type"] == "REASONING_MESSAGE_CONTENT"] == [
        "reasoning-msg-run-1-1",
        "reasoning-msg-run-1-2",
    ]


def test_a_failure_is_a_run_error_in_a_stream_and_as_a_body() -> None:
    expected = {"type": "RUN_ERROR", "message": "engine died", "code": "500"}
    assert frames(agui().error(Failure("engine died"))) == [(None, expected)]
    assert json.loads(error_body(Failure("engine died"))) == expected
    assert json.loads(error_body(Failure("m", 429, code="busy")))["code"] == "busy"


def test_a_run_that_is_stopped_closes_what_is_open() -> None:
    for size, ends in (
        (2, ["REASONING_MESSAGE_END", "REASONING_END"]),
        (4, ["TEXT_MESSAGE_END"]),
        (7, ["TOOL_CALL_END"]),
    ):
        writer = agui()
        writer.start()
        writer.events(0, EVENTS[:size])
        sent = [f.data for f in frames(writer.cancelled())]
        assert [e["type"] for e in sent] == [*ends, "RUN_FINISHED"]
        assert sent[-1] == {"type": "RUN_FINISHED", **RUN, "outcome": {"type": "cancelled"}}


def test_a_run_that_ends_early_ends_the_activities_of_its_tools() -> None:
    for last in ("RUN_FINISHED", "RUN_ERROR"):
        writer = agui()
        for index, name in enumerate(("over", "runs", "is still being written")):
            writer.events(0, [ServerCallStart(index, f"c{index}", name, "tools"), ToolCallDelta(index, "{}", 0, 0)])
            if index < 2:
                writer.events(0, [ToolCallEnd(index, "ok", 0, 0)])
            if not index:
                done = writer.events(0, [ServerCallResult(0, "text", urls=("https://example.org/",))])
                status, urls = frames(done)[0].data["patch"]
                assert status == {"op": "replace", "path": "/status", "value": "completed"}
                assert urls == {"op": "add", "path": "/urls", "value": ["https://example.org/"]}
        end = writer.error(Failure("engine died")) if last == "RUN_ERROR" else writer.cancelled()
        sent = [f.data for f in frames(end) if f.data["type"] != "TOOL_CALL_END"]
        assert [e["type"] for e in sent] == ["ACTIVITY_DELTA", last]
        assert sent[0]["messageId"] == "activity-c1"
        assert sent[0]["patch"] == [{"op": "replace", "path": "/status", "value": "cancelled"}]


def test_usage_is_left_out_if_there_is_none() -> None:
    assert "usage" not in frames(stream(agui(), EVENTS, None))[-1].data
    assert frames(stream(agui(model=None), EVENTS, USAGE))[-1].data["usage"][0]["inputTokens"] == 31


def test_a_call_whose_id_the_thread_knows_gets_another_one() -> None:
    events = finished("tool_calls", *(called(i, "f:0", "f", "{}") for i in range(3)))
    answered, last = agui_stream(stream(agui(call_ids=["f:0"]), events))
    assert [id for id, _, _ in answered.calls] == ["f:0-run-1-0", "f:0-run-1-1", "f:0-run-1-2"]
    assert last["outcome"]["pendingToolCallIds"] == [id for id, _, _ in answered.calls]
    first, _ = agui_stream(stream(agui(), events))
    assert [id for id, _, _ in first.calls] == ["f:0", "f:0-run-1-1", "f:0-run-1-2"]


def test_a_whole_run_is_the_same_stream() -> None:
    message = unspool.fold(EVENTS)
    whole = agui().whole([message], USAGE, logprobs=[[]], events=[EVENTS], stop_sequence="END")
    assert agui_stream(whole) == agui_stream(stream(agui(), EVENTS))
    with pytest.raises(ValueError, match="messages: "):
        agui().whole([message, message])
