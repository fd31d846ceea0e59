"""The renderer writes what a family's template writes and what can be read back; it names what it refuses."""

import json
import random
import re
import time
from functools import cache
from typing import Any

import msgspec
import pytest

import unspool
from tests.support import CALLING, DIALECTS, THINKING, dialect_of, named
from unspool import Dialect, DialectError, Message, Policy, Stage, ToolCall, render
from unspool.check.promises import stands_out
from unspool.dialect.template import unstarted
from unspool.renderer.values import Number, Value, declare, read_json

Call = tuple[str, dict[str, Any]]


def message(reasoning: str = "", content: str = "", *calls: Call) -> dict[str, Any]:
    """An OpenAI assistant message."""
    message: dict[str, Any] = {"role": "assistant", "content": content or None}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [
            {"type": "function", "function": {"name": n, "arguments": json.dumps(a, ensure_ascii=False)}}
            for n, a in calls
        ]
    return message


def arguments_of(message: dict[str, Any]) -> list[tuple[str, Value]]:
    """Names and arguments, numbers digit for digit."""
    functions = [c["function"] for c in message.get("tool_calls", [])]
    return [(f["name"], read_json(f["arguments"])) for f in functions]


def assert_reads_back(message: dict[str, Any], text: str, dialect: Dialect | str, **options: Any) -> None:
    read = unspool.parse(text, dialect, **options)
    assert read.reasoning == (message.get("reasoning_content") or "")
    assert read.content == (message.get("content") or "")
    assert [(c.name, read_json(c.arguments)) for c in read.tool_calls] == arguments_of(message)
    assert {c.status for c in read.tool_calls} <= {"ok"}


# -- what is written ---------------------------------------------------------------------------------------------------


def test_json_arguments_keep_their_own_bytes() -> None:
    call = {"function": {"name": "f", "arguments": '{"b":1e-07,\n "a" : 1180591620717411303424}'}}
    assert '{"b":1e-07,\n "a" : 1180591620717411303424}' in render({"tool_calls": [call]}, "hermes")


def test_numbers_are_written_digit_for_digit_where_arguments_are_not_json() -> None:
    call = {"function": {"name": "f", "arguments": '{"a": 1e-07, "b": [1180591620717411303424, 1.10]}'}}
    assert "f(a=1e-07, b=[1180591620717411303424, 1.10])" in render({"tool_calls": [call]}, "pythonic")
    assert "{a:1e-07,b:[1180591620717411303424,1.10]}" in render({"tool_calls": [call]}, "gemma4")
    assert "\n[1180591620717411303424, 1.10]\n" in render({"tool_calls": [call]}, "qwen3-coder")


def test_python_strings_stand_in_single_quotes() -> None:
    written = render(message("", "", ("f", {"text": 'it\'s \\ "é"\n', "ok": True, "no": None})), "pythonic")
    assert written == "[f(text='it\\'s \\\\ \"é\"\\n', ok=True, no=None)]"


def test_a_quote_in_a_quoted_key_is_an_entity() -> None:
    written = render(message("", "", ("f", {'a"b': "x", "&amp;": "y", "a&b": "z"})), "deepseekv32")
    assert 'name="a&quot;b"' in written
    assert 'name="&amp;amp;"' in written
    assert 'name="a&amp;b"' in written


def test_values_nest_where_the_dialect_has_items() -> None:
    written = render(message("", "", ("f", {"a": [{"b": "x"}, {"b": "y"}]})), "minimax-m3")
    n = "]<]minimax[>["
    one, two = (f"{n}<item>{n}<b>{v}{n}</b>{n}</item>" for v in "xy")
    assert f"{n}<a>{one}{two}{n}</a>" in written


