"""Traps that some engine fails today, each over the dialects where it applies."""

import json
from typing import Any

import pytest

from unspool import ContentDelta, Dialect, Parser, Policy, get_dialect

from .support import (
    CALLING,
    DIALECTS,
    THINKING,
    cases,
    literals,
    named,
    notices,
    number,
    random_split,
    run,
    same,
    tool,
    tools_of,
    values,
)
from .writing import write_argument_text, write_arguments, write_call, write_calls, write_content, write_reasoning

TOOLS = [tool("f", a="string", b="string", n="integer"), tool("g", a="string"), tool("now")]
JSON_LIKE = [d for d in CALLING if not d.argument]
VERBATIM = [d for d in JSON_LIKE if d.quote == '"' and (d.codec == "json" or d.call[0].object)]
PYTHON = [d for d in CALLING if d.codec == "python" and d.call[0].object is None]
XML = [d for d in CALLING if d.argument]
UNTYPED = [d for d in XML if "{string}" not in d.argument[0].text and "{type}" not in d.argument[0].text]
KEEPING = [d for d in CALLING if d.policy.text_before_tools != "content"]
BARE = [d for d in CALLING if not any(c.isalnum() for c in "".join(p for p in d.calls[0].before if isinstance(p, str)))]
MARKED = [d for d in CALLING if d.call[0].object is None or d not in BARE]
PLAIN = [d for d in DIALECTS if not any(t.before for t in d.content)]
"""Dialects whose content stands bare."""

Calls = list[tuple[str, Any]]


def ways(raw: str) -> list[list[str]]:
    """Whole, and one character at a time."""
    return [[raw], list(raw)] if raw else [[]]


def assert_calls(dialect: Dialect, raw: str, calls: Calls, content: str = "", **options: Any) -> None:
    """In both ways a raw text means calls and content, and the calls are ok."""
    for chunks in ways(raw):
        message, _ = run(dialect, chunks, **{"tools": TOOLS, **options})
        assert values(message) == calls, raw
        assert message.content == content, raw
        assert {c.status for c in message.tool_calls} <= {"ok"}, raw


def assert_text(dialect: Dialect | str, text: str, **options: Any) -> None:
    """In both ways a raw text is all content."""
    for chunks in ways(text):
        message, _ = run(dialect, chunks, **{"tools": TOOLS, **options})
        assert (message.content, message.tool_calls, message.reasoning) == (text, [], "")
        assert message.finish_reason == "stop"


# -- where calls stand -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(CALLING))
def test_several_calls_in_one_chunk_are_all_read(dialect: Dialect) -> None:
    calls: Calls = [("f", {"a": "1"}), ("now", {}), ("g", {"a": "2"}), ("f", {"a": "3", "n": 4})]
    parser = Parser(dialect, tools=TOOLS)
    parser.feed(write_calls(dialect, calls))
    assert [c.name for c in parser.message.tool_calls] == ["f", "now", "g", "f"], "before the end is known"
    parser.close()
    assert values(parser.message) == calls


@pytest.mark.parametrize(**named(CALLING))
def test_the_last_call_and_the_end_may_come_in_one_chunk(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("f", {"a": "x"}), ("g", {"a": "y"})])
    for end in ("", *dialect.end):
        for at in (1, len(raw) // 2, len(raw) - 1):
            message, _ = run(dialect, [raw[:at], raw[at:] + end], tools=TOOLS)
            assert values(message) == [("f", {"a": "x"}), ("g", {"a": "y"})], end
            assert (message.content, message.finish_reason) == ("", "tool_calls")


@pytest.mark.parametrize(**named([d for d in KEEPING if d not in BARE]))
def test_several_sections_of_calls_in_one_output_are_read(dialect: Dialect) -> None:
    one = write_calls(dialect, [("f", {"a": "x"})])
    two = write_calls(dialect, [("g", {"a": "y"}), ("now", {})])
    for between in ("", "\n", "\n\n"):
        assert_calls(dialect, one + between + two, [("f", {"a": "x"}), ("g", {"a": "y"}), ("now", {})])


@pytest.mark.parametrize(**named([d for d in KEEPING if d in PLAIN and d not in BARE]))
def test_text_before_between_and_after_calls_is_kept(dialect: Dialect) -> None:
    one = write_calls(dialect, [("f", {"a": "x"})])
    two = write_calls(dialect, [("g", {"a": "y"})])
    calls: Calls = [("f", {"a": "x"}), ("g", {"a": "y"})]
    assert_calls(dialect, f"Before.{one}", calls[:1], "Before.")
    if dialect.calls[0].after or dialect.call[0].after or dialect.call[0].object:
        assert_calls(dialect, f"{one}After.", calls[:1], "After.")
        assert_calls(dialect, f"Before.{one}Between.{two}After.", calls, "Before.Between.After.")


@pytest.mark.parametrize(**named([d for d in KEEPING if d in PLAIN and d.calls[0].lead]))
def test_white_space_that_the_template_writes_before_calls_is_no_content(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("f", {"a": "x"})])
    lead = dialect.calls[0].lead
    assert_calls(dialect, f"Before.{lead}{raw}", [("f", {"a": "x"})], "Before.")
    assert_calls(dialect, f"Before. {lead}{raw}", [("f", {"a": "x"})], "Before. ")
    assert_calls(dialect, f"Before.\t\n\n\n{lead}{raw}", [("f", {"a": "x"})], "Before.\t\n\n\n")


