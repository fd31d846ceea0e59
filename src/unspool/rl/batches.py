"""Stacks several sequences into arrays, for trainers."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engines.token_kinds import PROMPT, SAMPLED, mask_of
from .conversation import Conversation
from .sample import Sample


class Batch(NamedTuple):
    """Arrays of shape ``(sequences, tokens)``, padded: the token ids, which are not padding, which to learn, kinds as
    indexes into `unspool.rl.KINDS` (padding: ``prompt``), log-probabilities (NaN if not sampled)."""

    ids: NDArray[np.int64]
    attention: NDArray[np.bool_]
    mask: NDArray[np.bool_]
    codes: NDArray[np.uint8]
    logprobs: NDArray[np.float64]


def collate(
    sequences: Sequence[Conversation | Sample],
    *,
    pad: int,
    kinds: Iterable[str] = SAMPLED,
    side: Literal["left", "right"] = "right",
    length: int | None = None,
) -> Batch:
    """Stack sequences.

    Args:
        sequences: conversations, or samples.
        pad: the id of the padding.
        kinds: the kinds of tokens to learn; see `Conversation.mask`.
        side: the side of the padding.
        length: the number of tokens in a row; by default that of the longest sequence.

    Raises:
        ValueError: a sequence is longer than ``length``, or an argument has a value that is not allowed.
    """
    if side not in ("left", "right"):
        raise ValueError(f"side: {side!r} is not one of 'left', 'right'")
    samples = [s.sample if isinstance(s, Conversation) else s for s in sequences]
    lengths = np.array([len(s.ids) for s in samples], np.int64)
    most = int(lengths.max(initial=0))
    width = most if length is None else length
    if most > width:
        raise ValueError(f"length: {width:,} is less than the longest sequence, {most:,} tokens")
    places = np.arange(width)
    attention = places < lengths[:, None] if side == "right" else places >= width - lengths[:, None]

    def laid(arrays: Sequence[NDArray[Any]], fill: Any, kind: Any) -> NDArray[Any]:
        rows = np.full((len(samples), width), fill, kind)
        rows[attention] = np.concatenate([*arrays, np.empty(0, kind)])
        return rows

    codes = laid([s.codes for s in samples], PROMPT, np.uint8)
    return Batch(
        laid([s.ids for s in samples], pad, np.int64),
        attention,
        mask_of(codes, kinds),
        codes,
        laid([s.logprobs for s in samples], np.nan, np.float64),
    )
