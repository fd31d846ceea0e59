"""The command-line agents from npm, each in its own folder. Nothing that they send is kept."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

BIN = Path(__file__).parents[2] / ".venv" / "clients" / "node_modules" / ".bin"
PATIENCE = 180.0  # seconds


def program(name: str) -> str:
    """The path of a program. If it is not installed, the test is skipped."""
    path = BIN / name
    if not path.exists():
        pytest.skip(f"{name} is not installed; `make clients` does so")
    return str(path)


def run(arguments: list[str], folder: Path, home: Path, more: Mapping[str, str]) -> list[dict[str, Any]]:
    """Run a program in a folder, and return the JSON lines that it prints."""
    known = {name: value for name in ("PATH", "LANG") if (value := os.environ.get(name)) is not None}
    done = subprocess.run(
        arguments,
        cwd=folder,
        env={**known, "HOME": str(home), **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def call(name: str, arguments: Any) -> str:
    """The text of a call in the dialect hermes."""
    body = json.dumps({"name": name, "arguments": arguments})
    return f"<think>\nI use {name}.\n</think>\n\n<tool_call>\n{body}\n</tool_call>"


def say(text: str) -> str:
    """The text of an answer in the dialect hermes."""
    return f"<think>\nNow I answer.\n</think>\n\n{text}"
