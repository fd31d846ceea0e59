"""The grammar allows what the renderer writes, and nothing that violates a schema."""

import json
import random
from typing import Any

import pytest

import unspool
from unspool import Dialect, DialectError, ToolStrictLevel, constrain, parse, render
from unspool.dialect.examples import example_tools
from unspool.grammar.gbnf import gbnf

from ..support import calling, closed_tool, dialect_of, function_call, tool, values
from ..writing import write_arguments
from .gbnf_reader import Reader
from .sampling import PLAIN, RICH, STRICT, as_tools
from .support import WITH_CALLS, Grammars, constrained, matcher
from .values import random_value


@pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda d: d.name)
def test_required_calls_exclude_examples_with_content_before_them(dialect: Dialect) -> None:
    # For all other examples, `tests/test_invariants.py` checks that they are generated.
    level = ToolStrictLevel.PARAMETER
    for example in dialect.examples:
        if example.tool_calls and example.content:
            constraint = constrained(
                dialect, example_tools(dialect), "required", stage=example.stage, strict_level=level
            )
            assert Grammars(constraint).refuses(example.raw[0]), example.raw[0]


def message(schemas: dict[str, Any], rng: random.Random, dialect: Dialect) -> dict[str, Any]:
    names = rng.choices(list(schemas), k=rng.choice((1, 1, 2, 3)))
    return {
        "role": "assistant",
        "reasoning_content": rng.choice(("", "Plan.\nThen act.")) if dialect.reasoning else "",
        "content": rng.choice(("", "", "Sure, a < b.")) if dialect.policy.text_before_tools != "content" else "",
        "tool_calls": [function_call(n, random_value(schemas[n], schemas[n], rng)) for n in names],
    }


@pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda d: d.name)
def test_rendered_messages_are_generated(dialect: Dialect) -> None:
    rng = random.Random(dialect.name)
    written = 0
    for schemas in (PLAIN, RICH):
        tools = as_tools(schemas)
        grammars = {}
        for choice in ("auto", "required"):
            grammars[choice] = Grammars(constrained(dialect, tools, choice))
        for _ in range(12):
            turn = message(schemas, rng, dialect)
            try:
                raw = render(turn, dialect, tools=tools)
            except DialectError:
                continue  # not every dialect can write everything
            written += 1
            assert not grammars["auto"].refuses(raw), raw
            assert bool(grammars["required"].refuses(raw)) == bool(turn["content"]), raw
    assert written > 8


@pytest.mark.parametrize("dialect", [d for d in WITH_CALLS if d.argument], ids=lambda d: d.name)
def test_a_text_neither_begins_nor_ends_with_the_tags_around_it(dialect: Dialect) -> None:
    tools = [tool("f", city="string")]
    constraint = constrained(dialect, tools, "required", strict_level=ToolStrictLevel.PARAMETER)
    lark, plain = Grammars(constraint), matcher(constraint.gbnf)
    opening, after = (t.strip() for t in write_arguments(dialect, {"city": "\0"}).split("\0"))
    texts = [f"{opening}Paris", f"\n {opening}\nParis", f"Paris{after}", f"Paris\n{after} \n"]
    texts += [opening[opening.rindex("<") :] + "Paris"] if dialect.name.startswith(("glm", "iquest", "spark")) else []
    written = render(calling(function_call("f", {"city": "Paris"})), dialect, tools=tools)
    for text in ("Paris", *texts):
        raw = written.replace("Paris", text)
        fits = values(parse(raw, dialect, tools=tools)) == [("f", {"city": text})]
        assert fits == (text == "Paris")
        assert (not lark.refuses(raw), not stuck(plain, raw)) == (fits, fits), text
    # In the middle of a text, what may be generated reads back.
    for text in (f"a{after}b", f"a{after * 2}b"):
        raw = written.replace("Paris", text)
        assert lark.refuses(raw) or values(parse(raw, dialect, tools=tools)) == [("f", {"city": text})]


def stuck(grammar: Any, text: str) -> bool:
    """Whether a text cannot be generated."""
    matcher = grammar.deep_copy()
    data = text.encode()
    return bool(matcher.try_consume_tokens(list(data)) < len(data))


