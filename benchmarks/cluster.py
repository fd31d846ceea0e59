"""Ray with two workers compared with one local worker: `make bench-ray`, on Linux, on two cores.

Both read the same rows of parquet and write a folder of parquet. As in a cluster, Ray is already running and has
processed a few rows, so that its own actors exist. The workers of a run do not exist yet, and their start counts.

If other programs use the same cores, wall-clock time says little. So the kernel reports how long each worker waited for
a core, and the ratio without this time is listed too. A rented machine's speed drifts by the minute, so the local run
comes before Ray's and again after it, and the mean of both counts.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from unspool.batch.cluster import connected
from unspool.batch.reading import Reading
from unspool.batch.run import Job

from .outputs import DIALECT, TOOLS, rollout
from .table import Row, table

_GROUP: Final = 2_000
_WARM: Final = 4 * _GROUP
_WORKER: Final = b"ray::MapWorker"
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_EVERY: Final = 1.0  # seconds between two checks of the processes, since nothing reports those that end


class Process(NamedTuple):
    """The kernel's figures for a process.

    Attributes:
        worker: whether it works on blocks.
        spent: its processor time, in seconds.
        waited: how long its busiest thread was ready to run while other threads used the cores.
    """

    worker: bool
    spent: float
    waited: float


class Took(NamedTuple):
    """The cost of a run, in seconds.

    Attributes:
        clock: its wall-clock time.
        workers, others: processor time of those that work on blocks, and of all other processes of the run.
        waited: how long a worker waited for a core, on average.
    """

    clock: float
    workers: float
    others: float
    waited: float


def main() -> int:
    """Measure, and print a table. The exit code is 1 if the promise is not kept."""
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    p.add_argument("--rows", type=int, default=300_000, help="default: 300,000; a core reads some 6,000 a second")
    count = p.parse_args().rows
    # Ray's workers make way for other programs by default, the local one does not.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    with tempfile.TemporaryDirectory() as folder:
        few, all_rows = _write(Path(folder, "few.parquet"), _WARM), _write(Path(folder, "all.parquet"), count)
        with connected(2, None):
            _ray(few, f"{folder}/warm")
            before = _took_alone(lambda: _local(all_rows, f"{folder}/local"))
            ray = _took(lambda: _ray(all_rows, f"{folder}/ray"), lambda pid, line: line.startswith(_WORKER))
            after = _took_alone(lambda: _local(all_rows, f"{folder}/again"))
        parts = [sorted(Path(folder, name).glob("*.parquet")) for name in ("local", "ray")]
        if [p.name for p in parts[0]] != [p.name for p in parts[1]]:
            print("Ray wrote other parts", file=sys.stderr)
            return 1
    print(f"local: {before.clock:.1f} s before, {after.clock:.1f} s after; Ray: {ray.clock:.1f} s")
    rows = list(_rows(count, _mean(before, after), ray))
    print(table(rows), end="")
    return 1 if any(row.kept is False for row in rows) else 0


def _rows(count: int, local: Took, ray: Took) -> Iterator[Row]:
    name = "Ray, two workers beside one local"
    case = f"{count:,} rows, {local.clock:.0f} s beside {ray.clock:.0f} s: by the clock"
    yield Row(name, case, local.clock / ray.clock, "×")
    quiet = (local.clock - local.waited) / (ray.clock - ray.waited)
    yield Row(name, "the same without waiting for a core", quiet, "×", 1.6, "least")
    yield Row(name, "processor time, all processes", (ray.workers + ray.others) / local.workers, "×", 1.25)
    yield Row(name, "of that, the workers", ray.workers / local.workers, "×")
    yield Row(name, "of that, Ray's processes and the driver", ray.others / local.workers, "×")
    yield Row(name, "local: waited for a core", local.waited / local.clock * 100, "%")
    yield Row(name, "Ray: a worker waited for a core", ray.waited / ray.clock * 100, "%")


def _write(path: Path, count: int) -> str:
    """Rows as parquet, in groups of the size that local runs cut."""
    outputs = [rollout(i) for i in range(_GROUP)]
    tools = [json.dumps(TOOLS)] * _GROUP
    schema = pa.schema([("key", pa.int64()), ("output", pa.string()), ("tools", pa.string())])
    with pq.ParquetWriter(path, schema) as to:
        for first in range(0, count, _GROUP):
            size = min(_GROUP, count - first)
            keys = list(range(first, first + size))
            to.write_table(pa.table({"key": keys, "output": outputs[:size], "tools": tools[:size]}, schema=schema))
    return str(path)


def _local(source: str, out: str) -> None:
    Job([source], out, Reading(dialect=DIALECT), workers=1).run()


def _ray(source: str, out: str) -> None:
    Job([source], out, Reading(dialect=DIALECT), workers=2, ray=True).run_on_ray()


def _mean(one: Took, other: Took) -> Took:
    return Took(*((a + b) / 2 for a, b in zip(one, other, strict=True)))


def _took_alone(run: Callable[[], Any]) -> Took:
    """The cost of a run in this process; other processes do not count."""
    here = os.getpid()
    took = _took(run, lambda pid, line: pid == here)
    return took._replace(others=0.0)


def _took(run: Callable[[], Any], works: Callable[[int, bytes], bool]) -> Took:
    """The cost of a run, in this process and in all that it started."""
    before = _processes(works)
    last: dict[int, Process] = {}
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(_EVERY):
            last.update(_processes(works))

    thread = threading.Thread(target=look)
    thread.start()
    start = time.perf_counter()
    run()
    clock = time.perf_counter() - start
    last.update(_processes(works))
    ended.set()
    thread.join()
    none = Process(False, 0.0, 0.0)
    spent = {pid: one.spent - before.get(pid, none).spent for pid, one in last.items()}
    waited = [one.waited - before.get(pid, none).waited for pid, one in last.items() if one.worker]
    workers = sum(spent[pid] for pid, one in last.items() if one.worker)
    return Took(clock, workers, sum(spent.values()) - workers, sum(waited) / len(waited))


def _processes(works: Callable[[int, bytes], bool]) -> dict[int, Process]:
    """This process and all that it started, by their ids."""
    processes: dict[int, tuple[int, Process]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            worker = works(int(entry.name), (entry / "cmdline").read_bytes())
            waited = _waited(entry) if worker else 0.0
        except OSError:
            continue  # it has ended since
        spent = (int(fields[11]) + int(fields[12])) / _TICKS
        processes[int(entry.name)] = int(fields[1]), Process(worker, spent, waited)
    ours = {os.getpid()}
    while more := {pid for pid, (parent, _) in processes.items() if parent in ours} - ours:
        ours |= more
    return {pid: processes[pid][1] for pid in ours if pid in processes}


def _waited(process: Path) -> float:
    """How long the busiest thread of a process waited for a core."""
    threads = [(t / "schedstat").read_text(encoding="utf-8").split() for t in (process / "task").iterdir()]
    _, waited = max((int(figures[0]), int(figures[1])) for figures in threads)
    return waited / 1e9


if __name__ == "__main__":
    sys.exit(main())
