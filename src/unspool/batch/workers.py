"""Runs the work on blocks in this process, in other processes, or in threads if Python has no global lock."""

import contextlib
import copy
import multiprocessing
import multiprocessing.connection
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from typing import Any, Final

from .blocks import RowBlock

_AHEAD: Final = 2  # blocks per worker: one to work on, and one in reserve, so that the worker never waits

Step = Callable[[Any, Any], Any]  # the work on a block, given the worker's own task. It can be sent to other processes.
Mapped = Callable[[Step, Iterable[RowBlock]], Iterator[Any]]
"""The results of a step for blocks, in order. Only a few per worker are in memory."""

_mine = threading.local()


@contextlib.contextmanager
def pool(task: Any, workers: int, start: str = "spawn") -> Iterator[Mapped]:
    """Workers for one or several passes over blocks. They start only if there is a second block; one works in this
    process. Each gets its own copy of the task, which can be sent to other processes. Forking this process would copy
    the locks of Arrow's threads."""
    with contextlib.ExitStack() as stack:
        pool: Executor | None = None

        def mapped(step: Step, blocks: Iterable[RowBlock]) -> Iterator[Any]:
            nonlocal pool
            stream = iter(blocks)
            first = list(islice(stream, 2)) if workers > 1 and pool is None else []
            if len(first) > 1:
                pool = stack.enter_context(_pool(task, workers, start))
            stream = chain(first, stream)
            return map(partial(step, task), stream) if pool is None else _mapped(pool, _AHEAD * workers, step, stream)

        yield mapped


def _mapped(pool: Executor, ahead: int, step: Step, blocks: Iterable[RowBlock]) -> Iterator[Any]:
    waiting: deque[Future[Any]] = deque()
    try:
        for block in blocks:
            waiting.append(pool.submit(_run, step, block))
            while len(waiting) >= ahead or (waiting and waiting[0].done()):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def _pool(task: Any, workers: int, start: str) -> Executor:
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return ThreadPoolExecutor(workers, initializer=_give_copy, initargs=(task,))
    context = multiprocessing.get_context(start)
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_give, initargs=(task,))


def _give_copy(task: Any) -> None:
    _mine.task = copy.copy(task)  # a reader's caches are not thread-safe


def _give(task: Any) -> None:
    _mine.task = task
    parent = multiprocessing.parent_process()
    if parent is not None:
        # Otherwise a worker would wait for blocks forever if the parent is killed.
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


def _run(step: Step, block: RowBlock) -> Any:
    return step(_mine.task, block)
