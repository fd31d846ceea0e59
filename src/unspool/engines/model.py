"""`Model`, the interface of models for `unspool.engines.batching`: anything that computes the logits of the next
token."""

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

    A state that is no longer needed is simply dropped. A model may also have ``prefill_parts(tokens)``: an iterator
    that yields ``None`` after each part of a prompt, and finally the result of `prefill`. Other outputs then get
    tokens between the parts, and a prompt that nobody waits for is not read to its end.

    Attributes:
        tokenizer: a ``tokenizers.Tokenizer`` or a tokenizer of transformers.
        vocab_size: the width of the logits.
        context: the largest number of tokens of a sequence, the prompt included.
        eos: the tokens that end an output.
    """

    tokenizer: Any
    vocab_size: int
    context: int
    eos: frozenset[int]

    def prefill(self, tokens: Sequence[int]) -> tuple[Any, NDArray[np.float32]]:
        """Return a sequence's state after these tokens, and the next logits, of shape ``(vocab_size,)``."""

    def step(self, states: Sequence[Any], tokens: Sequence[int]) -> NDArray[np.float32]:
        """Add one token to each of several sequences, and change their states in place.

        Returns:
            Logits of the tokens after these, shape ``(len(states), vocab_size)``.
        """


def prefill_parts(model: Model, tokens: Sequence[int]) -> Iterator[tuple[Any, NDArray[np.float32]] | None]:
    """Process a prompt with a model, part by part."""
    parts = getattr(model, "prefill_parts", None)
    if parts is None:
        yield model.prefill(tokens)
    else:
        yield from parts(tokens)


_CHARACTERS: Final = 16
"""The largest average number of characters per token: a prompt that is longer is refused without tokenizing it."""
_UNSAFE: Final = threading.Lock()
"""A lock for tokenizers written in Python, which are not thread-safe."""


def check_length(model: Model, prompt: str | Sequence[int]) -> None:
    """Check that a prompt may fit into the context.

    Raises:
        EngineError: the prompt is too long in any case; the status is 400.
    """
    unit, most = ("characters", _CHARACTERS * model.context) if isinstance(prompt, str) else ("tokens", model.context)
    if len(prompt) > most:
        raise EngineError(f"prompt: {len(prompt):,} {unit} exceed the context of {model.context:,} tokens", 400)


def prompt_tokens(model: Model, prompt: str | Sequence[int]) -> list[int]:
    """Tokenize a prompt; thread-safe.

    Raises:
        EngineError: 400 if it is empty, or contains something that is not a token.
    """
    if isinstance(prompt, str):
        with contextlib.nullcontext() if hasattr(backend_of(model.tokenizer), "to_str") else _UNSAFE:
            tokens = encoded(model.tokenizer, prompt)  # a rendered prompt already has its special tokens
    else:
        tokens = list(prompt)
        for token in tokens:
            if not 0 <= token < model.vocab_size:
                raise EngineError(f"prompt: {token} is not a token; allowed are 0 to {model.vocab_size - 1:,}", 400)
    if not tokens:
        raise EngineError("prompt: has no tokens", 400)
    return tokens
