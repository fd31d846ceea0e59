"""Values of arguments: Python literals, numbers, and text whose type depends on the schema."""

import json
import random
from typing import Any

import pytest

from tests.support import (
    CALLING,
    PYTHON,
    TOOLS,
    UNTYPED,
    XML,
    Calls,
    assert_calls,
    is_marked,
    named,
    notices,
    pieces,
    random_split,
    readings,
    run,
    tool,
    values,
)
from tests.writing import write_argument_text, write_calls
from unspool import Dialect, Policy
from unspool.dialect.compiling import compile_plan

# -- Python syntax -----------------------------------------------------------------------------------------------------

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
    ("('a')", "a"),
    ("((-1))", -1),
    ("((1, 2), ([3]), ((4),))", [[1, 2], [3], [4]]),
    ("{'k': ({'l': ('m')}), 'n': (())}", {"k": {"l": "m"}, "n": []}),
    ("'a' \"b\"\n  r'\\c'", "ab\\c"),
    ("('a'\n 'b')", "ab"),
    ("['x' 'y', {'k': '''x''' r'\\y'}]", ["xy", {"k": "x\\y"}]),
    ("[0x1F, -0b11, 0o17, 0x_f, 0]", [31, -3, 15, 15, 0]),
    ("[]", []),
    ("{}", {}),
    ("[1, [2, (3,)], {'k': [None]}]", [1, [2, [3]], {"k": [None]}]),
    ("{'a': 'b', \"c\": {'d': -1}}", {"a": "b", "c": {"d": -1}}),
    ("'it\\'s'", "it's"),
    ('"say \\"hi\\""', 'say "hi"'),
    ("'a, b=c)'", "a, b=c)"),
    ("')]'", ")]"),
    ("'\\n\\t\\\\'", "\n\t\\"),
    ("r'a\\n'", "a\\n"),
    ("'''x'y'''", "x'y"),
    ("'\\U0001f600\\101\\a\\\nz\\q\\x'", "\U0001f600A\x07z\\q\\x"),
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
    for policy in (None, Policy(bad_arguments="repair")):
        assert_calls(dialect, raw, [("f", {"x": value, "y": value}), ("f", {"x": value}), ("now", {})], policy=policy)


@pytest.mark.parametrize(**named(PYTHON))
def test_keyword_names_are_argument_names_in_python_syntax(dialect: Dialect) -> None:
    arguments = "class='x', from='y', lambda=1, None_=2, in='z', name='n', true=3,"
    meant = {"class": "x", "from": "y", "lambda": 1, "None_": 2, "in": "z", "name": "n", "true": 3}
    assert_calls(dialect, write_calls(dialect, [("f", arguments)]), [("f", meant)])


INVALID = [
    *("'Paris'", "1, a='x'", "a='x', 2 ", "*args ", "no "),  # the space prevents a closing from beginning in them
    *("a=__import__('os')", "a=1+1", "a=[x for x in y]", "a=f'{x}'", "a=open('x').read()", "a=lambda: 0"),
]


@pytest.mark.parametrize(**named(PYTHON))
def test_positional_arguments_are_invalid_in_python_syntax_and_expressions_are_never_evaluated(
    dialect: Dialect,
) -> None:
    for arguments in INVALID:
        raw = write_calls(dialect, [("f", arguments), ("g", {"a": "y"})])
        for message in readings(dialect, raw, tools=TOOLS):
            assert [(c.name, c.status) for c in message.tool_calls] == [("f", "invalid"), ("g", "ok")], raw


# -- numbers -----------------------------------------------------------------------------------------------------------

NUMBERS = [
    *("9007199254740993", "12345678901234567890123456789", "1e-07", "1E+2", "-0.0", "0.10", "-1", "1.0"),
    *("1" + "0" * 400, "1.7976931348623158e308", "0.0e999", "1e-999", "0." + "0" * 400 + "1e401"),
]


@pytest.mark.parametrize(**named(CALLING))
def test_numbers_are_kept_digit_for_digit(dialect: Dialect) -> None:
    for digits in NUMBERS:
        arguments = write_argument_text(dialect, "x", digits)
        raw = write_calls(dialect, [("h", arguments)])
        for message in readings(dialect, raw, tools=[tool("h", x="number")]):
            assert [(c.name, c.status) for c in message.tool_calls] == [("h", "ok")]
            kept = json.loads(message.tool_calls[0].arguments, parse_int=str, parse_float=str)
            assert kept == {"x": digits}, raw


