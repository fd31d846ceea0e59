"""The MindIE and candle profiles of a running server, compared field by field with their documentation.

Only ids, times and counts come from the server or the engine.
"""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from unspool.engines import EngineError
from unspool.wire import Usage

from ..wire.readers import frames
from .support import HELLO, WEATHER, Live, Scripted, live

SAMPLES = Path(__file__).parent.parent / "wire" / "samples"
MODEL = "DeepSeek-R1"
MINDIE: Any = {"profile": "mindie", "model": MODEL}
V3 = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
    '```json\n{"city": "北京"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
)
TIMED = Usage(prompt_tokens=31, completion_tokens=2049, prefill_time=31.5, decode_time_arr=[7.25, 7.5])
COUNTS = {"prompt_tokens": 31, "completion_tokens": 2049, "total_tokens": 2080}
TIMES = {"prefill_time": 31.5, "decode_time_arr": [7.25, 7.5]}


def identified(chunk: dict[str, Any], prefix: str, kind: str) -> dict[str, Any]:
    """Check the identity of an answer or a chunk, and return its other fields."""
    rest = dict(chunk)
    assert re.fullmatch(prefix + "[0-9a-f]{32}", rest.pop("id"))
    assert rest.pop("object") == kind
    created = rest.pop("created")
    assert isinstance(created, int)
    assert abs(created - time.time()) < 60
    assert rest.pop("model") == MODEL
    return rest


def whole(server: Live, prefix: str, **ask: Any) -> dict[str, Any]:
    answer = server.post(messages=HELLO, **ask)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    return identified(answer.json(), prefix, "chat.completion")


def streamed(server: Live, prefix: str, **ask: Any) -> list[dict[str, Any]]:
    answer = server.post(messages=HELLO, stream=True, **ask)
    assert answer.headers["content-type"].startswith("text/event-stream")
    chunks = [frame.data for frame in frames(answer.content, done=True)]
    assert len({(c["id"], c["created"]) for c in chunks}) == 1
    return [identified(c, prefix, "chat.completion.chunk") for c in chunks]


# -- MindIE ------------------------------------------------------------------------------------------------------------


def sample(name: str) -> list[dict[str, Any]]:
    """The chunks of a documented stream, without the fields that identify it."""
    chunks = [frame.data for frame in frames((SAMPLES / name).read_bytes(), done=True)]
    return [{k: v for k, v in c.items() if k not in ("id", "object", "created", "model")} for c in chunks]


def content(chunk: dict[str, Any]) -> str:
    return str(chunk["choices"][0]["delta"]["content"])


def test_a_stream_of_mindie_is_the_documented_one() -> None:
    """Only the cuts differ: nothing is sent for a piece without text, and white space waits for the text after it."""
    expected = sample("mindie_stream.txt")
    usage = Usage(prompt_tokens=54, completion_tokens=17)
    with live(Scripted([content(c) for c in expected[:-1]], usage=usage), "hermes", **MINDIE) as server:
        sent = streamed(server, "endpoint_common_")
    assert json.dumps(sent[-1]) == json.dumps(expected[-1]), "the order of the members too"
    assert "".join(map(content, sent)) == "".join(map(content, expected))
    for chunk in sent[:-1]:
        chunk["choices"][0]["delta"]["content"] = content(expected[0])
        assert json.dumps(chunk) == json.dumps(expected[0])


def test_a_stream_of_mindie_with_full_text_is_the_documented_one() -> None:
    expected = sample("mindie_full_text.txt")
    texts = [content(c) for c in expected[:-1]]
    pieces = [text.removeprefix(before) for before, text in zip(["", *texts], texts, strict=False)]
    engine = Scripted(pieces, usage=Usage(prompt_tokens=31, completion_tokens=10), reason="length")
    with live(engine, "hermes", full_text=True, **MINDIE) as server:
        sent = streamed(server, "endpoint_common_")
        answer = whole(server, "endpoint_common_")
    assert [json.dumps(c) for c in sent] == [json.dumps(c) for c in expected], "the order of the members too"
    assert answer["choices"][0]["message"]["content"] == texts[-1], "whole answers are as ever"
    assert "full_text" not in answer


@pytest.mark.parametrize("timing", ["usage", "top"])
def test_a_whole_answer_of_mindie_has_every_documented_member(timing: Any) -> None:
    engine = Scripted([f"plan</think>{V3}"], usage=TIMED)
    with live(engine, "deepseek", timing=timing, **MINDIE) as server:
        answer = whole(server, "endpoint_common_", tools=[WEATHER])
    call = answer["choices"][0]["message"]["tool_calls"][0]
    assert re.fullmatch("call_[0-9A-Za-z]{24}", call.pop("id"))
    assert answer == {
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "",
                    "reasoning_content": "plan",
                    "tool_calls": [
                        {"type": "function", "function": {"name": "get_weather", "arguments": '{"city": "北京"}'}}
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": COUNTS | (TIMES if timing == "usage" else {}),
        **(TIMES if timing == "top" else {}),
    }


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (None, 500, "Incomplete Generation"),
        (424, 424, "Generation Error"),
        (503, 503, "Service Unavailable"),
        (400, 400, "Bad Request"),
    ],
)
def test_before_the_first_byte_an_error_of_mindie_is_a_status_with_its_own_body(
    error: int | None, status: int, kind: str
) -> None:
    wrong = EngineError("the device is lost", error or 500)
    asks: list[dict[str, Any]] = [{}, {"stream": True}]
    body = {"error": "the device is lost", "error_type": kind, "err_msg": "the device is lost"}
    with live(Scripted([], fail_after=0, error=wrong), "hermes", **MINDIE) as server:
        for ask in asks:
            answer = server.post(messages=HELLO, **ask)
            assert (answer.status_code, answer.json()) == (status, body)