def reads(raw: str, dialect: Dialect | str, tools: list[Any], *arguments: Any) -> bool:
    """Whether a text is read as calls with these arguments."""
    calls = parse(raw, dialect, tools=tools).tool_calls
    return [c.status == "ok" and json.loads(c.arguments) for c in calls] == list(arguments)


PARTS: tuple[tuple[str, str, list[dict[str, Any]]], ...] = (
    ("", "", []),
    ("Plan.", "", []),
    ("", "Hi.", []),
    ("Plan.", "Hi.", []),
    ("", "", [function_call("now")]),
    ("", "", [function_call("now"), function_call("get_weather", {"city": "Bonn"})]),
    ("Plan.", "", [function_call("now")]),
    ("Plan.", "Hi.", [function_call("get_weather", {"city": "Bonn", "days": 3}), function_call("now")]),
)


@pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda d: d.name)
def test_every_rendered_combination_of_parts_is_generated_in_every_stage(dialect: Dialect) -> None:
    written = 0
    for stage in (None, "content", "tool_call", *(("reasoning", "undecided") if dialect.reasoning else ())):
        for choice in ("auto", "required"):
            grammar = Grammars(constrained(dialect, STRICT, choice, stage=stage))
            for reasoning, content, calls in PARTS:
                turn = {"reasoning_content": reasoning, "content": content, "tool_calls": calls}
                try:
                    raw = render(turn, dialect, tools=STRICT, stage=stage)
                except DialectError:
                    continue  # not every dialect can write everything
                written += 1
                wanted = choice == "auto" or (calls and not content and not (stage == "content" and reasoning))
                assert bool(grammar.refuses(raw)) != bool(wanted), (stage, choice, raw)
    assert written > 10


@pytest.mark.parametrize("lead", ["", "\n\n"])
def test_the_white_space_after_reasoning_comes_before_content_of_any_frame(lead: str) -> None:
    dialect = dialect_of(f"""reasoning = "Thought: {{reasoning}}\\nEnd of thought.\\n"
content = {json.dumps(lead + "Final Answer: {content}")}
calls = "{{calls}}\\n"
call = "Action: {{name}}\\nAction Input: {{arguments}}"
""")
    grammar = Grammars(constrained(dialect, STRICT, "auto"))
    thought = "Thought: plan\nEnd of thought."
    call = "Action: now\nAction Input: {}\n"
    for text in ("Final Answer: Hi.", f"Final Answer: Hi.\n{call}", call):
        assert not grammar.refuses(text)
        for margin in ("", "\n", *([] if text == call else [lead])):
            assert not grammar.refuses(f"{thought}{margin}{text}"), (margin, text)


@pytest.mark.parametrize("id", ["c_{index}", "{name}_{number}", "call_????"])
@pytest.mark.parametrize("margin", ["", "\n"])
def test_text_does_not_hide_a_bare_call_whose_id_comes_before_its_name(id: str, margin: str) -> None:
    dialect = dialect_of(f"""reasoning = {json.dumps(f"<think>{{reasoning}}</think>{margin}")}
calls = "[{{calls}}]"
call = '{{"id": "{{id}}", "fn": "{{name}}", "kw": {{arguments}}}}'
separator.calls = ", "
id = "{id}"
""")
    for choice in ("auto", "required"):
        constraint = constrained(dialect, STRICT, choice)
        grammar = Grammars(constraint)
        calls = [function_call("get_weather", {"city": "x"}), function_call("now")]
        for reasoning in ("", "plan"):
            turn = {"role": "assistant", "reasoning_content": reasoning, "tool_calls": calls}
            raw = render(turn, dialect, tools=STRICT)
            assert not grammar.refuses(raw), raw
        assert bool(grammar.refuses('[{"id": 3, "title": "x"}]')) == (choice == "required")
        assert constraint.gbnf
        assert constraint.structural_tag


@pytest.mark.parametrize("block", ["{calls}", "\\n\\n{calls}\\n"])
def test_text_and_calls_that_begin_with_a_name_and_a_word_are_generated(block: str) -> None:
    dialect = dialect_of(f'calls = "{block}"\ncall = "{{name}} call: {{arguments}}"')
    grammar = Grammars(constrained(dialect, STRICT, "auto"))
    for text in ("Hello.", "now", "now call: {}"):
        assert not grammar.refuses(text), text