@pytest.mark.parametrize(**named(THINKING))
def test_a_call_may_follow_reasoning_at_once(dialect: Dialect) -> None:
    if not dialect.call:
        pytest.skip("reasoning only")
    calls: Calls = [("f", {"a": "x"})]
    raw = write_reasoning(dialect, "plan") + write_calls(dialect, calls)
    for chunks in ways(raw):
        message, _ = run(dialect, chunks, tools=TOOLS)
        assert (message.reasoning, message.content, values(message)) == ("plan", "", calls), raw


@pytest.mark.parametrize(**named(CALLING))
def test_calls_without_arguments_are_empty_objects(dialect: Dialect) -> None:
    for n in (1, 2, 5):
        assert_calls(dialect, write_calls(dialect, [("now", {})] * n), [("now", {})] * n)


@pytest.mark.parametrize(**named(CALLING))
def test_white_space_between_markers_is_soft(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("f", {"a": "x", "n": 3}), ("now", {})])
    for end in dialect.end:
        assert_calls(dialect, f"{raw}\n{end}\n", [("f", {"a": "x", "n": 3}), ("now", {})])
    assert_calls(dialect, f"\n\n{raw}\n\n", [("f", {"a": "x", "n": 3}), ("now", {})])


@pytest.mark.parametrize(**named([d for d in CALLING if d.name in ("deepseekv31", "deepseekv3", "kimi_k2", "step3")]))
def test_markers_with_a_common_prefix_are_told_apart_wherever_they_are_cut(dialect: Dialect) -> None:
    calls: Calls = [("f", {"a": "x"}), ("g", {"a": "y"})]
    raw = f"A < b <| c <｜tool▁call{write_calls(dialect, calls)}"
    whole, _ = run(dialect, [raw], tools=TOOLS, ids=number)
    assert values(whole) == calls
    for at in range(len(raw)):
        assert same(run(dialect, [raw[:at], raw[at:]], tools=TOOLS, ids=number)[0]) == same(whole)


# -- plain content that looks like something ---------------------------------------------------------------------------------

LOOKALIKES = [
    "[1, 2, 3]",
    "See [the docs](https://x.y) [1].",
    "```python\nprint([f(a='x')])\n```\n",
    "```json\n{\"a\": 1}\n```",
    "```\nplain\n```",
    '{"a": 1}',
    "{not json",
    '{"name": "Ada", "born": 1815}',
    '{"name": "unknown_tool", "arguments": {}}',
    "{}",
    "{",
    "[",
    "[]",
    "[f",
    "[f]",
    "f(a='x')",
    "a < b && c > d",
    "x <",
    "x </",
    "<",
    "<b>bold</b> &amp; <i>",
    "100% 'quoted' \"text\" \\n \\",
    "tool",
    "function",
    "Use `<` and `[`.",
    "\ufeffBOM",
    "1 <| 2 |> 3",
    "Hello.\n\n",
    " leading",
]  # fmt: skip


