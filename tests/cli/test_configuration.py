"""The configuration file of `serve`: its keys are the command line's, and errors say what is wrong with it."""

import socket
from pathlib import Path
from typing import Any

import pytest

from unspool.cli import main, parsers
from unspool.cli.common import Misuse
from unspool.cli.configuration import configured, keys
from unspool.cli.model import model_arguments
from unspool.cli.serve import serve_arguments
from unspool.request.settings import LIMITS


def read(tmp_path: Path, text: str, *words: str) -> dict[str, Any]:
    file = tmp_path / "unspool.toml"
    file.write_text(text, encoding="utf-8")
    return configured(["--config", str(file), *words], str(file), serve_arguments, model_arguments)


def test_every_argument_is_a_key_and_the_file_gives_what_the_command_line_would(tmp_path: Path) -> None:
    _, commands = parsers()
    flags = {"--host=::1", "--port=0", "--policy=bad_arguments=drop", "--full-text", "--max-queue=7", "--cors=*"}
    text = (
        'host = "::1"\nport = 0\nfull-text = true\ncors = "*"\n[policy]\nbad_arguments = "drop"\n[limits]\nqueue = 7\n'
    )
    expected = vars(commands["serve"].parse_args(sorted(flags)))
    expected.pop("run")
    assert vars(read(tmp_path, text)[""]) == expected
    known = keys(serve_arguments, model_arguments)
    assert {f"max-{field}" for field in LIMITS} <= known.keys()
    assert {"dialect", "engine", "policy"} <= {name for name, key in known.items() if key.model}
    assert not known["port"].model


def test_workers_of_a_file_are_started_with_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[list[str], int]] = []

    def supervise(words: list[str], listener: socket.socket, count: int, engines: object) -> int:
        started.append((words, count))
        return 0

    monkeypatch.setattr("unspool.server.workers.supervise", supervise)
    monkeypatch.setattr("unspool.server.logs.set_up_logs", lambda *_: None)
    file = tmp_path / "unspool.toml"
    file.write_text('workers = 3\nport = 0\nengine = "http://127.0.0.1:9"\n[models.a]\n[models.b]\n', encoding="utf-8")
    words = ["serve", "--config", str(file), "--log-level", "error"]
    assert main(words) == 0
    assert started == [(words, 3)]


def test_the_command_line_overrides_a_models_table_and_that_overrides_the_top_level(tmp_path: Path) -> None:
    text = """
        port = 1
        dialect = "hermes"
        slots = 2
        policy = ["bad_arguments=drop"]

        [models.a]
        slots = 3

        [models."org/b"]
        dialect = "mistral"
        engine = ["http://h:1", "http://h:2"]
        [models."org/b".policy]
        unknown_tool = "drop"
    """
    a, b = read(tmp_path, text, "--port", "5").values()
    assert (a.model, a.port, a.dialect, a.slots, a.policy) == ("a", 5, "hermes", 3, ["bad_arguments=drop"])
    assert (b.model, b.port, b.dialect, b.slots, b.policy) == ("org/b", 5, "mistral", 2, ["unknown_tool=drop"])
    assert b.engine == ["http://h:1", "http://h:2"]
    a, b = read(tmp_path, text, "--slots", "9", "--policy", "unknown_tool=keep", "--engine", "echo").values()
    assert (a.slots, b.slots, a.policy, b.engine) == (9, 9, ["unknown_tool=keep"], ["echo"])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("prot = 1", "prot: unknown key; did you mean port"),
        ("port = true", "port: must be an integer, not "),
        ('port = "1"', "port: must be an integer, not "),
        ("dialect = 1", "dialect: must be a string, not "),
        ("full-text = 1", "full-text: must be true or false, not "),
        ('profile = "vllm"', "profile: 'vllm' is not one of openai, mindie, candle"),
        ("config = 'x'", "config: unknown key"),
        ("[limits]\nbodies = 1", "limits.bodies: unknown key"),
        ("[limits]\nbody = 1.5", "limits.body: must be an integer, not "),
        ("[models.a]\nport = 1", 'models."a".port: is the same for all models; write it at the top level'),
        ("[limits]\nmax-body = 1", "limits.max-body: unknown key; did you mean body?"),
        ("[models.a]\ndialects = 'x'", 'models."a".dialects: unknown key; did you mean dialect'),
        ("models = 1", "models: must be tables"),
        ("model = 'x'\n[models.a]", "names its models itself"),
        ("port = ", "not TOML: "),
    ],
)
def test_a_wrong_configuration_is_named_with_what_is_allowed(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(Misuse) as caught:
        read(tmp_path, text)
    assert error in str(caught.value)
    assert "unspool.toml" in str(caught.value)


def test_a_model_that_cannot_be_opened_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.jsonl").write_text('{"type": "request"}\n')
    engine = f'engine = "replay:{tmp_path / "r.jsonl"}"\ndialect = "herm'
    (tmp_path / "u.toml").write_text(f'port = 0\n[models.a]\n{engine}es"\n[models.b]\n{engine}se"\n')
    assert main(["serve", "--config", str(tmp_path / "u.toml")]) == 2
    printed = capsys.readouterr().err
    assert 'unspool serve: models."b": --dialect: there is no dialect' in printed
    assert main(["serve", "--config", str(tmp_path / "none.toml")]) == 2
    assert "none.toml: No such file" in capsys.readouterr().err
