"""Codex and Claude Code in a session: sub-agents, titles, compaction, another system prompt.

``RECORD=1 make clients ARGS=tests/clients/test_sessions.py`` records them anew for `tests.sessions.recorded`.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from unspool.engines import Request

from ..server.support import Live, live, until
from ..server.writing import template
from ..sessions.recorded import SHAPES, Shape, replayed, shape, write
from ..sessions.support import Model, check, made, trajectory
from .support import PATIENCE, call, program, say
from .test_codex import codex

pytestmark = pytest.mark.clients

TASK = "SUBTASK please"
SUMMARY = "<analysis>x</analysis><summary>What was done.</summary>"


def text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])


def exchanged(one: Shape) -> Shape:
    """The same run, if a sub-agent's first request comes before its parent's second."""
    at = {1: 2, 2: 1}
    calls = [(None if parent is None else at.get(parent, parent), fork) for parent, fork in one.calls]
    calls[1], calls[2] = calls[2], calls[1]
    return Shape(calls, [(role, [at.get(i, i) for i in places]) for role, places in one.rows])


class Agent:
    """A model that delegates when it is told so, and a recorder of what it is asked.

    Args:
        starts: the call that starts a sub-agent.
    """

    def __init__(self, starts: str) -> None:
        self.starts = starts
        self.model = Model(self.answer)
        self.turns: list[dict[str, Any]] = []
        self._outputs: list[str] = []

    def answer(self, request: Request) -> str:
        output = self._answer(request)
        self._outputs.append(output)
        return output

    def _answer(self, request: Request) -> str:
        messages = [m for m in request.messages or [] if m["role"] not in ("system", "developer")]
        asked, last = [text(m) for m in messages if m["role"] == "user"], messages[-1]
        names = [t["function"]["name"] for t in request.tools or []]
        if any(TASK in one for one in asked[:2]):  # the sub-agent
            if last["role"] == "tool":
                return say("Sub done.")
            return call("Bash", {"command": "echo in"}) if "Bash" in names else call("exec_command", {"cmd": "echo in"})
        if last["role"] == "tool":
            started = re.search(r'"agent_id":"([^"]+)"', text(last))
            if started:
                return call("multi_agent_v1.wait_agent", {"targets": [started[1]], "timeout_ms": 30_000})
            return say("All done.")
        if "delegate" in asked[-1] and names:
            return self.starts
        if "title" in asked[-1]:
            return '{"title": "A title"}'
        return say(SUMMARY if re.search("<summary>|handoff summary", asked[-1]) else "Noted.")

    def listen(self, server: Live) -> None:
        """Record what a server is asked, one request at a time, so that each has its own output."""
        config, lock = server.server.config, asyncio.Lock()
        app: Any = config.loaded_app

        async def recording(scope: Any, receive: Any, send: Any) -> None:
            body = bytearray()

            async def heard() -> Any:
                message = await receive()
                body.extend(message.get("body", b""))
                return message

            if scope["type"] != "http" or scope["method"] != "POST":
                await app(scope, receive, send)
                return
            async with lock:
                before = len(self._outputs)
                await app(scope, heard, send)
                for output in self._outputs[before:]:
                    path = "/v1" + scope["path"].rpartition("/v1")[2]
                    self.turns.append({"path": path, "body": json.loads(bytes(body)), "output": output})

        config.loaded_app = recording

    def judge(self, name: str, found: Any, home: Path) -> None:
        """Check the rollout, and that of what was recorded."""
        if os.environ.get("RECORD"):
            write(name, self.turns, {str(home): "/home/agent", str(home).replace("/", "-"): "-home-agent"})
        check(found, self.model.record)
        wanted = [SHAPES[name], exchanged(SHAPES[name])]
        for one in (shape(found), shape(replayed(self.turns))):
            assert Shape(one.calls, sorted(one.rows)) in [Shape(w.calls, sorted(w.rows)) for w in wanted]


class Terminal:
    """Claude Code as a person sees it."""

    def __init__(self, url: str, key: str, home: Path, *arguments: str) -> None:
        work = home / "work"
        work.mkdir(exist_ok=True)
        known = {"hasCompletedOnboarding": True, "theme": "dark", "projects": {}}
        known["projects"] = {str(work): {"hasTrustDialogAccepted": True}}
        if not (home / ".claude.json").exists():
            (home / ".claude.json").write_text(json.dumps(known))
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TERM": "xterm-256color",
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_AUTH_TOKEN": key,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        claude = program("claude")
        self._history = home / ".claude" / "projects"
        self._process, self._screen = pty.fork()
        if not self._process:
            os.chdir(work)
            os.execve(claude, [claude, "--model", "served", "--allowedTools", "Bash", "Agent", *arguments], variables)
        fcntl.ioctl(self._screen, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.seen = ""

    def wait(self, pattern: str) -> None:
        """Wait until something is on the screen that was not there before the last `enter`."""
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, self.seen):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.seen[-2000:]}"
            if select.select([self._screen], [], [], 0.2)[0]:
                shown = os.read(self._screen, 1 << 16).decode(errors="replace")
                self.seen += re.sub(r"\x1b\[[0-9;?<>]*[a-zA-Z]|\s", "", shown)

    def wait_kept(self, answer: str, times: int) -> None:
        """Wait until its history has an answer so many times: it is written after the screen."""
        until(
            lambda: sum(f.read_text().count(f'"{answer}"') for f in self._history.glob("*/*.jsonl")) >= times, PATIENCE
        )

    def enter(self, line: str) -> None:
        os.write(self._screen, line.encode())
        self.wait(re.escape(line.replace(" ", "")))
        self.seen = ""
        os.write(self._screen, b"\r")

    def close(self) -> None:
        os.kill(self._process, signal.SIGTERM)
        os.waitpid(self._process, 0)
        os.close(self._screen)


@contextlib.contextmanager
def terminal(*arguments: Any) -> Iterator[Terminal]:
    found = Terminal(*arguments)
    try:
        found.wait("forshortcuts")
        yield found
    finally:
        found.close()


def test_claude_codes_titles_sub_agents_and_compaction_are_roots_and_another_prompt_is_a_fork(tmp_path: Path) -> None:
    given = {"description": "A subtask", "prompt": TASK, "subagent_type": "general-purpose", "run_in_background": False}
    agent = Agent(call("Agent", given))
    with live(agent.model, "hermes", prompts=template(), sessions=True, context=200_000) as server:
        session = made(server)
        agent.listen(server)
        with terminal(server.url, session["key"], tmp_path) as claude:
            for line, answer in (
                ("delegate now please", "Alldone"),
                ("and more please", "Noted"),
                ("/compact", r"Compacted\(ctrl"),
                ("after compaction", "Noted"),
            ):
                claude.enter(line)
                claude.wait(answer)
            claude.wait_kept("Noted.", 2)
        with terminal(
            server.url, session["key"], tmp_path, "--continue", "--append-system-prompt", "Be brief."
        ) as again:
            again.enter("and again please")
            again.wait("Noted")
        found = trajectory(server, session)
    agent.judge("claude-code", found, tmp_path)


def test_codex_sub_agents_and_compaction_are_roots_and_its_summary_a_fork(tmp_path: Path) -> None:
    agent = Agent(call("multi_agent_v1.spawn_agent", {"message": TASK}))
    with live(agent.model, "hermes", prompts=template(), sessions=True, context=200_000) as server:
        session = made(server)
        agent.listen(server)
        url = session["url"].removesuffix("/v1")
        codex(url, "served", tmp_path, "delegate now please")
        codex(url, "served", tmp_path, "resume", "--last", "and more")
        codex(url, "served", tmp_path, "-c", "model_auto_compact_token_limit=100", "resume", "--last", "go on")
        codex(url, "served", tmp_path, "resume", "--last", "and again")
        found = trajectory(server, session)
    agent.judge("codex", found, tmp_path)
