"""Decodes token ids, and gives events their token spans."""

import re
from bisect import bisect_left
from itertools import accumulate, groupby
from typing import Any, Final

import msgspec

from ..dialect.patterns import worded
from ..dialect.plan import Plan
from ..events import Event, Finish

_RUN: Final = 8
"""The number of ids from which on it pays to look for runs."""
_SHORTEST: Final = 3
"""The shortest special token, in characters, that text does not contain by chance."""


class TokenFeed:
    """Decodes token ids, and counts them for the events.

    Attributes:
        total: the length of the tokens that were fed, in code points.
        added: the literals of the tokenizer's added tokens.
    """

    __slots__ = ("_decoder", "_special", "_starts", "_token", "added", "total")

    def __init__(self, tokenizer: Any) -> None:
        from ..tokens import Detokenizer, added_tokens, marked_special  # not needed for text

        self._decoder = Detokenizer(tokenizer)
        self._special = marked_special(tokenizer)
        self.added = added_tokens(tokenizer)
        self.total = 0
        self._starts: list[int] = []  # where the text of each token begins that no event has claimed yet
        self._token = 0  # the number of tokens that events have claimed

    def runs(self, ids: tuple[int, ...]) -> list[tuple[tuple[int, ...], list[str]]]:
        """Divide ids into runs: ids to push one by one, each followed by the texts of ids to join."""
        found: list[tuple[tuple[int, ...], list[str]]] = []
        begin = at = 0
        if len(ids) >= _RUN:
            for kind, group in groupby(self._decoder.known(ids), type):
                texts: list[Any] = list(group)
                if kind is str and len(texts) > 1:
                    # The first id is pushed: it completes a character, or is the very first.
                    found.append((ids[begin : at + 1], texts[1:]))
                    begin = at + len(texts)
                at += len(texts)
        if begin < len(ids):
            found.append((ids[begin:], []))
        return found

    def join(self, texts: list[str]) -> str:
        """Take the text of many ids at once."""
        self._starts += accumulate(map(len, texts[:-1]), initial=self.total)
        text = "".join(texts)
        self.total += len(text)
        return text

    def push(self, token: int) -> tuple[str, str]:
        """Take an id: the text that it completes, and its literal if it is an added token."""
        text, literal = self._decoder.push(token)
        self._starts.append(self.total)
        self.total += len(text)
        return text, literal

    def count(self, literal: str) -> None:
        """Record that the text of an added token was fed."""
        self.total += len(literal)

    def flush(self) -> tuple[str, bool]:
        """The rest of the text at the end, and whether it is an incomplete character."""
        text, cut = self._decoder.flush()
        self.total += len(text)
        return text, cut

    def foreign(self, literal: str, plan: Plan) -> bool:
        """Whether an added token is special, but neither named by a template nor made of what one names."""
        if literal not in self._special:
            return False
        return not any(literal in t or (t in literal and worded(t) and _apart(t, literal)) for t in plan.literals)

    def with_spans(self, events: list[Event]) -> list[Event]:
        """Add token spans to events: a token belongs to the event that contains its first character."""
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
    """Whether an added token is, or is part of, a literal of a template."""
    return any(literal in text or text in literal for text in plan.literals)


def is_distinct(literal: str) -> bool:
    """Whether text that contains an added token certainly spells it, unlike a word or white space."""
    return len(literal) >= _SHORTEST and not literal.isalnum() and not literal.isspace()


def _apart(part: str, literal: str) -> bool:
    """Whether a part of an added token is no piece of a longer word in it, as ``f`` is of ``<|of|>``."""
    begin = r"\b" if part[0].isalnum() else ""
    end = r"\b" if part[-1].isalnum() else ""
    return re.search(f"{begin}{re.escape(part)}{end}", literal) is not None


def closes(literal: str, plan: Plan) -> bool:
    """Whether an added token begins a closing of a call, a block or the turn."""
    patterns = (*plan.calls.closings, *plan.calls.bare_closings, *(o.pattern for o in plan.ends))
    return any(p.first.startswith(literal) for p in patterns)
