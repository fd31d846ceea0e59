"""The MindIE profile of a running server, compared field by field with its documentation.

Only ids, times and counts come from the server or the engine.
"""

import re
import time
from typing import Any

import pytest

from unspool.wire import Usage

from ..wire.readers import frames
from .support import HELLO, Scripted, live

MODEL = "DeepSeek-R1"
MINDIE: Any = {"profile": "mindie", "model": MODEL}
TIMED = Usage(prompt_tokens=31, completion_tokens=2049, prefill_time=31.5, decode_time_arr=[7.25, 7.5])
COUNTS = {"prompt_tokens": 31, "completion_tokens": 2049, "total_tokens": 2080}
TIMES = {"prefill_time": 31.5, "decode_time_arr": [7.25, 7.5]}


@pytest.mark.parametrize("timing", ["usage", "top"])
def test_options_of_mindie_reach_its_answers(timing: Any) -> None:
    with live(Scripted(["He", "llo"], usage=TIMED), "hermes", timing=timing, full_text=True, **MINDIE) as server:
        answer = server.post(messages=HELLO)
        streamed = server.post(messages=HELLO, stream=True)
    assert answer.headers["content-type"] == "application/json"
    assert streamed.headers["content-type"].startswith("text/event-stream")
    whole, sent = answer.json(), [frame.data for frame in frames(streamed.content, done=True)]
    assert len({(c["id"], c["created"]) for c in sent}) == 1
    for one, kind in ((whole, "chat.completion"), (sent[0], "chat.completion.chunk")):
        assert re.fullmatch("endpoint_common_[0-9a-f]{32}", one["id"])
        assert (one["object"], one["model"], abs(one["created"] - time.time()) < 60) == (kind, MODEL, True)
    assert whole["usage"] == COUNTS | (TIMES if timing == "usage" else {})
    assert {k: v for k, v in whole.items() if k in TIMES} == (TIMES if timing == "top" else {})
    assert "full_text" not in whole, "whole answers are as ever"
    contents = [c["choices"][0]["delta"]["content"] for c in sent[:2]]
    assert (contents, sent[-1]["full_text"]) == (["He", "Hello"], "Hello")


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
