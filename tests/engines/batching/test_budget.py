"""At the end of its budget, reasoning is closed with the dialect's own marker, whatever the model would write."""

import asyncio

import pytest

from unspool import Constraint, constrain, parse
from unspool.engines import Request, Thinking
from unspool.engines.batching import Batching
from unspool.engines.budget import Budget

from .support import GREEDY, Spelled, byte_tokenizer, collect, text_of

THOUGHT = "I think and think. </think>Yes."


def asked(budget: int, *, inside: bool = True, closing: str = "</think>") -> Thinking:
    return Thinking(budget=budget, opening="<think>", closing=closing, inside=inside)


def written(model: Spelled, thinking: Thinking | None, constraint: Constraint | None = None) -> str:
    request = Request(prompt="x", thinking=thinking, sampling=GREEDY, max_tokens=60, constraint=constraint)

    async def work() -> str:
        engine = Batching(model)
        try:
            return text_of(await collect(engine, request))
        finally:
            await engine.close()

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("text", "thinking", "message"),
    [
        (THOUGHT, asked(7), "I think</think>"),
        (THOUGHT, asked(0), "</think>"),
        (THOUGHT, asked(1000), THOUGHT),
        (THOUGHT, asked(3, inside=False), THOUGHT),
        ("<think>" + THOUGHT, asked(2, inside=False), "<think>I </think>"),
        ("aé日本b</think>c", asked(2), "aé</think>"),  # a character is never cut
        (THOUGHT, asked(4, closing="<eos>"), "I th"),  # a special token is one token, and ends the output here
    ],
)
def test_the_closing_marker_comes_when_the_reasoning_budget_is_spent(
    text: str, thinking: Thinking, message: str
) -> None:
    found = written(Spelled(text), thinking)
    assert found.startswith(message)
    if thinking.budget < 100 and thinking.inside:
        assert len(found.partition(thinking.closing)[0].encode()) <= thinking.budget + 1


def test_a_second_block_of_reasoning_gets_the_rest_of_the_budget() -> None:
    text = "<think>ab</think>c<think>defg</think>h"
    assert (written(Spelled(text), asked(12, inside=False))).startswith("<think>ab</think>c<think>de</think>")


def test_the_grammar_accepts_the_forced_marker_and_goes_on_after_it() -> None:
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False}
    constraint = constrain("hermes", stage="reasoning", response_format=schema, tokenizer=byte_tokenizer())
    found = written(Spelled("word " * 40), asked(10), constraint=constraint)
    message = parse(found, "hermes", stage="reasoning")
    assert message.reasoning.startswith("word word")
    assert len(message.reasoning) <= 11
    assert message.content.strip().startswith("{")


def test_forced_markers_of_several_tokens_are_whole() -> None:
    budget = Budget(asked(1), byte_tokenizer())
    budget.took(ord("a"), "a")
    found = ""
    while (due := budget.due) is not None:
        found += chr(due)
        budget.took(due, chr(due))
    assert found == "</think>"
