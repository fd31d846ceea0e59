"""Markers with fields: names between quotes, names that are repeated, tags in any case."""

from typing import Any

import pytest

from unspool import Message, list_dialects, parse, render
from unspool.dialect.patterns import MORE, NO
from unspool.dialect.patterns import pattern as pattern_of
from unspool.dialect.template import Field, pieces

from ..support import alike, calling, dialect_of, function_call, tool


def tools(*names: str) -> list[dict[str, Any]]:
    return [tool(name) for name in names]


def both_ways(text: str, dialect: Any, **options: Any) -> Message:
    """The message, which must be the same for the whole text and for single characters."""
    return alike(dialect, text, [list(text)], **options)


# -- names of tags ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["name", "key"])
def test_the_name_of_a_tag_neither_begins_as_an_end_tag_does_nor_contains_another_tag(field: str) -> None:
    pattern = pattern_of(("<", Field(field), ">"))
    assert [pattern.match(text, 0, {}) for text in ("<a>", "<a/b>", "</a>", "<<a>", "<a")] == [3, 5, NO, NO, MORE]
    assert [pattern.match(text, 0, {}) for text in ("<", "</", "</a", "<<a", "< /a>")] == [MORE, NO, NO, NO, NO]


# -- names between quotes ---------------------------------------------------------------------------------------------

QUOTED = [d for d in list_dialects() if d.call and d.call[0].object is None and '="{name}"' in d.call[0].text]


@pytest.mark.parametrize("dialect", QUOTED, ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["a&b", "a&amp;b", "a<b", 'say "hi"', "&lt;", "a b", "x' y", "日本"])
def test_a_declared_name_between_quotes_may_hold_any_characters(dialect: Any, name: str) -> None:
    text = render(calling(function_call(name), function_call("f")), dialect, tools=tools(name, "f"))
    read = both_ways(text, dialect, tools=tools(name, "f"))
    assert [(c.name, c.known, c.status) for c in read.tool_calls] == [(name, True, "ok"), ("f", True, "ok")]


@pytest.mark.parametrize("written", ["a&b", "a&amp;b"])
def test_an_ampersand_between_quotes_is_read_escaped_or_not(written: str) -> None:
    text = f'<tool_call>\n<invoke name="{written}">\n</invoke></tool_call>'.replace("tool_call", "minimax:tool_call")
    assert [c.name for c in both_ways(text, "minimax-m2", tools=tools("a&b")).tool_calls] == ["a&b"]


def test_a_name_with_odd_characters_is_a_call_only_if_it_is_declared() -> None:
    text = '<minimax:tool_call>\n<invoke name="$FUNCTION_NAME">\n</invoke>\n</minimax:tool_call>'
    for given in (None, tools("f")):
        assert both_ways(text, "minimax-m2", tools=given).tool_calls == []


def test_a_quoted_field_ends_at_its_quote() -> None:
    pattern = pattern_of(tuple(pieces('<f n="{name}">')))
    fields: dict[str, str] = {}
    assert pattern.match('<f n="a b">', 0, fields) == 11
    assert fields["name"] == "a b"
    for rest, end in (('a" x="b">', NO), ('">', NO), ('a\nb">', NO), ("a", MORE), ("a" * 2000, NO)):
        assert pattern.match(f'<f n="{rest}', 0, {}) == end, rest


# -- names that are repeated ------------------------------------------------------------------------------------------

MUSE = """ to={to}<|message|><atem:function_calls>
<atem:invoke name="{name}">
</atem:invoke>
</atem:function_calls><|eot|>"""


@pytest.mark.parametrize(
    ("to", "name", "declared", "read"),
    [
        ("echo", "echo", ["echo"], "echo"),
        ("echo.echo", "echo.echo", ["echo"], "echo"),
        ("echo", "echo.echo", ["echo"], "echo"),
        ("echo.echo", "echo", ["echo"], "echo"),
        ("echo.echo", "echo.echo", ["echo.echo"], "echo.echo"),
        ("echo.echo", "echo.echo", ["echo", "echo.echo"], "echo.echo"),
        ("files.read", "files.read", ["files.read"], "files.read"),
        ("files.read", "files.read", ["read"], "read"),
    ],
)
def test_a_doubled_name_is_the_bare_tools_name_if_that_is_declared(
    to: str, name: str, declared: list[str], read: str
) -> None:
    text = MUSE.replace("{to}", to).replace("{name}", name)
    assert [c.name for c in both_ways(text, "muse", tools=tools(*declared)).tool_calls] == [read]


