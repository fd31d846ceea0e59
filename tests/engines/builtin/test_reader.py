"""The words of a request say which tools it asks for, and with which arguments; unclear requests are left alone."""

import json
import time
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.builtin import examples
from unspool.engines.builtin.model import FOLDER, Model
from unspool.engines.builtin.reader import Answer, Prompt, Reading, arguments, read
from unspool.engines.builtin.reader.prompt import Turn
from unspool.engines.builtin.reader.reader import MOST_CHARACTERS, MOST_PARAMETERS, MOST_TOOLS

BOUND = 0.2  # seconds of the processor for a message, whatever it says; a slow machine needs 0.1

TOOLS: dict[str, tuple[str, str]] = {
    "get_weather": ("Get the weather", "location: string, City and state; units?: celsius|fahrenheit"),
    "get_time": ("Get the current time in a time zone", "timezone: string, IANA time zone, e.g. Europe/Oslo"),
    "calculator": ("Evaluate an expression", "expression: string"),
    "multiply": ("Multiply two numbers", "a: number; b: number"),
    "add": ("Add two integers", "a: integer; b: integer"),
    "web_search": ("Search the web", "query: string"),
    "send_email": ("Send an email", "to: string, Address of the recipient; subject: string; body: string"),
    "send_slack": ("Post a message to a Slack channel", "channel: string; text: string"),
    "get_stock": ("Price of a stock", "ticker: string, Ticker symbol"),
    "get_flight_status": ("Get the status of a flight", "flight_number: string"),
    "track_package": ("Track a package", "tracking_number: string"),
    "search_flights": ("Search flights", "origin: string; destination: string; date: string"),
    "book_hotel": ("Book a hotel room", "city: string; check_in: string; nights: integer; guests?: integer"),
    "translate": ("Translate text", "text: string; target_language: string"),
    "define_word": ("Get the definition of a word", "word: string"),
    "convert_currency": ("Convert money", "amount: number; from_currency: string; to_currency: string"),
    "create_user": ("Create a user", "name: string; email: string; age?: integer"),
    "create_event": ("Create a calendar event", "title: string; date: string; start_time?: string"),
    "create_issue": ("Create an issue in a repository", "repo: string; title: string; body?: string"),
    "control_lights": ("Control lights in a room", "room: string; state: on|off; brightness?: integer"),
    "play_song": ("Play a song", "title: string; artist?: string"),
    "play_music": ("Play music", "query: string"),
    "roll_dice": ("Roll dice", "sides: integer; count?: integer"),
    "set_timer": ("Set a timer", "minutes: integer"),
    "set_reminder": ("Set a reminder", "text: string; when: string"),
    "query_db": ("Run an SQL query on the database", "sql: string"),
    "list_files": ("List files", "directory?: string; recursive?: boolean"),
    "read_file": ("Read a file", "path: string"),
    "get_directions": ("Directions", "origin: string; destination: string; mode?: driving|walking|transit"),
}


def declared(name: str) -> dict[str, Any]:
    description, text = TOOLS[name]
    properties: dict[str, Any] = {}
    required: list[str] = []
    for one in text.split("; "):
        key, _, rest = one.partition(": ")
        type_, _, about = rest.partition(", ")
        schema: dict[str, Any] = {"enum": type_.split("|")} if "|" in type_ else {"type": type_}
        properties[key.rstrip("?")] = schema | ({"description": about} if about else {})
        required += [] if key.endswith("?") else [key]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


@cache
def tokenizer() -> Any:
    return Model().tokenizer


@cache
def reading() -> Reading:
    return Reading(tokenizer(), FOLDER)


def prompt(tools: list[dict[str, Any]], messages: list[dict[str, Any]], *, thinking: bool = False) -> Prompt:
    """A prompt as the server writes it and the engine reads it."""
    text = examples.template().render(
        messages=messages, tools=tools or None, bos_token=examples.BOS, add_generation_prompt=True, thinking=thinking
    )
    return reading().read(tokenizer().encode(text).ids)


def asked(text: str, *names: str) -> Answer | None:
    return read(prompt([declared(name) for name in names], [{"role": "user", "content": text}]))


def calls(text: str, *names: str) -> list[tuple[str, dict[str, Any]]]:
    answer = asked(text, *names)
    return answer.calls if answer else []


