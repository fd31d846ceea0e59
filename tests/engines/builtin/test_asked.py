"""What a message asks for: corrections in it, several calls of one tool, and tools that its values fit."""

import json
from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, WHOLE, about, calls, described, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import Answer, read
from unspool.engines.builtin.reader.corrections import corrected


def one_of(*choices: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(choices)}


TOOLS = {
    "timer": tool("set_timer", ["minutes"], minutes=NUMBER),
    "clock": tool("set_alarm", ["time"], time=TEXT, label=TEXT),
    "times": tool("multiply", ["a", "b"], a=NUMBER, b=NUMBER),
    "power": tool("exponentiate", ["base", "exponent"], base=NUMBER, exponent=NUMBER),
    "cart": tool("add_to_cart", ["product"], product=TEXT, quantity=WHOLE, color=TEXT),
    "list": tool("add_shopping_items", ["items"], items={"type": "array", "items": TEXT}),
    "deal": tool("update_deal", ["deal_id", "stage"], deal_id=TEXT, stage=one_of("open", "won", "lost")),
    "meal": tool("log_meal", ["food", "meal"], food=TEXT, meal=one_of("breakfast", "lunch", "dinner")),
    "build": tool("trigger_build", ["project"], project=TEXT, branch=TEXT),
    "text": tool("send_text", ["contact", "message"], contact=TEXT, message=TEXT),
    "parcel": tool("get_delivery_date", ["order_id"], order_id=TEXT),
    "weather": tool("get_weather", ["location"], location=TEXT),
    "key": tool("redis_delete", ["key"], key=TEXT),
    "vacuum": tool("start_vacuum", ["rooms"], rooms={"type": "array", "items": TEXT}, mode=one_of("quiet", "turbo")),
    "light": tool("set_light", ["room", "state"], room=TEXT, state=one_of("on", "off")),
    "item": tool("add_to_shopping_list", ["item"], item=TEXT, quantity=WHOLE),
    "service": tool("scale_service", ["service", "replicas"], service=TEXT, replicas=WHOLE),
    "balance": tool("get_balance", ["account"], account=one_of("checking", "savings")),
    "device": tool("turn_off", ["entity_id"], entity_id=TEXT),
    "pods": tool("get_pods", ["namespace"], namespace=TEXT),
    "price": tool("get_price", ["product"], product=TEXT),
    "stock": tool("get_stock_price", ["ticker"], ticker=TEXT),
    "person": tool("get_user", ["user_id"], user_id=WHOLE),
    "reminder": tool("set_reminder", ["text"], text=TEXT),
    "reminders": tool("list_reminders", []),
    "no reminder": tool("delete_reminder", ["reminder_id"], reminder_id=WHOLE),
    "files": tool("search_files", ["pattern"], pattern=TEXT),
    "vat": tool("calculate_vat", ["net_amount", "vat_rate"], net_amount=NUMBER, vat_rate=NUMBER),
    "sale": tool("apply_discount", ["price", "discount"], price=NUMBER, discount=NUMBER),
    "grep": tool("grep", ["pattern", "path"], pattern=TEXT, path=TEXT),
    "messages": tool("search_messages", ["query"], query=TEXT),
    "papers": tool("search_papers", ["query"], query=TEXT, year_from=WHOLE, year_to=WHOLE),
    "paper": tool("get_paper", ["arxiv_id"], arxiv_id=TEXT),
    "citations": described(tool("get_citations", ["arxiv_id"], arxiv_id=TEXT), "List the papers that cite a paper"),
    "mkdir": tool("mkdir", ["dir_name"], dir_name=TEXT),
    "ls": tool("ls", [], path=TEXT),
    "shop": tool("search_products", ["query"], query=TEXT, max_price=NUMBER, min_price=NUMBER),
    "hotels": tool("search_hotels", ["city"], city=TEXT, max_price=NUMBER),
}


def asked(text: str, *names: str) -> Answer | None:
    return read(prompt([TOOLS[n] for n in names], [{"role": "user", "content": text}]))


