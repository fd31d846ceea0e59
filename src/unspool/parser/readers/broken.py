"""Reads the rest of a broken call, up to its end."""

import re
from collections.abc import Sequence
from typing import Final

from ...dialect.markers import CALL_END
from ...dialect.patterns import MORE, NO
from ...dialect.syntax import Syntax
from ...regex import Regex
from ..call import OpenCall
from ..lookout import first_of
from ..openings import Openings
from .reader import CallReader, Mode

STRETCH: Final = 4096

_STRING_REST = {q: Regex(rf"[^{q}\\]*+(?:\\.[^{q}\\]*+)*+", re.S) for q in ('"', "'")}
_BRACKETS = Regex(r"[\"'{}\[\]()\\]")
_PAIRS = frozenset((("{", "}"), ("d", "}"), ("s", "}"), ("[", "]"), ("(", ")"), ("t", ")")))


class BrokenReader(CallReader):
    """Passes on the rest of a call as it is, until a marker or a bracket ends it."""

    def __init__(
        self,
        call: OpenCall,
        openings: Openings,
        *,
        track: Sequence[str] | None = None,
        within: str = "",
        quiet: bool = False,
    ) -> None:
        """Begin after the error.

        Args:
            track: the open brackets, innermost last; ``None`` if only markers end the call.
            within: the quote of the string with the error.
            quiet: the arguments were already emitted, and the rest is skipped.
        """
        super().__init__(call, openings)
        # The quote of the broken string, while that goes on: markers in it are text.
        self.within = within if within in _STRING_REST else ""
        self._track = None if track is None else list(track)
        self._round = sum(bracket in "(t" for bracket in track or ())  # how many of these are round
        shape = call.form.shape
        # The bracket that stays open when the arguments close, if the object has members after them.
        self._outer = 1 if shape is not None and shape.keys and shape.keys[-1][1] != "arguments" and not quiet else 0
        # Whether the last bracket is not that of the arguments.
        self._enclosed = shape is not None or call.form.syntax == Syntax.PYTHON
        self._quiet = quiet
        self._quote = ""  # the quote of the open string, while brackets are tracked
        self._escaped = False  # the last character was a backslash

    def finish(self) -> None:
        """The output ends, and the call with it."""
        self._raw(len(self._tape.buf))

    def read(self) -> bool:  # a branch for each thing that may end the call
        tape = self._tape
        buf = tape.buf
        i = tape.i
        if self.within:
            return self._string_over(i) >= 0  # after it, the closing of reasoning ends the call
        recover = self._plan.calls.recover
        pos = i
        while True:
            # One stretch at a time: brackets mostly end the call long before the next marker.
            until = min(len(buf), pos + STRETCH)
            m = recover.find.search(buf, pos, until)
            limit = until if m is None else m.start()
            ended = self._tracked(i, limit)
            if ended >= 0:
                self._raw(ended)
                self._call.complete = True
                goes_on = self._call.form.shape is not None and self._track and (self._outer or buf[ended] == "}")
                self.mode = Mode.OBJECT if goes_on else Mode.DONE
                return True
            i = limit
            if until < len(buf) and (m is None or m.group() not in recover.triggers):
                pos = limit
                continue
            if m is None:
                break
            if m.group() not in recover.triggers:
                if tape.final:
                    i = len(buf)
                break
            r = self._ends(m.start())
            if r == MORE:
                break
            if r != NO:
                self._raw(m.start())
                self._call.complete = True
                self.mode = Mode.DONE
                return True
            pos = m.start() + 1
        self._raw(i)
        return False

    def _string_over(self, i: int) -> int:
        """Pass on the rest of the broken string; return its end, or `NO` if it goes on."""
        buf = self._tape.buf
        m = _STRING_REST[self.within].match(buf, i)
        end = i if m is None else m.end()
        p, r = self._openings.marker_within(i, end)
        if r != NO:
            self._raw(p)
            if r == MORE:
                return NO
            self.within = ""
            return p
        if end < len(buf) and buf[end] == self.within:
            self._raw(end + 1)
            self.within = ""
            return end + 1
        if end < len(buf) and self._tape.final:
            end = len(buf)
        self._raw(end)  # a backslash at the end waits for what it escapes
        return NO

    def _raw(self, end: int) -> None:
        tape = self._tape
        start = tape.i
        tape.i = end
        if end > start:
            self._call.put("" if self._quiet else tape.buf[start:end], tape.here)

    def _tracked(self, start: int, limit: int) -> int:  # a branch for each kind of bracket
        """Track the brackets of a call that they may end; return where they end it, or `NO`."""
        stack = self._track
        if stack is None:
            return NO
        i = start
        buf = self._tape.buf
        if self._escaped and i < limit:  # skip the character after a backslash
            self._escaped = False
            i += 1
        while True:
            m = _BRACKETS.search(buf, i, limit)
            if m is None:
                return NO
            c = m.group()
            i = m.end()
            if c == "\\":
                self._escaped = i >= limit
                i += 1
            elif c in "\"'":
                if self._quote in ("", c):
                    self._quote = "" if self._quote else c
            elif self._quote:
                continue
            elif c in "{[(":
                stack.append(c)
                self._round += c == "("
            elif c != ")" or self._round:  # JSON has none
                top = stack[-1]
                whole = len(stack) == 1 and (top, c) in (("(", ")"), ("{", "}"))
                if (whole and self._enclosed) or (top, c) not in _PAIRS:
                    return m.start()  # the call's own closing
                self._round -= stack.pop() in "(t"
                if len(stack) <= self._outer:
                    return m.end()

    def _ends(self, i: int) -> int:
        """The end of what ends the call at ``i``, `NO`, or `MORE`."""
        look, name = self._look, self._call.name
        ends = (
            look.closes_call(o.pattern, i, name) if o.kind == CALL_END else self._openings.marker(o, i)[0]
            for o in self._plan.calls.recover.markers.at(self._tape.buf, i)
        )
        return look.settled(first_of(ends))
