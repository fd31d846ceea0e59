"""What the renderer writes is what the grammar holds, and nothing that breaks a schema."""

import json
import random
from typing import Any

import pytest

import unspool
from unspool import Dialect, DialectError, ToolStrictLevel, constrain, render
from unspool.dialect import example_tools

from .sampling import PLAIN, RICH, as_tools
from .support import WITH_CALLS, Grammars
from .values import random_value

EXAMPLES = [(d, i) for d in WITH_CALLS for i in range(len(d.examples))]


@pytest.mark.parametrize(("dialect", "number"), EXAMPLES, ids=lambda x: getattr(x, "name", x))
def test_the_first_raw_text_of_every_example_is_generated(dialect: Dialect, number: int) -> None:
    example = dialect.examples[number]
    for choice in ("auto", "required") if example.tool_calls else ("auto",):
        constraint = constrain(
            dialect, example_tools(dialect), choice, stage=example.stage, strict_level=ToolStrictLevel.PARAMETER
        )
        assert constraint is not None
        refused = Grammars(constraint).refuses(example.raw[0])
        assert bool(refused) == (choice == "required" and bool(example.content)), refused


def message(schemas: dict[str, Any], rng: random.Random, dialect: Dialect) -> dict[str, Any]:
    names = rng.choices(list(schemas), k=rng.choice((1, 1, 2, 3)))
    return {
        "role": "assistant",
        "reasoning_content": rng.choice(("", "Plan.\nThen act.")) if dialect.reasoning else "",
        "content": rng.choice(("", "", "Sure, a < b.")) if dialect.policy.text_before_tools != "content" else "",
        "tool_calls": [
            {"type": "function", "function": {"name": n, "arguments": random_value(schemas[n], schemas[n], rng)}}
            for n in names
        ],
    }


@pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda d: d.name)
def test_rendered_messages_are_generated(dialect: Dialect) -> None:
    rng = random.Random(dialect.name)
    written = 0
    for schemas in (PLAIN, RICH):
        tools = as_tools(schemas)
        grammars = {}
        for choice in ("auto", "required"):
            constraint = constrain(dialect, tools, choice)
            assert constraint is not None
            grammars[choice] = Grammars(constraint)
        for _ in range(25):
            turn = message(schemas, rng, dialect)
            try:
                raw = render(turn, dialect, tools=tools)
            except DialectError:
                continue  # not every dialect can write everything
            written += 1
            assert not grammars["auto"].refuses(raw), raw
            assert bool(grammars["required"].refuses(raw)) == bool(turn["content"]), raw
    assert written > 20


BROKEN = {
    "an undeclared tool": ("elsewhere", {"city": "Paris"}),
    "a missing argument": ("get_weather", {"days": 3}),
    "a wrong type": ("get_weather", {"city": "Paris", "days": "soon"}),
    "another argument": ("get_weather", {"city": "Paris", "unit": 1}),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda d: d.name)
def test_calls_that_break_the_schema_are_not_generated(dialect: Dialect, case: str) -> None:
    name, arguments = BROKEN[case]
    call = {"type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    raw = render({"role": "assistant", "tool_calls": [call]}, dialect)
    constraint = constrain(dialect, as_tools(PLAIN), "required", stage="content")
    assert constraint is not None
    assert Grammars(constraint).refuses(raw)


def test_markup_may_hold_its_own_closing_where_nothing_follows_that_ends_a_value() -> None:
    tools = as_tools({"write": {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]}})
    text = "<tool_call>\n<function=write>\n<parameter=a>\n{}\n</parameter>\n{}</function>\n</tool_call>"
    constraint = constrain("qwen3-coder", tools, "required", stage="content")
    assert constraint is not None
    grammar = Grammars(constraint)
    second = "<parameter=b>\nx</parameter> y\n</parameter>\n"
    for value in ("", "a </parameter> b", "</function>", "</parameter>\n</tool_call> or not", "\n<parameter=b>\n"):
        for more in ("", second):
            raw = text.format(value, more)
            (call,) = unspool.parse(raw, "qwen3-coder", tools=tools).tool_calls
            if call.status == "ok" and json.loads(call.arguments) == {"a": value} | (
                {"b": "x</parameter> y"} if more else {}
            ):
                assert not grammar.refuses(raw), raw


