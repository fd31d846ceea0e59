"""`auto` for rows that name no dialect: their outputs decide, and nothing is guessed."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from unspool import UnknownDialect
from unspool.batch import BadRow, RowError, Summary, parse_many, parse_table
from unspool.cli import main

from ..rl.test_conversation import TOKENIZER, encode
from .rows import output, row, write_lines
from .test_batch import GOOD, rows_in

MARKUP = "<tool_call>\n<function=f>\n<parameter=a>\nx{}\n</parameter>\n</function>\n</tool_call>"
THOUGHT = "<think>\nplan {}\n</think>\n\nSure."
PLAIN = "Nothing to tell by, number {}."


def names(found: list[dict[str, Any]]) -> list[list[str]]:
    return [[call["name"] for call in one["tool_calls"]] for one in found]


@pytest.mark.parametrize("given", ["in.jsonl", "-"])
def test_the_dialect_is_detected_from_outputs_and_named_in_the_summary(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lines(tmp_path / "in.jsonl", 15)
    for dialect in ("auto", "hermes"):
        stream = io.TextIOWrapper(io.BufferedReader(io.BytesIO(source.read_bytes())))
        monkeypatch.setattr("sys.stdin", stream)
        words = ["--rows", "10", "--workers", "1", "--html", str(tmp_path / f"{dialect}.html")]
        path = "-" if given == "-" else str(source)
        assert main(["batch", path, "-d", dialect, "-o", str(tmp_path / f"{dialect}.jsonl"), *words]) == 0
    assert [r["key"] for r in rows_in(tmp_path / "auto.jsonl")] == GOOD[:13]
    assert rows_in(tmp_path / "auto.jsonl") == rows_in(tmp_path / "hermes.jsonl")
    said = capsys.readouterr().err
    assert said.count("dialect, by the outputs: hermes reads 18 calls and 13 thoughts of 13 outputs") == 1
    assert "read them in the same way" in said
    assert "by the outputs: hermes" in (tmp_path / "auto.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", [False, True])
def test_the_dialect_of_each_unknown_model_is_detected_from_its_own_outputs(table: bool) -> None:
    rows = [{"output": MARKUP.format(i), "model": "ours-1"} for i in range(3)]
    rows += [{"output": output(i), "model": "ours-2"} for i in range(1, 4)]
    rows += [{"output": output(1), "model": "NousResearch/Hermes-3-Llama-3.1-8B"}]
    summary = Summary()
    if table:
        found = parse_table(pa.Table.from_pylist(rows), "auto", summary=summary).to_pylist()
    else:
        found = list(parse_many(rows, "auto", summary=summary))
    assert names(found) == [["f"]] * 3 + [["f", "f"], ["f", "f"], [], ["f", "f"]]
    assert [r["reasoning"] for r in found[3:]] == ["plan 1 北", "plan 2 北", "plan 3 北", "plan 1 北"]
    detected = [(reason.split()[0], reason.rpartition(" (")[2]) for reason in summary.detected]
    assert detected == [("qwen3-coder", "the outputs of 'ours-1')"), ("hermes", "the outputs of 'ours-2')")]
    assert summary.rows == 7


def test_the_dialect_is_detected_from_token_ids() -> None:
    rows = [{"token_ids": encode(MARKUP.format(i))} for i in range(3)]
    assert names(list(parse_many(rows, "auto", tokenizer=TOKENIZER))) == [["f"]] * 3


@pytest.mark.parametrize(
    ("text", "said"),
    [(PLAIN, "the outputs show no dialect"), (THOUGHT, "the outputs do not decide between dialects: ")],
)
def test_undecided_outputs_are_an_error_instead_of_a_guess(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"output": text.format(i)} for i in range(5)]
    with pytest.raises(UnknownDialect, match=f"auto: {said}"):
        list(parse_many(rows, "auto"))
    source = tmp_path / "in.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert main(["batch", str(source), "-d", "auto", "-o", str(tmp_path / "out.jsonl")]) == 2
    assert f"--dialect: auto: {said}" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()


def test_an_undecided_detection_names_the_best_candidates() -> None:
    message = (
        r"dialects: [\w-]+(, [\w-]+){4} and \d+ more "
        r"\(reads 0 calls and 5 thoughts of 5 outputs.*\). Name one, or the model"
    )
    with pytest.raises(UnknownDialect, match=message):
        list(parse_many([THOUGHT.format(i) for i in range(5)], "auto"))


def test_a_dialect_that_reads_only_a_few_outputs_is_not_used_for_all() -> None:
    rows = [f"Sure. <do_it>f {i}</do_it>" for i in range(5)] + [output(1)]
    with pytest.raises(
        UnknownDialect, match="hermes, the best, finds nothing in 5 of 6 that contain markers; name one"
    ):
        list(parse_many(rows, "auto"))


def test_rows_without_a_model_are_bad_if_others_name_one() -> None:
    rows = [row(1) | {"model": "Qwen/Qwen3-8B"}, {"output": PLAIN.format(1)}, {"output": PLAIN, "model": "ours-1"}]
    bad: list[BadRow] = []
    assert names(list(parse_many(rows, "auto", errors=bad))) == [["f", "f"]]
    assert [(b.row, b.reason.partition(":")[0]) for b in bad] == [(1, "dialect"), (2, "dialect")]
    assert "the outputs of 'ours-1' show no dialect" in bad[1].reason
    with pytest.raises(RowError, match="row 1: dialect: the outputs show no dialect"):
        list(parse_many(rows, "auto"))


def test_an_unknown_model_after_the_sample_is_a_bad_row() -> None:
    rows = [{"output": output(1)}] * 64 + [{"output": output(1), "model": "ours-1"}]
    bad: list[BadRow] = []
    assert len(list(parse_many(rows, "auto", errors=bad))) == 64
    assert [(b.row, b.reason) for b in bad] == [(64, "model: no dialect found for 'ours-1'")]


BROKEN = {
    "a brace is missing": '<tool_call>\n{"name": "f", "arguments": {"a": %d}\n</tool_call>',
    "single quotes": "<tool_call>\n{'name': 'f', 'arguments': {'a': %d}}\n</tool_call>",
    "a trailing comma": '<tool_call>\n{"name": "f", "arguments": {"a": %d,}}\n</tool_call>',
    "it is cut": '<tool_call>\n{"name": "f", "arguments": {"a": "%d',
}


# With a whole output among cut ones, dialects that place the line breaks of a thought differently are undecided.
@pytest.mark.parametrize(("broken", "whole"), [(b, w) for b in BROKEN for w in (0, 1) if (b, w) != ("it is cut", 1)])
def test_broken_outputs_show_their_dialect_too(
    broken: str, whole: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"output": BROKEN[broken] % i} for i in range(5)] + [{"output": output(1)}] * whole
    source, read = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ["--policy", "bad_arguments=repair", "--workers", "1"]
    assert main(["batch", str(source), "-d", "auto", "-o", str(read), *words]) == 0
    assert "dialect, by the outputs: hermes reads" in capsys.readouterr().err
    found = [json.loads(line) for line in read.read_text(encoding="utf-8").splitlines()]
    assert names(found) == [["f"]] * 5 + [["f", "f"]] * whole
