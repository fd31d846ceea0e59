"""Runs cells in monty (PyPI ``pydantic-monty``), which interprets Python in a worker process that has no access.

This is a program of its own; it and the worker are one process group. For each cell, a line of JSON,
``{"cell": …, "code": …}``, it answers with another, ``{"cell": …, "text": …, "error": …, "ended": …}``.
Arguments: the limits on a cell's time (seconds), on memory (bytes) and on output (characters).
"""

import ast
import json
import sys

import pydantic_monty as monty

_SHOWN = "__shown__"


def shown(code: str) -> str:
    """The code with its last expression printed, as in a notebook; code that CPython cannot parse is unchanged."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return code
    if not body or not isinstance(body[-1], ast.Expr):
        return code
    last = body[-1]
    lines = code.encode().split(b"\n")
    line, end = last.lineno - 1, (last.end_lineno or last.lineno) - 1
    ends = [*lines[line : end + 1]]
    ends[-1] = ends[-1][: last.end_col_offset]
    ends[0] = ends[0][last.col_offset :]
    head = [*lines[:line], lines[line][: last.col_offset]]
    value = b"\n".join(ends).decode()
    # Line numbers must not change, since errors name them.
    before = b"\n".join(head).decode()
    return f"{before}{_SHOWN} = ({value}\n)\nif {_SHOWN} is not None:\n    print(repr({_SHOWN}))"


def main() -> None:
    seconds, memory, limit = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    limits: monty.ResourceLimits = {
        "max_feed_duration_secs": seconds,
        "max_memory": memory,
        "max_recursion_depth": 500,
        "max_total_sleep_secs": seconds,
    }
    with monty.Monty(max_processes=1) as pool, pool.checkout(limits=limits) as session:
        print('{"ready": true}', flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            print(json.dumps({"cell": asked["cell"], **cell(session, asked["code"], limit)}), flush=True)


class Printed:
    """The output of a cell, up to a limit."""

    def __init__(self, limit: int) -> None:
        self.parts: list[str] = []
        self.left = limit
        self.lost = 0

    def add(self, stream: str, text: str) -> None:
        kept = text[: self.left]
        self.parts.append(kept)
        self.left -= len(kept)
        self.lost += len(text) - len(kept)

    def text(self) -> str:
        return "".join(self.parts) + (f"\n[… {self.lost:,} more characters …]\n" if self.lost else "")


def cell(session: monty.MontySession, code: str, limit: int) -> dict[str, object]:
    """Run one cell. The answer has ``ended`` if the cell leaves no state for the next one."""
    printed = Printed(limit)
    error, ended = "", False
    try:
        session.feed_run(shown(code), print_callback=printed.add)
    except monty.MontyCrashedError as fault:
        error, ended = f"{fault}\n", True
    except (monty.MontySyntaxError, monty.MontyRuntimeError) as fault:
        error = fault.display("traceback") + "\n"
        ended = isinstance(fault.exception(), MemoryError | TimeoutError)
    return {"text": printed.text() + error[-limit:], "error": bool(error), "ended": ended}


if __name__ == "__main__":
    main()
