"""Every value of every policy, whole and in streams, and the RFC's rules for the four names that it registers."""

import itertools
import json
from typing import Any, NamedTuple

import pytest

from unspool import Dialect, Message, Policy, get_dialect
from unspool.dialect.compiling import compile_plan
from unspool.policy import CHOICES

from .support import (
    CALLING,
    PYTHON,
    RFC_NAMES,
    THINKING,
    VERBATIM,
    alike,
    chunkings,
    is_marked,
    named,
    notices,
    splits,
    tool,
    values,
)
from .writing import around_reasoning, write_arguments, write_calls, write_content, write_reasoning

TOOLS = [tool("f", a="string", n="integer"), tool("g", a="string"), tool("now")]
Calls = list[tuple[str, Any]]
F: Calls = [("f", {"a": "x"})]
G: Calls = [("g", {"a": "y"})]

OWN_CLOSING = [d for d in CALLING if d.calls[0].after or d.call[0].after or d.call[0].object]
MARKED = [d for d in OWN_CLOSING if is_marked(d)]
UNFRAMED = [d for d in MARKED if not any(t.before for t in d.content)]
JSON_LIKE = [d for d in UNFRAMED if d in VERBATIM]
XML = [d for d in UNFRAMED if d.argument]
KEEP = Policy(text_before_tools="keep", text_between_tools="keep")


def both(dialect: Dialect | str, raw: str, policy: Policy | None, **options: Any) -> Message:
    """The message, which must be the same for the whole text and for single characters."""
    return alike(dialect, raw, [list(raw)], **{"tools": TOOLS, "policy": policy, **options})


# -- the class ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", CHOICES)
def test_a_value_that_is_not_listed_is_an_error_that_lists_what_is(field: str) -> None:
    with pytest.raises(ValueError, match=field) as error:
        Policy(**{field: "nonsense"})  # type: ignore[arg-type]
    assert all(str(value) in str(error.value) for value in CHOICES[field])


def test_a_policy_is_frozen_and_unset_fields_take_the_dialects_default() -> None:
    policy = Policy(bad_arguments="drop")
    with pytest.raises(AttributeError):
        policy.bad_arguments = "raw"  # type: ignore[misc]
    raw = "Sure." + write_calls(get_dialect("deepseek"), F)
    assert both("deepseek", raw, policy, stage="content").tool_calls == []
    assert values(both("deepseek", raw, Policy(text_before_tools="keep"), stage="content")) == F


# -- text_before_tools -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(UNFRAMED))
def test_text_before_tools_content_makes_everything_after_prose_content(dialect: Dialect) -> None:
    raw = "Prose.\n" + write_calls(dialect, F + G) + "more"
    policy = Policy(text_before_tools="content")
    message = both(dialect, raw, policy, stage="content")
    assert (message.content, message.tool_calls, message.finish_reason) == (raw, [], "stop")
    assert "call_markers_as_text" in notices(message)
    blank = both(dialect, "\n\n" + write_calls(dialect, F), policy, stage="content")
    assert (blank.content, values(blank)) == ("", F)
    if dialect.reasoning:
        thought = both(dialect, write_reasoning(dialect, "plan") + write_calls(dialect, F), policy)
        assert (thought.reasoning, thought.content, values(thought)) == ("plan", "", F)


# -- text_between_tools ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(UNFRAMED))
def test_text_between_tools_content_stops_reading_calls(dialect: Dialect) -> None:
    policy = Policy(text_between_tools="content")
    second = write_calls(dialect, G)
    message = both(dialect, write_calls(dialect, F) + "XYZ\n" + second, policy)
    assert (message.content, values(message), message.finish_reason) == (f"XYZ\n{second}", F, "tool_calls")
    assert "call_markers_as_text" in notices(message)
    blank = both(dialect, write_calls(dialect, F) + "\n\n" + second, policy)
    assert (blank.content, values(blank)) == ("", F + G)


# -- bad_arguments -----------------------------------------------------------------------------------------------------

BAD = '{"a": @@}'


