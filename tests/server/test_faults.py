"""Load and faults against a running server: clients that leave, stall or find it full, and engines that fail."""

import asyncio
import contextlib
import json
import re
import signal
import socket
import time
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from unspool.engines import Delta, EngineError, Request
from unspool.wire import Usage

from .processes import Process
from .support import (
    CHAT,
    HEAD,
    HELLO,
    MINIMAL,
    PATIENCE,
    USAGE,
    Live,
    Scripted,
    chunks,
    live,
    replay,
    until,
    write_lines,
)

BIG = ["x" * 20_000] * 1000


def service(server: Live) -> Any:
    return server.server.config.app.state.service  # type: ignore[union-attr]


# -- clients that go away ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "stream"), [(CHAT, True), (CHAT, False), ("/ui/chat", True)])
@pytest.mark.parametrize("after", [0, 2])
def test_a_client_that_goes_away_cancels_its_engine(path: str, stream: bool, after: int) -> None:
    with live(Scripted(["a", "b", "c"], hang_after=after)) as server:
        connection = server.request(path, messages=HELLO, stream=stream)
        until(server.engine.hanging.is_set)
        connection.close()
        until(lambda: server.engine.cancelled == 1)
        until(lambda: not service(server).runs)
        assert server.engine.running == 0
        until(lambda: 'status="cancelled"} 1' in server.http.get("/metrics").text)


def test_a_client_that_goes_away_while_waiting_leaves_the_queue() -> None:
    with live(Scripted(["a"], hang_after=1), generations=1) as server:
        first = server.request(messages=HELLO)
        until(server.engine.hanging.is_set)
        second = server.request(messages=HELLO)
        until(lambda: service(server).admission.waiting == 1)
        second.close()
        until(lambda: service(server).admission.waiting == 0)
        first.close()
        until(lambda: service(server).admission.running == 0)
    assert len(server.engine.requests) == 1


def test_a_client_that_breaks_off_its_request_leaves_nothing_behind() -> None:
    with live(Scripted(["a"])) as server:
        connection = server.connect()
        connection.sendall(f"POST {CHAT} {HEAD}Content-Length: 100\r\n\r\n{{".encode())
        until(lambda: server.server.server_state.connections)
        connection.close()
        assert server.post(messages=HELLO).status_code == 200
    assert len(server.engine.requests) == 1


# -- clients that do not read ------------------------------------------------------------------------------------------


def test_a_client_that_does_not_read_stalls_its_own_engine_and_nobody_else() -> None:
    with live(Scripted(BIG), queue=50, output=1 << 30) as server:
        slow = server.request(messages=HELLO, stream=True)
        pulled = -1
        while pulled != server.engine.pulled:  # until the engine pauses
            pulled = server.engine.pulled
            time.sleep(0.3)
        assert pulled < len(BIG)
        (run,) = service(server).runs
        assert run.queued <= 51
        server.engine.pieces = ["quick"]
        assert server.post(messages=HELLO).json()["choices"][0]["message"]["content"] == "quick"
        server.engine.pieces = BIG
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        received = b""
        while b"[DONE]" not in received[-100:]:  # the client reads now, and gets everything
            received += slow.recv(1 << 20)
        slow.close()
    assert received.count(b"x" * 20_000) == len(BIG)


# -- overload ----------------------------------------------------------------------------------------------------------


def test_requests_beyond_the_slots_wait_and_those_beyond_the_queue_are_refused() -> None:
    with live(Scripted(["a"], hang_after=1), generations=2, waiting=1) as server:
        running = [server.request(messages=HELLO, stream=True) for _ in range(2)]
        until(lambda: server.engine.running == 2)
        waiting = server.request(messages=HELLO)
        until(lambda: service(server).admission.waiting == 1)
        refused = server.post(messages=HELLO)
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert refused.json()["error"]["type"] == "rate_limit_error"
        with pytest.raises(openai.RateLimitError):
            server.openai.chat.completions.create(model="m", messages=HELLO)
        server.engine.hang_after = None
        running[0].close()
        answer = b""
        while b"completion" not in answer:
            answer += waiting.recv(65_536)
        for connection in (running[1], waiting):
            connection.close()
    assert server.engine.most_running == 2


def test_an_output_that_ends_early_has_its_place_until_its_engine_has_stopped() -> None:
    class Tardy(Scripted):
        async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            try:
                yield Delta(text="aEND.")
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.1)
                self.running -= 1

    engine = Tardy([])
    with live(engine, "hermes", generations=1) as server, ThreadPoolExecutor(3) as pool:
        answers = pool.map(lambda _: server.post(messages=HELLO, stop="END").json(), range(3))
        assert [answer["choices"][0]["message"]["content"] for answer in answers] == ["a"] * 3
    assert engine.most_running == 1


# -- engines that fail -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/v1/messages"])
def test_an_overloaded_engine_tells_the_client_when_to_retry(path: str) -> None:
    overloaded = EngineError("the engine is overloaded", 429, retry_after=17)
    with live(Scripted(["a"], fail_after=0, error=overloaded)) as server:
        answer = server.post(path, **MINIMAL[path])
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "17")


