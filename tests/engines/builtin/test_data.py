"""Requests about data: lists of numbers, numbers beside their names, periods, conditions, columns."""

from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, WHOLE, about, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import Answer, read

NUMBERS = {"type": "array", "items": NUMBER}
LIST = {"type": "array", "items": TEXT}


ADDRESS = {"type": "object", "properties": {"street": TEXT, "city": TEXT, "postcode": TEXT}}
ADDRESS["required"] = ["street", "city", "postcode"]
MODEL = {"type": "object", "properties": {"max_depth": WHOLE, "learning_rate": NUMBER}}
TOOLS: dict[str, dict[str, Any]] = {
    "fit": tool("fit_line", ["x", "y"], x=NUMBERS, y=NUMBERS),
    "compare": tool("compare_groups", ["group_a", "group_b"], group_a=NUMBERS, group_b=NUMBERS),
    "average": tool("moving_average", ["values", "window"], values=NUMBERS, window=WHOLE),
    "binomial": tool(
        "binomial_probability",
        ["n", "k", "p"],
        n=about("The number of trials", WHOLE),
        k=about("The number of successes", WHOLE),
        p=NUMBER,
    ),
    "head": tool("head", [], n=about("number of rows", WHOLE)),
    "report": tool("sales_report", ["month", "year"], month=WHOLE, year=WHOLE),
    "prices": tool("get_stock_history", ["symbol", "period"], symbol=TEXT, period={"enum": ["1mo", "6mo", "1y"]}),
    "load": tool("get_load", ["host", "window"], host=TEXT, window={"enum": ["1h", "24h", "7d"]}),
    "find": tool("find_documents", ["collection", "filter"], collection=TEXT, filter={"type": "object"}, limit=WHOLE),
    "group": tool("group_by", ["by", "value", "agg"], by=TEXT, value=TEXT, agg={"enum": ["mean", "sum", "max"]}),
    "train": tool("train_model", ["dataset", "target"], dataset=about("file"), target=TEXT, params=MODEL),
    "impute": tool("fill_missing", ["column", "strategy"], column=TEXT, strategy={"enum": ["mean", "median"]}),
    "address": tool("change_address", ["order", "address"], order=TEXT, address=ADDRESS),
    "invite": tool("invite_user", ["email", "teams"], email=TEXT, teams=LIST),
    "split": tool("train_test_split", ["test_size"], test_size=about("fraction for the test set, 0 to 1", NUMBER)),
    "metric": tool("get_metric", ["service", "minutes"], service=TEXT, minutes=WHOLE),
    "flights": tool("search_flights", ["origin", "destination"], origin=TEXT, destination=TEXT, passengers=WHOLE),
    "visa": tool("visa_requirements", ["nationality", "destination"], nationality=TEXT, destination=TEXT),
    "scatter": tool("plot_scatter", ["x", "y"], x=TEXT, y=TEXT),
    "branch": tool("create_branch", ["name"], name=about("branch name"), from_branch=TEXT),
    "grep": tool("grep_search", ["query"], query=TEXT),
}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("fit", "fit x = [1, 2, 3] and y = [2.5, 4, 6]", {"x": [1, 2, 3], "y": [2.5, 4, 6]}),
        ("fit", "fit a line, y: 4, 5, 6 and x: 1, 2, 3", {"x": [1, 2, 3], "y": [4, 5, 6]}),
        ("compare", "compare 12, 14 and 15 vs 10, 11 and 13", {"group_a": [12, 14, 15], "group_b": [10, 11, 13]}),
        ("average", "moving average of 4, 8, 15, 16 with window 2", {"values": [4, 8, 15, 16], "window": 2}),
        ("binomial", "probability of 7 successes in 10 trials with p = 0.5", {"n": 10, "k": 7, "p": 0.5}),
        ("head", "show me the first 20 rows", {"n": 20}),
        ("report", "sales for october 2026", {"month": 10, "year": 2026}),
        ("prices", "the last 6 months of MSFT", {"symbol": "MSFT", "period": "6mo"}),
        ("prices", "NVDA over the past year", {"symbol": "NVDA", "period": "1y"}),
        ("load", "load of web-02 for the last 24 hours", {"host": "web-02", "window": "24h"}),
        ("load", "load of web-02 this week", {"host": "web-02", "window": "7d"}),
        (
            "find",
            "find documents in the customers collection where country is NL",
            {"collection": "customers", "filter": {"country": "NL"}},
        ),
        (
            "find",
            "find documents in orders with total = 12 and paid = true",
            {"collection": "orders", "filter": {"total": 12, "paid": True}},
        ),
        ("group", "average revenue by region", {"by": "region", "value": "revenue", "agg": "mean"}),
        (
            "train",
            "train on titanic.csv, target is survived, max_depth 6",
            {"dataset": "titanic.csv", "target": "survived", "params": {"max_depth": 6}},
        ),
        ("impute", "fill the missing vals in salary with the median", {"column": "salary", "strategy": "median"}),
        (
            "address",
            "change the address of order A-12 to Lindenstrasse 8, Hamburg, postcode 20095",
            {"order": "A-12", "address": {"street": "Lindenstrasse 8", "city": "Hamburg", "postcode": "20095"}},
        ),
        (
            "invite",
            "invite dana@acme.io to the platform and data teams",
            {"email": "dana@acme.io", "teams": ["platform", "data"]},
        ),
        ("group", "total sales by month", {"by": "month", "value": "sales", "agg": "sum"}),
        ("split", "split it with 20% for the test", {"test_size": 0.2}),
        ("metric", "metric of api-gateway over the last hour", {"service": "api-gateway", "minutes": 60}),
        ("flights", "flights from Oslo to Rome for 2", {"origin": "Oslo", "destination": "Rome", "passengers": 2}),
        ("visa", "Do travellers from India need a visa for Japan?", {"nationality": "India", "destination": "Japan"}),
        ("visa", "do french citizens need a visa for kenya", {"nationality": "french", "destination": "kenya"}),
        ("visa", "Do Germans need a visa for Vietnam?", {"nationality": "German", "destination": "Vietnam"}),
        ("scatter", "scatter plot of height vs weight", {"x": "height", "y": "weight"}),
        ("branch", "create branch fix/login from develop", {"name": "fix/login", "from_branch": "develop"}),
        ("grep", "search the code for PaymentTimeoutError", {"query": "PaymentTimeoutError"}),
    ],
)
def test_data_are_read_as_they_are_meant(name: str, text: str, expected: dict[str, Any]) -> None:
    answer = read(prompt([TOOLS[name]], [{"role": "user", "content": text}]))
    assert answer is not None
    assert answer.calls == [(TOOLS[name]["function"]["name"], expected)]


