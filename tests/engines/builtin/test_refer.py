"""What a message takes from the calls before it and their results: entries, pronouns, the two ends, numbers."""

import json
import time
from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, WHOLE, described, tool
from tests.engines.builtin.test_reader import BOUND, prompt
from unspool.engines.builtin.reader import Answer, read

READING = 0.25  # seconds to render the conversation and to encode it, on a busy machine
CHOICE: dict[str, Any] = {"type": "string", "enum": ["celsius", "fahrenheit"]}
TOOLS = {
    "weather": tool("get_current_weather", ["location"], location=TEXT, unit=CHOICE),
    "trains": tool("find_trains", ["from_station", "to_station"], from_station=TEXT, to_station=TEXT, date=TEXT),
    "flights": tool("search_flights", ["origin", "destination"], origin=TEXT, destination=TEXT),
    "fly": tool("book_flight", ["flight_id"], flight_id=TEXT),
    "list": tool("list_files", ["path"], path=TEXT),
    "read": tool("read_file", ["path"], path=TEXT),
    "delete": tool("delete_file", ["path"], path=TEXT),
    "events": tool("list_events", ["date"], date=TEXT),
    "unplan": tool("delete_event", ["event_id"], event_id=TEXT),
    "issues": tool("list_issues", ["repo"], repo=TEXT),
    "close": tool("close_issue", ["repo", "number"], repo=TEXT, number=WHOLE),
    "timer": tool("set_timer", ["minutes"], minutes=WHOLE),
    "stop": tool("cancel_timer", ["timer_id"], timer_id=TEXT),
    "restart": tool("restart_container", ["name"], name=TEXT),
    "logs": tool("container_logs", ["container"], container=TEXT, lines=WHOLE),
    "user": tool("get_user", ["user_id"], user_id=WHOLE),
    "details": tool("get_user_details", ["user_id"], user_id=TEXT),
    "find": tool("find_user_id_by_email", ["email"], email=TEXT),
    "move": tool("move_event", ["event_id", "start"], event_id=TEXT, start={"type": "string", "description": "HH:MM"}),
    "mail": tool("read_email", ["email_id"], email_id=WHOLE),
    "reply": tool("reply_to_email", ["email_id", "body"], email_id=WHOLE, body=TEXT),
    "song": tool("play_song", ["title"], title=TEXT, artist=TEXT),
    "playlist": tool("add_to_playlist", ["playlist", "song"], playlist=TEXT, song=TEXT),
    "todos": tool("list_todos", []),
    "todo": tool("add_todo", ["item"], item=TEXT, priority={"type": "string", "enum": ["low", "high"]}),
    "grep": tool("grep", ["pattern", "path"], pattern=TEXT, path=TEXT),
    "tickets": tool("list_tickets", ["status"], status={"type": "string", "enum": ["open", "closed"]}),
    "unticket": tool("close_ticket", ["ticket_id"], ticket_id=TEXT),
    "times": tool("multiply", ["a", "b"], a=NUMBER, b=NUMBER),
    "plus": tool("add", ["a", "b"], a=NUMBER, b=NUMBER),
    "devices": tool("list_devices", []),
    "on": tool("turn_on", ["entity_id"], entity_id=TEXT),
    "off": tool("turn_off", ["entity_id"], entity_id=TEXT),
    "order": tool("order_food", ["dish"], dish=TEXT),
    "eaten": tool("order_status", ["order_number"], order_number=WHOLE),
    "heat": tool("get_temperature", ["room"], room=TEXT),
    "cold": tool("set_thermostat", ["temperature"], temperature=NUMBER),
    "record": tool("open_record", ["code"], code=TEXT),
    "tests": tool("get_tests", ["code"], code={"type": "string", "description": "e.g. K-100"}),
    "paper": tool("get_paper", ["arxiv_id"], arxiv_id=TEXT),
    "citations": described(tool("get_citations", ["arxiv_id"], arxiv_id=TEXT), "List the papers that cite a paper"),
    "disk": tool("get_disk_usage", ["path"], path=TEXT),
}
WEATHER_IN_OSLO = ("get_current_weather", {"location": "Oslo"})
DETAILS = ("get_user_details", {"user_id": "raj_lee_3061"})
EVENT = '[{"event_id": "ev_1", "title": "Dentist", "start": "09:00"}]'
TODOS = '[{"item": "water the plants", "priority": "low"}, {"item": "pay rent", "priority": "high"}]'
NEW_TODO = {"item": "renew passport", "priority": "high"}
FLIGHTS = '[{"id": "UA12", "price": 320}, {"id": "DL77", "price": 280}]'
FILES = "src/main.py\nsrc/utils.py\nsrc/README.md"
EVENTS = '[{"id": "ev_1", "title": "Dentist"}, {"id": "ev_2", "title": "Team lunch"}]'
ISSUES = '{"issues": [{"number": 12, "title": "Login broken"}, {"number": 15, "title": "Typo in footer"}]}'
DISK = '{"total_gb": 500, "free_gb": 50}'


