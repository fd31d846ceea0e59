"""Answers that are read at a glance mean what the machine reads in them."""

import random
from typing import Any

import pytest

from tests.support import DIALECTS, cases, literals, number, tools_of
from unspool import Dialect, Message, Parser, Policy, Stage, Toolset, read_toolset
from unspool.dialect.compiling import compile_plan
from unspool.parser.glance import glance

INSERTED = [" ", "\n", "\n\n", "\t", "x", "Hi.", "`", "<", "{", ",", ";", "\r\n", "\u00a0", "null", "0"]
POLICIES = [Policy()] * 4 + [
    Policy(bad_arguments="text"),
    Policy(text_before_tools="content"),
    Policy(unclosed_reasoning="content"),
    Policy(stray_markers="text"),
    Policy(reasoning_in_content="closed"),
]
ASKED = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}


def by_glance(text: str, dialect: Dialect, tools: Any, policy: Policy, reason: str, stage: Stage) -> Message | None:
    request = read_toolset(tools)
    return glance(text, compile_plan(dialect, policy, request.kind), request, stage, reason, number)


def by_machine(text: str, dialect: Dialect, tools: Any, policy: Policy, reason: str, stage: Stage) -> Message:
    parser = Parser(dialect, tools=tools, policy=policy, stage=stage, ids=number)
    parser.feed(text)
    parser.close(reason)
    return parser.message


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
def test_outputs_read_at_a_glance_mean_what_the_machine_reads(dialect: Dialect) -> None:
    rng = random.Random(dialect.name)
    raws = [case.raw for case in cases([dialect])]
    marks = sorted(literals(dialect)) or ["x"]
    for _ in range(30):
        text = rng.choice(raws)
        if rng.random() < 0.4:
            text += rng.choice(["", "\n", " "]) + rng.choice([*raws, "Then this."])
        for _ in range(rng.choice((0, 1, 1, 2))):
            mark = rng.choice(marks)
            at = text.find(mark) if rng.random() < 0.7 else rng.randint(0, len(text))
            at = max(at, 0) + (len(mark) if rng.random() < 0.5 else 0)
            text = text[:at] + rng.choice(INSERTED) + text[at:]
        tools = rng.choice((None, tools_of(dialect), tools_of(dialect)[-1:]))
        stage = rng.choice((dialect.stage, dialect.stage, Stage.CONTENT, Stage.REASONING))
        asked = (text, dialect, tools, rng.choice(POLICIES), rng.choice(("stop", "length")), stage)
        found = by_glance(*asked)
        assert found is None or found == by_machine(*asked), asked


def test_plain_answers_of_most_dialects_are_read_at_a_glance() -> None:
    plain = [d for d in DIALECTS if d.call and d.stage is not Stage.UNDECIDED]
    read = [
        d.name
        for d in plain
        if any(
            by_glance(case.raw, d, tools_of(d), Policy(), "stop", d.stage) is not None
            for case in cases([d])
            if case.calls
        )
    ]
    assert len(read) > 0.5 * len(plain), sorted({d.name for d in plain} - set(read))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "Text and `code`\n<tool_call>\n{}",
        "<think>\nnever closed",
        '<tool_call>\n{"name": "get_weather", "arguments": {}}',
        '<tool_call>\n{"name": "get_weather", "arguments": {"a": 1, "a": 2}}\n</tool_call>',
        '<tool_call>\n{"name": "other", "arguments": {}}\n</tool_call>',
    ],
)
def test_broken_and_unusual_outputs_are_left_to_the_machine(text: str) -> None:
    dialect = next(d for d in DIALECTS if d.name == "hermes")
    assert by_glance(text, dialect, [ASKED], Policy(), "stop", Stage.CONTENT) is None


def test_a_choice_other_than_auto_is_left_to_the_machine() -> None:
    dialect = next(d for d in DIALECTS if d.name == "hermes")
    for choice in ("none", "required", {"type": "function", "function": {"name": "get_weather"}}):
        request: Toolset = read_toolset([ASKED], choice)
        plan = compile_plan(dialect, Policy(), request.kind)
        assert glance("Hello.", plan, request, Stage.CONTENT, "stop", None) is None
