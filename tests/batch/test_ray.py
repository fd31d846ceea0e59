"""Runs on a real Ray on this machine, with several worker processes, write what local runs write."""

import os
import signal
import threading
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unspool.cli import main

from .rows import is_bad, row, write_lines
from .test_batch import rows_in

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]


def inputs(folder: Path, count: int) -> Path:
    """Lines, and a table of several row groups."""
    folder.mkdir()
    write_lines(folder / "a.jsonl", count)
    table = pa.Table.from_pylist([row(i) | {"tools": "[]", "meta": "{}"} for i in range(count, count + 90)])
    pq.write_table(table, folder / "b.parquet", row_group_size=30)
    return folder


def run(source: Path, out: Path, *words: str) -> int:
    return main(["batch", str(source), "-d", "hermes", "-o", str(out), "--rows", "25", "--workers", "2", *words])


def workers() -> list[int]:
    """The processes of Ray's workers that work on blocks."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if line.startswith(b"ray::") and b"PartWorker" in line and os.getpgid(int(entry.name)):
                found.append(int(entry.name))
    return found


def test_a_run_with_a_killed_worker_writes_what_a_local_run_writes(tmp_path: Path) -> None:
    source = inputs(tmp_path / "in", 3_000)
    assert run(source, tmp_path / "local.parquet") == 0
    killed: list[int] = []
    ended = threading.Event()

    def kill() -> None:
        parts = tmp_path / "ray.parquet.unspool"
        while not killed and not ended.wait(0.02):
            if len(list(parts.glob("part-*.parquet"))) >= 3:
                for pid in workers()[:1]:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        assert run(source, tmp_path / "ray.parquet", "--ray") == 0
    finally:
        ended.set()
        thread.join()
    assert killed, "no worker was found to kill"
    assert pq.read_table(tmp_path / "ray.parquet") == pq.read_table(tmp_path / "local.parquet")
    errors = [rows_in(tmp_path / f"{name}.parquet.errors.jsonl") for name in ("local", "ray")]
    assert errors[0] == errors[1]
    assert [e["row"] for e in errors[0]] == [i for i in range(3_000) if is_bad(i)]


def test_a_run_on_ray_resumes_with_the_missing_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = inputs(tmp_path / "in", 100), tmp_path / "out"
    assert run(source, out, "--ray", "-d", "auto") == 0
    before = {p.name: p.stat().st_mtime_ns for p in out.glob("*.parquet")}
    (out / "part-00000001.parquet").unlink()
    assert run(source, out, "--ray", "-d", "auto", "--resume") == 0
    after = {p.name: p.stat().st_mtime_ns for p in out.glob("*.parquet")}
    assert [n for n in before if before[n] != after[n]] == ["part-00000001.parquet"]
    said = capsys.readouterr().err
    assert said.count("180 rows, ") == said.count("dialect, by the outputs: hermes reads ") == 2
    assert run(source, tmp_path / "local.parquet") == 0
    assert pa.concat_tables([pq.read_table(p) for p in sorted(out.glob("*.parquet"))]) == pq.read_table(
        tmp_path / "local.parquet"
    )


def test_a_cluster_is_found_by_its_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False}
    )
    source, odd = inputs(tmp_path / "in", 100), tmp_path / "odd.parquet"
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(pa.table({"output": ["Hi."], "meta": twice}), odd)
    try:
        assert run(source, tmp_path / "ray.jsonl", "--ray", "--ray-address", cluster.address) == 0
        assert run(odd, tmp_path / "odd.jsonl", "--ray", "--ray-address", cluster.address) == 2
    finally:
        cluster.shutdown()
    assert f"INPUT: {odd}: meta: " in capsys.readouterr().err
    assert run(source, tmp_path / "local.jsonl") == 0
    assert rows_in(tmp_path / "ray.jsonl") == rows_in(tmp_path / "local.jsonl")


def test_an_invalid_cluster_address_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(inputs(tmp_path / "in", 10), tmp_path / "out", "--ray", "--ray-address", "nonsense") == 2
    assert "--ray: Invalid address format: nonsense" in capsys.readouterr().err


def test_standard_input_is_refused_on_ray(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", "-", "-d", "hermes", "-o", str(tmp_path / "out"), "--ray"]) == 2
    assert "standard input cannot be read by other machines" in capsys.readouterr().err
