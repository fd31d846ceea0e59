"""Values are assigned to parameters together: the best total wins, and optional parameters need evidence."""

import time
from typing import Any

import pytest

from models.builtin import natural
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import read
from unspool.engines.builtin.reader.assign import assign


def tool(name: str, required: list[str], /, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def described(declared: dict[str, Any], description: str) -> dict[str, Any]:
    return {**declared, "function": {**declared["function"], "description": description}}


TEXT, NUMBER, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}


def about(description: str, schema: dict[str, Any] = TEXT) -> dict[str, Any]:
    """A schema with a description."""
    return schema | {"description": description}


def calls(text: str, *tools: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The calls of the answer to a message, which must be clear."""
    answer = read(prompt(list(tools), [{"role": "user", "content": text}]))
    assert answer is not None
    return answer.calls


PLACE = {"type": "object", "properties": {"lat": NUMBER, "lon": NUMBER}, "required": ["lat", "lon"]}
HOUSE = {
    "type": "object",
    "properties": {"street": TEXT, "city": TEXT, "zip": TEXT},
    "required": ["street", "city", "zip"],
}
LINE = {"type": "object", "properties": {"product": TEXT, "pieces": WHOLE}, "required": ["product", "pieces"]}
TOOLS = {
    "moving": tool("plan_move", ["address"], address=HOUSE, boxes=WHOLE),
    "route": tool("get_distance", ["from", "to"], **{"from": PLACE, "to": PLACE}),
    "basket": tool("order_goods", ["lines"], lines={"type": "array", "items": LINE}),
    "median": tool("median", ["samples"], samples={"type": "array", "items": NUMBER}),
    "colours": tool("paint", ["tints"], tints={"type": "array", "items": {"type": "string", "enum": ["red", "teal"]}}),
    "shares": tool("order_shares", ["ticker", "quantity"], ticker=TEXT, quantity=WHOLE, limit_price=NUMBER),
    "members": tool("find_members", [], min_age=WHOLE, limit={**WHOLE, "description": "How many members"}),
}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "moving",
            "Plan a move with 40 boxes to 7 Birch Road, Dover, 19901",
            {"address": {"street": "7 Birch Road", "city": "Dover", "zip": "19901"}, "boxes": 40},
        ),
        (
            "route",
            "distance from 10.5, -3.25 to 11.75, 4.5",
            {"from": {"lat": 10.5, "lon": -3.25}, "to": {"lat": 11.75, "lon": 4.5}},
        ),
        (
            "basket",
            "order 4 lamps and 2 desk chairs",
            {"lines": [{"product": "lamps", "pieces": 4}, {"product": "desk chairs", "pieces": 2}]},
        ),
        ("median", "median of 3, 9.5 and 4", {"samples": [3, 9.5, 4]}),
        ("colours", "paint it teal and red", {"tints": ["teal", "red"]}),
        ("shares", "Order 30 shares of XYZ at 12 dollars", {"ticker": "XYZ", "quantity": 30, "limit_price": 12}),
        ("members", "find 8 members", {"limit": 8}),
    ],
)
def test_values_go_to_the_parameters_that_they_fit(name: str, text: str, expected: dict[str, Any]) -> None:
    declared = TOOLS[name]
    answer = read(prompt([declared], [{"role": "user", "content": text}]))
    assert answer is not None
    assert answer.calls == [(declared["function"]["name"], expected)]


def test_the_best_total_wins_and_order_decides_between_equals() -> None:
    weights = {("a", "x"): 5.0, ("a", "y"): 4.0, ("b", "x"): 4.0}
    assert assign(["a", "b"], ["x", "y"], lambda r, c: weights.get((r, c), 0)) == [("a", "y"), ("b", "x")]
    assert assign("ab", "xyz", lambda _, __: 1.0) == [("a", "x"), ("b", "y")]
    assert assign("ab", "xyz", lambda _, __: 0.0) == []


def test_many_parameters_and_values_take_little_time() -> None:
    begun = time.process_time()
    assert len(assign(range(16), range(1000), lambda row, column: 1 + (row * column) % 7)) == 8
    assert time.process_time() - begun < 1


def test_the_cases_of_the_fair_sets_call_only_their_own_tools() -> None:
    assert len(natural.FAIR) >= 5
    for name in natural.FAIR:
        for case in natural.cases(name):
            assert {called for called, _ in case.calls} - {""} <= {t["function"]["name"] for t in case.tools}
