"""Images and other media in a sample: the ranges of tokens that an engine has put in place of their placeholders."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..engines.token_kinds import MEDIA
from .encoding import Ids
from .given import as_ids
from .sample import Sample

_LONGEST: Final = 64  # the most tokens of a placeholder


def expand(sample: Sample, prompt_ids: Sequence[int] | Ids, media: Sequence[tuple[int, int]]) -> Sample:
    """The sample as the engine read it, with the kind ``media`` for the tokens of media.

    Args:
        sample: a sample whose prompts have one placeholder for each medium.
        prompt_ids: the engine's own tokens of its last prompt, which has all media: vLLM's ``prompt_token_ids``.
        media: the beginning and length of each range of media in them, in order: vLLM's ``mm_placeholders``.

    Raises:
        ValueError: the prompt differs from the sample's outside the ranges, or these are no ranges of it.
        TypeError: these are not ids.
    """
    prompt = as_ids(prompt_ids)
    ends = [0, *(start + length for start, length in media)]
    starts = [*(start for start, _ in media), len(prompt)]
    if any(a > b for a, b in zip(ends, starts, strict=True)) or any(length < 1 for _, length in media):
        raise ValueError("media: must be ranges of the prompt in order")
    taken: list[tuple[int, int]] = []  # the ranges of the sample that are also in the prompt
    at = 0
    for i, piece in enumerate(prompt[a:b] for a, b in zip(ends, starts, strict=True)):
        at = _found(sample.ids, piece, at, at + 1 if i else 0, at + _LONGEST if i else 0)
        taken.append((at, at + len(piece)))
        at += len(piece)
    rest = len(sample.ids) - at

    def joined(values: NDArray[Any], fill: float) -> NDArray[Any]:
        parts = []
        for (a, b), (_, length) in zip(taken, (*media, (0, 0)), strict=True):
            parts += [values[a:b], np.full(length, fill, values.dtype)]
        return np.concatenate([*parts, values[at:]])

    ids = np.concatenate([prompt, sample.ids[at:]])
    places = np.concatenate([*(np.arange(a, b) for a, b in taken), np.arange(at, at + rest + 1)])
    moved = dict(zip(places.tolist(), np.flatnonzero(_own(len(ids) + 1, media)).tolist(), strict=True))
    calls = tuple(
        msgspec.structs.replace(call, start=moved[call.start], end=moved[call.end - 1] + 1) for call in sample.calls
    )
    return Sample(ids, joined(sample.codes, MEDIA), joined(sample.logprobs, np.nan), calls)


def _found(ids: Ids, piece: Ids, at: int, low: int, high: int) -> int:
    """Where a piece of the prompt is in the sample, between two places; `ValueError` if it is not there."""
    for place in range(low, high + 1):
        if np.array_equal(ids[place : place + len(piece)], piece):
            return place
    raise ValueError(f"prompt_ids: differ from the sample outside the ranges of media, from its token {at} on")


def _own(count: int, media: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Which of so many tokens are no media."""
    own = np.ones(count, np.bool_)
    for start, length in media:
        own[start : start + length] = False
    return own
