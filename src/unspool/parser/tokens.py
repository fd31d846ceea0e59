"""Token ids: their text, and the spans of events in them."""

from typing import Any

import msgspec

from ..dialect.plan import Plan
from ..events import Event, Finish


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
        """What is left at the end, and whether it is a cut character."""
        text, cut = self._decoder.flush()
        self.total += len(text)
        return text, cut

    def foreign(self, literal: str, plan: Plan) -> bool:
        """Whether an added token is a special one that no template names, nor holds what a template names."""
        if literal not in self._special:
            return False
        return not any(literal in t or (t in literal and any(c.isalnum() for c in t)) for t in plan.literals)

    def with_spans(self, events: list[Event]) -> list[Event]:
        """The events with their token spans: a token belongs to the event that holds its first character."""
        told: list[Event] = []
        starts = self._starts
        used = 0
        for event in events:
            start = self._token + used
            while used < len(starts) and starts[used] < event.end:
                used += 1
            if isinstance(event, Finish):
                used = len(starts)
            told.append(msgspec.structs.replace(event, token_start=start, token_end=self._token + used))
        self._token += used
        del starts[:used]
        return told


def is_marker(literal: str, plan: Plan) -> bool:
    """Whether an added token is, or is part of, what a template writes."""
    return any(literal in text or text in literal for text in plan.literals)


def closes(literal: str, plan: Plan) -> bool:
    """Whether something that closes a call, a block or the turn begins with an added token."""
    return any(p.first.startswith(literal) for p in (*plan.closings, *(o.pattern for o in plan.ends)))
