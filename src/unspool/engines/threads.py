"""Threads for what takes a while, which ends with whoever waits for it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["Abandoned", "Awaited", "Threads"]

_T = TypeVar("_T")


class Abandoned(Exception):
    """Nobody waits for the result any more."""


class Awaited:
    """Whether somebody still waits; work of several steps asks between two of them."""

    def __init__(self) -> None:
        self._gone = threading.Event()
        self._stop: Callable[[], None] | None = None

    def check(self) -> None:
        """Return where somebody waits.

        Raises:
            Abandoned: nobody does.
        """
        if self._gone.is_set():
            raise Abandoned

    def on_leaving(self, stop: Callable[[], None] | None) -> None:
        """Call this, from another thread, as soon as nobody waits any more; ``None``: nothing is to be called."""
        self._stop = stop
        if stop is not None and self._gone.is_set():
            stop()

    def leave(self) -> None:
        """Nobody waits any more."""
        self._gone.set()
        if (stop := self._stop) is not None:
            stop()


class Threads:
    """A fixed number of threads. What has not begun when its request goes away never begins; what has begun is told.

    Args:
        count: how many there are at most.
        name: theirs, for people.
    """

    def __init__(self, count: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=f"unspool-{name}")

    async def run(self, work: Callable[[Awaited], _T]) -> _T:
        """What ``work`` returns or raises."""
        awaited = Awaited()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, awaited)
        except asyncio.CancelledError:
            awaited.leave()
            raise

    def close(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)
