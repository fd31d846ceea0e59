"""Openings that look like text count anywhere if the file says so."""

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
LIST = """
name = "list"
calls = "[{calls}]"
call = "{name}({arguments})"
arguments = "python"
separator.calls = ", "
anywhere = ["["]

[[examples]]
raw = "Hello, [1], [x](y) and f[g(x)]."
content = "Hello, [1], [x](y) and f[g(x)]."

[[examples]]
raw = "Let me look.[get_weather(city='Paris'), now()]"
content = "Let me look."
tool_calls = [{ name = "get_weather", arguments = { city = "Paris" } }, { name = "now" }]
"""
OBJECTS = """
name = "objects"
call = '{"name": "{name}", "parameters": {arguments}}'
anywhere = ["{"]

[[examples]]
raw = 'Hello, {you}, {"name": "Ada"} and {"a": 1}.'
content = 'Hello, {you}, {"name": "Ada"} and {"a": 1}.'

[[examples]]
raw = 'Let me look.{"name": "get_weather", "parameters": {"city": "Paris"}}{"name": "now", "parameters": {}}'
content = "Let me look."
tool_calls = [{ name = "get_weather", arguments = { city = "Paris" } }, { name = "now" }]
"""
FILES = {"headers": HEADERS, "fence": FENCE, "list": LIST, "objects": OBJECTS}


def load(folder: Path, text: str) -> Dialect:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return read_file(path)


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_a_file_with_calls_anywhere_keeps_every_promise(tmp_path: Path, text: str) -> None:
    assert check_dialect(load(tmp_path, text)) == []


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_without_anywhere_a_call_after_text_is_text(tmp_path: Path, text: str) -> None:
    without = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("anywhere"))
    dialect = load(tmp_path, without)
    message = unspool.parse(text.split("raw = '''\n")[-1].split("'''")[0], dialect, tools=[])
    assert (message.tool_calls, "get_weather" in message.content) == ([], True)


def test_one_character_before_a_name_does_not_count_anywhere(tmp_path: Path) -> None:
    with pytest.raises(DialectError, match=r"anywhere: '<' is one character, which text contains too: leave it out"):
        load(tmp_path, "name = 'mine'\ncall = '<{name}>{arguments}</{name}>'\nanywhere = ['<']\n")


def test_a_text_that_no_call_begins_with_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DialectError, match=r"anywhere: '<<<' begins no template of `calls` or `call`"):
        load(tmp_path, HEADERS.replace('anywhere = [">>>"]', 'anywhere = "<<<"'))


@pytest.mark.parametrize("text", [LIST, OBJECTS], ids=["list", "objects"])
def test_brackets_count_only_for_declared_tools(tmp_path: Path, text: str) -> None:
    dialect = load(tmp_path, text)
    raw = text.split("raw = ")[-1].partition("\n")[0].strip("'\"")
    tools = [{"type": "function", "function": {"name": "get_weather"}}]
    assert len(unspool.parse(raw, dialect, tools=tools).tool_calls) >= 1
    for others in (None, [{"type": "function", "function": {"name": "other"}}]):
        message = unspool.parse(raw, dialect, tools=others)
        assert (message.content, message.tool_calls) == (raw, [])


@pytest.mark.parametrize("quoted", ["`{}`", "```\n{}\n```"])
def test_brackets_in_code_are_text(tmp_path: Path, quoted: str) -> None:
    dialect = load(tmp_path, LIST)
    text = quoted.format("[now()]")
    tools = [{"type": "function", "function": {"name": "now"}}]
    assert unspool.parse(text, dialect, tools=tools).content == text


def test_the_end_of_a_start_is_not_written_first_and_counts_only_before_a_whole_header() -> None:
    prompt = "<|start_header_id|>assistant<|end_header_id|>\n\n>>>"
    text = "all\nType:\n>>> 1 + 1\n2 >>>>\n>>>now\n{}"
    for chunks in ([text], list(text)):
        parser = unspool.Parser("functionary-v3.2", prompt=prompt)
        for chunk in chunks:
            parser.feed(chunk)
        parser.close()
        assert parser.message.content == "Type:\n>>> 1 + 1\n2 >>>>\n"
        assert [c.name for c in parser.message.tool_calls] == ["now"]
