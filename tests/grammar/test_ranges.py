"""A pattern for whole numbers between bounds matches exactly these, as JSON writes them."""

import math
import re
from typing import Any

import pytest

from unspool import ConstraintError
from unspool.grammar.flat import expression
from unspool.grammar.gbnf import integers

PAIRS = [(0, 0), (0, 9), (1, 14), (7, 123), (10, 10), (-5, 5), (-120, -8), (99, 1001), (-1, 0), (1000, 1000)]
BOUNDS: list[dict[str, Any]] = [
    *({"minimum": low, "maximum": high} for low, high in PAIRS), {"minimum": 0}, {"minimum": 18}, {"minimum": 100},
    {"maximum": 100}, {"maximum": -3}, {"minimum": -1000}, {"exclusiveMinimum": 0},
    {"exclusiveMinimum": 0, "exclusiveMaximum": 10},
    {"minimum": 3, "exclusiveMinimum": 5, "maximum": 90, "exclusiveMaximum": 40}, {"minimum": -0.5, "maximum": 20.5},
]  # fmt: skip
NUMBERS = [*range(-1300, 1300), *(10**6 + i for i in range(-2, 3)), -(10**6), 123456789, 10**30]


def fits(bounds: dict[str, Any], number: int) -> bool:
    inside = bounds.get("minimum", -math.inf) <= number <= bounds.get("maximum", math.inf)
    within = bounds.get("exclusiveMinimum", -math.inf) < number < bounds.get("exclusiveMaximum", math.inf)
    return bool(inside and within)


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_numbers_stay_within_their_bounds(bounds: dict[str, Any]) -> None:
    pattern = re.compile(expression(integers(bounds)))
    wrong = [n for n in NUMBERS if bool(pattern.fullmatch(str(n))) != fits(bounds, n)]
    assert wrong == []


@pytest.mark.parametrize("text", ["-0", "01", "00", "", "-", "1.0", "1e1", "+1", "-05"])
def test_each_number_has_one_spelling(text: str) -> None:
    assert not re.fullmatch(expression(integers({"minimum": -50, "maximum": 500})), text)


def test_the_pattern_grows_with_the_digits_alone() -> None:
    assert len(expression(integers({"minimum": 123456789, "maximum": 98765432123456789}))) < 2000


def test_bounds_that_allow_no_number_are_an_error() -> None:
    with pytest.raises(ConstraintError, match="no whole number"):
        integers({"minimum": 3, "exclusiveMaximum": 3})
