"""Markers in content that open or close nothing: they are dropped, or text."""

from ..dialect.patterns import MAX_SPACE, MORE, NO, skip_space
from ..dialect.plan import CALL, Scan, text
from .blocks import Blocks
from .output import BLOCK_TEXT


class Strays(Blocks):
    """Says what becomes of a marker that is read as nothing."""

    __slots__ = ()

    def _no_marker(self, scan: Scan, p: int) -> int:
        """What stands at ``p`` opens and closes nothing that is read: it is dropped, or text."""
        r = self._drop_at(p)
        return self._no_call(scan, p) if r == NO and not self._plain and not self._quoted(p) else r

    def _stray_counts(self, p: int) -> bool:
        """Whether a marker at ``p`` that holds nothing may be dropped."""
        policy = self._plan.policy
        return policy.stray_markers == "drop" and not self._quoted(p) and not self._quoting.fenced

    def _closed_behind(self, p: int) -> bool:
        """Whether a closing stands somewhere behind an opening at ``p``: it was not the end that cut it."""
        return any(self._buf.find(text(s.pattern), p) >= 0 for s in self._plan.strays if not s.opens)

    def _drop(self, p: int, end: int, kind: str) -> int:
        self._put_text(self._base + p)
        marker = self._buf[p:end]
        self._put_markup(self._base + end)
        self._i = end
        self._notice(kind, marker.strip())
        return end

    def _drop_at(self, p: int) -> int:
        """Drop a marker at ``p`` that opens or closes nothing: where it ends, `NO`, or `MORE`."""
        buf = self._buf
        n = len(buf)
        for stray in self._plan.strays_plain if self._plain else self._plan.strays:
            r = self._marker(stray.pattern, p, {})
            if r == NO or (r == MORE and self._final):
                continue
            if r == MORE:
                return MORE
            if not stray.opens:
                return self._drop(p, r, "stray_close") if self._stray_counts(p) and not self._is_spared(p) else NO
            j = skip_space(buf, r)
            if j == n:
                if not self._final:
                    if j - r <= MAX_SPACE:
                        return MORE
                    continue
                return self._drop(p, n, "stray_open") if self._stray_counts(p) else NO
            ends = [self._marker(c, j, {}) for c in stray.closings]
            again = self._marker(stray.pattern, j, {})
            if not self._final and MORE in (*ends, again):
                return MORE
            end = max([*ends, NO])
            end = j if end < 0 and again >= 0 else end
            if end >= 0:
                return self._drop(p, end, "stray_open") if self._stray_counts(p) else NO
        return NO

    def _no_call(self, scan: Scan, p: int) -> int:
        """What stands at ``p`` opens no call; if it is a call's marker, that is worth a notice.

        Where the marker of a block and of a call stand together, the block is open all the same: the calls behind this
        one count.
        """
        buf = self._buf
        # A word alone (``function``) is no marker.
        marked = [o for o in scan.openings if o.kind == CALL and o.marked and not o.pattern.first.isalnum()]
        here = [o for o in marked if buf.startswith(o.pattern.first, p)]
        closings = [b.suffix if b.prefix else f.suffix for b, f in ((o.block, o.form) for o in here) if b and f]
        for stray in self._plan.strays:
            if stray.opens and self._marker(stray.pattern, p, {}) >= 0:
                closings += stray.closings
        self._spare(p, *closings)
        if not here:
            return NO
        self._notice_at(p, "call_without_name", here[0].pattern.first)
        for block, form in ((o.block, o.form) for o in here):
            if block and form and block.marked and block.prefix and any(c.isalnum() for c in form.opening.first):
                end = block.prefix.match(buf, p, {})
                j = skip_space(buf, end) if end >= 0 else -1
                if j >= 0 and buf.startswith(form.opening.first, j) and not self._refused(p):
                    self._i = j + len(form.opening.first)
                    self._put_text(self._base + self._i)
                    self._within = block
                    self._state = BLOCK_TEXT
                    return self._i
        return NO

    def _notice_at(self, p: int, kind: str, detail: str) -> None:
        self._put_text(self._base + p)
        self._i = p
        self._notice(kind, detail)
