"""Traps that some engine falls into today, each for the dialects to which it applies."""

import json
from typing import Any

import pytest

from unspool import Dialect, Parser, Policy, Stage, ToolCallDelta, get_dialect
from unspool.check.promises import stands_out
from unspool.dialect.compiling import marked

from .support import (
    CALLING,
    DIALECTS,
    THINKING,
    TOOLS,
    VERBATIM,
    Calls,
    alike,
    assert_calls,
    block_is_marked,
    dialect_of,
    literals,
    named,
    notices,
    readings,
    run,
    splits,
    tool,
    values,
)
from .writing import call_forms, write_call, write_calls, write_content, write_reasoning, write_turn

KEEPING = [d for d in CALLING if "content" not in (d.policy.text_before_tools, d.policy.text_between_tools)]
BARE = [d for d in CALLING if not block_is_marked(d)]
PLAIN = [d for d in DIALECTS if not any(t.before for t in d.content)]
"""Dialects whose content is bare."""


def assert_text(dialect: Dialect | str, text: str, **options: Any) -> None:
    """Assert that a turn with only a text is content in both ways."""
    raw = text if isinstance(dialect, str) else write_turn(dialect, text)
    for message in readings(dialect, raw, **{"tools": TOOLS, **options}):
        assert (message.content, message.tool_calls, message.reasoning) == (text, [], "")
        assert message.finish_reason == "stop"
        assert notices(message) == []


# -- where calls are -------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(**named([d for d in KEEPING if d in PLAIN and d.calls[0].lead and stands_out(d)]))
def test_white_space_that_the_template_writes_before_calls_is_no_content(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("f", {"a": "x"})])
    lead = dialect.calls[0].lead
    assert_calls(dialect, f"Before.{lead}{raw}", [("f", {"a": "x"})], "Before.")
    assert_calls(dialect, f"Before. {lead}{raw}", [("f", {"a": "x"})], "Before. ")
    assert_calls(dialect, f"Before.\t\n\n\n{lead}{raw}", [("f", {"a": "x"})], "Before.\t\n\n\n")


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
    assert values(alike(dialect, raw, splits(raw), tools=TOOLS)) == calls


# -- plain content that looks like something ---------------------------------------------------------------------------

LOOKALIKES = [
    "[1, 2, 3]", "See [the docs](https://x.y) [1].", "```python\nprint([f(a='x')])\n```\n", "```json\n{\"a\": 1}\n```",
    "```\nplain\n```", '{"a": 1}', "{not json", '{"name": "Ada", "born": 1815}',
    '{"name": "unknown_tool", "arguments": {}}', "{}", "{", "[", "[]", "[f", "[f]", "f(a='x')", "a < b && c > d",
    "x <", "x </", "<", "<b>bold</b> &amp; <i>", "100% 'quoted' \"text\" \\n \\", "tool", "function",
    "Use `<` and `[`.", "\ufeffBOM", "1 <| 2 |> 3", "Hello.\n\n", " leading",
]  # fmt: skip


@pytest.mark.parametrize(**named(PLAIN))
def test_plain_content_that_looks_like_syntax_is_kept(dialect: Dialect) -> None:
    calls: Calls = [("g", {"a": "y"})]
    called = bool(dialect.call) and not dialect.policy.text_before_tools and dialect not in BARE
    words = [e for text in literals(dialect) for e in (text, text.split()[0])]  # the first word is a marker of its own
    own = [*dialect.anywhere, *(e for e in words if marked((e,), dialect.anywhere))]
    forms = list(call_forms(dialect, "f", "a='x'"))
    for text in LOOKALIKES:
        called_f = "a='x'" in text and any(form.startswith(text) for form in forms)
        if any(e in text or (marked((text,)) and e.startswith(text)) for e in own) or called_f:
            continue  # in this dialect, it is a marker, the telling part of one, or a call, perhaps without its closing
        assert_text(dialect, text, stage="content")
        if called and not any(text.endswith(e[: len(text)]) for e in literals(dialect) if text):
            raw = f"{dialect.content[0].inner_lead}{text}. {write_calls(dialect, calls)}"
            for message in readings(dialect, raw, tools=TOOLS, stage="content"):
                assert values(message) == calls
                assert message.content.rstrip() == f"{text}."