def test_an_engine_that_fails_later_is_the_protocols_error_and_other_streams_go_on() -> None:
    with live(Scripted(["a", "b", "c"], hang_after=3)) as server:
        other = server.request(messages=HELLO, stream=True)
        until(server.engine.hanging.is_set)
        server.engine.fail_after, server.engine.hang_after = 2, None
        sent = chunks(server.post(messages=HELLO, stream=True).text)
        assert sent[-1]["error"]["message"] == "the device is lost"
        with pytest.raises(openai.APIError, match="the device is lost"):
            list(server.openai.chat.completions.create(model="m", messages=HELLO, stream=True))
        assert server.post(messages=HELLO).status_code == 500
        until(lambda: len(service(server).runs) == 1)
        other.close()


def test_unexpected_errors_of_an_engine_are_logged_and_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    with live(Scripted(["a"], fail_after=0, error=RuntimeError("a secret path"))) as server:
        answer = server.post(messages=HELLO)
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "a secret path" in caplog.text


def test_one_choice_that_fails_ends_the_others() -> None:
    with live(Scripted(["a", "b"], fail_after=1)) as server:
        sent = chunks(server.post(messages=HELLO, n=3, stream=True).text)
    assert "error" in sent[-1]
    assert server.engine.running == 0


def test_health_reports_an_engine_that_cannot_generate() -> None:
    with live(Scripted([])) as server:
        assert server.http.get("/health").json() == {"status": "ok"}
        server.engine.sick = "warming up"
        answer = server.http.get("/health")
    assert (answer.status_code, answer.json()["message"]) == (503, "warming up")
    assert server.engine.closed


# -- notices -----------------------------------------------------------------------------------------------------------


def test_notices_are_logged_with_the_id_of_the_response(caplog: pytest.LogCaptureFixture) -> None:
    with live(replay("<think>never closed"), "deepseekv31") as server:
        answer = server.post(messages=HELLO)
        counts = server.http.get("/metrics").text
    id = answer.json()["id"]
    assert answer.headers["x-request-id"] == id
    assert any(id in r.getMessage() and "unclosed_reasoning" in r.getMessage() for r in caplog.records)
    assert 'unspool_notices_total{dialect="deepseekv31",kind="unclosed_reasoning"} 1' in counts


@pytest.mark.parametrize("usage", [USAGE, Usage(prompt_tokens=3, completion_tokens=2)])
def test_tokens_of_reasoning_are_counted_only_where_the_engine_tells_them(usage: Usage) -> None:
    with live(Scripted(["x"], usage=usage)) as server:
        server.post(messages=HELLO)
        counts = server.http.get("/metrics").text
    assert re.search(rf'unspool_tokens_total\{{.*kind="completion"\}} {usage.completion_tokens}\n', counts)
    found = re.findall(r'unspool_tokens_total\{.*kind="reasoning"\} (\d+)', counts)
    assert found == ([] if usage.reasoning_tokens is None else [str(usage.reasoning_tokens)])


# -- the end -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def slow(tmp_path: Path, pause: float, count: int, *options: str) -> Iterator[tuple[Process, int]]:
    """`unspool serve` in its own process, with slow answers, and its port."""
    lines: list[dict[str, Any]] = [{"type": "request"}]
    lines += [{"type": "chunk", "at": i * pause, "text": f"{i} "} for i in range(count)]
    recording = tmp_path / "slow.jsonl"
    write_lines(recording, *lines)
    with Process("--dialect", "hermes", "--engine", f"replay:{recording}", *options) as running:
        yield running, running.port


def read_all(connection: socket.socket) -> bytes:
    received = b""
    with connection:
        while data := connection.recv(65_536):
            received += data
    return received


def ask(port: int) -> socket.socket:
    body = json.dumps({"messages": HELLO, "stream": True})
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    connection.sendall(f"POST {CHAT} {HEAD}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    assert b"200 OK" in connection.recv(65_536)
    return connection


def test_after_sigterm_running_answers_are_completed_and_new_ones_refused(tmp_path: Path) -> None:
    with slow(tmp_path, 0.05, 30) as (running, port):
        connection = ask(port)
        running.process.send_signal(signal.SIGTERM)
        received = read_all(connection)
        assert b"[DONE]" in received
        assert b"29 " in received
        running.process.wait(PATIENCE)
        with pytest.raises(OSError):  # noqa: PT011  # nothing listens any more
            socket.create_connection(("127.0.0.1", port), timeout=1)


def test_after_sigterm_and_the_deadline_answers_end_with_an_error(tmp_path: Path) -> None:
    with slow(tmp_path, 1.0, 100, "--max-drain", "0.5") as (running, port):
        connection = ask(port)
        running.process.send_signal(signal.SIGTERM)
        received = read_all(connection)
        assert b"the server is shutting down" in received
        running.process.wait(PATIENCE)


def test_an_internal_error_is_reported_in_the_protocols_form(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise LookupError("a secret path")

    monkeypatch.setattr("unspool.server.protocol_endpoint.prepare", broken)
    with live(Scripted(["a"])) as server:
        answer = server.post(messages=HELLO)
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, "internal server error")
    assert "a secret path" in caplog.text
