"""Requests go to the least busy of several servers, and a missing server loses no answer."""

import asyncio
from collections import Counter

import pytest

from unspool.engines import EngineError
from unspool.engines.upstream import Upstream

from ..generation import text_of, until
from .support import (
    DONE,
    STREAM,
    Answer,
    Asked,
    Connection,
    Fake,
    chunk,
    collect,
    connected,
    event,
    fails,
    fault,
    request,
    said,
    says,
)

HI = says(said("Hi", "stop"), DONE)


async def _drops(connection: Connection, asked: Asked) -> None:
    """Close the connection without an answer."""


async def _headers_only(connection: Connection, asked: Asked) -> None:
    await connection.send(STREAM)


async def _breaks(connection: Connection, asked: Asked) -> None:
    await connection.send(STREAM, chunk(said("half")))


async def test_a_busy_server_is_spared() -> None:
    go = asyncio.Event()

    async def answer(connection: Connection, asked: Asked) -> None:
        await connection.send(STREAM)
        if asked.body["prompt"] == "slow":
            await go.wait()
        await connection.send(chunk(said("Hi", "stop") + DONE), b"0\r\n\r\n")

    fakes = [Fake("vllm", answer) for _ in range(2)]
    async with connected(*fakes) as engine:
        slow = asyncio.ensure_future(collect(engine, request("slow")))
        await until(lambda: any(f.generated for f in fakes))
        for _ in range(6):
            await collect(engine, request("quick"))
        prompts = [Counter(a.body["prompt"] for a in f.generated) for f in fakes]
        assert sorted(prompts, key=len) == [{"slow": 1}, {"quick": 6}] or {"slow": 1} in prompts
        go.set()
        await slow


async def test_equally_busy_servers_take_turns() -> None:
    fakes = [Fake("vllm", HI) for _ in range(3)]
    async with connected(*fakes) as engine:
        for _ in range(9):
            await collect(engine)
    assert [len(f.generated) for f in fakes] == [3, 3, 3]


@pytest.mark.parametrize(
    "bad", [_drops, _headers_only, *(fails(status) for status in (429, 502, 503, 504))], ids=lambda _: ""
)
async def test_a_request_that_was_not_begun_is_tried_on_another_server(bad: Answer) -> None:
    fakes = [Fake("vllm", bad), Fake("vllm", HI)]
    async with connected(*fakes) as engine:
        assert [text_of(await collect(engine)) for _ in range(6)] == ["Hi"] * 6
    assert fakes[0].generated, "or nothing was tried"


REFUSES = says(event({"error": {"message": "no", "code": 400}}))


@pytest.mark.parametrize(
    ("bad", "said", "status"),
    [(fails(400), "", 400), (fails(500), "", 502), (REFUSES, "", 400), (_breaks, "half", 502)],
)
async def test_a_request_that_was_begun_or_that_every_server_would_refuse_is_not_tried_again(
    bad: Answer, said: str, status: int
) -> None:
    fakes = [Fake("vllm", bad), Fake("vllm", bad)]
    async with connected(*fakes) as engine:
        found, error = await fault(engine)
    assert (found, error.status) == (said, status)
    assert sum(len(f.generated) for f in fakes) == 1


async def test_if_every_server_fails_the_last_error_is_reported() -> None:
    fakes = [Fake("vllm", fails(429, {"error": {"message": "full"}})) for _ in range(3)]
    async with connected(*fakes) as engine:
        _, error = await fault(engine)
        assert error.status == 429
        assert "is overloaded" in str(error)
    assert [len(f.generated) for f in fakes] == [1, 1, 1]


