"""Bounds the builtin model's reasoning, words and calls.

The model is trained to be brief. At a high temperature, or if a grammar keeps it from ending without a call, it may
still go on. Then it is led to the end of its reasoning, to a call, to the end of its calls, or to the end of the
output. A required call is complete within 300 tokens.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ..model import Model
from .around import Around
from .model import FOLDER

Part = Literal["thinking", "words", "calls"]
MOST: Final[dict[Part, int]] = {"thinking": 64, "words": 96, "calls": 150}
"""The most tokens of each part, not counting those that close it. Words are the text outside the other parts."""

_LESS: Final = np.float32(1000)
"""The penalty on the logits of unwanted tokens. It makes all of them unlikely, but keeps their order for cases in which
a grammar allows nothing else."""


class _State:
    """A sequence: the model's state, the current part, and the number of its tokens."""

    __slots__ = ("inner", "part", "size")

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.part: Part = "words"
        self.size = 0


class Bounded(Around[_State]):
    """A model with bounds. ``parts.json`` says which tokens begin its parts and which lead to their end.

    Args:
        model: the inner model.
        most: the most tokens of each part.
    """

    def __init__(self, model: Model, most: Mapping[Part, int] = MOST) -> None:
        super().__init__(model)
        self._most = most
        token = self.tokenizer.token_to_id
        table = json.loads((FOLDER / "parts.json").read_text(encoding="utf-8"))
        self._begins: dict[int, Part] = {token(mark): part for mark, part in table["begins"].items()}
        self._led: dict[Part, list[int]] = {
            part: [token(mark) for mark in marks] for part, marks in table["ends"].items()
        }
        self._led["words"] += sorted(self.eos)
        closing = [(text, i) for text, i in self.tokenizer.get_vocab().items() if not text.strip('"]}')]
        self._quotes = [i for text, i in closing if text[0] == '"']
        self._brackets = [i for text, i in closing if text[0] != '"']  # tried after quotes; in a string they are text

    def _begun(self, inner: Any, tokens: Sequence[int]) -> _State:
        state = _State(inner)
        for token in tokens:
            self._take(state, token)
        state.size = 0  # the prompt does not count
        return state

    def _behind_prompt(self, state: _State, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        return self._bounded(state, logits)

    def _next(self, state: _State, token: int, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        self._take(state, token)
        return self._bounded(state, logits)

    def _take(self, state: _State, token: int) -> None:
        part = self._begins.get(token)
        if part is None:
            state.size += 1
        else:
            state.part, state.size = part, 0

    def _bounded(self, state: _State, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        wants_to_end = state.part == "words" and int(logits.argmax()) in self.eos
        if not wants_to_end and state.size < self._most[state.part]:
            return logits
        led = self._led[state.part]
        less = logits - _LESS
        if state.part != "thinking":  # a schema may constrain words too; in free words, the end comes first
            less[self._quotes] += _LESS * 3 / 4
            less[self._brackets] += _LESS / 2
        less[led] = logits[led]
        return less