MEAN, MEDIAN = (tool(f"calculate_{name}", ["numbers"], numbers=NUMBERS) for name in ("mean", "median"))
ASSIGN = tool("assign_ticket", ["ticket_id", "assignee"], ticket_id=TEXT, assignee=TEXT)
COMMENT = tool("add_comment", ["ticket_id", "body"], ticket_id=TEXT, body=TEXT)
CANCEL = tool("cancel_booking", ["reference"], reference=TEXT)
MAIL = tool("send_mail", ["to", "subject", "text"], to=TEXT, subject=TEXT, text=TEXT)


@pytest.mark.parametrize(
    ("tools", "text", "expected"),
    [
        (
            [MEAN, MEDIAN],
            "I need both the mean and the median of 12, 7, 3",
            [("calculate_mean", {"numbers": [12, 7, 3]}), ("calculate_median", {"numbers": [12, 7, 3]})],
        ),
        (
            [ASSIGN, COMMENT],
            'assign OPS-90 to miguel and add the comment "please have a look"',
            [
                ("assign_ticket", {"ticket_id": "OPS-90", "assignee": "miguel"}),
                ("add_comment", {"ticket_id": "OPS-90", "body": "please have a look"}),
            ],
        ),
        (
            [CANCEL, MAIL],
            'cancel booking W9LL40 and mail tom@example.com with subject "Done" and text "Your booking is cancelled"',
            [
                ("cancel_booking", {"reference": "W9LL40"}),
                ("send_mail", {"to": "tom@example.com", "subject": "Done", "text": "Your booking is cancelled"}),
            ],
        ),
    ],
)
def test_two_requests_share_what_only_one_says(tools: list[Any], text: str, expected: list[Any]) -> None:
    answer = read(prompt(tools, [{"role": "user", "content": text}]))
    assert answer is not None
    assert answer.calls == expected


def test_the_name_of_an_id_does_not_tell_which_tool_is_meant() -> None:
    points = tool("get_loyalty_points", ["customer_id"], customer_id=WHOLE)
    customer = tool("get_customer", ["customer_id"], customer_id=WHOLE)
    for text, name in (("how many points does customer 310 have?", points), ("show customer 310", customer)):
        answer = read(prompt([points, customer], [{"role": "user", "content": text}]))
        assert answer is not None
        assert answer.calls == [(name["function"]["name"], {"customer_id": 310})]


