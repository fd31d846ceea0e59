"""Rows of results, and the table they make."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from unspool import Dialect


@dataclass(frozen=True, slots=True)
class Row:
    """One result.

    Attributes:
        measurement: what was measured.
        case: the case that was measured.
        value: the result, in ``unit``.
        limit: the promised value; ``None`` if nothing is promised.
        bound: whether the promise is an upper or a lower bound.
        least: the same result in multiples of the least work for a chunk; ``None`` if it is not the cost of a chunk.
    """

    measurement: str
    case: str
    value: float
    unit: str
    limit: float | None = None
    bound: Literal["most", "least"] = "most"
    least: float | None = None

    @property
    def kept(self) -> bool | None:
        """Whether the promise is kept; ``None`` if there is none."""
        if self.limit is None:
            return None
        return self.value <= self.limit if self.bound == "most" else self.value >= self.limit

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        promise = None if self.limit is None else {"at " + self.bound: self.limit}
        return {
            "measurement": self.measurement,
            "case": self.case,
            "value": self.value,
            "unit": self.unit,
            "promised": promise,
            "kept": self.kept,
            **({} if self.least is None else {"in least work": self.least}),
        }


def ranked(
    measurement: str,
    found: Sequence[tuple[float, Dialect]],
    unit: str,
    *,
    median: float | None = None,
    worst: float | None = None,
    of: str = "",
    least: float | None = None,
) -> Iterator[Row]:
    """The median and the largest value over several dialects, each with its promise.

    Args:
        measurement, unit: as in `Row`.
        found: the values, with their dialects.
        median, worst: the promises.
        of: what was measured.
        least: the least work for what was measured, in ``unit``.
    """
    ordered = sorted(found, key=lambda f: f[0])
    middle, largest = ordered[len(ordered) // 2], ordered[-1]
    before = f"{of}, " if of else ""
    for (value, _), case, limit in (
        (middle, f"median of {len(ordered)} dialects", median),
        (largest, f"worst ({largest[1].name})", worst),
    ):
        yield Row(measurement, before + case, value, unit, limit, least=None if least is None else value / least)


HEADER: Final = ("measurement", "case", "result", "promised", "")
_SIGN: Final = {"most": "≤", "least": "≥"}
_VERDICT: Final = {True: "pass", False: "FAIL", None: ""}


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table that reads well as plain text. Each measurement is named once."""
    lines = [HEADER]
    before = ""
    for row in rows:
        promised = "" if row.limit is None else f"{_SIGN[row.bound]} {_number(row.limit)}"
        name = row.measurement if row.measurement != before else ""
        result = f"{_number(row.value)} {row.unit}".rstrip()
        if row.least is not None:
            result += f", {_number(row.least)} × least"
        lines.append((name, row.case, result, promised, _VERDICT[row.kept]))
        before = row.measurement
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = tuple("-" * w for w in widths)
    return "".join(_line(line, widths) for line in (lines[0], rule, *lines[1:]))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " |\n"


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 3 else f"{value:.2f}"
