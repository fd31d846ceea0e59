"""Rewards from 0 to 1, computed from how an answer was read."""

import json
from typing import Any

import pytest

import unspool
from unspool.rl.rewards import calls_match, format_score, schema_score

from ..support import tool

TOOLS = [tool("f", a="string", n="integer"), tool("now")]
TOOLS[0]["function"]["parameters"]["required"] = ["a"]


def _said(*calls: tuple[str, str], **options: Any) -> unspool.Message:
    written = [f'<tool_call>\n{{"name": "{n}", "arguments": {a}}}\n</tool_call>' for n, a in calls]
    return unspool.parse("\n".join(written), "hermes", **{"tools": TOOLS, **options})


@pytest.mark.parametrize(
    ("message", "score"),
    [
        (_said(("f", '{"a": "x"}')), 1.0),
        (unspool.parse("Hello.", "hermes"), 1.0),
        (_said(("f", '{"a": }')), 0.0),
        (_said(("g", "{}")), 0.0),
        (_said(("f", "{'a': 'x'}"), policy=unspool.Policy(bad_arguments="repair")), 0.5),
        (unspool.parse("<think>never closed", "hermes"), 0.0),
    ],
)
def test_the_format_is_scored_by_status_and_notices(message: unspool.Message, score: float) -> None:
    assert format_score(message) == score


def test_calls_are_compared_as_json() -> None:
    message = _said(("f", '{ "n":1.0, "a":"\\u0078" }'), ("now", "{}"))
    wanted: list[dict[str, Any]] = [{"name": "f", "arguments": {"a": "x", "n": 1}}, {"name": "now", "arguments": "{}"}]
    assert calls_match(message, wanted) == 1.0
    assert calls_match(message, wanted[::-1]) == 0.0
    assert calls_match(message, wanted[::-1], ordered=False) == 1.0
    assert calls_match(message, wanted[:1]) == 0.0
    assert calls_match(message, wanted[:1], partial=True) == 0.5
    assert calls_match(message, message.to_openai()["tool_calls"]) == 1.0
    assert calls_match(unspool.parse("Hi.", "hermes"), []) == 1.0


@pytest.mark.parametrize(("written", "wanted"), [("1", True), ("true", 1), ("[]", {}), ('"1"', 1)])
def test_values_of_other_types_do_not_match(written: str, wanted: Any) -> None:
    message = _said(("f", f'{{"a": {written}}}'), tools=None)
    assert calls_match(message, [{"name": "f", "arguments": {"a": wanted}}]) == 0.0
    assert calls_match(message, [{"name": "f", "arguments": {"a": json.loads(written)}}]) == 1.0


def test_an_invalid_expectation_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected\[0\]\.arguments: not JSON"):
        calls_match(_said(), [{"name": "f", "arguments": "{"}])


def test_arguments_are_held_against_the_schema() -> None:
    message = _said(("f", '{"a": "x"}'), ("f", '{"n": 1}'), ("f", '{"a": "x", "n": "y"}'), ("now", "{}"))
    assert schema_score(message, TOOLS) == 0.5
    assert schema_score(unspool.parse("Hi.", "hermes"), TOOLS, without_calls=0.0) == 0.0


def test_a_schema_that_refers_elsewhere_is_refused_and_not_fetched() -> None:
    remote = {"type": "function", "function": {"name": "f", "parameters": {"$ref": "http://127.0.0.1:9/x"}}}
    with pytest.raises(ValueError, match="the parameters of f are not a schema that can be checked"):
        schema_score(_said(("f", "{}")), [remote])


def test_patterns_of_schemas_take_linear_time() -> None:
    evil = tool("f", a={"type": "string", "pattern": "^(a+)+$"})
    assert schema_score(_said(("f", json.dumps({"a": "a" * 5_000 + "b"}))), [evil]) == 0.0
