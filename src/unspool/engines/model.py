"""What `unspool.engines.batching` runs: anything that computes the logits of the next token."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .base import EngineError

__all__ = ["Model", "prompt_tokens"]


class Model(Protocol):
    """Computes logits; never called by two threads at once.

    A state that is not needed any more is simply let go of.

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


def prompt_tokens(model: Model, prompt: str | Sequence[int]) -> list[int]:
    """A prompt's tokens.

    Raises:
        EngineError: 400; it holds what is no token, or nothing.
    """
    if isinstance(prompt, str):
        encoded = model.tokenizer.encode(prompt, add_special_tokens=False)  # a rendered prompt has them already
        tokens = list(getattr(encoded, "ids", encoded))
    else:
        tokens = list(prompt)
        for token in tokens:
            if not 0 <= token < model.vocab_size:
                raise EngineError(f"prompt: {token} is not a token; allowed are 0 to {model.vocab_size - 1:,}", 400)
    if not tokens:
        raise EngineError("prompt: holds no token", 400)
    return tokens