@pytest.mark.parametrize(**named([d for d in CALLING if not d.argument]))
def test_numbers_that_round_to_infinity_are_invalid(dialect: Dialect) -> None:
    for digits in ("1e999", "-1E+400", "1.7976931348623159e308", "1" + "0" * 400 + ".0"):
        raw = write_calls(dialect, [("h", write_argument_text(dialect, "x", digits)), ("now", {})])
        for message in readings(dialect, raw, tools=[tool("h", x="number"), tool("now")]):
            assert [(c.name, c.status) for c in message.tool_calls] == [("h", "invalid"), ("now", "ok")], raw
            assert digits in message.tool_calls[0].arguments


# -- values of XML dialects --------------------------------------------------------------------------------------------

STRINGS = [
    "true", "false", "null", "None", "123", "-1.5", '"quoted"', "'quoted'", " lead", "trail ", "  both  ", "\ttab\t",
    "{}",
    "[]",
    '{"a": 1}', "[1, 2]", "", " ", "a\nb", "a\n\nb\n ", "NaN", "1e5", "\\n", "&lt;b&gt;", "é🌧️", "=", "x" * 300,
    "\n", "\n\nx", "x\n\n", "\nx\n", " \n x \n ",  # a template's own line break is taken off, and no more
]  # fmt: skip


@pytest.mark.parametrize(**named(CALLING))
def test_a_string_under_a_string_schema_is_that_string(dialect: Dialect) -> None:
    for value in STRINGS:
        calls: Calls = [("f", {"a": value, "b": "x"}), ("g", {"a": value})]
        assert_calls(dialect, write_calls(dialect, calls), calls)


