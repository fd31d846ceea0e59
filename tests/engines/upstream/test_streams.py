"""Streams stop at once, wait for slow readers, and are cheap in large numbers."""

import asyncio
import time

import pytest

from unspool.engines import EngineError

from .support import DONE, STREAM, Asked, Connection, Fake, chunk, collect, connected, request, said, says


@pytest.mark.parametrize("when", ["before the headers", "before the first piece", "between pieces"])
async def test_cancelling_the_waiting_task_stops_the_server(when: str) -> None:
    reached, left = asyncio.Event(), asyncio.Event()

    async def answer(connection: Connection, asked: Asked) -> None:
        if when != "before the headers":
            await connection.send(STREAM)
        if when == "between pieces":
            await connection.send(chunk(said("Hi")))
        reached.set()
        await connection.gone()
        left.set()

    async with connected(Fake("vllm", answer)) as engine:
        task = asyncio.ensure_future(collect(engine))
        await reached.wait()
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await left.wait()
        assert task.cancelled()


async def test_an_iterator_that_was_never_pulled_sends_no_request() -> None:
    fake = Fake("vllm", says(said("Hi", "stop"), DONE))
    async with connected(fake) as engine:
        await engine.generate(request()).aclose()
        assert fake.asked == []


async def test_closing_the_engine_ends_running_streams() -> None:
    left = asyncio.Event()

    async def answer(connection: Connection, asked: Asked) -> None:
        await connection.send(STREAM, chunk(said("Hi")))
        await connection.gone()
        left.set()

    async with connected(Fake("vllm", answer)) as engine:
        stream = engine.generate(request())
        await anext(stream)
        await engine.close()
        with pytest.raises(EngineError):
            await anext(stream)
        await left.wait()


async def test_a_closed_engine_is_unhealthy_and_checks_no_more() -> None:
    fake = Fake("vllm", says(said("x"), DONE))
    async with connected(fake, check_interval=0.01) as engine:
        await engine.health()
        await engine.close()
        asked = len(fake.asked)
        for _ in range(2):
            with pytest.raises(EngineError, match="closed") as caught:
                await engine.health()
            assert caught.value.status == 503
            with pytest.raises(EngineError, match="closed") as caught:
                await collect(engine)
            assert caught.value.status == 503
        await asyncio.sleep(0.05)
        assert len(fake.asked) == asked


async def test_reading_takes_well_under_a_millisecond_per_piece() -> None:
    pieces = [said(f"{i} ") for i in range(5000)]
    async with connected(Fake("vllm", says(b"".join(pieces), said("", "stop"), DONE))) as engine:
        begun = time.process_time()
        assert len(await collect(engine)) == 5001
        assert (time.process_time() - begun) / 5000 < 0.0005