@pytest.mark.parametrize(**named(PLAIN))
@pytest.mark.parametrize("text", LOOKALIKES)
def test_plain_content_that_looks_like_syntax_is_kept(dialect: Dialect, text: str) -> None:
    assert_text(dialect, text, stage="content")
    if dialect.call and not dialect.policy.text_before_tools:
        calls: Calls = [("g", {"a": "y"})]
        raw = write_calls(dialect, calls)
        if dialect not in BARE and not any(text.endswith(e[: len(text)]) for e in literals(dialect) if text):
            for chunks in ways(f"{text}. {raw}"):
                message, _ = run(dialect, chunks, tools=TOOLS, stage="content")
                assert values(message) == calls
                assert message.content.rstrip() == f"{text}."


@pytest.mark.parametrize(**named(DIALECTS))
def test_a_lone_angle_bracket_at_the_end_is_content(dialect: Dialect) -> None:
    for text in ("a <", "a <|", "1 [", "a ```", "a </", "a {"):
        for chunks in ways(text):
            message, _ = run(dialect, chunks, tools=TOOLS, stage="content")
            assert message.content == text


@pytest.mark.parametrize(**named(DIALECTS))
def test_the_beginning_of_a_marker_at_the_end_is_content(dialect: Dialect) -> None:
    for literal in literals(dialect):
        for at in range(1, len(literal)):
            text = f"Well then. {literal[:at]}"
            message, _ = run(dialect, [text], tools=TOOLS, stage="content", finish_reason="length")
            if literal[:at] not in literals(dialect) and not any(e in text for e in dialect.end):
                assert message.content.startswith("Well then."), text
                assert "".join(c.name for c in message.tool_calls) == "", text


@pytest.mark.parametrize(**named(THINKING))
def test_a_second_closing_of_reasoning_is_text(dialect: Dialect) -> None:
    closing = write_reasoning(dialect, "X").split("X")[1].strip()
    if any(closing.startswith(e) for e in dialect.end) or dialect.framed:
        pytest.skip("the closing of reasoning ends any part")
    raw = f"plan{closing}one {closing} two"
    for chunks in ways(raw):
        message, _ = run(dialect, chunks, stage="reasoning", tools=TOOLS)
        assert (message.reasoning, message.content) == ("plan", f"one {closing} two")


@pytest.mark.parametrize(**named([d for d in THINKING if not d.framed]))
def test_an_opening_of_reasoning_inside_content_is_text(dialect: Dialect) -> None:
    opening, closing = (p.strip() for p in write_reasoning(dialect, "X").split("X"))
    assert_text(dialect, f"Write {opening} first, then {closing}.", stage="content")


@pytest.mark.parametrize(**named([d for d in THINKING if not d.framed]))
def test_an_opening_echoed_at_the_start_of_reasoning_is_a_marker(dialect: Dialect) -> None:
    raw = write_reasoning(dialect, "plan") + write_content(dialect, "answer")
    for chunks in ways(raw):
        message, _ = run(dialect, chunks, stage="reasoning", tools=TOOLS)
        assert (message.reasoning, message.content) == ("plan", "answer")


@pytest.mark.parametrize(**named([d for d in THINKING if d.call and not d.framed and d not in BARE]))
def test_reasoning_may_open_again_behind_a_call(dialect: Dialect) -> None:
    calls: Calls = [("f", {"a": "x"})]
    raw = write_reasoning(dialect, "one") + write_calls(dialect, calls) + write_reasoning(dialect, "two")
    for chunks in ways(raw):
        message, _ = run(dialect, chunks, tools=TOOLS)
        assert (message.reasoning, message.content, values(message)) == ("onetwo", "", calls), raw
        assert [s.kind for s in message.segments] == ["reasoning", "tool_call", "reasoning"]


@pytest.mark.parametrize(**named([d for d in THINKING if not d.framed]))
def test_reasoning_may_open_again_behind_reasoning(dialect: Dialect) -> None:
    raw = write_reasoning(dialect, "one") + write_reasoning(dialect, "two") + "answer"
    for chunks in ways(raw):
        message, _ = run(dialect, chunks, tools=TOOLS)
        assert (message.reasoning, message.content) == ("onetwo", "answer")


@pytest.mark.parametrize(**named([d for d in DIALECTS if d.end and not d.framed]))
def test_what_ends_a_turn_is_dropped_at_the_end_and_text_before_it(dialect: Dialect) -> None:
    for end in dialect.end:
        for chunks in ways(f"Hello.{end}"):
            assert run(dialect, chunks, tools=TOOLS)[0].content == "Hello.", end
        assert_text(dialect, f"It ends with {end} as said.", stage="content")


# -- Python syntax ---------------------------------------------------------------------------------------------------------

