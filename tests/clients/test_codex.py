"""Codex with a server in front of a scripted engine: streams, commands, patches by their grammar, several turns."""

import os
from pathlib import Path
from typing import Any

import pytest

from unspool.request.sealed import Seal

from ..server.support import written
from ..server.writing import extends
from .support import call, program, run, say

pytestmark = pytest.mark.clients

PATCH = "*** Begin Patch\n*** Add File: made.txt\n+Hello from a patch\n*** End Patch\n"
CONFIG = """model = "{model}"
model_provider = "unspool"

[model_providers.unspool]
name = "unspool"
base_url = "{url}/v1"
wire_api = "responses"
"""


def codex(url: str, model: str, home: Path, *arguments: str) -> list[dict[str, Any]]:
    work, config = home / "work", home / "codex"
    for folder in (work, config):
        folder.mkdir(exist_ok=True)
    (config / "config.toml").write_text(CONFIG.format(model=model, url=url))
    options = ["--skip-git-repo-check", "--json", "--dangerously-bypass-approvals-and-sandbox"]
    return run([program("codex"), "exec", *options, *arguments], work, home, {"CODEX_HOME": str(config)})


def messages(events: list[dict[str, Any]], kind: str) -> list[Any]:
    items = [e["item"] for e in events if e["type"] == "item.completed"]
    return [i for i in items if i["type"] == kind]


def test_codex_runs_commands_applies_patches_and_goes_on_with_its_session(tmp_path: Path) -> None:
    outputs = [
        call("exec_command", {"cmd": "echo 42 > answer.txt; cat answer.txt"}),
        call("apply_patch", {"input": PATCH}),
        say("All done."),
        say("Again."),
    ]
    # For models that it knows, Codex declares apply_patch as a custom tool with a Lark grammar.
    with written(*outputs, seal=Seal([os.urandom(32)])) as (server, engine):
        first = codex(server.url, "gpt-5.5", tmp_path, "Do it")
        again = codex(server.url, "gpt-5.5", tmp_path, "resume", "--last", "Once more")
    assert (tmp_path / "work" / "answer.txt").read_text() == "42\n"
    assert (tmp_path / "work" / "made.txt").read_text() == "Hello from a patch\n"
    assert [m["text"] for m in messages(first, "agent_message")] == ["All done."]
    assert [m["text"] for m in messages(again, "agent_message")] == ["Again."]
    assert len(engine.requests) == 4
    asked = engine.requests[0]
    assert {"exec_command", "apply_patch", "tool_search"} <= {t["function"]["name"] for t in asked.tools}
    assert asked.constraint is not None
    assert "%lark" in asked.constraint.lark
    assert [extends(engine, i, outputs[i - 1]) for i in (1, 2)] == [True, True]
    # The reasoning came back sealed, and the server could read it.
    assert [m["reasoning_content"] for m in engine.requests[3].messages if m["role"] == "assistant"] == [
        "I use exec_command.",
        "I use apply_patch.",
        "Now I answer.",
    ]


def test_codex_shows_summaries_of_an_unknown_model_and_gets_flat_namespaces(tmp_path: Path) -> None:
    with written(say("Hello.")) as (server, engine):
        events = codex(server.url, "served", tmp_path, "Say hello")
    assert [m["text"] for m in messages(events, "reasoning")] == ["Now I answer."]
    names = [t["function"]["name"] for t in engine.requests[0].tools]
    assert "multi_agent_v1.spawn_agent" in names
    assert "web_search" not in names
