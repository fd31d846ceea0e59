"""Anthropic's Messages API, to the field."""

import json
from typing import Any

import pytest

import unspool
from unspool import Event
from unspool.wire import Failure, Usage
from unspool.wire.messages import PING, error_body, tool_input

from ..support import pieces
from .readers import frames, messages_answer, messages_stream, messages_whole
from .streams import USAGE, called, content, finished, messages, stream
from .test_chat import EVENTS

HEAD: dict[str, Any] = {"id": "msg_123", "type": "message", "role": "assistant", "model": "some-model"}
COUNTS = {
    "input_tokens": 15,
    "cache_read_input_tokens": 16,
    "output_tokens": 10,
    "output_tokens_details": {"thinking_tokens": 4},
}
ARGUMENTS = '{"city": "Paris"}'


def block(index: int, content_block: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content_block},
        *({"type": "content_block_delta", "index": index, "delta": d} for d in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def test_a_stream_is_the_full_sequence_of_events() -> None:
    zero = {"input_tokens": 0, "output_tokens": 0}
    start = {**HEAD, "content": [], "stop_reason": None, "stop_sequence": None, "usage": zero}
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    use = {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {}}
    assert [f.data for f in frames(stream(messages(), EVENTS))] == [
        {"type": "message_start", "message": start},
        *block(0, thinking, {"type": "thinking_delta", "thinking": "plan"}),
        *block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Sure."}),
        *block(2, use, {"type": "input_json_delta", "partial_json": ARGUMENTS}),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": COUNTS},
        {"type": "message_stop"},
    ]


def test_the_prompts_tokens_may_be_sent_at_the_start() -> None:
    (start,) = (f.data for f in frames(messages().start(Usage(prompt_tokens=7))))
    assert start["message"]["usage"] == {"input_tokens": 7, "output_tokens": 0}


@pytest.mark.parametrize(
    ("reason", "stop_reason"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("tool_calls", "tool_use"),
        ("content_filter", "refusal"),
        ("abort", "end_turn"),
    ],
)
def test_finish_reasons_have_the_protocols_names(reason: str, stop_reason: str) -> None:
    events = finished(reason, content("a"))
    streamed = messages_stream(stream(messages(), events))
    assert (streamed["stop_reason"], streamed["stop_sequence"]) == (stop_reason, None)
    assert messages_whole(messages().whole([unspool.fold(events)], USAGE)) == streamed


def test_a_stop_sequence_is_named() -> None:
    writer = messages()
    sent = writer.start() + writer.events(0, finished("stop", content("a")))
    streamed = messages_stream(sent + writer.finish(USAGE, stop_sequence="END"))
    assert (streamed["stop_reason"], streamed["stop_sequence"]) == ("stop_sequence", "END")
    cut = messages_whole(messages().whole([unspool.fold(finished("length"))], USAGE, stop_sequence="END"))
    assert (cut["stop_reason"], cut["stop_sequence"]) == ("max_tokens", None)


DEEP = 1_000_000
"""Deeper than any Python reads JSON; 3.11 reads a thousand, 3.14 a hundred thousand."""


def call(arguments: str, status: Any = "invalid") -> list[Event]:
    cut = pieces(arguments, 1 + len(arguments) // 1_000)
    return finished("tool_calls", called(0, "call_1", "f", *cut, status=status))


@pytest.mark.parametrize(
    "arguments",
    [
        '{"city": "Par',
        "{oops}",
        "[1, 2]",
        "null",
        "",
        '{"a": NaN}',
        '{"a": 1} {"b": 2}',
        '{"a": "\\ud83d"}',
        '{"a": ' + "[" * DEEP + "]" * DEEP + "}",
    ],
    ids=lambda arguments: arguments[:20],
)
def test_arguments_that_are_no_json_object_are_wrapped_in_one(arguments: str) -> None:
    events = call(arguments)
    streamed = messages_stream(stream(messages(), events))
    assert json.loads(streamed["content"][0]["input"]) == {"INVALID_JSON": arguments}
    assert messages_whole(messages().whole([unspool.fold(events)], USAGE)) == streamed
    assert messages_answer(streamed).calls == (("call_1", "f", arguments),)


@pytest.mark.parametrize("arguments", ['{"n": 123456789012345678901234567890, "x": 1.50}', "{ }", '{"a": "\u2028é"}'])
@pytest.mark.parametrize("status", ["ok", "repaired", "incomplete"])
def test_arguments_that_are_a_json_object_keep_their_own_bytes(arguments: str, status: str) -> None:
    events = call(arguments, status)
    assert tool_input(arguments) == arguments
    assert messages_stream(stream(messages(), events))["content"][0]["input"] == arguments
    assert messages_whole(messages().whole([unspool.fold(events)]))["content"][0]["input"] == arguments


def test_with_fine_grained_streaming_pieces_of_arguments_pass_at_once() -> None:
    writer = messages(fine_grained=True)
    writer.start()
    (_, delta) = (f.data for f in frames(writer.events(0, EVENTS[5:7])))
    assert delta["delta"] == {"type": "input_json_delta", "partial_json": '{"city": '}
    streamed = messages_stream(stream(messages(fine_grained=True), call('{"a": oops')))
    assert streamed["content"][0]["input"] == '{"a": oops'


def test_text_is_sent_at_once() -> None:
    writer = messages()
    writer.start()
    assert b'"text":"a"' in writer.events(0, content("a"))
    assert b'"text":"b"' in writer.events(0, content("b"))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ],
)
def test_errors_have_the_protocols_types_in_a_body_and_in_a_stream(status: int, kind: str) -> None:
    expected = {"type": "error", "error": {"type": kind, "message": "m"}}
    assert json.loads(error_body(Failure("m", status))) == expected
    assert frames(messages().error(Failure("m", status))) == [("error", expected)]


def test_a_ping_is_an_event() -> None:
    assert frames(PING) == [("ping", {"type": "ping"})]
