"""How `unspool serve` is operated: workers, logs, ids of requests, TLS. Real processes, as an operator starts them."""

import asyncio
import contextlib
import itertools
import json
import logging
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from unspool.server.logs import AccessLog, JsonLines, LineFormatter
from unspool.server.workers import ServerWorker

from .processes import Process
from .support import CHAT, HELLO, PATIENCE, until, write_lines


@pytest.fixture
def recording(tmp_path: Path) -> list[str]:
    lines: list[Any] = [{"type": "request"}, {"type": "chunk", "text": "hi"}]
    lines += [{"type": "chunk", "at": 1.5, "text": " there", "finish_reason": "stop"}]
    write_lines(tmp_path / "r.jsonl", *lines)
    return ["--engine", f"replay:{tmp_path / 'r.jsonl'}", "--dialect", "hermes"]


def ask(server: Process) -> int:
    return httpx2.post(server.url + CHAT, json={"messages": HELLO}, timeout=PATIENCE).status_code


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupt_ends_it_quietly(workers: str, recording: list[str]) -> None:
    with Process(*recording, "--workers", workers) as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE) == 130
    assert not [line for line in server.lines if "Traceback" in line or "Interrupt" in line]


@pytest.mark.processes
def test_workers_share_a_port_add_up_their_counts_come_back_and_drain_together(
    recording: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "unspool.toml"
    file.write_text('workers = 2\nlog-format = "json"\naccess-log = true\nreplay-speed = 0\n', encoding="utf-8")
    with Process(*recording, "--config", str(file)) as server:
        assert server.url, server.lines

        def workers() -> set[int]:
            return {line["process"] for line in server.logged() if line["logger"] == "unspool.access"}

        until(lambda: ask(server) == 200 and len(workers()) == 2, PATIENCE)
        total = httpx2.get(server.url + "/metrics").text
        counted = re.search(r'unspool_requests_total\{[^}]*status="200"\} (\d+)', total)
        answered = sum(line["logger"] == "unspool.access" and line["path"] == CHAT for line in server.logged())
        assert counted is not None
        assert int(counted[1]) == answered >= 2
        lost = workers().pop()
        assert lost != server.process.pid
        os.kill(lost, signal.SIGKILL)
        until(lambda: any("ended with -9" in line for line in server.lines))
        assert ask(server) == 200  # the other worker answers
        until(lambda: ask(server) == 200 and len(workers()) == 3)
        assert server.end() == 0
        assert all(not Path(f"/proc/{pid}").exists() for pid in workers())


@pytest.mark.processes
def test_what_workers_say_at_their_start_is_said_once(recording: list[str]) -> None:
    options = ["--threads", "1", "--workers", "2", "--replay-speed", "0", "--log-format", "json", "--access-log"]
    with Process(*recording, *options) as server:

        def workers() -> set[int]:
            return {json.loads(line)["process"] for line in server.lines if '"path"' in line}

        until(lambda: ask(server) == 200 and len(workers()) == 2, PATIENCE)
    assert sum("--threads: has no effect" in line for line in server.lines) == 1


@pytest.mark.processes
def test_workers_let_answers_end_and_the_first_one_tells_why_none_can_start(
    recording: list[str], tmp_path: Path
) -> None:
    with Process(*recording, "--workers", "2") as server:
        body = {"messages": HELLO, "stream": True}
        with httpx2.stream("POST", server.url + CHAT, json=body, timeout=PATIENCE) as response:
            parts = response.iter_text()
            streamed = next(parts)
            server.process.send_signal(signal.SIGTERM)
            streamed += "".join(parts)
        assert " there" in streamed
        assert "data: [DONE]" in streamed
        assert server.end() == 0
    with Process(*recording[:2], "--workers", "2", "--dialect", "hermse") as server:
        assert server.process.wait(PATIENCE) == 2
        assert server.lines == ["unspool serve: --dialect: " + server.lines[0].split("--dialect: ")[1]]


async def test_a_worker_whose_parent_is_gone_before_it_is_ready_ends_as_any_orphan(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    orphaned = asyncio.Event()
    with theirs:
        worker = ServerWorker(0, -1, theirs.fileno(), os.fspath(tmp_path))
        ours.close()
        async with worker.serving(lambda: "", orphaned.set), asyncio.timeout(10):
            await orphaned.wait()


@pytest.mark.processes
def test_the_log_begins_with_the_engine_and_a_command_that_asks_it(recording: list[str]) -> None:
    with Process(*recording, "--api-key", "k") as server:
        until(lambda: any("try: curl " in line for line in server.lines))
        first, second = (line for line in server.lines if "listening on" in line or "try: curl" in line)
        assert first.endswith(f"; engine={recording[1]}\n")
        words = shlex.split(second.partition("try: ")[2])
        headers = dict(word.split(": ") for before, word in itertools.pairwise(words) if before == "-H")
        asked = {**headers, "Authorization": headers["Authorization"].replace("KEY", "k")}
        answer = httpx2.post(words[1], content=words[-1], headers=asked, timeout=PATIENCE)
    assert answer.json()["choices"][0]["message"]["content"] == "hi there"


def test_each_request_is_a_line_of_the_access_log(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"x-request-id", b"abc")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"12", "more_body": True})
        if scope["path"] == "/cut":
            raise ConnectionError
        await send({"type": "http.response.body", "body": b"3"})

    async def send(message: Any) -> None:
        pass

    async def ask(path: str) -> None:
        with contextlib.suppress(ConnectionError):
            await AccessLog(app)({"type": "http", "method": "GET", "path": path, "client": ("::1", 5)}, None, send)  # type: ignore[arg-type]

    caplog.set_level(logging.INFO, "unspool.access")
    asyncio.run(ask("/a\n"))
    asyncio.run(ask("/cut"))
    whole, cut = caplog.records
    assert re.fullmatch(r'::1:5 GET "/a\\n" 200 3 B 0\.\d+ s abc', whole.getMessage())
    assert '"/cut" 200 (cut) 2 B' in cut.getMessage()
    line = json.loads(JsonLines().format(cut))
    assert (line["level"], line["path"], line["complete"], line["request_id"]) == ("info", "/cut", False, "abc")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])


