"""Steps between calls: the next call, the block's closing, or stray text."""

from typing import Final

from ..dialect.markers import CALL_END, Block, CallOpening, Opening, Scan
from ..dialect.patterns import MAX_SPACE, MORE, NO, skip_space, worded
from ..regex import Regex
from . import states
from .calls import Calls
from .lookout import first_of
from .openings import SURPLUS, Match
from .parts import Steps

_CLOSING_TAG = Regex(r"</[A-Za-z][\w:.\-]{0,63}+>")
_CLOSING_TAG_MAYBE = Regex(r"<(?:/(?:[A-Za-z][\w:.\-]{0,63}+)?)?\Z")


class Blocks(Steps):
    """Reads the output between calls."""

    _calls: Calls

    def between(self) -> bool:
        """After a call: another one, the block's closing, or something else."""
        tape = self._tape
        i = tape.i
        j = i if i == len(tape.buf) else self._openings.separated(i)
        if j == MORE:
            return False
        if j - i > MAX_SPACE:
            self._too_much_space()
            return True
        if j == len(tape.buf):
            if tape.final:
                tape.i = j
                self._ledger.markup(tape.here)
            return False
        cut = False  # the output ends in the beginning of one of these
        for step in _BETWEEN:
            r = step(self, j)
            if r >= 0:
                return True
            if r == MORE and not tape.final:
                return False
            cut = cut or r == MORE
        return self._after_block(j, cut=cut)

    def _too_much_space(self) -> None:
        """So much white space follows a call that neither another call nor a closing is expected."""
        tape, ledger = self._tape, self._ledger
        ledger.notice("hold_overflow", "white space")
        if self._bracketed() is not None and not ledger.paused:
            ledger.markup(tape.here)
            self._parts.state = states.BLOCK_TEXT
        else:
            self._parts.leave_block()

    def _bracketed(self) -> Block | None:
        """The open block, if it has a closing."""
        within = self._calls.within
        return within if within is not None and within.closing.atoms else None

    # -- what may follow a call: each ends what is at ``j`` and returns its end, or `NO` or `MORE` --------------------

    def _block_closing(self, j: int) -> int:
        """The block's closing, or another block's."""
        within, look = self._bracketed(), self._look
        r = NO if within is None else look.stands(within.closing, j)
        if r == NO or (r == MORE and self._tape.final):
            other = look.first(self._plan.calls.block_closings, j, soon=True)
            if r == MORE and other >= 0 and within is not None:  # the output's end cuts its own closing
                self._ledger.notice("missing_close", within.closing.first)
                other = len(self._tape.buf)
            elif other >= 0 and within is not None and look.first(self._plan.calls.bare_closings, j) == other:
                self._ledger.notice("missing_close", self._tape.buf[j:other])  # brackets are optional, but one opened
            r = other if r == NO else first_of((r, other))
        if r >= 0:
            self._close_block(r)
        elif self._plan.calls.bare_closings and (r == NO or self._tape.final):
            r = first_of((r, self._bare_closing(j)))
        return r

    def _bare_closing(self, j: int) -> int:
        """The block's closing without the bracket that it begins with: the model forgot it."""
        r = self._look.soonest(self._plan.calls.bare_closings, j)
        if r >= 0:
            self._ledger.notice("missing_close", self._tape.buf[j:r])
            self._close_block(r)
        return r

    def _close_block(self, end: int) -> None:
        self._tape.i = end
        self._block_markup(self._tape.here)
        if not worded(self._tape.buf[end - 1 : end]):
            self._parts.bracketed = self._tape.here
        self._parts.leave_block()

    def _surplus(self, j: int) -> int:
        """Closing brackets that are too many: before the block's closing, or what may follow calls."""
        tape = self._tape
        n = self._openings.surplus_end(j) if tape.buf[j] in SURPLUS else j
        if n == j or n == MORE:
            return min(n, NO)
        within = self._bracketed()
        r = self._openings.surplus(j, () if within is None else (within.closing, *self._plan.calls.bare_closings))
        follows = r == NO and "`" not in tape.buf[j:n]  # a fence before another call opens there
        following = self._openings.separated(n) if follows else j
        if follows and following - n <= MAX_SPACE:
            found, more = (None, True) if following == MORE else self._opening_at(following)
            if found is None or found[1].weak:
                r = MORE if more else min(self._opens_other(n), n)
            else:
                r = n
        if r >= 0:
            self._ledger.notice("stray_close", tape.buf[j:r].strip())
            tape.i = r
            self._block_markup(tape.here)
        return r

    def _stray_closing(self, j: int) -> int:
        """A second closing of the call, or another call's, or an argument's: it is dropped."""
        if self._ledger.paused and (thought := self._thought_closes(j)) != NO:
            return min(thought, NO)
        found = NO
        for stray in self._plan.stray_closings.at(self._tape.buf, j):
            r = self._look.stands(stray.pattern, j)
            if r >= 0 and worded(stray.pattern.first):
                self._tape.i = r
                self._ledger.markup(self._tape.here)
                self._ledger.notice("stray_close", stray.pattern.first)
                return r
            found = min(found, r)
        return found if found != NO else self._foreign_closing(j)

    def _foreign_closing(self, j: int) -> int:
        """A closing tag of no marker, where only calls may be, and what may follow a call follows: it is dropped."""
        tape = self._tape
        if not self._plan.dialect.argument or self._bracketed() is None or self._plan.policy.stray_markers != "drop":
            return NO
        m = _CLOSING_TAG.match(tape.buf, j)
        if m is None:
            return MORE if _CLOSING_TAG_MAYBE.match(tape.buf, j) else NO
        r = self._openings.follows_call(m.end())
        if r >= 0:
            tape.i = r
            self._block_markup(tape.here)
            self._ledger.notice("stray_close", m.group())
        return r

    def _thought_closes(self, j: int) -> int:
        """The end of the closing of the reasoning that the calls interrupted."""
        return self._look.soonest(self._plan.reasoning.closings, j) if self._ledger.paused else NO

    def _cut_closing(self, j: int, *, cut: bool) -> int:
        """The end of a partial closing at ``j``; ``cut``: the output ends inside a marker."""
        if cut and not self._look.closed_behind(j):
            return len(self._tape.buf)
        within = self._bracketed()
        return j if within is None or self._thought_closes(j) >= 0 else self._look.progress(within.closing, j)

    def _after_block(self, j: int, *, cut: bool) -> bool:
        """Leave the calls: neither a call nor a closing is at ``j``; ``cut``: the beginning of one is."""
        tape, ledger, within = self._tape, self._ledger, self._bracketed()
        i = tape.i
        opens = self._opens_other(j)
        if opens == MORE:
            return False
        if opens >= 0:
            separated = tape.buf[i:j].strip()
            tape.i = j
            if separated:
                self._block_markup(tape.here)
            else:
                ledger.markup(tape.here)
        if within is not None:
            rest = j if opens >= 0 else self._cut_closing(j, cut=cut)
            if rest > j:
                tape.i = rest
                ledger.markup(tape.here)
            elif opens < 0 and not ledger.paused:
                ledger.markup(tape.base + i)
                self._parts.state = states.BLOCK_TEXT
                return True
            ledger.notice("missing_close", within.closing.first)
        self._parts.leave_block()
        return True

    def _next_call(self, j: int) -> int:
        """Begin the call whose opening is at ``j`` in a block; `NO` or `MORE` where there is none (yet)."""
        found, more = self._opening_at(j)
        if found is None or (found[1].weak and more and not self._tape.final):
            return MORE if more else NO
        if found[1].weak and self._more_literal(found[0], j):
            return NO
        if self._calls.refused(j):
            self._parts.leave_block()
            return j
        self._block_markup(self._tape.base + j)
        self._tape.i = j
        self._calls.open(found[0], j, found[1])
        return j

    def _opening_at(self, j: int) -> tuple[tuple[CallOpening, Match] | None, bool]:  # hot: asked between all calls
        """The first opening that matches at ``j`` in a block, a weak one only if no other does, and whether an earlier
        one may still match."""
        plan, within = self._plan, self._calls.within
        # After a bare opening only declared names count; after a marked one, all do.
        calls = plan.calls.inner if within is None or within.marked else within.inner or plan.calls.inner_bare
        inner = calls.at(self._tape.buf, j)
        weak: tuple[CallOpening, Match] | None = None
        begun = plan.calls.begun if self._ledger.at == 0 and within is None and not self._look.replay else ()
        for n, o in enumerate((*inner, *begun) if self._look.outline.calls else ()):
            match = self._openings.match(o, j, edge=True)
            if match.end == MORE and (o.pattern.first or self._openings.may_name(j)):
                return weak, True
            if match.end >= 0 and not match.weak:
                return (o, match), False
            if match.end >= 0 and n < len(inner):
                weak = weak or (o, match)
        return weak, False

    def _more_literal(self, o: Opening, j: int) -> bool:
        """Whether another part opens at ``j`` with more literals than ``o``."""
        others = (m for m in self._plan.plain.edge.at(self._tape.buf, j) if m.pattern.weight > o.pattern.weight)
        return self._look.first_marker(others, j) >= 0

    def _block_markup(self, end: int) -> None:
        """Take a closing or a separator of the block, up to an offset; it is text if the block is."""
        if self._calls.given_back:
            self._ledger.text(end)
        else:
            self._ledger.markup(end)

    def _opens_other(self, j: int) -> int:
        """The end of what begins at ``j``, if it is something other than a call of this block; else `NO` or `MORE`."""
        others = self._plan.others.at(self._tape.buf, j)
        r = self._look.first_marker(others, j) if others else NO
        if r < 0 and self._look.outline.calls:
            r = first_of((r, self._openings.opens_next(j)))
        return r

    def text(self) -> bool:  # hot: one step takes all it can
        """In stray text in a block: it is content, up to what ends it."""
        tape, ledger = self._tape, self._ledger
        buf = tape.buf
        i = tape.i
        if ledger.at < tape.here:
            ledger.markup(tape.here)
        scan = self._plan.calls.block_text
        pos = i
        while True:
            m = scan.find.search(buf, pos)
            p = len(buf) if m is None or (tape.final and m.group() not in scan.triggers) else m.start()
            if not (ledger.prose or ledger.thinking):
                begun = skip_space(buf, max(i, -tape.base))  # a prompt's text is not the output's
                if begun < p:
                    ledger.text(tape.base + begun)
                    ledger.notice("text_in_block")
            tape.i = p
            ledger.text(tape.here)
            i = p
            if m is None or p == len(buf) or m.group() not in scan.triggers:
                return False
            r = self._block_text_ends(scan, p)
            if r == MORE and not tape.final:
                return False
            if r == 1:
                return True
            pos = p + 1

    def _block_text_ends(self, scan: Scan, p: int) -> int:  # a branch for each kind of marker
        """End the text if something at ``p`` ends it: 1, 0 or `MORE`."""
        tape = self._tape
        for o in scan.markers.near(tape.buf, p):
            if isinstance(o, CallOpening):
                if not self._look.outline.calls:
                    continue
                match = self._openings.match(o, p, edge=False)
                if match.end >= 0 and not self._calls.refused(p):
                    self._parts.state = states.BLOCK
                    self._calls.open(o, p, match)
                    return 1
                if match.end == MORE:
                    return MORE
                form = o.form
                if o.marked and o.pattern.first == form.opening.first:
                    closings = (form.closing,) if tape.buf.startswith(form.opening.first, p) else ()
                    self._look.spare(p, *closings)  # the marker is text there, and so is its closing
                continue
            r = self._look.marker(o, p)
            if r == MORE:
                return MORE
            if r < 0:
                continue
            if o.kind == CALL_END:
                if not self._look.stray_counts(p) or self._look.is_spared(p):
                    continue
                self._ledger.markup(tape.base + r)
                self._ledger.notice("stray_close", tape.buf[p:r].strip())
                tape.i = r
                return 1
            if o.block is not None and self._look.is_spared(p):
                self._ledger.text(tape.base + r)
                tape.i = r
                self._parts.state = states.TEXT
                return 1
            if o.block is not None:
                self._ledger.markup(tape.base + r)
                tape.i = r
            self._parts.leave_block()
            return 1
        return 0

    def enter(self) -> None:
        """Just after the opening of a block. The block counts as open from its first call on."""
        self._calls.enter(None)
        self._parts.state = states.BLOCK if self._plan.calls.blocks else states.EDGE


_BETWEEN: Final = (
    Blocks._block_closing,
    Blocks._next_call,
    Blocks._surplus,
    Blocks._stray_closing,
)
"""What may follow a call, in the order in which it counts. A call may begin with what closes one, or a bracket."""