def test_a_name_ends_at_white_space_before_a_word() -> None:
    fields: dict[str, str] = {}
    pattern = pattern_of(("Action: ", Field("name"), "\nAction Input: "))
    assert pattern.match("Action: get-Action\nAction Input: {", 0, fields) == len("Action: get-Action\nAction Input:")
    assert fields == {"name": "get-Action"}


@pytest.mark.parametrize("literal", [".call(", ":{", "-run!", "/>"])
def test_a_literal_after_a_name_may_begin_with_characters_of_names_and_go_on_with_others(literal: str) -> None:
    pattern = pattern_of((Field("name"), literal))
    for name in ("f", "get_weather", f"a{literal[0]}b", f"a{literal[:-1]}"):
        fields: dict[str, str] = {}
        text = f"{name}{literal}"
        assert pattern.match(f"{text} x", 0, fields) == len(text)
        assert fields == {"name": name}
        assert all(pattern.match(text[:cut], 0, {}) == MORE for cut in range(len(text)))
    assert pattern.match(f"f{literal[:-1]} x", 0, {}) == NO
    assert pattern.match("f x", 0, {}) == NO


def test_a_method_that_calls_a_tool_is_read_by_its_name() -> None:
    dialect = dialect_of('calls = "<run>{calls}"\ncall = "{name}.call({arguments})"\narguments = "python"')
    text = "Sure.<run>get_weather.call(city='Paris')"
    for given in (None, tools("get_weather")):
        read = both_ways(text, dialect, tools=given)
        assert [(c.name, c.arguments) for c in read.tool_calls] == [("get_weather", '{"city": "Paris"}')]
        assert read.content == "Sure."


def test_a_repeated_name_must_be_equal() -> None:
    pattern = pattern_of(tuple(pieces("to={name}|{name}.{name};")))
    fields: dict[str, str] = {}
    assert pattern.match("to=a|a.a;", 0, fields) == 9
    assert fields["name"] == "a"
    assert pattern.match("to=a|a.b;", 0, {}) == NO
    assert pattern.match("to=a|a", 0, {}) == MORE


@pytest.mark.parametrize(
    ("header", "name", "id"),
    [
        ("functions.f.0", "f", "functions.f:0"),
        ("functions.f:0", "f", "functions.f:0"),
        ("functions.f", "f", "functions.f:0"),
        ("f:0", "f", "functions.f:0"),
        ("functions.a.b:2", "a.b", "functions.a.b:2"),
        ("functions.a.b.2", "a.b", "functions.a.b:2"),
        ("functions.v.2", "v.2", "functions.v.2:0"),
    ],
)
def test_the_most_literal_header_wins_unless_it_takes_a_declared_name_apart(header: str, name: str, id: str) -> None:
    text = f"<|tool_call_begin|>{header}<|tool_call_argument_begin|>{{}}<|tool_call_end|>"
    declared = tools("f", "a.b", "v.2")
    (call,) = parse(text, "kimi_k2", tools=declared).tool_calls
    assert (call.name, call.id) == (name, id)
    assert both_ways(text, "kimi_k2", tools=declared).tool_calls[0].name == name


# -- tags in any case -------------------------------------------------------------------------------------------------

TAGGED = [d for d in list_dialects() if d.reasoning and d.reasoning[0].before[0] == "<think>" and not d.framed]


@pytest.mark.parametrize("dialect", TAGGED, ids=lambda d: d.name)
@pytest.mark.parametrize(
    ("opening", "end"), [("<tHink>", "</THINK>"), ("<Think>", "</think>"), ("<think>", "</Think>")]
)
def test_tags_of_reasoning_are_read_in_any_case(dialect: Any, opening: str, end: str) -> None:
    read = both_ways(f"{opening}plan{end}answer", dialect, stage="content")
    assert (read.reasoning, read.content) == ("plan", "answer")


@pytest.mark.parametrize("text", ["<thinK>plan", "<THINKS>plan", "<TOOL_CALL>x", "<ThinK", "< think>plan"])
def test_markers_other_than_reasoning_tags_are_case_sensitive(text: str) -> None:
    text = text.replace("K", "\u212a") if text == "<thinK>plan" else text  # KELVIN SIGN is not a k
    read = both_ways(text, "hermes", tools=tools("f"))
    assert (read.reasoning, read.content, read.tool_calls) == ("", text, [])


def test_a_tag_with_characters_other_than_letters_is_case_sensitive() -> None:
    d = dialect_of('reasoning = "<a_b>{reasoning}</a_b>"')
    assert both_ways("<a_b>plan</a_b>x", d).reasoning == "plan"
    assert both_ways("<A_B>plan", d).content == "<A_B>plan"
