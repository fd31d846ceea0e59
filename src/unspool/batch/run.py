"""A run: gives blocks to workers, writes parts to disk, and resumes after a kill.

Each block becomes one part. A part is written under a temporary name, and renamed once it is complete. Its counts, its
bad rows and its size are written before that. So every part that exists after a kill is right; a part that is missing,
or too short because the power failed, is made again.
"""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from .. import __version__
from .blocks import InputError, RowBlock, blocks, find_inputs, parquet_schema
from .detection import files_detected, first_detected
from .reading import Reading, RowReader, tokenizer_file
from .summary import Summary
from .work import BadRow, arrow_columns, line_columns, merged_columns, read_block, schema_of, typed_columns
from .workers import Mapped, pool

_OTHERS: Final = (".arrow", ".csv", ".feather", ".gz", ".json", ".ndjson", ".tsv", ".txt", ".zst")
"""Endings of files that are not written, and hardly of folders."""
_STATE: Final = ".unspool"


class Progress(NamedTuple):
    """How far a run is.

    Attributes:
        summary: the counts.
        seconds: the seconds since its start.
        part: the share of the input that is done, from 0 to 1; ``None`` if unknown, as for standard input.
    """

    summary: Summary
    seconds: float
    part: float | None = None


class _PartState(msgspec.Struct):
    """The state of a part, in a file beside it: the checksum and the rows of its block, its bytes; see `Done`."""

    mark: int
    rows: int
    size: int
    summary: Summary
    bad: list[BadRow]


