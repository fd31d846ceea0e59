"""Engines that another distribution installs, as `--engine` finds them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from unspool.cli import main
from unspool.cli.engines import _entry_points

MODULE = '''
from unspool.engines import Delta, EngineError, Request


class Echo:
    """Repeats the last message, so many times."""

    tokenizer = None

    def __init__(self, argument):
        self.times = int(argument or 1)

    async def generate(self, request: Request):
        for _ in range(self.times):
            yield Delta(text=request.messages[-1]["content"])
        yield Delta(finish_reason="stop")

    async def health(self):
        pass

    async def close(self):
        pass
'''


@pytest.fixture(autouse=True)
def _distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A distribution with an engine, and one whose engine cannot be loaded."""
    (tmp_path / "echo_engine.py").write_text(MODULE)
    info = tmp_path / "echo_engine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: echo-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[unspool.engines]\necho = echo_engine:Echo\nlost = echo_engine:Lost\n")
    monkeypatch.syspath_prepend(tmp_path)
    _entry_points.cache_clear()
    yield
    _entry_points.cache_clear()


@pytest.mark.parametrize(("engine", "content"), [("echo", "<b>Hi"), ("echo:2", "<b>Hi<b>Hi")])
def test_an_installed_engine_is_named_with_its_argument(
    engine: str, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", "<b>Hi", "--engine", engine, "--dialect", "hermes", "--format", "message"]) == 0
    assert json.loads(capsys.readouterr().out)["segments"][0]["text"] == content


@pytest.mark.parametrize(
    ("engine", "error"),
    [
        ("echo:x", "--engine: invalid literal for int()"),
        ("lost", "--engine: lost: cannot load echo_engine:Lost"),
        ("ecco", "--engine: 'ecco': allowed are FILE.gguf, ollama:NAME, lmstudio:NAME, hf:NAME, replay:PATH, the URL"),
        ("ecco", "; installed are echo, lost"),
    ],
)
def test_an_unknown_engine_is_a_usage_error(engine: str, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "Hi", "--engine", engine, "--dialect", "hermes"]) == 2
    assert error in capsys.readouterr().err
