"""What the machine is reading: its states. `table.TABLE` says what leads from one to another."""

import enum
from typing import Final


class State(enum.IntEnum):
    """What the machine is reading."""

    EDGE = 0
    """At a boundary between parts."""
    TEXT = 1
    """In content."""
    REASONING_START = 2
    """After an opening of reasoning."""
    REASONING = 3
    """In reasoning."""
    UNDECIDED = 4
    """In text that is reasoning or content, as the next marker decides."""
    FRAME_START = 5
    """After the header of a frame of content."""
    RESUMING = 6
    """After a call that interrupted reasoning."""
    BLOCK = 7
    """After a call, or after the opening of a block of calls."""
    BLOCK_TEXT = 8
    """In stray text in a block of calls."""
    OBJECT = 9
    """In a call that is an object."""
    ARGUMENTS = 10
    """In arguments that are one literal."""
    MARKUP = 11
    """In arguments that are written one by one."""
    RECOVER = 12
    """In a call that is broken."""
    CLOSE = 13
    """After arguments, where the call's closing is expected."""


# Python 3.11 is slow to find members of enumerations, so the machine uses these.
EDGE: Final = State.EDGE
TEXT: Final = State.TEXT
REASONING_START: Final = State.REASONING_START
REASONING: Final = State.REASONING
UNDECIDED: Final = State.UNDECIDED
FRAME_START: Final = State.FRAME_START
RESUMING: Final = State.RESUMING
BLOCK: Final = State.BLOCK
BLOCK_TEXT: Final = State.BLOCK_TEXT
OBJECT: Final = State.OBJECT
ARGUMENTS: Final = State.ARGUMENTS
MARKUP: Final = State.MARKUP
RECOVER: Final = State.RECOVER
CLOSE: Final = State.CLOSE