def asked(first: str, names: str, given: dict[str, Any], result: str, text: str) -> Answer | None:
    """The answer to a message after the call of the first of some tools."""
    some = [TOOLS[name] for name in names.split()]
    called = {"name": some[0]["function"]["name"], "arguments": json.dumps(given)}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": first},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": called}]},
        {"role": "tool", "tool_call_id": "1", "content": result},
        {"role": "assistant", "content": "Here you are."},
        {"role": "user", "content": text},
    ]
    return read(prompt(some, messages))


@pytest.mark.parametrize(
    ("names", "given", "result", "text", "expected"),
    [
        ("flights fly", {}, FLIGHTS, "book the second one", ("book_flight", {"flight_id": "DL77"})),
        ("flights fly", {}, FLIGHTS, "book the cheaper one please", ("book_flight", {"flight_id": "DL77"})),
        ("list read delete", {"path": "src"}, FILES, "delete the last one", ("delete_file", {"path": "src/README.md"})),
        ("list read delete", {"path": "src"}, FILES, "show me the utils one", ("read_file", {"path": "src/utils.py"})),
        ("events unplan", {"date": "today"}, EVENTS, "cancel the dentist one", ("delete_event", {"event_id": "ev_1"})),
        (
            "issues close",
            {"repo": "acme/web"},
            ISSUES,
            "close the typo one",
            ("close_issue", {"repo": "acme/web", "number": 15}),
        ),
        (
            "issues close",
            {"repo": "acme/web"},
            ISSUES,
            "how many are there in acme/api?",
            ("list_issues", {"repo": "acme/api"}),
        ),
        ("timer stop", {"minutes": 10}, '{"timer_id": "t-3"}', "cancel it", ("cancel_timer", {"timer_id": "t-3"})),
        ("restart logs", {"name": "web"}, "ok", "nice, now show me its logs", ("container_logs", {"container": "web"})),
        (
            "devices on off",
            {},
            '[{"entity_id": "light.desk"}, {"entity_id": "light.hall"}]',
            "switch on the hall one",
            ("turn_on", {"entity_id": "light.hall"}),
        ),
        (
            "order eaten",
            {"dish": "ramen"},
            '{"order_number": 5512}',
            "whats the status of my order?",
            ("order_status", {"order_number": 5512}),
        ),
        ("heat cold", {"room": "den"}, "17", "too cold! set it to 20", ("set_thermostat", {"temperature": 20})),
        ("plus times", {"a": 5, "b": 6}, "11", "now multiply that by 3", ("multiply", {"a": 11, "b": 3})),
        ("find details", {"email": "raj@x.org"}, "raj_lee_3061", "get the details of that user", DETAILS),
        ("find details", {"email": "raj@x.org"}, '{"user_ids": ["raj_lee_3061"]}', "show me his details", DETAILS),
        (
            "list read",
            {"path": "logs"},
            "eval.txt\ntrain.txt",
            "open the eval one",
            ("read_file", {"path": "logs/eval.txt"}),
        ),
        (
            "list read",
            {"path": "logs"},
            "eval.txt\ntrain.txt",
            "show me train.txt",
            ("read_file", {"path": "logs/train.txt"}),
        ),
        (
            "events move",
            {"date": "today"},
            EVENT,
            "move it to 11:30",
            ("move_event", {"event_id": "ev_1", "start": "11:30"}),
        ),
        ("todos todo", {}, TODOS, "add renew passport with high priority", ("add_todo", NEW_TODO)),
        ("timer stop", {"minutes": 10}, '{"timer_id": "t-3"}', "stop it", ("cancel_timer", {"timer_id": "t-3"})),
    ],
)
def test_a_message_can_refer_to_earlier_calls_and_results(
    names: str, given: dict[str, Any], result: str, text: str, expected: tuple[str, dict[str, Any]]
) -> None:
    answer = asked("please", names, given, result, text)
    assert answer is not None
    assert answer.calls == [expected]


