"""`unspool batch`: files in, files out, nothing twice, nothing lost."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unspool
from unspool.batch import BadRow, parse_many
from unspool.batch.reading import RowReader
from unspool.cli import main
from unspool.engines.capture import Asked, write_recording

from ..server.support import until
from ..support import tool
from .kills import alive, children, endure
from .rows import TOOLS, is_bad, output, row, write_lines
from .threads import race


def run(*words: str | Path, dialect: str | Path = "hermes", workers: int = 1) -> int:
    return main(["batch", *map(str, words), "-d", str(dialect), "--workers", str(workers)])


def rows_in(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def wanted(numbers: Iterable[int]) -> list[dict[str, Any]]:
    """The expected results of rows of `write_lines`."""
    return list(parse_many([row(i) for i in numbers], "hermes"))


def same(rows: list[dict[str, Any]], numbers: list[int]) -> None:
    """Assert that rows are those of these numbers, except for the ids of calls, which depend on the row's place."""
    assert [r["key"] for r in rows] == numbers
    for one, two in zip(rows, wanted(numbers), strict=True):
        for each in (one, two):
            each |= {name: json.loads(each[name]) for name in ("meta", "tools")}
            for call in each["tool_calls"]:
                call.pop("id")
        assert one == two


GOOD = [i for i in range(45) if not is_bad(i)]


@pytest.mark.parametrize("name", ["out.parquet", "out.jsonl", "out"])
def test_good_rows_are_written_and_bad_ones_reported(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = write_lines(tmp_path / "in.jsonl", 45), tmp_path / name
    assert run(source, "-o", out, "--rows", "10") == 0
    same(rows_in(out), GOOD)
    bad = rows_in(tmp_path / f"{name}.errors.jsonl")
    assert [(b["row"], b["file"]) for b in bad] == [(i, str(source)) for i in range(45) if is_bad(i)]
    assert [b["reason"].partition(":")[0] for b in bad] == ["row", "row", "output", "output", "row"]
    said = capsys.readouterr().err
    assert "40 rows" in said
    assert "5 errors" in said
    assert f"{out}.errors.jsonl; the first: row: " in said
    assert "f            " in said
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {"in.jsonl", name, f"{name}.errors.jsonl"}
    if name == "out":
        assert sorted(p.name for p in out.glob("*.parquet")) == [f"part-{i:08d}.parquet" for i in range(5)]


def test_strict_runs_fail_where_a_row_is_bad(tmp_path: Path) -> None:
    assert run(write_lines(tmp_path / "in.jsonl", 5), "-o", tmp_path / "a.jsonl", "--strict") == 1
    good = tmp_path / "good.jsonl"
    good.write_text(json.dumps(row(1)) + "\n", encoding="utf-8")
    assert run(good, "-o", tmp_path / "b.jsonl", "--strict") == 0
    assert not (tmp_path / "b.jsonl.errors.jsonl").exists()


def test_folders_globs_and_parquet_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    write_lines(folder / "a.jsonl", 3)
    table = pa.Table.from_pylist([row(i) | {"tools": json.dumps(TOOLS)} for i in (20, 21)])
    pq.write_table(table, folder / "deep" / "b.parquet")
    (folder / "_hidden.jsonl").write_text("no JSON\n", encoding="utf-8")
    same_columns = {}
    for name, given in {"folder": folder, "glob": tmp_path / "in" / "**" / "*[ab].*"}.items():
        out = tmp_path / f"{name}.parquet"
        assert run(given, "-o", out) == 0
        assert [r["key"] for r in rows_in(out)] == [0, 1, 2, 20, 21]
        same_columns[name] = pq.read_schema(out)
    assert same_columns["folder"] == same_columns["glob"]


def test_standard_input_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_lines(tmp_path / "in.jsonl", 45).read_bytes()
    for name in ("a.jsonl", "a.parquet"):
        stream = io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)))
        monkeypatch.setattr("sys.stdin", stream)
        assert run("-", "-o", tmp_path / name, "--rows", "10") == 0
        assert [r["key"] for r in rows_in(tmp_path / name)] == GOOD


