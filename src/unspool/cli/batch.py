"""The command ``batch``: parses many outputs, from files into files."""

import argparse
import errno
import json
import multiprocessing
import os
import signal
import sys
import time
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DialectError, UnknownDialect
from ..events import Stage
from ..wire.encoding import CONTROLS
from .common import (
    Misuse,
    OneOf,
    blaming,
    candidates,
    load_tools,
    needing,
    policy_argument,
    read_given,
    read_policy,
    read_tool_choice,
)

if TYPE_CHECKING:
    from ..batch import Progress

_EVERY = 0.2  # seconds between two drawings of the progress bar
_WIDTH = 24  # the bar's width in characters
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LARGE = 1 << 20  # bytes of input from which several workers pay off


def batch_arguments(p: argparse.ArgumentParser) -> None:
    text = "JSON lines, parquet, recordings; folders and globs of them; - for standard input"
    p.add_argument("input", metavar="INPUT", nargs="+", help=text)
    text = "a .parquet or .jsonl file, or a folder for parts of parquet"
    p.add_argument("-o", "--output", metavar="OUTPUT", required=True, help=text)
    text = "see `unspool dialects`; auto goes by each row's model, templates or recording, else by the outputs"
    p.add_argument("-d", "--dialect", metavar="NAME|FILE.toml|auto", required=True, help=text)
    p.add_argument("--model", metavar="NAME", help="for auto: the model of rows that name none")
    p.add_argument("--column", metavar="NAME", default="output", help="the column of the text; default: output")
    p.add_argument(
        "--token-ids", metavar="NAME", default="token_ids", help="the column of token ids; default: token_ids"
    )
    p.add_argument("--tokenizer", metavar="PATH", help="a tokenizer.json or its folder, or a GGUF, to read ids")
    p.add_argument("--tools-column", metavar="NAME", default="tools", help="the column of tools; default: tools")
    p.add_argument("--tools", metavar="FILE", help="tools of rows that have none of their own")
    p.add_argument("--tool-choice", metavar="CHOICE", default="auto", help="auto (the default), none, required, a name")
    text = "the column of the engine's finish reason; default: finish_reason"
    p.add_argument("--finish-reason-column", metavar="NAME", default="finish_reason", help=text)
    p.add_argument(
        "--finish-reason", metavar="REASON", default="stop", help="the finish reason of rows without one; default: stop"
    )
    p.add_argument("--prompt-column", metavar="NAME", help="the column of the rendered prompt, or of its ids")
    p.add_argument("--prompt", metavar="TEXT|@FILE", help="the rendered prompt of rows without one")
    p.add_argument("--stage-column", metavar="NAME", help="the column that says how the output begins")
    text = f"the stage of rows without one: {', '.join(Stage)}"
    p.add_argument("--stage", type=OneOf(Stage), metavar="STAGE", help=text)
    policy_argument(p)
    p.add_argument("--workers", metavar="N", type=_count, default=0, help="number of processes; default: one per core")
    p.add_argument(
        "--rows", metavar="N", type=_count, default=2_000, help="maximum number of rows in a part; default: 2,000"
    )
    p.add_argument("--resume", action="store_true", help="continue an earlier run")
    p.add_argument("--strict", action="store_true", help="exit with 1 if a row cannot be read")
    p.add_argument("--html", metavar="FILE", help="write a report with plots")