class Job:
    """One run.

    Args:
        inputs: files, folders, patterns, or ``-``.
        output: a ``.parquet`` or ``.jsonl`` file, or a folder for parts of parquet.
        reading: how rows are read.
        workers: the number of processes, or of threads without a global lock. A single one works in this process.
        resume: whether to continue an earlier run with the same inputs and settings.
        rows: the most rows of a part.
        start: multiprocessing's start method for workers.

    Attributes:
        errors: the file of rows that cannot be read.
        finished: whether nothing is left to do, because the single file exists and no parts do.

    Raises:
        InputError: an input is missing or unsuitable, or the output belongs to another run.
        OSError: a file cannot be read or written.
    """

    def __init__(
        self,
        inputs: list[str],
        output: str,
        reading: Reading,
        *,
        workers: int = 1,
        resume: bool = False,
        rows: int = 2_000,
        start: str = "spawn",
    ) -> None:
        self._files = find_inputs(inputs)
        if "-" in self._files and len(self._files) > 1:
            raise InputError("-: standard input cannot be combined with other inputs")
        self._output = Path(output)
        self._reading = reading
        self._workers = workers
        self._rows = rows
        self._start = start
        self._form = self._output.suffix if self._output.suffix in (".parquet", ".jsonl") else ""
        if self._output.suffix in _OTHERS and not self._output.is_dir():
            raise InputError(f"{output}: cannot be written; allowed are FILE.parquet, FILE.jsonl and a folder")
        self._parts = self._output if not self._form else Path(f"{output}{_STATE}")
        self.errors = Path(f"{output}.errors.jsonl")
        self._refuse_own_inputs()
        if self._form and self._output.is_dir():
            raise InputError(f"{output}: is a folder; the output is one file")
        self._state = self._parts / _STATE
        self._ending = ".jsonl" if self._form == ".jsonl" else ".parquet"
        RowReader(reading)  # raises if settings are wrong
        self.finished = False
        self._begin(resume)

    def _refuse_own_inputs(self) -> None:
        """Refuse inputs that the run would replace, or remove with the parts of an earlier run."""
        written, parts = {self._output.resolve(), self.errors.resolve()}, self._parts.resolve()
        for file in self._files:
            path = Path(file).resolve()
            if file != "-" and (path in written or parts in path.parents):
                raise InputError(f"{file}: would be replaced by the output {self._output}")

    def _begin(self, resume: bool) -> None:
        """Make the folder of parts, or find it as an earlier run left it."""
        identity = json.dumps([self._identity(), self._rows, self._ending], default=repr, sort_keys=True)
        manifest = self._state / "job.json"
        ours = manifest.is_file()
        if resume and ours:
            if manifest.read_text(encoding="utf-8") != identity:
                raise InputError(
                    f"{self._output}: was started with other inputs or settings, or by another version of unspool; "
                    "without --resume it starts over"
                )
        elif resume and self._form and self._output.is_file():
            self.finished = True
            self._clear()  # a kill may have come while the parts were removed
            return
        elif ours:
            shutil.rmtree(self._parts)
        elif self._parts.is_dir() and any(self._parts.iterdir()):
            raise InputError(f"{self._output}: is a folder that contains something else")
        self._state.mkdir(parents=True, exist_ok=True)
        for cut in (*self._parts.glob(".*.tmp"), *self._state.glob(".*.tmp")):
            cut.unlink(missing_ok=True)  # a file that a killed run was writing
        if not manifest.is_file():
            _write(manifest, identity.encode())

    def _identity(self) -> list[Any]:
        """The values that must be unchanged if a run is resumed."""
        files = [(f, 0, 0) if f == "-" else (f, *_stat(f)) for f in self._files]
        reading = {f: getattr(self._reading, f) for f in self._reading.__struct_fields__}
        reading["tokenizer"] = reading["tokenizer"] if isinstance(reading["tokenizer"], str) else None
        used = [tokenizer_file(reading["tokenizer"])] if reading["tokenizer"] else []
        used += [Path(f) for f in [reading["dialect"]] if isinstance(f, str) and f.endswith(".toml")]
        return [__version__, files, reading, [(str(f), *_stat(f)) for f in used]]

    # -- the run ---------------------------------------------------------------------------------------------------

    def run(self, show: Callable[[Progress], None] = lambda progress: None) -> Summary:
        """Work on all blocks that are not done, and join the parts.

        Args:
            show: called with the progress after each part.
        """
        began = time.monotonic()
        stream = blocks(self._files, self._rows)
        if self._files == ["-"]:
            reading, stream = first_detected(self._reading, stream)
        else:
            reading = files_detected(self._reading, self._files)
        summary = Summary(detected=reading.reasons)
        share = _Share(self._files)
        count = 0
        with pool(RowReader(reading), self._workers, self._start) as mapped:
            schema, stream = self._schema(stream, mapped)
            step = partial(_write_part, folder=self._parts, ending=self._ending, schema=schema)
            with self._joined(schema) as join:
                for block, found in mapped(step, stream):
                    count += 1
                    summary.merge(found)
                    join(_names(self._parts, block.number, self._ending)[0])
                    show(Progress(summary, time.monotonic() - began, share(block)))
                self._write_errors(count)
        self._clear()
        return summary

    def _schema(self, stream: Iterator[RowBlock], mapped: Mapped) -> tuple[pa.Schema | None, Iterator[RowBlock]]:
        """The columns of the output tables: those of all files, so that all parts have the same columns."""
        if self._ending == ".jsonl":
            return None, stream
        tables = [f for f in self._files if f.endswith(".parquet")]
        lines: Iterable[RowBlock] = blocks([f for f in self._files if f not in tables], self._rows)
        if self._files == ["-"]:
            lines = list(islice(stream, 1))
            stream = chain(lines, stream)
        carried: dict[str, str] = {}
        for columns in mapped(_columns, lines):
            carried = merged_columns(carried, columns)
        schemas = [arrow_columns(parquet_schema(file)).remove_metadata() for file in tables]
        try:
            return schema_of(pa.unify_schemas([typed_columns(carried), *schemas])), stream
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InputError(f"inputs: columns differ between files: {error}") from None

    def _write_errors(self, count: int) -> None:
        with _whole(self.errors, kept=True) as stream:
            for number in range(count):
                _, state = _names(self._parts, number, self._ending)
                for bad in msgspec.json.decode(state.read_bytes(), type=_PartState).bad:
                    stream.write(msgspec.json.encode(bad._asdict()) + b"\n")
        if not self.errors.stat().st_size:
            self.errors.unlink()

    @contextlib.contextmanager
    def _joined(self, schema: pa.Schema | None) -> Iterator[Callable[[Path], None]]:
        """A function that appends a part to the single output file, if one is requested."""
        if not self._form:
            yield lambda part: None
            return
        with contextlib.ExitStack() as stack:
            stream = stack.enter_context(_whole(self._output, kept=True, folder=self._parts))
            if schema is None:
                yield partial(_copied, stream)
            else:
                yield partial(_copied_table, stack.enter_context(pq.ParquetWriter(stream, schema)))

    def _clear(self) -> None:
        """Remove the files that only a resumed run needs, and nothing else."""
        if self._form:
            for part in self._parts.glob("part-*"):
                part.unlink()
            shutil.rmtree(self._state, ignore_errors=True)
            with contextlib.suppress(OSError):
                self._parts.rmdir()


