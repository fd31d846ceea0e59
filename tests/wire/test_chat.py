"""Chat completions, to the field."""

import json
from typing import Any

import pytest

import unspool
from unspool import ContentDelta, Finish, Markup, Notice
from unspool.wire import Failure, Usage
from unspool.wire.chat import error_body

from .readers import chat_stream, frames
from .streams import IDENTITY, USAGE, called, chat, content, finished, reasoning, stream

EVENTS = finished(
    "tool_calls",
    reasoning("plan"),
    content("Sure."),
    [Markup("<call>", 0, 0)],
    called(0, "call_1", "get_weather", '{"city": ', '"Paris"}'),
    [Notice("missing_close", "", 0, 0)],
)
HI = finished("stop", content("Hi"))
HEAD = {**IDENTITY, "object": "chat.completion.chunk"}


def chunk(delta: Any, finish_reason: str | None = None, index: int = 0, **members: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return {**HEAD, "choices": [choice], **members}


def call(**members: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, **members}]}


DELTAS: list[Any] = [
    {"role": "assistant", "content": None},
    {"reasoning_content": "plan"},
    {"content": "Sure."},
    call(id="call_1", type="function", function={"name": "get_weather", "arguments": ""}),
    call(function={"arguments": '{"city": '}),
    call(function={"arguments": '"Paris"}'}),
]


def test_a_stream_is_the_role_the_deltas_the_finish_reason_and_done() -> None:
    expected = [chunk(d) for d in DELTAS] + [chunk({}, "tool_calls")]
    assert [f.data for f in frames(stream(chat(), EVENTS), done=True)] == expected


def test_it_makes_no_difference_how_many_events_are_written_at_once() -> None:
    assert stream(chat(), EVENTS, size=1) == stream(chat(), EVENTS, size=4) == stream(chat(), EVENTS, size=99)


def test_with_include_usage_every_chunk_has_usage_and_a_last_one_without_choices_tells_it() -> None:
    fields = {
        "prompt_tokens": 31,
        "completion_tokens": 10,
        "total_tokens": 41,
        "prompt_tokens_details": {"cached_tokens": 16},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }
    expected = [chunk(d, usage=None) for d in DELTAS] + [chunk({}, "tool_calls", usage=None)]
    expected.append({**HEAD, "choices": [], "usage": fields})
    assert [f.data for f in frames(stream(chat(include_usage=True), EVENTS), done=True)] == expected


def test_an_engines_counts_pass_unchanged() -> None:
    odd = Usage(prompt_tokens=3, completion_tokens=2049, total_tokens=7)
    assert odd.openai() == {"prompt_tokens": 3, "completion_tokens": 2049, "total_tokens": 7}
    assert Usage(prompt_tokens=3, completion_tokens=4).openai()["total_tokens"] == 7


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("reasoning_content", {"reasoning_content"}),
        ("reasoning", {"reasoning"}),
        ("both", {"reasoning_content", "reasoning"}),
    ],
)
def test_the_reasoning_stands_in_the_field_that_is_asked_for(field: str, fields: set[str]) -> None:
    writer = chat(reasoning_field=field)
    deltas = [f.data["choices"][0]["delta"] for f in frames(stream(writer, EVENTS), done=True)]
    assert [d for d in deltas if fields & set(d)] == [dict.fromkeys(fields, "plan")]
    message = json.loads(writer.whole([unspool.fold(EVENTS)]))["choices"][0]["message"]
    assert {k: message[k] for k in fields} == dict.fromkeys(fields, "plan")
    assert {"reasoning", "reasoning_content"} & set(message) == fields


def test_without_reasoning_the_field_is_null_in_a_whole_answer_and_absent_in_deltas() -> None:
    assert b"reasoning" not in stream(chat(), HI)
    message = json.loads(chat().whole([unspool.fold(HI)]))["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "Hi", "refusal": None, "reasoning_content": None}


def test_a_whole_answer_has_every_field() -> None:
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    message = {
        "role": "assistant",
        "content": "Sure.",
        "refusal": None,
        "reasoning_content": "plan",
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }
    writer = chat(system_fingerprint="fp")
    assert json.loads(writer.whole([unspool.fold(EVENTS)], USAGE)) == {
        **IDENTITY,
        "system_fingerprint": "fp",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}],
        "usage": USAGE.openai(),
    }


