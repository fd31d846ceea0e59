"""Tries the examples of a dialect file: each text is read whole, and each first one is written back."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from ..dialect.examples import example_tools
from ..dialect.file import Dialect, Example
from ..dialect.lint import SOFT
from ..errors import DialectError
from ..events import Event
from ..message import Message, ToolCall
from ..parser import Parser
from ..renderer import render
from .hints import explained, why_written
from .traces import ExampleReading, ExampleWriting
from .trials import number


class Problem(msgspec.Struct, frozen=True):
    """A problem of a dialect file: the example or the raw text, such as ``examples[0].raw[1]``; the difference between
    what was expected and what was got; and how the text was read, line by line, if that helps."""

    where: str
    what: str
    why: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def example_message(example: Example) -> Message:
    """The message that an example describes; a call without an id has an empty one."""
    calls = [ToolCall(i, call.id or "", call.name, _json(call.arguments)) for i, call in enumerate(example.tool_calls)]
    return Message(reasoning=example.reasoning, content=example.content, tool_calls=calls)


def _json(value: Any, *, sort_keys: bool = False) -> str:
    """JSON text. Unlike in Python, ``1``, ``1.0`` and ``true`` are not equal in it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=sort_keys)


def try_examples(dialect: Dialect) -> Iterator[Problem]:
    """Yield the examples that mean something else when they are read whole, or that are written differently."""
    tools = example_tools(dialect)
    for i, example in enumerate(dialect.examples):
        understood = False
        for j, raw in enumerate(example.raw):
            where = f"examples[{i}].raw[{j}]"
            message, events = _parse(dialect, tools, example, raw)
            differences = list(_differences(message, example))
            understood = understood or not (j or differences)
            for what in differences[:1]:
                yield Problem(where, what, tuple(explained(ExampleReading(dialect, example, raw, message, events))))
            yield from (Problem(where, what) for what in differences[1:])
        for problem in _written(dialect, tools, example, understood=understood):
            yield Problem(f"examples[{i}].raw[0]", problem.what, (*problem.why, *SOFT.hints(dialect)))


def _parse(dialect: Dialect, tools: list[dict[str, Any]], example: Example, raw: str) -> tuple[Message, list[Event]]:
    # Random ids would differ from run to run. Other ids may be what an example expects.
    parser = Parser(dialect, tools=tools, stage=example.stage, ids=number if "?" in dialect.id else None)
    events = parser.feed(raw) + parser.close()
    return parser.message, events


def _differences(got: Message, example: Example) -> Iterator[str]:
    for part in ("reasoning", "content"):
        yield from _differs(part, getattr(got, part), getattr(example, part))
    names = [c.name for c in got.tool_calls]
    expected = [c.name for c in example.tool_calls]
    if names != expected:
        yield from _differs("tool_calls", names, expected)
        return
    for i, (call, wanted) in enumerate(zip(got.tool_calls, example.tool_calls, strict=True)):
        where = f"tool_calls[{i}]"
        if call.status not in ("ok", "repaired"):
            yield f"{where}.status: got {call.status!r}, expected 'ok'"
        elif _json(json.loads(call.arguments), sort_keys=True) != _json(wanted.arguments, sort_keys=True):
            yield f"{where}.arguments: got {call.arguments}, expected {_json(wanted.arguments)}"
        if wanted.id is not None:
            yield from _differs(f"{where}.id", call.id, wanted.id)


def _differs(what: str, got: object, expected: object) -> Iterator[str]:
    if got != expected:
        yield f"{what}: got {got!r}, expected {expected!r}"


def _written(dialect: Dialect, tools: list[dict[str, Any]], example: Example, *, understood: bool) -> Iterator[Problem]:
    """Yield how a rendered example differs from its first text, which may be read as the message (``understood``)."""

    def write(d: Dialect) -> str:
        return render(example_message(example), d, tools=tools, stage=example.stage)

    try:
        written = write(dialect)
    except DialectError as error:
        yield Problem("", f"the message cannot be written: {error}")
        return
    raw = example.raw[0]
    for what in _differs("the message is written differently", written, raw):
        yield Problem("", what, why_written(ExampleWriting(dialect, raw, written, understood, write)))
