"""What reads the inside of a call."""

import enum
from typing import Protocol


class Mode(enum.Enum):
    """Where a reader stands."""

    READING = "reading"
    NAMED = "named"
    """The call's name is known: it can be announced."""
    NAME_DUE = "name due"
    """The call has to be announced before it is read on, at once."""
    DONE = "done"
    """The arguments are whole: the call's closing is due."""
    FAILED = "failed"
    """The arguments are wrong."""
    LOST = "lost"
    """What stands around the arguments is wrong."""
    NONE = "none"
    """This is not a call."""
    JSON = "json"
    """Where arguments in markup are due, JSON begins."""
    OBJECT = "object"
    """What went wrong is over, and the object around it goes on."""
    OVER = "over"
    """The call ends here, without its closing."""


class Reader(Protocol):
    """Reads what lies in a call and hands it on, until its mode is another than `Mode.READING`.

    What `read` consumes is taken off the tape; the call is told of the arguments in it. Only the machine changes its
    state, by the mode.
    """

    mode: Mode
    why: str
    """What is wrong, where something is."""

    def read(self) -> bool:
        """Take a step; false where more text is needed."""

    def take(self) -> str | None:
        """What is held back of the arguments, as it looks; ``None`` where nothing is. It is held no more."""

    def close_all(self) -> str:
        """The JSON that would close what is open, ``""`` where a value would have to be invented."""
