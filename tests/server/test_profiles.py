"""The MindIE profile of a running server, compared field by field with its documentation.

Only ids, times and counts come from the server or the engine.
"""

import re
import time
from typing import Any

import pytest

from unspool.wire import Usage

from ..wire.readers import frames
from .support import HELLO, Live, Scripted, live

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


def content(chunk: dict[str, Any]) -> str:
    return str(chunk["choices"][0]["delta"]["content"])


@pytest.mark.parametrize("timing", ["usage", "top"])
def test_options_of_mindie_reach_its_answers(timing: Any) -> None:
    with live(Scripted(["He", "llo"], usage=TIMED), "hermes", timing=timing, full_text=True, **MINDIE) as server:
        answer = whole(server, "endpoint_common_")
        sent = streamed(server, "endpoint_common_")
    assert answer["usage"] == COUNTS | (TIMES if timing == "usage" else {})
    assert {k: v for k, v in answer.items() if k in TIMES} == (TIMES if timing == "top" else {})
    assert "full_text" not in answer, "whole answers are as ever"
    assert ([content(c) for c in sent[:2]], sent[-1]["full_text"]) == (["He", "Hello"], "Hello")


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
