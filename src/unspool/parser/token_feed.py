"""Decodes token ids, and gives events their token spans."""

import re
from bisect import bisect_left
from typing import Any, Final

import msgspec

from ..dialect.patterns import worded
from ..dialect.plan import Plan
from ..events import Event, Finish

_SHORTEST: Final = 3  # the shortest special token, in characters, that text does not contain by chance


class TokenFeed:
    """Decodes token ids, and counts them for the events."""

    def __init__(self, tokenizer: Any) -> None:
        from ..tokens import Detokenizer, added_tokens, marked_special  # not needed for text

        self._decoder = Detokenizer(tokenizer)
        self._special = marked_special(tokenizer)
        self.added = added_tokens(tokenizer)  # the literals of the tokenizer's added tokens
        self.total = 0  # the length of the tokens that were fed, in code points
        self.starts: list[int] = []  # where the text of each token begins that no event has claimed yet
        self.stream = self._decoder.stream
        self.claimed = 0  # the number of tokens that events have claimed
        self.folded = 0  # how many of them are in the message

    def read(self, ids: tuple[int, ...]) -> list[tuple[str, str]]:
        """Decode ids: stretches of text, each with the literal of the added token after it (``""`` at the end)."""
        stream, starts, total = self.stream, self.starts, self.total
        found: list[tuple[str, str]] = []
        pending: list[str] = []
        after = stream.after
        for token in ids:
            starts.append(total)
            step = after.get(token)
            if step is not None:
                text, after = step
            else:
                stream.after = after
                text, literal = self._decoder.push(token)
                after = stream.after
                if literal:
                    found.append(("".join(pending) + text, literal))
                    pending = []
                    total += len(text) + len(literal)
                    continue
            total += len(text)
            pending.append(text)
        if pending:
            found.append(("".join(pending), ""))
        stream.after = after
        self.total = total
        return found

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

    def claim(self, event: Event) -> None:
        """Add the token span of an event that contains the beginning of all tokens without one."""
        self.starts.clear()
        start = self.claimed
        self.claimed = end = start + 1
        _set(event, "token_start", start)
        _set(event, "token_end", end)

    def span(self, events: list[Event]) -> None:
        """Add token spans to events: a token belongs to the event that contains its first character."""
        starts, at, used = self.starts, self.claimed, 0
        for event in events:
            start = at + used
            if used < len(starts):
                used = bisect_left(starts, event.end, used) if starts[-1] >= event.end else len(starts)
            if event.__class__ is Finish:
                used = len(starts)
            # They were made just now, and nobody has seen them.
            _set(event, "token_start", start)
            _set(event, "token_end", at + used)
        self.claimed = at + used
        del starts[:used]


_set: Final = msgspec.structs.force_setattr


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


def ends_turn(literal: str, plan: Plan) -> bool:
    """Whether an added token ends the turn, and closes no call or block."""
    return any(o.pattern.first == literal for o in plan.ends) and all(c.first != literal for c in plan.calls.closings)
