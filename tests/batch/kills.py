"""Checks that runs survive random kills: `python -m tests.batch.kills --kills 100`.

Each run has its own output, number of workers and size of blocks. It is restarted until it ends by itself; before that,
this process kills it, or one of its workers, at random moments. Whatever a killed run has written must be right, and
the result must be that of an undisturbed run.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from .rows import write_lines

FORMS = ("out", "out.parquet", "out.jsonl")


class Run(NamedTuple):
    """A run, and where it writes."""

    source: Path
    out: Path
    workers: int
    rows: int

    def start(self) -> "subprocess.Popen[bytes]":
        words = ["batch", self.source, "-d", "hermes", "-o", self.out, "--rows", self.rows, "--workers", self.workers]
        command = [sys.executable, "-m", "unspool", *map(str, words), "--resume"]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @property
    def parts(self) -> Path:
        return self.out if not self.out.suffix else Path(f"{self.out}.unspool")

    def made(self) -> set[Path]:
        """The parts that exist under their own names, which means that they are whole."""
        return set(self.parts.glob("part-*.*"))


def children(pid: int) -> list[int]:
    """The processes that a process started, in any of its threads, and the processes that they started."""
    found: list[int] = []
    for threads in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has just ended
            found += map(int, threads.read_text().split())
    return [p for child in found for p in (child, *children(child))]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def content(out: Path) -> list[object]:
    """Everything that a finished run wrote: its rows in order, and the bad ones."""
    errors = Path(f"{out}.errors.jsonl").read_bytes()
    if out.suffix == ".jsonl":
        return [out.read_bytes(), errors]
    files = [out] if out.suffix else sorted(out.glob("*.parquet"))
    return [[row for file in files for row in pq.read_table(file).to_pylist()], errors]


def whole(run: Run, part: Path) -> None:
    """Assert that a part is whole, or does not exist.

    Raises:
        AssertionError: the part is cut off, or is not in the format of its extension.
    """
    if part.suffix == ".parquet":
        assert pq.ParquetFile(part).metadata.num_rows <= run.rows, part
    else:
        assert part.read_bytes().endswith(b"\n"), part


def disturbed(run: Run, rng: random.Random, most: int) -> Counter[str]:
    """Restart a run until it ends by itself, and count what was killed. ``most`` limits the number of kills."""
    killed: Counter[str] = Counter()
    while True:
        process = run.start()
        first = len(run.made())
        if rng.random() < 0.7:  # otherwise, kill it while it starts
            while process.poll() is None and len(run.made()) == first:
                time.sleep(0.002)
        limit = time.monotonic() + rng.choice((0.05, 0.3, 1.0)) * rng.random()
        while process.poll() is None and killed.total() < most and time.monotonic() < limit:
            time.sleep(0.002)
        below = children(process.pid)
        if process.poll() is None and killed.total() < most:
            who = rng.choice([process.pid, rng.choice([process.pid, *below])])
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(who, signal.SIGKILL)
                killed["run" if who == process.pid else "worker"] += 1
        code = process.wait(120)
        until = time.monotonic() + 60
        while any(map(alive, below)):
            assert time.monotonic() < until, "a worker outlived its run"
            time.sleep(0.01)
        for part in run.made():
            whole(run, part)
        if code == 0:
            return killed
        assert killed.total(), f"exit code {code}"


def endure(kills: int, seed: int, rows: int) -> tuple[int, Counter[str]]:
    """Kill runs so many times. Returns the number of runs, and what was killed.

    Raises:
        AssertionError: a run left something wrong, or ended with something else than an undisturbed one.
    """
    rng = random.Random(seed)
    total: Counter[str] = Counter()
    runs = 0
    with tempfile.TemporaryDirectory() as folder:
        source = write_lines(Path(folder, "in.jsonl"), rows)
        calm: dict[str, list[object]] = {}
        while total.total() < kills:
            runs += 1
            form = rng.choice(FORMS)
            if form not in calm:
                run = Run(source, Path(folder, "calm", form), 1, 100)
                assert run.start().wait(600) == 0
                calm[form] = content(run.out)
            run = Run(source, Path(folder, str(runs), form), rng.choice((1, 2, 3)), rng.choice((10, 40, 100)))
            total += disturbed(run, rng, rng.randint(1, 8))
            assert content(run.out) == calm[form], f"{run} differs from a run that nobody disturbed"
            assert not run.out.suffix or not run.parts.exists(), f"{run} left its parts"
    return runs, total


def main() -> int:
    """Run the check, and return the exit code."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--kills", type=int, default=100)
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    p.add_argument("--rows", type=int, default=2_000)
    options = p.parse_args()
    print(f"seed {options.seed}", flush=True)
    runs, killed = endure(options.kills, options.seed, options.rows)
    print(f"{runs} runs, killed {killed['run']} times, a worker {killed['worker']} times: all ended with the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
