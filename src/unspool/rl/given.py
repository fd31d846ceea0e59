"""Checks what callers give to a conversation: ids, log-probabilities, messages."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..validation import check_ids, wrong_type
from .encoding import Ids

_LARGEST: Final = 2**63 - 1


def as_ids(ids: Any) -> Ids:
    """Token ids as an array. `ValueError` if one is negative, or has over 63 bits; `TypeError` if these are none."""
    if isinstance(ids, np.ndarray):
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise TypeError(f"ids: must be integers in one dimension, not {ids.dtype} of shape {ids.shape}")
        if len(ids) and ids.min() < 0:
            raise ValueError("ids: must not be negative")
        return _small(ids, ids.max() if len(ids) else 0)
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise wrong_type("ids", ids, "token ids, a list or array of integers")
    known = tuple(ids)
    check_ids("ids", known)
    return _small(known, max(known, default=0))


def _small(ids: Any, largest: int) -> Ids:
    if largest > _LARGEST:
        raise ValueError(f"ids: {largest} is not a token id; ids are at most {_LARGEST}")
    return np.array(ids, np.int64)


def as_logprobs(logprobs: Any, count: int) -> NDArray[np.float64]:
    """The log-probabilities of so many tokens as an array; NaN if there are none. `ValueError` for another number."""
    if logprobs is None:
        return np.full(count, np.nan)
    try:
        known = np.array(logprobs, np.float64)
    except (TypeError, ValueError):
        raise wrong_type("logprobs", logprobs, "a list or array of numbers") from None
    if known.ndim != 1:
        raise TypeError(f"logprobs: must be numbers in one dimension, not of shape {known.shape}")
    if len(known) != count:
        raise ValueError(f"logprobs: {len(known):,} of {count:,} ids")
    return known


def as_messages(messages: Any) -> Sequence[Mapping[str, Any]]:
    """The messages, each of which has a role, or a `TypeError`."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise wrong_type("messages", messages, "a list of messages")
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise wrong_type(f"messages[{i}]", message, "a message, an object with a role")
        if not isinstance(message.get("role"), str):
            raise wrong_type(f"messages[{i}].role", message.get("role"), "a string")
    return messages
