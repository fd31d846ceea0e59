"""A wrapper around a model that makes some of its tokens more or less likely."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..model import Model, prefill_parts


class Following(Protocol):
    """The state of a followed sequence; ``inner`` is the inner model's state."""

    inner: Any


S = TypeVar("S", bound=Following)


class Around(ABC, Generic[S]):
    """Follows each sequence and changes its logits; see `unspool.engines.model.Model`.

    Args:
        model: the inner model.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.tokenizer = model.tokenizer
        self.vocab_size = model.vocab_size
        self.context = model.context
        self.eos = model.eos

    def prefill(self, tokens: Sequence[int]) -> tuple[Any, NDArray[np.float32]]:
        """See `unspool.engines.model.Model`."""
        *_, filled = self.prefill_parts(tokens)
        assert filled is not None
        return filled

    def prefill_parts(self, tokens: Sequence[int]) -> Iterator[tuple[Any, NDArray[np.float32]] | None]:
        """See `unspool.engines.model.Model`."""
        for filled in prefill_parts(self._model, tokens):
            if filled is None:
                yield None
                continue
            inner, logits = filled
            state = self._begun(inner, tokens)
            yield state, self._behind_prompt(state, logits)

    def step(self, states: Sequence[Any], tokens: Sequence[int]) -> NDArray[np.float32]:
        """See `unspool.engines.model.Model`."""
        logits = self._model.step([s.inner for s in states], tokens)
        for i, (state, token) in enumerate(zip(states, tokens, strict=True)):
            logits[i] = self._next(state, token, logits[i])
        return logits

    @abstractmethod
    def _begun(self, inner: Any, tokens: Sequence[int]) -> S:
        """The state of a sequence after its prompt."""

    def _behind_prompt(self, state: S, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """The logits after the prompt."""
        return logits

    @abstractmethod
    def _next(self, state: S, token: int, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Update the state with one token, and return the logits after it. The row may be changed in place."""