@pytest.mark.parametrize(
    ("first", "text", "expected"),
    [
        ("trains from Basel to Bern", "and the way back?", {"from_station": "Bern", "to_station": "Basel"}),
        ("trains from Basel to Bern", "and to Zurich?", {"from_station": "Basel", "to_station": "Zurich"}),
        (
            "trains from Basel to Bern",
            "ok and back on 2025-06-09?",
            {"from_station": "Bern", "to_station": "Basel", "date": "2025-06-09"},
        ),
    ],
)
def test_the_way_back_swaps_origin_and_destination(first: str, text: str, expected: dict[str, Any]) -> None:
    answer = asked(first, "trains", {"from_station": "Basel", "to_station": "Bern"}, "08:03", text)
    assert answer is not None
    assert answer.calls == [("find_trains", expected)]


@pytest.mark.parametrize(
    ("first", "expected"),
    [("weather in Oslo", {}), ("weather in Oslo in fahrenheit", {"unit": "fahrenheit"})],
)
def test_an_optional_argument_is_kept_only_if_it_was_said(first: str, expected: dict[str, Any]) -> None:
    answer = asked(first, "weather", {"location": "Oslo", "unit": "fahrenheit"}, "37", "and in Rome?")
    assert answer is not None
    assert answer.calls == [("get_current_weather", {"location": "Rome", **expected})]


@pytest.mark.parametrize("text", ["so how many GB are still free there?", "how much is that in percent?"])
def test_a_question_is_answered_from_an_earlier_result(text: str) -> None:
    answer = asked("disk usage of /data", "disk", {"path": "/data"}, DISK, text)
    assert answer is not None
    assert not answer.calls
    assert "50" in answer.words


@pytest.mark.parametrize(
    ("text", "words"),
    [("who is the coach?", "coach Bo Ek"), ("who is that", "name Ida"), ("when is her exam", "exam 9 June")],
)
def test_a_question_for_a_named_field_is_answered_with_that_field(text: str, words: str) -> None:
    result = '{"name": "Ida", "coach": "Bo Ek", "date": "1 May", "exam": "9 June"}'
    answer = asked("details of user 5", "user", {"user_id": 5}, result, text)
    assert answer is not None
    assert not answer.calls
    assert answer.words == f"The result says: {words}."


@pytest.mark.parametrize("text", ["ok, thanks!", "cool that worked", "lol the eggs are already done"])
def test_a_comment_on_a_result_is_small_talk(text: str) -> None:
    answer = asked("timer 8 min", "timer stop", {"minutes": 8}, '{"timer_id": "t-3"}', text)
    assert answer is not None
    assert not answer.calls
    assert "tools here" not in answer.words


def test_a_question_with_a_new_value_is_not_answered_from_the_result() -> None:
    answer = asked("disk usage of /data", "disk", {"path": "/data"}, DISK, "and how full is /home?")
    assert answer is not None
    assert answer.calls == [("get_disk_usage", {"path": "/home"})]


