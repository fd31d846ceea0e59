"""Where reasoning opens and closes: in content, around calls, before other parts; in every dialect, at every cut."""

from typing import Any

import pytest

from unspool import Dialect, Message, Notice, Parser, Policy, Stage, ToolCall, detect_stage, get_dialect, render
from unspool.dialect.compiling import compile_plan
from unspool.dialect.markers import literals_of

from ..support import (
    AS_WRITTEN,
    CALLING,
    RFC_NAMES,
    THINKING,
    alike,
    block_is_marked,
    dialect_of,
    is_marked,
    named,
    notices,
    pieces,
    run,
    tool,
    values,
)
from ..writing import around_reasoning, write_calls

TOOLS = [tool("f", a="string", n="integer"), tool("g", a="string")]
F: list[tuple[str, Any]] = [("f", {"a": "x"})]


def both(dialect: Dialect | str, raw: str, **options: Any) -> Message:
    return alike(dialect, raw, [list(raw)], **{"tools": TOOLS, **options})


def tags(dialect: Dialect) -> tuple[str, str]:
    """The opening and the closing of reasoning."""
    opening, closing = around_reasoning(dialect)
    return opening.strip(), closing.strip()


def is_open(dialect: Dialect) -> bool:
    return dialect.policy.reasoning_in_content != "text"


FREE = [d for d in THINKING if not d.framed and is_open(d)]
MARKED = [d for d in FREE if d.call and is_marked(d) and d.policy.text_before_tools != "content"]
RESUMING = [d for d in MARKED if d.policy.call_in_reasoning == "resume"]
OBJECTS = [d for d in RESUMING if d.call[0].object is not None and not d.call[0].object.name_is_key]
MARKUP = [d for d in RESUMING if d.argument]


# -- in content --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(FREE))
def test_reasoning_opens_anywhere_in_content(dialect: Dialect) -> None:
    opening, closing = tags(dialect)
    message = both(dialect, f"Hi. {opening}one{closing}two {opening}three{closing}", stage="content")
    assert (message.reasoning, "".join(message.content.split())) == ("onethree", "Hi.two")
    assert [s.kind for s in message.segments] == ["content", "reasoning", "content", "reasoning"]


@pytest.mark.parametrize(**named(FREE))
def test_if_only_closed_reasoning_counts_an_unclosed_opening_is_text(dialect: Dialect) -> None:
    opening, closing = tags(dialect)
    closed = Policy(reasoning_in_content="closed")
    read = both(dialect, f"Hi. {opening}one{closing}two", stage="content", policy=closed)
    assert (read.reasoning, "".join(read.content.split())) == ("one", "Hi.two")
    raw = f"Hi. {opening}one {opening}two"
    message = both(dialect, raw, stage="content", policy=closed)
    assert (message.reasoning, message.content) == ("", raw)
    assert message.notices == []


def test_the_margin_of_an_opening_that_is_text_is_kept() -> None:
    dialect = dialect_of('reasoning = "\\n\\n<t>{reasoning}</t>"')
    raw = "Hi.\n\n<t>one"
    closed = both(dialect, raw, stage="content", policy=Policy(reasoning_in_content="closed"))
    assert (closed.reasoning, closed.content) == ("", raw)
    opened = both(dialect, f"{raw}</t>two", stage="content", policy=Policy(reasoning_in_content="closed"))
    assert (opened.reasoning, opened.content) == ("one", "Hi.two")


@pytest.mark.parametrize(**named(FREE))
def test_markers_of_reasoning_are_text_if_none_opens_in_content(dialect: Dialect) -> None:
    opening, closing = tags(dialect)
    raw = f"Hi. {opening}one{closing} two"
    message = both(dialect, raw, stage="content", policy=Policy(reasoning_in_content="text"))
    assert (message.reasoning, message.content, message.notices) == ("", raw, [])


