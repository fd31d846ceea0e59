"""Reads the inside of a call whose only argument is bare text."""

import json

from ...dialect.patterns import MORE, NO
from ..lookout import first_ending, first_of
from .reader import CallReader
from .strings import escaped


class TextReader(CallReader):
    """Reads bare text, and passes it on as an object with one string."""

    _begun = False

    def read(self) -> bool:
        tape, form = self._tape, self._call.form
        buf = tape.buf
        if not self._begun:
            self._begun = True
            self._call.put(f'{{{json.dumps(form.key)}: "', tape.here)
        p, r = first_ending(form, buf, tape.i, self._ends)
        if r == NO or (r == MORE and tape.ended):  # the beginning of a marker that never became complete
            self._push(len(buf))
            return self._over()
        self._push(p)
        return r >= 0 and self._done('"}')

    def _ends(self, p: int) -> int:
        """The end of a marker at ``p`` that ends the text; else `NO` or `MORE`."""
        return first_of((self._call_closes(p), self._look.end_here(p)))

    def _push(self, end: int) -> None:
        tape = self._tape
        i = tape.i
        if end > i:
            tape.i = end
            self._call.put(escaped(tape.buf[i:end]), tape.here)

    def _over(self) -> bool:
        """The output ends; if the model stopped, the call is complete."""
        return self._tape.ended and self._done('"}')
