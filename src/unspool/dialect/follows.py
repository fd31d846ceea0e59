"""What ends a text value of an argument: a closing, where something legal follows; else it is text."""

import msgspec

from .markers import CALL
from .patterns import Pattern
from .plan import Plan

__all__ = ["Follows", "follows"]


class Follows(msgspec.Struct, eq=False):
    """Closings that end a value, and what has to follow, behind white space and separators; or the output's end.

    Attributes:
        closings: of the argument, of calls, or of blocks.
        followers: what may follow each of them.
    """

    closings: list[Pattern]
    followers: list[Pattern]


def follows(plan: Plan, own: Pattern) -> tuple[Follows, Follows, Follows]:
    """The rule for a value that ``own`` closes: for this closing, for calls' and for blocks'.

    Behind an argument stands another one, what closes its call or block, or another call; behind a call what closes its
    block, or another call; behind each, and behind a block, what ends the turn.
    """
    calls = [f.suffix for f in plan.forms if f.suffix]
    blocks = [b.suffix for b in plan.blocks if b.suffix]
    begun = [o.pattern for o in (*plan.inner, *plan.reading.edge) if o.kind == CALL and o.marked]
    ends = [o.pattern for o in plan.ends]
    arguments = [p.opening for p in plan.parameters]
    return (
        Follows([own], [*arguments, *calls, *blocks, *begun, *ends]),
        Follows(calls, [*blocks, *begun, *ends]),
        Follows(blocks, ends),
    )