def given(text: str, *names: str) -> list[dict[str, Any]]:
    """The arguments of the calls that a message asks for."""
    answer = asked(text, *names)
    return [] if answer is None else [values for _, values in answer.calls]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Transfer 300 to Ann. no wait, make it 350", "Transfer 350 to Ann"),
        ("a table for 4 people at 8pm, sorry, 5 people", "a table for 5 people at 8pm"),
        ("Retro on Friday, actually no, Monday, 11:00, with Zoe and Jon", "Retro on Monday, 11:00, with Zoe and Jon"),
        ("remind me to call Ben, I mean Tom", "remind me to call Tom"),
        ("a latte with oat milk, sorry, soy milk", "a latte with soy milk"),
        ("weather in Oslo, no wait, Bergen instead please", "weather in Bergen"),
        ("Order a small tea, make that large", "Order a large tea"),
    ],
)
def test_a_correction_replaces_a_value_of_its_kind(text: str, expected: str) -> None:
    read_in = prompt([tool("order_tea", ["size"], size=one_of("small", "large"))], [{"role": "user", "content": text}])
    assert corrected(read_in.tools, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Email Tom that I'm late, sorry",
        "What is 3 - 2?",
        "Is it open? no idea",
        "add milk, eggs and bread",
        'Text Mia "at 5, no, at 6"',
    ],
)
def test_text_without_a_correction_is_unchanged(text: str) -> None:
    assert corrected((), text) == text


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        (("times",), "Multiply 6.5 by 4 and 12 by 9", [{"a": 6.5, "b": 4}, {"a": 12, "b": 9}]),
        (("power", "times"), "compute 2^10 and 5^3", [{"base": 2, "exponent": 10}, {"base": 5, "exponent": 3}]),
        (("clock",), "Set alarms for 7:00 and 7:15", [{"time": "7:00"}, {"time": "7:15"}]),
        (("build",), "Trigger a build of web and one of admin", [{"project": "web"}, {"project": "admin"}]),
        (("timer",), "timer for one and a half minutes", [{"minutes": 1.5}]),
        (("list",), "We're out of dish soap, put it on my shopping list.", [{"items": ["dish soap"]}]),
        (("cart", "timer"), "I'll take a raincoat, put it in my basket", [{"product": "raincoat"}]),
        (("deal",), "They walked away, so D-2087 has to go down as lost", [{"deal_id": "D-2087", "stage": "lost"}]),
        (("meal", "timer"), "I had oatmeal for breakfast", [{"food": "oatmeal", "meal": "breakfast"}]),
        (
            ("weather",),
            "Weather in Portland, Oregon and Austin, Texas?",
            [{"location": "Portland, Oregon"}, {"location": "Austin, Texas"}],
        ),
        (("key",), "delete cart:88 and cart:91", [{"key": "cart:88"}, {"key": "cart:91"}]),
        (
            ("vacuum",),
            "vacuum the kitchen and the hallway on turbo",
            [{"rooms": ["kitchen", "hallway"], "mode": "turbo"}],
        ),
        (
            ("light",),
            "light on in the bathroom, off in the bedroom",
            [{"room": "bathroom", "state": "on"}, {"room": "bedroom", "state": "off"}],
        ),
        (
            ("item",),
            "add 3 onions and 1 cucumber to my shopping list",
            [{"item": "onions", "quantity": 3}, {"item": "cucumber", "quantity": 1}],
        ),
        (
            ("service",),
            "scale api to 5 and worker to 2 replicas",
            [{"service": "api", "replicas": 5}, {"service": "worker", "replicas": 2}],
        ),
        (
            ("device",),
            "turn off light.desk and light.hall",
            [{"entity_id": "light.desk"}, {"entity_id": "light.hall"}],
        ),
        (
            ("pods",),
            "list the pods in staging and in production",
            [{"namespace": "staging"}, {"namespace": "production"}],
        ),
        (("price",), "price of the Chemex and the Aeropress?", [{"product": "Chemex"}, {"product": "Aeropress"}]),
        (("balance",), "whats on my checking and savings accounts", [{"account": "checking"}, {"account": "savings"}]),
        (("parcel", "list"), "when will order_12345 arrive", [{"order_id": "order_12345"}]),
        (("parcel",), "Where is my package? The order number is 7731-C", [{"order_id": "7731-C"}]),
    ],
)
def test_a_requested_action_becomes_a_call(names: tuple[str, ...], text: str, expected: list[dict[str, Any]]) -> None:
    answer = asked(text, *names)
    assert answer is not None
    assert [given for _, given in answer.calls] == expected