@pytest.mark.parametrize("separator", ["\n", ", ", ";", " | "])
def test_members_of_an_object_that_nests_are_separated_as_arguments_are(separator: str) -> None:
    keys = 'call = "<f {name}>{arguments}</f>"\nargument = "<a {key}>{value}</a>"\nitem = "<i>{value}</i>"'
    dialect = dialect_of(f"{keys}\nseparator.arguments = {json.dumps(separator)}")
    values = {"a": {"b": "x", "c": [{"d": "z", "e": "v"}]}, "g": "w"}
    written = render(message("", "", ("f", values)), dialect)
    inner = separator.join(["<a c><i><a d>z</a>", "<a e>v</a></i></a>"])
    assert written == separator.join(["<f f><a a><a b>x</a>", f"{inner}</a>", "<a g>w</a></f>"])
    assert json.loads(unspool.parse(written, dialect).tool_calls[0].arguments) == values


@pytest.mark.parametrize(
    ("value", "kind"), [
        ("x", "string"), (1, "number"), (1.5, "number"), (True, "boolean"), (None, "null"), ([1], "array"),
        ({}, "object"),
    ],
)  # fmt: skip
def test_a_type_is_written_beside_the_value(value: Any, kind: str) -> None:
    assert f'type="{kind}"' in render(message("", "", ("f", {"a": value})), "kimi_k3")


def test_a_later_alternative_is_written_where_the_first_does_not_fit() -> None:
    nasty = 'a</param><param name="b">'
    written = render(message("", "", ("f", {"a": nasty, "c": "plain"})), "minicpm5")
    assert f"<![CDATA[{nasty}]]>" in written
    assert '<param name="c">plain</param>' in written


def test_a_key_that_is_no_keyword_takes_an_alternative_without_keywords() -> None:
    written = render(message("", "", ("f", {"not=a name": 1})), "lfm2")
    assert written == '<|tool_call_start|>[{"name": "f", "arguments": {"not=a name": 1}}]<|tool_call_end|>'


def test_a_bare_array_after_content_takes_a_marked_alternative() -> None:
    call: Call = ("now", {})
    assert render(message("", "", call), "xlam").startswith("[{")
    assert render(message("", "Sure.", call), "xlam") == 'Sure.[TOOL_CALLS] [{"name": "now", "arguments": {}}]'


def test_margins_collapse_to_the_longer_one() -> None:
    d = "qwen3-coder"
    assert "</think>\n\nanswer" in render(message("plan", "answer"), d)
    assert "</think>\n\n<tool_call>" in render(message("plan", "", ("f", {})), d)
    assert render(message("", "", ("f", {})), d).startswith("<tool_call>")


# -- what is taken -----------------------------------------------------------------------------------------------------


def test_content_may_be_a_list_of_text_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert render({"role": "assistant", "content": parts}, "hermes") == "ab"


@pytest.mark.parametrize(
    "field",
    [
        {"reasoning_content": "plan"},
        {"reasoning": "plan"},
        {"reasoning_content": None, "reasoning": "plan"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "plan"}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "plan"}]},
    ],
    ids=lambda f: "-".join(f),
)
def test_reasoning_is_taken_from_every_usual_field(field: dict[str, Any]) -> None:
    assert render({"content": "answer", **field}, "deepseekv31") == "<think>plan</think>answer"


