"""Reads the inside of a call whose only argument is bare text."""

import json

from ...dialect.patterns import MORE, NO
from ..call import Call
from ..ledger import Tape
from ..openings import Openings
from .reader import Mode
from .strings import escaped


class TextReader:
    """Reads bare text, and passes it on as an object with one string."""

    __slots__ = ("_begun", "_call", "_openings", "_tape", "mode", "why")

    def __init__(self, call: Call, openings: Openings, tape: Tape) -> None:
        self.mode = Mode.READING
        self.why = ""
        self._call = call
        self._openings = openings
        self._tape = tape
        self._begun = False

    def read(self) -> bool:
        """See `Reader`."""
        tape, form = self._tape, self._call.form
        buf = tape.buf
        if not self._begun:
            self._begun = True
            self._call.put(f'{{{json.dumps(form.key)}: "', tape.here)
        find = form.find()
        pos = tape.i
        while True:
            m = find.search(buf, pos)
            if m is None:
                self._push(len(buf))
                return self._over()
            p = m.start()
            r = MORE if m.end() == len(buf) and m.group() not in form.triggers else self._ends(p)
            if r == NO:
                pos = p + 1
                continue
            if r == MORE and tape.final and tape.ended:
                self._push(len(buf))  # the beginning of a marker that never became complete
                return self._over()
            self._push(p)
            return self._whole() if r >= 0 else False

    def take(self) -> str | None:
        """See `Reader`."""
        return None

    def close_all(self) -> str:
        """See `Reader`."""
        return ""

    def _ends(self, p: int) -> int:
        """``p`` if a marker there ends the text; else `NO` or `MORE`."""
        openings = self._openings
        look = openings.look
        found = NO
        tried = NO  # forms with the same closing end at the same place
        for closing in look.plan.calls.call_closings:
            r = look.closes_call(closing, p, self._call.name)
            if r >= 0 and r != tried:
                tried = r
                r = r if look.certain(p) else openings.follows_call(r)
                if r >= 0:
                    return p
            found = min(found, r)
        r = look.end_here(p)
        return p if r >= 0 else min(found, r)

    def _push(self, end: int) -> None:
        tape = self._tape
        i = tape.i
        if end > i:
            tape.i = end
            self._call.put(escaped(tape.buf[i:end]), tape.here)

    def _over(self) -> bool:
        """The output ends; if the model stopped, the call is complete."""
        return self._whole() if self._tape.final and self._tape.ended else False

    def _whole(self) -> bool:
        self._call.put('"}', self._tape.here)
        self._call.complete = True
        self.mode = Mode.DONE
        return True