async def test_a_dead_server_is_taken_out_and_comes_back() -> None:
    stays, dies = Fake("vllm", HI), Fake("vllm", HI)
    async with dies.running():
        pass  # its port is known, but nothing listens there
    async with stays.running():
        engine = Upstream([stays.url, dies.url], check_interval=0.05)
        await engine.health()
        for _ in range(6):
            assert text_of(await collect(engine)) == "Hi"
        assert len(stays.generated) == 6
        async with dies.running():
            await until(lambda: [a.path for a in dies.asked].count("/health") > 1)
            for _ in range(6):
                await collect(engine)
            assert len(dies.generated) == 3
            assert len(stays.generated) == 9
        await until(lambda: dies.open == 0)
        for _ in range(4):
            assert text_of(await collect(engine)) == "Hi"
        assert len(stays.generated) == 13
        await engine.close()


async def test_a_single_server_that_comes_back_is_used_before_the_next_check() -> None:
    fake = Fake("vllm", HI)
    async with fake.running():
        pass
    engine = Upstream(fake.url, check_interval=1000)
    _, error = await fault(engine)
    assert error.status == 503
    async with fake.running():
        assert text_of(await collect(engine)) == "Hi"
        await engine.health()
    await engine.close()


async def test_health_is_bad_a_second_after_the_last_server_has_gone_whatever_the_interval_of_checks() -> None:
    fake = Fake("vllm", HI)
    async with fake.running():
        engine = Upstream(fake.url, check_interval=1000)
        await engine.health()
    await asyncio.sleep(1.1)  # its last answer is outdated
    with pytest.raises(EngineError, match="cannot be reached") as caught:
        await engine.health()
    assert caught.value.status == 503
    await engine.close()


async def test_concurrent_health_checks_share_one_request() -> None:
    fake = Fake("vllm", HI)
    async with connected(fake, check_interval=1000) as engine:
        await asyncio.gather(*(engine.health() for _ in range(50)))
        assert [a.path for a in fake.asked].count("/health") == 1


async def test_health_does_not_wait_for_a_server_that_hangs_where_another_answers() -> None:
    async def hangs(connection: Connection, asked: Asked) -> None:
        await asyncio.sleep(60)

    stuck, well = Fake("vllm", HI, health=hangs), Fake("vllm", HI)
    async with connected(stuck, well, check_interval=1000) as engine:
        await asyncio.wait_for(engine.health(), 30)


async def test_health_says_why_no_server_is_available() -> None:
    sick = Fake("vllm", HI, v1__models=fails(503, {"error": {"message": "Loading model"}}))
    async with connected(sick, check_interval=0.05) as engine:
        with pytest.raises(EngineError, match="is overloaded") as caught:
            await engine.health()
        assert caught.value.status == 503
        sick.routes.clear()
        await until(lambda: len(sick.asked) > 3)
        await engine.health()


async def test_a_new_server_at_the_same_address_is_detected_anew() -> None:
    first = Fake("vllm", HI)
    async with first.running():
        engine = Upstream(first.url, check_interval=0.02)
        await collect(engine)
    second = Fake("llamacpp", says(event({"content": "yes", "stop": False}), event({"stop": True})))
    second.routes["/tokenize"] = lambda connection, asked: connection.json({"tokens": [1]})
    second.port = first.port
    await asyncio.sleep(0.1)
    async with second.running():
        assert text_of(await collect(engine)) == "yes"
    await engine.close()


async def test_health_is_bad_if_the_kind_is_unknown_because_every_request_is_refused() -> None:
    async with connected(Fake("nobody", HI)) as engine:
        with pytest.raises(EngineError, match="cannot be detected") as caught:
            await engine.health()
        assert caught.value.status == 503
        assert (await fault(engine))[1].status == 503


@pytest.mark.parametrize(("told", "seconds"), [("7", 7), ("9" * 5000, 86_400), ("soon", None)])
async def test_a_full_server_passes_on_when_to_retry(told: str, seconds: int | None) -> None:
    async def full(connection: Connection, asked: Asked) -> None:
        head = f"HTTP/1.1 429 Too Many Requests\r\nRetry-After: {told}\r\nContent-Type: application/json\r\n"
        await connection.send(head.encode() + b"Content-Length: 2\r\n\r\n{}")

    async with connected(Fake("vllm", full)) as engine:
        assert (await fault(engine))[1].retry_after == seconds