def test_a_sign_that_begins_a_marker_is_text_by_itself() -> None:
    dialect = dialect_of('call = "[ name={name}|{arguments}]"')
    for text in ("1 [", "1 [ ", "1 [2]", "[ nam"):
        for message in readings(dialect, text, tools=TOOLS, stage="content"):
            assert (message.content, message.notices) == (text, [])
    cut, _ = run(dialect, ["1 [ name="], tools=TOOLS, stage="content")
    assert (cut.content, notices(cut)) == ("1 ", ["stray_open"])


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ('call = "<call name={name}>{arguments}</call>"', "Ask the <caller name> or <callx>."),  # a longer word
        ('calls = "(f{call}\\nf)"\ncall = "(a|{name}{arguments}a)"', "One (foo) and (f1)."),
        ('calls = "[x\\n{calls}[/x"\ncall = "%%get {name}: {arguments}/%%"', "A [xy] and [/xy]."),
        ("call = '[ \"{name}\"|{arguments}]'\nanywhere = ['[ \"']", "1 [2] [ 3 [ "),  # a sign that is only a part
    ],
)
def test_text_that_only_begins_like_a_marker_of_calls_is_text(keys: str, text: str) -> None:
    assert_text(dialect_of(keys), text, stage="content")


@pytest.mark.parametrize("call", ["<f{name}({arguments})/>", "<f {name}({arguments})/>"])
def test_a_name_may_go_on_where_its_marker_ends_in_a_letter(call: str) -> None:
    dialect = dialect_of(f'call = "{call}"\narguments = "python"')
    message, _ = run(dialect, ["Hi. <fg"], tools=TOOLS, stage="content", finish_reason="length")
    assert (message.content, notices(message)) == ("Hi. ", ["stray_open"])


@pytest.mark.parametrize(
    ("reasoning", "calls", "call"),
    [
        ("(f|{reasoning} f)", "(f{call}\\nf)", "(a|{name}{arguments}a)"),
        ("(f a='b'|{reasoning} f)", "{call}", "(f {name}: {arguments}\\n/f)"),
    ],
)
def test_a_reasoning_marker_that_is_text_is_not_reported_as_a_broken_call(
    reasoning: str, calls: str, call: str
) -> None:
    dialect = dialect_of(f'reasoning = "{reasoning}"\ncalls = "{calls}"\ncall = "{call}"')
    opening = reasoning.partition("{")[0]
    for text in (f"Hi. {opening}one", f"Hi. {opening}one{opening}two"):
        assert_text(dialect, text, stage="content", policy=Policy(reasoning_in_content="closed"))
    assert_text(dialect, f"Hi. {opening}one f) two", stage="content", policy=Policy(reasoning_in_content="text"))
    message, _ = run(dialect, ["Hi. (f @@"], tools=TOOLS, stage="content")
    assert notices(message) == ["call_without_name"]


@pytest.mark.parametrize(**named(DIALECTS))
def test_the_beginning_of_a_marker_at_the_end_is_content(dialect: Dialect) -> None:
    for literal in literals(dialect):
        for at in range(1, len(literal)):
            text = f"Well then. {literal[:at]}"
            message, _ = run(dialect, [text], tools=TOOLS, stage="content", finish_reason="length")
            if literal[:at] not in literals(dialect) and not any(e in text for e in dialect.end):
                assert message.content.startswith("Well then."), text
                assert "".join(c.name for c in message.tool_calls) == "", text


