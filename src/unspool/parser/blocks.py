"""What stands behind a call: its closing, the next call, the closing of the block, text."""

from ..dialect.patterns import MAX_SPACE, MORE, NO, skip_separators, skip_space
from ..dialect.plan import CALL, END, Opening, Scan
from .members import Members
from .output import BLOCK, BLOCK_TEXT, EDGE, REASONING_START, RESUMING, TEXT


class Blocks(Members):
    """Reads what stands between calls."""

    __slots__ = ()

    # -- between calls --------------------------------------------------------------------------------------------

    def _close(self) -> bool:
        """The arguments are over: the call's own closing is due."""
        call = self._call
        assert call is not None
        buf = self._buf
        suffix = call.form.suffix
        i = self._i
        if not suffix:
            self._end_call(call.status, self._base + i)
            return True
        j = skip_space(buf, i)
        if j == len(buf) and not self._final and j - i <= MAX_SPACE:
            return False
        more = False
        for pattern in (suffix, *(s for s in self._plan.suffixes if s is not suffix)):
            r = self._marker(pattern, j, dict(call.fields))
            if r >= 0:
                self._i = r
                self._end_call(call.status, self._base + r)
                return True
            more = more or r == MORE
        if more and not self._final:
            return False
        self._notice("missing_close", call.name)
        end = len(buf) if more else max(p.progress(buf, j) for p in (suffix, *self._plan.suffixes))
        self._i = end if end > j else i
        self._end_call(call.status, self._base + self._i)
        return True

    def _leave_block(self) -> None:
        self._state = EDGE
        self._margin = max((b.trail for b in self._plan.blocks), key=len, default="")
        if self._resume:
            self._state = RESUMING
        elif self._thinking:
            self._lead = self._margin
            self._state = REASONING_START

    def _block(self) -> bool:
        """Behind a call: another one, the block's closing, or something else."""
        buf = self._buf
        plan = self._plan
        i = self._i
        j = skip_separators(buf, i)
        if plan.separator:
            r = self._marker(plan.separator, j, {})
            if r >= 0:
                j = skip_separators(buf, r)
            elif r == MORE and not self._final:
                return False
        if j == len(buf):
            if self._final:
                self._i = j
                self._put_markup(self._base + j)
                return False
            if j - i <= MAX_SPACE:
                return False
            self._notice("hold_overflow", "white space")
            if self._within is not None and self._within.suffix and not self._resume:
                self._put_markup(self._base + i)
                self._state = BLOCK_TEXT
            else:
                self._leave_block()
            return True
        more = False
        within = self._within
        for block in (within, *plan.block_suffixes) if within is not None and within.suffix else plan.block_suffixes:
            r = self._marker(block.suffix, j, {})
            if r == MORE and not self._final:
                return False
            if r >= 0:
                self._i = r
                self._put_markup(self._base + r)
                self._leave_block()
                return True
        # Behind a bare opening only declared names count, behind a marked one all do.
        inner = plan.inner if within is None or within.marked else within.inner or plan.inner_bare
        if self._plain:
            inner = []
        weak: tuple[Opening, int, dict[str, str]] | None = None
        for o in inner:
            fields: dict[str, str] = {}
            r = self._match_call(o, j, True, fields)
            if r >= 0 and "weak" in fields:
                weak = weak or (o, r, fields)
            elif r >= 0:
                return self._next_call(o, j, r, fields)
            elif r == MORE:
                more = True
                break
        if weak is not None and (not more or self._final):
            return self._next_call(weak[0], j, weak[1], weak[2])
        for suffix in plan.suffixes:
            r = self._marker(suffix, j, {})
            if r >= 0 and any(c.isalnum() for c in suffix.first):
                self._i = r
                self._put_markup(self._base + r)
                self._notice("stray_close", suffix.first)
                return True
            more = more or r == MORE
        if more and not self._final:
            return False
        opens = self._opens_other(j)
        if opens == MORE:
            return False
        if opens:
            self._i = j
            self._put_markup(self._base + j)
        if within is not None and within.suffix:
            part = max(within.suffix.progress(buf, j), j) if not more else len(buf)
            if not opens and part == j and not self._resume:
                self._put_markup(self._base + i)
                self._state = BLOCK_TEXT
                return True
            if part > j:
                self._i = part
                self._put_markup(self._base + part)
            self._notice("missing_close", within.suffix.first)
        self._leave_block()
        return True

    def _next_call(self, o: Opening, j: int, end: int, fields: dict[str, str]) -> bool:
        if self._refused(j):
            self._leave_block()
            return True
        self._put_markup(self._base + j)
        self._i = j
        self._open_call(o, j, end, fields)
        return True

    def _opens_other(self, j: int) -> int:
        """Whether something other than a call of this block begins at ``j``: 1, 0, or `MORE`."""
        more = False
        for o in self._plan.edge_plain:
            r = self._match(o, j, {})
            if r >= 0 and o.kind == END:
                r = self._end_counts(j, r)
            if r >= 0:
                return 1
            more = more or r == MORE
        opens = 0 if self._plain else self._opens_next(j)
        return 1 if opens == 1 else MORE if (more or opens == MORE) and not self._final else 0

    def _block_text(self) -> bool:
        """Text that stands inside a block: content, up to what ends it."""
        buf = self._buf
        i = self._i
        if self._at < self._base + i:
            self._put_markup(self._base + i)
        scan = self._plan.block_text
        pos = i
        while True:
            m = scan.find.search(buf, pos)
            p = len(buf) if m is None or (self._final and m.group() not in scan.triggers) else m.start()
            if p > i and not self._prose and not buf[i:p].isspace():
                self._notice("text_in_block")
            self._put_text(self._base + p)
            self._i = i = p
            if m is None or p == len(buf) or m.group() not in scan.triggers:
                return False
            r = self._block_text_ends(scan, p)
            if r == MORE and not self._final:
                return False
            if r == 1:
                return True
            pos = p + 1

    def _block_text_ends(self, scan: Scan, p: int) -> int:
        for o in scan.openings:
            fields: dict[str, str] = {}
            if o.kind == CALL and o.form is not None:
                r = NO if self._plain else self._match_call(o, p, False, fields)
                if r >= 0 and not self._refused(p):
                    self._state = BLOCK
                    self._open_call(o, p, r, fields)
                    return 1
                r = MORE if r == MORE else NO
            else:
                r = self._match(o, p, fields)
                if r >= 0 and o.kind == END:
                    r = self._end_counts(p, r)
                if r >= 0 and o.kind == CALL and self._is_spared(p):
                    self._put_text(self._base + r)
                    self._i = r
                    self._state = TEXT
                    return 1
                if r >= 0:
                    if o.kind == CALL:
                        self._put_markup(self._base + r)
                        self._i = r
                    self._leave_block()
                    return 1
            if r == MORE:
                return MORE
        return 0
