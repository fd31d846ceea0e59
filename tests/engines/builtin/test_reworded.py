"""Follow-ups that lean on the last call or answer: days relative to its day, offers, calculations, conversions."""

import json
from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import read

DAY = {"type": "string", "description": "YYYY-MM-DD"}
TOOLS = {
    "flights": tool("search_flights", ["origin", "destination", "date"], origin=TEXT, destination=TEXT, date=DAY),
    "hours": tool("get_store_hours", ["city", "day"], city=TEXT, day=TEXT),
    "order": tool("get_order", ["order_id"], order_id=TEXT),
    "cancel": tool("cancel_order", ["order_id"], order_id=TEXT),
    "sum": tool("calculate", ["expression"], expression=TEXT),
    "far": tool("get_distance", ["origin", "destination"], origin=TEXT, destination=TEXT),
    "units": tool("convert_units", ["value", "from_unit", "to_unit"], value=NUMBER, from_unit=TEXT, to_unit=TEXT),
}
FLIGHT = {"origin": "JFK", "destination": "SEA", "date": "2024-05-31"}


def calls(names: str, given: dict[str, Any], result: str, said: str, text: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls for a message after the call of the first of some tools and what was said of it."""
    some = [TOOLS[name] for name in names.split()]
    called = {"name": some[0]["function"]["name"], "arguments": json.dumps(given)}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "please"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": called}]},
        {"role": "tool", "tool_call_id": "1", "content": result},
        {"role": "assistant", "content": said},
        {"role": "user", "content": text},
    ]
    answer = read(prompt(some, messages))
    return [] if answer is None else answer.calls


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("and on the 23rd?", "2024-05-23"),
        ("what about the day after?", "2024-06-01"),
        ("and the previous day?", "2024-05-30"),
        ("and a week later?", "2024-06-07"),
    ],
)
def test_a_day_is_relative_to_that_of_the_last_call(text: str, day: str) -> None:
    assert calls("flights", FLIGHT, "[]", "None.", text) == [("search_flights", FLIGHT | {"date": day})]


def test_the_same_day_is_the_one_of_the_last_call() -> None:
    given = {"city": "Utrecht", "day": "saturday"}
    made = calls("hours", given, '{"open": "10:00"}', "It opens at 10.", "and in Breda on the same day?")
    assert made == [("get_store_hours", {"city": "Breda", "day": "saturday"})]


def test_a_day_that_the_month_lacks_stays_as_it_is() -> None:
    [(_, given)] = calls("flights", FLIGHT | {"date": "2024-06-01"}, "[]", "None.", "and on the 31st?")
    assert given["date"] != "2024-06-01"


@pytest.mark.parametrize("text", ["yes", "Yes please, do that!", "ok go ahead"])
def test_who_agrees_asks_for_what_was_offered(text: str) -> None:
    result = '{"order_id": "7731", "status": "processing"}'
    said = "It is processing. Would you like me to cancel it?"
    assert calls("order cancel", {"order_id": "7731"}, result, said, text) == [("cancel_order", {"order_id": "7731"})]
    assert calls("order cancel", {"order_id": "7731"}, result, said, "no thanks") == []
    assert calls("order cancel", {"order_id": "7731"}, result, "It is processing.", text) == []


def test_a_calculation_goes_on_with_the_last_number() -> None:
    made = calls("sum", {"expression": "12*12"}, '{"result": 144}', "144.", "divide that by 9")
    assert [(name, given["expression"].replace(" ", "")) for name, given in made] == [("calculate", "144/9")]


@pytest.mark.parametrize("result", ['{"distance_km": 280}', "280 km"])
def test_a_number_is_converted_from_the_unit_that_its_result_names(result: str) -> None:
    [(name, given)] = calls(
        "far units", {"origin": "Hamburg", "destination": "Berlin"}, result, "It is far.", "how many miles is that?"
    )
    assert (name, given["value"], given["from_unit"]) == ("convert_units", 280, "km")
