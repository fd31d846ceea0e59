"""The command `generate`, which prompts an engine."""

import json
from pathlib import Path

import pytest

from tests.support import closed_tool, pieces, tool
from unspool.cli import main
from unspool.engines.capture import Asked, write_recording

RAW = '<think>A city.</think><tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


@pytest.fixture
def recorded(tmp_path: Path) -> list[str]:
    write_recording(tmp_path / "one.jsonl", Asked(), pieces(RAW, 5))
    (tmp_path / "tools.json").write_text(json.dumps([tool("get_weather")]), encoding="utf-8")
    tools = ["--tools", str(tmp_path / "tools.json")]
    return ["generate", "Weather?", "--engine", f"replay:{tmp_path / 'one.jsonl'}", *("--dialect", "hermes"), *tools]


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("pretty", "A city."),
        ("raw", RAW),
        ("message", '"reasoning": "A city."'),
        ("openai", '"arguments": "{\\"city\\": \\"Paris\\"}"'),
        ("events", '"tool_call_start"'),
    ],
)
def test_an_answer_is_shown_in_any_form(
    recorded: list[str], form: str, shown: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main([*recorded, "--format", form]) == 0
    assert shown in capfdbinary.readouterr().out.decode()


def test_an_engine_that_fails_is_reported_and_the_exit_code_is_1(
    recorded: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.jsonl").write_text(
        '{"type": "request"}\n{"type": "chunk", "text": "Hi"}\n{"type": "error", "message": "the device is lost"}\n'
    )
    assert main(recorded) == 1
    assert "unspool generate: the engine failed: the device is lost" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--temperature", "9"], "temperature: 9.0 is not between 0 and 2"),
        (["--max-tokens", "0"], "max_tokens: 0 is not between 1 and"),
        (["--tool-choice", "nobody"], '--tool-choice: "nobody" is not declared; allowed are get_weather'),
        (["--messages", "tools.json.missing"], "--messages: tools.json.missing: No such file"),
    ],
)
def test_an_error_names_the_field(
    recorded: list[str], options: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*recorded, *options]) == 2
    printed = capsys.readouterr().err
    assert error in printed
    assert printed.count("\n") == 1


def test_recordings_may_declare_one_tool_in_two_ways(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    for i, declared in enumerate((tool("get_weather"), closed_tool("get_weather", city="string"))):
        write_recording(tmp_path / f"{i}.jsonl", Asked(dialect="hermes", tools=[declared]), [RAW])
    assert main(["generate", "--engine", f"replay:{tmp_path}"]) == 0
    assert b"get_weather" in capfdbinary.readouterr().out
