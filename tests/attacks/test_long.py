"""The attacks with a thousand clients and with the default times: `make attacks`."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import victim as victims
from .clients import SLOW, Leaving, burst, dribble, hold, never_read, request
from .test_attacks import BODIES, FLOODED, HOSTILE, STREAM, call, of
from .upstream import upstream
from .victim import CHAT, TEMPLATE, Victim, recordings, survives, victim

pytestmark = pytest.mark.attacks


@pytest.fixture(scope="module")
def replaying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """A server whose answers take long, with the default limits."""
    with victim(recordings(tmp_path_factory.mktemp("r")), "--dialect", "hermes") as server:
        yield server


@pytest.fixture(scope="module")
def computing() -> Iterator[Victim]:
    """A server with a tokenizer, a chat template and grammars, with the default limits."""
    with victims.computing() as server:
        yield server


@pytest.mark.parametrize("leaving", ["at once", "one by one"])
@pytest.mark.parametrize("after", [0.0, 0.5, 3.0, "byte"])
def test_a_thousand_clients_that_leave_leak_nothing(replaying: Victim, leaving: Leaving, after: str | float) -> None:
    survives(replaying, lambda: burst(replaying.port, 1000, leaving, bodies=BODIES, after=after))


@pytest.mark.parametrize("leaving", ["at once", "one by one"])
def test_the_server_survives_a_thousand_clients_of_a_model_that_computes(computing: Victim, leaving: Leaving) -> None:
    bodies = [STREAM, call(of(city={"type": "string"}), n=4), {**SLOW, "n": 16}]
    survives(computing, lambda: burst(computing.port, 1000, leaving, bodies=bodies, after=2.0))


def test_clients_that_never_read_are_given_up_after_the_default_time(replaying: Victim) -> None:
    given_up = []
    survives(replaying, lambda: given_up.append(never_read(replaying, 90, FLOODED, 65)), patience=30)
    assert given_up == [90, 90]


def test_slow_heads_and_bodies_are_refused_after_the_default_times(replaying: Victim) -> None:
    head = request(SLOW).replace(b"Host: localhost", b"Host: localhost\r\nX: " + b"x" * 2000)
    body = (
        f"POST {CHAT} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 99999\r\n\r\n".encode()
        + b"x" * 2000
    )
    answers: list[bytes] = []
    survives(replaying, lambda: answers.extend(dribble(replaying.port, 100, head, 30)))
    assert all(b" 408 " in answer for answer in answers)
    answers.clear()
    survives(replaying, lambda: answers.extend(dribble(replaying.port, 100, body, 90)))
    assert all(b" 408 " in answer for answer in answers)
    survives(replaying, lambda: dribble(replaying.port, 500, b"", 30))


def test_the_server_survives_long_texts_and_prompts_of_clients_that_leave(replaying: Victim, computing: Victim) -> None:
    calls = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>\n'
    bodies = [{"text": calls * (4_000_000 // len(calls)), "format": "events"}]
    survives(replaying, lambda: burst(replaying.port, 60, "at once", bodies=bodies, path="/parse", after=2.0))
    long = {"messages": [{"role": "user", "content": "long " * 800_000}], "n": 16}
    survives(computing, lambda: burst(computing.port, 60, "at once", bodies=[long], after=2.0))


def test_the_server_survives_hostile_schemas_of_clients_that_leave(computing: Victim) -> None:
    slow = [
        call({"properties": {f"p{i}-{j}": {"type": "integer", "multipleOf": 9973} for i in range(20)}})
        for j in range(20)
    ]
    hostile = [call(schema) for schema, _ in HOSTILE.values()]
    survives(computing, lambda: burst(computing.port, 200, "at once", bodies=hostile + slow, after=5.0))


def test_many_clients_are_served_though_an_upstream_is_killed_repeatedly() -> None:
    with upstream() as engine, victim(f"http://127.0.0.1:{engine.port}", *TEMPLATE) as server:
        sizes = []
        for _ in range(5):
            engine.start()
            while server.ask("/health")[0] != 200:
                time.sleep(0.1)
            burst(server.port, 500, "at once", bodies=[STREAM], after="byte")
            engine.kill()
            assert server.ask(CHAT, SLOW)[0] in (502, 503)
            assert server.ask("/health")[0] == 503
            sizes.append(server.rss())
        assert sizes[-1] - sizes[1] < 100 * 1024


def test_a_server_ends_in_time_with_a_thousand_clients_that_do_not_read(tmp_path: Path) -> None:
    with victim(recordings(tmp_path), "--dialect", "hermes", "--max-drain", "2") as server:
        held = [hold(server.port, request(FLOODED)) for _ in range(500)]
        time.sleep(2)
        began = time.monotonic()
        server.running.terminate()
        server.running.wait(30)
        assert time.monotonic() - began < 5
        for one in held:
            one.close()