def test_text_with_possible_calls_anywhere_stays_within_the_engines_limit_of_work() -> None:
    keys = """reasoning = "#tool#{reasoning}/#"\ncalls = "[{calls}]"
call = "{'name': '{name}', 'parameters': {arguments}}"\nanywhere = ["["]"""
    constraint = constrained(dialect_of(keys), STRICT, "auto")
    for mask in (True, False):
        matcher = Grammars(constraint).matcher()
        for token in b"[{'name': 'now', 'parameters': {}}]":
            assert not mask or matcher.mask()[token]
            assert matcher.accept(token)


STRINGS = {"a": {"type": "string"}, "b": {"type": "string"}}
VALUES = (
    *("", "a </parameter> b", "</function>", "</parameter>\n</tool_call> or not"),
    *("<parameter=b>\n", "x\n<parameter=b>\ny", "x <parameter=b>\ny", "x\n<parameter=a>", "x\n<parameter=c>\ny"),
)


@pytest.mark.parametrize("value", VALUES)
def test_markup_values_may_contain_markers_that_are_read_as_text(value: str) -> None:
    tools = as_tools({"write": {"properties": STRINGS, "required": ["a"]}})
    text = "<tool_call>\n<function=write>\n<parameter=a>\n{}\n</parameter>\n{}</function>\n</tool_call>"
    grammar = Grammars(constrained("qwen3-coder", tools, "required", stage="content"))
    for more in ("", "<parameter=b>\nx</parameter> y\n</parameter>\n"):
        raw = text.format(value, more)
        wanted = {"a": value} | ({"b": "x</parameter> y"} if more else {})
        assert bool(grammar.refuses(raw)) != reads(raw, "qwen3-coder", tools, wanted), raw


def test_without_line_breaks_an_argument_opens_anywhere_in_a_value() -> None:
    tools = as_tools({"write": {"properties": STRINGS, "required": ["a"]}})
    constraint = constrained("glm47", tools, "required", stage="content")
    for value, read in (("x <arg_key>b</arg_key><arg_value>y", False), ("x <arg_key>c</arg_key><arg_value>y", True)):
        call = f"<tool_call>write<arg_key>a</arg_key><arg_value>{value}</arg_value></tool_call>"
        assert reads(call, "glm47", tools, {"a": value}) == read
        assert bool(Grammars(constraint).refuses(call)) != read, call


KEYED = dialect_of("""
calls = "<calls>{calls}</calls>"
call = "<call>{name}>{arguments}</call>"
argument = "<{key}>{value}</{key}>"
""")


@pytest.mark.parametrize("value", ["<i>x</i>", "</i>", "a < b", "< b", "</a", "< b>x", "<b>x", "</ a>y", "<c>x</c>"])
def test_a_value_closed_by_its_key_may_contain_other_tags(value: str) -> None:
    tools = as_tools({"f": {"properties": {**STRINGS, "o": {"type": "object"}}, "required": ["a"]}}, strict=False)
    grammar = Grammars(constrained(KEYED, tools, "required", stage="content"))
    for key, text in (("a", value), ("o", json.dumps({"k": value}))):
        arguments = {"a": "x", key: value if key == "a" else {"k": value}}
        raw = "<calls><call>f>" + "".join(f"<{k}>{text if k == key else v}</{k}>" for k, v in arguments.items())
        raw += "</call></calls>"
        as_meant = reads(raw, KEYED, tools, arguments)
        assert as_meant or grammar.refuses(raw), raw
        if "<i>" in value or "<c>" in value:
            assert as_meant, raw
            assert not grammar.refuses(raw), raw


SECTIONS = ("x</param>y", "x</function>y", "x</param></function>", 'x</function>\n<function name="write">y')


@pytest.mark.parametrize("value", SECTIONS)
def test_a_section_of_raw_text_contains_no_closing_that_ends_its_call(value: str) -> None:
    tools = as_tools({"write": {"properties": STRINGS, "required": ["a"]}})
    constraint = constrained("minicpm5", tools, "required", stage="content")
    raw = f'<function name="write"><param name="a"><![CDATA[{value}]]></param></function>'
    as_meant = reads(raw, "minicpm5", tools, {"a": value})
    assert bool(Grammars(constraint).refuses(raw)) != as_meant
    assert as_meant == ("<function" not in value)
    assert as_meant or not Reader(gbnf(constraint.grammar)).takes(raw)


