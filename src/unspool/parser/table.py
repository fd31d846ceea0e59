"""The machine's rules: its states, the step that each takes, and the transitions between them.

* A step reads from the tape, reports what it read to the ledger, and may change the state. `TABLE` lists the states,
  the method that takes a step in each, and all states that a step may lead to; the tests fail on any other change.
* Some changes come from outside of steps: the end of the output, the closing of the reasoning around a call, an engine
  that sets the stage, a prompt, a hold that grew too large. `OUTSIDE` lists them.
* A step first asks what is here (`Lookout`, `Openings`): the answer is yes, no, or that more text must decide.
* A reader handles the inside of a call; `Calls` acts on the mode in which a step leaves the reader. In the state
  RECOVER, `BrokenReader` reads a broken call up to its closing marker, which `Calls.close` then takes.
* Text that may turn out to be something else is held (`Ledger.hold`). If it does, it is given back: emitted as text,
  or read again in the state in which the hold began.

`docs/en/architecture.md` shows a picture that is made from `TABLE`.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from .blocks import Blocks
from .calls import Calls
from .prose import Prose
from .states import State


class StateRow(NamedTuple):
    """The row of one state in the table.

    Attributes:
        step: the function that takes a step, with what it is a method of.
        leads_to: the states that a step may lead to, each with its reason.
    """

    step: Callable[[Any], bool]
    leads_to: dict[State, str]


class OutsideChange(NamedTuple):
    """A change of the state from outside a step."""

    why: str  # what happens
    states: frozenset[State]  # where it may happen
    leads_to: frozenset[State]  # what it may lead to


_CALL: Final = {
    State.OBJECT: "call that is an object",
    State.ARGUMENTS: "call, arguments in one literal",
    State.MARKUP: "call, arguments one by one",
    State.CLOSE: "call without arguments",
}
_WHOLE: Final = {State.BLOCK: "call that is complete"}
_BEHIND_BLOCK: Final = {
    State.EDGE: "the block closes, or something else begins",
    State.REASONING_START: "the same, and reasoning is open",
}
_NO_CALL: Final = {State.REASONING: "no call: given back", State.RESUMING: "no call: given back"}

TABLE: Final[dict[State, StateRow]] = {
    State.EDGE: StateRow(
        Prose.edge,
        {
            State.TEXT: "text",
            State.REASONING_START: "reasoning opens",
            State.FRAME_START: "a frame opens",
            State.UNDECIDED: "reasoning opens without its tag, if the next marker closes it",
            **_WHOLE,
            **_CALL,
        },
    ),
    State.TEXT: StateRow(
        Prose.text,
        {
            State.EDGE: "a frame closes, the turn ends, or a frame opens",
            State.REASONING_START: "reasoning opens",
            State.BLOCK_TEXT: "a block and a call open, without a name",
            **_WHOLE,
            **_CALL,
        },
    ),
    State.REASONING_START: StateRow(Prose.reasoning_start, {State.REASONING: "white space is taken"}),
    State.REASONING: StateRow(
        Prose.text,
        {
            State.EDGE: "it closes, or the turn ends",
            State.TEXT: "the turn ends: it was text",
            **_CALL,
        },
    ),
    State.UNDECIDED: StateRow(
        Prose.undecided,
        {State.REASONING_START: "reasoning closes: it was reasoning", State.EDGE: "anything else decides"},
    ),
    State.FRAME_START: StateRow(Prose.frame_start, {State.TEXT: "white space is taken"}),
    State.RESUMING: StateRow(
        Prose.resuming,
        {
            State.REASONING_START: "text: it goes on",
            State.EDGE: "it closes, the turn ends, or a frame opens",
            **_CALL,
        },
    ),
    State.BLOCK: StateRow(
        Blocks.between,
        {State.BLOCK_TEXT: "text", State.RESUMING: "a call interrupted reasoning", **_BEHIND_BLOCK, **_CALL},
    ),
    State.BLOCK_TEXT: StateRow(
        Blocks.text,
        {State.BLOCK: "a call opens", State.TEXT: "the closing of an opening that is text", **_BEHIND_BLOCK},
    ),
    State.OBJECT: StateRow(
        Calls.object,
        {
            State.CLOSE: "its end",
            State.RECOVER: "an error",
            State.TEXT: "no call: given back",
            State.BLOCK_TEXT: "no call, in a block: given back",
            **_NO_CALL,
        },
    ),
    State.ARGUMENTS: StateRow(Calls.inside, {State.CLOSE: "their end", State.RECOVER: "an error"}),
    State.MARKUP: StateRow(
        Calls.inside,
        {
            State.CLOSE: "the call's closing",
            State.RECOVER: "an error",
            State.ARGUMENTS: "JSON instead",
            State.BLOCK: "the block's closing, or another call",
            **_NO_CALL,
        },
    ),
    State.RECOVER: StateRow(
        Calls.inside,
        {State.CLOSE: "a marker is here, or a bracket ends it", State.OBJECT: "a bracket ends the arguments"},
    ),
    State.CLOSE: StateRow(
        Calls.close,
        {
            State.BLOCK: "the call is over",
            State.EDGE: "not closed: given back",
            State.TEXT: "not closed: given back",
        },
    ),
}

INSIDE: Final = (State.OBJECT, State.ARGUMENTS, State.MARKUP, State.RECOVER, State.CLOSE)  # the states inside a call
_CUT: Final = frozenset(INSIDE)
_OPEN: Final = frozenset(State) - _CUT

OUTSIDE: Final = (
    OutsideChange(
        "the output begins in another state",
        frozenset((State.EDGE,)),
        frozenset((State.REASONING_START, State.UNDECIDED, State.BLOCK)),
    ),
    OutsideChange("an engine says so", _OPEN, frozenset((State.EDGE, State.REASONING_START, State.BLOCK))),
    OutsideChange(
        "the end, or the closing of the reasoning around it, cuts a call",
        _CUT,
        frozenset((State.BLOCK, State.EDGE, State.TEXT)),
    ),
    OutsideChange(
        "a hold is given back: at the end, after a bad call in reasoning, or because it grew too large",
        frozenset(State) - {State.EDGE, State.UNDECIDED},
        frozenset((State.TEXT, State.BLOCK_TEXT, State.REASONING, State.RESUMING)),
    ),
    OutsideChange(
        "a token's id ends a string",
        frozenset((State.OBJECT, State.ARGUMENTS)),
        frozenset((State.CLOSE, State.RECOVER, State.TEXT, State.BLOCK_TEXT, State.REASONING, State.RESUMING)),
    ),
)
