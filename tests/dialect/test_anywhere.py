"""Openings that nothing tells from text count anywhere where the file says so."""

from pathlib import Path

import pytest

import unspool
from unspool import Dialect, DialectError
from unspool.check import check_dialect, read_file

HEADERS = """
name = "headers"
start = "<|assistant|>\\n\\n"
end = ["<|eot_id|>"]
content = ">>>all\\n{content}"
call = ">>>{name}\\n{arguments}"
anywhere = [">>>"]

[[examples]]
raw = ">>>all\\nHello."
content = "Hello."

[[examples]]
raw = '''
>>>get_weather
{"city": "Paris"}>>>now
{}'''
tool_calls = [{ name = "get_weather", arguments = { city = "Paris" } }, { name = "now" }]

[[examples]]
raw = '''
>>>all
Let me look.>>>get_weather
{"city": "Paris"}'''
content = "Let me look."
tool_calls = [{ name = "get_weather", arguments = { city = "Paris" } }]
"""
FENCE = """
name = "fence"
calls = "```json\\n{calls}\\n```"
call = '{"name": "{name}", "arguments": {arguments}}'
separator.calls = "\\n"
anywhere = ["```json"]

[[examples]]
raw = "Hello."
content = "Hello."

[[examples]]
raw = '''
Let me look. ```json
{"name": "get_weather", "arguments": {"city": "Paris"}}
{"name": "now", "arguments": {}}
```'''
content = "Let me look. "
tool_calls = [{ name = "get_weather", arguments = { city = "Paris" } }, { name = "now" }]
"""


def load(folder: Path, text: str) -> Dialect:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return read_file(path)


@pytest.mark.parametrize("text", [HEADERS, FENCE], ids=["headers", "fence"])
def test_a_file_that_says_so_keeps_every_promise(tmp_path: Path, text: str) -> None:
    assert check_dialect(load(tmp_path, text)) == []


@pytest.mark.parametrize("text", [HEADERS, FENCE], ids=["headers", "fence"])
def test_without_it_the_call_behind_text_is_text(tmp_path: Path, text: str) -> None:
    without = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("anywhere"))
    dialect = load(tmp_path, without)
    message = unspool.parse(text.split("raw = '''\n")[-1].split("'''")[0], dialect, tools=[])
    assert (message.tool_calls, "get_weather" in message.content) == ([], True)


def test_a_text_that_no_call_begins_with_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DialectError, match=r"anywhere: '<<<' begins no template of `calls` or `call`"):
        load(tmp_path, HEADERS.replace('anywhere = [">>>"]', 'anywhere = "<<<"'))
