"""Where the output stands: the states, and what leads from one to another.

RULES
"""

import enum
from typing import Final, NamedTuple


class State(enum.IntEnum):
    """Where the output stands."""

    EDGE = 0
    """At a boundary between parts."""
    TEXT = 1
    """In content."""
    REASONING_START = 2
    """Behind an opening of reasoning."""
    REASONING = 3
    UNDECIDED = 4
    """In text that a marker will tell to be reasoning or not."""
    FRAME_START = 5
    """Behind the header of a frame of content."""
    RESUMING = 6
    """Behind a call that interrupted reasoning."""
    BLOCK = 7
    """Behind a call."""
    BLOCK_TEXT = 8
    """In stray text in a block of calls."""
    OBJECT = 9
    """In a call that is an object."""
    ARGUMENTS = 10
    """In arguments that are one literal."""
    MARKUP = 11
    """In arguments that are written one by one."""
    RECOVER = 12
    """In a call that went wrong."""
    CLOSE = 13
    """Behind arguments: the call's closing is due."""


class Row(NamedTuple):
    """A state's line in the table.

    Attributes:
        step: the name of the method that takes a step.
        leads_to: what a step may change the state to, and why.
    """

    step: str
    leads_to: dict[State, str]


TABLE: Final[dict[State, Row]] = {
    State.EDGE: Row("_edge", {}),
    State.TEXT: Row("_text", {}),
    State.REASONING_START: Row("_reasoning_start", {}),
    State.REASONING: Row("_text", {}),
    State.UNDECIDED: Row("_undecided", {}),
    State.FRAME_START: Row("_frame_start", {}),
    State.RESUMING: Row("_resuming", {}),
    State.BLOCK: Row("_block", {}),
    State.BLOCK_TEXT: Row("_block_text", {}),
    State.OBJECT: Row("_object", {}),
    State.ARGUMENTS: Row("_arguments", {}),
    State.MARKUP: Row("_arguments", {}),
    State.RECOVER: Row("_recover", {}),
    State.CLOSE: Row("_close", {}),
}


class Standing:
    """The state of one output.

    Attributes:
        state: see `TABLE`.
    """

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = State.EDGE

    def go(self, state: State) -> None:
        """Change the state: nothing else does."""
        self.state = state
