"""A conversation has the same digest however its calls and results are spread over messages, and changes change it."""

from functools import reduce
from typing import Any

import pytest

from unspool.request.chain import Chain

from ..support import calling, function_call


def digest(*messages: Any) -> bytes:
    return reduce(Chain.take, messages, Chain(b"secret", {}, b"begun")).digest(b"test")


def called(*ids: str, content: str | None = None, **more: Any) -> dict[str, Any]:
    return calling(*(function_call(id[0], {"n": 1}, id) for id in ids), content=content, **more)


def result(id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text, **more}


ASKED = {"role": "user", "content": "Go."}
SURE = {"role": "assistant", "content": "Sure."}
WHOLE = [ASKED, called("a1", "b1", content="Sure. "), result("a1", "x"), result("b1", "y")]


@pytest.mark.parametrize(
    "same",
    [
        [ASKED, called("a1", content="Sure."), result("a1", "x"), called("b1"), result("b1", "y")],
        [ASKED, called("a7", "b7", content="Sure."), result("b7", "y", name="b"), result("a7", "x")],
        [ASKED, SURE, called("b1"), result("b1", "y"), called("a1"), result("a1", "x")],
        [ASKED, {**called("a1", "b1", content="Sure."), "reasoning_content": "Hm.", "refusal": None}, *WHOLE[2:]],
        [ASKED, called("a1", content="\n Su"), result("a1", "x"), called("b1", content="re."), result("b1", "y")],
        [ASKED, called("a1", "b1"), *WHOLE[2:], {"role": "assistant", "content": "Sure.\n"}],
        [{"role": "user", "content": [{"type": "text", "text": "Go.", "cache_control": {}}]}, *WHOLE[1:]],
    ],
)
def test_equal_histories_in_another_form_have_the_same_digest(same: list[Any]) -> None:
    assert digest(*same) == digest(*WHOLE)


@pytest.mark.parametrize(
    "other",
    [
        WHOLE[:3],
        [*WHOLE, ASKED],
        [*WHOLE[:2], result("a1", "y"), result("b1", "x")],
        [*WHOLE[:2], result("a1", "x"), result("c1", "y")],
        [ASKED, called("a1", "b1", content="No."), *WHOLE[2:]],
        [ASKED, called("a1", content="Su "), result("a1", "x"), called("b1", content="re."), result("b1", "y")],
        [ASKED, called("a1", content="re."), result("a1", "x"), called("b1", content="Su"), result("b1", "y")],
        [ASKED, called("a1", "b1"), *WHOLE[2:]],
        [{"role": "system", "content": "Go."}, *WHOLE[1:]],
        [{**ASKED, "name": "somebody"}, *WHOLE[1:]],
        [ASKED, called("a1", content="Sure."), result("a1", "x"), ASKED, called("b1"), result("b1", "y")],
    ],
)
def test_a_changed_history_has_another_digest(other: list[Any]) -> None:
    assert digest(*other) != digest(*WHOLE)
