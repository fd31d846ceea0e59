"""Requests of people who work with tables, models and a shell, and messages of nothing but a town."""

from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, WHOLE, about, calls, described, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import read

SIGN = {"enum": ["=", "!=", "<", "<=", ">", ">="]}
CONDITION = {"type": "object", "properties": {"column": TEXT, "operator": SIGN, "value": NUMBER}}
CONDITION["required"] = ["column", "operator", "value"]
BENCHMARK = {"enum": ["mmlu", "gsm8k", "hellaswag"]}
TABLES = [
    tool("filter_rows", ["condition"], condition=CONDITION),
    tool("sort_rows", ["column"], column=TEXT, ascending={"type": "boolean"}),
]
MODELS = [
    described(
        tool(
            "evaluate_model",
            ["model", "benchmark"],
            model=about("model name"),
            benchmark=BENCHMARK,
        ),
        "Evaluate a model on a benchmark",
    ),
    described(
        tool(
            "start_training",
            ["model", "dataset"],
            model=about("base model name"),
            dataset=about("dataset name"),
            epochs=WHOLE,
            learning_rate=NUMBER,
            batch_size=WHOLE,
        ),
        "Start a training job",
    ),
]
SHELL = [
    tool("mkdir", ["dir_name"], dir_name=TEXT),
    described(tool("ls", ["path"], path=about("directory")), "List the files of a directory"),
    described(tool("cat", ["file_name"], file_name=about("name of the file")), "Print a file"),
    tool("rm", ["file_name"], file_name=TEXT),
    described(tool("grep", ["pattern", "path"], pattern=TEXT, path=about("the file")), "Search a file"),
]
PAPERS = [
    tool("search_papers", ["query"], query=TEXT, year_from=about("earliest year", WHOLE)),
    described(tool("get_paper", ["arxiv_id"], arxiv_id=TEXT), "Get the abstract of a paper"),
    described(tool("get_citations", ["arxiv_id"], arxiv_id=TEXT), "List the papers that cite a paper"),
]
WEATHER = tool("get_weather", [], city=TEXT, days=WHOLE)


@pytest.mark.parametrize(
    ("text", "sign", "value"),
    [
        ("keep only rows where amount > 500", ">", 500),
        ("filter rows where amount >= 10", ">=", 10),
        ("filter rows where amount <= 20", "<=", 20),
        ("only rows with amount less than 3 please", "<", 3),
        ("filter rows with amount greater than 30", ">", 30),
    ],
)
def test_a_sign_of_comparison_is_a_choice(text: str, sign: str, value: int) -> None:
    condition = {"column": "amount", "operator": sign, "value": value}
    assert calls(text, *TABLES) == [("filter_rows", {"condition": condition})]


@pytest.mark.parametrize("order", ["descending", "in descending order", "desc", "highest first"])
def test_an_opposite_turns_a_switch_off(order: str) -> None:
    assert calls(f"sort rows by price {order}", *TABLES) == [("sort_rows", {"column": "price", "ascending": False})]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("evaluate qwen2.5-7b on gsm8k", ("evaluate_model", {"model": "qwen2.5-7b", "benchmark": "gsm8k"})),
        ("eval llama3.1-8b on mmlu", ("evaluate_model", {"model": "llama3.1-8b", "benchmark": "mmlu"})),
        (
            "train bert-base on imdb with lr 0.001",
            ("start_training", {"model": "bert-base", "dataset": "imdb", "learning_rate": 0.001}),
        ),
        (
            "train resnet50 on cifar10 with bs 64 for 5 epochs",
            ("start_training", {"model": "resnet50", "dataset": "cifar10", "batch_size": 64, "epochs": 5}),
        ),
    ],
)
def test_the_name_of_a_model_is_no_calculation(text: str, expected: tuple[str, dict[str, Any]]) -> None:
    assert calls(text, *MODELS) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Make a directory named results", ("mkdir", {"dir_name": "results"})),
        ("create a folder called backup", ("mkdir", {"dir_name": "backup"})),
        ("list the files in src", ("ls", {"path": "src"})),
        ("print notes.txt", ("cat", {"file_name": "notes.txt"})),
        ("delete old.log", ("rm", {"file_name": "old.log"})),
        ("search train.log for the word Error", ("grep", {"pattern": "Error", "path": "train.log"})),
        ("search app.log for the term timeout", ("grep", {"pattern": "timeout", "path": "app.log"})),
    ],
)
def test_commands_of_a_shell_are_known_by_what_they_do(text: str, expected: tuple[str, dict[str, Any]]) -> None:
    assert calls(text, *SHELL) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cat README.md", ("read_file", {"path": "README.md"})),
        ("what's in config.yaml?", ("read_file", {"path": "config.yaml"})),
        ("show me src/app.py", ("read_file", {"path": "src/app.py"})),
        ("ls /tmp", ("list_files", {"path": "/tmp"})),
        ("what's in the src folder?", ("list_files", {"path": "src"})),
    ],
)
def test_a_file_is_read_and_a_folder_is_listed(text: str, expected: tuple[str, dict[str, Any]]) -> None:
    listed, opened = tool("list_files", ["path"], path=TEXT), tool("read_file", ["path"], path=TEXT)
    assert calls(text, listed, opened) == [expected]


