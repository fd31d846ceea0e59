"""Checks the machine's changes of state: each must be in its table, and each in the table must occur.

    python -m tests.transitions [--share 0.06] [--draw]

runs a fixed corpus (that of `tests.same_events`) and prints the changes of the table that nothing reached; the exit
code is then 1. With ``--draw`` it draws the table into `PICTURE` instead.
"""

import argparse
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from html import escape, unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import unspool
from unspool import Policy
from unspool.parser import machine
from unspool.parser.parts import Parts
from unspool.parser.states import State
from unspool.parser.table import INSIDE, OUTSIDE, TABLE

PICTURE = Path(__file__).parent.parent / "docs" / "states.svg"
Change = tuple[State, State]

_NOW = '<｜DSML｜function_calls>\n<｜DSML｜invoke name="now"/>\n</｜DSML｜function_calls>'
_SIGN = "]<]minimax[>["
_WHOLE = f'{_SIGN}<tool_call>\n{_SIGN}<invoke name="now">{_SIGN}</invoke>\n{_SIGN}</tool_call>'
_BROKEN = f'{_SIGN}<tool_call>\n{_SIGN}<invoke name="f">{_SIGN}<list>{_SIGN}<a>1{_SIGN}</a>\n{_SIGN}</tool_call>'
_UNKNOWN = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
    "<|tool_calls_section_end|>"
)
_TOOLS = [{"type": "function", "function": {"name": "now"}}]
RARE = [
    ("deepseekv32", "content", f"{_NOW}{_NOW}", Policy()),
    ("deepseekv32", "reasoning", f"hm\n\n{_NOW}{_NOW} more</think>x", Policy()),
    ("mistral-compact", "reasoning", "hm[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]f[ARGS]{}", Policy()),
    ("minimax-m3", "reasoning", f"hm{_BROKEN}", Policy()),
    ("minimax-m3", "reasoning", f"hm{_WHOLE}{_BROKEN}", Policy()),
    ("hermes", "content", "Well<think>hm<|im_end|>", Policy(reasoning_in_content="closed")),
    ("kimi_k2", "reasoning", f"hm{_UNKNOWN} more</think>x", Policy(unknown_tool="drop")),
    (
        "hermes",
        "reasoning",
        'hm<tool_call>{"name": "now", "arguments": {}}</tool_call><tool_call>\n{"x": 1}\n</tool_call> more</think>x',
        Policy(),
    ),
    (
        "apriel-1.5",
        "reasoning",
        '<tool_calls>[{"name": "now", "arguments": {"a": 1, "b"\n[BEGIN FINAL RESPONSE]\nx\n[END FINAL RESPONSE]',
        Policy(bad_arguments="text"),
    ),
]
"""Outputs with transitions that are rare in the random corpus: a dialect, a stage, a text and a policy."""

BY_STEPS: set[Change] = {(state, to) for state, row in TABLE.items() for to in row.leads_to}
FROM_OUTSIDE: set[Change] = {(state, to) for o in OUTSIDE for state in o.states for to in o.leads_to}


@contextmanager
def recorded() -> Iterator[set[Change]]:
    """Record the changes of state that steps make, and fail on any change that the table lacks."""
    seen: set[Change] = set()
    known: set[tuple[bool, Change]] = set()
    local = threading.local()
    put, steps = Parts.__setattr__, machine.STEPS

    def recording(self: Parts, name: str, value: Any) -> None:
        if name == "state":
            check(getattr(self, name, value), value)
        put(self, name, value)

    def check(before: State, state: State) -> None:
        change = (before, state)
        stepping = getattr(local, "depth", 0) > 0
        if (stepping, change) not in known and before is not state:
            where = "in a step" if stepping else "from outside"
            listed = BY_STEPS if stepping else FROM_OUTSIDE
            assert change in listed, f"{before.name} → {state.name} {where} is not in the table"
            known.add((stepping, change))
            if stepping:
                seen.add(change)

    def counted(step: Callable[[Any], bool]) -> Callable[[Any], bool]:
        @wraps(step)
        def stepped(owner: Any) -> bool:
            local.depth = getattr(local, "depth", 0) + 1
            try:
                return step(owner)
            finally:
                local.depth -= 1

        return stepped

    Parts.__setattr__ = recording  # type: ignore[assignment,method-assign]
    machine.STEPS = tuple(map(counted, steps))  # type: ignore[misc]
    try:
        yield seen
    finally:
        Parts.__setattr__ = put  # type: ignore[method-assign]
        machine.STEPS = steps  # type: ignore[misc]