@pytest.mark.parametrize("schema", [{"type": "string", "maxLength": 20}, {"type": "string"}])
def test_a_text_does_not_begin_as_a_section_of_raw_text(schema: dict[str, Any]) -> None:
    tools = as_tools({"f": {"type": "object", "properties": {"a": schema}}}, strict=False)
    constraint = constrained("minicpm5", tools, "required", stage="content")
    for key in ("a", "undeclared"):
        for value, taken in (("<![CDATA[x", False), ("x<![CDATA[", True), ("<!", True)):
            raw = f'<function name="f"><param name="{key}">{value}</param></function>'
            assert bool(Grammars(constraint).refuses(raw)) != taken, raw
            assert not Reader(gbnf(constraint.grammar)).takes(raw) or taken, raw


NESTED = dialect_of("""
calls = "[calls]{calls}[/calls]"
call = "* {name}: {arguments} 1)"
argument = '<p name="{key}">{value}</p>'
item = "<i>{value}</i>"
""")


@pytest.mark.parametrize("text", ["x 1)[calls]* g: y", "x 1)[/calls]", "x <i>", '<p name="b">', "x 1", "</i> ["])
@pytest.mark.parametrize("within", ["a", "o", "l"])
def test_nested_text_contains_nothing_that_ends_its_call(text: str, within: str) -> None:
    one, more = {"type": "string"}, {"type": "object", "properties": {"k": {"type": "string"}}}
    schema = {"properties": {"a": one, "o": more, "l": {"type": "array", "items": one}}, "required": [within]}
    tools = as_tools({"f": schema, "g": {"properties": {}}})
    constraint = constrained(NESTED, tools, "required", stage="content")
    inner = {"a": text, "o": f'<p name="k">{text}</p>', "l": f"<i>{text}</i>"}[within]
    raw = f'[calls]* f: <p name="{within}">{inner}</p> 1)[/calls]'
    meant = {within: {"a": text, "o": {"k": text}, "l": [text]}[within]}
    as_meant = reads(raw, NESTED, tools, meant)
    assert as_meant or Grammars(constraint).refuses(raw), raw
    if text == "x 1":
        assert as_meant
        assert not Grammars(constraint).refuses(raw), raw


@pytest.mark.parametrize(
    ("thought", "as_meant"),
    [("x", True), ("x</also", False), ("x</also ", True), ("x</also>", False), ("</alsox", True)],
)
def test_no_other_marker_begins_in_a_text_and_ends_in_its_closing(thought: str, as_meant: bool) -> None:
    dialect = dialect_of(
        """reasoning = ["<<{reasoning}>>", "<also>{reasoning}</also>"]\ncall = "<f {name}>{arguments}</f>\""""
    )
    constraint = constrained(dialect, STRICT, "auto", stage="content")
    raw = f"<<{thought}>>answer"
    message = unspool.parse(raw, dialect, tools=STRICT)
    assert ((message.reasoning, message.content) == (thought, "answer")) == as_meant
    assert (not Grammars(constraint).refuses(raw)) == as_meant
    assert Reader(gbnf(constraint.grammar)).takes(raw) == as_meant


@pytest.mark.parametrize("value", ["x", "x@", "x @ ", "x@,", "@x", "x@y"])
def test_a_value_does_not_end_with_a_closing_before_its_own(value: str) -> None:
    dialect = dialect_of("""call = "<f {name}>{arguments}</f>"\nargument = "@{key} = {value} @\"""")
    tools = as_tools({"f": {"properties": STRINGS, "required": ["a", "b"]}})
    constraint = constrained(dialect, tools, "required", stage="content")
    raw = f"<f f>@a = {value} @@b = y @</f>"
    as_meant = reads(raw, dialect, tools, {"a": value, "b": "y"})
    assert as_meant or Grammars(constraint).refuses(raw), raw
    assert as_meant == (value in ("x", "x@,", "@x", "x@y"))
    assert value != "x" or not Grammars(constraint).refuses(raw)