FEW: dict[str, Any] = {
    "set_alarm": {"time": {"type": "string", "description": "24-hour time HH:MM"}, "label": {"type": "string"}},
    "web_search": {"query": {"type": "string"}, "max_results": {"type": "integer"}},
    "query_users": {"min_age": {"type": "integer"}, "country": {"type": "string"}, "limit": {"type": "integer"}},
    "run_command": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
    "lock_door": {"door": {"type": "string"}, "locked": {"type": "boolean"}},
    "list_files": {"directory": {"type": "string"}},
    "set_light": {"room": {"enum": ["kitchen", "bedroom"]}, "on": {"type": "boolean"}, "level": {"type": "integer"}},
    "create_user": {
        "user": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "email": {"type": "string"}},
            "required": ["name"],
        }
    },
}
"""Tools with optional parameters, without descriptions."""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("set_alarm", "Wake me at 06:45 tomorrow, call it swim", {"time": "06:45", "label": "swim"}),
        ("web_search", "Search for tide tables, at most 4", {"query": "tide tables", "max_results": 4}),
        ("query_users", "Show 7 users older than 40", {"min_age": 40, "limit": 7}),
        ("run_command", "run du -sh with a timeout of 30 seconds", {"command": "du -sh", "timeout": 30}),
        ("lock_door", "unlock the cellar door please", {"door": "cellar", "locked": False}),
        ("list_files", "What files are in the docs folder?", {"directory": "docs"}),
        ("set_light", "Bedroom light on at 30% please", {"room": "bedroom", "on": True, "level": 30}),
        (
            "create_user",
            "Create a user called Ida Berg, 51 years old, ida@berg.example",
            {"user": {"name": "Ida Berg", "age": 51, "email": "ida@berg.example"}},
        ),
    ],
)
def test_bounds_labels_forms_and_parameters_of_objects_are_read(name: str, text: str, expected: Any) -> None:
    tool = {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": FEW[name]}}}
    answer = read(prompt([tool], [{"role": "user", "content": text}]))
    assert answer is not None
    assert answer.calls == [(name, expected)]


ONE: list[tuple[str, str, list[dict[str, Any]]]] = [
    ("get_weather", "What's the weather in Paris in fahrenheit?", [{"location": "Paris", "units": "fahrenheit"}]),
    ("get_weather", "do i need an umbrella in glasgow tomorrow", [{"location": "glasgow"}]),
    ("get_weather", "whats it like in Dubai", [{"location": "Dubai"}]),
    ("get_weather", "Bogotá, Colombia?", [{"location": "Bogotá, Colombia"}]),
    ("get_weather", "weather san francisco, ca in f", [{"location": "san francisco, ca", "units": "fahrenheit"}]),
    ("get_weather", "weather in oslo, rome and lima", [{"location": c} for c in ("oslo", "rome", "lima")]),
    ("get_weather", "paris and berlin", [{"location": "paris"}, {"location": "berlin"}]),
    ("get_weather", "Is it warmer in Rome or New York?", [{"location": "Rome"}, {"location": "New York"}]),
    (
        "get_time",
        "what time is it in London, New York and Tokyo right now?",
        [{"timezone": "Europe/London"}, {"timezone": "America/New_York"}, {"timezone": "Asia/Tokyo"}],
    ),
    ("get_time", "Current time in America/New_York", [{"timezone": "America/New_York"}]),
    ("calculator", "how much is 3 plus 4 times 2", [{"expression": "3 + 4 * 2"}]),
    ("calculator", "what is 15% of 80", [{"expression": "15 / 100 * 80"}]),
    ("get_flight_status", "status of flights LH400 and BA12", [{"flight_number": n} for n in ("LH400", "BA12")]),
    ("track_package", "track packages 1Z999 and 1Z888", [{"tracking_number": n} for n in ("1Z999", "1Z888")]),
    ("get_stock", "TSLA and NVDA please", [{"ticker": "TSLA"}, {"ticker": "NVDA"}]),
    (
        "translate",
        "translate hello into French, German and Spanish",
        [{"text": "hello", "target_language": language} for language in ("French", "German", "Spanish")],
    ),
    ("define_word", "define love and hate", [{"word": "love"}, {"word": "hate"}]),
    (
        "send_email",
        "send an email to ilan@example.com and katia@example.com saying hi",
        [{"to": to, "subject": "hi", "body": "hi"} for to in ("ilan@example.com", "katia@example.com")],
    ),
    (
        "send_email",
        "can you email sue@x.io about lunch and tell her I'll be late?",
        [{"to": "sue@x.io", "subject": "lunch", "body": "I'll be late"}],
    ),
    ("send_slack", "post 'deploy done' in #general", [{"channel": "#general", "text": "deploy done"}]),
    (
        "create_user",
        "create a user named Tom Hanks with email tom@x.com, age 40",
        [{"name": "Tom Hanks", "email": "tom@x.com", "age": 40}],
    ),
    ("create_user", "add user Mia Wong, mia@w.com", [{"name": "Mia Wong", "email": "mia@w.com"}]),
    (
        "create_event",
        "put dentist on my calendar for Friday at 10:30",
        [{"title": "dentist", "date": "Friday", "start_time": "10:30"}],
    ),
    (
        "create_issue",
        "create an issue in repo unspool titled Crash on start with body It crashes",
        [{"repo": "unspool", "title": "Crash on start", "body": "It crashes"}],
    ),
    (
        "control_lights",
        "turn off the lights in the kitchen, the hall and the bathroom",
        [{"room": room, "state": "off"} for room in ("kitchen", "hall", "bathroom")],
    ),
    ("convert_currency", "250 eur to gbp", [{"amount": 250, "from_currency": "EUR", "to_currency": "GBP"}]),
    (
        "convert_currency",
        "convert 10 euros and 20 euros to dollars",
        [{"amount": n, "from_currency": "EUR", "to_currency": "USD"} for n in (10, 20)],
    ),
    ("roll_dice", "roll a d20", [{"sides": 20}]),
    ("set_timer", "set timers for 5 and 10 minutes", [{"minutes": 5}, {"minutes": 10}]),
    ("set_timer", "start a timer for 1 hour and 30 minutes", [{"minutes": 90}]),
    ("set_reminder", "remind me tomorrow at 9 to call the bank", [{"text": "call the bank", "when": "tomorrow at 9"}]),
    ("query_db", "query the database: select a from b where id = 3", [{"sql": "select a from b where id = 3"}]),
    ("play_music", "play something by Queen", [{"query": "Queen"}]),
    ("list_files", "list the files in src", [{"directory": "src"}]),
    ("list_files", "list all files recursively", [{"recursive": True}]),
    (
        "get_directions",
        "how do I get to Boston from New York by car?",
        [{"origin": "New York", "destination": "Boston", "mode": "driving"}],
    ),
]


@pytest.mark.parametrize(("name", "text", "expected"), ONE, ids=[text for _, text, _ in ONE])
def test_a_request_becomes_a_call_with_its_values(name: str, text: str, expected: list[dict[str, Any]]) -> None:
    assert calls(text, name) == [(name, given) for given in expected]


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        (
            ("get_weather", "get_time"),
            "What's the weather and local time in Tokyo?",
            [("get_weather", {"location": "Tokyo"}), ("get_time", {"timezone": "Asia/Tokyo"})],
        ),
        (
            ("multiply", "add"),
            "what is 3 times 12? also, what is 11 plus 49?",
            [("multiply", {"a": 3, "b": 12}), ("add", {"a": 11, "b": 49})],
        ),
        (
            ("control_lights", "play_song"),
            "dim the living room lights to 30 and play Imagine by John Lennon",
            [
                ("control_lights", {"room": "living room", "state": "on", "brightness": 30}),
                ("play_song", {"title": "Imagine", "artist": "John Lennon"}),
            ],
        ),
        (
            ("search_flights", "book_hotel"),
            "find a flight from Paris to Madrid on Friday and book a hotel there for 2 nights",
            [
                ("search_flights", {"origin": "Paris", "destination": "Madrid", "date": "Friday"}),
                ("book_hotel", {"city": "Madrid", "check_in": "Friday", "nights": 2}),
            ],
        ),
        (
            ("define_word", "translate"),
            "define gratitude and translate it to Spanish",
            [
                ("define_word", {"word": "gratitude"}),
                ("translate", {"text": "gratitude", "target_language": "Spanish"}),
            ],
        ),
        (
            ("web_search", "calculator"),
            "Google black holes for me. What is 0.75 plus 1.6?",
            [("web_search", {"query": "black holes"}), ("calculator", {"expression": "0.75 + 1.6"})],
        ),
    ],
)
def test_one_message_may_ask_for_two_tools(
    names: tuple[str, ...], text: str, expected: list[tuple[str, dict[str, Any]]]
) -> None:
    assert calls(text, *names) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("and bergen?", [{"location": "bergen", "units": "celsius"}]),
        ("How about New York and Boston?", [{"location": c, "units": "celsius"} for c in ("New York", "Boston")]),
        ("in fahrenheit please", [{"location": "Oslo", "units": "fahrenheit"}]),
        ("no, I meant Lyon", [{"location": "Lyon", "units": "celsius"}]),
        ("again", [{"location": "Oslo", "units": "celsius"}]),
    ],
)
def test_a_follow_up_changes_the_previous_call(text: str, expected: list[dict[str, Any]]) -> None:
    given = {"location": "Oslo", "units": "celsius"}
    call = {"type": "function", "id": "1", "function": {"name": "get_weather", "arguments": json.dumps(given)}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "weather in Oslo in celsius"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "3 degrees"},
        {"role": "assistant", "content": "It is 3 degrees."},
        {"role": "user", "content": text},
    ]
    before = [Turn("user", "weather in Oslo in celsius", {}), Turn("call", "get_weather", given)]
    read_in = prompt([declared("get_weather")], messages)
    assert [t.role for t in read_in.turns][:2] == ["user", "call"]
    answer = read(read_in._replace(turns=(*before, read_in.turns[-1])))
    assert answer is not None
    assert answer.calls == [("get_weather", given) for given in expected]