@pytest.mark.parametrize(**named([d for d in THINKING if not d.framed]))
def test_an_opening_echoed_at_the_start_of_reasoning_is_a_marker(dialect: Dialect) -> None:
    raw = write_reasoning(dialect, "plan") + write_content(dialect, "answer")
    for message in readings(dialect, raw, stage="reasoning", tools=TOOLS):
        assert (message.reasoning, message.content) == ("plan", "answer")


@pytest.mark.parametrize(**named([d for d in THINKING if d.call and not d.framed and d not in BARE]))
def test_reasoning_may_open_again_after_a_call(dialect: Dialect) -> None:
    calls: Calls = [("f", {"a": "x"})]
    raw = write_reasoning(dialect, "one") + write_calls(dialect, calls) + write_reasoning(dialect, "two")
    for message in readings(dialect, raw, tools=TOOLS):
        assert (message.reasoning, message.content, values(message)) == ("onetwo", "", calls), raw
        assert [s.kind for s in message.segments] == ["reasoning", "tool_call", "reasoning"]


@pytest.mark.parametrize(**named([d for d in DIALECTS if d.end and not d.framed]))
def test_the_end_of_a_turn_is_dropped_at_the_end_and_text_before_it(dialect: Dialect) -> None:
    for end in dialect.end:
        for message in readings(dialect, f"Hello.{end}", tools=TOOLS):
            assert message.content == "Hello.", end
        assert_text(dialect, f"It ends with {end} as said.", stage="content")


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(CALLING))
def test_names_of_any_usual_form_are_read_whole(dialect: Dialect) -> None:
    for name in ("a", "get_weather", "files.search", "mcp-server_tool", "ns:tool", "a/b", "x1"):
        if ":" in name and "{index}" in dialect.call[0].text:
            continue  # this dialect cannot write such a name
        calls: Calls = [(name, {"a": "x"}), (name, {"a": "y"})]
        assert_calls(dialect, write_calls(dialect, calls), calls, tools=[tool(name, a="string")])


@pytest.mark.parametrize(
    **named(
        [d for d in VERBATIM if d.call[0].object is not None and not d.call[0].object.name_is_key and d not in BARE]
    )
)
def test_an_object_without_a_name_is_text_with_a_notice(dialect: Dialect) -> None:
    if "{name}" in "".join(p if isinstance(p, str) else f"{{{p.name}}}" for p in dialect.call[0].before):
        pytest.skip("the header names the call")
    shape = dialect.call[0].object
    assert shape is not None
    key = next(k for k, role in shape.keys if role == "arguments")
    good = write_call(dialect, 0, "f", {"a": "x"})
    for bad in (f'{{"{key}": {{"a": 1}}}}', "{}", f'{{"nom": "f", "{key}": {{}}}}'):
        head = good[: good.index("{")]
        raw = write_calls(dialect, [("f", {"a": "x"})]).replace(good, head + bad) + " more"
        for message in readings(dialect, raw, tools=TOOLS):
            assert message.tool_calls == [], raw
            if message.reasoning:  # the closing of calls also closes reasoning, so the text was reasoning
                assert dialect.stage is Stage.UNDECIDED
                assert bad in message.reasoning, raw
                continue
            assert bad in message.content
            assert "call_without_name" in notices(message), raw


@pytest.mark.parametrize(**named([d for d in CALLING if d.call[0].object is None and d not in BARE]))
def test_a_header_without_a_name_is_text_with_a_notice(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("@@", {"a": "x"})])
    for message in readings(dialect, raw, tools=TOOLS):
        if message.tool_calls:  # another form takes the header's fixed word for the name, and the rest is broken
            assert [(c.known, c.status) for c in message.tool_calls] == [(False, "invalid")], raw
            continue
        if message.reasoning:  # the closing of calls also closes reasoning, so the text was reasoning
            assert dialect.stage is Stage.UNDECIDED
            assert "@@" in message.reasoning, raw
            continue
        assert "@@" in message.content, raw
        assert "call_without_name" in notices(message), raw


