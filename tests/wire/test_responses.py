"""The Responses API, to the field."""

import json
from typing import Any

import pytest

import unspool
from unspool.wire import Failure, Usage

from .readers import frames, responses_stream
from .streams import USAGE, content, finished, reasoning, responses, stream
from .test_chat import EVENTS

REASONING = {"type": "reasoning_text", "text": "plan"}
TEXT = {"type": "output_text", "text": "Sure.", "annotations": [], "logprobs": []}
ARGUMENTS = '{"city": "Paris"}'
OUTPUT: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_123_0", "summary": [], "content": [REASONING]},
    {"type": "message", "id": "msg_123_1", "role": "assistant", "status": "completed", "content": [TEXT]},
    {
        "type": "function_call",
        "id": "fc_123_2",
        "call_id": "call_1",
        "name": "get_weather",
        "arguments": ARGUMENTS,
        "status": "completed",
    },
]
HEAD = {"id": "resp_123", "object": "response", "created_at": 1234567890, "model": "some-model"}
REPEATED: dict[str, Any] = {
    "background": False,
    "conversation": None,
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": False,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}


def response(status: str, output: list[dict[str, Any]], **members: Any) -> dict[str, Any]:
    none = dict.fromkeys(("error", "incomplete_details", "usage"))
    return {**HEAD, **none, **REPEATED, "status": status, "output": output, **members}


def test_a_stream_is_the_full_sequence_of_events() -> None:
    reasoning, message, call = OUTPUT
    first: dict[str, Any] = {"output_index": 0, "item_id": "rs_123_0"}
    second: dict[str, Any] = {"output_index": 1, "item_id": "msg_123_1", "content_index": 0}
    third: dict[str, Any] = {"output_index": 2, "item_id": "fc_123_2"}
    usage = {
        "input_tokens": 31,
        "input_tokens_details": {"cached_tokens": 16, "cache_write_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 41,
    }
    expected: list[tuple[str, dict[str, Any]]] = [
        ("created", {"response": response("in_progress", [])}),
        ("in_progress", {"response": response("in_progress", [])}),
        ("output_item.added", {"output_index": 0, "item": {**reasoning, "content": []}}),
        ("content_part.added", {**first, "content_index": 0, "part": {**REASONING, "text": ""}}),
        ("reasoning_text.delta", {**first, "content_index": 0, "delta": "plan"}),
        ("reasoning_text.done", {**first, "content_index": 0, "text": "plan"}),
        ("content_part.done", {**first, "content_index": 0, "part": REASONING}),
        ("output_item.done", {"output_index": 0, "item": reasoning}),
        ("output_item.added", {"output_index": 1, "item": {**message, "content": [], "status": "in_progress"}}),
        ("content_part.added", {**second, "part": {**TEXT, "text": ""}}),
        ("output_text.delta", {**second, "delta": "Sure.", "logprobs": []}),
        ("output_text.done", {**second, "text": "Sure.", "logprobs": []}),
        ("content_part.done", {**second, "part": TEXT}),
        ("output_item.done", {"output_index": 1, "item": message}),
        ("output_item.added", {"output_index": 2, "item": {**call, "arguments": "", "status": "in_progress"}}),
        ("function_call_arguments.delta", {**third, "delta": '{"city": '}),
        ("function_call_arguments.delta", {**third, "delta": '"Paris"}'}),
        ("function_call_arguments.done", {**third, "arguments": ARGUMENTS}),
        ("output_item.done", {"output_index": 2, "item": call}),
        ("completed", {"response": response("completed", OUTPUT, usage=usage)}),
    ]
    sent = [f.data for f in frames(stream(responses(), EVENTS))]
    assert sent == [
        {"type": f"response.{name}", "sequence_number": i, **members} for i, (name, members) in enumerate(expected)
    ]


def test_the_response_repeats_fields_of_its_request() -> None:
    request = {
        "tools": [{"type": "function", "name": "f"}],
        "tool_choice": "required",
        "temperature": 0.5,
        "input": "x",
    }
    response = responses_stream(stream(responses(request=request), EVENTS, None))
    assert (response["tools"], response["tool_choice"], response["temperature"]) == (request["tools"], "required", 0.5)
    assert "input" not in response
    assert response["usage"] is None


@pytest.mark.parametrize(
    ("reason", "incomplete"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
def test_an_answer_that_was_cut_is_incomplete_and_so_is_its_last_message(reason: str, incomplete: str) -> None:
    events = finished(reason, content("Sure"))
    streamed = responses_stream(stream(responses(), events))
    assert streamed["status"] == streamed["output"][0]["status"] == "incomplete"
    assert streamed["incomplete_details"] == {"reason": incomplete}
    assert json.loads(responses().whole([unspool.fold(events)], USAGE)) == streamed


def test_a_call_that_was_cut_is_incomplete() -> None:
    cut = unspool.parse('<tool_call>\n{"name": "f", "arguments": {"a', "hermes", finish_reason="length")
    (item,) = json.loads(responses().whole([cut]))["output"]
    assert item["status"] == "incomplete"
    assert item["arguments"] == '{"a'


def test_each_block_of_interrupted_reasoning_is_an_item() -> None:
    cut = reasoning(closed=False)
    events = finished("length", reasoning("a"), reasoning("b"), content("c"), reasoning(), content("d"), cut)
    response = responses_stream(stream(responses(), events))
    assert [i["content"][0]["text"] for i in response["output"]] == ["a", "b", "c", "d"]
    assert json.loads(responses().whole([unspool.fold(events)], USAGE)) == response


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Failure("m"), "server_error"),
        (Failure("m", 429), "rate_limit_exceeded"),
        (Failure("m", 400), "invalid_prompt"),
        (Failure("m", code="vector_store_timeout"), "vector_store_timeout"),
    ],
)
def test_a_failure_in_a_stream_is_a_response_that_failed_with_the_complete_items(failure: Failure, code: str) -> None:
    writer = responses()
    sent = writer.start() + writer.events(0, EVENTS[:5])  # the text has begun
    (data,) = (f.data for f in frames(writer.error(failure)))
    assert data["type"] == "response.failed"
    assert data["sequence_number"] == len(frames(sent))
    assert data["response"] == response("failed", OUTPUT[:1], error={"code": code, "message": "m"})


def test_a_second_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="choice: got 1; the protocol has only one choice"):
        responses().events(1, [])
    with pytest.raises(ValueError, match="messages: got 2; the protocol has only one choice"):
        responses().whole([unspool.fold(EVENTS)] * 2)


def test_required_counts_that_the_engine_does_not_report_are_zero() -> None:
    usage = json.loads(responses().whole([unspool.fold(EVENTS)], Usage(prompt_tokens=1, completion_tokens=2)))["usage"]
    assert usage["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}
    assert usage["output_tokens_details"] == {"reasoning_tokens": 0}