REF = {
    "$defs": {
        "S": {"type": "string"},
        "N": {"type": "integer"},
        "Null": {"const": "null"},
        "O": {"type": "object", "properties": {"k": {"$ref": "#/$defs/N"}}},
    }
}
SCHEMAS: list[tuple[Any, str, Any]] = [
    ("integer", "3", 3),
    ("integer", "3.0", 3),
    ("number", "3.5", 3.5),
    ("boolean", "true", True),
    ("boolean", "True", True),
    ("null", "null", None),
    ("array", '[1, "a"]', [1, "a"]),
    ("object", '{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
    ("string", "null", "null"),
    ({"type": ["string", "null"]}, "null", None),
    ({"type": ["string", "null"]}, '"null"', '"null"'),
    ({"type": "string", "nullable": True}, "null", None),
    ({"type": ["integer", "string"]}, "3", "3"),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "12", "12"),
    ({"oneOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "boolean"}]}, "[1]", [1]),
    ({"$ref": "#/$defs/S"}, "12", "12"),
    ({"$ref": "#/$defs/O"}, '{"k": 3}', {"k": 3}),
    ({"allOf": [{"$ref": "#/$defs/N"}]}, "12", 12),
    ({"enum": ["1", "2"]}, "1", "1"),
    ({"enum": ["a", None]}, "null", None),
    ({}, "3", 3),
    ({}, "three", "three"),
    ({}, '"three"', '"three"'),
    ({}, "[1, 2]", [1, 2]),
    ({}, "[1, 2", "[1, 2"),
    ({}, "null", None),
    ({"anyOf": [{"const": "auto"}, {"type": "integer"}]}, "-7", -7),
    ({"anyOf": [{"const": "auto"}, {"type": "integer"}]}, "auto", "auto"),
    ({"enum": ["low", 1, 2]}, "2", 2),
    ({"oneOf": [{"type": "object"}, {"const": "all"}]}, '{"a": 1}', {"a": 1}),
    ({"oneOf": [{"type": "object"}, {"const": "all"}]}, "all", "all"),
    ({"anyOf": [{"$ref": "#/$defs/Null"}, {"type": "null"}]}, "null", "null"),
    ({"type": "string", "enum": ["null", "x"], "nullable": True}, "null", "null"),
    ({"type": "string", "enum": ["x"], "nullable": True}, "null", None),
    ({"$ref": "#/$defs/S", "nullable": True}, "null", "null"),
    ({"type": "string", "enum": ["1", "2"]}, "1", "1"),
]


@pytest.mark.parametrize(**named(UNTYPED))
def test_the_schema_tells_the_type_of_text(dialect: Dialect) -> None:
    for schema, written, meant in SCHEMAS:
        if written == '"null"' and compile_plan(dialect).arguments.quoted:
            meant = "null"  # in this dialect, quotes mark strings
        declared = tool("h", x=schema)
        declared["function"]["parameters"].update(REF)
        raw = write_calls(dialect, [("h", {"x": written}), ("h", {"x": written})])
        assert_calls(dialect, raw, [("h", {"x": meant})] * 2, tools=[declared])


@pytest.mark.parametrize(**named(UNTYPED))
def test_a_value_that_does_not_fit_its_type_stays_a_string_with_a_notice(dialect: Dialect) -> None:
    for schema, written in (
        ("integer", "three"),
        ("integer", "3.5"),
        ("integer", "1e2"),
        ("boolean", "yes"),
        ("array", "[1,"),
        ("array", '["a", "b'),
        ("object", '{"a":'),
        ("object", '{"a"'),
        ("object", "[]x"),
        ("number", ""),
        ("number", "1e999"),
        ({"type": "string", "enum": ["a", "bc"]}, "abc"),
        ({"type": "string", "enum": ["a", "bc"]}, "b"),
        ({"anyOf": [{"const": "auto"}, {"type": "integer"}]}, "seven"),
    ):
        raw = write_calls(dialect, [("h", {"x": written})])
        for message in readings(dialect, raw, tools=[tool("h", x=schema)]):
            assert values(message) == [("h", {"x": written})]
            assert notices(message) == ["value_type"]


@pytest.mark.parametrize(**named(XML))
def test_a_container_that_is_nearly_json_is_read_where_its_schema_admits_no_string(dialect: Dialect) -> None:
    for kind, written, meant in (
        ("array", '[{"t": "one\ntwo\t3", "n": 1e-7}]', [{"t": "one\ntwo\t3", "n": 1e-7}]),
        ("array", "['it\\'s', True, None]", ["it's", True, None]),
        ("object", '{"code": "if x:\n\treturn",}', {"code": "if x:\n\treturn"}),
        ("array", '[{"t": "a"}, {"t": [1]}', [{"t": "a"}, {"t": [1]}]),
        ("object", '{"t": {"n": "}"}}}', {"t": {"n": "}"}}),
        ("array", '["a", "b"', ["a", "b"]),
        ("array", "[[1, 2], [3", [[1, 2], [3]]),
        ("array", "['a', None", ["a", None]),
        ("object", '{"a": 1', {"a": 1}),
        ("object", '{"a": "b"', {"a": "b"}),
        ("object", '{"a": [{"b": true', {"a": [{"b": True}]}),
    ):
        raw = write_calls(dialect, [("h", {"x": written})])
        for policy in (None, Policy(bad_arguments="drop")):
            for message in readings(dialect, raw, tools=[tool("h", x=kind)], policy=policy):
                assert (values(message), notices(message)) == ([("h", {"x": meant})], ["repaired"]), written
                assert message.tool_calls[0].status == "repaired"
        for text in (["string", kind], "string"):
            message, _ = run(dialect, [raw], tools=[tool("h", x={"type": text})])
            assert (values(message), notices(message)) == ([("h", {"x": written})], [])


@pytest.mark.parametrize(**named([d for d in XML if d not in UNTYPED]))
def test_types_written_in_the_markup_decide(dialect: Dialect) -> None:
    calls: Calls = [("h", {"s": "12", "n": 12, "b": True, "l": [1, "a"], "o": {"k": None}, "z": None, "t": "true"})]
    either = {"type": ["string", "integer", "boolean"]}
    declared = [tool("h", s=either, n=either, b=either, t=either)]
    for tools in (None, declared) if is_marked(dialect) else (declared,):
        assert_calls(dialect, write_calls(dialect, calls), calls, tools=tools)


@pytest.mark.parametrize(**named([d for d in XML if d not in UNTYPED]))
def test_types_written_into_the_markup_yield_to_a_schema_that_the_text_fits(dialect: Dialect) -> None:
    written = {"a": "12", "b": "true", "c": "[1]", "d": 12, "e": True, "f": "auto"}
    either = {"anyOf": [{"const": "auto"}, {"type": "integer"}]}
    declared = tool("h", a="integer", b="boolean", c="array", d="string", e="string", f=either)
    meant = {"a": 12, "b": True, "c": [1], "d": "12", "e": "true", "f": "auto"}
    assert_calls(dialect, write_calls(dialect, [("h", written)]), [("h", meant)], tools=[declared])
    for message in readings(dialect, write_calls(dialect, [("h", {"a": "three"})]), tools=[declared]):
        assert (values(message), notices(message)) == ([("h", {"a": "three"})], ["value_type"])


@pytest.mark.parametrize(**named(UNTYPED))
def test_without_a_schema_the_type_is_guessed_from_the_text(dialect: Dialect) -> None:
    guesses = [("3", 3), ("x", "x"), ("true", True), ('"q"', '"q"'), ("{}", {}), ("[1]", [1]), ("null", None)]
    guesses += [(" 3", 3), ("3 4", "3 4")]
    declared = [{"type": "function", "function": {"name": "other", "parameters": {"type": "object"}}}]
    for written, meant in guesses:
        raw = write_calls(dialect, [("other", {"x": written})])
        for tools in (None, TOOLS, declared) if is_marked(dialect) else (declared,):
            for message in readings(dialect, raw, tools=tools):
                assert values(message) == [("other", {"x": meant})], (written, tools)


@pytest.mark.parametrize(**named([d for d in XML if d.item]))
def test_objects_and_lists_nest_as_elements(dialect: Dialect) -> None:
    inner = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}
    strings = {"type": "array", "items": {"type": "string"}}
    nested = {"type": "object", "properties": {"l": strings, "o": inner}}
    value = {"l": ["1", "two", "null"], "o": {"n": 3, "s": "4"}}
    raw = write_calls(dialect, [("h", {"x": value, "y": "z"}), ("now", {})])
    assert_calls(dialect, raw, [("h", {"x": value, "y": "z"}), ("now", {})], tools=[tool("h", x=nested, y="string")])


@pytest.mark.parametrize(**named(XML))
def test_a_json_object_where_arguments_are_expected_is_read(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("f", '{"a": "x", "n": 1e-07}'), ("g", {"a": "y"})])
    for message in readings(dialect, raw, tools=TOOLS):
        first = message.tool_calls[0]
        assert (first.name, first.arguments, first.status) == ("f", '{"a": "x", "n": 1e-07}', "ok")
        assert values(message)[1] == ("g", {"a": "y"})


