"""A dialect file against its own examples: each is read at every cut, and written back byte for byte."""

import json
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from .dialect import Dialect, Example, example_tools, read_dialect
from .errors import DialectError
from .message import Message, ToolCall
from .parser import Parser
from .registry import find_base
from .renderer import render


def load_dialect(path: str | PathLike[str]) -> Dialect:
    """Load a dialect file; its examples have to hold, each read whole and each first raw text written back.

    Args:
        path: a TOML file. Its ``base`` may be any dialect that `get_dialect` knows.

    Raises:
        DialectError: naming the file and the key with what is allowed, or the example with what was got and expected.
    """
    dialect = read_file(path)
    for problem in _problems(dialect, cuts=False):
        raise DialectError(f"{Path(path).name}: {problem}")
    return dialect


def read_file(path: str | PathLike[str]) -> Dialect:
    """Load a dialect file without trying its examples."""
    return read_dialect(Path(path), find_base)


def check_dialect(dialect: Dialect) -> list[str]:
    """What is wrong with a dialect's examples, a line for each; empty where all hold.

    Every raw text has to mean its example's message when it is read whole, character by character, and cut in two at
    every place; the first one has to be what the dialect writes for the message.
    """
    return list(_problems(dialect, cuts=True))


def example_message(example: Example) -> Message:
    """The message that an example describes; a call whose id is not given has an empty one."""
    calls = [ToolCall(i, call.id or "", call.name, _json(call.arguments)) for i, call in enumerate(example.tool_calls)]
    return Message(reasoning=example.reasoning, content=example.content, tool_calls=calls)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _problems(dialect: Dialect, *, cuts: bool) -> Iterator[str]:
    tools = example_tools(dialect)
    for i, example in enumerate(dialect.examples):
        for j, raw in enumerate(example.raw):
            for why in _read(dialect, tools, example, raw, cuts=cuts):
                yield f"examples[{i}].raw[{j}]: {why}"
        yield from (f"examples[{i}].raw[0]: {why}" for why in _written(dialect, tools, example))


def _read(dialect: Dialect, tools: list[dict[str, Any]], example: Example, raw: str, *, cuts: bool) -> Iterator[str]:
    """What a raw text does not mean as it should; of the cuts that change the meaning only the first is told."""
    whole = _parse(dialect, tools, example, [raw])
    differences = list(_differences(whole, example))
    yield from differences
    if differences or not cuts:
        return
    expected = _told(whole)
    if _told(_parse(dialect, tools, example, list(raw))) != expected:
        yield "read character by character it means something else"
    for at in range(1, len(raw)):
        got = _told(_parse(dialect, tools, example, (raw[:at], raw[at:])))
        if got != expected:
            yield f"cut at {at} it means something else: got {got!r}, expected {expected!r}"
            return


def _parse(dialect: Dialect, tools: list[dict[str, Any]], example: Example, chunks: Sequence[str]) -> Message:
    # Ids with random letters would differ from run to run; others may be what an example expects.
    parser = Parser(dialect, tools=tools, stage=example.stage, ids=_made_id if "?" in dialect.id else None)
    for chunk in chunks:
        parser.feed(chunk)
    parser.close()
    return parser.message


def _made_id(index: int, name: str) -> str:
    """An id that is the same in every run."""
    return f"made-{index}"


def _told(message: Message) -> tuple[Any, ...]:
    """What must not depend on where a text was cut."""
    calls = [(c.name, c.arguments, c.status, c.id) for c in message.tool_calls]
    return message.reasoning, message.content, message.finish_reason, calls


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
        elif not _equal(json.loads(call.arguments), wanted.arguments):
            yield f"{where}.arguments: got {call.arguments}, expected {_json(wanted.arguments)}"
        if wanted.id is not None:
            yield from _differs(f"{where}.id", call.id, wanted.id)


def _differs(what: str, got: object, expected: object) -> Iterator[str]:
    if got != expected:
        yield f"{what}: got {got!r}, expected {expected!r}"


def _equal(a: Any, b: Any) -> bool:
    """Equality of JSON values; to Python ``1``, ``1.0`` and ``True`` are one, to JSON they are not."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    return type(a) is type(b) and bool(a == b)


def _written(dialect: Dialect, tools: list[dict[str, Any]], example: Example) -> Iterator[str]:
    try:
        written = render(example_message(example), dialect, tools=tools, stage=example.stage)
    except DialectError as error:
        yield f"the message cannot be written: {error}"
    else:
        yield from _differs("the message is written otherwise", written, example.raw[0])
