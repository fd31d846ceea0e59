"""Streams stop at once, wait for slow readers, and are cheap in large numbers."""

import asyncio
import time

import pytest

from unspool.engines import EngineError
from unspool.engines.upstream import Upstream

from .support import (
    DONE,
    STREAM,
    Asked,
    Connection,
    Fake,
    chunk,
    collect,
    connected,
    request,
    run,
    said,
    says,
    text,
    until,
)


class Running:
    """Generates until the client leaves, and counts what it sent."""

    def __init__(self, size: int = 10, pause: float = 0.0) -> None:
        self.piece = chunk(said("x" * size))
        self.pause = pause
        self.sent = 0
        self.running = 0
        self.left = asyncio.Event()

    async def __call__(self, connection: Connection, asked: Asked) -> None:
        self.running += 1
        try:
            await connection.send(STREAM)
            while True:
                await connection.send(self.piece)
                self.sent += 1
                await asyncio.sleep(self.pause)
        finally:
            self.running -= 1
            self.left.set()


def test_closing_the_iterator_stops_the_server() -> None:
    async def main() -> None:
        server = Running(pause=0.01)
        fake = Fake("vllm", server)
        async with connected(fake) as engine:
            stream = engine.generate(request())
            assert (await anext(stream)).text
            await stream.aclose()
            async with asyncio.timeout(1):
                await server.left.wait()

    run(main())


@pytest.mark.parametrize("when", ["before the headers", "before the first piece", "between pieces"])
def test_cancelling_the_waiting_task_stops_the_server(when: str) -> None:
    async def main() -> None:
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
            async with asyncio.timeout(1):
                await asyncio.gather(task, return_exceptions=True)
                await left.wait()
            assert task.cancelled()

    run(main())


def test_an_iterator_that_was_never_pulled_sends_no_request() -> None:
    async def main() -> None:
        fake = Fake("vllm", says(said("Hi", "stop"), DONE))
        async with connected(fake) as engine:
            await engine.generate(request()).aclose()
            assert fake.asked == []

    run(main())


def test_a_reader_that_does_not_pull_stops_the_server() -> None:
    async def main() -> None:
        server = Running(size=10_000)
        async with connected(Fake("vllm", server)) as engine:
            stream = engine.generate(request())
            await anext(stream)
            before = -1
            while server.sent != before:  # until the server pauses
                before = server.sent
                await asyncio.sleep(0.2)
            assert server.sent < 2000, "what the sockets hold, and little more"
            for _ in range(server.sent):
                await anext(stream)
            await until(lambda: server.sent > before)
            await stream.aclose()

    run(main())


def test_closing_the_engine_ends_running_streams() -> None:
    async def main() -> None:
        server = Running(pause=0.01)
        async with connected(Fake("vllm", server)) as engine:
            stream = engine.generate(request())
            await anext(stream)
            await engine.close()
            with pytest.raises(EngineError):
                async for _ in stream:
                    pass
            await server.left.wait()
            with pytest.raises(EngineError, match="closed"):
                await collect(engine)

    run(main())


def test_a_closed_engine_is_unhealthy_and_checks_no_more() -> None:
    async def main() -> None:
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

    run(main())  # which checks that no tasks are left


def test_an_engine_may_be_closed_again_in_another_loop() -> None:
    async def main() -> Upstream:
        async with connected(Fake("vllm", says())) as engine:
            await engine.health()
        return engine

    run(run(main()).close())


def test_two_hundred_streams_run_at_once_and_are_not_mixed() -> None:
    async def main() -> None:
        together = asyncio.Event()
        waiting = 0

        async def answer(connection: Connection, asked: Asked) -> None:
            nonlocal waiting
            waiting += 1
            if waiting == 200:
                together.set()
            await connection.send(STREAM)
            await together.wait()
            for i in range(20):
                await connection.send(chunk(said(f"{asked.body['prompt']}.{i} ")))
            await connection.send(chunk(said("", "stop") + DONE), b"0\r\n\r\n")

        async with connected(Fake("vllm", answer)) as engine:
            outputs = await asyncio.gather(*(collect(engine, request(str(n))) for n in range(200)))
        for n, deltas in enumerate(outputs):
            assert text(deltas) == "".join(f"{n}.{i} " for i in range(20))

    run(main())


def test_reading_takes_well_under_a_millisecond_per_piece() -> None:
    async def main() -> float:
        pieces = [said(f"{i} ") for i in range(5000)]
        async with connected(Fake("vllm", says(b"".join(pieces), said("", "stop"), DONE))) as engine:
            begun = time.process_time()
            deltas = await collect(engine)
            assert len(deltas) == 5001
            return (time.process_time() - begun) / 5000

    assert run(main()) < 0.0005


def test_the_health_check_ends_with_the_engine() -> None:
    async def main() -> None:
        async with connected(Fake("vllm", says()), check_interval=0.01) as engine:
            await engine.health()
            await asyncio.sleep(0.05)
        assert isinstance(engine, Upstream)

    run(main())  # which checks that no tasks are left


def test_invalid_utf_8_and_a_byte_order_mark_do_not_end_a_stream() -> None:
    async def main() -> None:
        broken = b'data: {"choices": [{"text": "a\xffb"}]}\n\n'
        fake = Fake("vllm", says(b"\xef\xbb\xbf" + said("first "), broken, said("", "stop"), DONE))
        async with connected(fake) as engine:
            assert text(await collect(engine)) == "first a\ufffdb"

    run(main())