METRIC = tool("get_metric", ["service", "metric"], service=TEXT, metric={"enum": ["cpu", "error_rate"]})
SCALE = tool("scale_service", ["service", "replicas"], service=TEXT, replicas=WHOLE)


COMPARISON = {
    "type": "object",
    "properties": {
        "column": TEXT,
        "operator": {"enum": ["=", "!=", ">", "<", ">=", "<="]},
        "value": NUMBER,
    },
    "required": ["column", "operator", "value"],
}
FRAME: list[dict[str, Any]] = [
    tool("filter_rows", ["condition"], condition=COMPARISON),
    tool("sort_rows", ["column"], column=TEXT, ascending={"type": "boolean"}),
    tool("merge_tables", ["left", "right", "on"], left=TEXT, right=TEXT, on=TEXT, how={"enum": ["inner", "left"]}),
    tool("load_csv", ["path"], path=TEXT, delimiter=TEXT),
    tool("create_chart", ["kind", "x", "y"], kind={"enum": ["bar", "line"]}, x=TEXT, y=TEXT),
]
LEARNING = [
    tool(
        "start_training",
        ["model", "dataset"],
        model=about("base model name"),
        dataset=TEXT,
        epochs=WHOLE,
        learning_rate=NUMBER,
    ),
    tool("evaluate_model", ["model", "benchmark"], model=TEXT, benchmark={"enum": ["mmlu", "gsm8k"]}),
]


def called(tools: list[dict[str, Any]], text: str) -> list[Any]:
    """The calls that are read in a message."""
    answer = read(prompt(tools, [{"role": "user", "content": text}]))
    return [] if answer is None else answer.calls


@pytest.mark.parametrize(
    ("text", "column", "operator", "value"),
    [
        ("keep only rows where amount > 500", "amount", ">", 500),
        ("show rows where quantity <= 5", "quantity", "<=", 5),
        ("filter where price>=100", "price", ">=", 100),
        ("filter to rows where discount != 0", "discount", "!=", 0),
        ("filter rows where age is more than 30", "age", ">", 30),
        ("filter rows where stock is no more than 10 please", "stock", "<=", 10),
        ("filter rows where score is at least 80", "score", ">=", 80),
        ("filter rows where year is 2024", "year", "=", 2024),
    ],
)
def test_a_comparison_is_read_from_its_sign_or_its_words(text: str, column: str, operator: str, value: float) -> None:
    condition = {"column": column, "operator": operator, "value": value}
    assert called(FRAME, text) == [("filter_rows", {"condition": condition})]


@pytest.mark.parametrize(
    ("text", "ascending"),
    [
        ("sort by price descending", False),
        ("sort the rows by price in descending order", False),
        ("sort by price, highest first", False),
        ("sort by price from high to low", False),
        ("sort by price asc", True),
        ("sort by price in ascending order", True),
    ],
)
def test_the_opposite_of_a_switch_turns_it_off(text: str, ascending: bool) -> None:
    assert called(FRAME, text) == [("sort_rows", {"column": "price", "ascending": ascending})]


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("load data.csv, the delimiter is ;", ";"),
        ("load data.csv with ; as delimiter", ";"),
        ("load data.csv, separated by semicolons", ";"),
        ("load data.csv with delimiter |", "|"),
        ("load data.csv, it's tab-separated", "\t"),
        ("load data.csv, the separator is ,", ","),
        ("load data.csv using ';' as the separator", ";"),
    ],
)
def test_a_separator_is_a_mark_or_its_name(text: str, delimiter: str) -> None:
    assert called(FRAME, text) == [("load_csv", {"path": "data.csv", "delimiter": delimiter})]


@pytest.mark.parametrize(
    "text",
    [
        "Make a line chart with month on the x axis and revenue on the y axis",
        "create a line chart, put month on the x-axis and revenue on the y-axis",
        "line chart with month as x and revenue as y",
        "line chart, x axis month, y axis revenue",
    ],
)
def test_an_axis_may_follow_its_value(text: str) -> None:
    assert called(FRAME, text) == [("create_chart", {"kind": "line", "x": "month", "y": "revenue"})]