LITERALS: list[tuple[str, Any]] = [
    ("-3", -3),
    ("-3.5", -3.5),
    ("+3", 3),
    ("1e-07", 1e-07),
    ("True", True),
    ("False", False),
    ("None", None),
    ("true", True),
    ("false", False),
    ("null", None),
    ("(1, 2)", [1, 2]),
    ("(1,)", [1]),
    ("()", []),
    ("[]", []),
    ("{}", {}),
    ("[1, [2, (3,)], {'k': [None]}]", [1, [2, [3]], {"k": [None]}]),
    ("{'a': 'b', \"c\": {'d': -1}}", {"a": "b", "c": {"d": -1}}),
    ("'it\\'s'", "it's"),
    ('"say \\"hi\\""', 'say "hi"'),
    ("'a, b=c)'", "a, b=c)"),
    ("')]'", ")]"),
    ("'\\n\\t\\\\'", "\n\t\\"),
    ("'\\x41\\u00e9\\U0001f327'", "Aé🌧"),
    ("'True'", "True"),
    ("''", ""),
    ("'北京 🌧️'", "北京 🌧️"),
    ("12345678901234567890123", 12345678901234567890123),
]


@pytest.mark.parametrize(**named(PYTHON))
@pytest.mark.parametrize(("written", "value"), LITERALS, ids=[w for w, _ in LITERALS])
def test_python_literals_become_json(dialect: Dialect, written: str, value: Any) -> None:
    raw = write_calls(dialect, [("f", f"x={written}, y={written}"), ("f", f"x = {written} "), ("now", "")])
    assert_calls(dialect, raw, [("f", {"x": value, "y": value}), ("f", {"x": value}), ("now", {})])


@pytest.mark.parametrize(**named(PYTHON))
def test_keyword_names_are_argument_names_in_python_syntax(dialect: Dialect) -> None:
    arguments = "class='x', from='y', lambda=1, None_=2, in='z', name='n', true=3"
    meant = {"class": "x", "from": "y", "lambda": 1, "None_": 2, "in": "z", "name": "n", "true": 3}
    assert_calls(dialect, write_calls(dialect, [("f", arguments)]), [("f", meant)])


@pytest.mark.parametrize(**named(PYTHON))
def test_positional_arguments_are_invalid_in_python_syntax(dialect: Dialect) -> None:
    for arguments in ("'Paris'", "1, a='x'", "a='x', 2", "*args", "x"):
        raw = write_calls(dialect, [("f", arguments), ("g", {"a": "y"})])
        for chunks in ways(raw):
            message, _ = run(dialect, chunks, tools=TOOLS)
            assert [(c.name, c.status) for c in message.tool_calls] == [("f", "invalid"), ("g", "ok")], raw


@pytest.mark.parametrize(**named(PYTHON))
def test_expressions_are_never_evaluated(dialect: Dialect) -> None:
    for arguments in ("a=__import__('os')", "a=1+1", "a=[x for x in y]", "a=f'{x}'", "a=open('x').read()", "a=lambda: 0"):
        message, _ = run(dialect, [write_calls(dialect, [("f", arguments)])], tools=TOOLS)
        assert [(c.name, c.status) for c in message.tool_calls] == [("f", "invalid")], arguments


# -- numbers -----------------------------------------------------------------------------------------------------------------

NUMBERS = ["9007199254740993", "12345678901234567890123456789", "1e-07", "1E+2", "-0.0", "0.10", "-1", "1.0"]


@pytest.mark.parametrize(**named(CALLING))
def test_numbers_are_kept_digit_for_digit(dialect: Dialect) -> None:
    for digits in NUMBERS:
        arguments = write_argument_text(dialect, "x", digits)
        raw = write_calls(dialect, [("h", arguments)])
        for chunks in ways(raw):
            message, _ = run(dialect, chunks, tools=[tool("h", x="number")])
            assert [(c.name, c.status) for c in message.tool_calls] == [("h", "ok")]
            told = json.loads(message.tool_calls[0].arguments, parse_int=str, parse_float=str)
            assert told == {"x": digits}, raw


# -- values of XML dialects ----------------------------------------------------------------------------------------------------

STRINGS = [
    "true", "false", "null", "None", "123", "-1.5", '"quoted"', "'quoted'", " lead", "trail ", "  both  ", "\ttab\t", "{}", "[]",
    '{"a": 1}', "[1, 2]", "", " ", "a\nb", "a\n\nb\n ", "NaN", "1e5", "\\n", "&lt;b&gt;", "é🌧️", "=", "x" * 300,
]  # fmt: skip


