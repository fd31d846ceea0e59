"""Rows of every kind, and the expected results."""

import json
from pathlib import Path
from typing import Any

from ..support import tool

TOOLS = [tool("f", a="string", n="integer")]


def output(i: int) -> str:
    """An output with reasoning and two calls; the arguments of every fifth output have a wrong type."""
    value = json.dumps(i if i % 5 else "bad")
    call = f'\n<tool_call>\n{{"name": "f", "arguments": {{"a": "x{i}", "n": {value}}}}}\n</tool_call>'
    return f"<think>\nplan {i} 北\n</think>\n\nSure.{call * 2 if i % 3 else ''}"


def row(i: int) -> dict[str, Any]:
    """A row with columns of every kind. One of them has the name of an output column."""
    theirs = {"tools": TOOLS, "meta": {"k": [i, None]}, "score": i / 2, "content": "theirs"}
    return {"key": i, "output": output(i), **theirs}


def is_bad(i: int) -> bool:
    """Whether a row of the file is unreadable."""
    return i % 10 == 3


def write_lines(path: Path, count: int) -> Path:
    """Write a file of rows as JSON lines. The bad rows are bad in several ways."""
    lines = [json.dumps(row(i), ensure_ascii=False) for i in range(count)]
    for i in filter(is_bad, range(count)):
        bad = "no JSON", "[1]", json.dumps(row(i) | {"output": 7}), json.dumps(row(i) | {"output": None})
        lines[i] = bad[i // 10 % 4]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