@pytest.mark.parametrize(**named(JSON_LIKE))
def test_bad_arguments_drop_leaves_the_call_out(dialect: Dialect) -> None:
    policy = Policy(bad_arguments="drop")
    raw = write_calls(dialect, [("f", BAD), *G])
    message = both(dialect, raw, policy)
    assert values(message) == G
    assert [c.index for c in message.tool_calls] == [0]
    assert "bad_arguments" in notices(message)
    assert message.content == ""
    alone = both(dialect, write_calls(dialect, [("f", BAD)]), policy)
    assert (alone.tool_calls, alone.finish_reason, alone.content) == ([], "stop", "")
    assert "empty" in notices(alone)


@pytest.mark.parametrize(**named(JSON_LIKE))
def test_bad_arguments_text_gives_the_call_back_as_text(dialect: Dialect) -> None:
    message = both(
        dialect, write_calls(dialect, [("f", BAD), *G]), Policy(bad_arguments="text", text_before_tools="keep")
    )
    assert values(message) == G
    assert BAD in message.content
    alone = both(dialect, write_calls(dialect, [("f", BAD)]), Policy(bad_arguments="text"))
    assert (alone.tool_calls, alone.finish_reason) == ([], "stop")
    assert BAD in alone.content


REPAIRS = [
    ('{"a": "x",}', {"a": "x"}, "trailing comma"),
    ('{"a": [1,2 ,],}', {"a": [1, 2]}, "trailing comma"),
    ("{'a': 'x'}", {"a": "x"}, "single quotes"),
    ('{"a": "it\'s", "b": \'"q"\'}', {"a": "it's", "b": '"q"'}, "single quotes"),
    ('{"a": True, "b": None, "n": False}', {"a": True, "b": None, "n": False}, "Python literal"),
    ('{a: "x"}', {"a": "x"}, "bare key"),
    ("{a: .5, b: 5., n: +1, c: 1_000}", {"a": 0.5, "b": 5.0, "n": 1, "c": 1000}, "bare key"),
    ('{"n": 0x1F, "b": [-0b11]}', {"n": 31, "b": [-3]}, "number"),
    ('{"a": [1, 2,], "n": 3}', {"a": [1, 2], "n": 3}, "trailing comma"),
    ('{"a": "two\nlines\t"}', {"a": "two\nlines\t"}, "control character"),
    ('{"a": "x\\d\\\'z"}', {"a": "x\\d'z"}, "escape"),
    ('{"a": "x"', {"a": "x"}, ""),
    ('{"a": [1, {"b": "x"', {"a": [1, {"b": "x"}]}, ""),
    ('{"a": "say "hi" now"}', {"a": 'say "hi" now'}, "quotes in a string"),
    ('{"a": "he said "x"", "n": 1}', {"a": 'he said "x"', "n": 1}, "quotes in a string"),
    ("{'a': 'x' 'y'}", {"a": "xy"}, "single quotes"),
    ('{"a": [{"b": "x"}, {"c": [2]}}', {"a": [{"b": "x"}, {"c": [2]}]}, "brackets"),
    ('{"a": [{"b": 1], "c": {"n": [1 }}', {"a": [{"b": 1}], "c": {"n": [1]}}, "brackets"),
]
"""What models write, what it means, and how the notice calls the repair."""


@pytest.mark.parametrize(**named(JSON_LIKE))
@pytest.mark.parametrize(("written", "meant", "name"), REPAIRS, ids=[w for w, _, _ in REPAIRS])
def test_bad_arguments_repair_repairs_what_keeps_its_meaning(
    dialect: Dialect, written: str, meant: Any, name: str
) -> None:
    if dialect.call[0].object is not None and written.count("{") > written.count("}"):
        pytest.skip("the call's own brace closes the arguments")
    message = both(dialect, write_calls(dialect, [("f", written), *G]), Policy(bad_arguments="repair"))
    assert values(message) == [("f", meant), *G], message
    assert [c.status for c in message.tool_calls] == ["repaired", "ok"]
    assert [name in n.detail for n in message.notices if n.kind == "repaired"] == [True], message.notices
    assert message.tool_calls[0].raw


BARE = [d for d in PYTHON if d in UNFRAMED]
PYTHON_REPAIRS = [
    ("a=f'x' f\"y\"", {"a": "xy"}),
    ("**{'a': 'x'}", {"a": "x"}),
    ("n=1, **{\"a\": 'x', 'b': True}", {"n": 1, "a": "x", "b": True}),
    ("**{'a': 'x'}, n=1", {"a": "x", "n": 1}),
    ("a={'x', 'y'}", {"a": ["x", "y"]}),
]