@pytest.mark.parametrize(
    **named([d for d in VERBATIM if d.call[0].object is not None and not d.call[0].object.name_is_key])
)
def test_the_keys_of_a_call_may_come_in_any_order_beside_others(dialect: Dialect) -> None:
    shape = dialect.call[0].object
    assert shape is not None
    keys = {role: key for key, role in shape.keys}
    good = write_call(dialect, 0, "f", {"a": "x"})
    # The object may be a member of another.
    at = good.rindex("{", 0, good.index(f"{shape.quote}{keys['name']}{shape.quote}"))
    to = next(i for i in range(at + 1, len(good) + 1) if good.count("{", at, i) == good.count("}", at, i))
    head, tail = good[:at], good[to:]
    for arguments in (keys["arguments"], "arguments", "parameters", "args", "input", "tool_arguments"):
        for text in (
            f'{{"{arguments}": {{"a": "x"}}, "{keys["name"]}": "f"}}',
            f'{{ "extra" : [1, {{"{keys["name"]}": "no"}}], "{keys["name"]}" :\n"f" , '
            f'"{arguments}":{{"a": "x"}}, "more": null}}',
        ):
            if dialect in BARE and "extra" in text:
                continue
            raw = write_calls(dialect, [("f", {"a": "x"})]).replace(good, head + text + tail)
            assert_calls(dialect, raw, [("f", {"a": "x"})])


# -- no tools, forced tools --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(CALLING))
@pytest.mark.parametrize(
    "options", [{"tools": []}, {"tools": None, "tool_choice": "none"}, {"tools": TOOLS, "tool_choice": "none"}], ids=str
)
def test_without_tools_the_markup_of_calls_comes_back_verbatim(dialect: Dialect, options: dict[str, Any]) -> None:
    if dialect.framed:
        pytest.skip("the frames of a call are the dialect's own")
    raw = write_calls(dialect, [("f", {"a": "x"}), ("g", {"a": "y"})])
    for message in readings(dialect, raw, stage="content", **options):
        assert (message.content, message.tool_calls, message.finish_reason) == (raw, [], "stop")
    if dialect.reasoning:
        thought = write_reasoning(dialect, "plan") + dialect.reasoning[0].trail
        for message in readings(dialect, thought + raw, stage="content", **options):
            assert (message.reasoning, message.content, message.tool_calls) == ("plan", raw, [])


@pytest.mark.parametrize(**named(CALLING))
def test_a_required_call_may_be_bare_json(dialect: Dialect) -> None:
    named_g = {"type": "function", "function": {"name": "g"}}
    one = '{"name": "f", "arguments": {"a": "x"}}'
    two = f'[{one}, {{"name": "now", "parameters": {{}}}}]'
    assert_calls(dialect, one, [("f", {"a": "x"})], tool_choice="required", stage="content")
    assert_calls(dialect, two, [("f", {"a": "x"}), ("now", {})], tool_choice="required", stage="content")
    assert_calls(dialect, '{"a": "x", "n": 3}', [("g", {"a": "x", "n": 3})], tool_choice=named_g, stage="content")
    assert_calls(
        dialect, '{"name": "g", "arguments": {"a": "x"}}', [("g", {"a": "x"})], tool_choice=named_g, stage="content"
    )
    assert_calls(
        dialect, '{"name": "g", "parameters": {"a": "x"}}', [("g", {"a": "x"})], tool_choice=named_g, stage="content"
    )
    # any other object is taken for the arguments
    for text in (
        '{"name": "Ada", "arguments": 3}',
        '{"arguments": {}, "name": "g"}',
        '{"name": "g"}',
        '{"name": "g", "born": 1}',
        "{}",
    ):
        assert_calls(dialect, text, [("g", json.loads(text))], tool_choice=named_g, stage="content")


