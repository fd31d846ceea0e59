"""Reads plain JSON that is complete in the text, in one go."""

import json
from math import isinf
from typing import Any, Final

from .syntax import MAX_DEPTH

LONGEST: Final = 4096
"""The longest object, in characters, that is read in one go."""


def whole_object(text: str, i: int) -> int:
    """The end of the object that begins at ``i``, if it is plain; else 0, which decides nothing.

    An object is plain if a `LiteralReader` would pass it on unchanged, without a notice: strict JSON, no repeated
    key, no number beyond a float, not too deep.
    """
    if not text.startswith("{", i) or text.find("}", i, i + LONGEST) < 0:
        return 0
    piece = text[i : i + LONGEST]
    if piece.count("{") + piece.count("[") > MAX_DEPTH:
        return 0
    try:
        return i + _decoder.raw_decode(piece)[1]
    except (ValueError, RecursionError):
        return 0


def _members(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key is given twice")


def _float(number: str) -> float:
    value = float(number)
    if isinf(value):
        raise ValueError("a number too large for a float")
    return value


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


_decoder: Final = json.JSONDecoder(object_pairs_hook=_members, parse_float=_float, parse_constant=_constant)