@pytest.mark.parametrize(**named(BARE))
@pytest.mark.parametrize(("written", "meant"), PYTHON_REPAIRS, ids=[w for w, _ in PYTHON_REPAIRS])
def test_python_that_is_no_json_is_repaired_to_what_it_means(dialect: Dialect, written: str, meant: Any) -> None:
    raw = write_calls(dialect, [("f", written), *G])
    cuts = [list(raw), *splits(raw)]
    message = alike(dialect, raw, cuts, tools=TOOLS, policy=Policy(bad_arguments="repair"))
    assert (values(message), [c.status for c in message.tool_calls]) == ([("f", meant), *G], ["repaired", "ok"])


@pytest.mark.parametrize(**named(BARE))
@pytest.mark.parametrize("written", ["a=f'{x}'", "a=f'x{y}'", "**kw", "**{}", "*[1]", "a='x' y"])
def test_python_whose_value_is_unknown_is_not_repaired(dialect: Dialect, written: str) -> None:
    message = both(dialect, write_calls(dialect, [("f", written)]), Policy(bad_arguments="repair"))
    assert [c.status for c in message.tool_calls] in (["invalid"], ["incomplete"])


@pytest.mark.parametrize(**named(JSON_LIKE))
@pytest.mark.parametrize("written", [BAD, '{"a": x y}', '{"a": "b" "c"}', "{,}", '{"a": 0x}'])
def test_arguments_that_cannot_be_repaired_are_passed_on_as_raw(dialect: Dialect, written: str) -> None:
    raw = write_calls(dialect, [("f", written), *G])
    message = both(dialect, raw, Policy(bad_arguments="repair"))
    plain = both(dialect, raw, Policy(bad_arguments="raw"))
    for call, other in zip(message.tool_calls, plain.tool_calls, strict=True):
        assert call.name == other.name
        if call.status == "invalid":
            assert call.arguments == other.arguments
        else:
            assert isinstance(json.loads(call.arguments), dict)
    assert message.tool_calls[-1].name == "g"
    assert message.tool_calls[-1].status == "ok"


@pytest.mark.parametrize(**named(XML))
def test_bad_arguments_applies_to_calls_of_elements(dialect: Dialect) -> None:
    spoiled = "?? stray " + write_arguments(dialect, {"a": "one"})
    raw = write_calls(dialect, [("f", spoiled), *G])
    choices: tuple[Any, ...] = ("drop", "text")
    for choice in choices:
        message = both(dialect, raw, Policy(bad_arguments=choice, text_before_tools="keep"))
        assert values(message) == G
        assert ("stray" in message.content) == (choice == "text" or "call_without_name" in notices(message))


# -- unknown_tool ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(MARKED))
@pytest.mark.parametrize("choice", CHOICES["unknown_tool"])
def test_a_call_of_an_undeclared_tool_is_treated_as_the_policy_says(dialect: Dialect, choice: Any) -> None:
    policy = Policy(unknown_tool=choice, text_between_tools="keep", text_before_tools="keep")
    raw = write_calls(dialect, [("stranger", {"a": "w"}), *F])
    message = both(dialect, raw, policy)
    assert "undeclared_tool" in notices(message)
    if choice == "forward":
        assert values(message) == [("stranger", {"a": "w"}), *F]
        assert [c.known for c in message.tool_calls] == [False, True]
        assert message.content == ""
        return
    assert values(message) == F
    assert [(c.index, c.known) for c in message.tool_calls] == [(0, True)]
    assert ("stranger" in message.content) == (choice == "text")
    alone = both(dialect, write_calls(dialect, [("stranger", {"a": "w"})]), policy)
    assert (alone.tool_calls, alone.finish_reason) == ([], "stop")
    assert ("empty" in notices(alone)) == (choice == "drop")
    undeclared = both(dialect, raw, policy, tools=None)
    assert [c.known for c in undeclared.tool_calls] == [None, None], "where the tools are unknown no tool is"


@pytest.mark.parametrize(**named(MARKED))
def test_calls_are_given_back_as_text_with_their_block(dialect: Dialect) -> None:
    def bare(text: str) -> str:
        for marker in (*dialect.start, *dialect.end):
            text = text.replace(marker.strip(), "") if marker.strip() else text
        return "".join(text.split())

    policy = Policy(unknown_tool="text", text_between_tools="keep", text_before_tools="keep")
    raw = write_calls(dialect, [("stranger", {"a": "w"}), ("other", {"a": "w"})])
    assert bare(both(dialect, raw, policy).content) == bare(raw)


