"""Measures, and prints one table."""

import argparse
import json
import platform
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from .answers import answers, streamed
from .clock import bare_call, least_chunk
from .constraints import constraints
from .effort import FULL, QUICK, Effort
from .ids import ids
from .kinds import kinds
from .parallel import interleaved
from .pending import pending
from .rollouts import rollouts
from .serving import serving
from .sessions import sessions
from .starting import construct, first_use, imports
from .strings import flat, strings, whole
from .table import Row, table

MEASUREMENTS: Final[dict[str, Callable[[Effort], Iterator[Row]]]] = {
    "strings": strings,
    "flat": flat,
    "kinds": kinds,
    "whole": whole,
    "answers": answers,
    "streamed": streamed,
    "ids": ids,
    "construct": construct,
    "import": imports,
    "first-use": first_use,
    "interleaved": interleaved,
    "pending": pending,
    "constrain": constraints,
    "rollouts": rollouts,
    "serve": serving,
    "sessions": sessions,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurements that the arguments select. Returns the exit code."""
    options = _options().parse_args(argv)
    rows: list[Row] = [
        Row("bare method call", f"{_python()}, {_processor()}", bare_call() * 1e9, "ns"),
        Row("least work for a chunk", "a search, an event, a list", least_chunk(), "× bare"),
    ]
    for name in options.only or MEASUREMENTS:
        if sys.stderr.isatty():
            print(f"{name} …", end="\x1b[K\r", file=sys.stderr, flush=True)
        rows.extend(MEASUREMENTS[name](QUICK if options.quick else FULL))
    print(table(rows), end="")
    if options.json is not None:
        text = json.dumps([row.as_dict() for row in rows], indent=1, ensure_ascii=False)
        options.json.write_text(text + "\n", encoding="utf-8")
    return 0


def _python() -> str:
    """The interpreter, and how its build is optimized, on which what a call costs depends."""
    options = sysconfig.get_config_var("CONFIG_ARGS") or ""
    how = " with --enable-optimizations" if "--enable-optimizations" in options else ""
    return f"{platform.python_implementation()} {platform.python_version()}{how}"


def _processor() -> str:
    """The name of the processor, as the system gives it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What unspool costs, in one table.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, sizes and dialects, in about 20 seconds")
    parser.add_argument(
        "--only",
        action="append",
        choices=list(MEASUREMENTS),
        metavar="NAME",
        help=f"only this one of {', '.join(MEASUREMENTS)}",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
