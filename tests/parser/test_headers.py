"""Where calls without markers begin."""

from typing import Any

import pytest

from unspool import Message, parse, render

from ..support import alike, calling, function_call, pieces, tool

TOOLS = [tool("f", x={})]
CALL = '{"name": "f", "arguments": {"x": 1}}'
PYTHON = "[f(x=1)]"


def read(text: str, dialect: str, **options: Any) -> Message:
    return alike(dialect, text, (pieces(text, size) for size in (1, 2, 3, 7)), tools=TOOLS, **options)


CASES = [("llama3", CALL), ("json", CALL), ("json", f"[{CALL}]"), ("xlam", f"[{CALL}]"), ("pythonic", PYTHON)]
CASES += [("openai-generic", CALL), ("openai-generic", f"[{CALL}]"), ("json", f"```json\n{CALL}\n```")]
CASES += [("xlam", f"```json\n[{CALL}]\n```")]


@pytest.mark.parametrize(("dialect", "call"), CASES)
@pytest.mark.parametrize("before", ["Sure.\n", "Sure.\n\n", "Sure.\n   ", "Sure: `x`\n", "```py\nx\n```\n", "\n", ""])
def test_an_unmarked_call_of_a_declared_tool_counts_where_a_line_begins(dialect: str, call: str, before: str) -> None:
    message = read(f"{before}{call}\nDone.", dialect)
    assert [(c.name, c.status) for c in message.tool_calls] == [("f", "ok")]
    assert message.content.split() == [*before.split(), "Done."]


@pytest.mark.parametrize(("dialect", "call"), [c for c in CASES if not c[1].startswith("`")])
@pytest.mark.parametrize("before", ["Sure.", "Sure:", "a `", "Look:\n```\n", "```py\nx\n\n", "```\n```\nx\n````\n"])
def test_an_unmarked_call_is_text_within_a_line_and_in_a_fence(dialect: str, call: str, before: str) -> None:
    message = read(before + call, dialect)
    assert (message.content, message.tool_calls) == (before + call, [])


@pytest.mark.parametrize("dialect", ["llama3", "json", "xlam", "openai-generic"])
def test_an_unmarked_call_of_an_undeclared_tool_is_text(dialect: str) -> None:
    text = 'Sure.\n[{"name": "g", "arguments": {}}]\n{"name": "g", "arguments": {}}'
    assert read(text, dialect).content == text


@pytest.mark.parametrize("dialect", ["qwen3-coder", "deepseekv31", "functionary-v3.2", "glm45"])
@pytest.mark.parametrize("name", [":", "--", "./."])
def test_a_name_of_punctuation_alone_must_be_declared(dialect: str, name: str) -> None:
    text = render(calling(function_call(name, id="functions.f:0")), dialect, tools=[tool(name)])
    assert [c.name for c in parse(text, dialect, tools=[tool(name)]).tool_calls] == [name]
    assert parse(text, dialect).tool_calls == []
    assert read(text, dialect).tool_calls == []


@pytest.mark.parametrize("call", [CALL, f"[{CALL}]"])
def test_a_template_that_begins_with_a_space_is_read_after_one(call: str) -> None:
    message = read(f"Let me check. {call}", "openai-generic")
    assert (message.content, [c.name for c in message.tool_calls]) == ("Let me check.", ["f"])
    assert read(f"Let me check. {call}", "json").tool_calls == []


def test_a_call_that_is_numbered_from_zero_gets_an_id_that_fits() -> None:
    call = '<|open|>tools<|sep|><|open|>call tool="f" index="0"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>'
    (made,) = read(call, "kimi_k3").tool_calls
    assert (made.id, made.arguments) == ("f:0", "{}")
