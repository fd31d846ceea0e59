"""A run on Ray, whose workers read blocks, write parts, and send back only counts."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from .blocks import Block
from .slices import Slice, load

__all__ = ["connected", "on_ray"]


def _worked(task: Callable[[Block], Any], batch: pa.Table) -> pa.Table:
    results = [task(load(msgspec.json.decode(text, type=Slice))) for text in batch["slice"].to_pylist()]
    return pa.table({"done": [msgspec.json.encode(t) for t in results]})


class _PartWorker:
    """One of Ray's workers: has its own parser's plan, and works on slices as they come."""

    def __init__(self, task: Callable[[Block], Any]) -> None:
        self._task = task

    def __call__(self, batch: pa.Table) -> pa.Table:
        return _worked(self._task, batch)


@contextlib.contextmanager
def connected(workers: int, address: str | None) -> Iterator[None]:
    """Be connected to Ray.

    Args:
        workers: for how many there are cores, where Ray is started here.
        address: of a cluster; ``None`` starts Ray on this machine.
    """
    import ray

    if ray.is_initialized():
        yield
        return
    here = {} if address else {"num_cpus": max(workers, 2), "include_dashboard": False}
    ray.init(address=address, log_to_driver=False, **here)
    try:
        yield
    finally:
        ray.shutdown()


def on_ray(
    task: Callable[[Block], Any], pieces: Iterable[Slice], workers: int, kind: type[Any], *, planned: bool = False
) -> Iterator[Any]:
    """The results of a task for blocks, in any order.

    Ray Data streams them: its scheduler holds back blocks until workers are ready, and gives a block whose worker
    died to another. The part is then written again under the same name, so it exists once.

    Args:
        task: works on a block; its result is sent as JSON.
        pieces: the blocks.
        workers: how many, each on a core.
        kind: the type of what the task gives back.
        planned: whether the task has a parser's plan, which each worker then makes once and keeps.
    """
    import ray.data

    items = [{"slice": msgspec.json.encode(s)} for s in pieces]
    if not items:
        return
    ray.data.DataContext.get_current().enable_progress_bars = False
    blocks = ray.data.from_items(items, override_num_blocks=len(items))
    options: dict[str, Any] = {"batch_size": 1, "batch_format": "pyarrow", "num_cpus": 1}
    if planned:
        actors = ray.data.ActorPoolStrategy(size=workers)
        done = blocks.map_batches(_PartWorker, fn_constructor_args=(task,), compute=actors, **options)
    else:  # processes that ran a function stay for the next one
        done = blocks.map_batches(partial(_worked, task), compute=ray.data.TaskPoolStrategy(size=workers), **options)
    for row in done.iter_rows():
        yield msgspec.json.decode(row["done"], type=kind)