@pytest.mark.parametrize(**named(MARKED))
def test_a_call_in_held_reasoning_decides_for_reasoning(dialect: Dialect) -> None:
    opening, _ = tags(dialect)
    policy = Policy(reasoning_in_content="closed", call_in_reasoning="resume")
    message = both(dialect, f"Hi. {opening}one " + write_calls(dialect, F), stage="content", policy=policy)
    assert (message.reasoning.strip(), message.content.strip(), values(message)) == ("one", "Hi.", F)


def test_held_reasoning_is_text_at_the_cap_and_calls_after_it_are_read() -> None:
    policy = Policy(reasoning_in_content="closed")
    raw = "Hi. <think>" + "one <think> " * 7000 + '<tool_call>{"name": "f", "arguments": {"a": "x"}}</tool_call>'
    message = alike("hermes", raw, [pieces(raw, 999)], tools=TOOLS, policy=policy, stage="content")
    assert (message.content + message.reasoning).startswith("Hi. <think>one")
    assert "hold_overflow" in notices(message)
    assert values(message) == F


@pytest.mark.parametrize(**named(FREE))
def test_an_opening_decides_undecided_text_and_what_stands_before_it_is_content(dialect: Dialect) -> None:
    opening, closing = tags(dialect)
    message = both(dialect, f"Hi. {opening}one{closing}two", stage="undecided")
    assert (message.reasoning, "".join(message.content.split())) == ("one", "Hi.two")


def test_the_names_of_the_rfc_keep_markers_inside_content() -> None:
    for name in RFC_NAMES:
        raw = "a </think> b <think>c</think> d"
        message = both(name, raw, stage="content")
        assert (message.reasoning, message.content) == ("", raw)


# -- calls in reasoning ------------------------------------------------------------------------------------------------


TEXT = {
    **dict.fromkeys(
        ("apriel", "apriel-1.5", "hunyuan_a13b", "minicpm5", "minimax-m1", "olmo3", "rwkv"), "tags of plain text"
    ),
    "xlam": "calls are brackets",
    **dict.fromkeys(("deepseek", "deepseek-r1"), "the RFC reads open reasoning as reasoning"),
}
"""The dialects in which a call in reasoning is reasoning, with the reason."""


@pytest.mark.parametrize(**named([d for d in AS_WRITTEN if d.call and d.reasoning]))
def test_a_call_in_a_thought_is_one_where_its_marker_is_a_token_of_its_own(dialect: Dialect) -> None:
    opening, _ = around_reasoning(dialect)
    calls = write_calls(dialect, [("g", {"a": "x"})])
    raw = f"{opening}plan{'' if dialect.framed else ' '}{calls}"
    for tools in (TOOLS, None):
        message = both(dialect, raw, tools=tools, stage="content")
        if dialect.name in TEXT:
            assert (message.reasoning.strip(), values(message)) == (raw.removeprefix(opening).strip(), [])
        else:
            assert (message.reasoning.strip(), values(message)) == ("plan", [("g", {"a": "x"})])
    assert not both(dialect, raw, stage="content", tools=[]).tool_calls
    assert not both(dialect, raw, stage="content", tool_choice="none").tool_calls


@pytest.mark.parametrize("name", ["minimax-m2", "minimax-m3"])
def test_a_call_of_minimax_needs_no_opening_of_its_block_in_content(name: str) -> None:
    dialect = get_dialect(name)
    whole = write_calls(dialect, [("g", {"a": "x"})])
    opening, closing = (t.strip() for t in dialect.calls[0].text.split("{calls}"))
    for raw in (whole.replace(opening, ""), whole.replace(opening, "").replace(closing, "")):
        message = both(dialect, "Sure. " + raw.strip(), tools=TOOLS, stage="content")
        assert (message.content.strip(), values(message)) == ("Sure.", [("g", {"a": "x"})])


