"""Markers that content quotes as code, and markers that contain nothing."""

from typing import Any

import pytest

from unspool import Dialect, Message, Policy
from unspool.dialect.compiling import compile_plan
from unspool.dialect.markers import literals_of, tags
from unspool.parser.quoting import MAX_SPAN, Quoting

from ..support import CALLING, DIALECTS, THINKING, alike, is_marked, literals, named, notices, run, tool, values
from ..writing import around_reasoning, write_calls

TOOLS = [tool("f", a="string", n="integer"), tool("g", a="string")]
F: list[tuple[str, Any]] = [("f", {"a": "x"})]
FREE = [d for d in DIALECTS if not d.framed]
DROPPING = [d for d in CALLING if d.policy.stray_markers != "text"]


def both(dialect: Dialect | str, raw: str, **options: Any) -> Message:
    return alike(dialect, raw, [list(raw)], **{"tools": TOOLS, "stage": "content", **options})


# -- code spans --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(FREE))
def test_in_a_code_span_every_marker_is_text(dialect: Dialect) -> None:
    for literal in literals(dialect):
        if "`" not in literal and "\n" not in literal and literal != '"':
            raw = f"Write `{literal}` here."
            message = both(dialect, raw)
            assert (message.content, message.reasoning, message.tool_calls) == (raw, "", []), raw
            assert message.notices == [], raw


@pytest.mark.parametrize(**named([d for d in FREE if d.call and is_marked(d) and not d.policy.text_before_tools]))
def test_after_a_code_span_calls_are_read_again(dialect: Dialect) -> None:
    call = write_calls(dialect, F)
    if "`" in call:
        pytest.skip("the call itself has backticks")
    beside = ("Use `a` and ", "Use `a\n", "Use ``a ", "Use `a` `b`: ", f"Use `{'a' * MAX_SPAN}", "`a``b` ", "```a ")
    for before in beside:
        message = both(dialect, before + call.lstrip())
        assert values(message) == F, before
    for before in ("Use `", "Use `a` and `", "Use ``` `", f"Use `{'a' * (MAX_SPAN - 200)}"):
        message = both(dialect, before + call.strip().replace("\n", " "))
        assert message.tool_calls == [], before


def test_spans_and_fences_are_followed_at_any_cut() -> None:
    source = "a `b` ``c`` `d\n`e\n```py\n`x` ``\n```\n  ````\nf `g ` h\n````\n" * 3
    for size in (1, 2, 3, 7, len(source)):
        quoting = Quoting()
        for at in range(0, len(source), size):
            whole = Quoting()
            # A marker may begin inside a run of backticks, and is asked about there.
            assert quoting.quotes(source[at : at + size], at) == whole.quotes(source[: at + size], 0), (size, at)
            assert (quoting.fenced(), quoting.blank()) == (whole.fenced(), whole.blank()), (size, at)


@pytest.mark.parametrize(**named([d for d in CALLING if any("```" in t for t in literals(d))]))
def test_an_opening_inside_a_longer_run_of_backticks_is_read_alike_at_any_cut(dialect: Dialect) -> None:
    call = write_calls(dialect, F)
    fence = call[call.index("```") :] if "```" in call else f"```json\n{call}\n```"
    for before in ("", "x", "x\n", "`x", '{"name": "now"', "[", call):
        for count in range(1, 6):
            both(dialect, before + "`" * count + fence)


def test_an_unclosed_code_span_does_not_keep_a_turn_open() -> None:
    message = both("harmony", "<|channel|>final<|message|>Write `x<|return|>")
    assert message.content == "Write `x"
    inside = both("harmony", "<|channel|>final<|message|>Write `<|end|>` there<|return|>")
    assert inside.content == "Write `<|end|>` there"


# -- markers that contain nothing --------------------------------------------------------------------------------------


def closings(dialect: Dialect) -> list[str]:
    return [literals_of(s.pattern) for s in compile_plan(dialect, Policy()).reading.strays if not (s.opens or s.inner)]


def openings(dialect: Dialect) -> list[tuple[str, list[str]]]:
    strays = compile_plan(dialect, Policy()).reading.strays
    return [(literals_of(s.pattern), [literals_of(c) for c in s.closings]) for s in strays if s.opens and not s.text]


