"""Thinking, words and calls end, whatever the model would write next."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.engines.builtin.bounds import Bounded, Part
from unspool.engines.builtin.model import Model

OWN = Model()
TOKEN = OWN.tokenizer.token_to_id
THINK, THOUGHT, CALLS = TOKEN("<think>"), TOKEN("</think>"), TOKEN("<｜tool▁calls▁begin｜>")
END = next(iter(OWN.eos))
WORD = 300
MOST: dict[Part, int] = {"thinking": 5, "words": 3, "calls": 4}


class Wishes:
    """A model that always prefers the token ``first``, and then ``second``."""

    def __init__(self, first: int, second: int) -> None:
        self.tokenizer: Any = OWN.tokenizer
        self.vocab_size, self.context, self.eos = OWN.vocab_size, OWN.context, OWN.eos
        self._logits = np.zeros(self.vocab_size, np.float32)
        self._logits[[first, second]] = 9, 5

    def prefill(self, tokens: Sequence[int]) -> tuple[Any, NDArray[np.float32]]:
        return None, self._logits.copy()

    def step(self, states: Sequence[Any], tokens: Sequence[int]) -> NDArray[np.float32]:
        return np.array([self._logits] * len(states))


def generated(model: Bounded, prompt: Sequence[int], most: int, forbidden: Sequence[int] = ()) -> list[int]:
    state, logits = model.prefill(prompt)
    out: list[int] = []
    while len(out) < most:
        logits[list(forbidden)] = -np.inf
        out.append(int(logits.argmax()))
        logits = model.step([state], [out[-1]])[0]
    return out


def test_thinking_ends_at_its_limit_of_tokens() -> None:
    model = Bounded(Wishes(WORD, CALLS), MOST)
    assert generated(model, [THINK], 6) == [WORD] * 5 + [THOUGHT]


def test_text_ends_at_its_limit_of_tokens_without_those_of_the_prompt() -> None:
    model = Bounded(Wishes(WORD, CALLS), MOST)
    assert generated(model, [THINK, WORD, THOUGHT, *[WORD] * 9, THOUGHT], 4) == [WORD] * 3 + [CALLS]


def test_a_model_that_may_not_end_its_turn_makes_a_call() -> None:
    model = Bounded(Wishes(END, WORD))
    assert generated(model, [THOUGHT], 1) == [END]
    assert generated(model, [THOUGHT], 1, forbidden=[END]) == [CALLS]


def test_a_grammar_that_allows_neither_gets_the_tokens_that_close_json_first() -> None:
    model = Bounded(Wishes(END, WORD))
    closing = [i for text, i in OWN.tokenizer.get_vocab().items() if not text.strip('"]}')]
    [token] = generated(model, [THOUGHT], 1, forbidden=[END, CALLS])
    assert OWN.tokenizer.decode([token]).startswith('"')
    assert generated(model, [THOUGHT], 1, forbidden=[END, CALLS, *closing]) == [WORD]


def test_calls_are_closed_at_their_limit_of_tokens() -> None:
    model = Bounded(Wishes(WORD, END), MOST)
    quote, brace = TOKEN('"'), TOKEN("}")
    tokens = generated(model, [CALLS], 5)
    assert tokens[:4] == [WORD] * 4
    assert tokens[4] in {
        TOKEN("<｜tool▁call▁end｜>"),
        TOKEN("<｜tool▁calls▁end｜>"),
        quote,
        brace,
        TOKEN("]"),
        TOKEN('"}'),
    }
    everything_else = [i for i in range(OWN.vocab_size) if i not in (quote, WORD)]
    assert generated(model, [CALLS], 5, forbidden=everything_else) == [WORD] * 4 + [quote]


def test_short_calls_are_not_changed() -> None:
    assert generated(Bounded(Wishes(END, WORD)), [CALLS], 9) == [END] * 9
