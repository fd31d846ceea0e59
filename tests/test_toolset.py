"""Tools and tool choice: parser, grammar, renderer, protocols and command line take and refuse the same ones."""

import json
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.grammar.support import constrained
from tests.support import CALLING, named, tool
from unspool.cli import main
from unspool.errors import ToolsError
from unspool.request.fields import BadRequest, Fields
from unspool.request.protocols import AguiProtocol, ChatProtocol, MessagesProtocol, ResponsesProtocol
from unspool.request.settings import Settings
from unspool.toolset import choice_of, read_toolset

F, G = tool("f", a="string"), tool("g")
SETTINGS = Settings(model="m", dialect=unspool.get_dialect("hermes"))
CHAT = {"messages": [{"role": "user", "content": "Hi"}]}


def refused(tools: Any, choice: Any) -> str:
    with pytest.raises(ToolsError) as caught:
        read_toolset(tools, choice)
    return str(caught.value)


WRONG: dict[str, tuple[Any, Any, str]] = {
    "a tool declared twice": ([F, G, F], "auto", 'tools[2]: the name "f" is declared twice'),
    "a tool without a function": ([{"type": "function"}], "auto", "tools[0].function: must be an object, not null"),
    "a tool without a name": ([F, {"function": {}}], "auto", "tools[1].function.name: is required"),
    "a name that is a number": ([{"function": {"name": 3}}], "auto", "tools[0].function.name: must be a string, not a"),
    "parameters in a text": ([{"function": {"name": "f", "parameters": "{}"}}], "auto",
     "tools[0].function.parameters: must be an object, not a string"),
    "parameters in a list": ([F, {"function": {"name": "g", "parameters": []}}], "auto",
     "tools[1].function.parameters: must be an object, not a list"),
    "tools in an object": ({"f": F}, "auto", "tools: must be a list of tools, not an object"),
    "an undeclared function": ([F], choice_of("h"), 'tool_choice.function.name: "h" is not declared; allowed are f'),
    "a function without tools": ([], choice_of("f"), "is not declared; allowed are none: no tools"),
    "required without tools": ([], "required", "tool_choice: 'required' needs tools"),
    "an unknown word": ([F], "any", 'tool_choice: "any" is not one of none, auto, required or {"type": "function"'),
    "a choice without a name": ([F], {"type": "function"}, "tool_choice.function.name: is required"),
    "a choice of another type": ([F], {"type": "tool"}, 'tool_choice.type: "tool" is not one of function, allowed_too'),
    "an allowed tool that is not declared": ([F],
     {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [choice_of("h")]}},
     'tool_choice.allowed_tools.tools[0].function.name: "h" is not declared; allowed are f'),
    "no allowed tool": ([F], {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
     "tool_choice.allowed_tools.tools: must be a non-empty list"),
}  # fmt: skip


@pytest.mark.parametrize(("tools", "choice", "message"), WRONG.values(), ids=WRONG)
def test_all_readers_of_a_request_refuse_the_same_tools(tools: Any, choice: Any, message: str) -> None:
    words = refused(tools, choice)
    assert message in words
    for reader in (
        lambda: unspool.parse("", "hermes", tools=tools, tool_choice=choice),
        lambda: unspool.Parser("hermes", tools=tools, tool_choice=choice),
        lambda: unspool.constrain("hermes", tools, choice),
        lambda: unspool.structure_constraint("hermes", tools, choice),
    ):
        with pytest.raises(ToolsError) as caught:
            reader()
        assert str(caught.value) == words
    with pytest.raises(BadRequest) as bad:
        ChatProtocol(SETTINGS).read(Fields({**CHAT, "tools": tools, "tool_choice": choice}))
    assert str(bad.value).split(",")[0] == words.split(",")[0].replace("a list of tools", "a list")


@pytest.mark.parametrize(("tools", "message"), [(w[0], w[2]) for w in WRONG.values() if w[1] == "auto"])
def test_renderer_and_command_line_refuse_the_same_tools(
    tools: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ToolsError) as caught:
        unspool.render({"content": "Hi"}, "hermes", tools=tools)
    assert message in str(caught.value)
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(tools), encoding="utf-8")
    assert main(["parse", "-d", "hermes", "--tools", str(path), str(path)]) == 2
    assert message in capsys.readouterr().err


def test_the_command_line_refuses_an_empty_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([F]), encoding="utf-8")
    for command in ("parse", "constrain"):
        output = [str(path)] if command == "parse" else []
        assert main([command, "-d", "hermes", "--tools", str(path), "--tool-choice", "", *output]) == 2
        assert "--tool-choice: is empty" in capsys.readouterr().err


