"""Openings that look like text count anywhere if the file says so."""

from pathlib import Path

import pytest

import unspool
from tests.support import readings, tool
from unspool import Dialect
from unspool.check import check_dialect, read_file

NAMES = ("headers", "fence", "list", "objects")
"""Files whose calls count anywhere."""
FOLDER = Path(__file__).with_name("files")
FILES = {name: (FOLDER / f"{name}.toml").read_text(encoding="utf-8") for name in NAMES}


def load(folder: Path, text: str) -> Dialect:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return read_file(path)


@pytest.mark.parametrize("name", [*NAMES, "margins"])
def test_a_file_with_calls_anywhere_or_margins_of_content_keeps_every_promise(name: str) -> None:
    assert check_dialect(read_file(FOLDER / f"{name}.toml")) == []


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_without_anywhere_a_call_after_text_is_text(tmp_path: Path, text: str) -> None:
    without = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("anywhere"))
    dialect = load(tmp_path, without)
    message = unspool.parse(text.split("raw = '''\n")[-1].split("'''")[0], dialect, tools=[])
    assert (message.tool_calls, "get_weather" in message.content) == ([], True)


@pytest.mark.parametrize("text", [FILES["list"], FILES["objects"]], ids=["list", "objects"])
def test_brackets_count_only_for_declared_tools(tmp_path: Path, text: str) -> None:
    dialect = load(tmp_path, text)
    raw = text.split("raw = ")[-1].partition("\n")[0].strip("'\"")
    assert len(unspool.parse(raw, dialect, tools=[tool("get_weather")]).tool_calls) >= 1
    for others in (None, [tool("other")]):
        message = unspool.parse(raw, dialect, tools=others)
        assert (message.content, message.tool_calls) == (raw, [])


@pytest.mark.parametrize("quoted", ["`{}`", "```\n{}\n```"])
def test_brackets_in_code_are_text(tmp_path: Path, quoted: str) -> None:
    dialect = load(tmp_path, FILES["list"])
    text = quoted.format("[now()]")
    assert unspool.parse(text, dialect, tools=[tool("now")]).content == text


def test_the_end_of_a_start_is_not_written_first_and_counts_only_before_a_whole_header() -> None:
    prompt = "<|start_header_id|>assistant<|end_header_id|>\n\n>>>"
    text = "all\nType:\n>>> 1 + 1\n2 >>>>\n>>>now\n{}"
    for message in readings("functionary-v3.2", text, prompt=prompt):
        assert message.content == "Type:\n>>> 1 + 1\n2 >>>>\n"
        assert [c.name for c in message.tool_calls] == ["now"]
