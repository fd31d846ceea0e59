"""Threads that compute beside an event loop: work ends when nobody waits for it, and the loop takes precedence."""

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from unspool.engines.threads import Abandoned, Awaited, Threads, TooLong


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads(1, "test")
    yield made
    made.close()


def busy(seconds: float) -> None:
    """Compute while holding the interpreter's lock."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def spinning(started: asyncio.Event, ended: threading.Event, ending: float = 0.0) -> Callable[[Awaited], None]:
    """Work that continues while somebody waits for it, and then takes ``ending`` seconds to end."""
    loop = asyncio.get_running_loop()

    def work(awaited: Awaited) -> None:
        loop.call_soon_threadsafe(started.set)
        try:
            while True:
                busy(0.001)
                awaited.check()
        except Abandoned:
            busy(ending)
            ended.set()
            raise

    return work


async def test_the_event_loop_runs_between_two_steps_of_long_work(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.engines.threads._PATIENCE", 60.0)  # however busy the machine is
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

    assert await threads.run(work) == [True] * 10


async def test_short_steps_do_not_wait_for_the_event_loop(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspool.engines.threads._SLICE", 60.0)  # long enough for any machine
    monkeypatch.setattr("unspool.engines.threads._PATIENCE", 60.0)
    checked, seen = threading.Event(), list[bool]()
    loop = asyncio.get_running_loop()

    def work(awaited: Awaited) -> None:
        loop.call_soon_threadsafe(lambda: seen.append(checked.wait(30)))  # the loop has no turn until then
        for _ in range(100):
            awaited.check()
        checked.set()

    await threads.run(work)
    assert seen == [True]


def test_work_continues_after_its_event_loop_was_stopped() -> None:
    loop = asyncio.new_event_loop()
    awaited = Awaited(loop)
    busy(0.006)
    awaited.check()
    loop.close()
    busy(0.006)
    awaited.check()


async def test_a_cancelled_task_ends_with_its_work_and_waiting_work_releases_its_request() -> None:
    class Body(bytearray):
        """A request that can be watched."""

    threads, ended = Threads(1, "test"), threading.Event()

    def long(body: Body, awaited: Awaited) -> int:
        return len(body)

    started = asyncio.Event()
    running = asyncio.ensure_future(threads.run(spinning(started, ended, ending=0.1)))
    await started.wait()
    body = Body(1000)
    watched = weakref.ref(body)
    waiting = asyncio.ensure_future(threads.run(partial(long, body)))
    await asyncio.sleep(0)
    del body
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    del waiting
    assert watched() is None, "the queue still has the job, but not what it holds"
    assert not ended.is_set()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert ended.is_set(), "what a request holds is counted until its work has ended"
    threads.close()


async def test_work_that_takes_long_goes_on_until_other_work_waits_for_its_thread(threads: Threads) -> None:
    started, ended = asyncio.Event(), threading.Event()
    slow = asyncio.ensure_future(threads.run(spinning(started, ended), most=0.02))
    await started.wait()
    await asyncio.sleep(0.2)
    assert not slow.done()
    quick = asyncio.ensure_future(threads.run(lambda _: "quick", most=0.02))
    with pytest.raises(TooLong):
        await slow
    assert ended.is_set()
    assert await quick == "quick"


async def test_work_that_nothing_can_give_up_keeps_its_result(threads: Threads) -> None:
    def work(awaited: Awaited) -> str:
        time.sleep(0.2)
        return "slow"

    slow, quick = (asyncio.ensure_future(threads.run(one, most=0.02)) for one in (work, lambda _: "quick"))
    assert [await slow, await quick] == ["slow", "quick"]
