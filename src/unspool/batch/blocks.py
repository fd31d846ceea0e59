"""Divides input into blocks of bounded size: JSON lines, parquet, recordings, standard input.

A block contains its own position, so workers need no others. The same input is always divided alike.
"""

import contextlib
import glob
import io
import os
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

ROWS: Final = 2_000  # the most rows of a block
_BYTES: Final = 8 << 20  # the approximate number of bytes of a block of lines
_LINE: Final = 64 << 20  # the most bytes of a line; a longer one is a bad row
_ENDINGS: Final = (".jsonl", ".ndjson", ".parquet")
_REQUEST: Final = b'{"type":"request"'


class InputError(ValueError):
    """An input is missing, or cannot be read."""


class RowBlock(NamedTuple):
    rows: pa.RecordBatch | list[bytes | None]  # Arrow's rows, or raw lines; ``None`` replaces a line that is too long
    file: str = ""
    recorded: bool = False  # whether each row is a recording, and so may have several lines
    part: float | None = None  # the share of its file that is read after it, up to 1; ``None`` if unknown
    # number, first: its index among all blocks, and that of its first row among all rows.
    number: int = 0
    first: int = 0

    @property
    def mark(self) -> int:
        """A checksum of the lines; 0 for Arrow's rows."""
        return zlib.crc32(b"\n".join(line or b"" for line in self.rows)) if isinstance(self.rows, list) else 0


def numbered(blocks: Iterable[RowBlock]) -> Iterator[RowBlock]:
    """The blocks of an input with their numbers."""
    first = 0
    for number, block in enumerate(blocks):
        yield block._replace(number=number, first=first)
        first += len(block.rows)


def find_inputs(patterns: Sequence[str]) -> list[str]:
    """The input files, in order, of patterns: files, folders, globs, ``-``. `InputError` if one matches nothing."""
    found: list[str] = []
    for pattern in patterns:
        if pattern == "-":
            found.append(pattern)
            continue
        exact = Path(pattern).exists()
        paths = [pattern] if exact else sorted(glob.glob(pattern, recursive=True))
        files = [f for path in paths for f in (_within(path) if os.path.isdir(path) else [path])]
        if not files:
            raise InputError(f"{pattern}: there is no such file, and none of {', '.join(_ENDINGS)} in such a folder")
        found += files
    if found.count("-") > 1:
        raise InputError("-: standard input can be read once")
    return list(dict.fromkeys(found))


def _within(folder: str) -> list[str]:
    paths = (p for p in Path(folder).rglob("*") if p.suffix in _ENDINGS and p.is_file())
    parts = ((p, p.relative_to(folder).parts) for p in paths)
    return [str(p) for p, names in sorted(parts) if not any(n.startswith((".", "_")) for n in names)]


def blocks(files: Iterable[str], rows: int = ROWS) -> Iterator[RowBlock]:
    """The rows of files, at most so many at once. `InputError` if a file is not what its ending says; `OSError`."""
    read = (_parquet(file, rows) if file.endswith(".parquet") else _lines(file, rows) for file in files)
    return numbered(chain.from_iterable(read))


def table_blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[RowBlock]:
    """The rows of Arrow batches, block by block."""
    return numbered(RowBlock(batch.slice(at, ROWS)) for batch in batches for at in range(0, len(batch), ROWS))


@contextlib.contextmanager
def _opened(file: str) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(file) as source:
            check_names(source.schema_arrow, f"{file}: ")
            yield source
    except pa.ArrowInvalid as error:
        raise InputError(f"{file}: is not a parquet file: {error}") from None


def _parquet(file: str, rows: int) -> Iterator[RowBlock]:
    read = 0
    with _opened(file) as source:
        for batch in source.iter_batches(batch_size=rows):
            read += len(batch)
            yield RowBlock(batch, file, False, read / max(source.metadata.num_rows, 1))


def parquet_schema(file: str) -> pa.Schema:
    """The columns of a parquet file. `InputError` if it is not parquet, or two of its columns have the same name."""
    with _opened(file) as source:
        return source.schema_arrow


def check_names(schema: pa.Schema, file: str = "") -> None:
    """Check that the columns of a table have different names; the message of an `InputError` begins with ``file``."""
    twice = next((name for name, count in Counter(schema.names).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{file}{twice}: two columns of the input have this name; rename one")


def _lines(file: str, rows: int) -> Iterator[RowBlock]:
    with sys.stdin.buffer if file == "-" else open(file, "rb") as stream:
        assert isinstance(stream, io.BufferedReader)
        size = 0 if file == "-" else os.fstat(stream.fileno()).st_size
        regular = size > 0 and stream.seekable()
        recorded = _begins_recording(stream.peek(64))
        lines: list[bytes | None] = []
        length = 0
        for line in _recordings(stream) if recorded else _each(stream):
            lines.append(line)
            length += len(line or b"")
            if len(lines) >= rows or length >= _BYTES:
                yield RowBlock(lines, file, recorded, min(stream.tell() / size, 1.0) if regular else None)
                lines, length = [], 0
        if lines:
            yield RowBlock(lines, file, recorded, 1.0 if regular else None)


def _begins_recording(line: bytes) -> bool:
    """Whether a line is the first one of a recording."""
    return b"".join(line[:64].split()).startswith(_REQUEST)


def _each(stream: BinaryIO) -> Iterator[bytes | None]:
    """The lines that are not empty; ``None`` for a line that is too long."""
    while line := stream.readline(_LINE):
        if len(line) < _LINE or line.endswith(b"\n"):
            if not line.isspace():
                yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(_LINE)
        yield None


def _recordings(stream: BinaryIO) -> Iterator[bytes | None]:
    """The lines of each recording, joined; ``None`` for a recording that is too long."""
    lines: list[bytes] = []
    size = 0
    for line in _each(stream):
        if size and line is not None and _begins_recording(line):
            yield b"".join(lines) if size < _LINE else None
            lines, size = [], 0
        size += _LINE if line is None else len(line)
        if line is None or size >= _LINE:
            lines = []
        else:
            lines.append(line)
    if size:
        yield b"".join(lines) if size < _LINE else None