def test_recordings_are_read_as_rows(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for i in (1, 2):
        asked = Asked(id=f"r{i}", dialect="hermes", tools=TOOLS, prompt="<|im_start|>assistant\n")
        write_recording(tmp_path / "in" / f"{i}.jsonl", asked, [output(i)[:9], output(i)[9:]])
    assert run(tmp_path / "in", "-o", tmp_path / "out.parquet", dialect="auto") == 0
    found = rows_in(tmp_path / "out.parquet")
    read = [(r["id"], r["reasoning"], len(r["tool_calls"]), r["valid"]) for r in found]
    assert read == [(f"r{i}", f"plan {i} 北", 2, True) for i in (1, 2)]


@pytest.mark.parametrize("ending", ["", ".jsonl", ".parquet"])
def test_two_columns_with_the_same_name_are_refused(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.parquet"
    pq.write_table(pa.Table.from_arrays([["Hi."], ["a"], ["b"]], ["output", "x", "x"]), source)
    assert run(source, "-o", tmp_path / f"out{ending}") == 2
    assert f"{source}: x: two columns of the input have this name" in capsys.readouterr().err


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_an_output_file_can_be_parsed_again_and_keeps_every_column(ending: str, tmp_path: Path) -> None:
    first = tmp_path / "in.jsonl"
    first.write_text(json.dumps({"output": "Hi.", "content": "theirs", "finish_reason": "length"}), encoding="utf-8")
    assert run(first, "-o", tmp_path / f"one{ending}") == 0
    assert run(tmp_path / f"one{ending}", "-o", tmp_path / f"two{ending}") == 0
    (row,) = rows_in(tmp_path / f"two{ending}")
    contents = [(name, row[name]) for name in row if name.endswith("content")]
    assert contents == [("content", "Hi."), ("input_input_content", "Hi."), ("input_content", "theirs")]
    assert (row["finish_reason"], row["input_finish_reason"], row["input_valid"]) == ("length", "length", None)


def test_columns_that_change_their_type_are_carried_as_json(tmp_path: Path) -> None:
    values: list[Any] = [1, 1 << 60, 1 << 70, "x", None, {"a": 1}]
    source = tmp_path / "in.jsonl"
    lines = [json.dumps({"output": "Hi.", "mixed": v, "whole": [1, 2.5][i % 2]}) for i, v in enumerate(values)]
    source.write_text("\n".join(lines), encoding="utf-8")
    assert run(source, "-o", tmp_path / "out.parquet", "--rows", "2") == 0
    found = rows_in(tmp_path / "out.parquet")
    assert [r["mixed"] for r in found] == ["1", str(1 << 60), str(1 << 70), "x", None, '{"a": 1}']
    assert [r["whole"] for r in found] == [1.0, 2.5] * 3


DEEP = 1_000_000
"""Deeper than any Python reads JSON: 3.11 reads a thousand levels, 3.14 a hundred thousand."""
ODD = {
    b'{"output": "a \\ud800 b"}': "",
    b'{"output": "a \xff b"}': "row",
    b'{"output": "x", "deep": ' + b"[" * DEEP + b"]" * DEEP + b"}": "row",
    b'{"output": "x", "deep": ' + b"[" * DEEP + b"}": "row",
    b'{"output": "x", "n": NaN}': "row",
    b'{"output": "x", "n": 1e999}': "n",
    b'{"output": "x", "deep": "a \\ud800 b"}': "",
    b'{"output": "x", "output": "y", "n": 1.5}': "",
    b'{"output": {"a": 1}}': "output",
    b"{}": "output",
    b"\xef\xbb\xbf{}": "row",
}
"""Lines of JSON, and the column that is wrong in a table."""


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_bad_line_does_not_affect_the_others(form: str, tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / f"out.{form}"
    source.write_bytes(b"\n".join([*ODD, b'{"output": "last"}']))
    assert run(source, "-o", out) == 0
    bad = {b["row"]: b["reason"].partition(":")[0] for b in rows_in(tmp_path / f"{out.name}.errors.jsonl")}
    wanted = {i: column for i, column in enumerate(ODD.values()) if column}
    if form == "jsonl":  # the lines as they are written
        wanted = {i: column for i, column in wanted.items() if column != "n"}
    assert bad == wanted
    found = rows_in(out)
    assert len(found) == len(ODD) + 1 - len(wanted)
    assert (found[0]["content"], found[-1]["content"]) == ("a \ufffd b", "last")


def test_a_report_shows_the_counts(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    rows = row(1) | {"tools": [], "output": "<think>\n<b>"}, row(2)
    source.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert run(source, "-o", tmp_path / "out.jsonl", "--html", tmp_path / "r.html") == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "<td>f<td>2" in page
    assert "unclosed_reasoning" in page


def test_a_report_that_cannot_be_written_is_reported_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lines(tmp_path / "in.jsonl", 2)
    assert run(source, "-o", tmp_path / "out.jsonl", "--html", tmp_path / "none" / "r.html") == 2
    assert f"--html: {tmp_path / 'none'}: there is no such folder" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()
    assert run(source, "-o", tmp_path / "out.jsonl", "--html", tmp_path) == 2
    assert f"--html: {tmp_path}: Is a directory" in capsys.readouterr().err


def test_a_progress_bar_shows_how_far_a_run_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write_lines(folder / "a.jsonl", 40)
    columns = {"output": [output(1)] * 40, "tools": ["[]"] * 40, "meta": ["{}"] * 40}
    pq.write_table(pa.table(columns), folder / "b.parquet")
    monkeypatch.setattr("unspool.cli.batch._EVERY", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert run(folder, "-o", tmp_path / "out.jsonl", "--rows", "10") == 0
    drawn = [line for line in re.findall(r"\r([^\r]*)\x1b\[K", capsys.readouterr().err) if line]
    matches = [re.fullmatch(r"\[(#* *)\] (\d+)%  (\d+) rows, [\d,]+/s, (\d+) errors", line) for line in drawn]
    assert len(matches) == 8
    assert all(m is not None and len(m[1]) == 24 for m in matches)
    found = [(int(m[2]), int(m[3]), int(m[4])) for m in matches if m is not None]
    assert found == sorted(found)
    assert found[-1] == (100, 76, 4)
    assert found[0][0] < 30


# -- resuming --------------------------------------------------------------------------------------------------------


LOCKED = sys.platform == "linux" and getattr(sys, "_is_gil_enabled", lambda: True)()
killing = pytest.mark.skipif(not LOCKED, reason="reads /proc, and workers must be processes")


@killing
def test_runs_that_are_killed_resume_and_lose_and_repeat_nothing() -> None:
    assert endure(2, seed=16, rows=100)[1].total() >= 2


@killing
@pytest.mark.parametrize("killed", ["parent", "worker"])
def test_no_process_is_left_when_one_of_a_run_with_workers_is_killed(killed: str, tmp_path: Path) -> None:
    source, out = write_lines(tmp_path / "in.jsonl", 2_000), tmp_path / "out"
    words = ["batch", str(source), "-d", "hermes", "-o", str(out), "--rows", "10", "--workers", "2"]
    with subprocess.Popen([sys.executable, "-m", "unspool", *words], stderr=subprocess.PIPE) as process:
        workers: list[int] = []
        while len(workers) < 2 or not list(out.glob("part-*.parquet")):
            time.sleep(0.01)
            assert process.poll() is None
            below = children(process.pid)  # one of them forks the workers
            workers = [p for child in below for p in children(child)]
        os.kill(process.pid if killed == "parent" else workers[0], signal.SIGKILL)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == (-signal.SIGKILL if killed == "parent" else 1)
    assert killed == "parent" or b"a worker died" in said
    until(lambda: not any(map(alive, below)))
    assert pq.read_table(out).num_rows > 0
    assert all(not is_bad(key) for key in pq.read_table(out)["key"].to_pylist())


@killing
def test_an_interrupt_while_the_workers_are_prepared_is_not_told_twice(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    os.mkfifo(source)  # nobody writes into it, so no worker starts
    command = [sys.executable, "-m", "unspool", "batch", str(source), "-o", str(tmp_path / "out"), "-d", "hermes"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as process:
        while len(below := children(process.pid)) < 2:
            time.sleep(0.01)
            assert process.poll() is None
        time.sleep(0.3)  # it imports
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 130
    until(lambda: not any(map(alive, below)))


def test_a_run_that_was_killed_while_it_removed_its_parts_is_cleared_by_the_next(tmp_path: Path) -> None:
    words = (write_lines(tmp_path / "in.jsonl", 20), "-o", tmp_path / "out.jsonl", "--rows", "10")
    assert run(*words) == 0
    left = tmp_path / "out.jsonl.unspool"
    for name, stays in (("part-00000001.jsonl", False), ("mine", True)):
        left.mkdir()
        (left / name).touch()
        assert run(*words, "--resume") == 0
        assert left.exists() is stays


def test_finished_parts_are_not_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write_lines(tmp_path / "in.jsonl", 45), tmp_path / "out"
    assert run(source, "-o", out, "--rows", "10") == 0
    said = capsys.readouterr().err
    marks = {p: p.stat().st_mtime_ns for p in out.glob("*.parquet")}
    (out / "part-00000002.parquet").rename(out / ".part-00000002.parquet.7.tmp")
    assert run(source, "-o", out, "--rows", "10", "--resume") == 0
    assert {p.name for p in out.iterdir()} == {".unspool", *(p.name for p in marks)}
    again = {p: p.stat().st_mtime_ns for p in out.glob("*.parquet")}
    assert [p.name for p in marks if again[p] != marks[p]] == ["part-00000002.parquet"]
    assert capsys.readouterr().err.partition(" in ")[0] == said.partition(" in ")[0]
    same(rows_in(out), GOOD)


def test_a_truncated_part_is_written_again(tmp_path: Path) -> None:
    source, out = write_lines(tmp_path / "in.jsonl", 45), tmp_path / "out"
    assert run(source, "-o", out, "--rows", "10") == 0
    whole = {p: p.read_bytes() for p in out.glob("*.parquet")}
    first, second, *_ = sorted(whole)  # as after a power failure
    first.write_bytes(b"")
    second.write_bytes(whole[second][:-1])
    (out / ".unspool" / "00000002.json").write_bytes(b"")
    assert run(source, "-o", out, "--rows", "10", "--resume") == 0
    assert {p: p.read_bytes() for p in out.glob("*.parquet")} == whole


def test_an_existing_output_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write_lines(tmp_path / "in.jsonl", 5), tmp_path / "out.jsonl"
    assert run(source, "-o", out) == 0
    out.write_text("mine\n", encoding="utf-8")
    capsys.readouterr()
    assert run(source, "-o", out, "--resume") == 0
    assert "exists already" in capsys.readouterr().err
    assert out.read_text(encoding="utf-8") == "mine\n"
    assert run(source, "-o", out, "--resume", "--strict") == 1  # its bad rows are there, too
    assert run(source, "-o", out) == 0
    assert len(rows_in(out)) == 4


@pytest.mark.parametrize("change", ["input", "settings", "dialect", "version"])
def test_a_run_with_other_inputs_or_settings_is_not_resumed(
    change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out, dialect = write_lines(tmp_path / "in.jsonl", 5), tmp_path / "out", tmp_path / "own.toml"
    shipped = Path(unspool.__file__).parent / "dialects" / "hermes.toml"
    dialect.write_bytes(shipped.read_bytes())
    assert run(source, "-o", out, dialect=dialect) == 0
    if change == "input":
        write_lines(source, 6)
    if change == "dialect":
        dialect.write_bytes(shipped.read_bytes() + b"# changed")
    if change == "version":
        monkeypatch.setattr("unspool.batch.run.__version__", "99")
    settings = ("--stage", "reasoning") if change == "settings" else ()
    assert run(source, "-o", out, "--resume", *settings, dialect=dialect) == 2
    assert "was started with other inputs or settings" in capsys.readouterr().err
    assert run(source, "-o", out, dialect=dialect) == 0


@pytest.mark.parametrize("ending", [".csv", ".ndjson", ".json.gz"])
def test_a_file_of_another_format_is_not_a_folder(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = write_lines(tmp_path / "in.jsonl", 1), tmp_path / f"out{ending}"
    assert run(source, "-o", out) == 2
    assert f"{out}: cannot be written; allowed are FILE.parquet, FILE.jsonl and a folder" in capsys.readouterr().err
    assert not out.exists()


def test_a_folder_with_foreign_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write_lines(tmp_path / "in.jsonl", 5), tmp_path / "out"
    out.mkdir()
    (out / "precious.parquet").write_bytes(b"x")
    assert run(source, "-o", out) == 2
    assert "contains something else" in capsys.readouterr().err
    assert (out / "precious.parquet").read_bytes() == b"x"


@pytest.mark.parametrize("ending", [".parquet", ".jsonl", ""])
def test_an_output_never_replaces_an_input(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write_lines(tmp_path / "in.jsonl", 10), tmp_path / f"out{ending}"
    assert run(source, "-o", out) == 0
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert run(out, "-o", out) == 2
    assert "would be replaced by the output" in capsys.readouterr().err
    assert run(tmp_path / "*.jsonl", "-o", out) == 2  # among them the file of bad rows
    assert "errors.jsonl: would be replaced by the output" in capsys.readouterr().err or ending == ".jsonl"
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_folder_given_as_the_output_file_is_reported_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = write_lines(tmp_path / "in.jsonl", 5), tmp_path / "out.parquet"
    out.mkdir()
    assert run(source, "-o", out) == 2
    assert f"{out}: is a folder; the output is one file" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.jsonl", "out.parquet"]


# -- workers and memory ------------------------------------------------------------------------------------------------


def test_several_workers_write_what_one_writes(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "in.jsonl", 45)
    for workers in (1, 2):
        assert run(source, "-o", tmp_path / f"{workers}.parquet", "--rows", "10", workers=workers) == 0
    assert pq.read_table(tmp_path / "1.parquet") == pq.read_table(tmp_path / "2.parquet")
    with_errors = [(tmp_path / f"{n}.parquet.errors.jsonl").read_text(encoding="utf-8") for n in (1, 2)]
    assert with_errors[0] == with_errors[1]


def test_workers_are_threads_if_python_has_no_global_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as an interpreter with the lock can show it: which threads read, and what is written."""
    source = write_lines(tmp_path / "in.jsonl", 60)
    assert run(source, "-o", tmp_path / "one.jsonl") == 0
    seen: dict[int, set[int]] = {}

    def read(self: RowReader, *given: Any) -> dict[str, Any]:
        if id(self) not in seen:
            begun.wait(60)  # no thread does all the work
        seen.setdefault(id(self), set()).add(threading.get_ident())
        return original(self, *given)

    begun, original = threading.Barrier(2), RowReader.read
    monkeypatch.setattr(RowReader, "read", read)
    monkeypatch.setattr("sys._is_gil_enabled", lambda: False, raising=False)
    assert run(source, "-o", tmp_path / "two.jsonl", "--rows", "4", workers=2) == 0
    assert [len(threads) for threads in seen.values()] == [1, 1]
    assert threading.get_ident() not in set.union(*seen.values())
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


def test_concurrent_threads_read_what_one_thread_reads() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        assert race(4, 24) > 200
    finally:
        sys.setswitchinterval(interval)


def test_one_block_starts_no_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspool.batch.workers._pool", None)
    words = (write_lines(tmp_path / "in.jsonl", 9), "-o", tmp_path / "out.parquet", "--rows")
    assert run(*words, "9", workers=2) == 0
    with pytest.raises(TypeError, match="not callable"):
        run(*words, "8", workers=2)


def test_rows_are_read_lazily() -> None:
    read: list[int] = []

    def stream() -> Iterable[dict[str, Any]]:
        for i in range(100_000):
            read.append(i)
            yield {"output": "Hi."}

    found = parse_many(stream(), "hermes", errors=(bad := list[BadRow]()))
    for _ in range(20):
        next(found)
    assert len(read) < 200
    assert bad == []


# -- misuse ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing.jsonl"], "nothing.jsonl: there is no such file"),
        (["-", "-"], "-: standard input can be read once"),
        (["IN", "--workers", "0"], "--workers: '0' is not a number from 1"),
        (["IN", "--tokenizer", "nowhere.json"], "nowhere.json"),
        (["IN", "--model", "x"], "--model: needs --dialect auto"),
        (["bad.parquet"], "bad.parquet: is not a parquet file"),
        (["IN", "-o", "-"], "--output: must be a file or a folder"),
    ],
)
def test_wrong_arguments_are_reported_in_one_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lines(tmp_path / "in.jsonl", 2)
    (tmp_path / "bad.parquet").write_bytes(b"PAR0")
    arguments = [{"IN": str(source), "bad.parquet": str(tmp_path / "bad.parquet")}.get(w, w) for w in words]
    assert main(["batch", "-d", "hermes", "-o", str(tmp_path / "out.parquet"), *arguments]) == 2
    captured = capsys.readouterr().err
    assert said in captured
    assert captured.count("\n") == 1


def test_the_names_of_tools_steer_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "a\x1b[2J\x9b"
    call = json.dumps({"name": name, "arguments": {}})
    row = {"output": f"<tool_call>\n{call}\n</tool_call>", "tools": [tool(name)]}
    (tmp_path / "in.jsonl").write_text(json.dumps(row) + "\n")
    assert run(tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl") == 0
    said = capsys.readouterr().err
    assert r"a\x1b[2J\x9b" in said
    assert "\x1b[2J" not in said
