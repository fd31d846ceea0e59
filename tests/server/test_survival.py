"""What a server guarantees whatever its clients do: places, limits, origins, ids and counts."""

import asyncio
import contextlib
import gc
import json
import stat
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from unspool.engines import Capture, Delta, Request
from unspool.generation.admission import Admission
from unspool.generation.run import Run
from unspool.request.fields import Fields
from unspool.wire import Usage

from .support import CHAT, HEAD, HELLO, USAGE, WEATHER, Scripted, chunks, live, replay, until

CALLS = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "%s"}}\n</tool_call>'
TWO = f"{CALLS % 'Oslo'}\n{CALLS % 'Rome'} and more"


# -- places ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wide", [1, 3])
async def test_slots_are_not_lost_when_running_and_waiting_clients_leave_at_once(wide: int) -> None:
    admission = Admission(6, 1000)
    held = asyncio.Event()

    async def client() -> None:
        async with admission.places(wide):
            await held.wait()

    for _ in range(3):
        tasks = [asyncio.ensure_future(client()) for _ in range(60)]
        await asyncio.sleep(0)
        assert admission.running == 6
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (admission.running, admission.waiting) == (0, 0)
        for order in (slice(None, None, -1), slice(6, None), slice(0, None, 2)):
            tasks = [asyncio.ensure_future(client()) for _ in range(60)]
            await asyncio.sleep(0)
            for task in tasks[order]:
                task.cancel()
            held.set()
            await asyncio.gather(*tasks, return_exceptions=True)
            held.clear()
            assert (admission.running, admission.waiting) == (0, 0)


async def test_a_client_is_admitted_to_a_full_queue_whose_clients_are_leaving() -> None:
    admission = Admission(1, 2)

    async def client(held: asyncio.Event) -> None:
        async with admission.places(1):
            await held.wait()

    never, done = asyncio.Event(), asyncio.Event()
    done.set()
    leaving = [asyncio.ensure_future(client(never)) for _ in range(3)]
    await asyncio.sleep(0)
    last = asyncio.ensure_future(client(done))
    await asyncio.sleep(0.05)
    assert (admission.running, admission.waiting) == (1, 2)
    for task in leaving:
        task.cancel()
    await last
    assert (admission.running, admission.waiting) == (0, 0)


def test_the_bytes_held_by_all_requests_are_limited() -> None:
    with live(Scripted(["a"], hang_after=1), held=10_000) as server:
        long = [{"role": "user", "content": "x" * 6000}]
        first = server.request(messages=long)
        until(server.engine.hanging.is_set)
        refused = server.post(messages=long)
        assert (refused.status_code, "retry-after" in refused.headers) == (429, True)
        alone = server.post(messages=long * 2)  # too large without the others, too
        assert (alone.status_code, "retry-after" in alone.headers) == (413, False)
        first.close()
        server.engine.hang_after = None
        until(lambda: server.post(messages=long).status_code == 200)


@contextlib.contextmanager
def uncollected() -> Iterator[Callable[[type], bool]]:
    """Without the garbage collector. Yields whether an object of a class, made since then, is held."""
    gc.collect()
    gc.freeze()  # older objects need not be looked at
    gc.disable()
    try:
        yield lambda kind: any(isinstance(held, kind) for held in gc.get_objects())
    finally:
        gc.enable()
        gc.unfreeze()


@pytest.mark.parametrize("failing", [True, False])
@pytest.mark.parametrize("body", [{}, {"stream": True}, {"n": 3}, {"n": 3, "stream": True}])
def test_what_an_answer_held_is_free_when_it_ends_without_the_garbage_collector(
    body: dict[str, Any], failing: bool
) -> None:
    engine = Scripted(["a"], fail_after=1) if failing else Scripted(["a"], hang_after=1)
    with uncollected() as held, live(engine) as server:
        for _ in range(2):
            one = server.request(messages=HELLO, **body)
            if failing:
                assert one.recv(10_000)
            else:
                until(lambda: engine.running == body.get("n", 1))
            one.close()
            until(lambda: not server.server.server_state.connections)
            engine.error.with_traceback(None)  # this engine keeps its error
            until(lambda: not held(Run))


@pytest.mark.parametrize(
    "path", [CHAT, "/v1/responses", "/v1/messages", "/v1/messages/count_tokens", "/ag-ui", "/parse"]
)
@pytest.mark.parametrize("size", [1, 100_000])
def test_what_a_refused_request_held_is_free_at_once_without_the_garbage_collector(path: str, size: int) -> None:
    with uncollected() as held, live(Scripted(["a"])) as server:
        wrong: Any = ["x" * size]
        assert server.post(path, messages=wrong, input=wrong, text=wrong).status_code in (400, 422, 501)
        until(lambda: not held(Fields))


