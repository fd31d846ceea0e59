"""Workers on other machines read the same rows, at the same places, as one worker that reads the whole file."""

import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unspool.batch.blocks import Block, InputError, blocks
from unspool.batch.reading import Reader, Reading
from unspool.batch.slices import Slice, count_of, load, pieces
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


def table_of(path: Path, count: int, group: int) -> pa.Table:
    """A table, and a file of it with row groups of a size."""
    table = pa.Table.from_pylist([row(i) | {"tools": "[]", "meta": "{}"} for i in range(count)])
    pq.write_table(table, path, row_group_size=group)
    return table


def lines(blocks_: list[Block]) -> list[tuple[int, bytes | None]]:
    """The rows of blocks, each with its place."""
    return [(one.first + i, line) for one in blocks_ for i, line in enumerate(one.rows)]


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_slices_hold_the_rows_of_blocks(size: int, tmp_path: Path) -> None:
    files = [str(recordings(tmp_path / "a.jsonl", 10)), str(write_lines(tmp_path / "b.jsonl", 20))]
    parts = list(pieces(files, size))
    assert [s.number for s in parts] == list(range(len(parts)))
    assert max(map(count_of, parts)) <= size
    read = [load(s) for s in parts]
    assert [len(one.rows) for one in read] == list(map(count_of, parts))
    assert lines(read) == lines(list(blocks(files, size)))
    assert {(one.file, one.recorded) for one in read} == {(files[0], True), (files[1], False)}


def test_recordings_that_are_too_long_are_one_row_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = recordings(tmp_path / "a.jsonl", 4)
    monkeypatch.setattr("unspool.batch.blocks.LINE", 200)
    monkeypatch.setattr("unspool.batch.slices.LINE", 200)
    monkeypatch.setattr("unspool.batch.slices.BYTES", 300)
    parts = list(pieces([str(file)], 100))
    assert len(parts) > 1
    assert lines([load(s) for s in parts]) == lines(list(blocks([str(file)], 100)))


@pytest.mark.parametrize(
    ("most", "found"),
    [(4, [(0, 4), (4, 4), (8, 2)]), (7, [(0, 4), (4, 6)]), (8, [(0, 8), (8, 2)]), (100, [(0, 10)])],
)
def test_slices_of_tables_are_as_many_whole_row_groups_as_fit(
    most: int, found: list[tuple[int, int]], tmp_path: Path
) -> None:
    table = table_of(tmp_path / "a.parquet", 10, 4)
    parts = list(pieces([str(tmp_path / "a.parquet")], most))
    assert [(s.first, count_of(s)) for s in parts] == found
    assert [s.part for s in parts if isinstance(s, Slice)] == [(first + count) / 10 for first, count in found]
    rows: list[Any] = [load(s).rows for s in parts]
    assert pa.concat_tables(rows) == table


def test_workers_read_all_but_pipes_and_large_row_groups(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("a.parquet", "b.jsonl", "c", "d.parquet", "e.jsonl")]
    table_of(Path(files[0]), 10, 10)
    lines_ = write_lines(Path(files[1]), 9).read_bytes()
    os.mkfifo(files[2])
    table_of(Path(files[3]), 10, 4)
    Path(files[4]).write_bytes(b"")
    writing = threading.Thread(target=Path(files[2]).write_bytes, args=(lines_,))
    writing.start()
    found = list(pieces(files, 4))
    writing.join()
    assert [(Path(p.file).name[0], isinstance(p, Slice), p.first, count_of(p)) for p in found] == [
        *(("a", False, 0, 4), ("a", False, 4, 4), ("a", False, 8, 2)),
        *(("b", True, 10, 4), ("b", True, 14, 4), ("b", True, 18, 1)),
        *(("c", False, 19, 4), ("c", False, 23, 4), ("c", False, 27, 1)),
        *(("d", True, 28, 4), ("d", True, 32, 4), ("d", True, 36, 2)),
    ]
    assert [p.number for p in found] == list(range(12))
    read = [load(p) for p in found]
    assert [line for one in read[3:6] for line in one.rows] == lines_.splitlines(keepends=True)
    assert [line for one in read[6:9] for line in one.rows] == lines_.splitlines(keepends=True)


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


@pytest.mark.parametrize("form", [".jsonl", ".parquet"])
@pytest.mark.parametrize("left", [0, 3, 7])
def test_a_file_that_shrinks_before_its_workers_read_it_is_named(left: int, form: str, tmp_path: Path) -> None:
    path = tmp_path / f"in{form}"
    if form == ".parquet":
        table = table_of(path, 10, 1)
    else:
        write_lines(path, 10)
    last = list(pieces([str(path)], 5))[-1]
    if form == ".parquet":
        pq.write_table(table[:left], path, row_group_size=1)
    else:
        write_lines(path, left)
    with pytest.raises(InputError, match=r"in\.(jsonl|parquet): has changed during the run$"):
        load(last)


def test_a_line_like_the_first_one_of_a_recording_is_a_row_wherever_blocks_begin(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"output": "a"}\n' * 2 + b'{"type":"request","output":"b"}\n{"output":"c"}\n')
    found = [load(piece) for piece in pieces([str(path)], 2)]
    assert lines(found) == lines(list(blocks([str(path)], 2)))
    assert not any(block.recorded for block in found)
