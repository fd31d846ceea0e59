"""Remembered pieces of strings: the memory says what reading the piece says, and its size is bounded."""

import json
from collections.abc import Callable

import pytest

import unspool
from unspool.dialect.literals import Finder
from unspool.parser.readers import pieces as module
from unspool.parser.readers.pieces import JSON_STRINGS, StringKind, guarded_strings, markup_values, python_strings

from ...support import calling, function_call, pieces, tool

TOOL = tool("f", s="string")
WRITTEN: dict[str, Callable[[str], str]] = {
    "hermes": json.dumps,
    "deepseek": json.dumps,
    "pythonic": repr,
    "gemma4": lambda text: f'<|"|>{text}<|"|>',
    "qwen3-coder": lambda text: text,
}
"""A dialect for each kind of string, and how it writes a text."""


@pytest.mark.parametrize("dialect", WRITTEN)
def test_a_string_is_read_the_same_when_its_pieces_are_remembered(dialect: str) -> None:
    """Escapes, quotes, the beginnings of markers and white space, in pieces of every size, twice."""
    text = 'x = "a\\b" + \'c\'\n\tif a < b: y << 1 </ `q` ``` end  é 世\n\n"""z""" </x>\n'
    raw = unspool.render(calling(function_call("f", {"s": text})), dialect, tools=[TOOL], stage="content")
    assert WRITTEN[dialect](text)[:6] in raw
    for size in (1, 3, 4, 17):
        said = []
        for _ in range(2):
            parser = unspool.Parser(dialect, tools=[TOOL], stage="content", ids=lambda index, name: f"{name}{index}")
            said.append([event for piece in pieces(raw, size) for event in parser.feed(piece)])
            parser.close()
            assert parser.message.tool_calls[0].arguments_dict() == {"s": text}
        assert said[0] == said[1]


def test_the_message_is_available_after_every_piece() -> None:
    """The message joins the emitted pieces, and none is lost, even if the call turns out to be broken."""
    raw = '<tool_call>\n{"name": "f", "arguments": {"s": "some text", "t": "more \\q'
    parser = unspool.Parser("hermes", tools=[TOOL], stage="content")
    said = ""
    for letter in raw:
        parser.feed(letter)
        if parser.message.tool_calls:
            arguments = parser.message.tool_calls[0].arguments
            assert arguments.startswith(said)
            said = arguments
    parser.close()
    (call,) = parser.message.tool_calls
    assert call.status == "invalid"
    assert call.raw == raw
    assert call.arguments == raw[raw.index('{"s"') :]


def test_the_message_is_available_while_an_argument_waits() -> None:
    """Numbers in markup wait to their end; asking for the message twice before that changes nothing."""
    raw = "<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>12345</arg_value>\n</tool_call>"
    parser = unspool.Parser("glm45", tools=[tool("f", n="integer")], stage="content")
    for letter in raw:
        parser.feed(letter)
        assert parser.message == parser.message
    parser.close()
    assert parser.message.tool_calls[0].arguments_dict() == {"n": 12345}


def test_the_memory_of_pieces_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of pieces and of kinds are bounded, and long pieces are not remembered."""
    monkeypatch.setattr(module, "_MOST_PIECES", 20)
    monkeypatch.setattr(module, "_MOST_KINDS", 3)
    monkeypatch.setattr(module, "_kinds", {})
    for n in range(5):
        scan = Finder({f"<{n}"})
        for kind in (
            guarded_strings(JSON_STRINGS, scan, "<"),
            markup_values(scan, "<", {f"<{n}"}, "\n"),
            python_strings("'"),
        ):
            known = kind.state("")
            for i in range(50):
                turn = known[f"{i}\\n"]
                assert turn is not None
                assert turn[0]
                assert known[f"{i}<"] in (None, (f"{i}", f"{i}", kind.state("<")), f"{i}<")
                assert kind.state("\\")[f"n{i}"] is kind.state("\\")[f"n{i}"]
                assert kind.state("\\" * i).waits == "\\" * i
                assert sum(map(len, kind._states.values())) <= 20
                assert len(kind._states) <= module._MOST_STATES
        assert len(module._kinds) <= 3
    known = StringKind(JSON_STRINGS.split).state("")
    assert known["\\n" * 50] == "\\n" * 50
    assert not known
