"""Looks for markers at a place: whether one is there, whether it counts, and what may follow it."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import attrgetter
from typing import Final

import msgspec

from ..dialect.loose import MAX_AGAIN
from ..dialect.markers import END, Form, Marker, Outline, Parameter, Scan, Stray, literals_of, tags
from ..dialect.patterns import MAX_SPACE, MORE, NO, Pattern, skip_space
from ..dialect.plan import Plan
from .ledger import Ledger, Tape
from .token_feed import is_distinct

_PATTERN: Final = attrgetter("pattern")
ALWAYS: Final = -(1 << 62)  # before any offset


def first_of(answers: Iterable[int]) -> int:
    """The first end among some answers about a place; else `MORE` if that is among them, and else `NO`."""
    found = NO
    for answer in answers:
        if answer >= 0:
            return answer
        found = min(found, answer)
    return found


def first_ending(ends: Scan | Parameter | Form, text: str, i: int, asks: Callable[[int], int]) -> tuple[int, int]:
    """The first place from ``i`` on where one of some triggers counts, or may, and the answer about it; the text's end
    and `NO` if there is none."""
    while (m := ends.find.search(text, i)) is not None:
        p = m.start()
        r = MORE if m.end() == len(text) and m.group() not in ends.triggers else asks(p)
        if r != NO:
            return p, r
        i = p + 1
    return len(text), NO


class Lookout(msgspec.Struct, eq=False):
    """Looks at the waiting text without reading it.

    A question about a place is answered with the end of the match, with `NO`, or with `MORE` if more text must decide
    (``min`` combines `NO` and `MORE`). At the output's end, `MORE` means that it cuts the marker; who does not care for
    that asks `settled`."""

    plan: Plan
    outline: Outline  # the markers that count: those with calls, or those without once calls are text
    _tape: Tape
    ledger: Ledger
    replay: bool = False  # the text is a prompt's
    thoughts_from: int = ALWAYS  # before this offset, nothing opens reasoning in content
    counted: bool = False  # token ids are fed, and nothing else
    # If ids are fed: the offsets of special tokens that are markers; ``last_mark``: the last of them.
    marks: set[int] | None = None
    last_mark: int = ALWAYS
    _added: Iterable[str] = ()  # the tokenizer's added tokens
    ignores: bool = False  # whether text that only spells one of them stays text
    _constrained: bool = False  # whether that applies in reasoning only
    # The closings that are text because their openings are, by their literals, with their number.
    spared: dict[str, tuple[Pattern, int]] = {}
    _spared_at: int = ALWAYS  # the last marker that was spared
    _spared_to: int = ALWAYS  # its end: no part of it is a marker either

    def know_tokens(self, added: Iterable[str], *, counted: bool = False, constrained: bool = False) -> None:
        """Distinguish special tokens, given by their literals, from text. ``constrained``: in reasoning only."""
        self.counted = counted
        self._constrained = constrained
        self.marks = set()
        self._added = added
        self.ignores = self.plan.policy.text_markers == "ignore"

    def mark(self, offset: int) -> None:
        """Record a special token, known by its id, that is a marker."""
        assert self.marks is not None
        self.marks.add(offset)
        self.last_mark = offset

    def forget_marks(self) -> None:
        """Forget the tokens in text that was read."""
        if self.marks and len(self.marks) > 64:
            here = self._tape.here
            self.marks = {m for m in self.marks if m >= here}

    def marked(self, i: int) -> bool:
        """Whether a special token is here, known by its id."""
        return self.marks is not None and self._tape.base + i in self.marks

    def certain(self, i: int) -> bool:
        """Whether it counts in arguments whatever follows it, as it does in an output of ids alone."""
        return self.counted and self.marked(i)

    def only_spelled(self, first: str, i: int, end: int) -> bool:
        """Whether the text there, which begins with ``first``, only spells a special token, and so does not count."""
        if not self.ignores or (self._constrained and not self.ledger.thinking):
            return False
        buf = self._tape.buf
        begins = not self.marked(i)
        for token in self._added:
            if begins and (
                (first.startswith(token) and buf.startswith(token[: len(buf) - i], i))
                or (token.startswith(first) and buf.startswith(token, i))
            ):
                return bool(token)
            if not is_distinct(token):
                continue
            p = buf.find(token, i + 1, end)
            while p >= 0 and self.marked(p):
                p = buf.find(token, p + 1, end)
            if p >= 0:
                return True
        return False

    def stands(self, pattern: Pattern, i: int, fields: dict[str, str] | None = None) -> int:
        """The end of a pattern at ``i``; a token that is only spelled may not count. Fills ``fields``."""
        buf = self._tape.buf
        if pattern.alone and buf.startswith(pattern.first, i):
            r = i + len(pattern.first)
        else:
            r = pattern.match(buf, i, {} if fields is None else fields)
        if not self.ignores or r == NO or not self.only_spelled(pattern.first, i, max(r, i)):
            return r
        # A tag may go on in another case than the token, and then counts.
        return MORE if r == MORE and pattern.any_case and not self._tape.final else NO

    def settled(self, answer: int) -> int:
        """An answer about a place; `NO` for `MORE` if no more text comes."""
        return NO if answer == MORE and self._tape.final else answer

    def closes_call(self, closing: Pattern, i: int, name: str) -> int:
        """The end of a call's closing at ``i``; another call's name in it makes it text."""
        fields: dict[str, str] = {}
        r = self.stands(closing, i, fields)
        return NO if r >= 0 and fields.get("name", name) != name else r

    def progress(self, pattern: Pattern, i: int) -> int:
        """How much of a pattern's beginning matches at ``i``, by the rules of `stands`."""
        end = max(pattern.progress(self._tape.buf, i), i)
        return i if self.ignores and self.only_spelled(pattern.first, i, end) else end

    def first(self, patterns: Iterable[Pattern], i: int, *, soon: bool = False, fields: Mapping[str, str] = {}) -> int:
        """The end of the first of some patterns that matches at ``i``; ``soon``: `MORE` if one before it may match;
        ``fields``: those that they repeat."""
        buf = self._tape.buf
        found, rest = NO, len(buf) - i
        for pattern in patterns:
            begins = pattern.first
            # Most patterns are not there: for these, this spares a call.
            if not (buf.startswith(begins, i) or pattern.any_case or (rest < len(begins) and begins[:rest] == buf[i:])):
                continue
            given = dict(fields)
            r = self.stands(pattern, i, given) if self.ignores else pattern.match(buf, i, given)
            if r >= 0 or (soon and r == MORE and not self._tape.final):
                return r
            found = min(found, r)
        return found

    def soonest(self, patterns: Iterable[Pattern], i: int) -> int:
        """As `first`, but settled: `MORE` as soon as one of them may match, and `NO` at the output's end."""
        r = self.first(patterns, i, soon=True)
        return NO if r == MORE and self._tape.final else r

    def marker(self, marker: Marker, i: int) -> int:
        """The end of a marker at ``i``, if it counts."""
        r = self.stands(marker.pattern, i)
        return self.end_counts(i, r) if r >= 0 and marker.kind == END else r

    def first_marker(self, markers: Iterable[Marker], i: int) -> int:
        """The end of the first of some markers at ``i`` that counts, as `settled`."""
        return self.settled(first_of(map(partial(self.marker, i=i), markers)))

    def end_here(self, i: int) -> int:
        """The end of an ``end`` or ``start`` at ``i``."""
        ends = self.plan.ends.at(self._tape.buf, i)
        return self.first_marker(ends, i) if ends else NO

    def end_counts(self, i: int, end: int) -> int:
        """Whether an ``end`` counts: as text, it does only before white space, an end, an opening, or nothing."""
        if self.replay or self.marked(i):
            return end
        tape = self._tape
        buf = tape.buf
        j = skip_space(buf, end)
        if j - end > MAX_SPACE:
            return NO
        if j == len(buf):
            return end if tape.final else MORE
        found = self.first(map(_PATTERN, self.outline.marked.at(buf, j)), j)
        return end if found >= 0 or (found == MORE and tape.final) else found

    def closing(self, i: int) -> int:
        """The end of what is at ``i``, if it closes a call, a block or the turn."""
        r = self.first(self.plan.calls.closings, i)
        return r if r >= 0 else first_of((r, self.end_here(i)))

    def quoted(self, i: int) -> bool:
        """Whether a marker at ``i`` is in a code span of the content."""
        ledger = self.ledger
        if ledger.thinking:
            return False
        here = self._tape.base + i
        start = min(max(ledger.at, ledger.quoting.upto), here)
        return ledger.quoting.quotes(self._tape.source(start, here), start)

    def spare(self, i: int, *closings: Pattern) -> None:
        """The opening at ``i`` stays text, so its closing will too."""
        here = self._tape.base + i
        if not any(closings) or self._spared_at == here:  # it was looked at before
            return
        self._spared_at = here
        tagged = [t for c in dict.fromkeys(closings) for t in (tags(c) or (c,)) if t.atoms]
        for literal, pattern in {literals_of(t): t for t in tagged}.items():
            _, times = self.spared.get(literal, (pattern, 0))
            self.spared[literal] = pattern, times + 1

    def is_spared(self, i: int) -> bool:
        """Whether the closing at ``i`` belongs to an opening that is text; each opening spares one closing."""
        here = self._tape.base + i
        if self._spared_at == here:
            return True
        for literal, (pattern, times) in self.spared.items():
            if times and (end := pattern.match(self._tape.buf, i, {})) >= 0:
                self.spared[literal] = pattern, times - 1
                self._spared_at = here
                self._spared_to = max(self._spared_to, here - i + end)
                return True
        return self._spared_at <= here < self._spared_to

    def stray_counts(self, i: int) -> bool:
        """Whether a marker at ``i`` that contains nothing counts as stray."""
        ledger = self.ledger
        return self.plan.policy.stray_markers == "drop" and not self.quoted(i) and not ledger.quoting.fenced()

    def closed_behind(self, i: int) -> bool:
        """Whether a closing follows somewhere after an opening at ``i``, so that the output's end did not cut it."""
        buf = self._tape.buf
        return any(buf.find(literals_of(s.pattern), i) >= 0 for s in self.plan.reading.strays if not s.opens)

    def stray(self, i: int, *, inner: int = MAX_AGAIN) -> tuple[int, bool]:
        """The end of a stray marker at ``i``, which is dropped, and whether it is an opening; ``inner``: how many in a
        row may close an argument."""
        tape = self._tape
        for stray in self.outline.strays.at(tape.buf, i):
            if stray.inner and not inner:
                continue
            r = self.stands(stray.pattern, i)
            if r == MORE and not tape.final:
                return MORE, stray.opens
            if r < 0:
                continue
            if stray.inner:
                return self._inner_stray(i, r, inner - 1), False
            if not stray.opens:
                return r if self.stray_counts(i) and not self.is_spared(i) else NO, False
            end = NO if stray.text else self._empty(stray, r)
            if end == MORE:
                return MORE, True
            if end >= 0:
                return end if self.stray_counts(i) else NO, True
        return NO, False

    def _inner_stray(self, i: int, r: int, more: int) -> int:
        """``r`` if a stray closing of an argument at ``buf[i:r]`` counts: after at most ``more`` others of arguments, a
        stray closing of something else follows."""
        j = skip_space(self._tape.buf, r)
        if j - r > MAX_SPACE or not self.stray_counts(i):
            return NO
        if j == len(self._tape.buf):
            return self.settled(MORE)
        end, opens = self.stray(j, inner=more)
        return end if end < 0 else NO if opens else r

    def _empty(self, stray: Stray, i: int) -> int:
        """The end of a stray opening, which itself ends at ``i``, with the closing or end that leaves it empty."""
        tape = self._tape
        j = skip_space(tape.buf, i)
        if j - i > MAX_SPACE:
            return NO
        if j == len(tape.buf):
            return j if tape.final else MORE
        ends = [self.stands(c, j) for c in stray.closings]
        again = self.stands(stray.pattern, j)
        if not tape.final and MORE in (*ends, again):
            return MORE
        end = max([*ends, NO])
        return j if end < 0 and again >= 0 else end

    def stray_closings(self, i: int) -> list[Pattern]:
        """The closings of those openings at ``i`` that open nothing."""
        found: list[Pattern] = []
        for stray in self.plan.reading.strays.at(self._tape.buf, i):
            if stray.opens and self.stands(stray.pattern, i) >= 0:
                found += stray.closings
        return found
