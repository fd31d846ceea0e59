"""The interface of `constrain`: when it constrains, what it refuses, and what hosts of structural tags get."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import unspool
from unspool import ConstraintError, ToolStrictLevel, constrain, structure_constraint, structure_info
from unspool.grammar.nodes import Grammar, Json, Node, children

from ..support import present
from .sampling import JSON_ONLY, PLAIN, RICH, STRICT, as_tools
from .support import WITH_CALLS, constrained, tool_choice

LOOSE = as_tools(PLAIN, strict=False)


def test_auto_is_constrained_only_with_a_strict_tool_or_level() -> None:
    assert constrain("hermes", LOOSE) is None
    assert constrain("hermes", STRICT) is not None
    assert constrain("hermes", LOOSE, strict_level=ToolStrictLevel.FUNCTION) is not None
    assert constrain("hermes", []) is None
    assert constrain("hermes", None) is None
    assert constrain("hermes", STRICT, "none") is None
    assert constrain("hermes", LOOSE, "required") is not None
    assert constrain("hermes", LOOSE, tool_choice("now")) is not None
    assert constrain("hermes", response_format={"type": "text"}) is None


def test_the_function_level_leaves_arguments_free() -> None:
    def known(tools: list[Any], level: int = 0) -> list[bool]:
        found = constrained("hermes", tools, strict_level=ToolStrictLevel(level))
        return ["properties" in schema for schema in schemas(found)]

    assert set(known(LOOSE, ToolStrictLevel.FUNCTION)) == {False}
    assert set(known(LOOSE, ToolStrictLevel.PARAMETER)) == {True}
    assert known([LOOSE[0], STRICT[1]])[:2] == [False, True]


def test_objects_are_closed_for_strict_tools_and_on_demand() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}

    def open_(*, strict: bool = False, closed: bool = False) -> Any:
        tools = as_tools({"f": schema}, strict=strict)
        found = constrained("hermes", tools, strict_level=ToolStrictLevel.PARAMETER, closed=closed)
        return schemas(found)[-1]["additionalProperties"]

    assert [open_(), open_(strict=True), open_(closed=True)] == [True, False, False]


def schemas(constraint: unspool.Constraint) -> list[dict[str, Any]]:
    found = [n.schema for n in nodes(constraint.grammar) if isinstance(n, Json)]
    return sorted((s for s in found if isinstance(s, dict)), key=lambda s: "properties" in s)


def test_the_array_of_calls_counts_them() -> None:
    def bounds(choice: Any, parallel: bool) -> tuple[Any, Any]:
        schema = present(constrained("hermes", STRICT, choice, parallel).json_schema)
        return schema["minItems"], schema.get("maxItems")

    assert bounds("auto", True) == (0, None)
    assert bounds("required", True) == (1, None)
    assert bounds("required", False) == (1, 1)
    assert bounds(tool_choice("now"), True) == (1, 1)


def test_definitions_of_several_tools_keep_apart_in_the_array() -> None:
    other = {**RICH["plan_trip"], "$defs": {"place": {"type": "null"}, "tree": True}}
    two = as_tools({"a": RICH["plan_trip"], "b": other})
    schema = present(constrained("hermes", two, "required").json_schema)
    assert {"type": "null"} in schema["$defs"].values()
    text = json.dumps(schema)
    assert all(f"#/$defs/{name}" in text for name in schema["$defs"])


@pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda d: d.name)
def test_every_dialect_that_parses_calls_constrains_them(dialect: unspool.Dialect) -> None:
    for choice in ("auto", "required", tool_choice("plan_trip")):
        for parallel in (True, False):
            constraint = constrained(dialect, as_tools(RICH), choice, parallel)
            assert constraint.lark.startswith("%llguidance {}\nstart: ")
            assert constraint.structural_tag["type"] == "structural_tag"
            assert json.loads(json.dumps(constraint.structural_tag)) == constraint.structural_tag


def nodes(grammar: Grammar) -> Iterator[Node]:
    """Every node of a grammar, rules included."""
    waiting = [grammar.root, *grammar.rules.values()]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(children(node))


@pytest.mark.parametrize(
    ("name", "parameters", "message"), [
        ("get weather", {}, "allowed are letters, digits and"),
        ("f", {"type": "string"}, "tools.f.parameters.type: must be 'object'"),
        ("f", {"not": {}}, "tools.f.parameters.not: is not supported"),
        ("f", {"type": "object", "properties": []}, "f.parameters.properties: must be an object"),
        ("f", {"$ref": "#/nowhere"}, r"\$ref: '#/nowhere' cannot be resolved"),
        ("f", {"properties": {"a": {"enum": []}}}, "a.enum: must be a non-empty list"),
        ("f", {"properties": {"a": {"minLength": -1}}}, "a.minLength: must be an integer"),
        ("f", {"properties": {"a": False}, "required": ["a"]}, "admits no"),
    ],
)  # fmt: skip
def test_a_tool_that_cannot_be_constrained_is_refused_by_its_field(name: str, parameters: Any, message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        constrain("qwen3-coder", as_tools({name: parameters}), "required")


def test_wrong_stages_formats_prompts_and_dialects_are_refused() -> None:
    with pytest.raises(ConstraintError, match="stage: 'later' is not one of"):
        constrain("hermes", STRICT, stage="later")
    with pytest.raises(ConstraintError, match=r"response_format.json_schema.schema: must be an object"):
        constrain("hermes", response_format={"type": "json_schema"})
    with pytest.raises(ConstraintError, match="prompt: ends inside a call"):
        constrain("hermes", STRICT, prompt='<|im_start|>assistant\n<tool_call>\n{"name": "now"')
    assert constrain("hermes", STRICT, prompt="<|im_start|>assistant\n<tool_call>\n") is not None
    with pytest.raises(unspool.UnknownDialect):
        constrain("hermse", STRICT)
    with pytest.raises(ConstraintError, match="dialect 'think' has no template for calls"):
        constrain("think", STRICT)


_OTHERS = {"f": {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}}


@pytest.mark.parametrize(
    ("dialect", "schemas", "why"),
    [
        ("pythonic", {"f": {"properties": {"two=words": {}}}}, "'two=words' cannot be the name of a keyword argument"),
        ("minimax-m3", _OTHERS, "closes an argument with its name; allowed is false"),
        ("glm45", JSON_ONLY, "patternProperties: is not supported for arguments in markup"),
    ],
)
def test_a_feature_that_a_dialect_cannot_express_is_refused_with_the_reason(
    dialect: str, schemas: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConstraintError, match=why):
        constrain(dialect, as_tools(schemas))
    assert constrain("hermes", as_tools(schemas)) is not None


def test_one_odd_name_among_many_properties_is_found_in_few_steps() -> None:
    properties: dict[str, Any] = {**{f"a {i}": {} for i in range(900)}, "x>y": {}, **{f"b {i}": {} for i in range(90)}}
    with pytest.raises(ConstraintError, match="properties: the name 'x>y' cannot be written in dialect 'qwen3-coder'"):
        constrain("qwen3-coder", as_tools({"f": {"type": "object", "properties": properties}}), "required")


@pytest.mark.parametrize("name", ["a", "enum", "const", "properties", "$defs"])
def test_names_below_a_property_are_checked_whatever_its_name_is(name: str) -> None:
    inner = {"type": "object", "properties": {"x>y": {"type": "string"}}, "required": ["x>y"]}
    with pytest.raises(ConstraintError, match="properties: the name 'x>y' cannot be written in dialect 'minimax-m3'"):
        constrain("minimax-m3", as_tools({"f": {"type": "object", "properties": {name: inner}}}), "required")


def test_a_text_that_holds_a_quote_without_escapes_is_not_listed() -> None:
    for name in ("functiongemma", "gemma4"):
        quote = unspool.get_dialect(name).codec.quote
        listed = {"f": {"type": "object", "properties": {"a": {"enum": [f"x{quote}", "y", [quote]]}}}}
        written = constrained(name, as_tools(listed), "required")
        assert f"x{quote}" not in written.lark
        assert json.dumps(f"{quote}y{quote}")[1:-1] in written.lark
        with pytest.raises(ConstraintError, match="all its values contain markers"):
            constrain(name, as_tools({"f": {"type": "object", "properties": {"a": {"const": quote}}}}), "required")


def test_deep_and_large_schemas_are_refused() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}
    with pytest.raises(ConstraintError, match="nested deeper"):
        constrain("hermes", as_tools({"f": deep}))
    wide = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(30_000)}}
    with pytest.raises(ConstraintError, match="30,000 properties; allowed are 1,000"):
        constrain("hermes", as_tools({"f": wide}))


def test_structure_info_has_the_white_space_of_the_template() -> None:
    info = present(structure_info("qwen25", STRICT[0]))
    assert info.begin == '<tool_call>\n{"name": "get_weather", "arguments": '
    assert (info.end, info.trigger) == ("}\n</tool_call>", "<tool_call>")
    v3 = present(structure_info("deepseekv3", "now"))
    assert v3.begin == "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n"
    assert v3.end == "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    for name in ("pythonic", "glm45", "gemma4", "harmony", "think"):
        assert structure_info(name, "now") is None


def test_calls_that_a_dialect_counts_may_have_any_number_in_a_tag_for_hosts() -> None:
    first, second = (present(structure_info("kimi_k2", "now", index=i)) for i in range(2))
    assert first.begin.replace("functions.now:0", "functions.now:1") == second.begin
    assert first == structure_info("kimi_k2", "now")
    tag = present(structure_constraint("kimi_k2", STRICT))[1]["format"]["tags"][1]
    number, rest, arguments = tag["content"]["elements"]
    assert tag["begin"].endswith("functions.now:")
    assert arguments["json_schema"]["properties"] == {}
    for index in ("0", "1", "12"):
        assert re.fullmatch(number["pattern"], index)
    texts = [f"{tag['begin']}{i}{rest['value']}{{}}{tag['end']}" for i in (3, 4)]
    read = unspool.parse("".join(texts), "kimi_k2", tools=STRICT)
    assert [c.id for c in read.tool_calls] == ["functions.now:3", "functions.now:4"]


def test_hosts_know_which_constraint_applies() -> None:
    kinds = {
        (name, level, choice if isinstance(choice, str) else "named"): found and found[0]
        for name in ("qwen25", "pythonic")
        for level in ToolStrictLevel
        for choice in ("auto", "required", "none", tool_choice("now"))
        for found in (structure_constraint(name, LOOSE, choice, strict_level=level),)
    }
    for (name, level, choice), kind in kinds.items():
        tagged = name == "qwen25" and level >= ToolStrictLevel.FUNCTION
        wanted = {"auto": "structural_tag" if tagged else None, "none": None}.get(choice, "json_schema")
        assert kind == wanted, (name, level, choice)
    kind, tag = present(structure_constraint("qwen25", STRICT))
    assert kind == "structural_tag"
    assert tag["format"]["triggers"] == ["<tool_call>"]
    assert tag["format"]["tags"][1]["begin"] == '<tool_call>\n{"name": "now", "arguments": '


def test_strings_of_bounded_length_have_a_pattern_in_a_tag_that_keeps_control_characters_out() -> None:
    bounded = {"type": ["string", "null"], "minLength": 1, "maxLength": 6}
    properties = {"maxLength": bounded, "enum": {"type": "array", "items": {"type": "string", "maxLength": 2}}}
    own = {"type": "string", "pattern": "^a+$", "maxLength": 3}
    tools = as_tools({"f": {"properties": {**properties, "own": own, "free": {"type": "string"}}}})
    made = constrained("hermes", tools, "required", stage=unspool.Stage.CONTENT)
    texts = json.dumps(made.structural_tag)
    elements = made.structural_tag["format"]["elements"]
    schema = next(e["json_schema"]["properties"] for e in elements if e["type"] == "json_schema")
    assert {k: v for k, v in schema["maxLength"].items() if k != "pattern"} == bounded
    assert "pattern" not in schema["free"]
    assert schema["own"] == own
    assert texts.count("{0,2}") >= 1
    pattern = re.compile(schema["maxLength"]["pattern"])
    assert all(pattern.fullmatch(text) for text in ("a", "Zürich", "a b", "🌍"))
    assert not any(pattern.fullmatch(text) for text in ("", "1234567", "a\x0bb", "a\nb", 'a"', "a\\"))


_FORMS = """
import json
from unspool import constrain, list_dialects
refer = lambda name: {"$ref": f"#/$defs/{name}"}
kid = {"type": "object", "properties": {"kids": {"type": "array", "items": refer("kid")}, "at": refer("place")}}
place = {"type": "object", "properties": {"in": refer("place"), "of": refer("kid"), "x": {"type": "string"}}}
tree = {**kid, "$defs": {"kid": kid, "place": place}}
tools = [{"type": "function", "function": {"name": "f", "parameters": tree}}]
for dialect in list_dialects():
    if dialect.call:
        found = constrain(dialect, tools, "required")
        print(dialect.name, json.dumps([found.structural_tag, found.lark]))
"""


@pytest.mark.slow
def test_a_constraint_is_the_same_in_every_process() -> None:
    ran = [
        subprocess.run(
            [sys.executable, "-c", _FORMS], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        )
        for seed in ("1", "2")
    ]
    first, *others = (process.stdout.decode().splitlines() for process in ran)
    assert len(first) == len(WITH_CALLS)
    for other in others:
        assert [line.split()[0] for line, again in zip(first, other, strict=True) if line != again] == []
