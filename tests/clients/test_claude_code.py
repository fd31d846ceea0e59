"""Claude Code with a server in front of a scripted engine: streams, commands, files, several turns."""

import os
from pathlib import Path
from typing import Any

import pytest

from unspool.request.sealed import Seal

from ..server.support import written
from ..server.writing import extends
from .support import call, program, run, say

pytestmark = pytest.mark.clients

KEY = "a-key"


def claude(url: str, home: Path, *arguments: str) -> list[dict[str, Any]]:
    work = home / "work"
    work.mkdir(exist_ok=True)
    variables = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    options = ["--model", "served", "--output-format", "stream-json", "--verbose"]
    return run([program("claude"), "-p", *options, *arguments], work, home, variables)


def test_claude_code_runs_commands_writes_files_and_goes_on_with_its_session(tmp_path: Path) -> None:
    made = tmp_path / "work" / "made.txt"
    outputs = [
        call("Bash", {"command": "echo 42 > answer.txt; cat answer.txt", "description": "Writes a file"}),
        call("Write", {"file_path": str(made), "content": "Hello from a file\n"}),
        say("All done."),
        say("Again."),
    ]
    sealed = Seal([os.urandom(32)])
    with written(*outputs, seal=sealed, api_key=KEY) as (server, engine):
        first = claude(server.url, tmp_path, "--allowedTools", "Bash", "Write", "--", "Do it")
        again = claude(server.url, tmp_path, "--continue", "--", "Once more")
    assert (tmp_path / "work" / "answer.txt").read_text() == "42\n"
    assert made.read_text() == "Hello from a file\n"
    assert [e["result"] for e in (*first, *again) if e["type"] == "result"] == ["All done.", "Again."]
    assert len(engine.requests) == 4
    # It asks to keep all thinking, so each prompt continues the last one, even across user turns.
    assert [extends(engine, i, outputs[i - 1]) for i in (1, 2, 3)] == [True, True, True]
    assert [m["reasoning_content"] for m in engine.requests[3].messages if m["role"] == "assistant"] == [
        "I use Bash.",
        "I use Write.",
        "Now I answer.",
    ]