# -- unclosed_reasoning ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(THINKING))
def test_reasoning_that_is_never_closed_is_reasoning_or_content(dialect: Dialect) -> None:
    for raw, stage in (("plan and more", "reasoning"), (around_reasoning(dialect)[0] + "plan and more", None)):
        message = both(dialect, raw, Policy(unclosed_reasoning="reasoning"), stage=stage)
        assert (message.reasoning, message.content) == ("plan and more", "")
        assert "unclosed_reasoning" in notices(message)
        message = both(dialect, raw, Policy(unclosed_reasoning="content"), stage=stage)
        assert (message.reasoning, message.content) == ("", "plan and more")
        assert "unclosed_reasoning" in notices(message)


@pytest.mark.parametrize(**named(THINKING))
def test_reasoning_that_is_closed_stays_reasoning_under_every_policy(dialect: Dialect) -> None:
    raw = write_reasoning(dialect, "plan") + dialect.reasoning[0].trail + write_content(dialect, "answer")
    for choice in CHOICES["unclosed_reasoning"]:
        message = both(dialect, raw, Policy(unclosed_reasoning=choice))
        assert (message.reasoning, message.content) == ("plan", "answer")
        assert "unclosed_reasoning" not in notices(message)


# -- call_in_reasoning -------------------------------------------------------------------------------------------------

INSIDE = [d for d in THINKING if d in MARKED and not (d.framed and d.reasoning[0].text.startswith(d.start))]


@pytest.mark.parametrize(**named(INSIDE))
@pytest.mark.parametrize("choice", CHOICES["call_in_reasoning"])
def test_a_call_in_reasoning_is_text_or_its_end_or_an_interruption(dialect: Dialect, choice: Any) -> None:
    call = write_calls(dialect, F)
    raw = write_reasoning(dialect, f"plan{call}more") + write_content(dialect, "So.")
    message = both(dialect, raw, Policy(call_in_reasoning=choice, text_between_tools="keep"), stage="content")
    closing = around_reasoning(dialect)[1].strip()
    if choice == "text" and closing in call:  # it closes the reasoning, whether or not it is in a call
        assert message.reasoning.rstrip() == "plan" + call.partition(closing)[0].rstrip()
        assert values(message) == []
    elif choice == "text":
        assert (message.reasoning, values(message), message.content) == (f"plan{call}more", [], "So.")
        assert message.finish_reason == "stop"
    elif choice == "resume":
        assert (message.reasoning, values(message), message.content) == ("planmore", F, "So.")
        assert [s.kind for s in message.segments] == ["reasoning", "tool_call", "reasoning", "content"]
    else:
        assert (message.reasoning, values(message)) == ("plan", F)
        assert message.content.startswith("more")


@pytest.mark.parametrize(**named(INSIDE))
def test_a_call_at_the_end_of_reasoning_that_it_closes_leaves_no_text(dialect: Dialect) -> None:
    opening = around_reasoning(dialect)[0]
    message = both(dialect, f"{opening}plan" + write_calls(dialect, F + G), Policy(call_in_reasoning="close"))
    assert (message.reasoning, message.content, values(message)) == ("plan", "", F + G)


# -- bare_calls --------------------------------------------------------------------------------------------------------

WRAPPED = [d for d in MARKED if all(b.opening for b in compile_plan(d).calls.blocks)]


@pytest.mark.parametrize(**named(WRAPPED))
def test_bare_calls_reads_calls_without_their_wrapper(dialect: Dialect) -> None:
    call = write_calls(dialect, F)
    head, tail = dialect.calls[0].text.split("{call", 1)
    bare = call.strip().removeprefix(head.strip()).removesuffix(tail.split("}", 1)[1].strip()).strip()
    assert bare != call
    with_policy = both(dialect, bare, Policy(bare_calls=True), stage="content")
    assert (values(with_policy), with_policy.content) == (F, ""), bare
    without = both(dialect, bare, Policy(bare_calls=False), stage="content")
    assert without.tool_calls == []
    wrapped = both(dialect, call, Policy(bare_calls=True))
    assert values(wrapped) == F


