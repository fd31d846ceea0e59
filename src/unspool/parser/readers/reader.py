"""The base class of readers, which read the inside of a call."""

from typing import Final

import msgspec

from ...dialect.patterns import NO
from ..call import OpenCall
from ..openings import Openings


class Mode:
    """What a reader needs next, or has found."""

    READING: Final = "reading"
    NAMED: Final = "named"  # the call's name is known: it can be announced
    NAME_DUE: Final = "name due"  # the call must be announced before reading goes on
    DONE: Final = "done"  # the arguments are complete, and the call's closing is expected
    FAILED: Final = "failed"  # the arguments are wrong
    LOST: Final = "lost"  # the text around the arguments is wrong
    NONE: Final = "none"  # this is not a call
    JSON: Final = "json"  # JSON begins where arguments in markup are expected
    OBJECT: Final = "object"  # the broken part has ended, and the object around it goes on
    OVER: Final = "over"  # the call ends here without its closing


class Whole(msgspec.Struct, gc=False):
    """A plain call that is complete in the text, and the places there at which its parts end.

    Each reader has a function that finds such calls. They are read with one match, and no reader is made for them."""

    # name, arguments: the name of the call, and its arguments as JSON.
    name: str
    arguments: str
    header: int  # the end of what is read up to its name
    inside: int  # the end of its arguments; ``end``: where its own closing may begin
    end: int
    call_id: str = ""  # its own id, or ``""``


class CallReader:
    """Reads the inside of a call and passes it on, as long as its mode is `Mode.READING`.

    Only the machine changes the state, depending on the mode."""

    def __init__(self, call: OpenCall, openings: Openings) -> None:
        self.mode = Mode.READING
        self.why = ""  # the error, if there is one
        self._call = call
        self._openings = openings
        self._look = openings.look
        self._plan = openings.look.plan
        self._tape = openings.tape

    def read(self) -> bool:
        """Take a step, which consumes text from the tape; false if more text is needed."""
        raise NotImplementedError

    def take(self) -> str | None:
        """End the hold, and return the held part of the arguments as it is so far; ``None`` if nothing is held."""
        return None

    def in_value(self) -> bool:
        """Whether the text being read belongs to the call's arguments, not to markers."""
        return True

    def _call_closes(self, i: int) -> int:
        """The end of a closing of the call at ``i`` that counts, because what follows it may, or by its token's id."""
        look, certain = self._look, self._look.certain(i)
        found = tried = NO  # forms with the same closing end at the same place
        for closing in self._plan.calls.call_closings:
            r = look.closes_call(closing, i, self._call.name)
            if r >= 0 and r != tried:
                tried = r
                r = r if certain else self._openings.follows_call(r)
                if r >= 0:
                    return r
            found = min(found, r)
        return found

    def _done(self, text: str) -> bool:
        """The arguments end with some JSON."""
        call, tape = self._call, self._tape
        call.put(text, tape.base + tape.i)
        call.complete = True
        self.mode = Mode.DONE
        return True

    def _fail(self, why: str, mode: str = Mode.FAILED) -> bool:
        self.why = why
        self.mode = mode
        return True
