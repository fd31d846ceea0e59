"""Requests to banks, shops and ticket systems: codes, currencies, wares, priorities, names and things."""

import json
from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, WHOLE, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import read

URGENCY = {"enum": ["minor", "major", "critical"]}
DIGITS = TEXT | {"description": "last four digits"}
TOOLS = {
    "vin": tool("check_vin", ["vin"], vin=TEXT),
    "report": tool(
        "report_contract_breach", ["contract_number", "breach_type"], contract_number=TEXT, breach_type=URGENCY
    ),
    "rate": tool("get_exchange_rate", ["base", "target"], base=TEXT, target=TEXT),
    "limit": tool("set_card_limit", ["card_last4", "limit"], card_last4=DIGITS, limit=WHOLE),
    "blacklist": tool("check_blacklist", ["name"], name=TEXT, country=TEXT | {"description": "ISO country code"}),
    "bug": tool("create_bug", ["title", "urgency"], title=TEXT, urgency=URGENCY),
    "bugs": tool("list_bugs", [], urgency=URGENCY, assignee=TEXT),
    "member": tool("add_user", ["email", "name"], email=TEXT, name=TEXT | {"description": "full name"}),
    "wares": tool("list_products", [], category=TEXT, max_price=NUMBER),
    "bill": tool(
        "create_bill",
        ["customer", "amount"],
        customer=TEXT,
        amount=NUMBER,
        currency={"enum": ["EUR", "USD"]},
        due_date=TEXT,
    ),
    "search": tool("search", ["query"], query=TEXT, kind={"enum": ["notes", "letters"]}),
    "note": tool("get_note", ["note_id"], note_id=TEXT),
    "order": tool("get_order", ["order_id"], order_id=TEXT),
    "ship": tool("mark_order_shipped", ["order_id"], order_id=TEXT),
}


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        ("vin", "is WVWZZZ1JZXW000001 a valid VIN?", {"vin": "WVWZZZ1JZXW000001"}),
        ("rate", "what's the GBP/CHF rate", {"base": "GBP", "target": "CHF"}),
        ("rate", "the dollar/yen rate please", {"base": "USD", "target": "JPY"}),
        ("limit", "set the limit of card 4711 to 900", {"card_last4": "4711", "limit": 900}),
        ("limit", "set the limit of the card ending in 4711 to 900", {"card_last4": "4711", "limit": 900}),
        ("blacklist", "Is Ferrum Holding Inc on any blacklist?", {"name": "Ferrum Holding Inc"}),
        (
            "bug bugs",
            "new bug: the map stays empty. urgency major",
            {"title": "the map stays empty", "urgency": "major"},
        ),
        ("bug bugs", "new bug: it hangs. critical urgency please", {"title": "it hangs", "urgency": "critical"}),
        ("bugs", "which critical bugs does nora have", {"urgency": "critical", "assignee": "nora"}),
        ("member", "create an account for Ugo Prats, ugo@prats.es", {"email": "ugo@prats.es", "name": "Ugo Prats"}),
        ("member", "make a login for ugo prats, ugo@prats.es", {"email": "ugo@prats.es", "name": "ugo prats"}),
        ("wares", "any jackets under 80?", {"category": "jackets", "max_price": 80}),
        ("wares", "which products are under 80?", {"max_price": 80}),
        (
            "bill",
            "make a bill for Acme of 640 EUR, due 2027-01-31",
            {"customer": "Acme", "amount": 640, "currency": "EUR", "due_date": "2027-01-31"},
        ),
    ],
)
def test_requests_of_offices_are_read_with_their_values(names: str, text: str, expected: dict[str, Any]) -> None:
    declared = [TOOLS[name] for name in names.split()]
    answer = read(prompt(declared, [{"role": "user", "content": text}]))
    assert answer is not None
    assert answer.calls == [(declared[0]["function"]["name"], expected)]


def test_a_required_kind_of_thing_is_not_guessed() -> None:
    answer = read(prompt([TOOLS["report"]], [{"role": "user", "content": "report a breach of contract CN-4471"}]))
    assert answer is None or not answer.calls


def _after(name: str, arguments: dict[str, Any], result: str, text: str) -> list[dict[str, Any]]:
    """A conversation whose last message follows one call."""
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": TOOLS[name]["function"]["name"], "arguments": json.dumps(arguments)},
    }
    return [
        {"role": "user", "content": "show it"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": result},
        {"role": "assistant", "content": "Here it is."},
        {"role": "user", "content": text},
    ]


@pytest.mark.parametrize("text", ["now the same in notes", "and now the same for notes", "the same in notes"])
def test_the_same_can_be_asked_for_another_choice(text: str) -> None:
    messages = _after("search", {"query": "rent", "kind": "letters"}, '[{"id": 3, "title": "Rent in May"}]', text)
    answer = read(prompt([TOOLS["search"], TOOLS["note"]], messages))
    assert answer is not None
    assert answer.calls == [("search", {"query": "rent", "kind": "notes"})]


@pytest.mark.parametrize(
    "text", ["ok it left, mark it as shipped", "great, the van is gone. mark it as shipped please"]
)
def test_an_order_after_a_reaction_is_no_small_talk(text: str) -> None:
    messages = _after("order", {"order_id": "A-12"}, '{"order_id": "A-12", "status": "packed"}', text)
    answer = read(prompt([TOOLS["order"], TOOLS["ship"]], messages))
    assert answer is not None
    assert answer.calls == [("mark_order_shipped", {"order_id": "A-12"})]
