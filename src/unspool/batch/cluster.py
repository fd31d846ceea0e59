"""A run on Ray. Its workers read blocks, write parts, and send back only counts."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from .blocks import InputError
from .slices import Slice

__all__ = ["ClusterError", "connected", "on_ray"]


class ClusterError(RuntimeError):
    """Ray cannot be started or reached, or its workers keep dying."""


def _worked(task: Callable[[Slice], Any], batch: pa.Table) -> pa.Table:
    results = [_result(task, text) for text in batch["slice"].to_pylist()]
    return pa.table({"done": [done for done, _ in results], "failed": pa.array([f for _, f in results], pa.string())})


def _result(task: Callable[[Slice], Any], text: bytes) -> tuple[bytes, str | None]:
    """A block's result, or why its file cannot be read, since Ray wraps errors in tracebacks of its own."""
    piece = msgspec.json.decode(text, type=Slice)
    try:
        return msgspec.json.encode(task(piece)), None
    except InputError as error:
        return b"", str(error)
    except OSError as error:
        return b"", f"{error.filename or piece.file}: {error.strerror}"


class _PartWorker:
    """One of Ray's workers. It has its own parser's plan, and works on slices as they arrive."""

    def __init__(self, task: Callable[[Slice], Any]) -> None:
        self._task = task

    def __call__(self, batch: pa.Table) -> pa.Table:
        return _worked(self._task, batch)


@contextlib.contextmanager
def connected(workers: int, address: str | None) -> Iterator[None]:
    """Connect to Ray for the duration of the context.

    Args:
        workers: the number of cores that Ray gets, if it is started here.
        address: the cluster's address; ``None`` starts Ray on this machine.

    Raises:
        ClusterError: Ray cannot be started or reached.
    """
    import ray

    if ray.is_initialized():
        yield
        return
    here = {} if address else {"num_cpus": max(workers, 2), "include_dashboard": False}
    try:
        ray.init(address=address, log_to_driver=False, **here)
    except Exception as error:  # of many types; the message contains the reason
        raise ClusterError(str(error).partition("\n")[0]) from error
    try:
        yield
    finally:
        ray.shutdown()


def on_ray(
    task: Callable[[Slice], Any], pieces: Iterable[Slice], workers: int, kind: type[Any], *, planned: bool = False
) -> Iterator[Any]:
    """The results of a task for blocks, in any order.

    Ray Data streams them. Its scheduler holds blocks back until workers are ready. If a worker dies, another one gets
    its block and writes the part again under the same name, so each part exists once.

    Args:
        task: reads a block and works on it; its result is sent as JSON.
        pieces: the blocks.
        workers: the number of workers, each on one core.
        kind: the type of the task's result.
        planned: whether the task has a parser's plan, which each worker makes once and keeps.

    Raises:
        InputError: a file cannot be read.
        ClusterError: Ray gave up.
    """
    import ray.data
    from ray.exceptions import RayError, RayTaskError

    items = [{"slice": msgspec.json.encode(s)} for s in pieces]
    if not items:
        return
    ray.data.DataContext.get_current().enable_progress_bars = False
    blocks = ray.data.from_items(items, override_num_blocks=len(items))
    options: dict[str, Any] = {"batch_size": 1, "batch_format": "pyarrow", "num_cpus": 1}
    if planned:
        actors = ray.data.ActorPoolStrategy(size=workers)
        done = blocks.map_batches(_PartWorker, fn_constructor_args=(task,), compute=actors, **options)
    else:  # Ray reuses processes for functions
        done = blocks.map_batches(partial(_worked, task), compute=ray.data.TaskPoolStrategy(size=workers), **options)
    try:
        for row in done.iter_rows():
            if row["failed"] is not None:
                raise InputError(row["failed"])
            yield msgspec.json.decode(row["done"], type=kind)
    except RayError as error:
        if isinstance(error, RayTaskError):  # an error of ours
            raise
        raise ClusterError(str(error).partition("\n")[0]) from error