# -- the RFC's tables --------------------------------------------------------------------------------------------------

WEATHER = [tool("get_weather", location="string", unit="string"), tool("search", query="string")]
V31 = '<｜tool▁call▁begin｜>\nget_weather<｜tool▁sep｜>{"location": "北京", "unit": "c"}\n<｜tool▁call▁end｜>'
V3 = (
    '<｜tool▁call▁begin｜>\nfunction<｜tool▁sep｜>get_weather\n```json\n{"location": "北京", "unit": "c"}\n```\n'
    "<｜tool▁call▁end｜>"
)
X = {"location": "北京", "unit": "c"}


def section(*calls: str) -> str:
    return "<｜tool▁calls▁begin｜>\n" + "\n".join(calls) + "\n<｜tool▁calls▁end｜>"


class Row(NamedTuple):
    """A row of the RFC: an output in a stage, and its meaning. ``CALL`` stands for a call of either version."""

    section: str
    stage: str | None
    raw: str
    reasoning: str
    content: str
    calls: int
    finish: str = "stop"
    notice: str | None = None


CALL = "\0"
TEXT = "call_markers_as_text"
ROWS = [
    Row("3.2.1 reasoning stage", "reasoning", "ABCD", "ABCD", "", 0, notice="unclosed_reasoning"),
    Row("3.2.1 content stage", "content", "ABCD", "", "ABCD", 0),
    Row("3.2.2 no call", "reasoning", "ABCD </think> EFG", "ABCD ", " EFG", 0),
    Row("3.2.2 the stage is unknown", None, "ABCD </think> EFG", "ABCD ", " EFG", 0),
    Row("3.2.3 prose and a call", "reasoning", f"ABCD </think>\nEFG\n{CALL}", "ABCD ", f"EFG\n{CALL}", 0, notice=TEXT),
    Row("3.2.4 line breaks before a call", "reasoning", f"ABCD </think>\n\n{CALL}", "ABCD ", "", 1, "tool_calls"),
    Row("3.2.4 the stage is unknown", None, f"ABCD </think>\n\n{CALL}", "ABCD ", "", 1, "tool_calls"),
    Row("3.2.5 blank calls", "reasoning", f"ABCD </think>\n\n{CALL}\n{CALL}", "ABCD ", "", 2, "tool_calls"),
    Row("3.2.5 prose between calls", "reasoning", f"ABCD </think>\n\n{CALL}XYZ\n{CALL}", "ABCD ", f"XYZ\n{CALL}", 1,
        "tool_calls", TEXT),
    Row("3.3 prose alone", "content", "content</s>", "", "content", 0),
    Row("3.3 a call alone", "content", f"{CALL}</s>", "", "", 1, "tool_calls"),
    Row("3.3 a call alone, unknown stage", None, f"{CALL}</s>", "", "", 1, "tool_calls"),
    Row("3.3 prose before a call", "content", f"EFG\n{CALL}", "", f"EFG\n{CALL}", 0, notice=TEXT),
    Row("3.3 prose before a call, unknown stage", None, f"EFG\n{CALL}", "", f"EFG\n{CALL}", 0, notice=TEXT),
    Row("edge: no marker at all", None, "ABCD", "", "ABCD", 0),
    Row("edge: only a closing", None, "ABCD</think>EFG", "ABCD", "EFG", 0),
    Row("edge: a call right behind the closing", None, f"ABCD</think>{CALL}", "ABCD", "", 1, "tool_calls"),
    Row("edge: several closings, the first counts", None, "A</think>B</think>C", "A", "B</think>C", 0),
    Row("edge: thinking is off", "content", "ABCD", "", "ABCD", 0),
    Row("edge: thinking is off, unknown stage", None, "ABCD</s>", "", "ABCD", 0),
    Row("1 standard form", None, "<think>ABCD</think>EFG", "ABCD", "EFG", 0),
    Row("1 reasoning alone", None, "<think>ABCD</think>", "ABCD", "", 0),
    Row("1 empty reasoning", None, "<think></think>EFG", "", "EFG", 0),
    Row("1 an opening without a closing", None, "<think>ABCD", "ABCD", "", 0, notice="unclosed_reasoning"),
]  # fmt: skip