@pytest.mark.parametrize("text", ["what does ethereum cost", "what is the price of bitcoin"])
def test_a_question_about_something_else_is_refused(text: str) -> None:
    answer = asked(text, "vacuum", "deal")
    assert answer is not None
    assert not answer.calls


@pytest.mark.parametrize("task", ["order new brooms", "list the old toys", "delete the backup"])
def test_what_a_reminder_says_asks_for_no_other_tool(task: str) -> None:
    answer = asked(f"remind me to {task}", "reminders", "no reminder", "reminder")
    assert answer is not None
    assert answer.calls == [("set_reminder", {"text": task})]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("How long should I boil an egg for a soft yolk?", ("list", "cart")),
        ("how much memory is the server using?", ("files",)),
        ("Tell me about the French revolution", ("text", "parcel")),
        ("Do you like music?", ("text", "timer")),
        ("buy 10 shares of AAPL", ("stock",)),
        ("delete user 17", ("person",)),
        ("create a ticket for the login bug", ("files",)),
        ("deploy the new version to staging", ("key",)),
    ],
)
def test_a_request_that_no_tool_serves_makes_no_call(text: str, names: tuple[str, ...]) -> None:
    answer = asked(text, *names)
    assert answer is None or not answer.calls


@pytest.mark.parametrize("text", ["tell Mia the same", "send the same to Mia", "and Mia too"])
def test_the_same_message_can_be_sent_to_another_person(text: str) -> None:
    given = json.dumps({"contact": "Tom", "message": "I'm late"})
    call = {"type": "function", "id": "1", "function": {"name": "send_text", "arguments": given}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "text Tom that I'm late"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "sent"},
        {"role": "assistant", "content": "Sent."},
        {"role": "user", "content": text},
    ]
    answer = read(prompt([TOOLS["text"]], messages))
    assert answer is not None
    assert answer.calls == [("send_text", {"contact": "Mia", "message": "I'm late"})]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("vat", "whats the VAT on 840 at 19%", {"net_amount": 840, "vat_rate": 19}),
        ("vat", "VAT for 1200 at 7 percent", {"net_amount": 1200, "vat_rate": 7}),
        ("vat", "vat at 20% on 350", {"net_amount": 350, "vat_rate": 20}),
        ("sale", "apply a discount at 25% to 120", {"price": 120, "discount": 25}),
    ],
)
def test_a_percentage_after_at_is_no_sum(name: str, text: str, expected: dict[str, Any]) -> None:
    assert given(text, name) == [expected]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("grep", "Could you search train.log for the word Error?", {"pattern": "Error", "path": "train.log"}),
        ("grep", "look for the text TODO in main.py", {"pattern": "TODO", "path": "main.py"}),
        ("grep", "grep the word panic in kernel.log", {"pattern": "panic", "path": "kernel.log"}),
        ("messages", "search my messages for the word invoice", {"query": "invoice"}),
        ("messages", "search messages for the keyword rent", {"query": "rent"}),
        ("messages", "search messages for the word of the day", {"query": "the word of the day"}),
    ],
)
def test_a_sought_text_is_without_what_it_is_called(name: str, text: str, expected: dict[str, Any]) -> None:
    assert given(text, name) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Find papers about prompting since 2022", {"query": "prompting", "year_from": 2022}),
        ("search papers on diffusion models after 2020", {"query": "diffusion models", "year_from": 2020}),
        ("find papers about RLHF published since 2023", {"query": "RLHF", "year_from": 2023}),
        (
            "search papers about robotics between 2015 and 2019",
            {"query": "robotics", "year_from": 2015, "year_to": 2019},
        ),
    ],
)
def test_a_query_ends_before_the_words_that_lead_to_a_year(text: str, expected: dict[str, Any]) -> None:
    assert given(text, "papers") == [expected]


