"""With a real tokenizer: markers that are special tokens are written by id, and read back from ids."""

import json
import random
import re
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer

from tests.tokenizer import byte_level
from unspool import Parser, get_dialect
from unspool.dialect.compiling import compile_plan
from unspool.grammar import Llguidance
from unspool.policy import Policy

from .sampling import PLAIN, STRICT
from .support import constrained, validate

MARKER = re.compile(r"<[^<>\s=]{2,}>|\[[A-Z_/]{3,}\]")
CORPUS = [
    'The weather in Paris is fine. {"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}',
    "Let me think about it: the user wants to know the time, so I call now() and answer.",
] * 20


def bpe(markers: list[str]) -> Tokenizer:
    """A byte-level BPE tokenizer whose special tokens are a family's markers."""
    tokenizer = byte_level(corpus=CORPUS, size=500)
    tokenizer.add_special_tokens([AddedToken(m, special=True, normalized=False) for m in ("<|eos|>", *markers)])
    return tokenizer


def id_of(tokenizer: Tokenizer, token: str) -> int:
    found = tokenizer.token_to_id(token)
    assert found is not None
    return found


def generate(matcher: Any, rng: random.Random, eos: int, special: list[int]) -> tuple[list[int], bool]:
    """Random tokens under the mask, with many special tokens."""
    ids: list[int] = []
    while len(ids) < 1500:
        mask = matcher.mask()
        if mask[eos] and rng.random() < 0.3:
            return ids, True
        allowed = [i for i in mask.nonzero()[0].tolist() if i != eos]
        if not allowed:
            return ids, True
        often = [i for i in special if mask[i]]
        token = rng.choice(often) if often and rng.random() < 0.3 else rng.choice(allowed)
        assert matcher.accept(token)
        ids.append(token)
    return ids, False


@pytest.mark.parametrize(
    "name", ["deepseekv31", "hermes", "qwen3-coder", "harmony", "kimi_k2", "mistral", "gemma4", "kimi_k3"]
)
def test_tokens_under_the_mask_parse_into_valid_calls(name: str) -> None:
    dialect = get_dialect(name)
    rng = random.Random(name)
    literals = compile_plan(dialect, Policy()).literals
    markers = sorted({m for t in literals for m in MARKER.findall(t)})
    tokenizer = bpe(markers)
    eos = id_of(tokenizer, "<|eos|>")
    quotes = [i for i in range(tokenizer.get_vocab_size()) if tokenizer.id_to_token(i) in ('"', '"}', "}")]
    special = [id_of(tokenizer, m) for m in markers] + quotes
    engine = Llguidance(tokenizer, eos=eos)
    done = 0
    for i in range(30):
        choice = ("auto", "required")[i % 2]
        constraint = constrained(dialect, STRICT, choice, tokenizer=tokenizer)
        assert any(f"<[{tokenizer.token_to_id(m)}]>" in constraint.lark for m in markers)
        ids, ended = generate(engine.matcher(constraint), rng, eos, special)
        if not ended:
            continue
        done += 1
        parser = Parser(dialect, tools=STRICT, tool_choice=choice, tokenizer=tokenizer)
        at = 0
        while at < len(ids):
            size = rng.choice((1, 2, 7))
            parser.feed_tokens(ids[at : at + size])
            at += size
        parser.close("stop")
        calls = parser.message.tool_calls
        assert len(calls) >= (choice == "required")
        for call in calls:
            assert call.status == "ok", (tokenizer.decode(ids, skip_special_tokens=False), call)
            validate(json.loads(call.arguments), PLAIN[call.name])
    assert done >= 28


def test_a_matcher_masks_and_accepts_tokens_until_it_is_done() -> None:
    tokenizer = bpe(["<tool_call>", "</tool_call>"])
    eos = id_of(tokenizer, "<|eos|>")
    constraint = constrained("hermes", STRICT, "required", stage="content", tokenizer=tokenizer)
    matcher = Llguidance(tokenizer, eos=eos).matcher(constraint)
    opening = id_of(tokenizer, "<tool_call>")
    mask = matcher.mask()
    assert mask.dtype == bool
    assert mask.shape == (tokenizer.get_vocab_size(),)
    assert mask.nonzero()[0].tolist() == [opening]
    text = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    for token in tokenizer.encode(text, add_special_tokens=False).ids:
        assert matcher.mask()[token]
        assert not matcher.is_done()
        assert matcher.accept(token)
    assert matcher.mask()[eos]
    assert matcher.accept(eos)
    assert matcher.is_done()
    assert not Llguidance(tokenizer, eos=eos).matcher(constraint).accept(eos)