@pytest.mark.parametrize("text", ["rm build.log", "mv a.txt b.txt", "cp a.txt b.txt"])
def test_a_command_that_changes_a_file_is_not_read_as_a_request_to_show_it(text: str) -> None:
    assert calls(text, tool("list_files", ["path"], path=TEXT), tool("read_file", ["path"], path=TEXT)) == []


@pytest.mark.parametrize(
    "text",
    [
        "train on imdb for 3 epochs with lr 0.01",
        "train on imdb, epochs 3, lr 0.01",
        "train imdb for 3 epochs, lr: 0.01",
    ],
)
def test_a_number_behind_a_short_name_is_its_value(text: str) -> None:
    train = tool("train_model", ["dataset", "epochs"], dataset=TEXT, epochs=WHOLE, lr=NUMBER)
    assert calls(text, train) == [("train_model", {"dataset": "imdb", "epochs": 3, "lr": 0.01})]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("coordinates of 1600 Pennsylvania Ave", ("geocode", {"address": "1600 Pennsylvania Ave"})),
        ("what's the latitude of 10 Downing Street?", ("geocode", {"address": "10 Downing Street"})),
        ("look up John Smith", ("get_employee", {"name": "John Smith"})),
        ("search Maria Garcia", ("get_employee", {"name": "Maria Garcia"})),
    ],
)
def test_an_address_and_a_person_are_looked_up(text: str, expected: tuple[str, dict[str, Any]]) -> None:
    geocode, employee = tool("geocode", ["address"], address=TEXT), tool("get_employee", ["name"], name=TEXT)
    assert calls(text, geocode, employee) == [expected]


ISSUES = [
    tool("create_issue", ["repo", "title"], repo=TEXT, title=TEXT, body=TEXT),
    tool("add_comment", ["repo", "number", "body"], repo=TEXT, number=WHOLE, body=TEXT),
]
PODS = [tool("get_logs", ["pod"], pod=TEXT, tail=WHOLE), tool("delete_pod", ["pod"], pod=TEXT)]
HOME = [
    tool("turn_on", ["device"], device=TEXT),
    tool("set_temperature", ["room", "degrees"], room=TEXT, degrees=NUMBER),
    tool("lock_door", ["door"], door=TEXT),
    tool("get_sensor", ["sensor"], sensor=TEXT),
]


