"""Warm processes that render one chat template for many threads."""

import datetime
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Protocol

from .worker import Limits, Rendered, Worker

_IDLE: Final = 4  # how many processes are kept while nothing is rendered


class AwaitedRendering(Protocol):
    """Whether somebody waits for a rendering; see `engines.threads.Awaited`."""

    def check(self) -> None:
        """Return if somebody waits; else raise."""

    def on_leaving(self, stop: Callable[[], None] | None) -> None:
        """Call ``stop``, from another thread, as soon as nobody waits."""


class Pool:
    """Renders one template, in as many processes as threads render at a time. It is thread-safe.

    A process serves one rendering after another. One that met a limit, or whose client left, is ended; the next
    rendering starts another. The arguments, errors, and the attributes ``asked`` and ``texts`` are those of `Worker`.
    """

    def __init__(self, template: str, special: Mapping[str, str], limits: Limits) -> None:
        self._start = partial(Worker, template, special, limits)
        first = self._start()
        self.asked = first.asked
        self.texts = first.texts
        self._idle = [first]
        self._lock = threading.Lock()
        self.close = weakref.finalize(self, _end, self._idle)
        """Ends the idle processes. It is called with the last reference to the pool at the latest."""

    def render(
        self,
        requests: Sequence[Mapping[str, Any]],
        waiting: AwaitedRendering | None = None,
        now: datetime.datetime | None = None,
    ) -> list[Rendered]:
        """Render with each of these variables; see `Worker.render`. When nobody waits any more, the process is killed,
        and what ``waiting`` raises is raised."""
        worker = self._taken()
        try:
            with _stopped(worker, waiting):
                answers = worker.render(requests, now)
        except BaseException:
            worker.end()
            if waiting is not None:
                waiting.check()
            raise
        with self._lock:
            if len(self._idle) < _IDLE and self.close.alive:
                self._idle.append(worker)
                return answers
        worker.end()
        return answers

    def _taken(self) -> Worker:
        """An idle process, or a new one."""
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None:
                return self._start()
            if worker.alive:
                return worker
            worker.end()


@contextmanager
def _stopped(worker: Worker, waiting: AwaitedRendering | None) -> Iterator[None]:
    """Kill the worker as soon as nobody waits, but never after the end of the context."""
    if waiting is None:
        yield
        return
    lock, over = threading.Lock(), False

    def stop() -> None:
        with lock:
            if not over:
                worker.kill()

    waiting.on_leaving(stop)
    try:
        yield
    finally:
        with lock:
            over = True
        waiting.on_leaving(None)


def _end(workers: list[Worker]) -> None:
    while workers:
        workers.pop().end()