def one_value(dialect: str, schema: dict[str, Any], text: str) -> tuple[bool, Any]:
    """Whether a call with this text for its argument ``a`` is generated, and what is read."""
    tools = as_tools({"f": {"type": "object", "properties": {"a": schema}, "required": ["a"]}})
    raw = render(calling(function_call("f", {"a": "SLOT"})), dialect).replace("'SLOT'", text).replace("SLOT", text)
    constraint = constrained(dialect, tools, "required", stage="content")
    read = unspool.parse(raw, dialect, tools=tools).tool_calls[0]
    return not Grammars(constraint).refuses(raw), read.arguments if read.status == "ok" else None


AUTO = {"anyOf": [{"const": "auto"}, {"type": "integer"}]}
EDGES = [
    ("qwen3-coder", AUTO, "auto", '{"a": "auto"}'), ("qwen3-coder", AUTO, "-7", '{"a": -7}'),
    ("qwen3-coder", AUTO, "other", None),
    ("qwen3-coder", {"anyOf": [{"enum": ["7", "x"]}, {"type": "integer"}]}, "7", '{"a": "7"}'),
    ("qwen3-coder", {"anyOf": [{"enum": ["null"]}, {"type": "null"}]}, "null", '{"a": "null"}'),
    ("qwen3-coder", {"type": ["string", "null"], "enum": ["x", None]}, "null", '{"a": null}'),
    ("glm47", AUTO, "-7", '{"a": -7}'), ("minimax-m3", AUTO, "-7", '{"a": -7}'),
    *((d, {"type": "number"}, "1e99", '{"a": 1e99}') for d in ("qwen3-coder", "pythonic")),
    *((d, {"type": "number"}, "-2.5E-07", '{"a": -2.5E-07}') for d in ("qwen3-coder", "pythonic")),
    *((d, {"type": "number"}, "1e999", None) for d in ("qwen3-coder", "pythonic")),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "schema", "text", "wanted"), EDGES)
def test_a_value_is_generated_only_if_it_is_read_as_the_schema_says(
    dialect: str, schema: dict[str, Any], text: str, wanted: str | None
) -> None:
    generated, read = one_value(dialect, schema, text)
    assert generated == (wanted is not None)
    assert wanted is None or read == wanted


CODE = (
    "see `a` ", "see `a", "see `a\n", "see ``a ", "see `a``b` ", "see `a``", "see `", "`a` `b", "```\ncode\n```\n",
    "x ```",
)  # fmt: skip


@pytest.mark.parametrize("prose", CODE)
def test_no_call_begins_in_a_code_span(prose: str) -> None:
    constraint = constrained("hermes", STRICT)
    raw = prose + '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    read = unspool.parse(raw, "hermes", tools=STRICT)
    assert bool(Grammars(constraint).refuses(raw)) == (not read.tool_calls)
    assert Reader(gbnf(constraint.grammar)).takes(raw) == bool(read.tool_calls)


HELD = ("a <think>b", "a <tHinK>b", "a</think>b", "a</THINK>b", "a</tool_call>b", "a<tool_call></tool_call>b")


@pytest.mark.parametrize("content", HELD)
def test_content_contains_no_marker_that_would_be_read_as_one(content: str) -> None:
    for dialect, generated in (("hermes", False), ("deepseek", True)):
        constraint = constrained(dialect, STRICT, stage="content")
        assert (not Grammars(constraint).refuses(content)) == generated, dialect
        as_meant = unspool.parse(content, dialect, tools=STRICT, stage="content").content == content
        assert as_meant or not generated
    hermes = constrained("hermes", STRICT)
    assert not Reader(gbnf(hermes.grammar)).takes(content)


def test_strings_contain_no_marker_that_would_end_them() -> None:
    end = "<｜tool▁call▁end｜>"
    for dialect, held in (("deepseek", False), ("deepseek-r1", False), ("deepseekv31", True)):
        constraint = constrained(dialect, STRICT, "required", stage="content")
        raw = render(calling(function_call("get_weather", {"city": f"a{end}b"})), dialect, tools=STRICT)
        assert (raw.count(end) == 2) == held
        assert not Grammars(constraint).refuses(raw)
        spelled = raw.replace("\\u003c", "<")
        assert bool(Grammars(constraint).refuses(spelled)) != held


