"""Workers on other machines read the same rows, at the same places, as one worker that reads the whole file."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unspool.batch.blocks import Block, blocks
from unspool.batch.reading import Reader, Reading
from unspool.batch.slices import load, slices
from unspool.batch.work import Worker, arrow_columns, schema_of
from unspool.engines.capture import Asked, write_recording

from .rows import output, row, write_lines


def recordings(path: Path, count: int) -> Path:
    """A file of many recordings, some of them after empty lines."""
    parts = []
    for i in range(count):
        write_recording(path, Asked(id=f"r{i}", dialect="hermes"), [output(i)[:9], output(i)[9:]])
        parts.append(path.read_bytes() + b"\n" * (i % 3))
    path.write_bytes(b"".join(parts))
    return path


def lines(blocks_: list[Block]) -> list[tuple[int, bytes | None]]:
    """The rows of blocks, each with its place."""
    return [(one.first + i, line) for one in blocks_ for i, line in enumerate(one.rows)]


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_slices_hold_the_rows_of_blocks(size: int, tmp_path: Path) -> None:
    files = [str(recordings(tmp_path / "a.jsonl", 10)), str(write_lines(tmp_path / "b.jsonl", 20))]
    parts = list(slices(files, size))
    assert [s.number for s in parts] == list(range(len(parts)))
    assert max(s.rows for s in parts) <= size
    read = [load(s) for s in parts]
    assert [len(one.rows) for one in read] == [s.rows for s in parts]
    assert lines(read) == lines(list(blocks(files, size)))
    assert {(one.file, one.recorded) for one in read} == {(files[0], True), (files[1], False)}


def test_recordings_that_are_too_long_are_one_row_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = recordings(tmp_path / "a.jsonl", 4)
    monkeypatch.setattr("unspool.batch.blocks.LINE", 200)
    monkeypatch.setattr("unspool.batch.slices.LINE", 200)
    monkeypatch.setattr("unspool.batch.slices.BYTES", 300)
    parts = list(slices([str(file)], 100))
    assert len(parts) > 1
    assert lines([load(s) for s in parts]) == lines(list(blocks([str(file)], 100)))


def test_slices_of_tables_are_their_row_groups(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([row(i) | {"tools": "[]", "meta": "{}"} for i in range(10)])
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=4)
    parts = list(slices([str(tmp_path / "a.parquet")], 100))
    assert [(s.first, s.rows) for s in parts] == [(0, 4), (4, 4), (8, 2)]
    rows: list[Any] = [load(s).rows for s in parts]
    assert pa.concat_tables(rows) == table


@pytest.mark.parametrize("form", ["table", "lines"])
def test_a_row_group_that_fits_into_no_batch_is_read_whole(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a column holds more than 2 GB of text."""
    pieces = [[0, 1, 2], [3], [4, 5, 6, 7]]
    given = pa.schema([("output", pa.string()), ("key", pa.int64())])
    made = [pa.table([[None if i % 4 == 3 else output(i) for i in p], p], given) for p in pieces]
    schema = schema_of(arrow_columns(given)) if form == "table" else None
    worker = Worker(Reader(Reading(dialect="hermes")), schema)
    whole = worker.work(Block(0, "a", 100, pa.concat_tables(made).combine_chunks()))
    monkeypatch.setattr("unspool.batch.work.ROWS", 3)
    done = worker.work(Block(0, "a", 100, pa.concat_tables(made)))
    assert [(b.row, b.file) for b in done.bad] == [(103, "a"), (107, "a")]
    assert done == whole
    assert done.summary.rows == 6
