"""The machine's changes of state, as they happen: each must be in its table, and each of the table must happen.

    python -m tests.transitions [--share 0.06]

runs a fixed corpus (that of `tests.same_events`) and prints the changes of the table that nothing reached; the exit
code is then 1.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import unspool
from unspool import Policy
from unspool.parser.states import INSIDE, OUTSIDE, TABLE, Standing, State

Change = tuple[State, State]

_NOW = '<｜DSML｜function_calls>\n<｜DSML｜invoke name="now"/>\n</｜DSML｜function_calls>'
_OPEN = '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a">x'
RARE = [
    f"hm\n\n{_NOW}{_NOW} more</think>x",
    f'hm\n\n{_NOW}{_OPEN}\n</｜DSML｜function_calls><｜DSML｜invoke name="now"/>',
]
"""Thoughts with calls that have no arguments, or break off: what the random corpus hardly finds."""

BY_STEPS: set[Change] = {(state, to) for state, row in TABLE.items() for to in row.leads_to}
FROM_OUTSIDE: set[Change] = {(state, to) for o in OUTSIDE for state in o.states for to in o.leads_to}


@contextmanager
def recorded() -> Iterator[set[Change]]:
    """Record every change of state, and fail on one that the table lacks."""
    seen: set[Change] = set()
    go = Standing.go

    def recording(self: Standing, state: State) -> None:
        change = (self.state, state)
        if change not in seen and self.state is not state:
            listed = change in BY_STEPS or change in FROM_OUTSIDE
            assert listed, f"{self.state.name} → {state.name} is not in the table"
            seen.add(change)
        go(self, state)

    Standing.go = recording  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        Standing.go = go  # type: ignore[method-assign]


def drawing() -> str:
    """The picture of the table, in Mermaid's language."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> EDGE"]
    inside = set(INSIDE)
    for state, row in TABLE.items():
        if state not in inside:
            lines += [
                f"    {state.name} --> {to.name}: {_words(why)}" for to, why in row.leads_to.items() if to not in inside
            ]
            if inside & set(row.leads_to):
                lines.append(f"    {state.name} --> CALL: a call opens")
    lines += ["    state CALL {"]
    opened = {to: why for row in TABLE.values() for to, why in row.leads_to.items() if why.startswith("call")}
    lines += [f"        [*] --> {to.name}: {_words(why)}" for to, why in opened.items()]
    left: dict[State, list[str]] = {}
    for state in INSIDE:
        for to, why in TABLE[state].leads_to.items():
            if to in inside:
                lines.append(f"        {state.name} --> {to.name}: {_words(why)}")
            else:
                left.setdefault(to, []).append(f"{state.name}, {_words(why)}")
    lines += ["    }"]
    lines += [f"    CALL --> {to.name}: {'; '.join(whys)}" for to, whys in left.items()]
    return "\n".join([*lines, "```", ""])


def _words(why: str) -> str:
    """A label without what Mermaid reads as its own."""
    return why.replace(":", ",")


def rows() -> str:
    """The table of states."""
    lines = ["| state | where the output stands | step |", "|---|---|---|"]
    docs = descriptions()
    lines += [f"| `{state.name}` | {docs[state]} | `{row.step}` |" for state, row in TABLE.items()]
    lines += ["", "| from outside | leads to |", "|---|---|"]
    lines += [f"| {o.why} | {', '.join(f'`{s.name}`' for s in sorted(o.leads_to))} |" for o in OUTSIDE]
    return "\n".join([*lines, ""])


def descriptions() -> dict[State, str]:
    """What is said of each state in the source."""
    import ast
    import inspect

    (body,) = (n.body for n in ast.parse(inspect.getsource(State)).body if isinstance(n, ast.ClassDef))
    found: dict[State, str] = {}
    for name, doc in pairwise(body):
        if isinstance(name, ast.Assign) and isinstance(name.targets[0], ast.Name) and isinstance(doc, ast.Expr):
            assert isinstance(doc.value, ast.Constant)
            found[State[name.targets[0].id]] = str(doc.value.value).rstrip(".").lower()
    return found


def unreached(share: float) -> set[Change]:
    """What of the table the corpus does not reach."""
    from .same_events import RUNS, case, corpus, events_of, indexed

    found = indexed(corpus())
    with recorded() as seen:
        for text in RARE:
            unspool.parse(text, "deepseekv32", stage="reasoning", policy=Policy(call_in_reasoning="resume"))
        for index in range(int(RUNS * share)):
            events_of(found, case(found, 1, index))
    return BY_STEPS - seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.06)
    missing = unreached(parser.parse_args().share)
    for state, to in sorted(missing):
        print(f"{state.name} → {to.name}: {TABLE[state].leads_to[to]}")
    print(f"{len(BY_STEPS) - len(missing)} of {len(BY_STEPS)} changes are reached")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