def test_a_marker_in_the_name_of_a_property_is_escaped_where_it_would_end_a_string() -> None:
    key = "x<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    tools = as_tools({"f": {"type": "object", "properties": {key: {"type": "integer"}}, "required": [key]}})
    constraint = constrained("deepseek", tools, "required", stage="content")
    raw = render(calling(function_call("f", {key: 3})), "deepseek", tools=tools)
    assert not Grammars(constraint).refuses(raw)
    assert Grammars(constraint).refuses(raw.replace("\\u003c", "<"))
    assert unspool.parse(raw, "deepseek", tools=tools).tool_calls[0].arguments_dict() == {key: 3}


@pytest.mark.parametrize("dialect", ["hermes", "qwen3-coder", "pythonic", "gemma4"])
def test_no_argument_is_named_like_a_wrapper_of_all_others(dialect: str) -> None:
    tools = as_tools({"f": {"type": "object", "properties": {"city": {"type": "string"}}}}, strict=False)
    constraint = constrained(dialect, tools, "required", stage="content")
    for name in ("arguments", "argument"):
        raw = render(calling(function_call("f", {name: "x"})), dialect)
        assert bool(Grammars(constraint).refuses(raw)) == (name == "arguments"), raw
    named = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    constraint = constrained(dialect, as_tools({"f": named}, strict=False), "required", stage="content")
    for name in ("arguments", "argument"):
        raw = render(calling(function_call("f", {"name": "f", name: "x"})), dialect)
        assert bool(Grammars(constraint).refuses(raw)) == (name == "arguments"), raw


@pytest.mark.parametrize(("dialect", "bare"), [("json", True), ("xlam", True), ("hermes", False), ("pythonic", False)])
@pytest.mark.parametrize("name", ["type", "properties"])
def test_where_nothing_marks_calls_no_other_argument_is_named_like_the_first_of_a_schema(
    dialect: str, bare: bool, name: str
) -> None:
    tools = as_tools({"f": {"type": "object", "properties": {"city": {"type": "string"}}}}, strict=False)
    constraint = constrained(dialect, tools, "required", stage="content")
    raw = render(calling(function_call("f", {name: "x"})), dialect)
    assert bool(Grammars(constraint).refuses(raw)) == bare


def test_a_schema_that_only_json_can_keep_holds_at_every_reference() -> None:
    item = {"type": "object", "properties": {"c": {"type": "string", "pattern": "^a+$"}}, "required": ["c"]}
    listed = {"type": "array", "items": {"$ref": "#/$defs/o"}, "minItems": 1}
    tools = as_tools({"f": {"$defs": {"o": item}, "properties": {"x": listed, "y": listed}, "required": ["x", "y"]}})
    grammar = Grammars(constrained("qwen3-coder", tools, "required", stage="content"))
    value = "\n<parameter={}>\n{}\n</parameter>"
    for x, refused in (('[{"c": "aa"}]', False), ("[]", True), ("[{}]", True), ('[{"c": "b"}]', True)):
        both = value.format("x", x) + value.format("y", '[{"c": "a"}]')
        raw = f"<tool_call>\n<function=f>{both}\n</function>\n</tool_call>"
        assert bool(grammar.refuses(raw)) == refused, raw


def test_json_values_may_be_spaced_but_not_without_end() -> None:
    grammar = Grammars(constrained("hermes", STRICT, "required", stage="content"))
    text = '<tool_call>\n{"name": "get_weather", "arguments": {SPACE"city":SPACE"x"}}\n</tool_call>'
    assert not grammar.refuses(text.replace("SPACE", ""))
    assert not grammar.refuses(text.replace("SPACE", "\n    "))
    assert grammar.refuses(text.replace("SPACE", " " * 40))


def test_the_content_keeps_to_the_response_format_after_free_reasoning() -> None:
    schema = closed_tool("f", n="integer")["function"]["parameters"]
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    grammar = Grammars(constrained("hermes", response_format=form))
    assert not grammar.refuses('<think>\nfree "text" here\n</think>\n\n{"n": 3}')
    assert not grammar.refuses('{"n": 3}')
    assert grammar.refuses('{"n": "3"}')
    assert grammar.refuses("<think>\nplan\n</think>\n\nfree text")
    harmony = constrained("harmony", response_format=form)
    raw = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>"
    assert not Grammars(harmony).refuses(raw.replace("{}", '{"n": 1}'))
    assert Grammars(harmony).refuses(raw)