def drawing() -> str:
    """The picture of the table, in Graphviz's language."""
    lines = ["digraph states {", *_LOOK, f'  {_START}; " " -> "EDGE"']
    inside = set(INSIDE)
    lines += ["  subgraph cluster_call {", '    label="in a call"', *(f'    "{state.name}"' for state in INSIDE), "  }"]
    for state, row in TABLE.items():
        opens = state not in inside and bool(inside & set(row.leads_to))
        lines += [f'  "{state.name}" -> "{to.name}"' for to in row.leads_to if not opens or to not in inside]
        if opens:
            lines.append(f'  "{state.name}" -> "{_ENTRY.name}" [lhead=cluster_call]')
    return "\n".join([*lines, "}", ""])


_START = '" " [shape=circle, fixedsize=true, width=0.15, height=0.15, style=filled, fillcolor="#1f2328"]'
_ENTRY = next(iter(INSIDE))
"""The state to which Graphviz draws the edge of a call that opens; the edge ends at the frame."""
_LOOK = (
    "  compound=true; ranksep=0.45; nodesep=0.3; bgcolor=transparent",
    '  graph [fontname="Helvetica", fontsize=12, style=rounded, color="#8250df"]',
    '  node [shape=box, style=rounded, fontname="Helvetica", fontsize=12, height=0.35]',
    '  edge [color="#59636e", arrowsize=0.7]',
)
_STYLE = """<style>
text { fill: #1f2328; } .node path, .node ellipse { stroke: #1f2328; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .node path, .node ellipse { stroke: #f0f6fc; }
  .edge path, .edge polygon { stroke: #9198a1; } .edge polygon { fill: #9198a1; }
}
</style>
"""


def drawn() -> str:
    """The picture as SVG, which contains the text that it was drawn from. Needs Graphviz."""
    ran = subprocess.run(["dot", "-Tsvg"], input=drawing(), capture_output=True, text=True, check=True)
    shapes = re.sub(r"<!--.*?-->\n?", "", ran.stdout[ran.stdout.index("<svg") :], flags=re.S)
    head, body = shapes.split(">\n", 1)
    head = re.sub(r' (width|height)="\d+pt"', "", head)
    return f'{head} role="img">\n<desc>{escape(drawing())}</desc>\n{_STYLE}{body}'


def described(svg: str) -> str:
    """The text that a picture was drawn from."""
    return unescape(svg.split("<desc>", 1)[1].split("</desc>", 1)[0])


def rows() -> str:
    """The table of states."""
    lines = ["| state | where the output stands | step | leads to |", "|---|---|---|---|"]
    docs = descriptions()
    for state, row in TABLE.items():
        ways = "<br>".join(f"`{to.name}`: {why}" for to, why in row.leads_to.items())
        lines.append(f"| `{state.name}` | {docs[state]} | `{row.step.__qualname__}` | {ways} |")
    lines += ["", "| from outside | leads to |", "|---|---|"]
    lines += [f"| {o.why} | {', '.join(f'`{s.name}`' for s in sorted(o.leads_to))} |" for o in OUTSIDE]
    return "\n".join([*lines, ""])


def descriptions() -> dict[State, str]:
    """The description of each state in the source."""
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
    """The changes in the table that the corpus does not reach."""
    from .same_events import RUNS, case, corpus, events_of, indexed

    found = indexed(corpus())
    with recorded() as seen:
        for dialect, stage, text, policy in RARE:
            policy = policy.over(Policy(call_in_reasoning="resume"))
            parser = unspool.Parser(dialect, tools=_TOOLS, stage=stage, policy=policy)
            parser.feed(text)
            parser.close()
        for index in range(int(RUNS * share)):
            events_of(found, case(found, 1, index))
    return BY_STEPS - seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.06)
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if options.draw:
        PICTURE.write_text(drawn(), encoding="utf-8")
        return 0
    missing = unreached(options.share)
    for state, to in sorted(missing):
        print(f"{state.name} → {to.name}: {TABLE[state].leads_to[to]}")
    print(f"{len(BY_STEPS) - len(missing)} of {len(BY_STEPS)} changes are reached")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