class Ready(Scripted):
    """Has all its pieces ready at once, and counts the loop's turns until they are taken."""

    turns = 0

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        loop = asyncio.get_running_loop()

        def turn() -> None:
            self.turns += 1
            self.next = loop.call_soon(turn)

        turn()
        for piece in self.pieces:
            time.sleep(0.001)  # which taking it costs
            yield Delta(text=str(piece))
        self.next.cancel()
        yield Delta(finish_reason="stop", usage=USAGE)


@pytest.mark.parametrize("stream", [True, False])
def test_an_engine_that_has_much_ready_does_not_hold_up_others(stream: bool) -> None:
    engine = Ready(["a"] * 160)
    with live(engine, "hermes") as server:
        assert '"finish_reason":"stop"' in server.post(messages=HELLO, stream=stream).text
    assert engine.turns >= 8


# -- limits of a connection --------------------------------------------------------------------------------------------


def test_a_head_that_does_not_come_in_time_is_refused_and_a_connection_that_says_nothing_closed() -> None:
    with live(Scripted(["a"]), head=1, receive=1) as server:
        slow, silent, body = server.connect(), server.connect(), server.connect()
        slow.sendall(b"GET /health HTTP/1.1\r\nHo")
        body.sendall(f"POST {CHAT} {HEAD}Content-Length: 100\r\n\r\n{{".encode())
        assert slow.recv(100).startswith(b"HTTP/1.1 408 ")
        assert body.recv(100).startswith(b"HTTP/1.1 408 ")
        assert silent.recv(100) == b""
        until(lambda: not server.server.server_state.connections)


def test_a_connection_is_kept_for_the_next_request_and_then_closed() -> None:
    with live(Scripted(["a"]), idle=1) as server:
        kept = server.connect()
        for _ in range(2):
            kept.sendall(f"GET /health {HEAD}\r\n".encode())
            assert kept.recv(1000).startswith(b"HTTP/1.1 200 ")
        assert kept.recv(100) == b""


def test_a_body_in_chunks_of_one_byte_with_headers_behind_it_is_read() -> None:
    with live(replay("Hello."), "hermes", headers=300) as server:
        one, body = server.connect(), json.dumps({"messages": HELLO}).encode()
        parts = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
        one.sendall(f"POST {CHAT} {HEAD}Transfer-Encoding: chunked\r\n\r\n".encode() + parts + b"0\r\nX: y\r\n\r\n")
        assert one.recv(1000).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("wish", ["h2c", "websocket"])
