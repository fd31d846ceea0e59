"""The models that `unspool.engines.batching` runs: anything that computes the logits of the next token."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ..tokens import backend_of, encoded
from .base import EngineError

__all__ = ["Model", "check_length", "prefill_parts", "prompt_tokens"]


class Model(Protocol):
    """Computes logits; never called by two threads at once.

    A state that is not needed any more is simply dropped. A model may also have ``prefill_parts(tokens)``: an
    iterator that gives ``None`` after each part of a prompt, and at last what `prefill` returns. Other outputs then
    have their tokens between the parts, and a prompt that nobody waits for any more is not read to its end.

    Attributes:
        tokenizer: a ``tokenizers.Tokenizer`` or a tokenizer of transformers.
        vocab_size: the width of the logits.
        context: how many tokens a sequence has at most, the prompt included.
        eos: the tokens that end an output.
    """

    tokenizer: Any
    vocab_size: int
    context: int
    eos: frozenset[int]

    def prefill(self, tokens: Sequence[int]) -> tuple[Any, NDArray[np.float32]]:
        """A sequence's state after these tokens, and the logits of the next one, shape ``(vocab_size,)``."""

    def step(self, states: Sequence[Any], tokens: Sequence[int]) -> NDArray[np.float32]:
        """One more token for each of several sequences; changes the states in place.

        Returns:
            Logits of the tokens after these, shape ``(len(states), vocab_size)``.
        """


def prefill_parts(model: Model, tokens: Sequence[int]) -> Iterator[tuple[Any, NDArray[np.float32]] | None]:
    """A model's work on a prompt, part by part."""
    parts = getattr(model, "prefill_parts", None)
    if parts is None:
        yield model.prefill(tokens)
    else:
        yield from parts(tokens)


_CHARACTERS: Final = 16
"""Characters of a token, on average at most: the tokens of a longer prompt need not be known."""
_UNSAFE: Final = threading.Lock()
"""Tokenizers that are written in Python are not for several threads."""


def check_length(model: Model, prompt: str | Sequence[int]) -> None:
    """Return where a prompt may fit into the context.

    Raises:
        EngineError: 400; it is longer, whatever its tokens are.
    """
    unit, most = ("characters", _CHARACTERS * model.context) if isinstance(prompt, str) else ("tokens", model.context)
    if len(prompt) > most:
        raise EngineError(f"prompt: {len(prompt):,} {unit} exceed the context of {model.context:,} tokens", 400)


def prompt_tokens(model: Model, prompt: str | Sequence[int]) -> list[int]:
    """A prompt's tokens; in any thread.

    Raises:
        EngineError: 400; it is empty, or contains something that is not a token.
    """
    if isinstance(prompt, str):
        with contextlib.nullcontext() if hasattr(backend_of(model.tokenizer), "to_str") else _UNSAFE:
            tokens = encoded(model.tokenizer, prompt)  # a rendered prompt has its special tokens already
    else:
        tokens = list(prompt)
        for token in tokens:
            if not 0 <= token < model.vocab_size:
                raise EngineError(f"prompt: {token} is not a token; allowed are 0 to {model.vocab_size - 1:,}", 400)
    if not tokens:
        raise EngineError("prompt: has no tokens", 400)
    return tokens
