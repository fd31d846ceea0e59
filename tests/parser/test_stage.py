"""Where an output begins: the caller, the prompt, the dialect or the output itself decides."""

import json
from typing import Any

import pytest

from unspool import (
    ContentDelta,
    Dialect,
    Parser,
    Policy,
    ReasoningStart,
    Stage,
    ToolCallDelta,
    ToolCallStart,
    get_dialect,
    list_dialects,
)
from unspool.check.promises import stands_out
from unspool.dialect.compiling import compile_plan
from unspool.parser import detect_stage
from unspool.parser.prompt import last_turn

from ..support import (
    CALLING,
    DIALECTS,
    RFC_NAMES,
    THINKING,
    TOOLS,
    Trial,
    alike,
    cases,
    check,
    is_marked,
    named,
    notices,
    number,
    readings,
    run,
    values,
)
from ..writing import around_reasoning, write_calls, write_content, write_reasoning

STARTING = [d for d in DIALECTS if d.start]
ENDLESS = [d for d in DIALECTS if not d.start]
OPENING = [d for d in THINKING if d.start and not d.reasoning[0].text.startswith(d.start)]
"""Dialects whose reasoning has a marker of its own after the start of the turn."""
CAP = 65_536


def opening(dialect: Dialect) -> str:
    """The opening of reasoning, as the template writes it."""
    return around_reasoning(dialect)[0]


def closing(dialect: Dialect) -> str:
    """The closing of reasoning, without margins."""
    return around_reasoning(dialect)[1].strip()


def history(dialect: Dialect) -> str:
    """A conversation with an assistant's turn, up to a user message."""
    turns = [d.raw for d in cases([dialect]) if d.example.stage is None and d.calls][:1] or ["Hello."]
    end = dialect.end[0] if dialect.end else "\n"
    return f"You are helpful.\nuser: hi\n{dialect.start[0]}{turns[0]}{end}\nuser: and now?\n"


def after(dialect: Dialect, prompt: str, output: str, **options: Any) -> Any:
    """The message of an output after a prompt, which must be the same for the whole text and for single characters."""
    return alike(dialect, output, [list(output)], **{"tools": TOOLS, "prompt": prompt, **options})


# -- the stage that a prompt tells -------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(STARTING))
def test_a_prompt_that_ends_where_the_turn_begins_means_content(dialect: Dialect) -> None:
    for start in dialect.start:
        for before in ("", "user: hi\n", history(dialect)):
            assert detect_stage(dialect, before + start) is Stage.CONTENT
            assert after(dialect, before + start, "Hello.").content == "Hello."


@pytest.mark.parametrize(**named(STARTING))
def test_a_prompt_without_any_marker_means_content(dialect: Dialect) -> None:
    for prompt in ("", "Hello", "user: hi\nassistant: "):
        assert detect_stage(dialect, prompt) is Stage.CONTENT


@pytest.mark.parametrize(**named(d for d in list_dialects() if d.stage is Stage.REASONING))
def test_without_a_stage_or_prompt_an_output_begins_as_the_file_says(dialect: Dialect) -> None:
    raw = f"plan{closing(dialect)}{dialect.reasoning[0].trail}{write_content(dialect, 'answer')}"
    for message in readings(dialect, raw, tools=TOOLS):
        assert (message.reasoning, message.content) == ("plan", "answer")


@pytest.mark.parametrize(**named(OPENING))
def test_reasoning_that_the_prompt_opened_goes_on_in_the_output(dialect: Dialect) -> None:
    for prefill, output, reasoning in (
        (opening(dialect), "plan", "plan"),
        (opening(dialect).rstrip(), "\nplan" if opening(dialect)[-1:] == "\n" else "plan", "plan"),
        (f"{opening(dialect)}First, ", "then", "then"),
    ):
        prompt = history(dialect) + dialect.start[0] + prefill
        assert detect_stage(dialect, prompt) is Stage.REASONING, prefill
        raw = output + closing(dialect) + dialect.reasoning[0].trail + write_content(dialect, "answer")
        message = after(dialect, prompt, raw)
        assert (message.reasoning, message.content) == (reasoning, "answer"), prefill


@pytest.mark.parametrize(**named(OPENING))
def test_reasoning_that_the_prompt_opened_and_closed_is_over(dialect: Dialect) -> None:
    for thought in ("", "plan"):
        prompt = history(dialect) + dialect.start[0] + write_reasoning(dialect, thought)
        assert detect_stage(dialect, prompt) is Stage.CONTENT
        assert detect_stage(dialect, prompt + dialect.reasoning[0].trail) is Stage.CONTENT
        message = after(dialect, prompt + dialect.reasoning[0].trail, write_content(dialect, "answer"))
        assert (message.reasoning, message.content) == ("", "answer")


