"""What the machine is reading: its states. `table.TABLE` says what leads from one to another."""

import enum
from typing import Final


class State(enum.IntEnum):
    """What the machine is reading."""

    EDGE = 0  # at a boundary between parts
    TEXT = 1  # in content
    REASONING_START = 2  # after an opening of reasoning
    REASONING = 3  # in reasoning
    UNDECIDED = 4  # in text that is reasoning or content, as the next marker decides
    FRAME_START = 5  # after the header of a frame of content
    RESUMING = 6  # after a call that interrupted reasoning
    BLOCK = 7  # after a call, or after the opening of a block of calls
    BLOCK_TEXT = 8  # in stray text in a block of calls
    OBJECT = 9  # in a call that is an object
    ARGUMENTS = 10  # in arguments that are one literal
    MARKUP = 11  # in arguments that are written one by one
    RECOVER = 12  # in a call that is broken
    CLOSE = 13  # after arguments, where the call's closing is expected


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


class Standing:
    """The current state of one output."""

    def __init__(self) -> None:
        self.state = State.EDGE  # see `table.TABLE`
