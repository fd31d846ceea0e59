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
from .support import HELLO, Live, Scripted, live

SAMPLES = Path(__file__).parent.parent / "wire" / "samples"
MODEL = "DeepSeek-R1"
MINDIE: Any = {"profile": "mindie", "model": MODEL}
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


@pytest.mark.parametrize("timing", ["usage", "top"])
def test_options_of_mindie_reach_its_answers(timing: Any) -> None:
    with live(Scripted(["He", "llo"], usage=TIMED), "hermes", timing=timing, full_text=True, **MINDIE) as server:
        answer = whole(server, "endpoint_common_")
        sent = streamed(server, "endpoint_common_")
    assert answer["usage"] == COUNTS | (TIMES if timing == "usage" else {})
    assert {k: v for k, v in answer.items() if k in TIMES} == (TIMES if timing == "top" else {})
    assert "full_text" not in answer, "whole answers are as ever"
    assert ([content(c) for c in sent[:2]], sent[-1]["full_text"]) == (["He", "Hello"], "Hello")


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
CALL = '<tool_call>\n{"name": "calculate", "arguments": {"expression": "6*7"}}\n</tool_call>'
PIECES = ["<think>", *THOUGHTS, "</think>", "The answer ", "is 42.", CALL]


@pytest.mark.parametrize("content_chunks", [False, True])
def test_answers_of_candle_are_those_of_its_writer(content_chunks: bool) -> None:
    with live(Scripted(PIECES), "hermes", content_chunks=content_chunks, **CANDLE) as server:
        answer = whole(server, "chatcmpl-", tools=[CALCULATE])
        sent = streamed(server, "chatcmpl-", tools=[CALCULATE])
    extensions = answer["extensions"]
    assert {c["type"] for c in extensions.pop("tool_call_chunks")} == {"start", "args", "end"}
    chunked = {"content_chunks": ["The answer ", "is 42."]} if content_chunks else {}
    assert extensions == {"reasoning_chunks": THOUGHTS, **chunked}
    deltas = [c["choices"][0]["delta"] for c in sent]
    assert deltas[0] == {"role": "assistant", "reasoning": f"<think>{THOUGHTS[0]}"}
    assert [d["content"] for d in deltas if "content" in d] == ["The answer ", "is 42."]


BROKEN = '<tool_call>\n{"name": "calculate", "arguments": {"expression": oops}}\n</tool_call> and more'
PARSE_ERROR = {"message": "Tool call parsing failed: Invalid JSON", "type": "tool_call_parse_error"}


def test_a_call_that_candle_cannot_parse_ends_stream_and_answer_with_the_documented_error() -> None:
    with live(Scripted([*PIECES[:7], BROKEN]), "hermes", **CANDLE) as server:
        sent = streamed(server, "chatcmpl-", tools=[CALCULATE])
        answer = whole(server, "chatcmpl-", tools=[CALCULATE])
    assert sent[-1] == {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], "error": PARSE_ERROR}
    assert (answer["choices"][0]["finish_reason"], answer["error"]) == ("error", PARSE_ERROR)
    assert answer["choices"][0]["message"]["content"] == "The answer is 42."
