"""The interpreter inside bwrap and WASI: runs cells of code, one per line, in one namespace.

It needs nothing but the standard library. For each cell it reads ``{"code": …}`` as a line of JSON, and it answers
``{"text": …, "error": …}``. The parent process trusts none of its answers: the model's code runs in the same process.

Arguments: the limits on memory (bytes) and on output (characters), and ``seccomp`` to limit the system calls before
the first cell.
"""

import ast
import io
import json
import linecache
import os
import sys
import traceback
from typing import Any


class Output(io.TextIOBase):
    """The output of cells, up to a limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.parts: list[str] = []
        self.left = limit
        self.lost = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = text[: self.left]
        if kept:
            self.parts.append(kept)
            self.left -= len(kept)
        self.lost += len(text) - len(kept)
        return len(text)

    def taken(self) -> str:
        """Return all that was printed since the last call."""
        text = "".join(self.parts)
        if self.lost:
            text += f"\n[… {self.lost:,} more characters …]"
        self.parts, self.left, self.lost = [], self.limit, 0
        return text.encode(errors="replace").decode()  # half a surrogate pair has no place in JSON


def run(code: str, name: str, namespace: dict[str, Any], output: Output) -> bool:
    """Run a cell, and show the value of a last expression as a notebook does. Returns whether the cell failed."""
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    try:
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
            if value is not None:
                output.write(repr(value) + "\n")
    except BaseException as error:  # SystemExit, too, ends only the cell
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != name:
            trace = trace.tb_next
        lines = traceback.format_exception(type(error), error, trace, limit=-20)
        output.write("".join(lines))
        return True
    return False


def lock(memory: int) -> None:
    """Limit the resources of the process, and its system calls to those of pure computing."""
    import resource

    import seccomp  # type: ignore[import-not-found]  # the file next to this one

    for what, limit in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 32),
    ):
        resource.setrlimit(what, (limit, limit))
    seccomp.lock()


def main() -> None:
    memory, limit, *how = sys.argv[1:]
    asked, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", 0) if how else sys.stdout.buffer
    output = Output(int(limit))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    sys.stdin = io.StringIO()
    sys.stdout = sys.stderr = output
    if how:
        lock(int(memory))
    answers.write(b'{"ready": true}\n')
    answers.flush()
    for at, line in enumerate(iter(asked.readline, b""), 1):
        failed = run(json.loads(line)["code"], f"cell {at}", namespace, output)
        sys.stdout = sys.stderr = output
        answers.write(json.dumps({"text": output.taken(), "error": failed}).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
