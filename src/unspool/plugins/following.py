"""Finds out from token ids whether reasoning has ended, in a prompt and in the output after it.

Engines ask this at each token, to know where a grammar begins to apply. A marker that is a special token counts by
its id; text that spells it does not. A marker without a token counts by its text, however it is tokenized. Outputs
are read by the same rules, so both always agree on where reasoning ends.
"""

from collections.abc import Sequence
from typing import Any, Final

from .. import Dialect, Event, Markup, Policy, ReasoningEnd, Stage
from ..parser.parser import PairedParser
from ..parser.prompt import decode_ids, last_turn
from ..tokens import Detokenizer
from .host import closings, ids_policy, openings, reasoning_closed
from .pairing import Special, exact_text, special_of

_TAIL: Final = 24  # how many ids are searched for a marker that new ids complete


def prompt_text(d: Dialect, ids: Sequence[int], tokenizer: Any) -> str:
    """The text of a prompt's ids, without text that only spells a special token."""
    return exact_text(ids, tokenizer, _counted(d, tokenizer, ids_policy()))


def _counted(d: Dialect, tokenizer: Any, policy: Policy) -> Special | None:
    """The special tokens that count only as ids; ``None`` if text that spells one counts too."""
    return special_of(d, tokenizer) if policy.text_markers == "ignore" else None


class Following:
    """Reads a growing list of ids, each of them once. The policy is that of outputs with known ids, with
    ``text_markers``."""

    def __init__(self, d: Dialect, tokenizer: Any, policy: Policy) -> None:
        self._dialect = d
        self._tokenizer = tokenizer
        self._policy = policy
        self._special = _counted(d, tokenizer, policy)
        spelled = None if self._special is None else self._special.spelled
        self._closings = [end for _, end in closings(d) if end]
        marks = {*self._closings, *openings(d)}
        self._marks = [m for m in marks if m and not (spelled and spelled.search(m))]
        self._taken: list[int] = []
        self._parser: PairedParser | None = None
        self._closed = False

    def over(self, ids: Sequence[int]) -> bool:
        """Whether reasoning has ended after these ids; if it neither began nor ended, it is still to come."""
        self._begin(list(ids))
        return self._is_over()

    def ends(self, ids: Sequence[int], new: int) -> bool:
        """The same, for the ids of a prompt and a growing output, of which so many are new."""
        if not self._may_end(ids[-_TAIL - new :]):
            return False
        ids = list(ids)
        known = len(self._taken)
        if self._parser is None or known > len(ids) or ids[:known] != self._taken:
            self._begin(ids[: len(ids) - new])
            known = len(ids) - new
        self._feed(ids[known:])
        self._taken = ids
        return self._is_over()

    def _may_end(self, recent: Sequence[int]) -> bool:
        """Whether the last ids contain a marker that could end the reasoning."""
        if self._special is not None and not self._special.ids.isdisjoint(recent):
            return True
        if not self._marks:
            return False
        text = decode_ids(self._tokenizer, recent)
        return any(mark in text for mark in self._marks)

    def _begin(self, prompt: list[int]) -> None:
        text = last_turn(self._dialect, exact_text(prompt, self._tokenizer, self._special))
        self._parser = PairedParser(self._dialect, prompt=text, policy=self._policy)
        self._closed = reasoning_closed(self._dialect, text)
        if self._special is not None:
            self._parser.know_tokens(self._special.markers)
        self._decoder = Detokenizer(self._tokenizer)
        self._taken = prompt

    def _feed(self, ids: Sequence[int]) -> None:
        parser = self._parser
        assert parser is not None
        for token in ids:
            text, literal = self._decoder.push(token)
            events = parser.feed(text)
            if literal and self._special is not None and token in self._special.ids:
                events = [*events, *parser.feed_special(literal, foreign=literal not in self._special.markers)]
            elif literal:
                events = [*events, *parser.feed(literal)]
            self._closed = self._closed or any(map(self._closes, events))

    def _closes(self, event: Event) -> bool:
        """Whether reasoning ends with an event; a closing without an opening counts too."""
        if isinstance(event, Markup):
            return any(end in event.text for end in self._closings)
        return isinstance(event, ReasoningEnd)

    def _is_over(self) -> bool:
        assert self._parser is not None
        stage = self._parser.stage
        return stage is Stage.TOOL_CALL or (stage is Stage.CONTENT and self._closed)