@pytest.mark.parametrize(**named([d for d in OPENING if closing(d) not in d.end]))
def test_a_closing_alone_after_the_start_closes_an_empty_reasoning(dialect: Dialect) -> None:
    prompt = history(dialect) + dialect.start[0] + closing(dialect)
    assert detect_stage(dialect, prompt) is Stage.CONTENT
    assert after(dialect, prompt, "answer").content == "answer"
    message = after(dialect, dialect.start[0], f"{closing(dialect)}answer")
    assert (message.reasoning, message.content) == ("", "answer")


@pytest.mark.parametrize(**named([d for d in OPENING if not d.framed]))
def test_an_opening_of_reasoning_in_a_prefill_counts_as_in_an_output(dialect: Dialect) -> None:
    text = dialect.policy.reasoning_in_content == "text"
    for prefill, stage in (
        (opening(dialect).strip(), Stage.REASONING),
        (f"`{opening(dialect).strip()}", Stage.CONTENT),
    ):
        prompt = history(dialect) + dialect.start[0] + f"Write {prefill}"
        expected = Stage.CONTENT if text else stage
        assert detect_stage(dialect, prompt) is expected
        message = after(dialect, prompt, " first." + closing(dialect) * (expected is Stage.REASONING))
        assert (message.reasoning or message.content).strip() == "first."
        assert bool(message.reasoning) == (expected is Stage.REASONING)


@pytest.mark.parametrize(**named(STARTING))
def test_markers_in_the_history_are_no_part_of_the_output(dialect: Dialect) -> None:
    for case in cases([dialect]):
        for end in dialect.end or ("",):
            prompt = f"{dialect.start[0]}{case.raw}{end}\nuser: next\n{dialect.start[0]}"
            assert detect_stage(dialect, prompt) is Stage.CONTENT, case
            assert after(dialect, prompt, "Hello.").content == "Hello."


@pytest.mark.parametrize(**named(STARTING))
def test_a_prompt_that_ends_in_a_tools_result_means_content(dialect: Dialect) -> None:
    end = dialect.end[0] if dialect.end else "\n"
    call = write_calls(dialect, [("f", {"a": "x"})]) if dialect.call else "Hello."
    prompt = f"{dialect.start[0]}{call}{end}\n20 degrees\n"
    assert detect_stage(dialect, prompt) is Stage.CONTENT
    assert after(dialect, prompt, "Fine.").content == "Fine."
    assert detect_stage(dialect, prompt + dialect.start[-1]) is Stage.CONTENT


# -- calls that a prompt opened ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named([d for d in STARTING if d.call]))
def test_a_call_opened_in_a_prefill_starts_with_its_full_name_and_the_prompts_arguments(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("f", {"a": "one two", "b": "three"}), ("g", {"a": "y"})])
    at = raw.index("two")
    # The space may belong to the closing, or to what is between two arguments.
    held = any(" " in p.held for p in compile_plan(dialect).arguments.parameters)
    prompt = history(dialect) + dialect.start[0] + raw[:at]
    if is_marked(dialect):  # other calls count only with declared tools
        assert detect_stage(dialect, prompt) is Stage.TOOL_CALL
    for chunks in ([raw[at:]], list(raw[at:])):
        parser = Parser(dialect, prompt=prompt, tools=TOOLS)
        events = [e for c in chunks for e in parser.feed(c)]
        start, first = events[0], events[1]
        assert isinstance(start, ToolCallStart)
        assert (start.index, start.name, start.start, start.end, start.known) == (0, "f", 0, 0, True)
        assert isinstance(first, ToolCallDelta)
        assert (first.index, first.start, first.end) == (0, 0, 0)
        assert first.arguments.endswith("one" if held else "one ")
        events += parser.close()
        check(events, raw[at:])
        assert values(parser.message) == [("f", {"a": "one two", "b": "three"}), ("g", {"a": "y"})]
        assert parser.message.finish_reason == "tool_calls"


@pytest.mark.parametrize(**named([d for d in STARTING if d.call]))
def test_calls_that_end_in_the_prompt_leave_one_that_it_opened_as_it_is(dialect: Dialect) -> None:
    calls = [("f", {"a": "x"}), ("g", {"a": "y"}), ("f", {"a": "z"}), ("g", {"a": "one two"})]
    raw = write_calls(dialect, calls)
    two = raw.index("two")
    for at in (two, raw.rindex("g", 0, two) + 1):
        message = after(dialect, dialect.start[0] + raw[:at], raw[at:])
        assert values(message) == [("g", {"a": "one two"})], at


