"""Blocks described by their position in a file. The worker that processes a block also reads it."""

import io
import os
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from .blocks import BYTES, LINE, Block, InputError, begins_recording, blocks, check_names, read_lines

__all__ = ["Piece", "Slice", "count_of", "load", "pieces"]


class Slice(msgspec.Struct, frozen=True):
    """The position of a block.

    Attributes:
        number: its index among all blocks.
        file: the path of its file.
        first: the index of its first row among all rows.
        start, stop: the range of bytes in a file of lines, or of row groups in parquet.
        rows: the number of rows.
        part: the share of its file that is read after it, up to 1.
        recorded: whether each row is a recording.
    """

    number: int
    file: str
    first: int
    start: int
    stop: int
    rows: int
    part: float
    recorded: bool = False


Piece = Block | Slice
"""A block that is read, or that its worker reads."""
_Range = tuple[int, int, int, float, bool]
"""The fields of a `Slice` from ``start`` on."""


def count_of(piece: Piece) -> int:
    """The number of rows of a block."""
    return piece.rows if isinstance(piece, Slice) else len(piece.rows)


def pieces(files: Iterable[str], rows: int) -> Iterator[Piece]:
    """The blocks of files. Workers read them, unless only one process can: standard input, pipes, and row groups so
    large that each makes several blocks.

    Raises:
        InputError: a file does not have the format of its ending.
        OSError: a file cannot be read.
    """
    number = first = 0
    for file in files:
        shared = os.path.isfile(file)
        sizes = _group_sizes(file) if shared and file.endswith(".parquet") else None
        shared = shared and max(sizes or (), default=0) <= rows
        for piece in _parts(file, sizes, rows, number, first) if shared else blocks([file], rows, number, first):
            yield piece
            number += 1
            first += count_of(piece)


def load(piece: Piece) -> Block:
    """Read a block, unless it is read already.

    Raises:
        InputError: its file has changed since the blocks were counted.
        OSError: its file cannot be read.
    """
    if isinstance(piece, Block):
        return piece
    block = _table(piece) if piece.file.endswith(".parquet") else _lines(piece)
    if len(block.rows) != piece.rows:
        raise _changed(piece)
    return block


def _table(piece: Slice) -> Block:
    try:
        with pq.ParquetFile(piece.file) as source:
            table = source.read_row_groups(list(range(piece.start, piece.stop)), use_threads=False)
    except pa.ArrowInvalid as error:
        raise _changed(piece) from error
    return Block(piece.number, piece.file, piece.first, table)


def _lines(piece: Slice) -> Block:
    with open(piece.file, "rb") as stream:
        stream.seek(piece.start)
        data = io.BytesIO(stream.read(piece.stop - piece.start))
    lines = [line for part in read_lines(data, piece.rows, piece.recorded) for line in part]
    return Block(piece.number, piece.file, piece.first, lines, piece.recorded)


def _changed(piece: Slice) -> InputError:
    return InputError(f"{piece.file}: has changed during the run")


def _parts(file: str, sizes: Sequence[int] | None, rows: int, number: int, first: int) -> Iterator[Slice]:
    """The slices of a file.

    Args:
        file: its path.
        sizes: the rows of its row groups; ``None`` if it has lines.
        rows: the most rows of a slice.
        number, first: those of the first slice.
    """
    for start, stop, count, part, recorded in _ranges(file, rows) if sizes is None else _groups(sizes, rows):
        yield Slice(number, file, first, start, stop, count, part, recorded)
        number += 1
        first += count


def _groups(sizes: Sequence[int], rows: int) -> Iterator[_Range]:
    """Ranges of row groups, with at most so many rows where there are several."""
    total, start, count, read = sum(sizes), 0, 0, 0
    for i, size in enumerate(sizes):
        if count and count + size > rows:
            yield start, i, count, read / total, False
            start, count = i, 0
        count += size
        read += size
    if count:
        yield start, len(sizes), count, 1.0, False


def _group_sizes(file: str) -> list[int]:
    """The rows of each row group of a table."""
    try:
        with pq.ParquetFile(file) as source:
            check_names(source.schema_arrow, f"{file}: ")
            return [source.metadata.row_group(i).num_rows for i in range(source.metadata.num_row_groups)]
    except pa.ArrowInvalid as error:
        raise InputError(f"{file}: is not a parquet file: {error}") from None


def _ranges(file: str, rows: int) -> Iterator[_Range]:
    with open(file, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        recorded = begins_recording(stream.peek(64))
        for start, stop, count in _recordings(stream, rows) if recorded else _some(stream, rows):
            yield start, stop, count, min(stop / size, 1.0), recorded


def _some(stream: io.BufferedReader, rows: int) -> Iterator[tuple[int, int, int]]:
    """Ranges of some lines."""
    start = 0
    for lines in read_lines(stream, rows, recorded=False):
        yield start, stream.tell(), len(lines)
        start = stream.tell()


def _recordings(stream: io.BufferedReader, rows: int) -> Iterator[tuple[int, int, int]]:
    """Ranges of whole recordings. Each recording ends where the next one begins."""
    start = at = count = 0
    whole = True
    while line := stream.readline(LINE):
        # The rest of a line that is too long begins no recording, whatever it looks like.
        begins, whole = whole and begins_recording(line), line.endswith(b"\n")
        if begins and (whole or len(line) < LINE):
            if count >= rows or at - start >= BYTES:
                yield start, at, count
                start, count = at, 0
            count += 1
        at += len(line)
    yield start, at, count
