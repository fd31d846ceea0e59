"""`parse_table` under ``map_batches`` of a real Ray, with several worker processes."""

import os
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from unspool.batch import BadRow, parse_table

from .rows import is_bad, row

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]
ROWS = 3_000


def parsed(batch: pa.Table) -> pa.Table:
    """What a worker does; its bad rows are counted by their absence."""
    errors: list[BadRow] = []
    return parse_table(batch, "hermes", errors=errors)


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """The rows in the order of their keys, without ids, which are made from positions in a batch."""
    rows = sorted(table.to_pylist(), key=lambda one: one["key"])
    return [{**one, "tool_calls": [{**call, "id": ""} for call in one["tool_calls"]]} for one in rows]


def test_a_dataset_with_a_killed_worker_holds_what_one_process_reads() -> None:
    ray: Any = import_module("ray")
    data: Any = import_module("ray.data")
    rows = [row(i) | {"tools": "[]", "meta": "{}"} | ({"output": None} if is_bad(i) else {}) for i in range(ROWS)]
    table = pa.Table.from_pylist(rows)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    killed: list[int] = []
    try:
        blocks = data.from_arrow([table.slice(at, 50) for at in range(0, ROWS, 50)])
        work = blocks.map_batches(Working, batch_format="pyarrow", batch_size=50, concurrency=2)
        found = []
        for batch in work.iter_batches(batch_format="pyarrow", batch_size=None):
            found.append(batch)
            if len(found) == 3:
                killed = workers()[:1]
                for pid in killed:
                    os.kill(pid, signal.SIGKILL)
    finally:
        ray.shutdown()
    assert killed, "no worker was found to kill"
    assert plain(pa.concat_tables(found)) == plain(parsed(table))
    assert len(pa.concat_tables(found)) == ROWS - sum(map(is_bad, range(ROWS)))


class Working:
    """Work that an actor does, so that its process can be found."""

    def __call__(self, batch: pa.Table) -> pa.Table:
        return parsed(batch)


def workers() -> list[int]:
    """The processes of Ray's workers that parse."""
    lines = ((entry, entry / "cmdline") for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return [int(entry.name) for entry, line in lines if line.exists() and b"MapWorker" in line.read_bytes()]
