"""The magnitude of a number that arrives piece by piece, in bounded memory."""

from math import isinf
from typing import Final

import msgspec

SHORT: Final = 300
"""A number of at most this many characters, without an exponent, is finite: 309 digits are the fewest that round to
infinity."""
_KEPT: Final = 400  # how many significant digits of a longer number are kept; the others count as zeros
_FAR: Final = 10**18  # a larger exponent counts as this one: no text is long enough to compensate for it
_PLACES: Final = 18


class Figures(msgspec.Struct, eq=False):
    """The text of one number of a literal after the other; a long one is only counted."""

    _text: str = ""  # of the open number, or of the last one, as far as ``_size`` does not count it
    _size: "Magnitude | None" = None  # counts a number that is not short
    _ended: str | None = None  # the first number that ended since `mark`; empty: a long one

    def begin(self, text: str = "") -> None:
        """A number begins."""
        self._text, self._size = text, None

    def add(self, text: str) -> None:
        """The number goes on."""
        self._text += text
        if len(self._text) > SHORT:
            self._count()

    def infinite(self) -> bool:
        """Whether the number, which has a point or an exponent, rounds to infinity."""
        return self._count().infinite() if self._size is not None else not is_finite(self._text)

    def end(self) -> None:
        """The number ends."""
        if self._ended is None:
            self._ended = self._text if self._size is None else ""

    def _count(self) -> "Magnitude":
        size = self._size = self._size or Magnitude()
        size.count(self._text)
        self._text = ""
        return size

    # -- for `memory` -------------------------------------------------------------------------------------------------

    def mark(self, *, is_open: bool) -> int | None:
        """How much of the open number was read, for `changes`."""
        self._ended = None
        return len(self._text) if is_open else None

    def changes(self, mark: int | None, *, is_open: bool) -> tuple[str, bool, str | None] | None:
        """What came since `mark`: the rest of the number, whether it ended, and the beginning of another that is open;
        ``None`` if one of them is long."""
        ended, number = self._ended if mark is not None else None, self._text if is_open else None
        if ended == "" or (is_open and self._size is not None):
            return None
        digits = "" if mark is None else (number or "" if ended is None else ended)[mark:]
        return digits, ended is not None, number if mark is None or ended is not None else None

    def goes_on(self, digits: str, *, ends: bool) -> bool:
        """Add digits, after which the number may end; false if it may be too large."""
        text = self._text + digits
        if ends:
            return self._size is None and is_finite(text)
        if digits and len(text) > SHORT:
            return False
        self._text = text
        return True


def is_finite(text: str) -> bool:
    """Whether a number is certainly finite. Only of a short one it is certain."""
    return len(text) <= SHORT and not (("e" in text or "E" in text) and isinf(float(text)))


class Magnitude(msgspec.Struct, eq=False):
    """The magnitude of one number, whose text is counted from left to right: digits, a point, an exponent."""

    _part: str = ""  # the part that was counted last: "" (digits or nothing), "." or "e"
    _digits: str = ""  # significant ones; the number is 0.digits * 10 ** (places + exponent)
    _places: int = 0
    _exponent: int = 0
    _negative: bool = False  # the exponent

    def infinite(self) -> bool:
        """Whether the number, which has a point or an exponent, rounds to infinity."""
        if not self._digits:
            return False
        power = self._places + (-self._exponent if self._negative else self._exponent)
        if not 308 <= power <= 310:
            return power > 310
        return isinf(float(f"0.{self._digits}e{power}"))

    def count(self, text: str) -> None:
        """Count the digits of the text that follows."""
        if self._part != "e":
            text, exponent, text_after = text.replace("E", "e").partition("e")
            if not self._part:
                whole, self._part, text = text.partition(".")
                self._whole(whole)
            self._fraction(text)
            if not exponent:
                return
            self._part = "e"
            text = text_after
        self._power(text)

    def _whole(self, digits: str) -> None:
        digits = digits.lstrip("-")
        if not self._digits:
            digits = digits.lstrip("0")
        self._places += len(digits)
        self._keep(digits)

    def _fraction(self, digits: str) -> None:
        if not self._digits:
            significant = digits.lstrip("0")
            self._places -= len(digits) - len(significant)
            digits = significant
        self._keep(digits)

    def _power(self, text: str) -> None:
        if text[:1] == "-":
            self._negative = True
        digits = text.lstrip("+-")
        if not self._exponent:
            digits = digits.lstrip("0")
        if len(digits) > _PLACES:
            self._exponent = _FAR
        elif digits:
            self._exponent = min(_FAR, self._exponent * 10 ** len(digits) + int(digits))

    def _keep(self, digits: str) -> None:
        free = _KEPT - len(self._digits)
        if free:
            self._digits += digits[:free]
