"""The guide's code runs, what it asserts holds, and it names every column and option."""

import re
from pathlib import Path

import pytest

from unspool.batch import WRITTEN
from unspool.cli import main

GUIDE = (Path(__file__).parents[2] / "docs" / "en" / "batch.md").read_text(encoding="utf-8")


def test_the_guides_code_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.S)
    assert len(blocks) >= 2
    exec("\n".join(blocks), {})


def test_the_guide_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["batch", "--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {
        "--help",
        "--policy",
        "--tool-choice",
        "--output",
    }
    assert [o for o in sorted(options) if o not in GUIDE] == []
    assert [c for c in WRITTEN if f"`{c}`" not in GUIDE] == []
