"""Code in content: where text quotes markers instead of writing them."""

import re
from typing import Final

MAX_SPAN: Final = 256
"""How many characters a code span may have; one that is not closed by then was none."""
MIN_FENCE: Final = 3

_MARKS = re.compile(r"`++|\n")


class Quoting:
    """Follows the code spans and fences of content.

    A backtick by itself, with an even number of such before it on its line, opens a code span; it ends at the next
    single backtick, at the line's end, or after `MAX_SPAN` characters. Three or more at a line's start open a fence,
    as many or more at a line's start close it.

    Attributes:
        upto: the offset up to which content was read.
        fenced: how many backticks opened the fence that is open, 0 where none is.
    """

    __slots__ = ("_blank", "_odd", "_run", "_run_at", "_span_at", "fenced", "upto")

    def __init__(self) -> None:
        self.upto = 0
        self.fenced = 0
        self._odd = False  # an odd number of single backticks stands on this line
        self._span_at = 0  # where the last of them stands
        self._run = 0  # backticks at the very end of what was read: more may follow
        self._run_at = 0
        self._blank = True  # nothing but white space stands on this line

    def idle(self) -> bool:
        """Whether text without a backtick cannot change anything but the line."""
        return not self._odd and not self._run

    def restart(self) -> None:
        """Another part begins: no code goes on in it."""
        self._odd = False
        self._run = 0
        self._blank = True
        self.fenced = 0

    def skip(self, text: str, end: int) -> None:
        """Text without a backtick was content, up to the offset ``end``; only while `idle`."""
        line = text.rfind("\n") + 1
        self._blank = (self._blank or line > 0) and not text[line:].strip()
        self.upto = end

    def read(self, text: str, start: int) -> None:
        """Text that begins at the offset ``start`` is content."""
        if start < self.upto:
            text = text[self.upto - start :]
            start = self.upto
        if not text:
            return
        self.upto = start + len(text)
        if self._run and (text[0] != "`" or start != self._run_at + self._run):
            self._end_run()
        at = 0
        for m in _MARKS.finditer(text):
            if self._blank and m.start() > at and not text[at : m.start()].isspace():
                self._blank = False
            at = m.end()
            if m.group() == "\n":
                self._odd = False
                self._blank = True
                continue
            if not self._run:
                self._run_at = start + m.start()
            self._run += at - m.start()
            if at < len(text):
                self._end_run()
        if self._blank and at < len(text) and not text[at:].isspace():
            self._blank = False

    def _end_run(self) -> None:
        run, self._run = self._run, 0
        if run >= MIN_FENCE and self._blank:
            self.fenced = 0 if run >= self.fenced > 0 else self.fenced or run
        elif run == 1:
            self._odd = not self._odd
            self._span_at = self._run_at
        self._blank = False

    def quotes(self, at: int) -> bool:
        """Whether a marker at the offset ``at``, up to which content was read, stands in a code span."""
        if self._run:
            self._end_run()
        return self._odd and at - self._span_at <= MAX_SPAN