def run_batch(options: argparse.Namespace) -> int:
    workers = options.workers or os.cpu_count() or 1
    start = "spawn" if workers == 1 else _workers_start(options.input)
    with needing("batch"):
        from ..batch import InputError, Job
    _check(options)
    began = time.monotonic()
    bar = _Bar()
    try:
        job = Job(
            options.input,
            options.output,
            _reading(options),
            workers=workers,
            resume=options.resume,
            rows=options.rows,
            start=start,
        )
        if job.finished:
            print(f"{options.output} exists already; without --resume it is overwritten", file=sys.stderr)
            return 1 if options.strict and job.errors.is_file() else 0
        summary = job.run(bar)
    except BrokenExecutor:
        bar.clear()
        print("unspool batch: a worker died, perhaps for lack of memory; --resume continues", file=sys.stderr)
        return 1
    except (UnknownDialect, DialectError) as error:
        raise Misuse(f"--dialect: {error}") from None
    except InputError as error:
        raise Misuse(f"INPUT: {error}") from None
    except ValueError as error:
        raise Misuse(str(error)) from None
    except OSError as error:
        unnamed = options.output if error.errno in _FULL else "INPUT"  # reads and writes name no file
        raise Misuse(f"{error.filename or unnamed}: {error.strerror or error}") from None
    finally:
        bar.clear()
    seconds = time.monotonic() - began
    print(summary.text(seconds).translate(CONTROLS), end="", file=sys.stderr)
    if summary.errors:
        with job.errors.open("rb") as file:
            first = str(json.loads(file.readline())["reason"]).translate(CONTROLS)
        print(f"rows that could not be read: {job.errors}; the first: {first}", file=sys.stderr)
    if options.html is not None:
        from ..batch.report import write_report

        with blaming("--html", options.html):
            write_report(options.html, summary, seconds)
    return 1 if options.strict and summary.errors else 0


def _check(options: argparse.Namespace) -> None:
    """Report what can be known to be wrong before any output is read."""
    if options.output == "-":
        raise Misuse("--output: must be a file or a folder; parts and summaries cannot go to standard output")
    if options.dialect != "auto" and options.model is not None:
        raise Misuse("--model: needs --dialect auto")
    if options.model is not None:
        candidates(options.model, None)
    if options.tokenizer is not None:
        with blaming("--tokenizer", options.tokenizer):
            os.stat(options.tokenizer)
    if options.html is not None and not Path(options.html).absolute().parent.is_dir():
        raise Misuse(f"--html: {Path(options.html).parent}: there is no such folder")


def _workers_start(inputs: list[str]) -> str:
    """Multiprocessing's start method for workers.

    On Linux they are forked from a server process that has imported what they need. It imports at once, in parallel
    with this process. Both have only threads of libraries that allow forking.
    """
    if sys.platform != "linux" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "spawn"
    from multiprocessing import forkserver

    multiprocessing.get_context("forkserver").set_forkserver_preload(["unspool.cli.batch", "unspool.batch"])
    if sum(os.path.getsize(f) if os.path.isfile(f) else _LARGE for f in inputs) >= _LARGE:
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # this process reports an interrupt
        try:
            forkserver.ensure_running()
        finally:
            signal.signal(signal.SIGINT, handler)
    return "forkserver"


def _reading(options: argparse.Namespace) -> Any:
    from ..batch import Columns, Reading

    tools = load_tools(options.tools)
    return Reading(
        dialect=options.dialect,
        columns=Columns(
            text=options.column,
            token_ids=options.token_ids,
            tools=options.tools_column,
            finish_reason=options.finish_reason_column,
            prompt=options.prompt_column,
            stage=options.stage_column,
        ),
        tools=tools,
        tool_choice=read_tool_choice(options.tool_choice, tools),
        prompt=read_given("--prompt", options.prompt),
        stage=options.stage,
        finish_reason=options.finish_reason,
        policy=read_policy(options.policy),
        tokenizer=options.tokenizer,
        model=options.model,
    )


def _count(value: str) -> int:
    if not value.isdecimal() or not 0 < int(value) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number from 1 to 1,000,000")
    return int(value)


class _Bar:
    """A progress bar on a terminal, with the speed and the number of errors."""

    def __init__(self) -> None:
        self._drawn = 0.0
        self._terminal = sys.stderr.isatty()

    def __call__(self, progress: "Progress") -> None:
        now = time.monotonic()
        if not self._terminal or now - self._drawn < _EVERY:
            return
        self._drawn = now
        summary = progress.summary
        rate = summary.rows / progress.seconds if progress.seconds else 0.0
        bar = "" if progress.part is None else f"[{'#' * int(progress.part * _WIDTH):{_WIDTH}}] {progress.part:.0%}  "
        line = f"\r{bar}{summary.rows:,} rows, {rate:,.0f}/s, {summary.errors:,} errors\x1b[K"
        print(line, end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._terminal and self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
