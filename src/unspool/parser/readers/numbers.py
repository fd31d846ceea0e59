"""How large a number is that is read digit by digit, in bounded memory."""

from math import inf
from typing import Final

_KEPT: Final = 400
"""Significant digits that are kept. The least number that rounds to infinity has 309 that count; the rest are zeros."""
_FAR: Final = 10**18
"""An exponent beyond this counts as this: no text is long enough to bring it back."""
_PLACES: Final = 18


class Magnitude:
    """The size of one number, fed with its digits from left to right."""

    __slots__ = ("_digits", "_exponent", "_negative", "_places")

    def __init__(self) -> None:
        self._digits = ""  # significant ones; the number is 0.digits * 10 ** (places + exponent)
        self._places = 0
        self._exponent = 0
        self._negative = False  # the exponent

    def integer(self, digits: str) -> None:
        """Digits before the point."""
        if not self._digits:
            digits = digits.lstrip("0")
        self._places += len(digits)
        self._keep(digits)

    def fraction(self, digits: str) -> None:
        """Digits behind the point."""
        if not self._digits:
            significant = digits.lstrip("0")
            self._places -= len(digits) - len(significant)
            digits = significant
        self._keep(digits)

    def sign(self, c: str) -> None:
        """The sign of the exponent."""
        self._negative = c == "-"

    def exponent(self, digits: str) -> None:
        """Digits of the exponent."""
        if not self._exponent:
            digits = digits.lstrip("0")
        if len(digits) > _PLACES:
            self._exponent = _FAR
        elif digits:
            self._exponent = min(_FAR, self._exponent * 10 ** len(digits) + int(digits))

    def infinite(self) -> bool:
        """Whether the number, written with a point or an exponent, rounds to infinity."""
        if not self._digits:
            return False
        power = self._places + (-self._exponent if self._negative else self._exponent)
        if not 308 <= power <= 310:
            return power > 310
        return float(f"0.{self._digits}e{power}") == inf

    def _keep(self, digits: str) -> None:
        free = _KEPT - len(self._digits)
        if free:
            self._digits += digits[:free]
