"""Steps between calls: the next call, the block's closing, or stray text."""

from ..dialect.markers import CALL, CALL_END, Block, Form, Opening, Scan
from ..dialect.patterns import MAX_SPACE, MORE, NO, skip_separators, worded
from .calls import Calls
from .openings import Match
from .parts import Steps
from .states import State


class Blocks(Steps):
    """Reads the output between calls."""

    _calls: Calls

    def between(self) -> bool:
        """After a call: another one, the block's closing, or something else."""
        tape, ledger, look, plan = self._tape, self._ledger, self._look, self._plan
        buf = tape.buf
        i = tape.i
        j = skip_separators(buf, i)
        if plan.calls.separator and j - i <= MAX_SPACE:
            r = look.stands(plan.calls.separator, j)
            if r >= 0:
                j = skip_separators(buf, r)
            elif r == MORE and not tape.final:
                return False
        within = self._calls.within if self._calls.within is not None and self._calls.within.suffix else None
        if j - i > MAX_SPACE:
            ledger.notice("hold_overflow", "white space")
            if within is not None and not ledger.paused:
                ledger.markup(tape.base + i)
                self._at.go(State.BLOCK_TEXT)
            else:
                self._parts.leave_block()
            return True
        if j == len(buf):
            if tape.final:
                tape.move(j)
                ledger.markup(tape.here)
            return False
        more = False
        for block in (within, *plan.calls.block_suffixes) if within is not None else plan.calls.block_suffixes:
            r = look.stands(block.suffix, j)
            if r == MORE and not tape.final:
                return False
            if r >= 0:
                tape.move(r)
                self._framing(tape.here)
                self._parts.leave_block()
                return True
            more = more or r == MORE
        r = look.soonest(plan.calls.bare_suffixes, j)
        if r == MORE:
            return False
        if r >= 0:  # the model forgot the bracket
            ledger.notice("missing_close", tape.buf[j:r])
            tape.move(r)
            self._framing(tape.here)
            self._parts.leave_block()
            return True
        r = NO if within is None else self._openings.surplus(j, (within.suffix, *plan.calls.bare_suffixes))
        if r == MORE:
            return False
        if r >= 0:
            ledger.notice("stray_close", tape.buf[j:r].strip())
            tape.move(r)
            self._framing(tape.here)
            return True
        r = self._next_call(j)
        if r >= 0:
            return True
        if r == MORE and not tape.final:  # a call may begin with what closes one
            return False
        more = more or r == MORE
        thought = look.soonest([o.pattern for o in plan.reasoning.ends], j) if ledger.paused else NO
        if thought == MORE:
            return False
        for suffix in () if thought >= 0 else plan.calls.suffixes:
            r = look.stands(suffix, j)
            if r >= 0 and worded(suffix.first):
                tape.move(r)
                ledger.markup(tape.here)
                ledger.notice("stray_close", suffix.first)
                return True
            more = more or r == MORE
        if more and not tape.final:
            return False
        rest = j if thought >= 0 or within is None else look.progress(within.suffix, j)
        return self._after_block(within, j, len(buf) if more and not look.closed_behind(j) else rest)

    def _after_block(self, within: Block | None, j: int, rest: int) -> bool:
        """Leave the calls: neither a call nor a closing is at ``j``; the beginning of one may be, up to ``rest``."""
        tape, ledger = self._tape, self._ledger
        i = tape.i
        opens = self._opens_other(j)
        if opens == MORE:
            return False
        if opens:
            separated = tape.buf[i:j].strip()
            tape.move(j)
            if separated:
                self._framing(tape.here)
            else:
                ledger.markup(tape.here)
        if within is not None:
            if not opens and rest == j and not ledger.paused:
                ledger.markup(tape.base + i)
                self._at.go(State.BLOCK_TEXT)
                return True
            if rest > j and not opens:
                tape.move(rest)
                ledger.markup(tape.here)
            ledger.notice("missing_close", within.suffix.first)
        self._parts.leave_block()
        return True

    def _next_call(self, j: int) -> int:
        """Begin the call whose opening is at ``j`` in a block; `NO` or `MORE` where there is none (yet)."""
        plan, within = self._plan, self._calls.within
        # After a bare opening only declared names count; after a marked one, all do.
        inner = plan.calls.inner if within is None or within.marked else within.inner or plan.calls.inner_bare
        found: tuple[Opening, Match] | None = None
        more = False
        for o in inner if self._look.outline.calls else ():
            match = self._openings.match(o, j, edge=True)
            if match.end == MORE and (o.pattern.first or self._openings.may_name(j)):
                more = True
                break
            if match.end >= 0 and not match.weak:
                found = (o, match)
                break
            if match.end >= 0:
                found = found or (o, match)
        if found is None or (found[1].weak and more and not self._tape.final):
            return MORE if more else NO
        if found[1].weak and self._more_literal(found[0], j):
            return NO
        if self._calls.refused(j):
            self._parts.leave_block()
            return j
        self._framing(self._tape.base + j)
        self._tape.move(j)
        self._calls.open(found[0], j, found[1])
        return j

    def _more_literal(self, o: Opening, j: int) -> bool:
        """Whether another part opens at ``j`` with more literals than ``o``."""
        others = (m for m in self._plan.plain.edge if m.pattern.weight > o.pattern.weight)
        return self._look.first_marker(others, j) >= 0

    def _framing(self, end: int) -> None:
        """Take a closing or a separator of the block, up to an offset; it is text if the block is."""
        if self._calls.given_back:
            self._ledger.text(end)
        else:
            self._ledger.markup(end)

    def _opens_other(self, j: int) -> int:
        """Whether something other than a call of this block begins at ``j``: 1, 0 or `MORE`."""
        r = self._look.first_marker(self._plan.plain.edge, j)
        if r >= 0:
            return 1
        opens = self._openings.opens_next(j) if self._look.outline.calls else 0
        return 1 if opens == 1 else MORE if MORE in (r, opens) and not self._tape.final else 0

    def text(self) -> bool:
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
            if p > i and not (ledger.prose or ledger.thinking) and not buf[i:p].isspace():
                ledger.notice("text_in_block")
            tape.move(p)
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

    def _block_text_ends(self, scan: Scan, p: int) -> int:
        """End the text if something at ``p`` ends it: 1, 0 or `MORE`."""
        tape = self._tape
        for o in scan.markers:
            if isinstance(o, Opening) and o.kind == CALL:
                if not self._look.outline.calls:
                    continue
                match = self._openings.match(o, p, edge=False)
                if match.end >= 0 and not self._calls.refused(p):
                    self._at.go(State.BLOCK)
                    self._calls.open(o, p, match)
                    return 1
                if match.end == MORE:
                    return MORE
                if o.form is not None and o.marked and o.pattern.first == o.form.opening.first:
                    self._spare(o.form, p)
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
                tape.move(r)
                return 1
            if o.block is not None and self._look.is_spared(p):
                self._ledger.text(tape.base + r)
                tape.move(r)
                self._at.go(State.TEXT)
                return 1
            if o.block is not None:
                self._ledger.markup(tape.base + r)
                tape.move(r)
            self._parts.leave_block()
            return 1
        return 0

    def _spare(self, form: Form, p: int) -> None:
        """If a call's marker is at ``p``, it is text there, and so is its closing."""
        if self._tape.buf.startswith(form.opening.first, p):
            self._look.spare(p, form.suffix)

    def enter(self) -> None:
        """Just after the opening of a block. The block counts as open from its first call on."""
        self._calls.enter(None)
        self._at.go(State.BLOCK if self._plan.calls.blocks else State.EDGE)
