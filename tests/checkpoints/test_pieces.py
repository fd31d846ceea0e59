"""The tokens of a GGUF are decoded without an engine."""

import json
from pathlib import Path

import pytest

from unspool.cli import main
from unspool.tokens import BYTES

from ..writing_gguf import gguf, of_bytes

RAW = '<tool_call>\n{"name": "f", "arguments": {"a": "é"}}\n</tool_call>'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf(of_bytes("<|im_end|>", "<tool_call>", "</tool_call>")))
    return path


def test_a_batch_of_ids_is_read_by_a_gguf(file: Path, tmp_path: Path) -> None:
    byte = {value: i + 3 for i, value in enumerate(BYTES.values())}
    body = RAW.removeprefix("<tool_call>").removesuffix("</tool_call>")
    rows, read = tmp_path / "rows.jsonl", tmp_path / "read.jsonl"
    rows.write_text(json.dumps({"token_ids": [1, *(byte[b] for b in body.encode()), 2, 0]}) + "\n")
    assert main(["batch", str(rows), "-o", str(read), "--dialect", "hermes", "--tokenizer", str(file)]) == 0
    (call,) = json.loads(read.read_text(encoding="utf-8"))["tool_calls"]
    assert (call["name"], call["arguments"]) == ("f", '{"a": "é"}')


def test_a_grammar_has_the_ids_of_a_gguf(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text('[{"type": "function", "function": {"name": "f"}}]')
    arguments = ["--dialect", "hermes", "--tools", str(tools), "--tokenizer", str(file), "--format", "lark"]
    assert main(["constrain", *arguments]) == 0
    assert "<[1]>" in capsys.readouterr().out
    file.write_bytes(file.read_bytes()[:50])
    assert main(["constrain", *arguments]) == 2
    assert f"--tokenizer: {file}: ends in its metadata" in capsys.readouterr().err