@pytest.mark.parametrize(**named([d for d in (*DROPPING, *THINKING) if not d.framed]))
def test_a_closing_that_closes_nothing_is_dropped(dialect: Dialect) -> None:
    for closing in closings(dialect):
        for before, after in (("a ", " b"), ("", "b"), ("a", "")):
            message = both(dialect, before + closing + after)
            assert closing not in message.content
        kept = both(dialect, f"a {closing} b", policy=Policy(stray_markers="text"))
        assert kept.content == f"a {closing} b"


@pytest.mark.parametrize(**named([d for d in DROPPING if not d.framed]))
def test_an_empty_blocks_opening_is_dropped(dialect: Dialect) -> None:
    for opening, ends in openings(dialect):
        for raw in (f"a {opening}", f"a {opening}\n", *(f"a {opening}\n{end}" for end in ends)):
            message = both(dialect, raw)
            assert (message.content.strip(), message.tool_calls) == ("a", []), raw
            assert "stray_open" in notices(message), raw
        twice = f"a {opening} {opening}"
        assert both(dialect, twice).content.strip() == "a", twice


@pytest.mark.parametrize(**named([d for d in DROPPING if not d.framed]))
def test_an_opening_that_text_follows_is_text_and_so_is_its_closing(dialect: Dialect) -> None:
    for opening, ends in openings(dialect):
        for end in ends:
            raw = f"a {opening} + {end} b"
            assert both(dialect, raw).content == raw


@pytest.mark.parametrize(**named([d for d in DROPPING if not d.framed]))
def test_without_tools_markers_of_calls_are_text(dialect: Dialect) -> None:
    marks = [closing for closing in closings(dialect) if closing not in reasoning_marks(dialect)]
    for mark in (*marks, *(opening for opening, _ in openings(dialect))):
        raw = f"a {mark} b"
        assert both(dialect, raw, tools=[]).content == raw
        assert both(dialect, raw, tool_choice="none").content == raw


def reasoning_marks(dialect: Dialect) -> set[str]:
    ends = compile_plan(dialect, Policy()).reasoning.closings
    return {literals_of(p) for end in ends for p in (end, *tags(end))}


CUT = [d for d in DROPPING if not d.framed and is_marked(d) and not d.policy.text_before_tools]


@pytest.mark.parametrize(**named(CUT))
def test_a_call_that_the_output_cuts_before_its_name_is_dropped_to_the_end(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("f_long_name", {"a": "x"})])
    tools = [*TOOLS, tool("f_long_name", a="string")]
    name = raw.index("f_long_name")
    for at in range(name, name + 6):
        for reason in ("stop", "length"):
            message, _ = run(dialect, ["Hi. " + raw[:at]], tools=tools, stage="content", finish_reason=reason)
            if any(s in raw[:at] and not s[:1].isalnum() and any(map(str.isalnum, s)) for s in literals(dialect)):
                assert (message.content.strip(), message.tool_calls) == ("Hi.", []), raw[:at]
                assert "stray_open" in notices(message), raw[:at]


def test_in_code_stray_markers_are_text() -> None:
    for raw in ("```\n</tool_call>\n```\n", "a `</think>` b", "```xml\n<tool_call></tool_call>\n```"):
        assert both("hermes", raw).content == raw


def test_a_tag_counts_as_stray_whatever_its_brackets_are() -> None:
    for name, raw in (("kimi", "a ◁/think▷ b"), ("mistral", "a [/THINK] b"), ("hermes", "a </think> b")):
        message = both(name, raw)
        assert (message.content, notices(message)) == ("a  b", ["stray_close"])


def test_a_doubled_opening_does_not_hide_the_call() -> None:
    for gap in ("", " ", "\n"):
        raw = f'[TOOL_CALLS]{gap}[TOOL_CALLS] [{{"name": "f", "arguments": {{"a": "x"}}}}]'
        message = both("mistral", raw)
        assert (message.content, values(message)) == ("", F)


@pytest.mark.parametrize(**named([d for d in THINKING if not d.framed and d.policy.stray_markers != "text"]))
def test_a_second_closing_of_reasoning_is_dropped(dialect: Dialect) -> None:
    closing = around_reasoning(dialect)[1].strip()
    if any(closing.startswith(e) for e in dialect.end) or text_of(closing) not in closings(dialect):
        pytest.skip("the closing of reasoning is no tag, or ends any part")
    message = both(dialect, f"plan{closing}one {closing} two", stage="reasoning")
    assert (message.reasoning, message.content) == ("plan", "one  two")
    assert notices(message) == ["stray_close"]


def text_of(closing: str) -> str:
    return "".join(closing.split())
