"""The rule for the end of a text value: a closing ends it if something legal follows; any other closing is text.

`FOLLOWERS` is the rule. The parser uses it to check what comes after a closing; `follows` spells it out for grammars.
"""

from typing import Final

from .markers import BLOCK_END, CALL, CALL_END, END
from .patterns import Pattern
from .plan import Plan

ARGUMENT, ARGUMENT_END = "argument", "argument_end"

FOLLOWERS: Final[dict[str, tuple[str, ...]]] = {
    ARGUMENT_END: (ARGUMENT, CALL_END, BLOCK_END, CALL, END),
    CALL_END: (BLOCK_END, CALL, END),
    BLOCK_END: (END,),
}
"""What must follow each kind of closing, apart from white space and separators; the output's end may too."""


def follows(plan: Plan, ends: list[Pattern]) -> list[tuple[list[Pattern], list[Pattern]]]:
    """`FOLLOWERS` in terms of a dialect's markers, for a value that any of ``ends`` closes: closings of the argument,
    of calls or of blocks, and what may follow each of them."""
    calls = [f.closing for f in plan.calls.forms if f.closing]
    blocks = [b.closing for b in plan.calls.blocks if b.closing]
    stands = {
        CALL_END: plan.calls.argument_followers,
        BLOCK_END: blocks,
        ARGUMENT: [p.opening for p in plan.arguments.parameters],
        CALL: [o.pattern for o in (*plan.calls.inner, *plan.reading.edge) if o.kind == CALL and o.marked],
        END: [o.pattern for o in plan.ends],
    }
    closings = {ARGUMENT_END: ends, CALL_END: calls, BLOCK_END: blocks}
    return [(closings[end], [p for kind in kinds for p in stands[kind]]) for end, kinds in FOLLOWERS.items()]
