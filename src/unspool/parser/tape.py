"""The text of the output: text that waits to be read, and text that was read and may be needed again."""

from collections.abc import Callable

import msgspec


class Tape(msgspec.Struct, eq=False):
    """The output, as far as it was fed.

    Reading moves ``i``. Text that was read is dropped when the next piece comes, unless it is kept.

    Attributes:
        buf: ``buf[i:]`` waits.
        base: the offset of ``buf[0]`` in the output; negative while the end of a prompt is read.
        final: no more text will come.
        ended: the model ended the output; it was not cut by length.
        kept: what was read before ``buf`` and is kept, from the offset ``kept_at`` on; ``None``: nothing is.
    """

    buf: str = ""
    i: int = 0
    base: int = 0
    final: bool = False
    ended: bool = False
    kept: list[str] | None = None
    kept_at: int = 0

    @property
    def here(self) -> int:
        """The offset of the waiting text."""
        return self.base + self.i

    @property
    def end(self) -> int:
        """The offset after everything that was fed."""
        return self.base + len(self.buf)

    def feed(self, text: str) -> None:
        """Add text."""
        self.drop()
        self.buf = self.buf + text if self.buf else text

    def drop(self) -> None:
        """Drop what was read, unless it is kept."""
        i = self.i
        if i:
            if self.kept is not None:
                self.kept.append(self.buf[:i])
            self.buf = self.buf[i:]
            self.base += i
            self.i = 0

    def replay(self, tail: str) -> None:
        """Add the end of a prompt, which lies before the output."""
        self.base = -len(tail)
        self.buf = tail

    def finish(self, *, ended: bool = True) -> None:
        """No more text will come, unless `go_on` takes that back."""
        self.final = True
        self.ended = ended

    def go_on(self, *, final: bool = False, ended: bool = False) -> None:
        """Take back `finish`: more text may come."""
        self.final = final
        self.ended = ended

    def cut(self, at: int) -> str:
        """Cut off the text from ``buf[at]`` on, until `join`."""
        rest = self.buf[at:]
        self.buf = self.buf[:at]
        return rest

    def join(self, rest: str) -> None:
        """Put back what was cut off."""
        self.buf += rest

    # -- what was read ------------------------------------------------------------------------------------------------

    def source(self, start: int, end: int) -> str:
        """The output between two offsets; before ``base``, only as far as it is kept."""
        base = self.base
        if start >= base:
            return self.buf[start - base : end - base]
        kept = self.kept
        assert kept is not None
        text = "".join(kept)
        kept[:] = [text]
        whole = text + self.buf[: max(0, end - base)]
        return whole[start - self.kept_at : end - self.kept_at]

    def keep(self) -> None:
        """Keep what is read from now on."""
        if self.kept is None:
            self.kept = []
            self.kept_at = self.base

    def rewind(self, to: int, *, keep: bool) -> None:
        """Go back to an offset whose text is kept; ``keep``: the text before it is still needed."""
        if to < self.base:
            text = self.source(to, self.here)
            self.buf = text + self.buf[self.i :]
            self.kept = [self.source(self.kept_at, to)] if keep else None
            self.base = to
        self.i = to - self.base

    # -- fast paths ---------------------------------------------------------------------------------------------------

    def lend(self) -> Callable[[str], None]:
        """A fast path reads on from here; return the function that keeps what it reads, if text is kept."""
        self.drop()
        return ([] if self.kept is None else self.kept).append

    def take_back(self, text: str, at: int) -> None:
        """The fast path is done: ``text``, which begins at an offset, waits."""
        self.buf = text
        self.base = at
        self.i = 0
