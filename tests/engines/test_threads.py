"""Threads that compute beside an event loop: work ends when nobody waits for it, and the loop goes first."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from unspool.engines.threads import Abandoned, Awaited, Threads


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads(1, "test")
    yield made
    made.close()


def busy(seconds: float) -> None:
    """Compute, and keep the interpreter's lock."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_the_loop_has_a_turn_between_two_steps_of_long_work(threads: Threads) -> None:
    async def main() -> list[bool]:
        loop = asyncio.get_running_loop()
        seen: list[int] = []

        def work(awaited: Awaited) -> list[bool]:
            found = []
            for step in range(10):
                busy(0.006)
                loop.call_soon_threadsafe(seen.append, step)
                awaited.check()
                found.append(step in seen)
            return found

        return await threads.run(work)

    assert asyncio.run(main()) == [True] * 10


def test_short_steps_do_not_wait_for_the_loop(threads: Threads) -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()

        def work(awaited: Awaited) -> float:
            loop.call_soon_threadsafe(time.sleep, 0.5)
            began = time.monotonic()
            for _ in range(100):
                awaited.check()
            return time.monotonic() - began

        return await threads.run(work)

    assert asyncio.run(main()) < 0.4


def test_work_in_a_loop_that_was_stopped_goes_on() -> None:
    loop = asyncio.new_event_loop()
    awaited = Awaited(loop)
    busy(0.006)
    awaited.check()
    loop.close()
    busy(0.006)
    awaited.check()


def test_work_that_nobody_waits_for_ends_at_its_next_check(threads: Threads) -> None:
    ended = threading.Event()

    async def main() -> None:
        started = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work(awaited: Awaited) -> None:
            loop.call_soon_threadsafe(started.set)
            try:
                while True:
                    busy(0.001)
                    awaited.check()
            except Abandoned:
                ended.set()
                raise

        waiting = asyncio.ensure_future(threads.run(work))
        await started.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(main())
    assert ended.wait(20)