@pytest.mark.parametrize(**named(CALLING))
@pytest.mark.parametrize("value", STRINGS)
def test_a_string_under_a_string_schema_is_that_string(dialect: Dialect, value: str) -> None:
    calls: Calls = [("f", {"a": value, "b": "x"}), ("g", {"a": value})]
    assert_calls(dialect, write_calls(dialect, calls), calls)


REF = {"$defs": {"S": {"type": "string"}, "N": {"type": "integer"}, "O": {"type": "object", "properties": {"k": {"$ref": "#/$defs/N"}}}}}
SCHEMAS: list[tuple[Any, str, Any]] = [
    ("integer", "3", 3),
    ("integer", "x3", "x3"),
    ("number", "3.5", 3.5),
    ("number", "3", 3),
    ("boolean", "true", True),
    ("boolean", "True", True),
    ("boolean", "False", False),
    ("null", "null", None),
    ("array", "[1, \"a\"]", [1, "a"]),
    ("object", '{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
    ("string", "null", "null"),
    ({"type": ["string", "null"]}, "null", None),
    ({"type": ["string", "null"]}, "nullable", "nullable"),
    ({"type": ["string", "null"]}, '"null"', '"null"'),
    ({"type": "string", "nullable": True}, "null", None),
    ({"type": ["integer", "string"]}, "3", "3"),
    ({"type": ["integer", "null"]}, "3", 3),
    ({"type": ["integer", "null"]}, "null", None),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "null", None),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "12", "12"),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "12", 12),
    ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "12", "12"),
    ({"oneOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "boolean"}]}, "[1]", [1]),
    ({"$ref": "#/$defs/S"}, "12", "12"),
    ({"$ref": "#/$defs/N"}, "12", 12),
    ({"$ref": "#/$defs/O"}, '{"k": 3}', {"k": 3}),
    ({"allOf": [{"$ref": "#/$defs/N"}]}, "12", 12),
    ({"enum": ["1", "2"]}, "1", "1"),
    ({"enum": [1, 2]}, "1", 1),
    ({"enum": ["a", None]}, "null", None),
    ({"const": 5}, "5", 5),
    ({"type": "object"}, '{"a": 1}', {"a": 1}),
    ({}, "3", 3),
    ({}, "three", "three"),
    ({}, '"three"', '"three"'),
    ({}, "[1, 2]", [1, 2]),
    ({}, "[1, 2", "[1, 2"),
    ({}, "null", None),
    ({"description": "says nothing"}, "true", True),
]


@pytest.mark.parametrize(**named(UNTYPED))
@pytest.mark.parametrize(("schema", "written", "meant"), SCHEMAS, ids=[f"{json.dumps(s)}-{w}" for s, w, _ in SCHEMAS])
def test_the_schema_tells_the_type_of_text(dialect: Dialect, schema: Any, written: str, meant: Any) -> None:
    declared = tool("h", x=schema)
    declared["function"]["parameters"].update(REF)
    raw = write_calls(dialect, [("h", {"x": written}), ("h", {"x": written})])
    assert_calls(dialect, raw, [("h", {"x": meant})] * 2, tools=[declared])


@pytest.mark.parametrize(**named(UNTYPED))
def test_what_does_not_fit_its_type_stays_a_string_with_a_notice(dialect: Dialect) -> None:
    for schema, written in (("integer", "three"), ("boolean", "yes"), ("array", "[1,"), ("object", "[]x"), ("number", "")):
        raw = write_calls(dialect, [("h", {"x": written})])
        for chunks in ways(raw):
            message, _ = run(dialect, chunks, tools=[tool("h", x=schema)])
            assert values(message) == [("h", {"x": written})]
            assert notices(message) == ["value_type"]


@pytest.mark.parametrize(**named([d for d in XML if d not in UNTYPED]))
def test_types_written_into_the_markup_count(dialect: Dialect) -> None:
    calls: Calls = [("h", {"s": "12", "n": 12, "b": True, "l": [1, "a"], "o": {"k": None}, "z": None, "t": "true"})]
    for tools in (None, [tool("h", s="integer", n="string", b="string")]):
        assert_calls(dialect, write_calls(dialect, calls), calls, tools=tools)


@pytest.mark.parametrize(**named(UNTYPED))
def test_without_a_schema_there_is_one_guess(dialect: Dialect) -> None:
    guesses = [("3", 3), ("x", "x"), ("true", True), ('"q"', '"q"'), ("{}", {}), ("[1]", [1]), ("null", None), (" 3", 3), ("3 4", "3 4")]
    for written, meant in guesses:
        raw = write_calls(dialect, [("other", {"x": written})])
        for tools in (None, TOOLS, [{"type": "function", "function": {"name": "other", "parameters": {"type": "object"}}}]):
            for chunks in ways(raw):
                message, _ = run(dialect, chunks, tools=tools)
                assert values(message) == [("other", {"x": meant})], (written, tools)


@pytest.mark.parametrize(**named([d for d in XML if d.item]))
def test_objects_and_lists_nest_as_elements(dialect: Dialect) -> None:
    nested = {
        "type": "object",
        "properties": {"l": {"type": "array", "items": {"type": "string"}}, "o": {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}},
    }  # fmt: skip
    value = {"l": ["1", "two", "null"], "o": {"n": 3, "s": "4"}}
    raw = write_calls(dialect, [("h", {"x": value, "y": "z"}), ("now", {})])
    assert_calls(dialect, raw, [("h", {"x": value, "y": "z"}), ("now", {})], tools=[tool("h", x=nested, y="string")])


@pytest.mark.parametrize(**named(XML))
def test_one_line_break_of_the_template_is_taken_off_a_value_and_no_more(dialect: Dialect) -> None:
    for value in ("\n", "\n\nx", "x\n\n", "\nx\n", " \n x \n "):
        calls: Calls = [("f", {"a": value}), ("g", {"a": "y"})]
        assert_calls(dialect, write_calls(dialect, calls), calls)


@pytest.mark.parametrize(**named(XML))
def test_a_json_object_where_arguments_are_expected_is_read(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("f", '{"a": "x", "n": 1e-07}'), ("g", {"a": "y"})])
    for chunks in ways(raw):
        message, _ = run(dialect, chunks, tools=TOOLS)
        assert [(c.name, c.arguments, c.status) for c in message.tool_calls][0] == ("f", '{"a": "x", "n": 1e-07}', "ok")
        assert values(message)[1] == ("g", {"a": "y"})