def test_the_command_line_refuses_an_undeclared_function_and_required_without_tools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for tools, choice, message in (([F], "h", '"h" is not declared; allowed are f'), ([], "required", "needs tools")):
        path = tmp_path / "tools.json"
        path.write_text(json.dumps(tools), encoding="utf-8")
        for command in ("parse", "constrain"):
            assert main([command, "-d", "hermes", "--tools", str(path), "--tool-choice", choice]) == 2
            assert f"--tool-choice: {message}" in capsys.readouterr().err.replace("'required' ", "")


def test_other_protocols_refuse_alike() -> None:
    flat = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    named_h = {"type": "function", "name": "h"}
    asks: list[tuple[Any, dict[str, Any]]] = [
        (ResponsesProtocol(SETTINGS), {"input": "x", "tools": [flat], "tool_choice": named_h}),
        (MessagesProtocol(SETTINGS), {"max_tokens": 1, **CHAT, "tools": [{"name": "f", "input_schema": {}}],
                                      "tool_choice": {"type": "tool", "name": "h"}}),
        (AguiProtocol(SETTINGS), {"threadId": "t", "runId": "r", **CHAT, "tools": [{"name": "f", "description": "d"}],
                                  "forwardedProps": {"tool_choice": choice_of("h")}}),
    ]  # fmt: skip
    for protocol, ask in asks:
        with pytest.raises(BadRequest, match='"h" is not declared; allowed are f'):
            protocol.read(Fields(ask))
        with pytest.raises(BadRequest, match=r'tools\[1\]: the name "f" is declared twice'):
            protocol.read(Fields({**ask, "tools": ask["tools"] * 2}))


@pytest.mark.parametrize(**named(CALLING))
def test_any_function_may_be_named_where_the_tools_are_unknown(dialect: unspool.Dialect) -> None:
    choice = choice_of("anything")
    message = unspool.parse('{"a": 1}', dialect, tool_choice=choice, stage="content")
    assert [(c.name, c.arguments) for c in message.tool_calls] == [("anything", '{"a": 1}')]
    assert unspool.constrain(dialect, None, choice) is not None


def test_flat_and_nested_choices_mean_the_same() -> None:
    for choice in (choice_of("f"), {"type": "function", "name": "f"}, {"name": "f"}):
        found = read_toolset([F, G], choice)
        assert (found.kind, found.name, found.choice, found.callable) == ("named", "f", choice_of("f"), [F])
    for choice in (
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [choice_of("g")]}},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]},
    ):
        found = read_toolset([F, G], choice)
        assert (found.kind, found.choice, found.callable) == ("required", "required", [G])
    assert read_toolset([F, G], None) == read_toolset([F, G])
    assert read_toolset([F, G], "none").callable == []


def test_a_list_of_allowed_tools_is_all_that_a_grammar_lets_through() -> None:
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [choice_of("g")]}}
    constraint = constrained("hermes", [F, G], allowed)
    assert constraint.json_schema is not None
    assert constraint.json_schema["items"]["properties"]["name"] == {"const": "g"}


def test_a_name_of_other_characters_is_constrained_where_the_dialect_can_write_it() -> None:
    odd = [tool("look up: a<b>")]
    constraint = constrained("hermes", odd, "required", stage="content")
    assert '\\"look up: a<b>\\"' in constraint.lark
    with pytest.raises(unspool.ConstraintError, match="'look up: a<b>' cannot be written in dialect 'qwen3-coder'"):
        unspool.constrain("qwen3-coder", odd, "required")
    assert unspool.constrain("qwen3-coder", odd) is None, "nothing has to be written"


@pytest.mark.parametrize(**named(CALLING))
def test_tools_that_were_read_once_serve_parser_renderer_and_grammar_as_the_tools_do(dialect: unspool.Dialect) -> None:
    tools = [tool("get_weather", city="string"), tool("now")]
    for choice in ("auto", "none", "required", {"type": "function", "function": {"name": "now"}}):
        read = unspool.read_toolset(tools, choice)
        message = {"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "now", "arguments": "{}"}}]}
        text = unspool.render(message, dialect, tools=unspool.read_toolset(tools))
        assert text == unspool.render(message, dialect, tools=tools)
        given: dict[str, Any] = {"ids": lambda index, _: f"call_{index}"}
        expected = unspool.parse(text, dialect, tools=tools, tool_choice=choice, **given)
        assert unspool.parse(text, dialect, tools=read, **given) == expected
        one, other = unspool.constrain(dialect, tools, choice), unspool.constrain(dialect, read)
        assert one is other is None or (one and other and one.lark == other.lark)


def test_a_toolset_has_one_choice() -> None:
    read = unspool.read_toolset([tool("now")], "required")
    with pytest.raises(ToolsError, match="tool_choice: a Toolset has its own choice"):
        unspool.parse("", "hermes", tools=read, tool_choice="none")