def test_elements_nested_too_deep_are_invalid_and_raise_nothing() -> None:
    for dialect in (d for d in XML if d.item):
        head, tail = dialect.argument[0].text.split("{value}")
        for depth, status in ((500, "ok"), (600, "invalid")):
            raw = write_calls(dialect, [("h", (head * depth + "x" + tail * depth).replace("{key}", "k")), ("now", {})])
            for chunks in ([raw], random_split(raw, random.Random(2), 50)):
                message, _ = run(dialect, chunks, tools=None)
                assert [(c.name, c.status) for c in message.tool_calls] == [("h", status), ("now", "ok")]


ROWS = [{"a": [1, -2.5, None, True], "b": "x < y </ z <", "c": {"d": "<<arg>", "e": "]<] ]<"}}] * 8


@pytest.mark.parametrize(**named(XML))
def test_a_value_that_waits_for_its_end_reads_alike_in_pieces_of_any_size(dialect: Dialect) -> None:
    """It is longer than what may wait unseen, and contains the beginnings of markers."""
    raw = write_calls(dialect, [("h", {"rows": ROWS})])
    for size in (1, 2, 3, 4, 7, 50, 300):
        message, _ = run(dialect, pieces(raw, size), tools=[tool("h", rows="array")], stage="content")
        assert [(c.status, c.arguments_dict()) for c in message.tool_calls] == [("ok", {"rows": ROWS})], size