@pytest.mark.parametrize("arguments", [None, "", "  ", "{}", {}], ids=repr)
def test_missing_arguments_are_an_empty_object(arguments: Any) -> None:
    assert '"arguments": {}' in render({"tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}, "hermes")


def test_an_index_is_taken_from_an_id_that_fits() -> None:
    def one_message(*ids: str) -> dict[str, Any]:
        return {"tool_calls": [{"id": i, "function": {"name": "f", "arguments": "{}"}} for i in ids]}

    assert re.findall(r"functions\.f:(\d+)", render(one_message("functions.f:7", "functions.f:9"), "kimi_k2")) == [
        "7",
        "9",
    ]
    assert re.findall(r"functions\.f:(\d+)", render(one_message("call_1", "functions.g:9"), "kimi_k2")) == ["0", "1"]
    assert re.findall(r'index="(\d+)"', render(one_message("f:4", ""), "kimi_k3")) == ["5", "2"]
    assert re.findall(r'"tool_call_id": "(.*?)"', render(one_message("call_x", ""), "cohere_command3")) == [
        "call_x",
        "1",
    ]


def test_no_two_calls_are_written_with_one_id() -> None:
    calls = [
        {"id": i, "function": {"name": "f", "arguments": "{}"}} for i in ("functions.f:1", "", None, "functions.f:2")
    ]
    written = render({"tool_calls": calls}, "kimi_k2")
    assert re.findall(r"functions\.f:(\d+)", written) == ["1", "3", "4", "2"]
    assert len({c.id for c in unspool.parse(written, "kimi_k2").tool_calls}) == 4


def test_no_two_calls_are_given_the_same_random_letters() -> None:
    dialect = dialect_of("id = '?'\ncall = '<call>{id}<c>{name} {arguments}</c>'")
    written = render(message("", "", *([("f", {})] * 30)), dialect)
    assert len({*re.findall("<call>(.)<c>", written)}) == 30


@pytest.mark.parametrize("name", ["deepseek", "deepseek-r1"])
def test_a_marker_that_would_end_a_string_is_escaped(name: str) -> None:
    arguments = {"a": "x<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "b<|tool▁call▁end|>": "\\<｜tool▁call▁end｜>"}
    turn = message("", "", ("f", arguments))
    written = render(turn, name)
    assert written.count("<｜tool▁call▁end｜>") == 1
    assert "\\\\\\u003c｜tool▁call▁end｜>" in written
    assert_reads_back(turn, written, name)


def test_ids_are_made_by_the_dialects_template() -> None:
    d = unspool.get_dialect("mistral")
    marked = d.call[1]
    own = msgspec.structs.replace(d, call=(marked,))
    assert re.search(r'"id": "[A-Za-z0-9]{9}"', render(message("", "", ("f", {})), own))


# -- where the text begins ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(THINKING))
def test_in_reasoning_the_opening_is_not_written(dialect: Dialect) -> None:
    turn = message("plan", "answer")
    whole, rest = render(turn, dialect), render(turn, dialect, stage=Stage.REASONING)
    assert whole.endswith(rest)
    assert rest.startswith("plan")
    assert_reads_back(turn, rest, dialect, stage="reasoning")


@pytest.mark.parametrize(**named(CALLING))
def test_in_a_block_of_calls_its_opening_is_not_written(dialect: Dialect) -> None:
    turn = message("", "", ("get_weather", {"city": "Paris"}), ("now", {}))
    if "{id}" in dialect.call[0].text and "?" in dialect.id:
        for call, letter in zip(turn["tool_calls"], "ab", strict=True):
            call["id"] = dialect.id.replace("?", letter)
    whole, rest = render(turn, dialect), render(turn, dialect, stage="tool_call")
    assert whole.endswith(rest)
    opening = unstarted(dialect.calls[0].opening, dialect.start).strip()  # the prompt has a start, or its end
    assert whole[: len(whole) - len(rest)].strip() == opening


def test_in_a_block_of_calls_nothing_else_can_be_written() -> None:
    with pytest.raises(DialectError, match=r"^content: .*stage"):
        render(message("", "text", ("f", {})), "hermes", stage="tool_call")
    with pytest.raises(DialectError, match=r"^tool_calls: .*stage"):
        render(message("", ""), "hermes", stage="tool_call")


# -- what is refused ---------------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("functiongemma", message("plan", "x"), "reasoning: dialect 'functiongemma' has no markers"),
    ("kimi", message("", "x", ("f", {})), "tool_calls: dialect 'kimi' has no template"),
    ("deepseek", message("", "Sure.", ("f", {})), r"content: .*policy text_before_tools"),
    ("hermes", message("a</think>b", "x"), "reasoning: the text would not read back: 'a</think>b' becomes 'a'"),
    ("hermes", message("", '<tool_call>\n{"name": "f"}'), "content: the text would not read back"),
    ("gemma4", message("", "", ("f", {"a": '<|"|>,b:1'})), r"tool_calls\[0\]\.arguments"),
    ("gemma4", message("", "", ("f", {"a:b": 1})), r"tool_calls\[0\]\.arguments"),
    ("olmo3", message("", "", ("f", {"not=a name": 1})),
     r"tool_calls\[0\]\.arguments: 'not=a name' cannot be the name of a keyword argument"),
    ("qwen3-coder", message("", "", ("f", {}), ("no name", {})), r"tool_calls\[1\]: .*a call would be content"),
    ("json", message("", "Sure.", ("f", {})), "content: the text would not read back"),
    ("hermes", {"tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]}, "not one JSON object: not an object"),
    ("hermes", {"tool_calls": [{"function": {"name": "f", "arguments": '{"a": 1'}}]}, r"tool_calls\[0\]\.arguments"),
    ("hermes", {"tool_calls": [{"function": {"name": "f", "arguments": '{"a":1,"a":2}'}}]}, "'a' occurs twice"),
    ("hermes", {"tool_calls": [{"function": {"name": "f", "arguments": '{"a": NaN}'}}]}, "NaN is not a JSON number"),
    ("hermes", {"tool_calls": [{"function": {"name": "f", "arguments": {"a": float("nan")}}}]}, "arguments"),
    ("hermes", {"tool_calls": [{"function": {"name": "f", "arguments": 3}}]}, "not an object but int"),
    ("hermes", {"tool_calls": [{"function": {"arguments": "{}"}}]}, r"tool_calls\[0\]\.name"),
    ("hermes", {"tool_calls": [{"id": 3, "function": {"name": "f"}}]}, r"tool_calls\[0\]\.id"),
    ("hermes", {"tool_calls": [{"type": "custom", "custom": {"name": "f"}}]},
     r"tool_calls\[0\]: must be a function call"),
    ("hermes", {"tool_calls": [{"function": "f"}]}, r"tool_calls\[0\]\.function"),
    ("hermes", {"tool_calls": "f"}, "tool_calls: must be a list"),
    ("hermes", {"function_call": {"name": "f"}}, "function_call"),
    ("hermes", {"tool_calls": [{"id": "x", "function": {"name": n}} for n in "fg"]},
     r"tool_calls\[1\]\.id: 'x' is already the id"),
    ("hermes", message("", "a <think>b"), "content: the text would not read back: part of it would be reasoning: 'b'"),
    ("hermes", message("", "a</think>b"), "content: the text would not read back: 'a</think>b' becomes 'ab'"),
    ("hermes", message("", "a</tool_call>b"), "content: the text would not read back"),
    ("kimi_k2", message("", "see `a", ("f", {})), "content: the text would not read back|a call would be content"),
    ("qwen3-coder", message("", "", ("f", {"a": "x\n<parameter=b>\ny", "b": "z"})), r"tool_calls\[0\]\.arguments\.a"),
    ("hermes", {"role": "user", "content": "x"}, "role: is 'user'"),
    ("hermes", {"content": 3}, "content: must be a string or a list"),
    ("hermes", {"content": [{"type": "image_url"}]}, r"content\[0\]: must be a text part"),
    ("hermes", {"reasoning_details": "x"}, "reasoning_details: must be a list"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "message", "error"), REFUSED, ids=[f"{i}-{r[0]}" for i, r in enumerate(REFUSED)])
def test_a_message_that_cannot_be_expressed_names_the_field(name: str, message: dict[str, Any], error: str) -> None:
    with pytest.raises(DialectError, match=error):
        render(message, name)


@pytest.mark.parametrize("name", ["hermes", "qwen3-coder", "pythonic", "gemma4", "kimi_k3"])
def test_values_nested_too_deep_are_refused(name: str) -> None:
    def one_message(depth: int) -> dict[str, Any]:
        text = '{"a": ' + "[" * (depth - 1) + "]" * (depth - 1) + "}"
        return {"tool_calls": [{"function": {"name": "f", "arguments": text}}]}

    assert_reads_back(one_message(512), render(one_message(512), name), name, tools=[{"function": {"name": "f"}}])
    for depth in (513, 100_000):
        with pytest.raises(DialectError, match="nested deeper than 512"):
            render(one_message(depth), name)


def test_a_dict_that_holds_itself_is_refused() -> None:
    inner: dict[str, Any] = {}
    inner["a"] = inner
    with pytest.raises(DialectError, match="arguments"):
        render({"tool_calls": [{"function": {"name": "f", "arguments": inner}}]}, "hermes")


def test_a_failed_call_of_a_message_is_refused() -> None:
    broken = Message(tool_calls=[ToolCall(0, "x", "f", '{"a": 1', "incomplete")])
    with pytest.raises(DialectError, match=r"tool_calls\[0\]\.arguments: not one JSON object"):
        render(broken, "hermes")


def test_a_value_that_the_schema_reads_otherwise_is_refused() -> None:
    tools = [{"function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}}]
    with pytest.raises(
        DialectError, match=r"^tool_calls\[0\]\.arguments\.a: the text would not read back: '1' becomes"
    ):
        render(message("", "", ("f", {"a": 1})), "qwen3-coder", tools=tools)


def test_the_renderer_reads_by_the_dialects_own_policy() -> None:
    d = unspool.get_dialect("hermes")
    between = Policy(text_before_tools="content").over(d.policy)
    strict = msgspec.structs.replace(d, policy=between)
    with pytest.raises(DialectError, match=r"^content: .*policy"):
        render(message("", "Sure.", ("f", {})), strict)


# -- round trip --------------------------------------------------------------------------------------------------------

WORDS = ["the", "quick", "fox,", "über", "Zürich", "jumps;", "x<4", "&", "[sic]", "北京", "says", "it's", "fine."]
SEEDS = 20
"""How many messages are drawn for each dialect, the same in every run."""


def tame_text(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 8)))


def tame_value(rng: random.Random, depth: int = 0) -> Any:
    roll = rng.randrange(8 if depth < 3 else 6)
    if roll < 3:
        return tame_text(rng)
    if roll == 3:
        return rng.choice([rng.randint(-(10**6), 10**6), rng.randint(0, 2**70)])
    if roll < 6:
        return rng.choice([True, False, 1e-07, 0.5, -3.25])
    values = [tame_value(rng, depth + 1) for _ in range(rng.randint(1, 3))]
    return values if roll == 6 else dict(zip(rng.sample(["a", "b_c", "key"], len(values)), values, strict=True))


def tame_call(rng: random.Random) -> Call:
    keys = rng.sample(["city", "days", "max_items", "q"], rng.randint(0, 4))
    return rng.choice(["get_weather", "now", "search-web"]), {key: tame_value(rng) for key in keys}


UNMARKED = {d.name for d in CALLING if not stands_out(d)}
"""Dialects whose calls are text after prose, because no marker distinguishes them."""


@pytest.mark.parametrize(**named(DIALECTS))
def test_plain_words_and_calls_are_never_refused(dialect: Dialect) -> None:
    rng = random.Random(dialect.name)
    for _ in range(SEEDS):
        reasoning, content = (rng.choice(["", tame_text(rng)]) for _ in range(2))
        calls = [tame_call(rng) for _ in range(rng.randint(0, 3) if dialect.call else 0)]
        if calls and (dialect.policy.text_before_tools == "content" or dialect.name in UNMARKED):
            content = ""
        if dialect.codec.name == "python":
            calls = [(n.replace("-", "_"), a) for n, a in calls]
        turn = message(reasoning if dialect.reasoning else "", content, *calls)
        assert_reads_back(turn, render(turn, dialect), dialect, tools=_tools(calls))


def _tools(calls: list[Call]) -> list[dict[str, Any]] | None:
    return declare((n, read_json(json.dumps(a))) for n, a in calls) if calls else None  # type: ignore[misc]


MARKS = [
    "<", ">", "</", "{", "}", "[", "]", "'", '"', "\\", "\n", " ", "\t", "```", "|", "<|", ",", ":", ";", "&quot;",
    "null", "1", "é", "\x00", "\u2028", "😀",
]  # fmt: skip


@cache
def marks(dialect: Dialect) -> list[str]:
    """The markers of the dialect, and those of other syntaxes."""
    templates = (*dialect.reasoning, *dialect.content, *dialect.calls, *dialect.call, *dialect.argument)
    own = {p for t in templates for p in re.split(r"\{[a-z]+\}", t.text) if p} | {*dialect.end, *dialect.start}
    return [*MARKS, *sorted(own), dialect.codec.quote]


PLANES = [(0, 0x80), (0x80, 0x800), (0x800, 0xD800), (0xE000, 0x10000), (0x10000, 0x110000)]
"""Code points by the number of their bytes in UTF-8, without surrogates."""


def nasty_text(dialect: Dialect, rng: random.Random) -> str:
    """Text made of `marks` and of any other characters."""
    pieces = []
    for _ in range(rng.randrange(7)):
        anything = "".join(chr(rng.randrange(*rng.choice(PLANES))) for _ in range(rng.randrange(6)))
        pieces.append(rng.choice(marks(dialect)) if rng.random() < 0.7 else anything)
    return "".join(pieces)


def nasty_value(dialect: Dialect, rng: random.Random, depth: int = 0) -> Any:
    roll = rng.randrange(8 if depth < 3 else 6)
    if roll < 4:
        return nasty_text(dialect, rng)
    if roll < 6:
        return rng.choice([2**70, -(2**53) - 1, 1e-07, -0.0, 1e300, 0, True, False, None])
    values = [nasty_value(dialect, rng, depth + 1) for _ in range(rng.randrange(4))]
    return values if roll == 6 else {nasty_text(dialect, rng): v for v in values}


def nasty_arguments(dialect: Dialect, rng: random.Random) -> dict[str, Any]:
    keys = [rng.choice(["a", "b_c", nasty_text(dialect, rng)]) for _ in range(rng.randrange(4))]
    return {key: nasty_value(dialect, rng) for key in keys}


@pytest.mark.parametrize(**named(DIALECTS))
def test_what_is_written_reads_back_and_the_rest_is_refused(dialect: Dialect) -> None:
    rng = random.Random(dialect.name)
    for _ in range(SEEDS):
        calls = [(rng.choice(["f", "get.it"]), nasty_arguments(dialect, rng)) for _ in range(rng.randrange(5))]
        turn = message(nasty_text(dialect, rng), nasty_text(dialect, rng), *calls)
        stage = rng.choice([None, "content", "reasoning", "tool_call"])
        tools = _tools(calls)
        try:
            written = render(turn, dialect, tools=tools, stage=stage)
        except DialectError as error:
            refusal = str(error)
        else:
            assert_reads_back(turn, written, dialect, tools=tools, stage=stage)
            continue
        assert re.match(r"(reasoning|content|tool_calls)\b.*: ", refusal)


@pytest.mark.parametrize(**named([d for d in CALLING if d.argument_format == "json"]))
def test_any_json_value_is_written_where_arguments_are_json(dialect: Dialect) -> None:
    rng = random.Random(dialect.name)
    for _ in range(SEEDS):
        arguments = nasty_arguments(dialect, rng)
        turn = message("", "", ("f", arguments), ("f", arguments))
        assert_reads_back(turn, render(turn, dialect), dialect, tools=[{"function": {"name": "f"}}])


@pytest.mark.parametrize("value", ['{"a": "x & y"}', '["x"]', "12", '"q"', "&quot;"])
def test_a_string_between_quotes_is_not_escaped(value: str) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {}}}}}]
    turn = message("", "", ("f", {"a": value}))
    assert_reads_back(turn, render(turn, "muse", tools=tools), unspool.get_dialect("muse"), tools=tools)


def test_many_calls_are_written_in_linear_time() -> None:
    def seconds(n: int) -> float:
        turn = message("", "", *(("f", {"path": "a" * 20, "text": "</param>" * 3}) for _ in range(n)))
        begin = time.process_time()
        render(turn, "minicpm5")
        return time.process_time() - begin

    assert min(seconds(200) for _ in range(3)) < 3.5 * min(seconds(100) for _ in range(3))


# -- values ------------------------------------------------------------------------------------------------------------


def test_numbers_are_equal_only_digit_for_digit() -> None:
    assert read_json("[1, 1.0, 10]") == [Number("1"), Number("1.0"), Number("10")]
    assert read_json("1.0") != read_json("1.00")
    assert read_json("1") != read_json("true")
    assert read_json('"1"') != read_json("1")
