"""Threads for long work, which ends when nobody waits for it, and which yields to the event loop."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Generic, TypeVar

from ..grammar import bounds

_T = TypeVar("_T")
_SLICE: Final = 0.005  # how long a thread computes before the event loop gets a turn, in seconds
_PATIENCE: Final = 0.1  # how long a thread waits for such a turn, in seconds: the loop may have been stopped


class Abandoned(Exception):
    """Nobody waits for the result any more."""


class TooLong(Exception):
    """Work was given up because it took long while other work waited for a thread."""


class Awaited:
    """Lets work find out whether somebody still waits for it. Work in several steps calls `check` between them.

    A thread that competes for the interpreter's lock holds it most of the time. The event loop releases the lock with
    every event and must acquire it again, which takes long on a busy machine. So every few milliseconds, `check` also
    waits for one whole turn of ``loop``, the event loop that waits for the work; ``None``: it is not done in a thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._gone = threading.Event()
        self._stop: Callable[[], None] | None = None
        self._loop = loop
        self._turn = threading.Event()
        self._since = time.monotonic()

    def check(self) -> None:
        """Give the loop a turn if it is due, and return if somebody waits; `Abandoned` if nobody does."""
        if self._loop is not None and time.monotonic() - self._since > _SLICE:
            self._turn.clear()
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._turn.set)
                self._turn.wait(_PATIENCE)
            self._since = time.monotonic()
        if self._gone.is_set():
            raise Abandoned

    def on_leaving(self, stop: Callable[[], None] | None) -> None:
        """Call ``stop``, from another thread, as soon as nobody waits any more; ``None`` removes it."""
        self._stop = stop
        if stop is not None and self._gone.is_set():
            stop()

    def leave(self) -> None:
        """Record that nobody waits any more."""
        self._gone.set()
        if (stop := self._stop) is not None:
            stop()


class _ThreadJob(Generic[_T]):
    """Work for a thread. It is released once it begins or nobody waits, since it may contain a whole request."""

    __slots__ = ("awaited", "began", "work")

    def __init__(self, work: Callable[[Awaited], _T], awaited: Awaited) -> None:
        self.work: Callable[[Awaited], _T] | None = work
        self.awaited = awaited
        self.began: float | None = None

    def __call__(self) -> _T:
        self.began = time.monotonic()
        work, self.work = self.work, None
        assert work is not None, "what was cancelled does not begin"
        with bounds.awaited(self.awaited.check):
            return work(self.awaited)


class Threads:
    """A fixed number of threads. Work for which nobody waits never begins, or ends at its next `Awaited.check`, which
    derivations of grammars call too."""

    def __init__(self, count: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=f"unspool-{name}")
        self._jobs: set[_ThreadJob[Any]] = set()

    async def run(self, work: Callable[[Awaited], _T], most: float | None = None) -> _T:
        """Run ``work`` in a thread, and return its result or raise its error. `TooLong` if it takes more than ``most``
        seconds while other work waits for a thread.

        A task that is cancelled here ends when the work has ended, because the memory of a request is in use, and
        counted, until then. Cancelled again, it ends at once.
        """
        job = _ThreadJob(work, Awaited(asyncio.get_running_loop()))
        del work
        running = self._pool.submit(job)
        done = asyncio.wrap_future(running)
        done.add_done_callback(retrieve)
        self._jobs.add(job)
        try:
            if most is not None and await self._gives_way(job, done, most):
                raise TooLong
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            job.awaited.leave()
            if running.cancel():
                job.work = None  # the queue keeps the job until a thread is free
            else:
                await asyncio.wait((done,))
            raise
        finally:
            self._jobs.discard(job)
            del done, running  # the error in them holds this frame, which would hold them, and with them the request

    async def _gives_way(self, job: "_ThreadJob[Any]", done: "asyncio.Future[Any]", most: float) -> bool:
        """Wait for a job, or give it up once it takes too long; whether it was."""
        while not (await asyncio.wait((done,), timeout=most))[0]:
            late = job.began is not None and time.monotonic() - job.began > most
            if late and any(other.began is None for other in self._jobs):
                job.awaited.leave()
                await asyncio.wait((done,))
                return isinstance(done.exception(), Abandoned)
        return False

    def close(self) -> None:
        """Stop the threads after their current work."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def retrieve(done: "asyncio.Future[Any]") -> None:
    """Retrieve the error of work for which nobody may wait, since asyncio logs errors that are never retrieved."""
    if not done.cancelled():
        done.exception()
