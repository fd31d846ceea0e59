"""A server process to attack, its own reports, and what must hold after an attack."""

import base64
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.loopback import ask
from tests.server.processes import Process
from tests.server.support import until
from tests.server.workshop import call
from tests.tokenizer import FOLDER

from .upstream import upstream

CHAT = "/v1/chat/completions"
PATIENCE = 45.0
"""Seconds after which a test fails whatever the machine does; fewer than the default limits of a stalled client."""
QUICK = "the quick question"
"""A message that the recordings answer at once; they answer everything else slowly."""
FLOOD = "the flood"
"""A message that the recordings answer with twenty megabytes, as fast as they can."""
TEMPLATE = ("--tokenizer", str(FOLDER), "--engine-kind", "vllm")
"""The options of a server in front of `upstream`."""
TOOL_SERVER = Path(__file__).with_name("tool_server.py")
GROWTH = 100 * 1024
"""KiB that a second identical attack may add."""


class Victim(Process):
    """A process that serves."""

    ends_with = signal.SIGKILL

    def ask(self, path: str, body: Any = None, timeout: float = PATIENCE) -> tuple[int, str]:
        """The status and the text of an answer."""
        return ask(self.url + path, body, timeout)

    def gauges(self) -> dict[str, int]:
        """The current values of the gauges of `/metrics`."""
        names = "open_streams|generations|waiting|held_bytes|queued_events"
        return {k: int(v) for k, v in re.findall(rf"^unspool_({names}) (\d+)$", self.ask("/metrics")[1], re.M)}

    def sockets(self) -> int:
        """How many TCP sockets the process has open. The pipes to its tool servers, which may end and start again at
        any time, are sockets of another kind."""
        process = Path(f"/proc/{self.process.pid}")
        listed = [
            line.split() for table in ("tcp", "tcp6") for line in (process / "net" / table).read_text().splitlines()
        ]
        inodes = {f"socket:[{fields[9]}]" for fields in listed}
        found = 0
        for entry in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                found += os.readlink(entry) in inodes
        return found

    def rss(self) -> int:
        """The memory of the server and its children, in KiB."""
        listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,rss="], capture_output=True, text=True, check=True)
        rows = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
        family = {self.process.pid}
        for _ in range(3):
            family |= {pid for pid, parent, _ in rows if parent in family}
        return sum(size for pid, _, size in rows if pid in family)

    def stopwatch(self) -> Callable[[], float]:
        """Count seconds from now on, without those for which the server or this process waits for a processor."""

        def now() -> float:
            queued = (Path(f"/proc/{pid}/schedstat").read_text().split()[1] for pid in (os.getpid(), self.process.pid))
            return time.monotonic() - sum(map(int, queued)) / 1e9

        began = now()
        return lambda: now() - began

    def small(self) -> float:
        """Seconds that a small request takes. If the server is full, the request is sent again, as clients do."""
        taken = self.stopwatch()
        status, text = 429, ""
        while status == 429 and taken() < PATIENCE:
            status, text = self.ask(CHAT, {"messages": [{"role": "user", "content": QUICK}], "max_tokens": 4})
        assert status == 200, text
        return taken()


def victim(engine: str, *options: str) -> Victim:
    """`unspool serve` with an engine."""
    return Victim("--engine", engine, *options)


@contextlib.contextmanager
def computing(*options: str) -> Iterator[Victim]:
    """A server with a tokenizer, a chat template and grammars, in front of a scripted engine at a URL."""
    with upstream() as engine:
        engine.start()
        with victim(f"http://127.0.0.1:{engine.port}", *TEMPLATE, *options) as server:
            yield server


def recordings(folder: Path) -> str:
    """An engine that answers `QUICK` and `FLOOD` at once, and everything else for a hundred seconds."""
    lines: list[dict[str, Any]] = [
        {"type": "request", "match": QUICK},
        {"type": "chunk", "text": "Hello.", "finish_reason": "stop"},
        {"type": "request", "match": FLOOD},
        *({"type": "chunk", "text": "x" * 20_000} for _ in range(1000)),
        {"type": "chunk", "finish_reason": "stop"},
        {"type": "request"},
        *({"type": "chunk", "at": i * 0.1, "text": "word " * 20} for i in range(1000)),
    ]
    return _written(folder / "slow.jsonl", lines)


def workshop(folder: Path, other: str = "") -> Path:
    """The configuration of a server with two models and with tools that it runs.

    One model answers with calls of the tools (`TOOL_SERVER`), which the words of the last message select. The other has
    the engine at the URL ``other`` and grammars, or the same engine.
    """
    lines: list[dict[str, Any]] = []
    calls = {
        QUICK: "Hello.",
        **{f"{name} it": call(name) for name in ("guarded", "add", "hang", "flood", "die", "split")},
    }
    calls["add many"] = "\n".join(call("add", a=i) for i in range(200))
    calls["hang many"] = "\n".join(call("hang", a=i) for i in range(200))
    for words, text in calls.items():
        lines += [{"type": "request", "match": words}, {"type": "chunk", "text": text, "finish_reason": "stop"}]
    lines += [{"type": "request"}, {"type": "chunk", "text": "It is done.", "finish_reason": "stop"}]
    free = {"always": {"tool_names": ["guarded"]}, "never": {"tool_names": ["add", "hang", "flood", "die", "split"]}}
    program = {"command": sys.executable, "args": [str(TOOL_SERVER)], "require_approval": free}
    tools = folder / "tools.json"
    tools.write_text(json.dumps({"mcpServers": {"shop": program}}))
    engine = _written(folder / "calls.jsonl", lines)
    key = base64.b64encode(bytes(32)).decode()
    config = folder / "config.toml"
    model = f"engine = '{engine}'\ndialect = 'hermes'\n"
    second = f"engine = '{other}'\nengine-kind = 'vllm'\ntokenizer = '{FOLDER}'\n" if other else model
    config.write_text(
        f"mcp-config = '{tools}'\nreasoning-key = '{key}'\n[models.scripted]\n{model}[models.other]\n{second}"
    )
    return config


def _written(file: Path, lines: list[dict[str, Any]]) -> str:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"replay:{file}"


def slowness() -> float:
    """How many times as long computing takes now as on a machine that does nothing else."""
    began, computed = time.monotonic(), time.thread_time()
    while time.thread_time() - computed < 0.1:
        pass
    return (time.monotonic() - began) / 0.1


def attacks(server: Victim) -> Iterator[None]:
    """Two attacks, which the loop's body makes. After each, a small request must be answered within two seconds (more
    on a machine that computes other things too), and nothing may be left behind."""
    server.small()
    idle = server.sockets()
    sizes = []
    for _ in range(2):
        slow = slowness()
        yield
        assert server.small() < 2.0 * slow
        until(lambda: not any(server.gauges().values()) and server.sockets() <= idle, PATIENCE)
        assert server.ask("/health")[0] == 200
        sizes.append(server.rss())
    assert sizes[1] - sizes[0] < GROWTH, sizes
    assert not [line for line in server.lines if "Traceback" in line or line.startswith("ERROR")], server.lines
