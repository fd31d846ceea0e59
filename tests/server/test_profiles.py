"""The MindIE profile of a running server: `tests.wire.test_mindie` has its fields."""

from typing import Any

import pytest

from unspool.wire import Usage

from ..wire.readers import frames
from .support import HELLO, Scripted, live

TIMES = {"prefill_time": 31.5, "decode_time_arr": [7.25, 7.5]}
TIMED = Usage(prompt_tokens=31, completion_tokens=2049, prefill_time=31.5, decode_time_arr=[7.25, 7.5])


@pytest.mark.parametrize("timing", ["usage", "top"])
def test_options_of_mindie_reach_its_answers(timing: Any) -> None:
    options: Any = {"profile": "mindie", "timing": timing, "full_text": True}
    with live(Scripted(["He", "llo"], usage=TIMED), "hermes", **options) as server:
        whole = server.post(messages=HELLO).json()
        sent = [frame.data for frame in frames(server.post(messages=HELLO, stream=True).content, done=True)]
    assert {one["id"].rstrip("0123456789abcdef") for one in (whole, *sent)} == {"endpoint_common_"}
    assert [TIMES.keys() <= place.keys() for place in (whole["usage"], whole)] == [timing == "usage", timing == "top"]
    assert "full_text" not in whole, "whole answers are as ever"
    contents = [c["choices"][0]["delta"]["content"] for c in sent[:2]]
    assert (contents, sent[-1]["full_text"]) == (["He", "Hello"], "Hello")


def test_a_request_that_mindie_refuses_has_422_and_err_msg() -> None:
    asks: list[tuple[Any, str]] = [({"n": 2}, "n: 2 is not 1"), ({"top_p": 9}, "top_p: 9 is not between 0 and 1")]
    with live(Scripted(["x"]), "hermes", profile="mindie") as server:
        for ask, message in asks:
            answer = server.post(messages=HELLO, **ask)
            fields = {"error": message, "error_type": "Input Validation Error", "err_msg": message}
            assert (answer.status_code, answer.json()) == (422, fields)