@pytest.mark.parametrize(
    "text",
    ["oh wow, that's cold", "great, I'll bring a jacket then", "lol that is freezing", "no way", "brr", "good to know"],
)
def test_a_comment_on_an_answer_makes_no_call(text: str) -> None:
    turns = (
        Turn("user", "weather in Oslo in celsius", {}),
        Turn("call", "get_weather", {"location": "Oslo", "units": "celsius"}),
        Turn("user", text, {}),
    )
    answer = read(prompt([declared("get_weather")], [])._replace(turns=turns))
    assert answer is not None
    assert not answer.calls
    assert answer.words


@pytest.mark.parametrize(
    "text",
    [
        "Hi!",
        "ok, thanks",
        "good morning! how's it going?",
        "hola",
        "nice to meet you, I'm Tom",
        "my name is Bob",
        "lol",
        "👍",
        "It's been raining here all week and I hate it",
        "what a day... my train was 2 hours late",
        "Good evening! I finally got you running, took me two hours",
        "lost all my money on lottery tickets, fun times",
    ],
)
def test_small_talk_is_answered_with_small_talk(text: str) -> None:
    answer = asked(text, "get_weather", "web_search")
    assert answer is not None
    assert answer.calls == []
    assert "tools here" not in answer.words
    assert answer.thought == "This is small talk. No tool is needed."