def test_a_value_that_only_json_can_keep_is_kept_wherever_it_is_named_again() -> None:
    item = {"type": "object", "properties": {"c": {"type": "string", "pattern": "^a+$"}}, "required": ["c"]}
    listed = {"type": "array", "items": {"$ref": "#/$defs/o"}, "minItems": 1}
    tools = as_tools({"f": {"$defs": {"o": item}, "properties": {"x": listed, "y": listed}, "required": ["x", "y"]}})
    constraint = constrain("qwen3-coder", tools, "required", stage="content")
    assert constraint is not None
    grammar = Grammars(constraint)
    value = "\n<parameter={}>\n{}\n</parameter>"
    for x, refused in (('[{"c": "aa"}]', False), ("[]", True), ("[{}]", True), ('[{"c": "b"}]', True)):
        both = value.format("x", x) + value.format("y", '[{"c": "a"}]')
        raw = f"<tool_call>\n<function=f>{both}\n</function>\n</tool_call>"
        assert bool(grammar.refuses(raw)) == refused, raw


def test_json_values_may_be_spaced_but_not_without_end() -> None:
    constraint = constrain("hermes", as_tools(PLAIN), "required", stage="content")
    assert constraint is not None
    grammar = Grammars(constraint)
    text = '<tool_call>\n{"name": "get_weather", "arguments": {SPACE"city":SPACE"x"}}\n</tool_call>'
    assert not grammar.refuses(text.replace("SPACE", ""))
    assert not grammar.refuses(text.replace("SPACE", "\n    "))
    assert grammar.refuses(text.replace("SPACE", " " * 40))


def test_the_content_keeps_to_the_response_format_after_free_reasoning() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    constraint = constrain("hermes", response_format=form)
    assert constraint is not None
    grammar = Grammars(constraint)
    assert not grammar.refuses('<think>\nfree "text" here\n</think>\n\n{"n": 3}')
    assert not grammar.refuses('{"n": 3}')
    assert grammar.refuses('{"n": "3"}')
    assert grammar.refuses("<think>\nplan\n</think>\n\nfree text")
    harmony = constrain("harmony", response_format=form)
    assert harmony is not None
    raw = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>"
    assert not Grammars(harmony).refuses(raw.replace("{}", '{"n": 1}'))
    assert Grammars(harmony).refuses(raw)


def test_a_stage_begins_where_it_says() -> None:
    tools = as_tools(PLAIN)
    call = '{"name": "now", "arguments": {}}\n</tool_call>'
    for stage, text in (
        ("content", f"<tool_call>\n{call}"),
        ("reasoning", f"plan\n</think>\n\n<tool_call>\n{call}"),
        ("tool_call", call),
        ("undecided", f"plan\n</think>\n\n<tool_call>\n{call}"),
    ):
        constraint = constrain("hermes", tools, "required", stage=stage)
        assert constraint is not None
        grammar = Grammars(constraint)
        assert not grammar.refuses(text), stage
    constraint = constrain("hermes", tools, "required", prompt="<|im_start|>assistant\n<think>\n")
    assert constraint is not None
    assert not Grammars(constraint).refuses(f"plan\n</think>\n\n<tool_call>\n{call}")
    content = constrain("hermes", tools, "required", stage=unspool.Stage.CONTENT)
    assert content is not None
    assert Grammars(content).refuses(f"Sure.\n<tool_call>\n{call}")
    assert Grammars(content).refuses(f"<think>\nplan\n</think>\n\n<tool_call>\n{call}")