@pytest.mark.parametrize("case", [c for c in cases(STARTING) if c.example.stage is None], ids=str)
def test_a_prompt_may_end_anywhere_even_inside_a_marker(case: Trial) -> None:
    """An output is cut in two, with its head in the prompt. The rest is read as in the whole output."""
    keep = Policy(text_before_tools="keep", text_between_tools="keep")
    options: dict[str, Any] = {"tools": case.tools, "policy": keep}
    whole, _ = run(case.dialect, [case.raw], stage="content", ids=number, **options)
    for at in range(case.number % 17, len(case.raw), 17):  # the cases take turns with the first places
        prompt = f"user: hi\n{case.dialect.start[0]}{case.raw[:at]}"
        message = after(case.dialect, prompt, case.raw[at:], **options)
        assert whole.content.endswith(message.content), prompt
        assert whole.reasoning.endswith(message.reasoning), prompt
        calls = values(message)
        assert calls == values(whole)[len(whole.tool_calls) - len(calls) :], prompt


@pytest.mark.parametrize(**named(OPENING))
def test_a_prompt_that_ends_inside_the_opening_of_reasoning_is_completed_by_the_output(dialect: Dialect) -> None:
    text = write_reasoning(dialect, "plan") + dialect.reasoning[0].trail + write_content(dialect, "answer")
    for at in range(1, len(opening(dialect).rstrip())):
        message = after(dialect, dialect.start[0] + text[:at], text[at:])
        assert (message.reasoning, message.content) == ("plan", "answer"), text[:at]


# -- the caller's stage -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named([d for d in OPENING if not d.framed]))
def test_the_callers_stage_overrides_the_prompt(dialect: Dialect) -> None:
    prompt = dialect.start[0] + opening(dialect)
    message = after(dialect, prompt, "Hello.", stage="content")
    assert (message.reasoning, message.content) == ("", "Hello.")
    message = after(dialect, dialect.start[0], f"plan{closing(dialect)}answer", stage=Stage.REASONING)
    assert (message.reasoning, message.content) == ("plan", "answer")


@pytest.mark.parametrize(**named(THINKING))
def test_reasoning_alone_means_just_after_its_opening(dialect: Dialect) -> None:
    head, tail = around_reasoning(dialect)
    for lead in ("", head[len(head.rstrip()) :]):
        raw = f"{lead}plan{tail}{dialect.reasoning[0].trail}" + write_content(dialect, "answer")
        for chunks in ([raw], list(raw)):
            message, events = run(dialect, chunks, stage="reasoning", tools=TOOLS)
            assert (message.reasoning, message.content) == ("plan", "answer"), raw
            assert isinstance(events[0], ReasoningStart)
            assert (events[0].start, events[0].end) == (0, 0)
    parser = Parser(dialect, stage="reasoning")
    assert parser.stage is Stage.REASONING


@pytest.mark.parametrize(**named([d for d in DIALECTS if d.framed]))
def test_content_means_any_boundary_where_a_framed_dialect_opens_its_next_frame(dialect: Dialect) -> None:
    raw = write_content(dialect, "answer")
    for text in (raw, *(raw.removeprefix(s) for s in dialect.start)):
        assert [m.content for m in readings(dialect, text, stage="content")] == ["answer"] * 2


# -- dialects without a start ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named([d for d in ENDLESS if d.reasoning]))
def test_without_a_start_the_prompts_very_end_decides(dialect: Dialect) -> None:
    assert detect_stage(dialect, f"user: hi\n{opening(dialect)}") is Stage.REASONING
    assert detect_stage(dialect, f"user: hi\n{opening(dialect).rstrip()}") is Stage.REASONING
    assert detect_stage(dialect, f"user: hi\n{write_reasoning(dialect, '')}") is Stage.CONTENT
    assert detect_stage(dialect, f"user: hi\n{opening(dialect)} and more") is Stage.CONTENT
    assert detect_stage(dialect, f"user: {opening(dialect)} hi\n") is Stage.CONTENT
    message = after(dialect, f"user: hi\n{opening(dialect)}", f"plan{closing(dialect)}answer")
    assert (message.reasoning, message.content) == ("plan", "answer")


# -- without stage and prompt ------------------------------------------------------------------------------------------