# -- names -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(CALLING))
@pytest.mark.parametrize("name", ["a", "get_weather", "files.search", "mcp-server_tool", "ns:tool", "a/b", "x1", "Ünï", "工具"])
def test_names_of_any_usual_form_are_read_whole(dialect: Dialect, name: str) -> None:
    if not name.isascii() or (":" in name and "{index}" in dialect.call[0].text):
        pytest.skip("such a name is not written by this dialect")
    calls: Calls = [(name, {"a": "x"}), (name, {"a": "y"})]
    assert_calls(dialect, write_calls(dialect, calls), calls, tools=[tool(name, a="string")])


@pytest.mark.parametrize(**named(CALLING))
def test_unknown_tools_are_forwarded_and_said_to_be_unknown(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("f", {"a": "x"}), ("stranger", {"a": "y"}), ("g", {"a": "z"})])
    message, events = run(dialect, [raw], tools=TOOLS)
    assert run(dialect, list(raw), tools=TOOLS)[0].content == message.content
    if dialect in BARE:
        assert [c.name for c in message.tool_calls][0] == "f"
        return
    assert [(c.name, c.known, c.status) for c in message.tool_calls] == [
        ("f", True, "ok"),
        ("stranger", False, "ok"),
        ("g", True, "ok"),
    ]
    assert notices(message) == ["undeclared_tool"]


@pytest.mark.parametrize(**named([d for d in CALLING if d not in BARE]))
def test_where_the_tools_are_unknown_marked_calls_are_read_and_known_is_none(dialect: Dialect) -> None:
    message, _ = run(dialect, [write_calls(dialect, [("f", {"a": "x"})])], tools=None)
    assert [(c.name, c.known) for c in message.tool_calls] == [("f", None)]
    assert notices(message) == []


