"""What the builtin model gives as an argument is likely what somebody said: whole words of the conversation.

The model copies token by token, and a model this small slips: it begins with one name and ends with another. So
tokens of a text value that go on with no span of what was said, and an end in the middle of a word, become less likely. What
the model is sure of it still writes: ``+`` where the user said *plus*.
"""

import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..model import Model

LESS: Final = 3.0
"""What is taken off the logits: the model has to hold it for 20 times as likely."""


class _State:
    """A sequence: the model's state, and where its output is.

    Attributes:
        said: the tokens of the messages.
        open: the brackets that are open in a call's arguments; ``None`` outside of calls.
        key: whether the next string is a key.
        string: ``""``, or that a ``key`` or a ``value`` is open.
        escaped: whether the next character stands for itself.
        spans: where what follows the open value so far stands in ``said``.
        size: how many tokens the open value has.
    """

    __slots__ = ("escaped", "inner", "key", "open", "said", "size", "spans", "string")

    def __init__(self, inner: Any, said: list[int]) -> None:
        self.inner = inner
        self.said = said
        self.open: list[str] | None = None
        self.key = True
        self.string = ""
        self.escaped = False
        self.spans: list[int] = []
        self.size = 0


class Copying:
    """A model whose calls hold spans of the conversation.

    Args:
        model: what computes.
        less: how much less likely all else becomes; see `LESS`.
    """

    def __init__(self, model: Model, less: float = LESS) -> None:
        self._model = model
        self._less = np.float32(less)
        self.tokenizer = model.tokenizer
        self.vocab_size = model.vocab_size
        self.context = model.context
        self.eos = model.eos
        token = self.tokenizer.token_to_id
        self._user, self._arguments, self._end = (
            token(mark) for mark in ("<｜User｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>")
        )
        vocabulary: dict[str, int] = self.tokenizer.get_vocab()
        special = {i for i, token in self.tokenizer.get_added_tokens_decoder().items() if token.special}
        names = sorted(vocabulary, key=vocabulary.__getitem__)
        self._texts = ["" if i in special else n.replace("Ġ", " ").replace("Ċ", "\n") for i, n in enumerate(names)]
        self._bare = [vocabulary.get(n[1:], i) if n[0] == "Ġ" else i for i, n in enumerate(names)]
        self._ends = [i for i, text in enumerate(self._texts) if text.startswith('"')]

    def prefill(self, tokens: Sequence[int]) -> tuple[Any, NDArray[np.float32]]:
        """See `unspool.engines.model.Model`."""
        inner, logits = self._model.prefill(tokens)
        said = itertools.dropwhile(lambda token: token != self._user, tokens)
        return _State(inner, list(said)), logits

    def step(self, states: Sequence[Any], tokens: Sequence[int]) -> NDArray[np.float32]:
        """See `unspool.engines.model.Model`."""
        logits = self._model.step([s.inner for s in states], tokens)
        for i, (state, token) in enumerate(zip(states, tokens, strict=True)):
            self._take(state, token)
            if state.string == "value" and state.spans:
                logits[i] = self._likely(state, logits[i])
        return logits

    def _take(self, state: _State, token: int) -> None:
        """Follow the output by one token."""
        if token in (self._arguments, self._end):
            state.open = [] if token == self._arguments else None
            state.string = ""
            return
        if state.open is None:
            return
        if state.string == "value" and not self._texts[token].startswith('"'):
            said, first = state.said, state.size == 0
            state.spans = [i + 1 for i in state.spans if (self._bare[said[i]] if first else said[i]) == token]
            state.size += 1
        self._read(state, self._texts[token])

    def _read(self, state: _State, text: str) -> None:
        """Follow the JSON."""
        assert state.open is not None
        for char in text:
            if state.string:
                if char == '"' and not state.escaped:
                    state.string = ""
                state.escaped = char == "\\" and not state.escaped
            elif char == '"':
                state.string = "key" if state.key and state.open[-1:] == ["{"] else "value"
                state.key = False
                state.spans = [i for i in range(len(state.said)) if self._begins(state.said, i)]
                state.size = 0
            elif char in "{[":
                state.open.append(char)
                state.key = True
            elif char in "}]":
                del state.open[-1:]
            elif char == ",":
                state.key = True

    def _begins(self, said: Sequence[int], i: int) -> bool:
        """Whether a word, or something else than a word, begins here."""
        before = self._texts[said[i - 1]][-1:] if i else ""
        here = self._texts[said[i]][:1] if i < len(said) else ""
        return not (_in_word(before) and _in_word(here))

    def _likely(self, state: _State, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        said = state.said
        follow = [said[i] if state.size else self._bare[said[i]] for i in state.spans if i < len(said)]
        if state.size and any(i == len(said) or self._begins(said, i) for i in state.spans):
            follow += self._ends
        less = logits - self._less
        less[follow] = logits[follow]
        return less


def _in_word(char: str) -> bool:
    return char.isalnum() or char > "\x7f"  # parts of characters are letters, mostly
