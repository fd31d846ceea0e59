"""The wires depend on events and messages, but not on engines, servers, clocks or the network."""

import ast
import sys
from pathlib import Path

import pytest

import unspool.wire

MODULES = sorted(Path(unspool.wire.__file__).parent.glob("*.py"))
KNOWN = {"arguments", "events", "message", "errors", "regex"}
FORBIDDEN = {"asyncio", "datetime", "logging", "os", "random", "socket", "ssl", "threading", "time", "urllib", "uuid"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.name)
def test_a_module_imports_events_messages_msgspec_and_nothing_that_does_input_or_output(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = {a.name.split(".")[0] for a in node.names}
            assert names <= {"msgspec", *sys.stdlib_module_names} - FORBIDDEN
        elif isinstance(node, ast.ImportFrom) and node.level == 2:
            assert node.module in KNOWN
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert (node.module or "").split(".")[0] in {"msgspec", *sys.stdlib_module_names} - FORBIDDEN
