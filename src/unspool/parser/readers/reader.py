"""The interface of the readers of a call's inside."""

import enum
from typing import Protocol


class Mode(enum.Enum):
    """Where a reader is."""

    READING = "reading"
    NAMED = "named"
    """The call's name is known: it can be announced."""
    NAME_DUE = "name due"
    """The call must be announced before it is read on, at once."""
    DONE = "done"
    """The arguments are whole: the call's closing is due."""
    FAILED = "failed"
    """The arguments are wrong."""
    LOST = "lost"
    """The text around the arguments is wrong."""
    NONE = "none"
    """This is not a call."""
    JSON = "json"
    """Where arguments in markup are due, JSON begins."""
    OBJECT = "object"
    """The broken part is over, and the object around it goes on."""
    OVER = "over"
    """The call ends here, without its closing."""


class Reader(Protocol):
    """Reads what lies in a call and hands it on, until its mode is another than `Mode.READING`.

    What `read` consumes is taken off the tape; the call gets the arguments in it. Only the machine changes its
    state, by the mode.
    """

    mode: Mode
    why: str
    """The error, where there is one."""

    def read(self) -> bool:
        """Take a step; false where more text is needed."""

    def take(self) -> str | None:
        """The held part of the arguments, as it looks; ``None`` where nothing is held. The hold ends."""

    def close_all(self) -> str:
        """The JSON that would close what is open, ``""`` where a value would have to be invented."""
