"""Pairs text with token ids: finds which text is special tokens, and which only spells them.

An engine passes a piece of text with the ids that were generated for it. The two need not match exactly: an
incomplete character waits, special tokens may be missing in the text (``skip_special_tokens``, and the token that
ended the output), and if an output may end with a stop string, text waits until it cannot be part of one. So the text
is read, and the ids show where in it a special token is, or where one is missing.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from .. import Dialect
from ..dialect.compiling import compile_plan
from ..parser.prompt import decode_ids
from ..parser.token_feed import is_distinct, is_marker
from ..tokens import Detokenizer, added_tokens
from .host import cached, foreign_tokens

_SLACK: Final = 4
"""By how many characters the decoded text of ids may differ in length from the text that came with them."""
_LOOK: Final = 64  # how many characters and ids decide whether text and ids belong together
_BROKEN: Final = "\ufffd"


class Special(msgspec.Struct, frozen=True):
    """The special tokens of a tokenizer that matter for a dialect, by their ids."""

    literals: dict[int, str]
    ids: frozenset[int]
    markers: tuple[str, ...]  # the text of those that are in a template of the dialect, or are part of a marker
    # Matches text that spells a marker; ``None`` if there are none. Words and short tokens, which also occur in names
    # and other text, do not count.
    spelled: "re.Pattern[str] | None" = None


@cached
def special_of(d: Dialect, tokenizer: Any) -> Special | None:
    """The special tokens that matter; ``None`` if a tokenizer does not list its tokens, so that only text is read."""
    try:
        added = added_tokens(tokenizer)
    except (AttributeError, TypeError):
        return None
    plan, foreign = compile_plan(d), foreign_tokens(d, tokenizer)
    markers = {i: text for text, i in added.items() if text.strip() and is_marker(text, plan)}
    others = {i: text for text, i in added.items() if foreign is not None and foreign.fullmatch(text)}
    literals = others | markers
    distinct = sorted(filter(is_distinct, markers.values()), key=len, reverse=True)
    spelled = re.compile("|".join(map(re.escape, distinct))) if distinct else None
    return Special(literals, frozenset(literals), tuple(markers.values()), spelled)


def exact_text(ids: Sequence[int], tokenizer: Any, special: Special | None) -> str:
    """The text of ids, without text that only spells a special token."""
    spelled = None if special is None else special.spelled
    if spelled is None:
        return decode_ids(tokenizer, ids)
    decoder = Detokenizer(tokenizer)
    found: list[str] = []
    run: list[str] = []
    for token in ids:
        text, literal = decoder.push(token)
        run.append(text)
        if literal:
            found += [spelled.sub("", "".join(run)), literal]
            run = []
    return "".join([*found, spelled.sub("", "".join(run) + decoder.flush()[0])])


class Pairing:
    """Combines the text and the ids of one output. If the request has stop strings (``lags``), text may come later than
    its ids, and end before them. For ``constrained``, see `Ids`."""

    def __init__(self, special: Special, tokenizer: Any, *, lags: bool = False, constrained: bool = False) -> None:
        self.markers = special.markers
        self.constrained = constrained
        self._special = special
        self._ids = special.ids
        self._decoder = Detokenizer(tokenizer)
        self._lags = lags
        self._owed: list[tuple[str, str]] = []  # text of ids that has not arrived, and the token after it
        self._run = ""  # the text of the ids after that last token
        self._waiting = ""  # text that may be the beginning of a special token

    def agree(self, text: str, ids: Sequence[int]) -> bool:
        """Whether ids belong to a text with this beginning."""
        written = left_out = ""  # with special tokens, and without them
        for token in ids[:_LOOK]:
            before, literal = self._decoder.push(token)
            written += before + literal
            left_out += before if token in self._ids else before + literal
        self._decoder.flush()
        said = _letters(text[:_LOOK])
        return any(_begins_alike(said, _letters(decoded)) for decoded in (written, left_out))

    def plain(self, ids: Sequence[int]) -> bool:
        """Whether the text that came with these ids contains no special token."""
        return self._ids.isdisjoint(ids) and not self._lags

    def take(self, text: str, ids: Sequence[int]) -> list[tuple[str, bool]]:
        """Divide the next piece of text, which may be empty, into parts, each a special token or not, by the ids since
        the last piece."""
        self._hear(ids)
        text = self._waiting + text
        self._waiting = ""
        parts: list[tuple[str, bool]] = []
        at, upto = 0, len(text)
        while self._owed:
            run, literal = self._owed[0]
            expected = at + len(run)
            where = _find(text, literal, at, expected, _SLACK + run.count(_BROKEN))
            if where < 0 and self._lags and len(text) < expected + len(literal):
                upto = max(min(expected - _SLACK, len(text)), at)
                self._owed[0] = run[upto - at :], literal
                self._waiting = text[upto:]
                break
            del self._owed[0]
            missing = where < 0
            where = min(expected, len(text)) if missing else where
            parts += [(text[at:where], False), (literal, True)]
            at = where if missing else where + len(literal)
        parts.append((text[at:upto], False))
        if not self._lags:
            self._decoder.flush()
            self._run = ""
        elif not self._owed:
            self._run = self._run[upto - at :]
        return [part for part in parts if part[0]]

    def _hear(self, ids: Sequence[int]) -> None:
        """Record the text and the special tokens of ids, which are expected in the text."""
        for token in ids:
            text, literal = self._decoder.push(token)
            self._run += text
            if token in self._ids:
                self._owed.append((self._run, literal))
                self._run = ""
            else:
                self._run += literal

    def rest(self) -> str:
        """Take the text that still waits when the output ends; it is not a special token."""
        rest, self._waiting = self._waiting, ""
        return rest


def _find(text: str, literal: str, begin: int, expected: int, slack: int) -> int:
    """Find a special token that is expected at a place, or near it; ``-1`` if it is not there."""
    if text.startswith(literal, expected):
        return expected
    return text.find(literal, max(begin, expected - slack), expected + slack + len(literal))


def _letters(text: str) -> str:
    """A text without the characters that may differ: white space and incomplete characters."""
    return "".join(text.replace(_BROKEN, "").split())


def _begins_alike(a: str, b: str) -> bool:
    return a == b or (bool(a and b) and (a.startswith(b) or b.startswith(a)))