@pytest.mark.parametrize(
    "text", ["what's your favorite color?", "do you like music?", "write me a poem", "I'm bored", "any jokes?"]
)
def test_chat_beyond_the_model_is_answered_with_a_sentence(text: str) -> None:
    answer = asked(text, "get_weather")
    assert answer is not None
    assert answer.words == "I am unspool's small built-in model, made to call tools: that is beyond me."


def test_a_task_without_a_fitting_tool_is_reported() -> None:
    answer = asked("book me a flight to Rome", "get_weather")
    assert answer is not None
    assert answer.words.endswith("none of the tools here fits.")
    assert answer.thought == "No tool fits."


@pytest.mark.parametrize(
    "text",
    [
        "quel temps fait-il à Paris ?",
        "¿Qué tiempo hace en Madrid?",
        "巴黎的天气怎么样？",
        "Che tempo fa a Roma?",
        "Como está o tempo em Lisboa hoje?",
        "Hoe is het weer in Amsterdam?",
        "Какая погода в Москве?",
    ],
)
def test_a_request_in_another_language_is_told_that_english_is_understood(text: str) -> None:
    answer = asked(text, "get_weather")
    assert answer is not None
    assert answer.words == "I am unspool's small built-in model and understand only English."


@pytest.mark.parametrize(
    "text",
    ["Translate 你好 into English", "Play Despacito by Luis Fonsi", "make me a sandwich 🎉", "say it with roses"],
)
def test_an_english_request_with_foreign_names_is_english(text: str) -> None:
    answer = asked(text, "get_weather")
    assert answer is not None
    assert answer.words.endswith("none of the tools here fits.")