def test_only_the_rfcs_names_are_undecided_by_themselves() -> None:
    undecided = {name for d in DIALECTS if d.stage is Stage.UNDECIDED for name in d.names}
    assert undecided >= set(RFC_NAMES)
    assert {d.name for d in DIALECTS if d.stage is Stage.UNDECIDED} == {get_dialect(n).name for n in RFC_NAMES}
    for name in RFC_NAMES:
        assert Parser(name).stage is Stage.UNDECIDED


# -- undecided ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(THINKING))
def test_undecided_text_is_held_until_a_marker_decides(dialect: Dialect) -> None:
    tail = around_reasoning(dialect)[1]
    parser = Parser(dialect, stage="undecided", tools=TOOLS)
    for word in ("plan", " and", " more"):
        assert parser.feed(word) == []
        assert parser.stage is Stage.UNDECIDED
    raw = tail + dialect.reasoning[0].trail + write_content(dialect, "answer")
    events = parser.feed(raw) + parser.close()
    assert isinstance(events[0], ReasoningStart)
    assert (parser.message.reasoning, parser.message.content) == ("plan and more", "answer")


@pytest.mark.parametrize(**named(THINKING))
def test_undecided_text_that_the_end_or_a_call_follows_is_content(dialect: Dialect) -> None:
    for message in readings(dialect, "Hello.", stage="undecided", tools=TOOLS):
        assert (message.reasoning, message.content) == ("", "Hello.")
    free = dialect.policy.text_before_tools != "content" and not dialect.framed
    if dialect.call and free and is_marked(dialect):
        raw = f"Hello.{write_calls(dialect, [('f', {'a': 'x'})])}"
        for message in readings(dialect, raw, stage="undecided", tools=TOOLS):
            assert (message.reasoning, message.content, values(message)) == ("", "Hello.", [("f", {"a": "x"})])


@pytest.mark.parametrize(**named(THINKING))
def test_undecided_text_with_an_opening_is_reasoning_at_once(dialect: Dialect) -> None:
    raw = write_reasoning(dialect, "plan") + dialect.reasoning[0].trail + write_content(dialect, "answer")
    for message in readings(dialect, raw, stage="undecided", tools=TOOLS):
        assert (message.reasoning, message.content) == ("plan", "answer")


@pytest.mark.parametrize("name", RFC_NAMES)
def test_undecided_text_beyond_the_cap_is_content_with_a_notice(name: str) -> None:
    parser = Parser(name)
    for i in range(CAP // 64):
        assert parser.feed("word " * 12 + "word") == [], i
    events = [e for _ in range(4) for e in parser.feed("word " * 12 + "word")]
    assert any(isinstance(e, ContentDelta) for e in events)
    assert "hold_overflow" in notices(parser.message)
    parser.feed("</think>answer")
    parser.close()
    assert parser.message.reasoning == ""
    assert parser.message.content.endswith("word</think>answer")


# -- an engine's stage for a chunk --------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(THINKING))
def test_an_engine_may_give_the_stage_of_a_chunk(dialect: Dialect) -> None:
    parser = Parser(dialect, tools=TOOLS, stage="content")
    events = parser.feed("plan ", stage="reasoning") + parser.feed("more", stage=Stage.REASONING)
    stages = [parser.stage]
    events += parser.feed("answer", stage="content") + parser.feed(" here")
    assert [*stages, parser.stage] == [Stage.REASONING, Stage.CONTENT]
    events += parser.close()
    check(events, "plan moreanswer here")
    assert (parser.message.reasoning, parser.message.content) == ("plan more", "answer here")


@pytest.mark.parametrize(**named([d for d in CALLING if d.start]))
@pytest.mark.parametrize("stage", [Stage.REASONING, Stage.CONTENT])
def test_an_engines_stage_brings_no_notice_about_the_prompt(dialect: Dialect, stage: Stage) -> None:
    call = write_calls(dialect, [("get_weather", {"city": "x"})])
    bare = dialect.call[0].text.partition("{arguments}")[0].replace("{name}", "get_weather")
    for tail in (*(call[:at] for at in range(1, len(call))), *(bare[:at] for at in range(1, len(bare) + 1))):
        parser = Parser(dialect, tools=TOOLS, prompt=f"{dialect.start[0]}Use {tail}")
        if parser.stage is not stage:
            parser.feed("\n", stage=stage)
            assert not parser.message.notices, tail


@pytest.mark.parametrize(**named(THINKING))
def test_an_engines_stage_releases_held_text(dialect: Dialect) -> None:
    parser = Parser(dialect, stage="content")
    events = parser.feed("a <") + parser.feed("plan", stage="reasoning") + parser.close()
    check(events, "a <plan")
    assert (parser.message.content, parser.message.reasoning) == ("a <", "plan")


@pytest.mark.parametrize(
    **named([d for d in CALLING if d.calls[0].before and all(isinstance(p, str) for p in d.calls[0].before)])
)
def test_an_engine_may_give_the_stage_tool_call(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("f", {"a": "x"})])
    head = "".join(p for p in dialect.calls[0].before if isinstance(p, str)).strip()
    parser = Parser(dialect, tools=TOOLS, stage="content", policy=Policy(text_before_tools="keep"))
    events = parser.feed("Sure.", stage="content") + parser.feed(raw.removeprefix(head), stage="tool_call")
    events += parser.close()
    check(events, "Sure." + raw.removeprefix(head))
    assert (parser.message.content, values(parser.message)) == ("Sure.", [("f", {"a": "x"})])