@pytest.mark.parametrize("name", RFC_NAMES)
@pytest.mark.parametrize("shape", [V31, V3], ids=["v3.1", "v3"])
@pytest.mark.parametrize("row", ROWS, ids=[r.section for r in ROWS])
def test_the_rfcs_rules_apply_to_its_names(name: str, shape: str, row: Row) -> None:
    raw, content = (t.replace(CALL, section(shape)) for t in (row.raw, row.content))
    message = both(name, raw, None, stage=row.stage, tools=WEATHER)
    # White space beside a marker may be a margin of the dialect.
    assert message.reasoning.strip() == row.reasoning.strip()
    assert message.content.strip() == content.strip()
    assert values(message) == [("get_weather", X)] * row.calls
    assert message.finish_reason == row.finish
    assert row.notice is None or row.notice in notices(message)
    assert row.calls == 0 or not message.content.strip() or row.section.startswith("3.2.5 prose")


@pytest.mark.parametrize("name", RFC_NAMES)
@pytest.mark.parametrize("shape", [V31, V3], ids=["v3.1", "v3"])
def test_the_rfcs_3_2_6_repairs_or_passes_on_and_spares_other_calls(name: str, shape: str) -> None:
    good = shape
    for bad, status, arguments in (
        ('{"location": "北京", "unit": "c"', "repaired", X),
        ('{"location": "北京", "unit": ', "", None),
        ('{"location": @@}', "invalid", None),
    ):
        broken = shape.replace('{"location": "北京", "unit": "c"}', bad)
        message = both(name, f"t</think>{section(broken, good)}", None, tools=WEATHER)
        assert [c.name for c in message.tool_calls] == ["get_weather"] * 2
        assert message.tool_calls[0].status in ([status] if status else ["invalid", "repaired"])
        if arguments is not None:
            assert json.loads(message.tool_calls[0].arguments) == arguments
        assert json.loads(message.tool_calls[1].arguments) == X
        assert message.tool_calls[1].status == "ok"


@pytest.mark.parametrize("name", RFC_NAMES)
def test_the_rfcs_missing_fields_do_no_harm(name: str) -> None:
    no_name = section("<｜tool▁call▁begin｜><｜tool▁sep｜>{}<｜tool▁call▁end｜>")
    message = both(name, no_name, None, tools=WEATHER)
    assert message.tool_calls == []
    assert "call_without_name" in notices(message)
    no_arguments = section("<｜tool▁call▁begin｜>search<｜tool▁sep｜><｜tool▁call▁end｜>")
    assert values(both(name, no_arguments, None, tools=WEATHER)) == [("search", {})]


def test_names_of_engines_keep_text_that_the_rfcs_names_drop() -> None:
    for name in ("deepseekv3", "deepseek_v3", "deepseekv31", "deepseek_v31"):
        raw = "EFG\n" + section(V3 if name.endswith("v3") else V31)
        message = both(name, raw, None, tools=WEATHER)
        assert (message.content.strip(), values(message)) == ("EFG", [("get_weather", X)])
        assert both(name, "A</think>B", None).reasoning == "", "their stage is content"


def test_after_a_call_that_is_text_the_same_markers_count_however_the_output_is_cut() -> None:
    raw = '<tool_calls>[{"name": "s", "arguments": {}}]</tool_calls>c<tool_calls>[{"<answer><tool_calls>[{'
    policy = Policy(text_between_tools="content")
    message = alike("hunyuan_a13b", raw, chunkings(raw), policy=policy)
    assert message.content == 'c<tool_calls>[{"<answer><tool_calls>[{'


def test_a_dialect_keeps_few_of_the_plans_that_clients_ask_for() -> None:
    dialect = get_dialect("hermes")
    for chosen in itertools.islice(itertools.product(*CHOICES.values()), 200):
        compile_plan(dialect, Policy(**dict(zip(CHOICES, chosen, strict=True))))
        assert len(dialect.compiled) <= 34


# -- rows of the RFC and of its neighbours -----------------------------------------------------------------------------

RFC = ["deepseek", "deepseek-r1"]


def rfc_call(body: str) -> str:
    """A call of DeepSeek in its block, with the text between its markers."""
    return f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{body}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"


