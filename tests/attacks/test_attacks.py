"""Attacks on a server process: short ones, and with `make attacks` a thousand clients and the default times."""

import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.support import until
from unspool.engines.capture import read_recordings

from . import victim as victims
from .clients import SLOW, Leaving, burst, dribble, exchange, hold, never_read, request
from .upstream import upstream
from .victim import CHAT, FLOOD, GROWTH, PATIENCE, QUICK, TEMPLATE, Victim, attacks, recordings, victim

STREAM = {**SLOW, "stream": True}
BODIES = (STREAM, SLOW, {**STREAM, "n": 3})
FLOODED = {"messages": [{"role": "user", "content": FLOOD}], "stream": True}
LIMITS = ("--max-stall", "1", "--max-head", "1", "--max-receive", "1", "--max-text", "1000000")


@pytest.fixture(scope="module", params=["short", pytest.param("long", marks=pytest.mark.attacks)])
def long(request: pytest.FixtureRequest) -> bool:
    """Whether there are many clients, and the server has the default times."""
    return bool(request.param == "long")


@pytest.fixture(scope="module")
def replaying(long: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """A server whose answers take long."""
    limits = () if long else LIMITS
    with victim(recordings(tmp_path_factory.mktemp("r")), "--dialect", "hermes", *limits) as server:
        yield server


@pytest.fixture(scope="module")
def computing(long: bool) -> Iterator[Victim]:
    """A server with a tokenizer, a chat template and grammars."""
    with victims.computing(*(() if long else LIMITS)) as server:
        yield server


# -- clients that leave ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("leaving", "after"), [("at once", "byte"), ("one by one", 0.0)])
def test_clients_that_leave_leak_nothing(replaying: Victim, long: bool, leaving: Leaving, after: str | float) -> None:
    begun, count = [], 1000 if long else 200
    for _ in attacks(replaying):
        begun.append(burst(replaying.port, count, leaving, bodies=BODIES, after=after))
    if after == "byte":
        assert all(0 < n < count for n in begun), "some had their place, some waited for one"


@pytest.mark.sampled(0)
@pytest.mark.parametrize("stream", [True, False])
def test_clients_that_never_read_are_given_up_and_their_sockets_closed(
    replaying: Victim, long: bool, stream: bool
) -> None:
    given_up, count, patience = [], (90 if long else 30) if stream else 5, 65 if long else PATIENCE
    body = {**FLOODED, "stream": stream}
    for _ in attacks(replaying):
        given_up.append(never_read(replaying, count, body, patience))
    assert given_up == [count, count]


# -- heads and headers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", [b"X: " + b"x" * 1_000_000, b"X: y\r\n" * 10_000 + b"\r\n"])
def test_heads_that_are_too_large_are_refused(replaying: Victim, head: bytes) -> None:
    answers: list[bytes] = []
    data = b"GET /health HTTP/1.1\r\n" + head

    for _ in attacks(replaying):
        answers.append(exchange(replaying.port, data))
    assert all(answer.startswith(b"HTTP/1.1 431") or not answer for answer in answers)


def test_headers_behind_bodies_are_not_kept(replaying: Victim) -> None:
    head = (
        b"POST /parse HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    )

    for _ in attacks(replaying):
        for behind in (b"X: y\r\n" * 500_000, b"X: " + b"x" * 3_000_000):
            for _ in range(5):
                exchange(replaying.port, head + behind)


@pytest.mark.attacks
def test_slow_heads_and_bodies_are_refused_after_the_default_times(replaying: Victim) -> None:
    head = request(SLOW).replace(b"Host: localhost", b"Host: localhost\r\nX: " + b"x" * 2000)
    body = b"POST /parse HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 99999\r\n\r\n" + b"x" * 2000

    for _ in attacks(replaying):
        for sent in (head, body):
            assert all(b" 408 " in answer for answer in dribble(replaying.port, 100, sent, 90))
    for _ in attacks(replaying):
        dribble(replaying.port, 500, b"", 30)


# -- work that takes the server long -----------------------------------------------------------------------------------


def test_parsing_stops_when_the_client_leaves(replaying: Victim, long: bool) -> None:
    calls = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>\n'
    size, count, after = (4_000_000, 60, 2.0) if long else (900_000, 30, 0.3)
    bodies = [{"text": calls * (size // len(calls)), "format": "events"}]
    for _ in attacks(replaying):
        burst(replaying.port, count, "at once", bodies=bodies, path="/parse", after=after)


@pytest.mark.attacks
@pytest.mark.parametrize("leaving", ["at once", "one by one"])
def test_the_server_survives_a_thousand_clients_of_a_model_that_computes(computing: Victim, leaving: Leaving) -> None:
    bodies = [STREAM, call(of(city={"type": "string"}), n=4), {**SLOW, "n": 16}]
    for _ in attacks(computing):
        burst(computing.port, 1000, leaving, bodies=bodies, after=2.0)


def test_a_text_that_is_too_long_is_refused_by_its_characters(computing: Victim, long: bool) -> None:
    for _ in attacks(computing):
        for size in [14_000_000] if long else [3_000_000, 14_000_000]:
            taken = computing.stopwatch()
            got, text = computing.ask(CHAT, {"messages": [{"role": "user", "content": "long " * (size // 5)}]})
            assert (got, taken() < 5) == (400, True), text
        assert computing.ask("/parse", {"text": "x" * (16_000_001 if long else 1_000_001)})[0] in (400, 413)


def test_long_prompts_of_clients_that_left_do_not_delay_others(computing: Victim, long: bool) -> None:
    size, count, after = (800_000, 60, 2.0) if long else (150_000, 20, 0.2)
    body = {"messages": [{"role": "user", "content": "long " * size}], "n": 16}
    for _ in attacks(computing):
        burst(computing.port, count, "at once", bodies=[body], after=after)


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def call(schema: Any, **more: Any) -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    return {**SLOW, "tools": [tool], "tool_choice": "required", "max_tokens": 4, **more}


def _combined(levels: int, key: str) -> dict[str, Any]:
    """Each level refers to the next one several times."""
    found: dict[str, Any] = {
        f"d{i}": {"allOf": [{key: [{"$ref": f"#/$defs/d{i + 1}"}, {"properties": {f"x{i}": {"type": "string"}}}]}] * 3}
        for i in range(levels)
    }
    found[f"d{levels}"] = of(x={"type": "string"})
    return {**of(a={"$ref": "#/$defs/d0"}), "$defs": found}


HOSTILE: dict[str, tuple[Any, str]] = {
    "a multiple": (of(a={"type": "integer", "multipleOf": 47567917}), "tools.f.parameters.properties.a.multipleOf"),
    "a reference to itself": ({"$ref": "#"}, "tools.f.parameters: "),
    "itself within": (of(a={"$ref": "#"}), "tools.f.parameters: "),
    "a surrogate": (of(**{"a\ud800": {"type": "string"}}), "tools.f.parameters.properties: "),
    "a surrogate in an enum": (of(a={"enum": ["\ud800"]}), "tools.f.parameters.properties.a.enum"),
    "a megabyte of an enum": (of(a={"enum": [f"{i:090}" for i in range(9000)]}), "tools.f.parameters.properties.a"),
    "many values": (of(a={"enum": list(range(20_000))}), "tools.f.parameters.properties.a.enum"),
    "many properties": (of(**{f"p{i}": {"type": "string"} for i in range(5000)}), "tools.f.parameters.properties"),
    "a long least": (of(a={"type": "string", "minLength": 2**31}), "tools.f.parameters.properties.a.minLength"),
    "a large bound": (of(a={"type": "integer", "maximum": 10**400}), "tools.f.parameters.properties.a.maximum"),
    "a long pattern": (of(a={"type": "string", "pattern": "a?" * 5000}), "tools.f.parameters.properties.a.pattern"),
    "patterns that grow": (of(a={"type": "string", "pattern": "((a{100}){100}){100}"}), ""),
    "all of all": (_combined(30, "allOf"), ""),
    "all of any": (_combined(30, "anyOf"), ""),
    "any order": ({"properties": {f"p{i}": {"type": "integer", "multipleOf": 9973} for i in range(40)}}, ""),
}


@pytest.mark.sampled(0)
def test_hostile_schemas_are_refused_by_their_place_or_kept_within_limits(computing: Victim) -> None:
    for _ in attacks(computing):
        for name, (schema, place) in HOSTILE.items():
            status, text = computing.ask(CHAT, call(schema), timeout=60)
            assert status in (200, 400), (name, text)
            assert status == 400 or not place, (name, text)
            assert place in text, (name, text)
            assert "lexer" not in text.lower(), (name, text)
            assert "%json" not in text, (name, text)
        status, text = computing.ask(CHAT, call(HOSTILE["a multiple"][0], tool_choice="auto"), timeout=60)
        assert status == 200, text


def test_grammars_of_clients_that_left_are_not_compiled(computing: Victim, long: bool) -> None:
    slow = [of(**{f"a{i}": {"type": "integer", "multipleOf": 9967}, f"b{i}": {"multipleOf": 9949}}) for i in range(50)]
    bodies = list(map(call, [*slow, *(schema for schema, _ in HOSTILE.values())] if long else slow))
    count, after = (200, 5.0) if long else (50, 0.5)
    for _ in attacks(computing):
        burst(computing.port, count, "at once", bodies=bodies, after=after)


# -- the engine floods, or dies ---------------------------------------------------------------------------------------


@pytest.mark.sampled(0)
def test_an_upstream_that_has_much_ready_delays_no_answer() -> None:
    with upstream() as engine:
        engine.start()
        with victim(f"http://127.0.0.1:{engine.port}", *TEMPLATE, *LIMITS) as server:
            bodies = [{**FLOODED, "n": 8}, {**FLOODED, "n": 8, "stream": False}, FLOODED]
            for _ in attacks(server):
                burst(server.port, 60, "at once", bodies=bodies, after=0.3)


@pytest.mark.sampled(0)
def test_an_upstream_that_is_killed_ends_its_streams_and_is_used_again_when_it_is_back(long: bool) -> None:
    sizes = []
    with upstream() as engine, victim(f"http://127.0.0.1:{engine.port}", *TEMPLATE, *LIMITS) as server:
        for _ in range(5 if long else 2):
            engine.start()
            until(lambda: server.ask("/health")[0] == 200, PATIENCE)
            assert burst(server.port, 500 if long else 50, "one by one", bodies=[STREAM], after="byte") > 0
            engine.kill()
            taken = server.stopwatch()
            assert server.ask(CHAT, SLOW)[0] in (502, 503)
            assert server.ask("/health")[0] == 503
            assert taken() < 8, "a connection may take ten"
            sizes.append(server.rss())
        engine.start()
        until(lambda: server.ask("/health")[0] == 200, PATIENCE)
        assert server.small() < 8
        until(lambda: not any(server.gauges().values()), PATIENCE)
    assert sizes[-1] - sizes[1] < GROWTH


def test_a_full_disk_ends_recordings_but_no_answer(tmp_path: Path) -> None:
    folder = tmp_path / "captured"
    with victim(recordings(tmp_path), "--dialect", "hermes", "--capture", str(folder), *LIMITS) as server:
        server.small()
        kept = {file.name for file in folder.iterdir()}
        for limit in (2000, 0):  # of a file; the request has more
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            long = {"messages": [{"role": "user", "content": f"{'word ' * 1000} {QUICK}"}]}
            assert server.ask(CHAT, long)[0] == 200
            assert server.ask("/health")[0] == 200
            assert server.ask(CHAT, long)[0] == 200
        assert {file.name for file in folder.iterdir()} == kept, "what was written in part is removed"
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        server.small()
        assert len(read_recordings(folder)) == len(kept) + 1
        until(lambda: ["not recorded" in line for line in server.lines if "recorded" in line] == [True, False])


# -- the end -----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(0)
def test_the_server_stops_in_time_though_clients_do_not_read(tmp_path: Path, long: bool) -> None:
    with victim(recordings(tmp_path), "--dialect", "hermes", "--max-drain", "1") as server:
        held = [hold(server.port, request(FLOODED)) for _ in range(500 if long else 20)]
        held += [hold(server.port, request(SLOW)[:60]) for _ in range(5)]
        until(lambda: server.sockets() > len(held))
        began = time.monotonic()
        server.process.terminate()
        server.process.wait(PATIENCE)
        assert time.monotonic() - began < 15, "by default clients have longer to read"
        for one in held:
            one.close()
