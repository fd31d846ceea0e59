"""The interface of readers, which read the inside of a call."""

from typing import Final, Protocol

import msgspec


class Mode:
    """What a reader needs next, or has found."""

    READING: Final = "reading"
    NAMED: Final = "named"
    """The call's name is known: it can be announced."""
    NAME_DUE: Final = "name due"
    """The call must be announced before reading goes on."""
    DONE: Final = "done"
    """The arguments are complete, and the call's closing is expected."""
    FAILED: Final = "failed"
    """The arguments are wrong."""
    LOST: Final = "lost"
    """The text around the arguments is wrong."""
    NONE: Final = "none"
    """This is not a call."""
    JSON: Final = "json"
    """JSON begins where arguments in markup are expected."""
    OBJECT: Final = "object"
    """The broken part has ended, and the object around it goes on."""
    OVER: Final = "over"
    """The call ends here without its closing."""


class Whole(msgspec.Struct, gc=False):
    """A plain call that is complete in the text, and the places there at which its parts end.

    Each reader has a function that finds such calls. They are read with one match, and no reader is made for them.

    Attributes:
        name, arguments: the name of the call, and its arguments as JSON.
        header: the end of what is read up to its name.
        inside: the end of its arguments; ``end``: where its own closing may begin.
        call_id: its own id, or ``""``.
    """

    name: str
    arguments: str
    header: int
    inside: int
    end: int
    call_id: str = ""


class Reader(Protocol):
    """Reads the inside of a call and passes it on, as long as its mode is `Mode.READING`.

    `read` consumes text from the tape, and gives the call its arguments. Only the machine changes the state,
    depending on the mode.
    """

    mode: str
    why: str
    """The error, if there is one."""

    def read(self) -> bool:
        """Take a step; false if more text is needed."""

    def take(self) -> str | None:
        """End the hold, and return the held part of the arguments as it is so far; ``None`` if nothing is held."""

    def close_all(self) -> str:
        """The JSON that would close the open values; ``""`` if a value would have to be invented."""