@pytest.mark.parametrize(**named([d for d in VERBATIM if d.call[0].object is not None and not d.call[0].object.name_is_key and d not in BARE]))
def test_an_object_without_a_name_is_text_with_a_notice(dialect: Dialect) -> None:
    if "{name}" in "".join(p if isinstance(p, str) else f"{{{p.name}}}" for p in dialect.call[0].before):
        pytest.skip("the header names the call")
    shape = dialect.call[0].object
    assert shape is not None
    key = next(k for k, role in shape.keys if role == "arguments")
    good = write_call(dialect, 0, "f", {"a": "x"})
    for bad in (f'{{"{key}": {{"a": 1}}}}', "{}", f'{{"nom": "f", "{key}": {{}}}}'):
        head = good[: good.index("{")]
        raw = write_calls(dialect, [("f", {"a": "x"})]).replace(good, head + bad)
        for chunks in ways(raw):
            message, _ = run(dialect, chunks, tools=TOOLS)
            assert message.tool_calls == [], raw
            assert bad in message.content
            assert "call_without_name" in notices(message), raw


@pytest.mark.parametrize(**named([d for d in CALLING if d.call[0].object is None and d not in BARE]))
def test_a_header_without_a_name_is_text_with_a_notice(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("@@", {"a": "x"})])
    for chunks in ways(raw):
        message, _ = run(dialect, chunks, tools=TOOLS)
        if message.tool_calls:  # another alternative takes the header's fixed word for the name, and breaks on the rest
            assert [(c.known, c.status) for c in message.tool_calls] == [(False, "invalid")], raw
            continue
        assert "@@" in message.content, raw
        assert "call_without_name" in notices(message), raw


@pytest.mark.parametrize(**named([d for d in VERBATIM if d.call[0].object is not None and not d.call[0].object.name_is_key]))
def test_the_keys_of_a_call_may_come_in_any_order_beside_others(dialect: Dialect) -> None:
    shape = dialect.call[0].object
    assert shape is not None
    keys = {role: key for key, role in shape.keys}
    good = write_call(dialect, 0, "f", {"a": "x"})
    head, tail = good[: good.index("{")], good[good.rindex("}") + 1 :]
    for arguments in (keys["arguments"], "arguments", "parameters", "args", "input"):
        for text in (
            f'{{"{arguments}": {{"a": "x"}}, "{keys["name"]}": "f"}}',
            f'{{ "extra" : [1, {{"{keys["name"]}": "no"}}], "{keys["name"]}" :\n"f" , "{arguments}":{{"a": "x"}}, "more": null}}',
        ):
            if dialect in BARE and "extra" in text:
                continue
            raw = write_calls(dialect, [("f", {"a": "x"})]).replace(good, head + text + tail)
            assert_calls(dialect, raw, [("f", {"a": "x"})])


# -- no tools, forced tools ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(CALLING))
@pytest.mark.parametrize("options", [{"tools": []}, {"tools": None, "tool_choice": "none"}, {"tools": TOOLS, "tool_choice": "none"}], ids=str)
def test_without_tools_the_markup_of_calls_comes_back_verbatim(dialect: Dialect, options: dict[str, Any]) -> None:
    if dialect.framed:
        pytest.skip("the frames of a call are the dialect's own")
    raw = write_calls(dialect, [("f", {"a": "x"}), ("g", {"a": "y"})])
    for chunks in ways(raw):
        message, _ = run(dialect, chunks, stage="content", **options)
        assert (message.content, message.tool_calls, message.finish_reason) == (raw, [], "stop")
    if dialect.reasoning:
        thought = write_reasoning(dialect, "plan") + dialect.reasoning[0].trail
        for chunks in ways(thought + raw):
            message, _ = run(dialect, chunks, stage="content", **options)
            assert (message.reasoning, message.content, message.tool_calls) == ("plan", raw, [])


@pytest.mark.parametrize(**named(CALLING))
def test_a_demanded_call_may_be_bare_json(dialect: Dialect) -> None:
    named_g = {"type": "function", "function": {"name": "g"}}
    one = '{"name": "f", "arguments": {"a": "x"}}'
    two = f'[{one}, {{"name": "now", "parameters": {{}}}}]'
    assert_calls(dialect, one, [("f", {"a": "x"})], tool_choice="required", stage="content")
    assert_calls(dialect, two, [("f", {"a": "x"}), ("now", {})], tool_choice="required", stage="content")
    assert_calls(dialect, '{"a": "x", "n": 3}', [("g", {"a": "x", "n": 3})], tool_choice=named_g, stage="content")
    assert_calls(dialect, '{"name": "g", "arguments": {"a": "x"}}', [("g", {"a": "x"})], tool_choice=named_g, stage="content")
    assert_calls(dialect, '{"name": "g", "parameters": {"a": "x"}}', [("g", {"a": "x"})], tool_choice=named_g, stage="content")
    # any other object is the arguments
    for text in ('{"name": "Ada", "arguments": 3}', '{"arguments": {}, "name": "g"}', '{"name": "g"}', '{"name": "g", "born": 1}', "{}"):
        assert_calls(dialect, text, [("g", json.loads(text))], tool_choice=named_g, stage="content")


