"""Outputs that come as text and as token ids at once, as engines hand them to their parsers."""

from collections.abc import Iterable

from ..events import Event
from .parser import Parser


class PairedParser(Parser):
    """A parser that is fed text, with special tokens marked.

    Text is as fast as with `Parser`, and events carry no spans of tokens: ids are not counted.

    It is made as `Parser` is.
    """

    __slots__ = ()

    def know_tokens(self, special: Iterable[str]) -> None:
        """From here on `feed_special` marks special tokens; text that spells one is not one (`text_markers`).

        Args:
            special: the literals of those that may be markers.
        """
        self._slow()
        self._machine.look.know_tokens(special)

    def feed_special(self, literal: str, *, foreign: bool = False) -> list[Event]:
        """Take the next special token, after `know_tokens`; returns its events.

        Args:
            literal: its text.
            foreign: no template names it: it is markup, but inside a call.

        Raises:
            ValueError: the parser is closed.
        """
        self._slow()
        events = self._feed_special(literal, foreign, None)
        self._machine.look.forget_marks()
        return events