@pytest.mark.parametrize(**named(RESUMING))
def test_reasoning_does_not_open_again_where_nothing_follows_the_call(dialect: Dialect) -> None:
    opening, closing = tags(dialect)
    call = write_calls(dialect, F)
    for tail in ("", "\n", closing, f"\n{closing}\n"):
        message = both(dialect, f"{opening}one {call}{tail}", stage="content")
        assert (message.reasoning.strip(), message.content, values(message)) == ("one", "", F)
        assert "unclosed_reasoning" not in notices(message)
        assert "stray_close" not in notices(message)
    answered = both(dialect, f"{opening}one {call}{closing}two", stage="content")
    assert (answered.reasoning.strip(), answered.content.strip()) == ("one", "two")


@pytest.mark.parametrize(**named(RESUMING))
def test_an_opening_that_begins_like_another_is_read_after_a_call_in_reasoning_however_it_is_cut(
    dialect: Dialect,
) -> None:
    for template in dialect.reasoning:
        whole = "".join(p for p in template.before if isinstance(p, str))
        for opening in (whole, whole.rstrip()):
            both(dialect, write_calls(dialect, F) + opening, stage="reasoning")


def test_reasoning_closes_after_a_call_that_closes_alike() -> None:
    dialect = dialect_of("""reasoning = "<|t|>{reasoning}<|end|>"\ncall = "<|f|>{name}{arguments}<|end|>\"""")
    for tail, reasoning, content in (("<|end|>two", "one", "two"), (" and<|end|>two", "one and", "two")):
        raw = f"""<|t|>one<|f|>f{{"a": "x"}}<|end|>{tail}"""
        message = both(dialect, raw, policy=Policy(call_in_reasoning="resume"))
        assert (message.reasoning, message.content, values(message), message.notices) == (reasoning, content, F, [])


@pytest.mark.parametrize(**named(RESUMING))
def test_a_prompt_that_ends_after_a_call_in_reasoning_is_in_reasoning(dialect: Dialect) -> None:
    if dialect.start:
        opening, closing = tags(dialect)
        prompt = f"{dialect.start[0]}{opening}one {write_calls(dialect, F)}"
        if dialect in WRAPPED:  # otherwise another call of the same block may follow
            assert detect_stage(dialect, prompt) is Stage.REASONING
        message = both(dialect, f"two{closing}three", prompt=prompt)
        assert (message.reasoning, message.content.strip()) == ("two", "three")


def drops(dialect: Dialect) -> bool:
    """Whether a closing of reasoning that closes nothing is dropped."""
    strays = compile_plan(dialect).reading.strays
    return any(not s.opens and literals_of(s.pattern).lower() == tags(dialect)[1].lower() for s in strays)


@pytest.mark.parametrize(**named(d for d in RESUMING if drops(d)))
def test_under_close_a_later_closing_of_reasoning_is_dropped(dialect: Dialect) -> None:
    opening, closing = tags(dialect)
    raw = f"{opening}one {write_calls(dialect, F)} two{closing}three"
    message = both(dialect, raw, stage="content", policy=Policy(call_in_reasoning="close"))
    assert (message.reasoning.strip(), message.content.strip()) == ("one", "twothree")
    assert "stray_close" in notices(message)


WRAPPED = [d for d in RESUMING if d.calls[0].after and block_is_marked(d)]


# A call that begins with a special token needs no block: see `test_readings`.
@pytest.mark.parametrize(**named(d for d in WRAPPED if not d.call[0].opening.startswith(("<|", "<｜"))))
def test_a_call_without_its_block_is_thought_where_the_dialect_writes_one(dialect: Dialect) -> None:
    opening, closing = tags(dialect)
    block = dialect.calls[0]
    bare = write_calls(dialect, F).replace(block.before[0], "").replace(block.after[0], "")  # type: ignore[arg-type]
    if block.before[0].strip() in bare:  # type: ignore[union-attr]
        pytest.skip("the call has the block's marker too")
    message = both(dialect, f"{opening}so {bare} and{closing}answer", stage="content")
    assert (message.tool_calls, message.content.strip()) == ([], "answer")
    assert bare.strip() in message.reasoning


