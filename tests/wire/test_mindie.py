"""The MindIE profile, compared with the samples of its documentation, and its fields."""

import json
from pathlib import Path
from typing import Any

import pytest

import unspool
from unspool import Parser
from unspool.wire import Failure, MindieWriter, Usage
from unspool.wire.mindie import error_body

from .readers import frames
from .streams import IDENTITY, called, content, finished, mindie, reasoning, stream

SAMPLES = Path(__file__).parent / "samples"


def recorded(sample: str, usage: Usage, full_text: bool) -> tuple[bytes, bytes]:
    """A sample, and the writer's bytes for its texts."""
    expected = (SAMPLES / sample).read_bytes()
    chunks = [f.data for f in frames(expected, done=True)]
    texts = [c["choices"][0]["delta"]["content"] for c in chunks[:-1]]
    if full_text:
        texts = [text.removeprefix(before) for before, text in zip(["", *texts], texts, strict=False)]
    events = finished(chunks[-1]["choices"][0]["finish_reason"], content(*texts))
    first = chunks[0]
    writer = MindieWriter(id=first["id"], model=first["model"], created=first["created"], full_text=full_text)
    return stream(writer, events, usage), expected


@pytest.mark.parametrize(("kind", "counts"), [("stream", (54, 17)), ("full_text", (31, 10))])
def test_a_stream_is_the_documented_one_to_the_byte(kind: str, counts: tuple[int, int]) -> None:
    usage = Usage(prompt_tokens=counts[0], completion_tokens=counts[1])
    out, expected = recorded(f"mindie_{kind}.txt", usage, kind == "full_text")
    assert out == expected


@pytest.mark.parametrize("full_text", [False, True])
def test_a_piece_without_output_is_a_chunk(full_text: bool) -> None:
    writer = mindie(full_text=full_text)
    (sent,) = frames(writer.events(0, Parser("deepseek-r1", stage="content").feed("")))
    assert sent.data["choices"][0]["delta"] == {"role": "assistant", "content": ""}


_CALL = called(0, "call_1", "f", "{}")
EVENTS = finished("tool_calls", reasoning("plan")[1:2], content('Sure "你"', "."), _CALL)


def test_the_role_stands_in_every_chunk_and_finish_reason_and_usage_in_the_last_alone() -> None:
    chunks = [f.data for f in frames(stream(mindie(), EVENTS), done=True)]
    assert {c["choices"][0]["delta"]["role"] for c in chunks} == {"assistant"}
    assert [c["choices"][0]["finish_reason"] for c in chunks] == [None] * 5 + ["tool_calls"]
    assert ["usage" in c for c in chunks] == [False] * 5 + [True]
    assert chunks[-1]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "reasoning_content": "plan"}
    calls = [c["choices"][0]["delta"].get("tool_calls") for c in chunks[3:5]]
    function = {"name": "f", "arguments": ""}
    assert calls == [
        [{"index": 0, "id": "call_1", "type": "function", "function": function}],
        [{"index": 0, "function": {"arguments": "{}"}}],
    ]


def test_with_full_text_content_is_cumulative_and_reasoning_is_not() -> None:
    chunks = [f.data for f in frames(stream(mindie(full_text=True), EVENTS), done=True)]
    deltas = [c["choices"][0]["delta"] for c in chunks]
    assert [d["content"] for d in deltas if "content" in d] == ['Sure "你"', 'Sure "你".', 'Sure "你".']
    assert ["full_text" in c for c in chunks] == [False] * 5 + [True]
    assert chunks[-1]["full_text"] == 'Sure "你".'


TIMES: dict[str, Any] = {"prefill_time": 31.5, "decode_time_arr": [7.25, 7.5]}
COUNTS = {"prompt_tokens": 3, "completion_tokens": 2049, "total_tokens": 2052}


@pytest.mark.parametrize("timing", ["usage", "top"])
def test_times_are_in_the_usage_or_at_top_level_of_a_whole_answer(timing: str) -> None:
    usage = Usage(prompt_tokens=3, completion_tokens=2049, **TIMES)
    message = {
        "role": "assistant",
        "content": 'Sure "你".',
        "reasoning_content": "plan",
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }
    assert json.loads(mindie(timing=timing).whole([unspool.fold(EVENTS)], usage)) == {
        **IDENTITY,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {**COUNTS, **(TIMES if timing == "usage" else {})},
        **(TIMES if timing == "top" else {}),
    }


def test_a_whole_answer_without_calls_has_an_empty_list_of_them_and_no_reasoning() -> None:
    message = unspool.fold(finished("stop", content("Hi")))
    (choice,) = json.loads(mindie().whole([message]))["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Hi", "tool_calls": []}


def test_a_failure_in_a_stream_is_a_last_chunk_with_stop_an_empty_delta_and_err_msg() -> None:
    writer = mindie(full_text=True)
    assert writer.start() == b""
    writer.events(0, EVENTS[:3])
    assert [f.data for f in frames(writer.error(Failure("engine died")), done=True)] == [
        {
            **IDENTITY,
            "object": "chat.completion.chunk",
            "err_msg": "engine died",
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": "stop"}],
        }
    ]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "Bad Request"),
        (401, "Unauthorized"),
        (404, "NotFoundError"),
        (422, "Input Validation Error"),
        (424, "Generation Error"),
        (429, "Too Many Requests"),
        (500, "Incomplete Generation"),
        (503, "Service Unavailable"),
        (599, "Error"),
    ],
)
def test_error_bodies_have_mindies_form(status: int, kind: str) -> None:
    assert json.loads(error_body(Failure("m", status))) == {"error": "m", "error_type": kind, "err_msg": "m"}


def test_an_unknown_place_for_times_is_an_error() -> None:
    with pytest.raises(ValueError, match="'nowhere' is not one of usage, top"):
        mindie(timing="nowhere")
