"""`unspool infer`: from a checkpoint to a file that loads."""

import json
from pathlib import Path

import pytest

import unspool
from tests.infer import invented
from unspool.cli import main


def checkpoint(folder: Path, template: str) -> Path:
    folder.mkdir()
    config = {"chat_template": template, "eos_token": "</eos>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def test_a_proven_dialect_is_written_to_a_file_that_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, file = checkpoint(tmp_path / "New-7B", invented.TEMPLATES["a-list-with-ids"]), tmp_path / "new.toml"
    assert main(["infer", str(path), "--output", str(file)]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1] == "proven"
    dialect = unspool.load_dialect(file)
    assert (dialect.name, dialect.end) == ("new-7b", ("</eos>",))


def test_the_json_says_what_was_not_proven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "chat_template.jinja"
    path.write_text(invented.TEMPLATES["ambiguous"], encoding="utf-8")
    assert main(["infer", str(path), "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed["proven"] is False
    assert {"case", "result", "reason"} == set(printed["proof"][0])


@pytest.mark.parametrize(
    ("template", "arguments", "why"),
    [
        ("{% for %}", [], "unspool infer: /"),
        ("{{ messages.__class__.__mro__ }}", [], "sandbox refuses"),
        ("x", ["--template", "tool_use"], "allowed are default"),
    ],
)
def test_a_template_that_infer_cannot_use_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], template: str, arguments: list[str], why: str
) -> None:
    path = checkpoint(tmp_path / "m", template)
    assert main(["infer", str(path), *arguments]) == 2
    assert why in capsys.readouterr().err


def test_what_is_not_proven_shows_what_was_cut_out_and_where_it_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "chat_template.jinja"
    path.write_text(
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}"
        "CALL {{ c.function.name }} WITH {% for k, v in c.function.arguments.items() %}{{ loop.index }}~{{ v }};"
        "{% endfor %}{% endfor %}<|e|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
        encoding="utf-8",
    )
    assert main(["infer", str(path)]) == 1
    *_, opening, call, stopped, last = capsys.readouterr().err.splitlines()
    assert opening == "opening of a turn: '<|assistant|>'"
    assert call.startswith("a call, as cut out: 'CALL ")
    assert stopped.startswith("stopped at: ")
    assert last == "not proven"


def test_a_template_cannot_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "chat_template.jinja"
    file.write_text("{{ raise_exception('\x1b[2J\\nERROR unspool: forged\x07') }}")
    assert main(["infer", str(file)]) == 1
    said = "".join(capsys.readouterr())
    assert "forged" in said
    assert "\x1b" not in said
    assert "\x07" not in said
    assert "\nERROR" not in said
