"""Blocks hold the rows of files of every kind, in order."""

import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unspool.batch.blocks import RowBlock, blocks
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


def lines(found: list[RowBlock]) -> list[tuple[int, bytes | None]]:
    """The rows of blocks, each with its place."""
    return [(one.first + i, line) for one in found for i, line in enumerate(one.rows)]


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_files_pipes_and_row_groups_are_divided_alike(size: int, tmp_path: Path) -> None:
    a, b, c, d = (str(tmp_path / name) for name in ("a.jsonl", "b.jsonl", "c", "d.parquet"))
    recordings(Path(a), 10)
    written = write_lines(Path(b), 9).read_bytes()
    os.mkfifo(c)
    table = pa.Table.from_pylist([row(i) | {"tools": "[]", "meta": "{}"} for i in range(10)])
    pq.write_table(table, d, row_group_size=4)
    writing = threading.Thread(target=Path(c).write_bytes, args=(written,))
    writing.start()
    found = list(blocks([a, b, c, d], size))
    writing.join()
    assert [one.number for one in found] == list(range(len(found)))
    assert max(len(one.rows) for one in found) <= size
    assert {(one.file, one.recorded) for one in found} == {(a, True), (b, False), (c, False), (d, False)}
    texts = [line for one in found for line in one.rows if isinstance(one.rows, list)]
    assert len(texts) == 10 + 9 + 9
    assert texts[10:] == written.splitlines(keepends=True) * 2
    assert pa.Table.from_batches([one.rows for one in found if isinstance(one.rows, pa.RecordBatch)]) == table
    assert [one.first for one in found] == [sum(len(one.rows) for one in found[:i]) for i in range(len(found))]
    ends = {one.file: one.part for one in found}
    assert ends == {a: 1.0, b: 1.0, c: None, d: 1.0}


def test_recordings_that_are_too_long_are_one_row_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = recordings(tmp_path / "a.jsonl", 4)
    monkeypatch.setattr("unspool.batch.blocks._LINE", 200)
    (found,) = blocks([str(file)])
    assert [line is None for line in found.rows] == [False, True, True, False]


def test_a_line_like_the_first_one_of_a_recording_is_a_row_wherever_blocks_begin(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    written = [b'{"output": "a"}\n'] * 2 + [b'{"type":"request","output":"b"}\n', b'{"output":"c"}\n']
    path.write_bytes(b"".join(written))
    found = list(blocks([str(path)], 2))
    assert lines(found) == list(enumerate(written))
    assert not any(block.recorded for block in found)
