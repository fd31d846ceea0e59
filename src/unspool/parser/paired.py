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

    def know_tokens(self, special: Iterable[str], *, constrained: bool = False) -> None:
        """From here on `feed_special` marks special tokens; text that spells one is not one (`text_markers`).

        Args:
            special: the literals of those that may be markers.
            constrained: a grammar of text writes what is not reasoning: there, what spells one is one.
        """
        self._slow()
        self._machine.look.know_tokens(special, constrained=constrained)

    def feed_special(self, literal: str, *, foreign: bool = False) -> list[Event]:
        """Take the next special token, after `know_tokens`; returns its events.

        In a call's arguments it is what its text would be there: models quote their own markers, and as special tokens,
        since that is how tokenizers wrote what they learned from.

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
