"""The text of the output: what waits to be read, and what was read and may still be asked for."""

import msgspec


class Tape(msgspec.Struct, eq=False):
    """The output as far as it was fed.

    Only what is read of it moves ``i``; what was read is dropped with the next piece, unless it is kept.

    Attributes:
        buf: ``buf[i:]`` waits.
        base: the offset of ``buf[0]`` in the output, negative while a prompt's tail is read.
        final: no more text comes.
        ended: the model ended it; it was not cut at its length.
    """

    buf: str = ""
    i: int = 0
    base: int = 0
    final: bool = False
    ended: bool = False
    _kept: list[str] | None = None
    _kept_at: int = 0

    @property
    def here(self) -> int:
        """The offset of what waits."""
        return self.base + self.i

    @property
    def end(self) -> int:
        """The offset after all that was fed."""
        return self.base + len(self.buf)

    def move(self, i: int) -> None:
        """The text up to ``buf[i]`` is read."""
        self.i = i

    def feed(self, text: str) -> None:
        """More text."""
        self.drop()
        self.buf = self.buf + text if self.buf else text

    def drop(self) -> None:
        """Drop what is read, unless it is kept."""
        i = self.i
        if i:
            if self._kept is not None:
                self._kept.append(self.buf[:i])
            self.buf = self.buf[i:]
            self.base += i
            self.i = 0

    def replay(self, tail: str) -> None:
        """Read the end of a prompt, which lies before the output."""
        self.base = -len(tail)
        self.buf = tail

    def finish(self, *, ended: bool = True) -> None:
        """No more text comes, unless `go_on` says otherwise."""
        self.final = True
        self.ended = ended

    def go_on(self, *, final: bool = False, ended: bool = False) -> None:
        """Take back what `finish` said."""
        self.final = final
        self.ended = ended

    def cut(self, at: int) -> str:
        """Take away the text from ``buf[at]`` on, until it is joined again."""
        rest = self.buf[at:]
        self.buf = self.buf[:at]
        return rest

    def join(self, rest: str) -> None:
        """Give back what was cut."""
        self.buf += rest

    # -- what was read ------------------------------------------------------------------------------------------------

    def source(self, start: int, end: int) -> str:
        """The output between two offsets; from before ``base`` only what is kept."""
        base = self.base
        if start >= base:
            return self.buf[start - base : end - base]
        kept = self._kept
        assert kept is not None
        text = "".join(kept)
        kept[:] = [text]
        whole = text + self.buf[: max(0, end - base)]
        return whole[start - self._kept_at : end - self._kept_at]

    def keep(self) -> None:
        """From here on, keep what is read."""
        if self._kept is None:
            self._kept = []
            self._kept_at = self.base

    def let_go(self) -> None:
        """Keep nothing any more."""
        self._kept = None

    def rewind(self, to: int, *, keep: bool) -> None:
        """Go back to an offset whose text is kept; ``keep``: what lies before it is still needed."""
        if to < self.base:
            text = self.source(to, self.here)
            self.buf = text + self.buf[self.i :]
            self._kept = [self.source(self._kept_at, to)] if keep else None
            self.base = to
        self.i = to - self.base

    # -- fast paths ---------------------------------------------------------------------------------------------------

    def lend(self) -> list[str] | None:
        """Someone else reads on from here; gives the list of what is kept, if anything is."""
        self.drop()
        return self._kept

    def take_back(self, text: str, at: int) -> None:
        """That one is done: ``text``, which begins at an offset, waits."""
        self.buf = text
        self.base = at
        self.i = 0
