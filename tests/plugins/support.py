"""Helpers for the tests of the plug-ins: examples as cases, and ways to cut them."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import unspool
from unspool import Dialect, Message, Stage
from unspool.dialect.file import Example

from ..support import tools_of

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
Call = tuple[str, str]
Parts = tuple[str, str, list[Call]]


def objects(tools: list[dict[str, Any]]) -> list[Any]:
    """Tools as engines hold them: objects with attributes."""
    return [SimpleNamespace(type="function", function=SimpleNamespace(**t["function"])) for t in tools]


def read(raw: str, dialect: Dialect, stage: Stage | None = None, **options: Any) -> Parts:
    """The parts that `unspool.parse` reads in an output."""
    return parts(unspool.parse(raw, dialect, tools=tools_of(dialect), stage=stage, **options))


def parts(message: Message) -> Parts:
    """Reasoning, content and calls."""
    return message.reasoning, message.content, [(c.name, c.arguments) for c in message.tool_calls]


def raws(dialect: Dialect) -> Iterator[tuple[Example, str]]:
    """Every raw text of a dialect's examples."""
    for example in dialect.examples:
        for raw in example.raw:
            yield example, raw


def pieces(raw: str, size: int) -> list[str]:
    """A text cut into pieces."""
    return [raw[i : i + size] for i in range(0, len(raw), size)]
