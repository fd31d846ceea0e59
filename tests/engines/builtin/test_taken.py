"""What a request takes from an answered call, counts beside a question, and tools for what is sought."""

import json
from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, WHOLE, about, calls, described, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import Answer, read

TOOLS = {
    "hotels": tool("search_hotels", ["city"], city=TEXT),
    "reviews": described(tool("get_hotel_reviews", ["hotel_name"], hotel_name=TEXT), "Latest reviews of a hotel"),
    "reserve": tool("book_hotel", ["hotel_id", "nights"], hotel_id=TEXT, nights=WHOLE),
    "money": tool("convert_currency", ["amount", "from", "to"], amount=NUMBER, **{"from": TEXT, "to": TEXT}),
    "stock": tool("get_stock_price", ["symbol"], symbol=TEXT),
    "split": described(tool("split_bill", ["total", "people"], total=NUMBER, people=WHOLE), "Split a bill evenly"),
    "tip": described(tool("calculate_tip", ["bill", "percent"], bill=NUMBER, percent=NUMBER), "The tip for a bill"),
    "orders": tool("search_orders", ["customer"], customer=TEXT),
    "order": described(tool("get_order", ["order_id"], order_id=TEXT), "Details of an order"),
    "cancel": tool("cancel_order", ["order_id"], order_id=WHOLE),
    "refund": tool("refund_order", ["order_id"], order_id=TEXT),
    "contact": tool("get_contact", ["name"], name=TEXT),
    "text": described(tool("send_message", ["to", "text"], to=TEXT, text=TEXT), "Send a text message"),
    "issues": tool("list_issues", ["repo"], repo=TEXT, state={"type": "string", "enum": ["open", "closed"]}),
    "close": tool("close_issue", ["repo", "number"], repo=TEXT, number=WHOLE),
    "seat": tool("select_seat", ["reference", "seat"], reference=TEXT, seat=about("e.g. 14C")),
    "bags": described(tool("add_baggage", ["reference", "bags"], reference=TEXT, bags=WHOLE), "Add bags to a booking"),
    "booking": described(tool("get_booking", ["reference"], reference=TEXT), "Fetch a booking by its reference"),
    "pods": described(tool("get_pods", ["namespace"], namespace=about("namespace")), "List pods in a namespace"),
    "logs": tool("get_pod_logs", ["pod"], pod=TEXT, namespace=TEXT),
    "tables": tool("list_tables", []),
    "columns": described(tool("describe_table", ["table"], table=TEXT), "Columns of a table"),
    "sql": described(tool("run_query", ["sql"], sql=TEXT), "Run SQL"),
    "sights": described(tool("get_attractions", ["city"], city=TEXT, limit=WHOLE), "Top sights of a city"),
    "news": tool("get_headlines", ["topic"], topic=TEXT, count=WHOLE),
    "advice": described(tool("travel_advisory", ["country"], country=TEXT), "Safety advice for a country"),
    "papers": described(tool("get_articles", ["query"], query=TEXT, limit=WHOLE), "Get academic papers from arXiv"),
    "clips": described(tool("get_clips", ["query"], query=TEXT, limit=WHOLE), "Find videos on YouTube"),
    "web": described(tool("web_search", ["query"], query=TEXT, max_results=WHOLE), "Search the web"),
}
HOTELS = [{"hotel_id": "HT-1", "name": "Ribeira Inn", "price": 96}, {"hotel_id": "HT-2", "name": "Rio", "price": 142}]
ORDERS = [{"order_id": "A-1", "total": 20}, {"order_id": "A-2", "total": 75}]
PRICE = {"symbol": "AAPL", "price": 210.5, "currency": "USD"}
ANNA = {"name": "Anna", "phone": "555-0101"}


def asked(names: str, given: dict[str, Any], result: Any, text: str) -> Answer | None:
    """The answer to a message after a call of the first of these tools, and its result."""
    tools = [TOOLS[name] for name in names.split()]
    call = {"name": tools[0]["function"]["name"], "arguments": json.dumps(given)}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "please"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "c1", "content": json.dumps(result)},
        {"role": "assistant", "content": "Here you are."},
        {"role": "user", "content": text},
    ]
    return read(prompt(tools, messages))


