"""Sampling: chooses the next token of an output from logits, and reports its probability.

The order is that of transformers: what the constraint allows, penalties, temperature, ``top_k``, ``top_p``, ``min_p``.
Log probabilities are the model's own, before any of these.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..tokens import token_bytes
from .base import EngineError, Forbidden, Sampling

__all__ = ["Sampler", "filled", "forbidden_at", "logprob_entry"]

LOWEST: Final = -9999.0
"""The log probability that is reported for an impossible token; JSON has no infinity."""
_BLOCK: Final = 512
_BOUNDS: Final[dict[str, tuple[float, float]]] = {
    "temperature": (0.0, 100.0),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "presence_penalty": (-100.0, 100.0),
    "frequency_penalty": (-100.0, 100.0),
    "repetition_penalty": (0.01, 100.0),
}


def filled(sampling: Sampling, defaults: Sampling) -> Sampling:
    """Fill in the fields that a request leaves open from the defaults.

    Raises:
        EngineError: 400 if a value is out of bounds.
    """
    chosen = {f: getattr(sampling, f) for f in sampling.__struct_fields__}
    found = Sampling(**{f: getattr(defaults, f) if v is None else v for f, v in chosen.items()})
    for field, (low, high) in _BOUNDS.items():
        value = getattr(found, field)
        if value is not None and not low <= value <= high:
            raise EngineError(f"{field}: {value:g} is not between {low:g} and {high:g}", 400)
    return found


class Sampler:
    """Chooses the tokens of one output. With a seed, equal logits give equal tokens, whatever else is generated.

    Args:
        sampling: fields that are ``None`` mean temperature 1, and everything else off. With temperature 0, the
            likeliest token is chosen; among equals, the first.
        prompt: the prompt's tokens, which count for ``repetition_penalty``.
        size: the number of logits.
    """

    def __init__(self, sampling: Sampling, prompt: Iterable[int], size: int) -> None:
        self._temperature = 1.0 if sampling.temperature is None else sampling.temperature
        self._top_k = sampling.top_k or 0
        self._top_p = 1.0 if sampling.top_p is None else sampling.top_p
        self._min_p = sampling.min_p or 0.0
        self._presence = sampling.presence_penalty or 0.0
        self._frequency = sampling.frequency_penalty or 0.0
        self._repetition = 1.0 if sampling.repetition_penalty is None else sampling.repetition_penalty
        self._random = np.random.default_rng(None if sampling.seed is None else sampling.seed % 2**64)
        self._size = size
        self._counts: Counter[int] = Counter()
        self._penalised = bool(self._presence or self._frequency or self._repetition != 1)
        self._seen = set(prompt) if self._repetition != 1 else set()

    def choose(self, logits: NDArray[np.float32], mask: "NDArray[np.bool_] | None" = None) -> int:
        """Choose the next token, which then counts for the penalties of later ones.

        Args:
            logits: shape ``(size,)``; not changed.
            mask: shape ``(size,)``; which tokens may come.

        Raises:
            ValueError: no token is allowed, or the logits are not numbers.
        """
        scores = self._penalise(logits) if self._penalised else logits
        ids = None
        if mask is not None:
            ids = np.flatnonzero(mask)
            scores = scores[ids]
        if not len(scores):
            raise ValueError("no token is allowed")
        best = int(scores.argmax())
        if not np.isfinite(scores[best]):
            raise ValueError("the logits are not numbers")
        if self._temperature > 0:
            best = self._draw(scores, float(scores[best]))
        token = best if ids is None else int(ids[best])
        if self._penalised:
            self._counts[token] += 1
            self._seen.add(token)
        return token

    def _penalise(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        scores = logits.copy()
        if self._repetition != 1 and self._seen:
            seen = np.fromiter(self._seen, np.intp, len(self._seen))
            old = scores[seen]
            scores[seen] = np.where(old > 0, old / self._repetition, old * self._repetition)
        if self._counts and (self._presence or self._frequency):
            tokens = np.fromiter(self._counts.keys(), np.intp, len(self._counts))
            counts = np.fromiter(self._counts.values(), np.float32, len(self._counts))
            scores[tokens] -= self._presence + self._frequency * counts
        return scores

    def _draw(self, scores: NDArray[np.float32], highest: float) -> int:
        """Draw one of the scores."""
        kept: NDArray[np.intp] | None = None
        if 0 < self._top_k < len(scores):
            kept = np.sort(np.argpartition(scores, -self._top_k)[-self._top_k :])
            scores = scores[kept]
        # Subtract first: logits divided by a temperature near 0 would overflow.
        weights = np.exp((scores - np.float32(highest)) * np.float32(1 / max(self._temperature, 1e-6)))
        if self._top_p < 1:
            likely = _nucleus(weights, self._top_p)
            weights = weights[likely]
            kept = likely if kept is None else kept[likely]
        if self._min_p > 0:
            weights[weights < self._min_p] = 0  # the highest weight is 1
        at = _place(weights, self._random.random())
        return at if kept is None else int(kept[at])


def _place(weights: NDArray[np.float32], share: float) -> int:
    """The index at which the cumulative sum of the weights exceeds a share, in [0, 1), of their total."""
    # By blocks: a cumulative sum over a whole vocabulary takes ten times as long.
    sums = np.add.reduceat(weights, np.arange(0, len(weights), _BLOCK)).astype(np.float64).cumsum()
    wanted = min(share * sums[-1], np.nextafter(sums[-1], 0))
    block = int(np.searchsorted(sums, wanted, side="right"))
    inside = weights[block * _BLOCK : (block + 1) * _BLOCK].astype(np.float64)
    at = int(np.searchsorted(inside.cumsum(), wanted - (sums[block - 1] if block else 0.0), side="right"))
    if at == len(inside):  # because of rounding
        at = int(np.flatnonzero(inside)[-1])
    return block * _BLOCK + at


def _nucleus(weights: NDArray[np.float32], top_p: float) -> NDArray[np.intp]:
    """The indexes of the likeliest tokens that together reach ``top_p``, in descending order."""
    total = float(weights.sum(dtype=np.float64))
    for least in (1e-2, 1e-4, 0.0):  # relative to the highest, 1, so that usually only few are left to sort
        likely = weights[weights >= least]
        if likely.sum(dtype=np.float64) > total * top_p:
            break
    descending = -np.sort(-likely)
    count = int(np.searchsorted(descending.astype(np.float64).cumsum(), total * top_p)) + 1
    last = descending[min(count, len(descending)) - 1]
    above = np.flatnonzero(weights > last)
    equal = np.flatnonzero(weights == last)[: count - len(above)]
    return np.sort(np.concatenate((above, equal)))


def logprob_entry(tokenizer: Any, logits: NDArray[np.float32], token: int, top: int) -> dict[str, Any]:
    """Make the entry for a token's probability, in the form of OpenAI's chat completions.

    Args:
        tokenizer: as `unspool.Parser` takes it.
        logits: from which the token was chosen, shape ``(vocab_size,)``.
        token: the chosen one.
        top: how many alternatives to report, the likeliest first.
    """
    highest = float(logits.max())
    total = highest + float(np.log(np.exp(logits - highest).sum(dtype=np.float64)))
    top = min(top, len(logits))
    likeliest: Sequence[int] = []
    if top:
        found = np.argpartition(logits, -top)[-top:]
        likeliest = found[np.argsort(-logits[found], kind="stable")].tolist()
    chosen = _entry(tokenizer, token, float(logits[token]) - total)
    return {**chosen, "top_logprobs": [_entry(tokenizer, t, float(logits[t]) - total) for t in likeliest]}


def forbidden_at(tokenizer: Any, logits: NDArray[np.float32], mask: "NDArray[np.bool_]") -> Forbidden:
    """Describe the effect of a constraint on the choice of the next token.

    Args:
        tokenizer: as `unspool.Parser` takes it.
        logits: the model's own, shape ``(vocab_size,)``.
        mask: of the same shape: which tokens may come.
    """
    allowed, best = int(mask.sum()), int(logits.argmax())
    if mask[best]:
        return Forbidden(allowed, len(logits))
    weights = np.exp(logits - logits[best])
    data = token_bytes(tokenizer, best)
    text = "\ufffd" if data is None else data.decode(errors="replace")
    return Forbidden(allowed, len(logits), text, round(float(1 / weights.sum(dtype=np.float64)), 4))


def _entry(tokenizer: Any, token: int, logprob: float) -> dict[str, Any]:
    data = token_bytes(tokenizer, token)
    return {
        "token": "\ufffd" if data is None else data.decode(errors="replace"),
        "logprob": max(logprob, LOWEST),
        "bytes": None if data is None else list(data),
    }