@pytest.mark.parametrize("text", ["which papers cite 1810.04805?", "who cites 1810.04805", "papers citing 1810.04805"])
def test_a_verb_and_its_noun_with_a_short_root_are_one_word(text: str) -> None:
    answer = asked(text, "paper", "citations")
    assert answer is not None
    assert answer.calls == [("get_citations", {"arxiv_id": "1810.04805"})]


@pytest.mark.parametrize(
    "text", ["Make a directory named logs", "create a folder called logs", "make a new folder logs", "mkdir logs"]
)
def test_a_joined_name_of_a_command_is_read_as_its_words(text: str) -> None:
    answer = asked(text, "ls", "mkdir")
    assert answer is not None
    assert answer.calls == [("mkdir", {"dir_name": "logs"})]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("shop", "which laptops cost less than 900", {"query": "laptops", "max_price": 900}),
        ("shop", "which monitors cost more than 300?", {"query": "monitors", "min_price": 300}),
        ("shop", "what headphones do you have below 100", {"query": "headphones", "max_price": 100}),
        ("shop", "any keyboards that cost less than 80?", {"query": "keyboards", "max_price": 80}),
        ("hotels", "which hotels in Rome cost less than 150", {"city": "Rome", "max_price": 150}),
    ],
)
def test_a_question_for_things_within_a_price_is_a_search(name: str, text: str, expected: dict[str, Any]) -> None:
    assert given(text, name) == [expected]


LEVELS = {"type": "integer", "enum": [0, 1]}
STATE = about("two-letter abbreviation of the state")
SENSORS = (
    tool("read_sensor", ["sensor", "room"], sensor=one_of("temperature", "humidity"), room=TEXT),
    tool("set_temperature", ["room", "temperature"], room=TEXT, temperature=about("degrees Celsius", NUMBER)),
    tool("get_current_temperature", ["location"], location=TEXT),
)
PINS = (
    tool("gpio_write", ["pin", "value"], pin=WHOLE, value=about("0 for low, 1 for high", LEVELS)),
    tool("gpio_read", ["pin"], pin=WHOLE),
)
VALVES = (tool("set_valve", ["valve", "state"], valve=TEXT, state=about("0 = closed, 1 = open", LEVELS)),)
PEOPLE = (
    tool("get_contact", ["email"], email=TEXT),
    tool("search_company", ["name"], name=about("company name")),
    tool("search_docs", ["query"], query=TEXT),
)
RIDES = (tool("order_ride", ["loc", "wait"], loc=about("location of the start"), wait=about("in minutes", WHOLE)),)
WEATHER = (tool("get_weather", ["city", "state"], city=TEXT, state=STATE),)


@pytest.mark.parametrize(
    ("tools", "text", "expected"),
    [
        (PINS, "set gpio 17 to high", [("gpio_write", {"pin": 17, "value": 1})]),
        (PINS, "drive pin 4 low", [("gpio_write", {"pin": 4, "value": 0})]),
        (PINS, "read pin 4", [("gpio_read", {"pin": 4})]),
        (VALVES, "open valve V-12", [("set_valve", {"valve": "V-12", "state": 1})]),
        (VALVES, "set valve V-7 to closed", [("set_valve", {"valve": "V-7", "state": 0})]),
    ],
)
def test_a_word_means_the_number_that_a_description_gives_it(
    tools: tuple[dict[str, Any], ...], text: str, expected: list[Any]
) -> None:
    assert calls(text, *tools) == expected


