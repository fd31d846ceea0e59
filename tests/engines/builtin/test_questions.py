"""What decides between values, tools and small talk in first questions and after an answer: codes, lists, what was read
before it is changed, fields of a result, tags."""

import json
from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, WHOLE, described, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import Answer, read

LIST: dict[str, Any] = {"type": "array", "items": TEXT}
CLAUSE = {
    "type": "object",
    "properties": {"field": TEXT, "operation": {"enum": ["<", ">", "=", ">=", "<="]}, "value": TEXT},
    "required": ["field", "operation", "value"],
}
ADDRESS = {
    "type": "object",
    "properties": {"street": TEXT, "city": TEXT, "postal_code": TEXT},
    "required": ["street", "city", "postal_code"],
}


def about(text: str) -> dict[str, Any]:
    return TEXT | {"description": text}


TOOLS = {
    "stock": described(
        tool("get_stock_level", ["sku", "warehouse"], sku=TEXT, warehouse=about("warehouse code, e.g. AMS1")),
        "Units on hand for a SKU in a warehouse",
    ),
    "rates": described(
        tool(
            "get_shipping_rates",
            ["origin", "destination", "weight_kg"],
            origin=about("origin postal code"),
            destination=about("destination postal code"),
            weight_kg=NUMBER,
        ),
        "Quote shipping rates for a parcel",
    ),
    "address": tool("update_delivery_address", ["order_id", "address"], order_id=TEXT, address=ADDRESS),
    "back": described(
        tool("start_return", ["order_id", "skus"], order_id=TEXT, skus=LIST), "Start a return for items of an order"
    ),
    "order": tool("get_order", ["order_id"], order_id=about("The order number, e.g. A-10023")),
    "query": described(
        tool("database_query", ["table", "conditions"], table=TEXT, conditions={"type": "array", "items": CLAUSE}),
        "Query a table with conditions",
    ),
    "count": tool("count_rows", ["table"], table=TEXT),
    "drugs": described(
        tool("check_drug_interaction", ["drugs"], drugs=LIST | {"description": "names of the drugs"}),
        "Check whether drugs interact",
    ),
    "hours": described(
        tool("get_opening_hours", ["store"], store=about("city of the store"), day={"enum": ["friday", "saturday"]}),
        "Opening hours of one of our shops",
    ),
    "concerts": described(tool("find_concerts", ["artist"], artist=TEXT, city=TEXT), "Find concerts of an artist"),
    "products": tool("compare_products", ["skus"], skus=LIST),
    "customer": described(
        tool("get_customer_info", ["customer_id"], customer_id=TEXT), "Returns a customer's name, email and phone"
    ),
    "mail": tool("send_email", ["to", "body"], to=TEXT, body=TEXT),
    "heat": tool("get_room_temperature", ["room"], room=about("room name")),
    "thermostat": tool("set_thermostat", ["room", "temperature"], room=about("room name"), temperature=NUMBER),
    "points": tool("get_loyalty_points", ["card_number"], card_number=TEXT),
    "redeem": tool("redeem_points", ["card_number", "points"], card_number=TEXT, points=WHOLE),
    "truck": described(tool("get_truck_temperature", ["truck_id"], truck_id=TEXT), "Cargo temperature of a truck"),
    "arrival": described(tool("estimate_arrival", ["truck_id"], truck_id=TEXT), "Estimated time of arrival"),
    "incidents": tool("list_incidents", []),
    "statute": tool("get_statute", ["code", "section"], code=TEXT, section=TEXT),
    "publish": tool("publish_article", ["slug"], slug=TEXT, publish_at=about("ISO 8601")),
    "tag": tool("tag_article", ["slug", "tags"], slug=TEXT, tags=LIST),
    "vet": tool("book_vet", ["pet", "date"], pet=TEXT, date=TEXT, reason=TEXT),
    "enroll": tool(
        "enroll_student",
        ["student", "courses"],
        student={
            "type": "object",
            "properties": {"first_name": TEXT, "last_name": TEXT, "grade": WHOLE},
            "required": ["first_name", "last_name", "grade"],
        },
        courses=LIST,
    ),
    "grade": tool("grade_essay", ["essay_id", "score"], essay_id=WHOLE, score=WHOLE),
    "train": tool(
        "suggest_exercises", ["muscle_groups"], muscle_groups=LIST, equipment={"enum": ["none", "dumbbells", "barbell"]}
    ),
    "balance": tool("get_account_balance", ["account"], account={"enum": ["checking", "credit"]}),
    "payments": tool("list_transactions", ["account"], account={"enum": ["checking", "credit"]}, limit=WHOLE),
    "guests": tool("get_guest_list", ["event"], event=TEXT),
    "export": tool("export_table", ["table", "format"], table=TEXT, format={"enum": ["csv", "json"]}),
    "parking": tool("find_parking", ["location"], location=TEXT),
    "match": tool("start_match", ["mode"], mode={"enum": ["solo", "squad"]}),
    "book": tool("log_book", ["title"], title=TEXT),
    "ticket": described(tool("get_ticket", ["ticket_id"], ticket_id=about("e.g. OPS-12")), "Read a ticket"),
}


