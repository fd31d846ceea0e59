"""`RememberedTurn`, a turn of the model exactly as it was, and its form in a store.

A prompt contains all turns before it, so a stored turn holds only what its prompt does not share with the turn before:
a conversation takes space in proportion to its turns.
"""

from array import array
from collections.abc import Iterable
from io import StringIO
from typing import Any, Final, NamedTuple

import msgspec

_SLACK: Final = 64 * 1024
_FACTOR: Final = 4
"""How many characters all packed turns of a path may have, in characters of the last turn. Beyond, as when each prompt
begins differently, turns are not packed."""


class RememberedTurn(NamedTuple):
    """A remembered turn: the key of the histories that it ends; its prompt and the text after it, with their tokens if
    known. The thoughts are digests of the reasoning of all answers up to this one, as the prompt contains it."""

    key: bytes
    prompt: str
    prompt_ids: "array[int] | None"
    text: str
    ids: "array[int] | None"
    thoughts: tuple[bytes, ...]


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """A turn after the one before it."""

    key: bytes  # see `RememberedTurn`
    shared: int  # how many characters of the prompt are those with which the turn before begins, its own text included
    prompt: str  # the others
    text: str  # the turn's own text
    # shared_ids, prompt_ids, ids: the same for tokens, of 32 bits each; ``None`` if they are not known.
    shared_ids: int
    prompt_ids: bytes | None
    ids: bytes | None
    # shared_thoughts, thoughts: the same for the digests of thoughts.
    shared_thoughts: int
    thoughts: tuple[bytes, ...]


def pack(turn: RememberedTurn, before: RememberedTurn | None, packed: int) -> Packed | None:
    """Pack a turn after the one before it; ``None`` if, after ``packed`` characters, it shares too little with that."""
    whole = "" if before is None else before.prompt + before.text
    shared = _shared(whole, turn.prompt)
    if packed + len(turn.prompt) - shared > _FACTOR * (len(turn.prompt) + len(turn.text)) + _SLACK:
        return None
    known: array[int] = array("q")
    if before is not None and before.prompt_ids is not None and before.ids is not None:
        known = before.prompt_ids + before.ids
    prompt_ids = array("q") if turn.prompt_ids is None else turn.prompt_ids
    shared_ids = _shared(known, prompt_ids)
    thoughts = 0 if before is None else _shared(before.thoughts, turn.thoughts)
    return Packed(
        turn.key,
        shared,
        turn.prompt[shared:],
        turn.text,
        shared_ids,
        None if turn.prompt_ids is None else _bytes(prompt_ids[shared_ids:]),
        None if turn.ids is None else _bytes(turn.ids),
        thoughts,
        turn.thoughts[thoughts:],
    )


def unpack(path: Iterable[Packed]) -> tuple[RememberedTurn | None, int]:
    """Unpack the last turn of a path, in linear time, and count the characters of the packed turns."""
    texts, ids = StringIO(newline=""), array("q")  # each is cut and extended in place
    thoughts: list[bytes] = []
    last, size = None, 0
    for last in path:
        size += len(last.prompt) + len(last.text)
        texts.truncate(texts.seek(last.shared))
        texts.write(last.prompt + last.text)
        ids[last.shared_ids :] = _ids((last.prompt_ids or b"") + (last.ids or b""))
        thoughts[last.shared_thoughts :] = last.thoughts
    if last is None:
        return None, 0
    text = texts.getvalue()
    at, at_id = len(text) - len(last.text), len(ids) - len(last.ids or b"") // 4
    turn = RememberedTurn(
        last.key,
        text[:at],
        None if last.prompt_ids is None else ids[:at_id],
        last.text,
        None if last.ids is None else ids[at_id:],
        tuple(thoughts),
    )
    return turn, size


def _shared(one: Any, other: Any) -> int:
    """How many elements two sequences begin with alike. Slices are compared, since that is fast."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _bytes(ids: "array[int]") -> bytes:
    return array("i", ids).tobytes()


def _ids(data: bytes) -> "array[int]":
    return array("q", array("i", data))