@pytest.mark.parametrize(
    ("tools", "text", "expected"),
    [
        (ISSUES, "comment on issue 5 in acme/web: fixed in v2", ["add_comment"]),
        (ISSUES, "file an issue in acme/web: the page is blank", ["create_issue"]),
        (PODS, "kill pod worker-3", ["delete_pod"]),
        (PODS, "last 100 lines of web-7f9c", ["get_logs"]),
        (HOME, "is the garage sensor ok?", ["get_sensor"]),
        (HOME, "lock the garage", ["lock_door"]),
        (HOME, "turn on the fan and the heater", ["turn_on", "turn_on"]),
        (HOME, "turn on the fan and lock the garage", ["turn_on", "lock_door"]),
    ],
)
def test_the_verb_of_a_request_decides_between_tools(tools: Any, text: str, expected: list[str]) -> None:
    assert [name for name, _ in calls(text, *tools)] == expected


@pytest.mark.parametrize(
    ("declared", "text", "given"),
    [
        (tool("reserve_book", ["title"], title=TEXT), "reserve The Hobbit", {"title": "The Hobbit"}),
        (
            tool("reserve_book", ["title"], title=TEXT),
            "reserve A Tale of Two Cities",
            {"title": "A Tale of Two Cities"},
        ),
        (
            tool("create_lead", ["name", "company"], name=TEXT, company=TEXT),
            "create a lead for Maria Ruiz at Acme Corp",
            {"name": "Maria Ruiz", "company": "Acme Corp"},
        ),
        (
            tool("box_volume", ["length", "width", "height"], length=NUMBER, width=NUMBER, height=NUMBER),
            "volume of a box 3 wide, 4 high and 5 long",
            {"length": 5, "width": 3, "height": 4},
        ),
    ],
)
def test_titles_companies_and_dimensions_are_known_by_the_words_beside_them(
    declared: Any, text: str, given: Any
) -> None:
    assert [arguments for _, arguments in calls(text, declared)] == [given]


def test_a_thing_that_is_named_is_made_and_not_added_to() -> None:
    made = tool("create_playlist", ["name"], name=TEXT)
    added = tool("add_to_playlist", ["playlist", "song"], playlist=TEXT, song=TEXT)
    assert calls("make a playlist named Gym", made, added) == [("create_playlist", {"name": "Gym"})]


@pytest.mark.parametrize(("start", "end"), [("from", "to"), ("origin", "destination"), ("start", "end")])
@pytest.mark.parametrize(
    "text", ["distance between Oslo and Bergen in km", "How many km between Oslo and Bergen?", "km from Oslo to Bergen"]
)
def test_two_towns_are_the_sides_of_a_journey(text: str, start: str, end: str) -> None:
    distance = tool("get_distance", [start, end], **{start: TEXT, end: TEXT}, unit={"enum": ["km", "mi"]})
    assert calls(text, distance) == [("get_distance", {start: "Oslo", end: "Bergen", "unit": "km"})]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("which papers cite 1810.04805?", ("get_citations", {"arxiv_id": "1810.04805"})),
        (
            "find papers about graph neural networks since 2021",
            ("search_papers", {"query": "graph neural networks", "year_from": 2021}),
        ),
    ],
)
def test_papers_are_asked_for_by_topic_year_and_citation(text: str, expected: tuple[str, dict[str, Any]]) -> None:
    assert calls(text, *PAPERS) == [expected]


@pytest.mark.parametrize("text", ["Paris", "paris", "paris?", "Oslo"])
def test_a_town_alone_asks_the_only_tool_for_places(text: str) -> None:
    assert calls(text, WEATHER) == [("get_weather", {"city": text.rstrip("?")})]


@pytest.mark.parametrize("text", ["paris and berlin", "Paris and Berlin please"])
def test_two_towns_ask_it_twice(text: str) -> None:
    first, _, last = text.removesuffix(" please").partition(" and ")
    assert calls(text, WEATHER) == [("get_weather", {"city": first}), ("get_weather", {"city": last})]


def test_a_town_in_a_follow_up_asks_no_other_tool() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "New York"}'}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "What is the weather in New York?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "22°C"},
        {"role": "assistant", "content": "It is 22°C."},
        {"role": "user", "content": "How about London?"},
    ]
    answer = read(prompt([WEATHER, tool("web_search", ["query"], query=TEXT)], messages))
    assert answer is not None
    assert answer.calls == [("get_weather", {"city": "London"})]