def test_a_json_answer_contains_no_marker() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    grammar = Grammars(constrained("hermes", response_format=schema))
    for text in ("<think>", "<tHiNk>", "</tool_call>", "<tool_call>"):
        assert grammar.refuses(json.dumps({"a": text}))
        assert not grammar.refuses(json.dumps({"a": text}).replace("<", "\\u003c"))
    assert not grammar.refuses('{"a": "a < b", "c": [1, {}, null]}')


def test_the_grammar_begins_at_the_given_stage() -> None:
    call = '{"name": "now", "arguments": {}}\n</tool_call>'
    for stage, text in (
        ("content", f"<tool_call>\n{call}"),
        ("reasoning", f"plan\n</think>\n\n<tool_call>\n{call}"),
        ("tool_call", call),
        ("undecided", f"plan\n</think>\n\n<tool_call>\n{call}"),
    ):
        assert not Grammars(constrained("hermes", STRICT, "required", stage=stage)).refuses(text), stage
    constraint = constrained("hermes", STRICT, "required", prompt="<|im_start|>assistant\n<think>\n")
    assert not Grammars(constraint).refuses(f"plan\n</think>\n\n<tool_call>\n{call}")
    open_ = constrained("hermes", STRICT, "required")
    for text, refused in (
        (f"<tool_call>\n{call}", False),
        (f"<think>\nplan\n</think>\n\n<tool_call>\n{call}", False),
        (f"Sure.\n<tool_call>\n{call}", True),
        (f"<think>\nplan\n</think>\n\nSure.\n<tool_call>\n{call}", True),
        (f"<think>\nplan\n</THINK>\n</think>\n\n<tool_call>\n{call}", True),
    ):
        assert bool(Grammars(open_).refuses(text)) == refused, text
    content = constrained("hermes", STRICT, "required", stage=unspool.Stage.CONTENT)
    assert Grammars(content).refuses(f"Sure.\n<tool_call>\n{call}")
    assert Grammars(content).refuses(f"<think>\nplan\n</think>\n\n<tool_call>\n{call}")


@pytest.mark.parametrize("place", ["{%s}", '{"a":%s1}', '{"a": 1%s}', '{"a": {%s"b": [%s]}}'])
@pytest.mark.parametrize("char", [" ", "\n", "\t"])
def test_white_space_in_json_has_a_bound_that_indented_values_keep_to(place: str, char: str) -> None:
    grammar = Grammars(constrained("hermes", [tool("f")], "required", stage="content"))
    for count, accepted in ((0, True), (17, True), (31, True), (33, False), (5000, False)):
        value = place.replace("%s", char * count)
        text = f'<tool_call>\n{{"name": "f", "arguments": {value}}}\n</tool_call>'
        assert bool(grammar.refuses(text)) is not accepted, (place, count)


@pytest.mark.parametrize(
    ("names", "good", "bad"),
    [
        ({"type": "string"}, {"x": 1}, {"x": "1"}),
        ({"type": "string", "pattern": "^a+$"}, {"aa": 1}, {"b": 1}),
        ({"enum": ["x", "y"]}, {"y": 2}, {"z": 1}),
    ],
)
def test_the_names_of_a_map_are_held_as_code_generators_write_them(names: Any, good: Any, bad: Any) -> None:
    counts = {"type": "object", "propertyNames": names, "additionalProperties": {"type": "integer"}}
    schema = {"type": "object", "properties": {"counts": counts}, "required": ["counts"]}
    constraint = constrained("hermes", as_tools({"f": schema}), "required")

    def refused(value: Any) -> str:
        return Grammars(constraint).refuses(render(calling(function_call("f", {"counts": value})), "hermes"))

    assert not refused(good)
    assert refused(bad)


def test_other_names_of_a_map_are_refused() -> None:
    for more in ({"propertyNames": {"maxLength": 3}}, {"propertyNames": {"pattern": "a"}, "properties": {"b": {}}}):
        with pytest.raises(unspool.ConstraintError, match="propertyNames: is not supported"):
            constrain("hermes", as_tools({"f": {"type": "object", **more}}), "required")