@pytest.mark.parametrize(**named(RESUMING))
def test_a_name_alone_makes_no_call_in_reasoning(dialect: Dialect) -> None:
    opening, closing = tags(dialect)
    call = write_calls(dialect, F)
    head = call[: call.index("f", call.rindex(write_head(call))) + 1]
    for tools in (TOOLS, None):
        message = both(dialect, f"{opening}I write {head} ... {closing}The answer", stage="content", tools=tools)
        assert message.content.strip() == "The answer", head
        assert message.tool_calls == [], head


def write_head(call: str) -> str:
    """The text directly before the name ``f`` of a written call."""
    at = next(i for i, c in enumerate(call) if c == "f" and not call[i - 1].isalpha() and not call[i + 1].isalpha())
    return call[:at]


@pytest.mark.parametrize(**named([*OBJECTS, *MARKUP]))
@pytest.mark.parametrize("declared", [True, False])
def test_the_closing_of_a_thought_outside_a_string_ends_a_broken_call(dialect: Dialect, declared: bool) -> None:
    opening, closing = tags(dialect)
    call = write_calls(dialect, [("f", {"a": "xyz"})])
    marked = dialect in MARKUP
    broken = call.partition("xyz")[0] + ("xyz" if marked else 'xyz" ')
    tools = TOOLS if declared else None
    message = both(dialect, f"{opening}one {broken}{closing}answer", stage="content", tools=tools)
    assert message.content == "answer"
    assert [c.status for c in message.tool_calls] == ["incomplete" if marked else "invalid"] * declared
    assert not marked or [c.arguments for c in message.tool_calls] == ['{"a": "xyz'] * declared
    assert declared or broken.strip() in message.reasoning


def test_a_call_of_an_unknown_tool_in_a_thought_goes_out_at_the_cap() -> None:
    raw = '<think>one <tool_call>{"name": "h", "arguments": {"a": "' + "x" * 70_000 + '"}}</tool_call></think>y'
    message, _ = run("hermes", [raw], tools=TOOLS)
    assert [(c.name, c.status) for c in message.tool_calls] == [("h", "ok")]
    assert (message.reasoning, message.content) == ("one ", "y")
    assert "hold_overflow" in notices(message)


def test_broken_calls_in_a_thought_cost_linear_time() -> None:
    # Each call becomes part of the reasoning, and no call begins in that text.
    for piece in (
        '<tool_call>{"name": "h", "arguments": {"a": "<tool_call>',
        '<tool_call>{"name": "h", "arguments": {x',
    ):
        message, _ = run("hermes", ["<think>" + piece * 3000 + "</think>y"], tools=None)
        assert message.tool_calls == []


# -- frames ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "raw", "reasoning", "content"),
    [
        ("kimi_k3", "<|open|>think<|sep|>checking<|open|>response<|sep|>The answer", "checking", "The answer"),
        ("ernie45", "<think>\none\n<response>\ntwo\n</response>", "one", "two"),
        ("ernie45", "<response>\none\n<think>\ntwo\n</think>\n", "two", "one"),
        (
            "harmony",
            "<|channel|>analysis<|message|>one<|start|>assistant<|channel|>final<|message|>two<|return|>",
            "one",
            "two",
        ),
    ],
)
def test_a_full_header_ends_an_unclosed_frame(name: str, raw: str, reasoning: str, content: str) -> None:
    message = both(name, raw, stage="content")
    assert (message.reasoning.strip(), message.content.strip()) == (reasoning, content)
    assert "missing_close" in notices(message)


@pytest.mark.parametrize(**named(CALLING))
def test_no_two_calls_have_the_same_id(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("f", {"a": "x"}), ("g", {"a": "y"}), ("f", {"a": "z"})])
    message, _ = run(dialect, [raw], tools=TOOLS, ids=lambda index, name: "same")
    ids = [c.id for c in message.tool_calls]
    assert len(ids) == len(set(ids)) == 3


