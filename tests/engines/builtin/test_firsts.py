"""First questions with schemas as frameworks write them, results of any form, comparisons, and follow-ups that only set
an option."""

from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, WHOLE, described, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import read

LIST: dict[str, Any] = {"type": "array", "items": TEXT}
ITEM = {"type": "object", "properties": {"product": TEXT, "quantity": WHOLE}, "required": ["product", "quantity"]}


def function(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", **parameters}}}


STRICT = function(
    "get_weather",
    {
        "properties": {
            "location": TEXT,
            "unit": {"type": ["string", "null"], "enum": ["celsius", "fahrenheit", None]},
            "days": {"type": ["integer", "null"]},
        },
        "required": ["location", "unit", "days"],
    },
)
MEETING = function(
    "create_event",
    {
        "properties": {
            "title": TEXT,
            "date": TEXT,
            "attendees": {"anyOf": [LIST, {"type": "null"}], "default": None},
            "priority": {"anyOf": [{"$ref": "#/$defs/Priority"}, {"type": "null"}], "default": None},
        },
        "required": ["title", "date"],
        "$defs": {"Priority": {"type": "string", "enum": ["low", "high"]}},
    },
)
CART = function(
    "add_to_cart", {"properties": {"item": {"$ref": "#/$defs/Item"}}, "required": ["item"], "$defs": {"Item": ITEM}}
)
ORDER = function(
    "place_order",
    {
        "properties": {"items": {"type": "array", "items": {"$ref": "#/definitions/Item"}}},
        "required": ["items"],
        "definitions": {"Item": ITEM},
    },
)
TRIP = function(
    "book_flight",
    {
        "properties": {"trip": {"allOf": [{"$ref": "#/$defs/Trip"}]}},
        "required": ["trip"],
        "$defs": {
            "Trip": {
                "type": "object",
                "properties": {"origin": TEXT, "destination": TEXT, "seat": {"type": ["string", "null"]}},
                "required": ["origin", "destination", "seat"],
            }
        },
    },
)
NUTRITION = described(tool("get_nutrition", ["food"], food=TEXT), "Nutrition facts of a food")
COMPARE = tool("compare_foods", ["food_a", "food_b"], food_a=TEXT, food_b=TEXT)
CURRENCY = tool(
    "convert_currency", ["amount", "from_currency", "to_currency"], amount=NUMBER, from_currency=TEXT, to_currency=TEXT
)
PIZZA = tool("order_pizza", ["size"], size={"enum": ["small", "large"]}, toppings=LIST)
SET = tool("set_status", ["user", "status"], user=TEXT, status={"enum": ["online", "away"]})
STATUS = described(tool("get_status", ["user"], user=TEXT), "Check whether a user is online")
DONE = tool("todo_complete", ["item"], item=TEXT)
CANCEL = tool("cancel_order", ["order_id"], order_id=TEXT, reason=TEXT)
WIKI = described(tool("wikipedia", ["topic"], topic=TEXT), "Look something up on Wikipedia")
ISSUE = tool(
    "create_issue", ["owner", "repo", "title"], owner=TEXT | {"description": "Repository owner"}, repo=TEXT, title=TEXT
)
DEVICE = tool("HassTurnOff", [], name=TEXT, area=TEXT)
ZONE = {"type": "string", "description": "IANA timezone name"}
CLOCK = tool(
    "convert_time",
    ["source_timezone", "time", "target_timezone"],
    source_timezone=ZONE,
    time=TEXT,
    target_timezone=ZONE,
)
HANDOFF = tool("transfer_to_billing_agent", [])
SMS = tool("send_message", ["to", "message"], to=TEXT, message=TEXT)
TIMER = tool("set_timer", ["minutes"], minutes=WHOLE)
SUM = tool("calculate", ["expression"], expression=TEXT)
PLACE = tool("get_weather", ["city"], city=TEXT)
README = tool("get_weather", [], city=TEXT, days=WHOLE)
RFC = tool("get_weather", [], location=TEXT, unit={"type": "string", "enum": ["c", "f"]})


def asked(messages: Any, *tools: dict[str, Any]) -> list[dict[str, Any]]:
    """The arguments of the calls."""
    messages = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    answer = read(prompt(list(tools), messages))
    return [arguments for _, arguments in answer.calls] if answer else []


def called(question: str, name: str, arguments: str, *results: str) -> list[dict[str, Any]]:
    """A question, a call and its results."""
    call = {"id": "a", "type": "function", "function": {"name": name, "arguments": arguments}}
    return [
        {"role": "user", "content": question},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        *({"role": "tool", "tool_call_id": "a", "content": result} for result in results),
    ]


@pytest.mark.parametrize(
    ("text", "declared", "expected"),
    [
        ("weather in Rome", STRICT, [{"location": "Rome", "unit": None, "days": None}]),
        ("weather in Rome in celsius for 3 days", STRICT, [{"location": "Rome", "unit": "celsius", "days": 3}]),
        (
            "Create an event called Standup on 2025-03-03 with Ann and Bob, high priority",
            MEETING,
            [{"title": "Standup", "date": "2025-03-03", "attendees": ["Ann", "Bob"], "priority": "high"}],
        ),
        ("Add 3 apples to my cart", CART, [{"item": {"product": "apples", "quantity": 3}}]),
        (
            "order 3 notebooks and 2 pens",
            ORDER,
            [{"items": [{"product": "notebooks", "quantity": 3}, {"product": "pens", "quantity": 2}]}],
        ),
        (
            "Book a flight from Rome to Oslo",
            TRIP,
            [{"trip": {"origin": "Rome", "destination": "Oslo", "seat": None}}],
        ),
        ("compare tofu with chicken", NUTRITION, [{"food": "tofu"}, {"food": "chicken"}]),
        ("tofu vs chicken", COMPARE, [{"food_a": "tofu", "food_b": "chicken"}]),
        (
            "convert 20 eur and 30 gbp to usd",
            CURRENCY,
            [
                {"amount": 20, "from_currency": "EUR", "to_currency": "USD"},
                {"amount": 30, "from_currency": "GBP", "to_currency": "USD"},
            ],
        ),
        ("a large pizza with ham and olives please", PIZZA, [{"size": "large", "toppings": ["ham", "olives"]}]),
        ("are Lucy and Ahmed online?", SET, []),
        ("are Lucy and Ahmed online?", STATUS, [{"user": "Lucy"}, {"user": "Ahmed"}]),
        ("the milk is done", DONE, [{"item": "milk"}]),
        ("cancel order A-9, it came too late", CANCEL, [{"order_id": "A-9", "reason": "it came too late"}]),
        ("Look up Alan Turing on Wikipedia", WIKI, [{"topic": "Alan Turing"}]),
        ("open an issue in a/b titled 'Crash'", ISSUE, [{"owner": "a", "repo": "b", "title": "Crash"}]),
        ("turn off the TV", DEVICE, [{"name": "TV"}]),
        (
            "When it's 16:00 in London, what time is it in Tokyo?",
            CLOCK,
            [{"source_timezone": "Europe/London", "time": "16:00", "target_timezone": "Asia/Tokyo"}],
        ),
        ("there's a problem with my billing", HANDOFF, [{}]),
        ("", README, []),
        ("text Bob and Alice that I'm late", SMS, [{"to": n, "message": "I'm late"} for n in ("Bob", "Alice")]),
        ("message bob and alice: lunch?", SMS, [{"to": n, "message": "lunch?"} for n in ("bob", "alice")]),
        ("set two timers, 5 and 10 minutes", TIMER, [{"minutes": 5}, {"minutes": 10}]),
        ("add 3 and 4", SUM, [{"expression": "3 + 4"}]),
        ("How's Paris today?", PLACE, [{"city": "Paris"}]),
    ],
)
def test_first_questions(text: str, declared: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    for arguments in (found := asked(text, declared)):
        assert list(arguments) == [
            name for name in declared["function"]["parameters"]["properties"] if name in arguments
        ]
    assert [dict(sorted(f.items())) for f in found] == [dict(sorted(e.items())) for e in expected]


@pytest.mark.parametrize(
    ("text", "declared", "known", "expected"),
    [
        ("for 5 days?", README, '{"city": "Oslo"}', [{"city": "Oslo", "days": 5}]),
        ("do I need a jacket?", README, '{"city": "Oslo"}', [{"city": "Oslo"}]),
        ("in fahrenheit?", RFC, '{"location": "Oslo"}', [{"location": "Oslo", "unit": "f"}]),
        ("can you convert that to celsius?", RFC, '{"location": "Oslo"}', [{"location": "Oslo", "unit": "c"}]),
        ("in fahrenheit?", STRICT, '{"location": "Oslo"}', [{"location": "Oslo", "unit": "fahrenheit", "days": None}]),
        ("in fahrenheit please", README, '{"city": "Oslo"}', []),
    ],
)
def test_an_option_of_the_last_call_keeps_the_rest(
    text: str, declared: dict[str, Any], known: str, expected: list[dict[str, Any]]
) -> None:
    before = called("what's the weather in Oslo?", "get_weather", known, "20 degrees celsius")
    assert asked([*before, {"role": "user", "content": text}], declared) == expected


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("[]", "The tool found nothing for Oslo."),
        ('{"events": []}', "The tool found nothing for Oslo."),
        ("", "The tool found nothing for Oslo."),
        ('{"temp": 4, "sky": null}', "Here is the answer for Oslo: temp 4."),
        ('["a", {"b": {"c": [1, 2], "d": [{"e": "f"}]}}]', "Here is the answer for Oslo: a; c 1; 2, e f."),
        ("10% rain,\nthen sun.", "Here is the answer for Oslo: 10% rain, then sun."),
    ],
)
def test_results_are_told_whole(result: str, said: str) -> None:
    answer = read(prompt([README], called("weather in Oslo", "get_weather", '{"city": "Oslo"}', result)))
    assert answer is not None
    assert answer.words == said


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": "x"},
        {"anyOf": ["x"]},
        {"anyOf": []},
        {"$ref": "#"},
        {"$ref": "#/$defs/A"},
        {"type": []},
        {"type": ["string", "integer"]},
        {"anyOf": [{"type": "null"}]},
        True,
    ],
)
def test_any_schema_is_declared(schema: Any) -> None:
    declared = function("f", {"properties": {"a": schema}, "$defs": {"A": {"$ref": "#/$defs/A"}}})
    [found] = prompt([declared], [{"role": "user", "content": "Hi"}]).tools
    assert [(p.name, p.type) for p in found.parameters] == [("a", "any")]
