"""The server renders the families' own chat templates, and finds their calls by itself."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

import unspool
from unspool.errors import TemplateError
from unspool.request.approvals import Approvals
from unspool.request.chat_request import ChatRequest
from unspool.request.prompts import Prompts, Tokenizer
from unspool.request.server_tools import ServedTool, ServerTools
from unspool.tools import ServerTool
from unspool.toolset import read_toolset

from ..support import calling, function_call
from .table import SOURCES, Source
from .turns import TOOLS

pytestmark = pytest.mark.templates

OTHERWISE = {
    "tool_chat_template_phi4_mini": "it has no marker, and writes arguments as Python prints them",
    "tool_chat_template_llama3.2_pythonic": "it writes strings without quotes",
    "tool_chat_template_toolace": "it writes strings without quotes",
}
"""Engines' templates that do not write calls as their models do; the server takes them only if a flag allows it."""

ALL = pytest.mark.parametrize("source", SOURCES, ids=lambda s: f"{s.dialect}-{s.file}")
_MARKER = re.compile(r"<[|/\w｜▁:]+>|\[/?[A-Z_]+\]")


def prompts(source: Source, templates: dict[str, Path]) -> Prompts:
    """The template, in which everything that looks like a marker is a special token."""
    return _prompts(source.path(templates), source.dialect)


@cache
def _prompts(path: Path, name: str) -> Prompts:
    text, dialect = path.read_text(encoding="utf-8"), unspool.get_dialect(name)
    special = {"bos_token": "<BOS>", "eos_token": dialect.end[0] if dialect.end else "<EOS>"}
    return Prompts(Tokenizer(text, text, special, tuple(sorted({*_MARKER.findall(text), *special.values()}))))


@ALL
def test_the_check_at_the_start_finds_the_familys_dialect(source: Source, templates: dict[str, Path]) -> None:
    made, dialect = prompts(source, templates), unspool.get_dialect(source.dialect)
    if source.file in OTHERWISE:
        with pytest.raises(TemplateError, match="cannot read the calls"):
            made.check(dialect)
    else:
        assert made.check(dialect)


@ALL
def test_the_check_at_the_start_refuses_a_dialect_of_another_kind(source: Source, templates: dict[str, Path]) -> None:
    other = "harmony" if source.dialect != "harmony" else "qwen3-coder"
    with pytest.raises(TemplateError, match=f"{other} cannot read the calls"):
        prompts(source, templates).check(unspool.get_dialect(other))


def test_every_listed_exception_names_a_template() -> None:
    assert set(OTHERWISE) <= {s.file for s in SOURCES}


CONVERSATION: list[dict[str, Any]] = [
    {"role": "user", "content": "What now?"},
    calling(function_call("get_weather", {"city": "Paris"}, "callid000"), content=None, reasoning_content="plan it"),
    {"role": "tool", "tool_call_id": "callid000", "name": "get_weather", "content": "20 degrees"},
    {"role": "assistant", "content": "It is warm."},
    {"role": "user", "content": [{"type": "text", "text": "And "}, {"type": "text", "text": "then?"}]},
]


def checked(source: Source, templates: dict[str, Path]) -> Prompts:
    made = prompts(source, templates)
    if source.file not in OTHERWISE:
        made.check(unspool.get_dialect(source.dialect))
    return made


@ALL
def test_a_conversation_with_tools_and_their_results_is_written(source: Source, templates: dict[str, Path]) -> None:
    made = checked(source, templates)
    prompt = made.render(
        ChatRequest(messages=CONVERSATION, toolset=read_toolset(TOOLS), template=dict(source.variables))
    )
    for text in ("What now?", "Paris", "20 degrees", "It is warm.", "And then?", "get_weather"):
        assert text in prompt
    assert "None" not in prompt


@pytest.mark.parametrize("function", [{}, {"description": "Now."}, {"parameters": {"type": "object"}}])
@ALL
def test_tools_need_neither_a_description_nor_parameters(
    source: Source, function: dict[str, Any], templates: dict[str, Path]
) -> None:
    tool = {"type": "function", "function": {"name": "now", **function}}
    made = checked(source, templates)
    prompt = made.render(ChatRequest(messages=CONVERSATION[:1], toolset=read_toolset([tool])))
    assert "What now?" in prompt


def test_tools_that_gpt_oss_was_trained_on_are_described_by_its_template(templates: dict[str, Path]) -> None:
    source = next(s for s in SOURCES if s.dialect == "harmony")
    made = prompts(source, templates)
    made.check(unspool.get_dialect("harmony"))
    named = {"get_weather": "mcp", "python": "python", "browser.open": "browser", "browser.search": "mcp"}
    tools = {}
    for name, kind in named.items():
        definition = {"type": "function", "function": {"name": name, "description": f"Ours: {name}.", "parameters": {}}}
        tools[name] = ServedTool(ServerTool(name=name, server="s", original=name, kind=kind, definition=definition))  # type: ignore[arg-type]
    served = ServerTools(tools=tools, approvals=Approvals(b""), clients=False)
    asked = ChatRequest(
        messages=[{"role": "user", "content": "Hi"}], toolset=read_toolset(served.definitions), server_tools=served
    )
    prompt = made.render(asked)
    assert prompt.count("## browser\n") == prompt.count("## python\n") == 1
    assert [n for n in named if f"Ours: {n}." in prompt] == ["get_weather", "browser.search"], (
        "MCP's are not the model's"
    )
    own = made.render(msgspec.structs.replace(asked, template={"builtin_tools": []}))
    assert "## python\n" not in own
    assert all(f"Ours: {n}." in own for n in named)
    none = made.render(msgspec.structs.replace(asked, toolset=read_toolset(served.definitions, "none")))
    assert "## python\n" not in none
    clients = made.render(msgspec.structs.replace(asked, server_tools=None))
    assert "## python\n" not in clients