@pytest.mark.parametrize(
    ("tools", "text", "expected"),
    [
        (SENSORS, "put the bathroom to 23.5 degrees", [("set_temperature", {"room": "bathroom", "temperature": 23.5})]),
        (SENSORS, "the hall should be 18 degrees", [("set_temperature", {"room": "hall", "temperature": 18})]),
        (SENSORS[:2], "temperature in the attic", [("read_sensor", {"sensor": "temperature", "room": "attic"})]),
        (
            SENSORS[:2],
            "tell me the temperature in the den",
            [("read_sensor", {"sensor": "temperature", "room": "den"})],
        ),
        (PEOPLE, "search for tim@y.de", [("get_contact", {"email": "tim@y.de"})]),
        (PEOPLE, "who is bob@x.io?", [("get_contact", {"email": "bob@x.io"})]),
        (PEOPLE[1:], "search the docs for bob@x.io", [("search_docs", {"query": "bob@x.io"})]),
    ],
)
def test_the_tool_that_takes_the_values_of_a_message_is_called(
    tools: tuple[dict[str, Any], ...], text: str, expected: list[Any]
) -> None:
    assert calls(text, *tools) == expected


@pytest.mark.parametrize(
    ("tools", "text", "expected"),
    [
        (
            SENSORS[:1],
            "give me the humidity in the attic and in the garage",
            [{"sensor": "humidity", "room": "attic"}, {"sensor": "humidity", "room": "garage"}],
        ),
        (
            PEOPLE[1:2],
            "find the companies Helvex, Normund and Brix",
            [{"name": n} for n in ("Helvex", "Normund", "Brix")],
        ),
        (PEOPLE[1:2], "look up the company Helvex", [{"name": "Helvex"}]),
    ],
)
def test_things_after_what_they_share_become_calls(
    tools: tuple[dict[str, Any], ...], text: str, expected: list[Any]
) -> None:
    assert [given for _, given in calls(text, *tools)] == expected


@pytest.mark.parametrize(
    ("tools", "text", "expected"),
    [
        (WEATHER, "weather in dallas, texas", {"city": "dallas", "state": "TX"}),
        (WEATHER, "What's the weather in Boston, Massachusetts, in the evening?", {"city": "Boston", "state": "MA"}),
        (WEATHER, "weather in Dallas, TX", {"city": "Dallas", "state": "TX"}),
        (RIDES, "a ride from 12 Elm Street, Oakland, 5 minutes", {"loc": "12 Elm Street, Oakland", "wait": 5}),
        (
            RIDES,
            "order a ride at 221B Baker Street, London, I can wait 8 minutes",
            {"loc": "221B Baker Street, London", "wait": 8},
        ),
    ],
)
def test_a_place_has_its_street_and_its_state(
    tools: tuple[dict[str, Any], ...], text: str, expected: dict[str, Any]
) -> None:
    assert [given for _, given in calls(text, *tools)] == [expected]


@pytest.mark.parametrize("text", ["order me a pepperoni pizza", "order a taxi", "please order some flowers"])
def test_what_is_ordered_anew_has_no_status(text: str) -> None:
    status = tool("get_order_status", ["order_id"], order_id=TEXT)
    answer = read(prompt([status], [{"role": "user", "content": text}]))
    assert answer is not None
    assert not answer.calls


COUNTRY = tool("country_facts", ["country"], country=TEXT)
PERSON = tool("get_profile", ["name"], name=TEXT)
ROLL = tool("mark_roll", ["pupil", "present"], pupil=TEXT, present={"type": "boolean"})
PRESENCE = tool("set_my_presence", ["state"], state={"enum": ["online", "away", "offline"]})


