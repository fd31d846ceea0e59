"""Calls that went wrong, and what ends a call whatever happens in it."""

import re

from ..dialect.patterns import MAX_SPACE, MORE, NO, skip_separators
from ..dialect.plan import CALL, END, Block, Scan
from ..dialect.syntax import Syntax
from ..events import Status
from ..regex import Regex
from .call import AFTER, Call
from .headers import Headers
from .literals import LiteralReader
from .output import CLOSE, OBJECT, RECOVER

STRETCH = 4096

_STRING_REST = {q: Regex(rf"[^{q}\\]*+(?:\\.[^{q}\\]*+)*+", re.S) for q in ('"', "'")}
_BRACKETS = Regex(r"[\"'{}\[\]()\\]")


class Recovery(Headers):
    """Finds the end of a call that goes on after an error, or breaks off in a string."""

    __slots__ = ()

    # -- what ends a call ---------------------------------------------------------------------------------------------

    def _closing(self, i: int) -> int:
        """Whether something that closes a call, a block or the turn stands at ``i``."""
        more = False
        for pattern in self._plan.suffixes:
            r = self._marker(pattern, i, {})
            if r >= 0:
                return r
            more = more or r == MORE
        for block in self._plan.block_suffixes:
            r = self._marker(block.suffix, i, {})
            if r >= 0:
                return r
            more = more or r == MORE
        r = self._end_here(i)
        if r >= 0:
            return r
        return MORE if more or r == MORE else NO

    def _opens_next(self, i: int, *, inside: bool = False) -> int:
        """Whether another call begins at ``i``, where a block is open (``inside``) or not: 1, 0, or `MORE`."""
        more = False
        for o in (*self._plan.edge, *self._plan.inner) if inside else self._plan.edge:
            if o.kind == CALL and o.marked and o.form and (o.block or o.form.marked) and o.pattern.first:
                r = self._match_call(o, i, False, {})
                if r >= 0:
                    return 1
                more = more or r == MORE
        return MORE if more and not self._final else 0

    def _follows_call(self, i: int, closed: Block | None = None) -> int:
        """``i`` if what stands there may follow a call: its block's closing (unless closed), another call, the end."""
        buf = self._buf
        j = skip_separators(buf, i)
        if j - i > MAX_SPACE:
            return NO
        if j == len(buf):
            return i if self._ended else MORE
        more = False
        for block in () if closed else self._plan.block_suffixes:
            r = self._marker(block.suffix, j, {})
            if r >= 0:
                return i
            more = more or r == MORE
        for form in self._plan.forms:
            r = self._marker(form.opening, j, {})
            if r >= 0 and form.marked:
                return i
            more = more or r == MORE
        opens = self._opens_next(j)
        if opens == 1:
            return i
        r = self._end_here(j)
        if r >= 0 or (self._ended and more):
            return i
        return MORE if more or opens == MORE or r == MORE else NO

    # -- a marker in an open string -----------------------------------------------------------------------------------

    def _string_ends(self, reader: LiteralReader | None) -> Scan | None:
        """What may end an open string of this reader, if anything may."""
        if self._plan.policy.markers_in_strings != "end" or (reader is not None and reader.python):
            return None
        scan = self._plan.string_ends
        return scan if scan.openings else None

    def _ends_string(self, p: int, m: re.Match[str]) -> int:
        """Whether the closing that may stand at ``p`` ends an open string and the call: `NO`, `MORE`, or yes."""
        scan = self._plan.string_ends
        if m.group() not in scan.triggers:
            return NO if self._final else MORE
        more = False
        for o in scan.openings:
            r = self._marker(o.pattern, p, {})
            if r >= 0:
                r = r if self._certain(p) else self._follows_call(r, o.block)
                if r >= 0:
                    return r
            more = more or r == MORE
        return MORE if more and not self._final else NO

    def _marker_within(self, i: int, end: int) -> tuple[int, int]:
        """The first marker in a broken string between two places that ends the call, or may: where, and whether."""
        scan = self._string_ends(None)
        while scan is not None:
            m = scan.find.search(self._buf, i, end)
            if m is None:
                break
            i = m.start()
            if m.end() == len(self._buf) or m.group() in scan.triggers:
                r = self._ends_string(i, m)
                if r != NO:
                    return i, r
            i += 1
        return end, NO

    # -- a call that went wrong ---------------------------------------------------------------------------------------

    def _fails(self, call: Call, why: str) -> bool:
        self._let_out(call, self._i)
        # Inside a string that has gone wrong, markers are still its text.
        quote = "" if call.reader is None else call.reader.delimiter[:1]
        call.within = quote if quote in _STRING_REST else ""
        call.reader = None
        call.status = "invalid"
        call.quote = ""
        self._notice("bad_arguments", why)
        self._state = RECOVER
        return True

    def _let_out(self, call: Call, end: int) -> None:
        """What is held of the arguments is told, as it is."""
        text = ""
        if call.unwrapping is not None:
            text = call.unwrapping.rest()
            call.unwrapping = None
        if call.reader is not None and call.role != "skip":
            text += call.reader.rest()
        if text:
            self._put_arguments(call, text, self._base + end)

    def _end_call(self, status: Status, end: int) -> None:
        if self._call is not None:
            self._let_out(self._call, end - self._base)
        super()._end_call(status, end)

    def _recover(self) -> bool:
        """Hand on what is left of the call until it ends."""
        call = self._call
        assert call is not None
        buf = self._buf
        i = self._i
        if call.within:
            i = self._string_over(call, i)
            if i < 0:
                return False
        pos = i
        while True:
            # A stretch at a time: brackets mostly end the call long before the next marker.
            until = min(len(buf), pos + STRETCH)
            m = self._plan.recover.find.search(buf, pos, until)
            limit = until if m is None else m.start()
            ended = self._tracked(call, i, limit)
            if ended >= 0:
                self._raw(call, ended)
                call.complete = True
                self._state = CLOSE
                if call.form.shape is not None and call.track and buf[ended] == "}":
                    call.expects = AFTER
                    self._state = OBJECT
                return True
            i = limit
            if until < len(buf) and (m is None or m.group() not in self._plan.recover.triggers):
                pos = limit
                continue
            if m is None:
                break
            if m.group() not in self._plan.recover.triggers:
                if self._final:
                    i = len(buf)
                break
            r = self._recovery_ends(m.start())
            if r == MORE:
                break
            if r != NO:
                self._raw(call, m.start())
                call.complete = True
                self._state = CLOSE
                return True
            pos = m.start() + 1
        self._raw(call, i)
        return False

    def _string_over(self, call: Call, i: int) -> int:
        """Hand on the rest of the string that went wrong; where it ends, or `NO` where it goes on."""
        buf = self._buf
        m = _STRING_REST[call.within].match(buf, i)
        end = i if m is None else m.end()
        p, r = self._marker_within(i, end)
        if r != NO:
            self._raw(call, p)
            if r == MORE:
                return NO
            call.within = ""
            return p
        if end < len(buf) and buf[end] == call.within:
            self._raw(call, end + 1)
            call.within = ""
            return end + 1
        if end < len(buf) and self._final:
            end = len(buf)
        self._raw(call, end)  # a backslash at the end waits for what it escapes
        return NO

    def _raw(self, call: Call, end: int) -> None:
        start = self._i
        self._i = end
        if end > start:
            self._put_arguments(call, "" if call.quiet else self._buf[start:end], self._base + end)

    def _tracked(self, call: Call, start: int, limit: int) -> int:
        """Follow the brackets of a call that only they end; where they end it, or `NO`."""
        stack = call.track
        if stack is None:
            return NO
        i = start
        buf = self._buf
        if call.rest and i < limit:  # the character behind a backslash
            call.rest = ""
            i += 1
        while True:
            m = _BRACKETS.search(buf, i, limit)
            if m is None:
                return NO
            c = m.group()
            i = m.end()
            if c == "\\":
                if i >= limit:
                    call.rest = c
                i += 1
            elif c in "\"'":
                if not call.quote:
                    call.quote = c
                elif call.quote == c:
                    call.quote = ""
            elif call.quote:
                continue
            elif c in "{[(":
                stack.append(c)
            else:
                top = stack[-1]
                if len(stack) == 1 and (top, c) in (("(", ")"), ("{", "}")) and call.form.syntax is not Syntax.QUOTE:
                    return m.start()  # the call's own closing
                if (top, c) not in (("{", "}"), ("[", "]"), ("(", ")"), ("t", ")")):
                    return m.start()
                stack.pop()
                if not stack:
                    return m.end()

    def _recovery_ends(self, i: int) -> int:
        """Whether a broken call ends at ``i``."""
        more = False
        for o in self._plan.recover.openings:
            if o.kind == END:
                r = self._match(o, i, {})
                if r >= 0:
                    r = self._end_counts(i, r)
            elif o.kind == CALL and o.form is not None and o.block is not None:
                r = self._match_call(o, i, False, {})
            else:
                r = self._match(o, i, {})
            if r >= 0:
                return r
            more = more or r == MORE
        return MORE if more and not self._final else NO
