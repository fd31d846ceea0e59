"""Outputs that come as text and as token ids at the same time, as engines pass them to parsers."""

from collections.abc import Iterable

from ..events import Event
from .parser import Parser


class PairedParser(Parser):
    """A parser that is fed text, with special tokens marked.

    Text is as fast as with `Parser`. Events have no token spans, because ids are not counted.

    The arguments are those of `Parser`.
    """

    __slots__ = ()

    def know_tokens(self, special: Iterable[str], *, constrained: bool = False) -> None:
        """From now on `feed_special` marks special tokens, and text that only spells one is text (`text_markers`).

        Args:
            special: the literals of special tokens that may be markers.
            constrained: a grammar of text generates everything but reasoning; there, text that spells a token counts.
        """
        self._slow()
        self._machine.look.know_tokens(special, constrained=constrained)

    def feed_special(self, literal: str, *, foreign: bool = False) -> list[Event]:
        """Take the next special token, after `know_tokens`; returns its events.

        In a call's arguments it is treated like its text: models quote their own markers, and do so with special
        tokens, because tokenizers encoded their training data that way.

        Args:
            literal: the token's text.
            foreign: no template names it; it is markup, except inside a call.

        Raises:
            ValueError: the parser is closed.
        """
        events = self._feed_special(literal, foreign, None)
        self._machine.look.forget_marks()
        return events
