"""Grammars are tried under limits, in a process of their own, before llama.cpp gets them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.grammar.sampling import as_tools
from unspool import Constraint, constrain
from unspool.checkpoints.gguf import read_gguf
from unspool.engines import EngineError
from unspool.engines.local import Address
from unspool.engines.local.grammars import Grammars
from unspool.engines.local.judge import LongestPieces
from unspool.engines.local.vocabulary import Vocabulary
from unspool.tokens import BYTES

from ...server.support import Scripted, live
from ...writing_gguf import gguf, of_bytes

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SLOW = {"properties": {f"p{i}": {"type": "integer", "multipleOf": 9973} for i in range(20)}}


def required(schema: Any) -> Constraint:
    found = constrain("hermes", as_tools({"f": schema}), "required", stage="content")
    assert found is not None
    return found


@pytest.fixture
def vocabulary(tmp_path: Path) -> Vocabulary:
    file = tmp_path / "m.gguf"
    file.write_bytes(gguf(of_bytes("<|im_end|>")))
    return Vocabulary(read_gguf(file, vocabulary=True), Address("http://127.0.0.1:9", "", "", ""))


@pytest.fixture
def grammars(vocabulary: Vocabulary) -> Iterator[Grammars]:
    made = Grammars(vocabulary)
    yield made
    made.close()


async def test_a_grammar_that_cannot_be_compiled_is_refused_each_time_and_others_are_not(grammars: Grammars) -> None:
    wrong = required(CITY)
    wrong.lark_spaced = "%llguidance {}\nstart: nothing"
    for _ in range(2):
        with pytest.raises(EngineError, match="does not support these schemas") as caught:
            await grammars.check(wrong, "tools")
        assert caught.value.status == 400
        await grammars.check(required(CITY), "tools")


async def test_a_uri_is_told_by_a_pattern_as_llama_cpp_does_not_know_the_format(grammars: Grammars) -> None:
    schema = {"type": "string", "format": "uri", "minLength": 3}
    constraint = required({"properties": {"format": schema, "list": {"items": schema}}, "required": ["format"]})
    assert '"uri"' not in constraint.lark_spaced
    call = '<tool_call>\n{"name": "f", "arguments": {"format": %s}}\n</tool_call><|im_end|>'
    for text, right in (
        ("https://a.example:8/x?y=%20&z=[1]#w", True),
        ("urn:a", True),
        ("a b", False),
        ("x:<y>", False),
    ):
        assert await grammars.follows(constraint, call % json.dumps(text), True) == right, text


def test_ids_beyond_the_vocabulary_are_no_tokens(vocabulary: Vocabulary) -> None:
    engine = Scripted(["x"])
    engine.tokenizer = vocabulary
    with live(engine) as server:
        assert server.post("/detokenize", tokens=[0, [*BYTES].index("a") + 1]).json() == {"prompt": "<|im_end|>a"}
        answer = server.post("/detokenize", tokens=[0, 1000])
        assert (answer.status_code, "1000 is no token of the vocabulary" in answer.text) == (400, True)


def test_outputs_are_cut_into_tokens_also_by_a_vocabulary_without_special_ones() -> None:
    for special, ids in (([0], [0, 2, 0]), ([], [1, 2, 1])):
        described = {"pieces": ["<e>" if special else "", "<e>", "word"], "special": special, "eos": [0]}
        assert LongestPieces(json.dumps(described)).of_output("<e>word<e>") == ids


async def test_a_grammar_that_takes_too_long_is_refused(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.engines.local.grammars.SECONDS", (0.001, 0.002))
    slow = Grammars(vocabulary)
    with pytest.raises(EngineError, match=r"takes more than 0\.002 s to compile") as caught:
        await slow.check(required(SLOW), "tools")
    assert caught.value.status == 400
    slow.close()
