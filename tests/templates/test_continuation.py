"""A second turn shares every token of the first, in the families' own chat templates."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

import unspool
from tests.tokenizer import byte_level
from unspool.message import Message
from unspool.request.chat_request import ChatRequest
from unspool.request.continuation import Continued, Turns, Written
from unspool.request.reasoning import Context, Reasoning
from unspool.request.settings import Settings
from unspool.toolset import read_toolset

from ..support import calling, function_call
from .table import SOURCES, Source
from .test_prompts import _MARKER, OTHERWISE, checked
from .turns import TOOLS

pytestmark = pytest.mark.templates

THOUGHT = "Where is it?\n\nIn Paris,  I think."
RESULT = "20 degrees\n"
CALLING = [s for s in SOURCES if s.file not in OTHERWISE]
CASES = pytest.mark.parametrize("source", CALLING, ids=lambda s: f"{s.dialect}-{s.file}")
ASKED: dict[str, Any] = {"role": "user", "content": "What now? "}


@cache
def tokenizer(text: str, name: str) -> Tokenizer:
    """A tokenizer with merges, and every marker of the template."""
    ends = [e for e in unspool.get_dialect(name).end if not e.isspace()]
    marks = sorted({*_MARKER.findall(text), *ends, "<BOS>", "<EOS>"})
    return byte_level(corpus=[text, THOUGHT, RESULT], size=600, special=marks)


def letters(made: Tokenizer, text: str) -> list[int]:
    """Tokens of a text that the tokenizer itself would not choose, because a model may write any."""
    ids: list[int] = []
    for token in made.encode(text, add_special_tokens=False).ids:
        alone = [made.token_to_id(c) for c in made.id_to_token(token) or ""]
        known = [i for i in alone if i is not None]
        ids += [token] if token in made.get_added_tokens_decoder() or len(known) < len(alone) else known
    return ids


def asked(messages: Sequence[Any], source: Source, context: Context | None = None) -> ChatRequest:
    return ChatRequest(
        messages=list(messages),
        toolset=read_toolset(TOOLS),
        template=dict(source.variables),
        reasoning=Reasoning(context=context),
    )


def answered(turns: Turns, made: Tokenizer, source: Source, prompt: Continued, message: Any) -> tuple[Any, list[int]]:
    """Let the model answer, and return what the client gets and all tokens so far."""
    dialect = unspool.get_dialect(source.dialect)
    stage = unspool.detect_stage(dialect, prompt.prompt)
    if not dialect.reasoning:
        message = {**message, "reasoning_content": None}
    raw = unspool.render(message, dialect, tools=TOOLS, stage=stage)
    ids = letters(made, raw)
    read = unspool.parse(raw, dialect, tools=TOOLS, prompt=prompt.prompt)
    turns.remember(prompt, Written(raw, ids, read))
    known = prompt.ids if prompt.ids is not None else made.encode(prompt.prompt, add_special_tokens=False).ids
    sent = {k: v for k, v in read.to_openai().items() if k != "reasoning_content"}
    return sent, [*known, *ids]


def call(dialect: unspool.Dialect, at: int = 0) -> dict[str, Any]:
    """A call with an id that the templates take."""
    id = dialect.id.format(index=at, name="get_weather") if "{index}" in dialect.id else f"callid00{at}"
    return function_call("get_weather", {"city": f"P{at}"}, id)


def results(answer: Any, *texts: str) -> list[dict[str, Any]]:
    """Messages with the results of an answer's calls."""
    ids = [one["id"] for one in answer.get("tool_calls", ())]
    return [
        {"role": "tool", "tool_call_id": id, "name": "get_weather", "content": text}
        for id, text in zip(ids, texts, strict=bool(ids))
    ]


def shared(before: Sequence[int], now: Sequence[int] | None) -> int:
    assert now is not None
    return next((i for i, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), min(len(before), len(now)))


