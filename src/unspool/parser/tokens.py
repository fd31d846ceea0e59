"""Token ids: their text, and the spans of events in them."""

from bisect import bisect_left
from itertools import accumulate, groupby
from typing import Any, Final

import msgspec

from ..dialect.plan import Plan
from ..events import Event, Finish

_RUN: Final = 8
"""From so many ids on it pays to look for runs."""
_SHORTEST: Final = 3
"""The length of the shortest special token that text does not contain by chance."""


class TokenFeed:
    """Decodes token ids, and counts them for the events.

    Attributes:
        total: code points of the tokens that were fed.
        added: the literals of the tokenizer's added tokens.
    """

    __slots__ = ("_decoder", "_special", "_starts", "_token", "added", "total")

    def __init__(self, tokenizer: Any) -> None:
        from ..tokens import Detokenizer, added_tokens, marked_special  # not needed for text

        self._decoder = Detokenizer(tokenizer)
        self._special = marked_special(tokenizer)
        self.added = added_tokens(tokenizer)
        self.total = 0
        self._starts: list[int] = []  # where the text of tokens begins that events have not claimed
        self._token = 0  # tokens that events have claimed

    def runs(self, ids: tuple[int, ...]) -> list[tuple[tuple[int, ...], list[str]]]:
        """Ids in runs: those that are to be pushed one by one, and the texts of those after them, to be joined."""
        found: list[tuple[tuple[int, ...], list[str]]] = []
        begin = at = 0
        if len(ids) >= _RUN:
            for kind, group in groupby(self._decoder.known(ids), type):
                texts: list[Any] = list(group)
                if kind is str and len(texts) > 1:
                    # The first is pushed: it completes a character, or is the very first.
                    found.append((ids[begin : at + 1], texts[1:]))
                    begin = at + len(texts)
                at += len(texts)
        if begin < len(ids):
            found.append((ids[begin:], []))
        return found

    def join(self, texts: list[str]) -> str:
        """The text of many ids at once."""
        self._starts += accumulate(map(len, texts[:-1]), initial=self.total)
        text = "".join(texts)
        self.total += len(text)
        return text

    def push(self, token: int) -> tuple[str, str]:
        """The text that an id completes, and its literal where it is an added token."""
        text, literal = self._decoder.push(token)
        self._starts.append(self.total)
        self.total += len(text)
        return text, literal

    def count(self, literal: str) -> None:
        """The text of an added token was fed."""
        self.total += len(literal)

    def flush(self) -> tuple[str, bool]:
        """The rest at the end, and whether it is a cut character."""
        text, cut = self._decoder.flush()
        self.total += len(text)
        return text, cut

    def foreign(self, literal: str, plan: Plan) -> bool:
        """Whether an added token is a special one that no template names, nor contains what a template names."""
        if literal not in self._special:
            return False
        return not any(literal in t or (t in literal and any(c.isalnum() for c in t)) for t in plan.literals)

    def with_spans(self, events: list[Event]) -> list[Event]:
        """The events with their token spans: a token belongs to the event that contains its first character."""
        spanned: list[Event] = []
        starts = self._starts
        used = 0
        for event in events:
            start = self._token + used
            used = bisect_left(starts, event.end, used)
            if isinstance(event, Finish):
                used = len(starts)
            spanned.append(msgspec.structs.replace(event, token_start=start, token_end=self._token + used))
        self._token += used
        del starts[:used]
        return spanned


def is_marker(literal: str, plan: Plan) -> bool:
    """Whether an added token is, or is part of, what a template writes."""
    return any(literal in text or text in literal for text in plan.literals)


def is_distinct(literal: str) -> bool:
    """Whether text that contains an added token spells it: names contain words, and everything contains space."""
    return len(literal) >= _SHORTEST and not literal.isalnum() and not literal.isspace()


def closes(literal: str, plan: Plan) -> bool:
    """Whether something that closes a call, a block or the turn begins with an added token."""
    return any(p.first.startswith(literal) for p in (*plan.calls.closings, *(o.pattern for o in plan.ends)))