@pytest.mark.parametrize(
    "call",
    [
        "{'name': '{name}', 'parameters': {arguments}}",
        '{"tool": "{name}", "input": {arguments}}',
        '{"id": "{id}", "name": "{name}", "arguments": {arguments}}',
        '{"{name}": {arguments}}',
    ],
)
def test_an_object_is_the_named_call_where_the_dialect_writes_it_so(call: str) -> None:
    dialect = dialect_of(f"call = {json.dumps(call)}")
    calls: Calls = [("g", {"a": "x"})]
    named_g = {"type": "function", "function": {"name": "g"}}
    assert_calls(dialect, write_calls(dialect, calls), calls, tool_choice=named_g)
    assert_calls(dialect, write_calls(dialect, calls), calls, tool_choice="required")
    bare = '{"name": "f", "arguments": {"a": "x"}}'
    assert_calls(dialect, bare, [("f", {"a": "x"})], tool_choice="required")
    for text in ('{"tool": "f", "input": {}}', '{"tool": "g"}', '{"id": 1}', '{"g": 1}', "{}"):
        assert_calls(dialect, text, [("g", json.loads(text))], tool_choice=named_g)


@pytest.mark.parametrize(
    "keys",
    [
        'end = ["@end"]\ncalls = "@tool\\n{calls}@end"\ncall = "<f {name}>{arguments}</f>"',
        'end = ["@end"]\ncalls = "@tool\\n{call}\\n@end"\ncall = "<f {name}>{arguments}</f>"',
        'end = ["@end"]\ncalls = "<t>{calls}@end"\ncall = \'{"name": "{name}", "arguments": {arguments}}\'',
    ],
)
def test_what_closes_calls_that_are_text_does_not_end_the_turn(keys: str) -> None:
    dialect = dialect_of(keys)
    raw = write_calls(dialect, [("f", {"a": "x"})])
    ways_to_text: list[dict[str, Any]] = [
        {"tools": []},
        {"tools": TOOLS, "policy": Policy(text_before_tools="content")},
    ]
    for options in ways_to_text:
        for message in readings(dialect, f"Well. {raw}", **options):
            assert (message.content, message.tool_calls) == (f"Well. {raw}", [])
        message, _ = run(dialect, [f"Well. {raw}@end"], **options)
        assert message.content == f"Well. {raw}"


def test_a_blocks_closing_ends_a_call_without_arguments_and_without_a_closing_of_its_own() -> None:
    dialect = dialect_of('calls = "<t>{call}</t>"\ncall = "\\n{name} {arguments}\\n"')
    for arguments in ("", " ", "null"):
        raw = write_calls(dialect, [("now", arguments), ("f", '{"a": "x"}')])
        assert_calls(dialect, raw, [("now", {}), ("f", {"a": "x"})])


def test_a_broken_call_in_a_fence_of_a_marked_block_ends_at_the_fence() -> None:
    dialect = dialect_of('calls = "@tool{call}@end"\ncall = "```call\\n{name}({arguments}\\n```"')
    raw = write_calls(dialect, [("f", '{"a": @@}')])
    for message in readings(dialect, raw, tools=TOOLS):
        assert [(c.status, c.arguments.rstrip()) for c in message.tool_calls] == [("invalid", '{"a": @@}')]


def test_endless_white_space_in_a_named_object_is_not_held() -> None:
    choice = {"type": "function", "function": {"name": "g"}}
    parser = Parser("hermes", tools=TOOLS, tool_choice=choice)
    assert parser.feed('{"name"' + " " * 4000) == []
    assert "".join(e.arguments for e in parser.feed(" " * 1000) if isinstance(e, ToolCallDelta)).startswith('{"name" ')


# -- single dialects' own traps ----------------------------------------------------------------------------------------


def test_llama_calls_are_read_with_semicolons_and_as_python_dicts() -> None:
    raw = "<|python_tag|>{'name': 'f', 'parameters': {'a': 'it\\'s', 'n': -3}}; "
    raw += '{"name": "g", "parameters": {"a": "; }"}}'
    assert_calls(get_dialect("llama3"), raw, [("f", {"a": "it's", "n": -3}), ("g", {"a": "; }"})])


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
