"""Grammars are compiled under limits, in a process of their own, before the server compiles them."""

import asyncio
from typing import Any

import pytest
from tokenizers import Tokenizer

from tests.grammar.sampling import as_tools
from tests.tokenizer import FOLDER
from unspool import Constraint, constrain
from unspool.engines import EngineError
from unspool.engines.grammars import Grammars
from unspool.grammar import Llguidance

TOKENIZER = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SLOW = {"properties": {f"p{i}": {"type": "integer", "multipleOf": 9973} for i in range(20)}}


def required(schema: Any) -> Constraint:
    found = constrain("hermes", as_tools({"f": schema}), "required", stage="content", tokenizer=TOKENIZER)
    assert found is not None
    return found


def test_a_grammar_within_the_limits_gives_a_matcher_at_its_beginning_each_time() -> None:
    async def run() -> None:
        grammars = Grammars(Llguidance(TOKENIZER))
        try:
            for _ in range(2):
                matcher = await grammars.matcher(required(CITY))
                for token in TOKENIZER.encode('<tool_call>\n{"name": "f", ').ids:
                    assert matcher.accept(token)
                assert not matcher.is_done()
        finally:
            grammars.close()

    asyncio.run(run())


def test_a_grammar_that_cannot_be_compiled_is_refused_and_others_are_not() -> None:
    wrong = required(CITY)
    wrong.lark = "%llguidance {}\nstart: nothing"

    async def run() -> None:
        grammars = Grammars(Llguidance(TOKENIZER))
        try:
            with pytest.raises(EngineError, match="does not support these schemas") as caught:
                await grammars.matcher(wrong)
            assert caught.value.status == 400
            assert await grammars.matcher(required(CITY))
        finally:
            grammars.close()

    asyncio.run(run())


def test_a_grammar_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspool.engines.grammars.SECONDS", (0.001, 0.002))

    async def run() -> None:
        grammars = Grammars(Llguidance(TOKENIZER))
        try:
            with pytest.raises(EngineError, match=r"takes more than 0\.002 s to compile") as caught:
                await grammars.matcher(required(SLOW))
            assert caught.value.status == 400
        finally:
            grammars.close()

    asyncio.run(run())