@pytest.mark.parametrize(
    ("tools", "text", "expected"),
    [
        ((COUNTRY, ROLL), "tell me about peru", [{"country": "peru"}]),
        ((COUNTRY, ROLL), "what can you tell me about New Zealand?", [{"country": "New Zealand"}]),
        ((COUNTRY, ROLL), "compare Chile and Peru", [{"country": "Chile"}, {"country": "Peru"}]),
        ((PERSON, ROLL), "Tell me about Ada Lovelace", [{"name": "Ada Lovelace"}]),
        ((COUNTRY, ROLL), "tell me about the meaning of life", []),
        ((ROLL,), "tell me about peru", []),
    ],
)
def test_what_is_told_about_or_compared_is_asked_of_the_tool_that_informs(
    tools: tuple[dict[str, Any], ...], text: str, expected: list[dict[str, Any]]
) -> None:
    answer = read(prompt(list(tools), [{"role": "user", "content": text}]))
    assert [given for _, given in (answer.calls if answer else [])] == expected


@pytest.mark.parametrize(("state", "expected"), [("absent", False), ("present", True)])
def test_a_switch_is_off_if_its_opposite_is_said(state: str, expected: bool) -> None:
    assert [given for _, given in calls(f"mark Nora Lind as {state}", ROLL)] == [
        {"pupil": "Nora Lind", "present": expected}
    ]


@pytest.mark.parametrize("text", ["is Paula online?", "is the whole team offline", "was Tom away yesterday?"])
def test_a_question_for_a_state_sets_none(text: str) -> None:
    answer = read(prompt([PRESENCE], [{"role": "user", "content": text}]))
    assert answer is None or not answer.calls


@pytest.mark.parametrize("polite", ["pls", "plz", "thx", "plz thx"])
def test_a_short_polite_end_is_no_part_of_a_value(polite: str) -> None:
    block = tool("block_card", ["card"], card=TEXT)
    assert [given for _, given in calls(f"block card KX77 {polite}", block)] == [{"card": "KX77"}]


@pytest.mark.parametrize("text", ["turn on the lights in the attic", "dim the lamps", "play some jazz in the bath"])
def test_a_tool_that_searches_only_its_own_things_is_not_asked_for_others(text: str) -> None:
    find = tool("lookup_member", ["email"], email=TEXT)
    answer = read(prompt([find, PERSON], [{"role": "user", "content": text}]))
    assert answer is not None
    assert not answer.calls
    assert answer.words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Weather in Paris, Berlin", ["Paris", "Berlin"]),
        ("forecast for New York, Los Angeles please", ["New York", "Los Angeles"]),
        ("Weather in Paris, France", ["Paris, France"]),
        ("Weather in Quito, Ecuador?", ["Quito, Ecuador"]),
        ("Weather in Albany, New York", ["Albany, New York"]),
        ("Weather in Baker Street, London", ["Baker Street, London"]),
    ],
)
def test_a_city_after_a_comma_is_another_place_and_a_region_is_none(text: str, expected: list[str]) -> None:
    assert [given["location"] for _, given in calls(text, TOOLS["weather"])] == expected


@pytest.mark.parametrize("place", ["San Jose, CA", "New York, NY", "Austin, Texas", "Lyon, France"])
def test_a_place_with_its_region_is_one_place_beside_a_unit(place: str) -> None:
    weather = tool("get_weather", ["location", "unit"], location=TEXT, unit=one_of("celsius", "fahrenheit"))

    assert calls(f"weather in {place} in fahrenheit", weather) == [
        ("get_weather", {"location": place, "unit": "fahrenheit"})
    ]


@pytest.mark.parametrize("purpose", ["Convert an amount of money to another currency.", "Convert currencies"])
@pytest.mark.parametrize("text", ["convert 100 usd to eur", "how much is 100 dollars in euros?"])
def test_a_tool_that_converts_currencies_takes_them_from_and_to(text: str, purpose: str) -> None:
    names = {"amount": NUMBER, "from": TEXT, "to": TEXT}
    convert = described(tool("convert", [*names], **names), purpose)

    assert calls(text, convert) == [("convert", {"amount": 100, "from": "USD", "to": "EUR"})]