@pytest.mark.parametrize(
    ("text", "said"), [("你好！", "Hello!"), ("谢谢", "You are welcome."), ("你是谁？", "I am unspool")]
)
def test_small_talk_in_other_languages_is_answered(text: str, said: str) -> None:
    answer = asked(text, "get_weather")
    assert answer is not None
    assert answer.words.startswith(said)


def test_an_answer_that_lists_many_tools_says_how_many_more_there_are() -> None:
    answer = asked("what can you do?", *list(TOOLS)[:10])
    assert answer is not None
    assert answer.words.endswith(", send_email and 3 more.")


@pytest.mark.parametrize(("name", "text"), [("get_weather", "asdf"), ("translate", "translate it to Greek")])
def test_a_message_with_missing_values_is_left_to_the_model(name: str, text: str) -> None:
    assert asked(text, name) is None


def test_a_missing_place_is_asked_for() -> None:
    answer = asked("tell me the weather", "get_weather")
    assert answer is not None
    assert answer.words == "Please say for which location."


def test_a_required_tool_gets_the_values_of_the_message() -> None:
    said = [{"role": "user", "content": "Rome was nice"}]
    assert arguments(prompt([declared("get_weather")], said), "get_weather") == {"location": "Rome"}
    assert arguments(prompt([declared("roll_dice")], said), "roll_dice") is None
    assert arguments(prompt([declared("roll_dice")], said), "other") is None


def test_thinking_names_each_tool_once() -> None:
    answer = asked("weather and local time in Rome and Oslo", "get_weather", "get_time")
    assert answer is not None
    assert answer.thought == "I use get_weather and get_time."


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_a_message_that_is_too_long_is_left_to_the_model() -> None:
    said = [{"role": "user", "content": "weather in Rome"}]
    tools = [declared("get_weather")]
    assert read(prompt(tools, [{"role": "user", "content": "weather in " + "Rome " * MOST_CHARACTERS}])) is None
    assert read(prompt(tools, said)._replace(tools=prompt(tools, said).tools * (MOST_TOOLS + 1))) is None
    many = prompt(tools, said).tools[0]
    many = many._replace(parameters=many.parameters * MOST_PARAMETERS)
    assert read(prompt(tools, said)._replace(tools=(many,))) is None


HOSTILE = [
    *(
        "?",
        '"',
        "'",
        "(",
        "1 ",
        "a.",
        "a/",
        "-1",
        "a@",
        ", ",
        "news ",
        "and ",
        "Paris and ",
        "1+",
        "x of ",
        "to ",
        "  ",
    ),
    *(
        "weather in ",
        "hundred ",
        "play ",
        "translate in ",
        "please ",
        "recipe ",
        "what ",
        "it ",
        "9",
        "#",
        "d6 ",
        "now ",
    ),
    *("search for ", "tell me about ", "ticket about ", "at 5 ", "Monday ", "5 km ", "usd ", "remind me to ", ". "),
]


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_messages_are_read_in_bounded_time(part: str) -> None:
    text = (part * MOST_CHARACTERS)[: MOST_CHARACTERS - 1] + "!"
    fit = " ".join((part * 110)[:MOST_CHARACTERS].split(" ")[:110])
    base = prompt([declared(name) for name in list(TOOLS)[:12]], [{"role": "user", "content": "x"}])
    for said in (text, fit):
        asked_ = base._replace(turns=(Turn("user", said, {}),))
        taken = []
        for _ in range(6):
            begun = time.process_time()
            read(asked_)
            arguments(asked_, "send_email")
            taken.append(time.process_time() - begun)
            if taken[-1] < BOUND:
                break
        assert min(taken) < BOUND


TEXT = st.text(max_size=60) | st.sampled_from(
    ["weather in Rome", "it", "5 km to", "a@b.c", "“x”", "$", "-", "1e999", "²"]
)