def test_the_second_of_two_equal_ids_becomes_the_next_free_one() -> None:
    def call(number: int) -> str:
        return f'<|tool_call_begin|>functions.f:{number}<|tool_call_argument_begin|>{{"a": "x"}}<|tool_call_end|>'

    raw = "<|tool_calls_section_begin|>" + call(0) + call(2) + call(0) + "<|tool_calls_section_end|>"
    message = both(get_dialect("kimi_k2"), raw)
    assert [c.id for c in message.tool_calls] == ["functions.f:0", "functions.f:2", "functions.f:3"]
    assert notices(message) == ["duplicate_id"]


@pytest.mark.parametrize("unclosed", ["reasoning", "content"])
@pytest.mark.parametrize("begun", ['{"name": "now", "argu', '{"name": "now", "arguments"', ""])
def test_reasoning_that_a_prompt_opened_before_a_cut_call_begins_and_ends(unclosed: Any, begun: str) -> None:
    prompt = f"{get_dialect('trinity').start[0]}<think>\nplan<tool_call>\n{begun}"
    parser = Parser("trinity", prompt=prompt, policy=Policy(unclosed_reasoning=unclosed))
    events = [*parser.feed("</think>"), *parser.feed("answer"), *parser.close()]
    kinds = [type(e).__name__ for e in events if not isinstance(e, Notice)]
    assert kinds == ["ReasoningStart", "ReasoningEnd", "ContentDelta", "Finish"]


@pytest.mark.parametrize(**named(THINKING))
def test_blank_reasoning_that_becomes_content_is_noticed_as_empty(dialect: Dialect) -> None:
    opening, _ = around_reasoning(dialect)
    for white in ("\n\n\n", " \n "):
        for stage, raw in ((None, opening + white), ("reasoning", white)):
            message = both(dialect, raw, stage=stage, policy=Policy(unclosed_reasoning="content"))
            said = message.reasoning or message.content.strip()
            assert said or not raw.strip() or "empty" in notices(message), raw


def test_text_that_looked_like_a_call_behind_a_thought_begins_where_any_text_does() -> None:
    text = '{"name": "Ada", "arguments": {}} and more'
    tools = [{"type": "function", "function": {"name": "now"}}]
    message = both("openai-generic", f"<think>\nplan\n</think>\n\n{text}", tools=tools, stage="content")
    assert (message.reasoning, message.content, message.tool_calls) == ("plan", text, [])


@pytest.mark.parametrize(**named(d for d in THINKING if d in CALLING))
def test_a_call_given_back_behind_a_thought_has_the_line_breaks_of_any_text(dialect: Dialect) -> None:
    message = Message(reasoning="plan", tool_calls=[ToolCall(0, "call_0", "other", '{"a": "x"}')])
    try:
        raw = render(message, dialect)
    except ValueError:  # the dialect does not write both
        return
    text = both(dialect, raw, tools=[]).content
    given = both(dialect, raw, policy=Policy(unknown_tool="text")).content
    assert len(given) - len(given.lstrip("\n")) == len(text) - len(text.lstrip("\n"))


@pytest.mark.parametrize("raw", ["thought\nA poem", "\n\nthought\nA poem", "thought\n", "thoughtful\n<channel|>"])
def test_what_begins_as_a_thought_without_its_token_is_text_if_it_is_not_closed(raw: str) -> None:
    message = both("gemma4", raw)
    assert (message.reasoning, message.content) == ("", raw.replace("<channel|>", ""))


def test_a_thought_without_its_token_opens_only_where_the_output_begins() -> None:
    message = both("gemma4", "Hello\nthought\nplan\n<channel|>answer")
    assert (message.reasoning, message.content) == ("", "Hello\nthought\nplan\nanswer")
    message = both("gemma4", "thought\nplan\n<channel|>answer", policy=Policy(reasoning_in_content="text"))
    assert message.reasoning == ""