@pytest.mark.parametrize(**named(CALLING))
def test_a_demanded_call_may_have_its_native_form(dialect: Dialect) -> None:
    calls: Calls = [("g", {"a": "x"})]
    raw = write_calls(dialect, calls)
    assert_calls(dialect, raw, calls, tool_choice="required")
    assert_calls(dialect, raw, calls, tool_choice={"type": "function", "function": {"name": "g"}})


# -- single dialects' own traps ------------------------------------------------------------------------------------------------


def test_llama_calls_are_read_with_semicolons_and_as_python_dicts() -> None:
    raw = "<|python_tag|>{'name': 'f', 'parameters': {'a': 'it\\'s', 'n': -3}}; {\"name\": \"g\", \"parameters\": {\"a\": \"; }\"}}"
    assert_calls(get_dialect("llama3"), raw, [("f", {"a": "it's", "n": -3}), ("g", {"a": "; }"})])


def test_a_bare_list_counts_only_where_content_begins() -> None:
    assert_text("json", 'Here: [{"name": "f", "arguments": {}}]')
    assert_calls(get_dialect("json"), '[{"name": "f", "arguments": {}}]', [("f", {})])


def test_bare_calls_need_declared_tools() -> None:
    assert_text("pythonic", "[f(a='x')]", tools=None)
    assert_text("json", '{"name": "f", "arguments": {}}', tools=None)
    assert_text("pythonic", "[stranger(a='x')]")


def test_deepseek_versions_are_told_apart_by_what_follows_the_separator() -> None:
    open_, close = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
    bodies = [
        '<｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": "x"}<｜tool▁call▁end｜>',
        '<｜tool▁call▁begin｜>f<｜tool▁sep｜>```json\n{"a": "x"}\n```<｜tool▁call▁end｜>',
        '<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a": "x"}\n```<｜tool▁call▁end｜>',
        '<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n{"a": "x"}<｜tool▁call▁end｜>',
    ]
    for name in ("deepseek", "deepseek-v3.1"):
        for body in bodies:
            for ascii_ in (False, True):
                raw = open_ + body + body + close
                raw = raw.replace("｜", "|") if ascii_ else raw
                assert_calls(get_dialect(name), raw, [("f", {"a": "x"})] * 2)


def test_string_arguments_of_every_xml_dialect_stream_character_by_character() -> None:
    for dialect in XML:
        head, tail = write_calls(dialect, [("f", {"a": "HERE"})]).split("HERE")
        parser = Parser(dialect, tools=TOOLS)
        parser.feed(head)
        for i, c in enumerate("abc def"):
            parser.feed(c)
            told = parser.message.tool_calls[0].arguments
            assert told.rstrip() == f'{{"a": "{"abc def"[: i + 1]}'.rstrip(), dialect.name
        parser.feed(tail)
        parser.close()


def test_examples_with_unknown_tools_lose_nothing() -> None:
    for case in cases(CALLING):
        for chunks in (ways(case.raw)[1], random_split(case.raw, __import__("random").Random(1))):
            message, events = run(case.dialect, chunks, tools=[tool("stranger")], stage=case.example.stage)
            text = "".join(e.text for e in events if isinstance(e, ContentDelta))
            assert message.content == text
            assert len(message.tool_calls) in (0, len(case.calls)) or case.dialect in BARE


def test_policies_do_not_leak_between_parsers() -> None:
    raw = write_calls(get_dialect("hermes"), [("stranger", {"a": "x"})])
    assert run("hermes", [raw], tools=TOOLS, policy=Policy(unknown_tool="drop"))[0].tool_calls == []
    assert len(run("hermes", [raw], tools=TOOLS)[0].tool_calls) == 1
    assert tools_of(get_dialect("hermes"))
    assert write_arguments(get_dialect("hermes"), {"a": 1}) == '{"a": 1}'