def test_a_request_that_mindie_refuses_has_422_and_err_msg() -> None:
    asks: list[tuple[dict[str, Any], str]] = [
        ({"n": 2}, "n: 2 is not 1"),
        ({"top_p": 9}, "top_p: 9 is not between 0 and 1"),
    ]
    with live(Scripted(["x"]), "hermes", **MINDIE) as server:
        for ask, message in asks:
            answer = server.post(messages=HELLO, **ask)
            fields = {"error": message, "error_type": "Input Validation Error", "err_msg": message}
            assert (answer.status_code, answer.json()) == (422, fields)


# -- candle ------------------------------------------------------------------------------------------------------------

CANDLE: Any = {"profile": "candle", "model": MODEL}
CALCULATE: Any = {
    "type": "function",
    "function": {"name": "calculate", "parameters": {"type": "object", "properties": {"expression": {}}}},
}
THOUGHTS = ["Let me think about this...", "First, I'll calculate 6 times 7...", "The result is 42."]
ARGUMENTS = '{"expression": "6*7"}'
CALL = '<tool_call>\n{"name": "calculate", "arguments": {"expression": "6*7"}}\n</tool_call>'
PIECES = ["<think>", *THOUGHTS, "</think>", "The answer ", "is 42.", CALL]
CACHED = Usage(prompt_tokens=50, completion_tokens=100, cached_tokens=20)


@pytest.mark.parametrize("content_chunks", [False, True])
def test_a_whole_answer_of_candle_is_the_documented_one_with_its_extensions(content_chunks: bool) -> None:
    engine = Scripted(PIECES, usage=CACHED)
    with live(engine, "hermes", content_chunks=content_chunks, **CANDLE) as server:
        answer = whole(server, "chatcmpl-", tools=[CALCULATE])
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    chunks = answer["extensions"].pop("tool_call_chunks")
    assert answer == {
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "The answer is 42.",
                    "tool_calls": [
                        {
                            "id": call["id"],
                            "type": "function",
                            "function": {"name": "calculate", "arguments": ARGUMENTS},
                        }
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": 50,
            "completion_tokens": 100,
            "total_tokens": 150,
            "prompt_tokens_details": {"cached_tokens": 20},
        },
        "extensions": {
            "reasoning_chunks": THOUGHTS,
            **({"content_chunks": ["The answer ", "is 42."]} if content_chunks else {}),
        },
    }
    assert chunks[0] == {"type": "start", "tool_call_id": call["id"], "tool_name": "calculate"}
    assert chunks[-1] == {"type": "end", "tool_call_id": call["id"]}
    assert {(c["type"], c["tool_call_id"]) for c in chunks[1:-1]} == {("args", call["id"])}
    assert "".join(c["delta"] for c in chunks[1:-1]) == ARGUMENTS


def test_a_stream_of_candle_is_the_documented_one() -> None:
    with live(Scripted(PIECES, usage=CACHED), "hermes", **CANDLE) as server:
        sent = streamed(server, "chatcmpl-", tools=[CALCULATE])
    assert all(set(c) == {"choices"} for c in sent)
    choices = [c["choices"][0] for c in sent]
    assert all(set(c) == {"index", "delta", "finish_reason"} for c in choices)
    deltas = [c["delta"] for c in choices]
    assert deltas[:6] == [
        {"role": "assistant", "reasoning": f"<think>{THOUGHTS[0]}"},
        {"reasoning": THOUGHTS[1]},
        {"reasoning": THOUGHTS[2]},
        {"reasoning": "</think>"},
        {"content": "The answer "},
        {"content": "is 42."},
    ]
    (opened,) = deltas[6].pop("tool_calls")
    assert deltas[6] == {}
    assert opened.pop("id")
    assert opened == {"index": 0, "type": "function", "function": {"name": "calculate", "arguments": ""}}
    arguments = [delta["tool_calls"] for delta in deltas[7:-1]]
    assert all(len(calls) == 1 and set(calls[0]) == {"index", "function"} for calls in arguments)
    assert "".join(calls[0]["function"]["arguments"] for calls in arguments) == ARGUMENTS
    assert deltas[-1] == {}
    assert [c["finish_reason"] for c in choices] == [None] * (len(choices) - 1) + ["tool_calls"]


BROKEN = '<tool_call>\n{"name": "calculate", "arguments": {"expression": oops}}\n</tool_call> and more'
PARSE_ERROR = {"message": "Tool call parsing failed: Invalid JSON", "type": "tool_call_parse_error"}


def test_a_call_that_candle_cannot_parse_ends_stream_and_answer_with_the_documented_error() -> None:
    with live(Scripted([*PIECES[:7], BROKEN]), "hermes", **CANDLE) as server:
        sent = streamed(server, "chatcmpl-", tools=[CALCULATE])
        answer = whole(server, "chatcmpl-", tools=[CALCULATE])
    assert sent[-1] == {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], "error": PARSE_ERROR}
    assert (answer["choices"][0]["finish_reason"], answer["error"]) == ("error", PARSE_ERROR)
    assert answer["choices"][0]["message"]["content"] == "The answer is 42."
