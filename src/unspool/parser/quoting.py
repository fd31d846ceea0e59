"""Code in content: where text quotes markers instead of writing them."""

import re
from typing import Final

import msgspec

from ..regex import Regex

MAX_SPAN: Final = 256  # the longest code span, in characters. A span that is not closed by then was none.
MIN_FENCE: Final = 3

_MARKS = Regex(r"`++")
_FENCES = Regex(r"^[^\S\n]*+(`{3,}+)", re.M)


class Quoting(msgspec.Struct, eq=False):
    """Follows the code spans and fences of content.

    A backtick by itself, with an even number of such before it on its line, opens a code span. It ends at the next
    single backtick, at the line's end, or after `MAX_SPAN` characters. Three or more at a line's start open a fence,
    as many or more at a line's start close it.

    Content is collected as it comes, and examined only when a marker is in it."""

    upto: int = -(1 << 62)  # the offset up to which content was examined
    begun: bool = False  # there was content since the last part began
    _waiting: list[tuple[str, int]] = []
    ticks: bool = False  # whether any content had backticks
    _open: int = 0  # how many backticks opened the open fence; 0 if there is none
    _odd: bool = False  # the current line has an odd number of single backticks
    _span_at: int = 0  # the offset of the last of them
    _run: int = 0  # backticks at the very end of the examined text, which count for nothing yet: more may follow
    _run_at: int = 0
    _blank: bool = True  # the current line has only white space

    def restart(self) -> None:
        """Another part begins, in which no code continues."""
        self.begun = False
        self._waiting.clear()
        self._odd = False
        self._run = 0
        self._blank = True
        self._open = 0

    def put(self, text: str, start: int) -> None:
        """Add text, which begins at the offset ``start``, as content."""
        self._waiting.append((text, start))
        self.begun = True
        self.ticks = self.ticks or "`" in text

    def quotes(self, text: str, start: int) -> bool:
        """Whether a marker after ``text``, content that begins at the offset ``start``, is in a code span."""
        self.begun = True
        for piece in self._waiting:
            self._read(*piece)
        self._waiting.clear()
        if text:
            self._read(text, start)
        # The marker itself may go on with a run of backticks, so a question does not end it.
        single = self._run == 1
        return self._odd != single and start + len(text) - (self._run_at if single else self._span_at) <= MAX_SPAN

    def _read(self, text: str, start: int) -> None:
        if start < self.upto:
            text = text[self.upto - start :]
            start = self.upto
        if not text:
            return
        self.upto = start + len(text)
        if self._run and (text[0] != "`" or start != self._run_at + self._run):
            self._end_run()
        if "`" not in text:  # as most text
            last = text.rfind("\n") + 1
            if last:
                self._odd, self._blank = False, True
            if self._blank and last < len(text) and not text[last:].isspace():
                self._blank = False
            return
        first = text.find("\n")
        if first >= 0:
            self._line(text[:first], start)
            last = text.rfind("\n") + 1
            if self._run:
                self._end_run()
            self._odd, self._blank = False, True
            for m in _FENCES.finditer(text, first + 1, last):
                self._open = self._after(len(m.group(1)))
            text = text[last:]
            start += last
        self._line(text, start)

    def _line(self, text: str, start: int) -> None:
        """Examine a part of a line."""
        if "`" not in text:
            if self._blank and text and not text.isspace():
                self._blank = False
            return
        at = 0
        for m in _MARKS.finditer(text):
            if self._blank and m.start() > at and not text[at : m.start()].isspace():
                self._blank = False
            at = m.end()
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
            self._open = self._after(run)
        elif run == 1:
            self._odd = not self._odd
            self._span_at = self._run_at
        self._blank = False

    def _after(self, run: int) -> int:
        """What opened the open fence after so many backticks at a line's start."""
        return 0 if run >= self._open > 0 else self._open or run

    def fenced(self) -> bool:
        """Whether a fence is open after the examined text."""
        return (self._after(self._run) if self._run >= MIN_FENCE and self._blank else self._open) > 0

    def blank(self) -> bool:
        """Whether the last line of the examined text has only white space."""
        return self._blank and not self._run