@CASES
def test_a_second_turn_shares_every_token_of_the_first_within_a_tool_loop_and_beyond_it_where_asked(
    source: Source, templates: dict[str, Path]
) -> None:
    prompts = checked(source, templates)
    text = source.text(templates)
    made = tokenizer(text, source.dialect)
    dialect = unspool.get_dialect(source.dialect)
    turns = Turns(Settings(model="m", dialect=dialect), prompts, made)
    history = [ASKED]
    first = turns.prompt(asked(history, source))
    said = calling(call(dialect), content=None, reasoning_content=THOUGHT)
    answer, tokens = answered(turns, made, source, first, said)
    history += [answer, *results(answer, RESULT)]
    second = turns.prompt(asked(history, source))
    assert shared(tokens, second.ids) == len(tokens)
    assert made.decode(second.ids or [], skip_special_tokens=False) == second.prompt
    assert RESULT.strip() in second.prompt[len(first.prompt) :]
    said = {"role": "assistant", "content": "It is warm.", "reasoning_content": THOUGHT}
    answer, tokens = answered(turns, made, source, second, said)
    history += [answer]
    alone = turns.prompt(asked(history, source, "all"))
    assert shared(tokens, alone.ids) == len(tokens), "the model goes on after its own answer"
    history += [{"role": "user", "content": "And then?"}]
    third = turns.prompt(asked(history, source, "all"))
    assert shared(tokens, third.ids) == len(tokens)
    assert third.prompt.count("20 degrees") == 1
    assert "And then?" in third.prompt[-400:]
    assert turns.prompt(asked(history, source)).prompt == prompts.render(asked(history, source))


@CASES
def test_behind_the_tokens_of_several_calls_all_results_are_written(source: Source, templates: dict[str, Path]) -> None:
    prompts = checked(source, templates)
    made = tokenizer(source.text(templates), source.dialect)
    dialect = unspool.get_dialect(source.dialect)
    turns = Turns(Settings(model="m", dialect=dialect), prompts, made)
    rule = {"role": "system", "content": "Be kind."}
    said = calling(*(call(dialect, at) for at in range(2)), content=None)
    first = turns.prompt(asked([rule, ASKED], source))
    answer, tokens = answered(turns, made, source, first, said)
    second = turns.prompt(asked([rule, ASKED, answer, *results(answer, "warm0", "warm1")], source))
    assert [second.prompt.count(text) for text in ("Be kind.", "warm0", "warm1")] == [1, 1, 1]
    assert shared(tokens, second.ids) == len(tokens)


@CASES
def test_a_users_turn_shares_every_token_of_an_answer_in_several_rounds(
    source: Source, templates: dict[str, Path]
) -> None:
    prompts = checked(source, templates)
    made = tokenizer(source.text(templates), source.dialect)
    dialect = unspool.get_dialect(source.dialect)
    turns = Turns(Settings(model="m", dialect=dialect), prompts, made)
    begun = prompt = turns.prompt(asked([ASKED], source))
    messages: list[dict[str, Any]] = []
    tokens: list[int] = []
    for at in range(3):
        said = calling(call(dialect, at), content=None, reasoning_content=THOUGHT)
        if at == 2:
            said = {"role": "assistant", "content": "It is warm.", "reasoning_content": THOUGHT}
        answer, tokens = answered(turns, made, source, prompt, said)
        known = prompt.ids if prompt.ids is not None else made.encode(prompt.prompt, add_special_tokens=False).ids
        written = Written(made.decode(tokens[len(known) :], skip_special_tokens=False), tokens[len(known) :], Message())
        told = results(answer, RESULT)
        if told:
            request = asked([ASKED, *messages], source)
            prompt = turns.next_round(request, prompt, written, answer, told)
            assert shared(tokens, prompt.ids) == len(tokens)
        messages += [answer, *told]
    visible = {"role": "assistant", "content": messages[-1]["content"]}
    turns.remember_rounds(begun, messages, [[visible]])
    for history in (messages, [visible]):
        after = turns.prompt(asked([ASKED, *history, {"role": "user", "content": "And then?"}], source, "all"))
        assert shared(tokens, after.ids) == len(tokens)
        assert "And then?" in after.prompt[-400:]


def test_at_least_twenty_dialects_are_tested() -> None:
    assert len({s.dialect for s in CALLING}) >= 20