@settings(max_examples=60, deadline=None)
@given(name=TEXT, about=TEXT, keys=st.lists(st.tuples(TEXT, TEXT), max_size=4), said=st.lists(TEXT, max_size=4))
def test_any_tools_and_message_are_read_without_an_error(
    name: str, about: str, keys: list[tuple[str, str]], said: list[str]
) -> None:
    lines = [f"{name}: {about}", f"#{name}", *(f'"{key}": {rest}' for key, rest in keys)]
    lines += ['"units": "c" or "f"', '"n": optional integer, how many', '"xs": array', '"text": string']
    text = f"{examples.BOS}{chr(10).join(lines)}\n<｜User｜>{' and '.join(said)}<｜Assistant｜></think>"
    read_in = reading().read(tokenizer().encode(text).ids)
    answer = read(read_in)
    assert answer is None or bool(answer.calls) != bool(answer.words)
    for tool in read_in.tools:
        forced = arguments(read_in, tool.name)
        if forced is not None:
            assert set(forced) <= {p.name for p in tool.parameters}
            json.dumps(forced)


def test_invalid_arguments_in_the_history_are_ignored() -> None:
    opened = "[" * 5000
    history = f"#f\n<｜User｜>x<｜tool▁call▁begin｜>f<｜tool▁sep｜>{opened}<｜User｜>again"
    text = f"{examples.BOS}{history}<｜Assistant｜></think>"
    read_in = reading().read(tokenizer().encode(text).ids)
    assert [t.arguments for t in read_in.turns if t.role == "call"] == [{}]
    assert read(read_in) is not None


ORDERS = {
    "type": "object",
    "properties": {
        "status": {"enum": ["open", "shipped"]},
        "customer": {"type": "string"},
        "limit": {"type": "integer"},
    },
}
ISSUE = {
    "type": "object",
    "properties": {"repo": {"type": "string"}, "title": {"type": "string"}, "labels": {"type": "array"}},
    "required": ["repo", "title"],
}
BLINDS = {
    "type": "object",
    "properties": {
        "position": {"type": "integer", "description": "0 = closed, 100 = open"},
        "room": {"type": "string"},
    },
    "required": ["position"],
}
SCHEMA = {"type": "object", "properties": {"table_name": {"type": "string"}}, "required": ["table_name"]}
FILES = {
    "type": "object",
    "properties": {"source": {"type": "string"}, "destination": {"type": "string"}},
    "required": ["source", "destination"],
}


@pytest.mark.parametrize(
    ("name", "parameters", "text", "expected"),
    [
        (
            "list_orders",
            ORDERS,
            "the last 9 shipped orders for Initech",
            {"status": "shipped", "customer": "Initech", "limit": 9},
        ),
        (
            "open_issue",
            ISSUE,
            "open an issue in ada/loom titled 'It hangs' with label urgent",
            {"repo": "ada/loom", "title": "It hangs", "labels": ["urgent"]},
        ),
        ("set_blinds", BLINDS, "open the blinds in the attic", {"position": 100, "room": "attic"}),
        ("describe", SCHEMA, "describe the invoices table", {"table_name": "invoices"}),
        (
            "move_file",
            FILES,
            "move draft.txt to old/draft.txt",
            {"source": "draft.txt", "destination": "old/draft.txt"},
        ),
    ],
)
def test_prepositions_descriptions_and_names_tell_a_values_parameter(
    name: str, parameters: Any, text: str, expected: Any
) -> None:
    tool = {"type": "function", "function": {"name": name, "parameters": parameters}}
    answer = read(prompt([tool], [{"role": "user", "content": text}]))
    assert answer is not None
    assert answer.calls == [(name, expected)]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("send_email", "send an email", "Please say the recipient, subject and body."),
        ("roll_dice", "roll two dice", "Please say the sides."),
        ("read_file", "open a file", "Please say the path."),
    ],
)
def test_a_parameter_that_no_word_fits_is_asked_for(name: str, text: str, words: str) -> None:
    answer = asked(text, name)
    assert answer is not None
    assert (answer.calls, answer.words) == ([], words)


def test_a_misspelt_request_is_read_if_it_has_no_other_meaning() -> None:
    assert calls("wether in oslo", "get_weather", "send_email") == [("get_weather", {"location": "oslo"})]


def test_an_answer_to_a_question_completes_the_request_before_it() -> None:
    messages = [
        {"role": "user", "content": "What is the status of my flight?"},
        {"role": "assistant", "content": "Which flight is it?"},
        {"role": "user", "content": "it's KL1234"},
    ]
    answer = read(prompt([declared("get_flight_status")], messages))
    assert answer is not None
    assert answer.calls == [("get_flight_status", {"flight_number": "KL1234"})]
