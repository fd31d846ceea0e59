"""Blocks described by their position in a file. The worker that processes a block also reads it."""

import io
from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from .blocks import BYTES, LINE, Block, InputError, begins_recording, check_names, read_lines

__all__ = ["Slice", "load", "slices"]


class Slice(msgspec.Struct, frozen=True):
    """The position of a block.

    Attributes:
        number: its index among all blocks.
        file: the path of its file.
        first: the index of its first row among all rows.
        start, stop: the range of bytes in a file of lines; in parquet, ``start`` is the row group.
        rows: the number of rows.
    """

    number: int
    file: str
    first: int
    start: int
    stop: int
    rows: int


def slices(files: Iterable[str], rows: int) -> Iterator[Slice]:
    """The blocks of files: some lines, some recordings, whole row groups.

    Raises:
        InputError: a file does not have the format of its ending, or is standard input.
        OSError: a file cannot be read.
    """
    number = first = 0
    for file in files:
        if file == "-":
            raise InputError("-: standard input cannot be read by other machines")
        for start, stop, count in _groups(file) if file.endswith(".parquet") else _ranges(file, rows):
            yield Slice(number, file, first, start, stop, count)
            number += 1
            first += count


def load(piece: Slice) -> Block:
    """Read a block.

    Raises:
        OSError: its file cannot be read.
    """
    if piece.file.endswith(".parquet"):
        with pq.ParquetFile(piece.file) as source:
            return Block(piece.number, piece.file, piece.first, source.read_row_group(piece.start))
    with open(piece.file, "rb") as stream:
        stream.seek(piece.start)
        found = list(read_lines(stream, piece.rows, piece.stop - piece.start))
    lines = [line for part, _ in found for line in part]
    return Block(piece.number, piece.file, piece.first, lines, found[0][1])


def _groups(file: str) -> Iterator[tuple[int, int, int]]:
    try:
        with pq.ParquetFile(file) as source:
            check_names(source.schema_arrow, f"{file}: ")
            for i in range(source.metadata.num_row_groups):
                yield i, i + 1, source.metadata.row_group(i).num_rows
    except pa.ArrowInvalid as error:
        raise InputError(f"{file}: is not a parquet file: {error}") from None


def _ranges(file: str, rows: int) -> Iterator[tuple[int, int, int]]:
    with open(file, "rb") as stream:
        if begins_recording(stream.peek(64)):
            yield from _recordings(stream, rows)
            return
        start = 0
        for lines, _ in read_lines(stream, rows):
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