def test_the_stage_undecided_of_an_engine_changes_nothing() -> None:
    parser = Parser("hermes", stage="reasoning")
    parser.feed("plan", stage="undecided")
    assert parser.stage is Stage.REASONING
    parser.close()
    assert parser.message.reasoning == "plan"


# -- the stage as the output goes on -----------------------------------------------------------------------------------


@pytest.mark.parametrize(**named([d for d in THINKING if d.call and not d.framed and stands_out(d)]))
def test_the_stage_follows_the_output(dialect: Dialect) -> None:
    parser = Parser(dialect, tools=TOOLS, stage="reasoning", policy=Policy(text_before_tools="keep"))
    seen = [parser.stage]
    call = write_calls(dialect, [("f", {"a": "xyz"})])
    at = call.index("xyz")
    for chunk in ("plan", closing(dialect) + "answer.", "\n" + call[: at + 1], call[at + 1 :]):
        parser.feed(chunk)
        seen.append(parser.stage)
    assert seen[:4] == [Stage.REASONING, Stage.REASONING, Stage.CONTENT, Stage.TOOL_CALL]
    parser.close()
    assert json.loads(parser.message.tool_calls[0].arguments) == {"a": "xyz"}


@pytest.mark.parametrize("name", ["qwen3_coder", "glm45"])
def test_a_call_whose_arguments_have_not_begun_is_the_stage_of_a_call(name: str) -> None:
    parser = Parser(name, stage=Stage.CONTENT)
    opening = parser.dialect.call[0].text.partition("{arguments}")[0].replace("{name}", "write").strip()
    stages = [(parser.feed(c), parser.stage)[1] for c in "<tool_call>" + opening.removeprefix("<tool_call>") + "\n<"]
    assert set(stages[len("<tool_call>") :]) == {Stage.TOOL_CALL}


@pytest.mark.parametrize(**named(CALLING))
def test_the_stage_is_the_same_if_nobody_asked_for_it_before(dialect: Dialect) -> None:
    call = write_calls(dialect, [("f", {"a": "xyz"})])
    for at in range(1, len(call), 4):
        raw = call[:at] + " " + call[at:]
        stage = Stage.REASONING if dialect.reasoning and at % 8 == 1 else Stage.CONTENT
        asked = Parser(dialect, tools=TOOLS, stage=stage)
        stages = [(asked.feed(c), asked.stage)[1] for c in raw]
        for end in range(at, len(raw) + 1, 5):
            parser = Parser(dialect, tools=TOOLS, stage=stage)
            for c in raw[:end]:
                parser.feed(c)
            assert parser.stage is stages[end - 1]


@pytest.mark.parametrize(**named(d for d in DIALECTS if d.start))
def test_the_last_turn_of_a_prompt_decides_the_stage(dialect: Dialect) -> None:
    raw = dialect.examples[-1].raw[0]
    for end in ("", raw[: len(raw) // 2], raw):
        prompt = f"{raw}{dialect.start[0]}{raw}\nHi.{dialect.start[-1]}{end}"
        last = last_turn(dialect, prompt)
        assert len(last) <= len(dialect.start[-1]) + len(end)
        whole, short = (Parser(dialect, prompt=p, ids=number) for p in (prompt, last))
        assert whole.stage is short.stage
        assert [*whole.feed(raw), *whole.close()] == [*short.feed(raw), *short.close()]


@pytest.mark.parametrize(**named(CALLING))
def test_text_after_a_prompt_that_ends_anywhere_in_a_call_is_noticed_alike_at_any_cut(dialect: Dialect) -> None:
    begin = dialect.start[0] if dialect.start else ""
    call = write_calls(dialect, [("f", {"a": "x"})])
    for at in range(len(call) + 1):
        alike(dialect, "<h", [["<", "h"]], tools=TOOLS, prompt=f"user: hi\n{begin}{call[:at]}")