def _copied(stream: Any, part: Path) -> None:
    with part.open("rb") as source:
        shutil.copyfileobj(source, stream)


def _copied_table(writer: pq.ParquetWriter, part: Path) -> None:
    with pq.ParquetFile(part) as table:  # read_table imports all of Arrow
        writer.write_table(table.read())


class _Share:
    """The share of all files, by size, that is done after a block."""

    def __init__(self, files: list[str]) -> None:
        sizes = [0 if f == "-" else _stat(f)[0] for f in files]
        self._total = sum(sizes)
        self._spans = {f: (end - size, size) for f, size, end in zip(files, sizes, accumulate(sizes), strict=True)}

    def __call__(self, block: RowBlock) -> float | None:
        if block.part is None or not self._total:
            return None
        start, size = self._spans[block.file]
        return (start + block.part * size) / self._total


def _write_part(
    reader: RowReader, block: RowBlock, folder: Path, ending: str, schema: pa.Schema | None
) -> tuple[RowBlock, Summary]:
    """Write the part of a block and the file of its state, unless an earlier run did, and return the block without its
    rows, and the counts. `InputError` if the block has changed since the earlier run."""
    part, path = _names(folder, block.number, ending)
    state, mark = _state(part, path), block.mark
    if state is None:
        done = read_block(reader, block, schema)
        with _whole(part) as stream:
            if isinstance(done.rows, pa.Table):
                pq.write_table(done.rows, stream)
            else:
                stream.write(done.rows)
            state = _PartState(mark, len(block.rows), stream.tell(), done.summary, done.bad)
            _write(path, msgspec.json.encode(state))
    elif (state.rows, state.mark) != (len(block.rows), mark):
        raise InputError(f"{block.file}: has changed since; without --resume everything starts over")
    return block._replace(rows=[]), state.summary


def _state(part: Path, path: Path) -> _PartState | None:
    try:
        state = msgspec.json.decode(path.read_bytes(), type=_PartState)
        return state if part.stat().st_size == state.size else None
    except (FileNotFoundError, msgspec.DecodeError):
        return None  # after a power failure, a file may be shorter than what was written


def _columns(_: RowReader, block: RowBlock) -> dict[str, str]:
    """The step that finds the columns of lines, which needs no reader."""
    return line_columns(block)


def _names(folder: Path, number: int, ending: str) -> tuple[Path, Path]:
    return folder / f"part-{number:08d}{ending}", folder / _STATE / f"{number:08d}.json"


def _stat(file: str | Path) -> tuple[int, int]:
    found = os.stat(file)
    return found.st_size, found.st_mtime_ns


@contextlib.contextmanager
def _whole(path: Path, *, kept: bool = False, folder: Path | None = None) -> Iterator[Any]:
    """Write a file so that it exists only once it is complete; if it is ``kept``, it also survives a power failure. The
    folder for the temporary file is on the same file system; by default it is the file's own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writing = (folder or path.parent) / f".{path.name}.{os.getpid()}.tmp"
    try:
        with writing.open("wb") as stream:
            yield stream
            stream.flush()
            if kept:
                os.fsync(stream.fileno())
        writing.replace(path)
    finally:
        writing.unlink(missing_ok=True)


def _write(path: Path, data: bytes) -> None:
    with _whole(path) as stream:
        stream.write(data)
