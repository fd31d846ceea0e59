"""Joint assignment of several values to several parameters."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

MOST: Final = 8
"""The most values that are assigned together, since the work is exponential in their number."""
_Row = TypeVar("_Row")
_Column = TypeVar("_Column")


def assign(
    rows: Sequence[_Row], columns: Sequence[_Column], weight: Callable[[_Row, _Column], float]
) -> list[tuple[_Row, _Column]]:
    """The pairs with the best total weight, each row and each column in at most one pair.

    Args:
        weight: how well both fit; zero or less if they do not. Among equal totals, pairs that keep the order of both
            win.
    """
    columns = columns[:MOST]
    weights = [[weight(row, column) for column in columns] for row in rows]
    best: dict[int, tuple[float, tuple[tuple[int, int], ...]]] = {0: (0.0, ())}
    for i in range(len(rows)):
        new = dict(best)
        for used, (total, pairs) in best.items():
            for j, w in enumerate(weights[i]):
                if w <= 0 or used & 1 << j:
                    continue
                turned = sum(k > j for _, k in pairs)  # out of order
                found = total + w - turned / 100 - j / 10_000
                if found > new.get(used | 1 << j, (0.0,))[0]:
                    new[used | 1 << j] = (found, (*pairs, (i, j)))
        best = new
    _, pairs = max(best.values(), key=lambda both: both[0])
    return [(rows[i], columns[j]) for i, j in pairs]