def answer(names: str, text: str, before: list[dict[str, Any]] | None = None) -> Answer:
    found = read(prompt([TOOLS[n] for n in names.split()], [*(before or []), {"role": "user", "content": text}]))
    assert found is not None
    return found


def called(name: str, arguments: dict[str, Any], result: dict[str, Any]) -> list[dict[str, Any]]:
    """A question, its call, the result and the answer."""
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return [
        {"role": "user", "content": "please"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": json.dumps(result)},
        {"role": "assistant", "content": "Here it is."},
    ]


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        ("stock", "how many of SKU BX-440 do we have in RTM2", [{"sku": "BX-440", "warehouse": "RTM2"}]),
        (
            "stock",
            "stock of FLT-22 in AMS1 and in BER1?",
            [{"sku": "FLT-22", "warehouse": "AMS1"}, {"sku": "FLT-22", "warehouse": "BER1"}],
        ),
        (
            "rates",
            "what would it cost to ship 12.5 kg from 1012AB to 75001?",
            [{"origin": "1012AB", "destination": "75001", "weight_kg": 12.5}],
        ),
        (
            "rates",
            "shipping rates from 10115 to 80331 for 3 kg",
            [{"origin": "10115", "destination": "80331", "weight_kg": 3}],
        ),
        (
            "address",
            "change the delivery address of ORD-5 to Prinsengracht 9, Amsterdam, 1015CX",
            [
                {
                    "order_id": "ORD-5",
                    "address": {"street": "Prinsengracht 9", "city": "Amsterdam", "postal_code": "1015CX"},
                }
            ],
        ),
        ("back order", "return SH-22 from order A-10500", [{"order_id": "A-10500", "skus": ["SH-22"]}]),
    ],
)
def test_codes_belong_to_the_parameters_whose_examples_and_words_fit(
    names: str, text: str, expected: list[dict[str, Any]]
) -> None:
    assert [given for _, given in answer(names, text).calls] == expected


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        ("drugs", "do ibuprofen and warfarin interact?", {"drugs": ["ibuprofen", "warfarin"]}),
        ("drugs", "does aspirin interact with zinc?", {"drugs": ["aspirin", "zinc"]}),
        (
            "back order",
            "I'd like to return SH-22 and SH-31 from order A-10500",
            {"order_id": "A-10500", "skus": ["SH-22", "SH-31"]},
        ),
        ("hours", "when does the Hamburg store open on Saturday?", {"store": "Hamburg", "day": "saturday"}),
        ("hours", "what time does the Munich shop close on friday", {"store": "Munich", "day": "friday"}),
    ],
)
def test_a_list_or_a_name_ends_before_what_is_asked_about_it(names: str, text: str, expected: dict[str, Any]) -> None:
    [(_, given)] = answer(names, text).calls
    assert given == expected


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        ("statute", "what does section 12 of the BGB say", {"code": "BGB", "section": "12"}),
        ("publish", "publish city-guide", {"slug": "city-guide"}),
        ("tag", "tag spring-recipes with food and easter", {"slug": "spring-recipes", "tags": ["food", "easter"]}),
        ("vet", "book the vet for Rex on Friday", {"pet": "Rex", "date": "Friday"}),
        (
            "enroll grade",
            "enroll Mia Wong, grade 5, in art and chess",
            {"student": {"first_name": "Mia", "last_name": "Wong", "grade": 5}, "courses": ["art", "chess"]},
        ),
        (
            "train",
            "what can I train for shoulders without equipment?",
            {"muscle_groups": ["shoulders"], "equipment": "none"},
        ),
        ("guests", "who's coming to the Summer Gala?", {"event": "Summer Gala"}),
        ("balance payments", "last 5 transactions on my credit account", {"account": "credit", "limit": 5}),
    ],
)
def test_a_word_near_a_value_names_its_parameter_unless_it_is_the_verb(
    names: str, text: str, expected: dict[str, Any]
) -> None:
    [(_, given)] = answer(names, text).calls
    assert given == expected