@pytest.mark.parametrize("name", RFC)
@pytest.mark.parametrize("body", ["garbage", "now", "garbage more", "g\ngarbage"])
def test_a_malformed_separator_is_a_broken_call_under_the_names_of_the_rfc(name: str, body: str) -> None:
    message = both(name, rfc_call(f"g<｜tool▁sep｜>{body}"), None, stage="content")
    assert [(c.name, c.arguments, c.status) for c in message.tool_calls] == [("g", body, "invalid")]


@pytest.mark.parametrize("tag", ["think", "reasoning", "thought", "Thought"])
@pytest.mark.parametrize("name", [*RFC, "openai-generic", "think"])
def test_the_other_tags_of_reasoning_are_read_under_general_names(name: str, tag: str) -> None:
    message = both(name, f"<{tag}>plan</{tag}>Hello", None)
    assert (message.reasoning, message.content) == ("plan", "Hello")


@pytest.mark.parametrize(**named([d for d in THINKING if d.end]))
def test_an_end_token_in_open_reasoning_is_as_the_end_of_the_output(dialect: Dialect) -> None:
    closes = {t.after[0].strip() for t in dialect.reasoning if t.after and isinstance(t.after[0], str)}
    for end in (e.strip() for e in dialect.end if e.strip() not in closes):
        for unclosed in CHOICES["unclosed_reasoning"]:
            policy = Policy(unclosed_reasoning=unclosed)
            message = both(dialect, f"plan{end}", policy, stage="reasoning")
            plain = both(dialect, "plan", policy, stage="reasoning")
            assert (message.reasoning, message.content) == (plain.reasoning, plain.content) != ("", "")
            assert notices(message) == notices(plain) == ["unclosed_reasoning"]


@pytest.mark.parametrize(**named([d for d in MARKED if "{calls}" in d.calls[0].text and d.calls[0].before]))
def test_the_stage_of_a_call_may_begin_inside_of_its_opening(dialect: Dialect) -> None:
    raw = write_calls(dialect, F + G)
    opened = dialect.calls[0].opening.strip()
    head = dialect.call[0].before[0] if dialect.call[0].before and dialect.call[0].object is None else ""
    inside = raw.removeprefix(opened).lstrip()
    rests = [inside]
    if isinstance(head, str) and is_marked(dialect) and inside.removeprefix(head.strip()).startswith("f"):  # no id
        rests.append(inside.removeprefix(head.strip()))
    for rest in rests:
        assert values(both(dialect, rest, KEEP, stage="tool_call")) == F + G


@pytest.mark.parametrize(**named(CALLING))
def test_text_in_the_stage_of_a_call_is_text(dialect: Dialect) -> None:
    for text in ("Hello.", "Hello, <b>you</b>."):
        message = both(dialect, text, KEEP, stage="tool_call")
        assert (message.content, message.tool_calls) == (text, [])


@pytest.mark.parametrize("name", RFC)
@pytest.mark.parametrize("after", ["", "\n"])
def test_an_end_token_in_an_open_string_stays_out_of_it_where_markers_in_strings_count(name: str, after: str) -> None:
    for end in get_dialect(name).end:
        cut = rfc_call('g<｜tool▁sep｜>{"a": "Par').partition("<｜tool▁call▁end｜>")[0]
        message = both(name, cut + end + after, None)
        assert [(c.name, c.arguments, c.status) for c in message.tool_calls] == [("g", '{"a": "Par"}', "repaired")]
        whole = both(name, rfc_call(f'g<｜tool▁sep｜>{{"a": "x{end} y"}}'), None)
        assert values(whole) == [("g", {"a": f"x{end} y"})]


@pytest.mark.parametrize(**named(MARKED))
@pytest.mark.parametrize("unknown_tool", CHOICES["unknown_tool"])
def test_a_name_that_is_the_end_of_a_declared_one_is_not_declared(dialect: Dialect, unknown_tool: Any) -> None:
    tools = [tool("mcp__playwright__browser_navigate", a="string"), tool("mcp__other__browser_navigate", a="string")]
    raw = write_calls(dialect, [("browser_navigate", {"a": "x"})])
    message = both(dialect, raw, Policy(unknown_tool=unknown_tool), tools=tools)
    names = [(c.name, c.known) for c in message.tool_calls]
    assert names == ([("browser_navigate", False)] if unknown_tool == "forward" else [])
    assert "undeclared_tool" in notices(message)