def test_nothing_that_is_logged_begins_a_line_or_steers_a_terminal() -> None:
    forged = "a\nERROR unspool: forged\r\x1b[2J\x9b\u2028\u202e"
    try:
        raise RuntimeError(forged)
    except RuntimeError:
        record = logging.LogRecord("x", logging.ERROR, "", 1, "it %s", (forged,), sys.exc_info())
    text = JsonLines().format(record)
    assert "\n" not in text
    assert json.loads(text)["message"] == f"it {forged}"
    assert f"RuntimeError: {forged}" in json.loads(text)["exception"]
    first, *traceback = LineFormatter("%(levelname)s: %(message)s").format(record).split("\n")
    assert first == r"ERROR: it a\nERROR unspool: forged\r\x1b[2J\x9b\u2028\u202e"
    assert len(traceback) > 2
    assert all(line.startswith("  ") and line.isprintable() for line in traceback)


@pytest.mark.processes
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_a_certificate_makes_it_https(recording: list[str], tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    line = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    line += f" -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}"
    subprocess.run(line.split(), check=True, capture_output=True)
    trust = ssl.create_default_context(cafile=str(certificate))
    with Process(*recording, "--replay-speed", "0", "--ssl-certfile", str(certificate), "--ssl-keyfile", str(key)) as s:
        assert s.url.startswith("https://"), s.lines
        answer = httpx2.post(s.url + CHAT, json={"messages": HELLO}, verify=trust, timeout=PATIENCE)
        assert answer.json()["choices"][0]["message"]["content"] == "hi there"
        assert any(f"curl {s.url}" in line for line in s.lines)
        assert s.end() in (0, -signal.SIGTERM)  # uvicorn ends itself with the signal
    with Process(*recording, "--ssl-certfile", str(key)) as wrong:
        assert wrong.process.wait(PATIENCE) == 2
        assert wrong.lines[0].startswith(f"unspool serve: --ssl-certfile: {key}: ")
        assert len(wrong.lines) == 1