def test_the_verb_may_follow_a_choice() -> None:
    given = {"left": "orders", "right": "customers", "on": "customer_id", "how": "left"}
    assert called(FRAME, "left join orders with customers on customer_id") == [("merge_tables", given)]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (
            "train bert-base on imdb for 5 epochs",
            [("start_training", {"model": "bert-base", "dataset": "imdb", "epochs": 5})],
        ),
        (
            "train gpt2 on wikitext with lr 3e-5",
            [("start_training", {"model": "gpt2", "dataset": "wikitext", "learning_rate": 3e-5})],
        ),
        ("start a training of resnet50 on cifar10", [("start_training", {"model": "resnet50", "dataset": "cifar10"})]),
        ("evaluate qwen2.5-7b on gsm8k", [("evaluate_model", {"model": "qwen2.5-7b", "benchmark": "gsm8k"})]),
        (
            "evaluate phi-3-mini on mmlu and gsm8k",
            [("evaluate_model", {"model": "phi-3-mini", "benchmark": b}) for b in ("mmlu", "gsm8k")],
        ),
    ],
)
def test_models_and_their_data_are_names(text: str, calls: list[Any]) -> None:
    assert called(LEARNING, text) == calls


PICKUP = tool(
    "schedule_pickup",
    ["address", "date", "window"],
    address=about("street and city"),
    date=TEXT,
    window={"enum": ["morning", "afternoon"]},
)


@pytest.mark.parametrize(
    ("text", "address", "date"),
    [
        ("Please schedule a pickup at Torstrasse 12, Berlin on 2025-03-14 in the morning", "Torstrasse 12, Berlin", ""),
        ("schedule a pickup at Lindenallee 44 on 2025-03-14 in the morning", "Lindenallee 44", ""),
        ("schedule a pickup at Via Roma 7, Milano on Friday morning", "Via Roma 7, Milano", "Friday"),
        ("pickup at Hauptstrasse 5, Munich tomorrow morning", "Hauptstrasse 5, Munich", "tomorrow"),
    ],
)
def test_the_number_of_a_house_may_follow_its_street(text: str, address: str, date: str) -> None:
    given = {"address": address, "date": date or "2025-03-14", "window": "morning"}
    assert called([PICKUP], text) == [("schedule_pickup", given)]


def follow_up(first: str, arguments: str, result: str, text: str) -> Answer | None:
    """What is read after a call of the first of three tools."""
    call = {"id": "a", "type": "function", "function": {"name": "get_metric", "arguments": arguments}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": first},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": result},
        {"role": "assistant", "content": "Here it is."},
        {"role": "user", "content": text},
    ]
    return read(prompt([METRIC, SCALE, TOOLS["group"]], messages))


def test_the_same_for_another_value_is_the_same_tool() -> None:
    given = '{"service": "cart-service", "metric": "error_rate"}'
    answer = follow_up("error rate of cart-service", given, "0.4", "same for inventory-service please")
    assert answer is not None
    assert answer.calls == [("get_metric", {"service": "inventory-service", "metric": "error_rate"})]


@pytest.mark.parametrize(
    ("text", "cities"),
    [
        ("How about London?", ["London"]),
        ("what about San Francisco?", ["San Francisco"]),
        ("and how about Rome and Milan?", ["Rome", "Milan"]),
    ],
)
def test_how_about_another_value_is_no_question_for_a_search(text: str, cities: list[str]) -> None:
    tools = [tool("get_temperature", ["city"], city=TEXT), tool("web_search", ["query"], query=TEXT)]
    call = {"name": "get_temperature", "arguments": '{"city": "Oslo"}'}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "What is the temperature in Oslo?"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "a", "content": "22"},
        {"role": "assistant", "content": "It is 22 degrees in Oslo."},
        {"role": "user", "content": text},
    ]
    answer = read(prompt(tools, messages))
    assert answer is not None
    assert answer.calls == [("get_temperature", {"city": city}) for city in cities]


@pytest.mark.parametrize(("text", "name"), [("which one is the highest?", "Boston"), ("which is lowest?", "Chicago")])
def test_a_result_of_numbers_says_which_is_the_highest(text: str, name: str) -> None:
    result = '{"Austin": 18200, "Boston": 25750, "Chicago": 9900}'
    answer = follow_up("cpu of the stores", '{"service": "stores", "metric": "cpu"}', result, text)
    assert answer is not None
    assert not answer.calls
    assert name in answer.words
    assert "Austin" not in answer.words


def test_an_order_that_shares_no_word_with_a_tool_is_declined() -> None:
    answer = read(prompt([METRIC, TOOLS["branch"]], [{"role": "user", "content": "book me a table for two tonight"}]))
    assert answer is not None
    assert not answer.calls
    assert "none of the tools" in answer.words