def test_a_wish_for_another_protocol_is_ignored_and_the_body_is_read(wish: str) -> None:
    body = json.dumps({"messages": HELLO}).encode()
    head = f"{HEAD}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {wish}\r\nContent-Length: {len(body)}\r\n\r\n"
    asked = f"POST {CHAT} {head}".encode() + body
    with live(replay("Hello."), "hermes") as server:
        for pieces in (1, 7, len(asked)):
            one = server.connect()
            size = -(-2 * len(asked) // pieces)
            for at in range(0, 2 * len(asked), size):
                one.sendall((asked * 2)[at : at + size])
            answers = b""
            while answers.count(b"Hello.") < 2:
                more = one.recv(4096)
                assert more, answers
                answers += more
            assert answers.count(b"HTTP/1.1 200 ") == 2
        one = server.connect()
        one.sendall(b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert one.recv(1000).startswith(b"HTTP/1.1 400 ")


# -- origins, ids, keys ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "cors", "allowed"),
    [
        ("http://localhost:3000", (), True),
        ("http://127.0.0.1", (), True),
        ("http://[::1]:8080", (), True),
        ("https://example.org", (), False),
        ("http://localhost.example.org", (), False),
        ("http://localhost@example.org", (), False),
        ("http://localhost/example.org", (), False),
        ("http://example.org@localhost", (), False),
        ("http://example.org\\@localhost", (), False),
        ("null", (), False),
        ("https://example.org", ("https://example.org",), True),
        ("https://example.org:8443", ("https://example.org",), False),
        ("https://example.org", ("*",), True),
    ],
)
def test_pages_of_the_loopback_and_of_named_origins_may_ask(origin: str, cors: tuple[str, ...], allowed: bool) -> None:
    with live(Scripted(["a"]), cors=cors) as server:
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-a"}
        before = server.http.options(CHAT, headers=asked)
        answer = server.http.post(CHAT, json={"messages": HELLO, "stream": True}, headers={"Origin": origin})
        if allowed:
            assert (before.status_code, answer.status_code) == (200, 200)
            assert before.headers["access-control-allow-headers"] == "x-a"
            assert "POST" in before.headers["access-control-allow-methods"]
            assert {a.headers["access-control-allow-origin"] for a in (before, answer)} == {origin}
        else:
            assert (before.status_code, answer.status_code) == (403, 403)
            assert "access-control-allow-origin" not in before.headers
            assert "--cors" in answer.json()["error"]["message"]


@pytest.mark.parametrize("stream", [True, False])
def test_the_clients_own_id_of_a_request_is_reported_again(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    with live(replay("<think>never closed"), "deepseekv31") as server:
        ask = {"messages": HELLO, "stream": stream}
        answer = server.http.post(CHAT, json=ask, headers={"X-Request-Id": "mine-7"})
        wrong = server.http.post(CHAT, json={}, headers={"X-Request-Id": "mine-8"})
        long = server.http.post(CHAT, json=ask, headers={"X-Request-Id": "x" * 129})
    assert (answer.headers["x-request-id"], wrong.headers["x-request-id"]) == ("mine-7", "mine-8")
    assert long.headers["x-request-id"].startswith("chatcmpl-")
    assert "(mine-7)" in caplog.text


async def test_only_their_owner_may_read_captures(tmp_path: Path) -> None:
    engine = Capture(Scripted(["a"]), tmp_path / "c", dialect="hermes")
    assert [d.text async for d in engine.generate(Request())] == ["a", ""]
    file = next((tmp_path / "c").iterdir())
    assert [stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "c", file)] == [0o700, 0o600]


# -- one call, no call -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "function": {"name": "get_weather"}}])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_without_parallel_calls_the_answer_ends_after_the_first(choice: Any, size: int) -> None:
    ask = {"messages": HELLO, "tools": [WEATHER], "tool_choice": choice, "parallel_tool_calls": False}
    with live(replay(TWO, size=size), "hermes", named_reason="tool_calls") as server:
        answer = server.post(**ask).json()
        streamed = chunks(server.post(**ask, stream=True, stream_options={"include_usage": True}).text)
    whole = answer["choices"][0]
    assert [c["function"]["arguments"] for c in whole["message"]["tool_calls"]] == ['{"city": "Oslo"}']
    assert (whole["message"]["content"], whole["finish_reason"]) == (None, "tool_calls")
    assert answer["usage"]["completion_tokens"] > 0
    assert {c["index"] for x in streamed for y in x["choices"] for c in y["delta"].get("tool_calls") or ()} == {0}
    assert streamed[-1]["usage"]["completion_tokens"] > 0
    assert [y["finish_reason"] for x in streamed for y in x["choices"] if y["finish_reason"]] == ["tool_calls"]


def test_anthropics_disable_parallel_tool_use_is_honoured() -> None:
    tool = {"name": "get_weather", "input_schema": WEATHER["function"]["parameters"]}
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    with live(replay(TWO), "hermes") as server:
        ask = {"max_tokens": 9, "messages": HELLO, "tools": [tool], "tool_choice": choice}
        answer = server.post("/v1/messages", **ask).json()
    assert [b["type"] for b in answer["content"]] == ["tool_use"]
    assert answer["stop_reason"] == "tool_use"


# -- counts and times --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reported", [None, Usage(prompt_tokens=11, completion_tokens=1)])
def test_usage_is_reported_where_a_stop_string_ends_the_answer(reported: Usage | None) -> None:
    later = (Delta(text=t, token_ids=(2,)) for t in ["b", "c", "STOP", "d"])
    pieces = [Delta(text="a", token_ids=(1,), usage=reported), *later]
    with live(Scripted(pieces), "hermes") as server:
        whole = server.post(messages=HELLO, stop="STOP").json()["usage"]
        anthropic = server.post("/v1/messages", max_tokens=9, messages=HELLO, stop_sequences=["STOP"]).json()["usage"]
        ask = {"messages": HELLO, "stop": "STOP", "stream": True, "stream_options": {"include_usage": True}}
        streamed = chunks(server.post(**ask).text)[-1]["usage"]
    assert (whole["completion_tokens"], whole["prompt_tokens"]) == (4, 11 if reported else 0)
    assert whole == streamed
    assert anthropic["output_tokens"] == 4


def test_the_mindie_profile_measures_times_that_no_engine_tells() -> None:
    class Slow(Scripted):
        async def generate(self, request: Request) -> Any:
            async for delta in super().generate(request):
                await asyncio.sleep(0.02)
                yield delta

    with live(Slow(["a", "b", "c"]), "hermes", profile="mindie") as server:
        usage = server.post(messages=HELLO).json()["usage"]
    assert usage["prefill_time"] >= 20
    assert len(usage["decode_time_arr"]) == 2
    assert all(time >= 20 for time in usage["decode_time_arr"])