def test_a_choice_is_shared_by_calls_of_a_tool() -> None:
    found = answer("export", "export the orders and users tables as json")
    assert found.calls == [("export_table", {"table": t, "format": "json"}) for t in ("orders", "users")]


@pytest.mark.parametrize(
    "text",
    ["haha that match was wild", "parking in this city is a nightmare", "what's your favourite book?"],
)
def test_statements_and_questions_with_a_word_of_a_tool_are_small_talk(text: str) -> None:
    assert not answer("match parking book", text).calls


@pytest.mark.parametrize(
    ("text", "table", "expected"),
    [
        ("Query the students table for rows where age > 21", "students", [("age", ">", "21")]),
        ("query the orders table where total >= 100", "orders", [("total", ">=", "100")]),
        (
            "query the users table where city = Berlin and age < 30",
            "users",
            [("city", "=", "Berlin"), ("age", "<", "30")],
        ),
    ],
)
def test_comparisons_become_objects_of_a_list(text: str, table: str, expected: list[tuple[str, str, str]]) -> None:
    whole = [dict(zip(("field", "operation", "value"), one, strict=True)) for one in expected]
    assert answer("query count", text).calls == [("database_query", {"table": table, "conditions": whole})]


@pytest.mark.parametrize(
    "text",
    [
        "do you like music yourself? :)",
        "have you ever been to a concert?",
        "do you sing?",
        "what a nice day, isn't it?",
        "nice weather, isn't it?",
        "such a long week, right?",
        "thanks, you're a lifesaver",
        "thank you so much, that's a big help",
    ],
)
def test_questions_to_the_model_about_its_life_praise_and_tags_call_nothing(text: str) -> None:
    assert not answer("concerts products", text).calls


def test_what_somebody_needs_an_answer_for_is_no_second_request() -> None:
    found = answer("customer mail", "Can you look up customer C2? I need the email address")
    assert found.calls == [("get_customer_info", {"customer_id": "C2"})]


@pytest.mark.parametrize(
    "text", ["set it to 20", "too cold, set it to 20", "brr, make it 20", "that's too cold, make it 20"]
)
def test_an_order_after_a_reading_changes_what_was_read(text: str) -> None:
    before = called("get_room_temperature", {"room": "office"}, {"room": "office", "celsius": 17.8})
    assert answer("heat thermostat", text, before).calls == [("set_thermostat", {"room": "office", "temperature": 20})]


@pytest.mark.parametrize("text", ["and the phone number?", "phone too?", "what's the phone number?"])
def test_a_field_of_the_result_answers_a_question_that_only_names_it(text: str) -> None:
    before = called("get_customer_info", {"customer_id": "C1"}, {"name": "Ada Roe", "phone": "123-456-7890"})
    found = answer("customer mail", text, before)
    assert not found.calls
    assert "123-456-7890" in found.words


@pytest.mark.parametrize("text", ["Redeem 500 of them please", "redeem 500 of those"])
def test_a_number_beside_a_pronoun_is_taken_before_that_of_the_result(text: str) -> None:
    before = called("get_loyalty_points", {"card_number": "7781"}, {"card_number": "7781", "points": 1250})
    assert answer("points redeem", text, before).calls == [("redeem_points", {"card_number": "7781", "points": 500})]


def test_another_tool_answers_what_the_result_does_not_tell() -> None:
    before = called("get_truck_temperature", {"truck_id": "T-31"}, {"truck_id": "T-31", "celsius": 4.2})
    found = answer("truck arrival", "ok good, and when does it arrive?", before)
    assert found.calls == [("estimate_arrival", {"truck_id": "T-31"})]


def test_a_code_in_a_message_is_taken_before_what_a_pronoun_means() -> None:
    before = called("list_incidents", {}, {"incidents": [{"id": "INC-77", "title": "API slow", "ticket": "OPS-412"}]})
    found = answer("incidents ticket", "open ticket OPS-412 for me, i want to read it", before)
    assert found.calls == [("get_ticket", {"ticket_id": "OPS-412"})]