def test_long_results_and_messages_are_read_in_bounded_time() -> None:
    words = " ".join(f"w{i}" for i in range(100))
    lines = "\n".join(f"w{i} {words}" for i in range(100))
    listed = json.dumps([{f"id{j}": f"w{i * j}" for j in range(60)} for i in range(100)])
    for result in (lines, listed, "1", "[" * 5000, '{"a":' * 5000):
        for text in (words, "the first one " * 25, "delete the w7 one " * 20, "and the way back " * 20, "plus 8 " * 50):
            before = time.process_time()
            asked("what is in src", "list read delete flights trains", {"path": "src"}, result, text[:390])
            assert time.process_time() - before < BOUND + READING


@pytest.mark.parametrize(
    ("first", "text", "expected"),
    [
        ("grep for TODO in src", "what about in tests", {"pattern": "TODO", "path": "tests"}),
        ("grep for TODO in src", "and for FIXME?", {"pattern": "FIXME", "path": "src"}),
    ],
)
def test_a_new_value_has_the_role_that_its_preposition_had(first: str, text: str, expected: dict[str, Any]) -> None:
    answer = asked(first, "grep", {"pattern": "TODO", "path": "src"}, "none", text)
    assert answer is not None
    assert answer.calls == [("grep", expected)]


@pytest.mark.parametrize(
    ("names", "given", "result", "text", "expected"),
    [
        ("tickets unticket", {"status": "open"}, "[]", "and the closed ones?", ("list_tickets", {"status": "closed"})),
        ("weather", {"location": "Paris"}, "mild", "can you check Oslo as well", WEATHER_IN_OSLO),
        ("weather", {"location": "Paris"}, "mild", "and Oslo's?", WEATHER_IN_OSLO),
        ("find details", {"email": "raj@x.org"}, "raj_lee_3061", "get user details", DETAILS),
        ("record tests", {"code": "K-7"}, "Ida Berg", "and K-12?", ("open_record", {"code": "K-12"})),
    ],
)
def test_a_short_message_changes_one_value_of_the_last_call(
    names: str, given: dict[str, Any], result: str, text: str, expected: tuple[str, dict[str, Any]]
) -> None:
    answer = asked("please", names, given, result, text)
    assert answer is not None
    assert answer.calls == [expected]


def test_a_quoted_text_is_taken_before_a_text_of_the_result() -> None:
    result = '{"id": 540, "subject": "Friday", "body": "Can you join us on Friday?"}'
    answer = asked("read email 540", "mail reply", {"email_id": 540}, result, 'reply "Yes, I\'ll be there."')
    assert answer is not None
    assert answer.calls == [("reply_to_email", {"email_id": 540, "body": "Yes, I'll be there."})]


def test_a_pronoun_means_the_parameter_that_the_message_does_not_name() -> None:
    given = {"title": "Clocks", "artist": "Coldplay"}
    answer = asked("play Clocks", "song playlist", given, '{"status": "playing"}', "add it to my Road Trip playlist")
    assert answer is not None
    assert answer.calls == [("add_to_playlist", {"playlist": "Road Trip", "song": "Clocks"})]


def test_what_has_a_title_and_a_list_is_one_thing() -> None:
    result = '{"title": "Toolformer", "authors": ["Timo Schick", "Jane Dwivedi-Yu"]}'
    answer = asked(
        "who wrote 2302.04761", "paper citations", {"arxiv_id": "2302.04761"}, result, "which papers cite it?"
    )
    assert answer is not None
    assert answer.calls == [("get_citations", {"arxiv_id": "2302.04761"})]


@pytest.mark.parametrize(
    ("text", "said"),
    [("which port does it use?", "port: 8080"), ("how many replicas does it have?", "replicas: 3")],
)
def test_a_question_about_a_line_of_a_result_is_answered_with_it(text: str, said: str) -> None:
    answer = asked(
        "logs of billing", "logs restart", {"container": "billing"}, "billing\nport: 8080\nreplicas: 3", text
    )
    assert answer is not None
    assert not answer.calls
    assert answer.words == f"The result says: {said}."
