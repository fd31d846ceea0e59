"""Nodes for whole numbers between two bounds, in JSON's digits."""

import math
from collections.abc import Mapping
from typing import Any

from ..errors import ConstraintError
from .nodes import Chars, Const, Node, choice, seq


def integers(schema: Mapping[str, Any]) -> Node:
    """The whole numbers of a schema with ``minimum``, ``maximum``, ``exclusiveMinimum`` or ``exclusiveMaximum``.

    Raises:
        ConstraintError: there is none.
    """
    low = [math.ceil(schema["minimum"])] if "minimum" in schema else []
    low += [math.floor(schema["exclusiveMinimum"]) + 1] if "exclusiveMinimum" in schema else []
    high = [math.floor(schema["maximum"])] if "maximum" in schema else []
    high += [math.ceil(schema["exclusiveMaximum"]) - 1] if "exclusiveMaximum" in schema else []
    return _between(max(low, default=None), min(high, default=None))


def _between(low: int | None, high: int | None) -> Node:
    if low is not None and high is not None and low > high:
        raise ConstraintError(f"minimum: no whole number is between {low} and {high}")
    parts = []
    if low is None or low < 0:
        most = None if low is None else -low
        least = 1 if high is None or high >= 0 else -high
        parts.append(seq(Const("-"), _natural(least, most)))
    if high is None or high >= 0:
        parts.append(_natural(max(low or 0, 0), high))
    return choice(parts)


def _natural(low: int, high: int | None) -> Node:
    if high is not None:
        return choice(_spans(low, high))
    width = len(str(low))
    return choice((*_spans(low, 10**width - 1), seq(Chars("1-9"), Chars("0-9", min=width, max=None))))


def _spans(low: int, high: int) -> list[Node]:
    """Split a range into blocks of numbers: fixed digits, then one digit of several, then any digits."""
    found: list[Node] = []
    while low <= high:
        free = 0  # how many digits at the end are free
        while low and low % 10 ** (free + 1) == 0 and low + 10 ** (free + 1) - 1 <= high:
            free += 1
        size = 10**free
        first, last = divmod(low // size, 10)
        count = min(10 - last, (high - low + 1) // size) if low else 1
        digits = Chars(f"{last}-{last + count - 1}") if count > 1 else Const(str(last))
        parts = [Const(str(first) if first else ""), digits]
        found.append(seq(*parts, Chars("0-9", min=free, max=free)) if free else seq(*parts))
        low += count * size
    return found