@pytest.mark.parametrize(
    ("names", "given", "result", "text", "expected"),
    [
        ("hotels reviews reserve", {"city": "Porto"}, HOTELS, "how are the reviews of Rio?", {"hotel_name": "Rio"}),
        (
            "hotels reviews reserve",
            {"city": "Porto"},
            HOTELS,
            "reviews of the first one",
            {"hotel_name": "Ribeira Inn"},
        ),
        ("hotels reviews reserve", {}, HOTELS, "book Rio for 2 nights", {"hotel_id": "HT-2", "nights": 2}),
        ("orders order refund", {"customer": "Mo"}, ORDERS, "details on A-1 pls", {"order_id": "A-1"}),
        ("orders order refund", {"customer": "Mo"}, ORDERS, "show me details of the bigger one", {"order_id": "A-2"}),
        ("money split", {"amount": 9}, {"amount": 84.5}, "split that between 4", {"total": 84.5, "people": 4}),
        ("money split", {"amount": 9}, 84, "ok split it 5 ways", {"total": 84, "people": 5}),
        ("money split tip", {}, {"price": 60.5}, "what's a 15% tip on that?", {"bill": 60.5, "percent": 15}),
        (
            "stock money",
            {"symbol": "AAPL"},
            PRICE,
            "how much is that in euros",
            {"amount": 210.5, "from": "USD", "to": "EUR"},
        ),
        ("contact text", {"name": "Anna"}, ANNA, "text her I'm late", {"to": "Anna", "text": "I'm late"}),
        ("issues close", {"repo": "a/b", "state": "open"}, [], "closed ones?", {"repo": "a/b", "state": "closed"}),
    ],
)
def test_a_follow_up_takes_what_it_lacks_from_the_result(
    names: str, given: dict[str, Any], result: Any, text: str, expected: dict[str, Any]
) -> None:
    answer = asked(names, given, result, text)
    assert answer is not None
    assert [values for _, values in answer.calls] == [expected]


@pytest.mark.parametrize("result", ['{"total": 1e400}', '{"total": NaN}', '{"amount": -1e400}'])
def test_a_number_that_json_lacks_is_not_taken(result: str) -> None:
    answer = asked("money split", {"amount": 9}, json.loads(result), "split that between 4")
    assert answer is None or not answer.calls


def test_a_question_for_a_number_of_an_entry_is_answered_from_it() -> None:
    pods = [{"name": "indexer-0", "restarts": 17}, {"name": "query-0", "restarts": 3}]
    answer = asked("pods logs", {"namespace": "search"}, pods, "how many restarts does indexer-0 have?")
    assert answer is not None
    assert not answer.calls
    assert "17" in answer.words


def test_a_query_is_no_reference_to_what_it_reads() -> None:
    text = "run select count(*) from users"
    answer = asked("tables columns sql", {}, ["users", "orders"], text)
    assert answer is not None
    assert answer.calls == [("run_query", {"sql": text.removeprefix("run ")})]


def test_a_number_of_the_result_is_no_id() -> None:
    answer = asked("tip cancel", {"bill": 9}, {"minutes": 35}, "too long, cancel it")
    assert answer is None or ("cancel_order", {"order_id": 35}) not in answer.calls


@pytest.mark.parametrize("told", ["my booking is RZ81KD", "the booking is RZ81KD", "my booking reference is RZ81KD"])
def test_a_statement_of_a_code_asks_for_no_call(told: str) -> None:
    made = calls(f"put me on seat 14C and add 1 bag, {told}", *(TOOLS[name] for name in ("seat", "bags", "booking")))
    assert made == [
        ("select_seat", {"reference": "RZ81KD", "seat": "14C"}),
        ("add_baggage", {"reference": "RZ81KD", "bags": 1}),
    ]


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        ("sights", "what should I see in Turin? top 5", {"city": "Turin", "limit": 5}),
        ("sights advice", "things to see in Berlin. 5 is enough", {"city": "Berlin", "limit": 5}),
        ("news", "headlines on climate? top 3", {"topic": "climate", "count": 3}),
        ("advice sights", "is it safe to travel to Peru?", {"country": "Peru"}),
        ("advice sights", "any travel warnings for Egypt?", {"country": "Egypt"}),
        ("papers web", "find me 3 arxiv papers about sleep", {"query": "sleep", "limit": 3}),
        ("papers web", "search the web for sleep", {"query": "sleep"}),
        ("clips web", "search for 2 videos about knitting", {"query": "knitting", "limit": 2}),
    ],
)
def test_what_is_sought_and_its_number_are_read(names: str, text: str, expected: dict[str, Any]) -> None:
    assert [given for _, given in calls(text, *(TOOLS[name] for name in names.split()))] == [expected]


@pytest.mark.parametrize(
    "text",
    ["im so tired today", "ive been coding all night", "it was so hot so we stayed home", "im done with chapter 3"],
)
def test_a_remark_without_apostrophes_is_small_talk(text: str) -> None:
    answer = read(prompt([TOOLS["hotels"]], [{"role": "user", "content": text}]))
    assert answer is not None
    assert not answer.calls
    assert answer.words.startswith("All right.")