def test_the_roles_of_all_choices_come_first_and_in_order() -> None:
    writer = chat(n=3)
    out = writer.start()
    for choice in (2, 0, 1):
        out += writer.events(choice, EVENTS)
    out += writer.finish()
    sent = [f.data["choices"][0] for f in frames(out, done=True)]
    roles = [(c["index"], c["delta"].get("role")) for c in sent[:4]]
    assert roles == [*((i, "assistant") for i in range(3)), (2, None)]
    answers, _ = chat_stream(out)
    assert answers == answers[:1] * 3
    whole = json.loads(writer.whole([unspool.fold(EVENTS)] * 3))
    assert [c["index"] for c in whole["choices"]] == [0, 1, 2]


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "function_call"])
def test_an_answer_with_calls_finishes_as_the_option_says(reason: str) -> None:
    writer = chat(calls_reason=reason)
    assert chat_stream(stream(writer, EVENTS))[0][0].finish == reason
    assert json.loads(writer.whole([unspool.fold(EVENTS)]))["choices"][0]["finish_reason"] == reason
    assert chat_stream(stream(chat(calls_reason=reason), [Finish("length", 0, 0)]))[0][0].finish == "length"


def logprob(token: str) -> dict[str, Any]:
    return {"token": token, "logprob": -0.5, "bytes": list(token.encode()), "top_logprobs": []}


def test_log_probabilities_go_with_the_next_chunk_and_none_is_lost() -> None:
    writer = chat()
    out = writer.start()
    out += writer.events(0, [], [logprob("<")])  # the parser holds the text back
    out += writer.events(0, [ContentDelta("<b", 0, 2), ContentDelta(">", 2, 3)], [logprob("b>")])
    out += writer.events(0, [], [logprob("é")])
    out += writer.events(0, [Finish("stop", 3, 3)])
    out += writer.finish()
    sent = [f.data["choices"][0]["logprobs"] for f in frames(out, done=True)]
    first = {"content": [logprob("<"), logprob("b>")], "refusal": None}
    assert sent == [None, first, None, {"content": [logprob("é")], "refusal": None}]


def test_log_probabilities_stand_in_a_whole_answer() -> None:
    whole = json.loads(chat().whole([unspool.fold(HI)] * 2, logprobs=[[logprob("Hi")], []]))
    assert [c["logprobs"] for c in whole["choices"]] == [{"content": [logprob("Hi")], "refusal": None}, None]


def test_a_failure_in_a_stream_is_an_error_event_and_done() -> None:
    out = chat().error(Failure("engine died"))
    error = {"message": "engine died", "type": "server_error", "param": None, "code": None}
    assert [f.data for f in frames(out, done=True)] == [{"error": error}]


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (Failure("m", 400, "tools"), ("invalid_request_error", "tools", None)),
        (Failure("m", 401), ("invalid_request_error", None, "invalid_api_key")),
        (Failure("m", 404, "model", code="model_not_found"), ("invalid_request_error", "model", "model_not_found")),
        (Failure("m", 413), ("invalid_request_error", None, "request_too_large")),
        (Failure("m", 422, "n"), ("invalid_request_error", "n", None)),
        (Failure("m", 429), ("rate_limit_error", None, "rate_limit_exceeded")),
        (Failure("m", 500), ("server_error", None, None)),
        (Failure("m", 503), ("server_error", None, None)),
        (Failure("m", 400, type="t", code="c"), ("t", None, "c")),
    ],
)
def test_error_bodies_have_message_type_param_and_code(failure: Failure, error: tuple[str, Any, Any]) -> None:
    fields = dict(zip(("type", "param", "code"), error, strict=True))
    assert json.loads(error_body(failure)) == {"error": {"message": "m", **fields}}


def test_names_with_anything_in_them_are_escaped() -> None:
    writer = chat(id='a"%d\u2028', model="%b\\{}")
    data = [f.data for f in frames(stream(writer, EVENTS), done=True)]
    assert {(d["id"], d["model"]) for d in data} == {('a"%d\u2028', "%b\\{}")}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n: must be at least 1, not 0"),
        ({"reasoning_field": "thoughts"}, "'thoughts' is not one of reasoning_content, reasoning, both"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chat(**options)
