"""`parse_table` under ``map_batches`` of a real Ray, with several worker processes, also on rows of sessions."""

import json
import os
import signal
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from unspool.batch import BadRow, parse_table
from unspool.rl import Rollout
from unspool.rl.exports import written

from ..server.writing import TOKENIZER
from ..sessions.recorded import FOLDER, replayed
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


def answers(batch: pa.Table) -> pa.Table:
    """What the rows of sessions say last, read from the tokens that were sampled."""
    sampled = []
    for one in batch.select(["input_ids", "loss_mask"]).to_pylist():
        count = len(list(takewhile(bool, reversed(one["loss_mask"]))))
        sampled.append(one["input_ids"][-count:])
    return parse_table(batch.append_column("token_ids", pa.array(sampled)), "hermes", tokenizer=TOKENIZER)


def test_exported_rows_of_sessions_are_read_as_other_rows_are() -> None:
    ray: Any = import_module("ray")
    data: Any = import_module("ray.data")
    turns = json.loads((FOLDER / "codex.json").read_text(encoding="utf-8"))
    runs = [msgspec.convert(replayed(turns), Rollout) for _ in range(2)]
    with pa.ipc.open_stream(written(runs, encoding="arrow")[0]) as stream:
        table = stream.read_all()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        blocks = data.from_arrow([table.slice(at, 1) for at in range(len(table))])
        found = blocks.map_batches(answers, batch_format="pyarrow", batch_size=1).take_all()
    finally:
        ray.shutdown()
    summary = "<analysis>x</analysis><summary>What was done.</summary>"
    assert sorted(one["content"] for one in found) == sorted(2 * [summary, "Noted.", "Noted.", "Sub done."])
    learnt = sum(sum(json.loads(one["loss_mask"])) for one in found)  # as other columns of lists are passed on
    assert sorted(json.loads(one["input_ids"]) for one in found) == sorted(table["input_ids"].to_pylist())
    assert learnt == sum(len(call.output_ids) for one in runs for call in one.calls)


class Working:
    """Work that an actor does, so that its process can be found."""

    def __call__(self, batch: pa.Table) -> pa.Table:
        return parsed(batch)


def workers() -> list[int]:
    """The processes of Ray's workers that parse."""
    lines = ((entry, entry / "cmdline") for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return [int(entry.name) for entry, line in lines if line.exists() and b"MapWorker" in line.read_bytes()]
