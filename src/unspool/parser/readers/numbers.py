"""Numbers that arrive piece by piece: whether they round to infinity."""

from math import isinf
from typing import Final

import msgspec

SHORT: Final = 300
"""A number of at most this many characters, without an exponent, is finite: 309 digits are the fewest that round to
infinity."""


class Figures(msgspec.Struct, eq=False):
    """The text of one number of a literal after the other."""

    _text: str = ""  # of the open number, or of the last one, if it is short
    _long: bytearray | None = None  # the same if it is not: a number may have millions of digits
    _ended: str | None = None  # the first number that ended since `mark`; empty: a long one

    def begin(self, text: str = "") -> None:
        self._text, self._long = text, None

    def add(self, text: str) -> None:
        if self._long is not None:
            self._long += text.encode()
            return
        self._text += text
        if len(self._text) > SHORT:
            self._long = bytearray(self._text, "ascii")

    def infinite(self) -> bool:
        """Whether the number, which has a point or an exponent, rounds to infinity."""
        return not is_finite(self._text) if self._long is None else isinf(float(self._long))

    def end(self) -> None:
        if self._ended is None:
            self._ended = self._text if self._long is None else ""

    # -- for `memory` -------------------------------------------------------------------------------------------------

    def mark(self, *, is_open: bool) -> int | None:
        """How much of the open number was read, for `changes`."""
        self._ended = None
        return len(self._text) if is_open else None

    def changes(self, mark: int | None, *, is_open: bool) -> tuple[str, bool, str | None] | None:
        """What came since `mark`: the rest of the number, whether it ended, and the beginning of another that is open;
        ``None`` if one of them is long."""
        ended, number = self._ended if mark is not None else None, self._text if is_open else None
        if ended == "" or (is_open and self._long is not None):
            return None
        digits = "" if mark is None else (number or "" if ended is None else ended)[mark:]
        return digits, ended is not None, number if mark is None or ended is not None else None

    def goes_on(self, digits: str, *, ends: bool) -> bool:
        """Add digits, after which the number may end; false if it may be too large."""
        if self._long is not None:
            if not ends:
                self._long += digits.encode()
            return not ends
        text = self._text + digits
        if ends:
            return is_finite(text)
        if len(text) > SHORT:
            return False
        self._text = text
        return True


def is_finite(text: str) -> bool:
    """Whether a number is certainly finite. Only of a short one it is certain."""
    return len(text) <= SHORT and not (("e" in text or "E" in text) and isinf(float(text)))
