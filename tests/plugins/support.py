"""Helpers for the tests of the plug-ins: examples as cases, and ways to cut them."""

from collections.abc import Iterable, Iterator
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
STRICT: dict[str, Any] = {**WEATHER, "function": {**WEATHER["function"], "strict": True}}
NAMED = {"type": "function", "function": {"name": "get_weather"}}
"""A choice of the one tool."""
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
"""A call in Hermes' format."""
Call = tuple[str, str]
Parts = tuple[str, str, list[Call]]


class Tokens:
    """A tokenizer with what engines and the plug-ins ask of one.

    Args:
        inner: a tokenizer of the package `tokenizers`.
        name: the model's name.
    """

    def __init__(self, inner: Any, name: str = "") -> None:
        self.backend_tokenizer = inner
        self.added_tokens_decoder = inner.get_added_tokens_decoder()
        self.decode = inner.decode
        self.name_or_path = name

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.backend_tokenizer.encode(text, add_special_tokens=False).ids
        return ids


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


def mode_of(choice: str) -> Any:
    """The ``tool_choice`` of a case."""
    return {"named": NAMED, "single": "required", "level": "auto", "strict": "auto"}.get(choice, choice)


class Gathered:
    """What the deltas of a stream say together."""

    def __init__(self) -> None:
        self._texts = ["", ""]
        self._calls: list[list[str]] = []

    def say(self, reasoning: str | None, content: str | None) -> None:
        self._texts[0] += reasoning or ""
        self._texts[1] += content or ""

    @classmethod
    def of(cls, deltas: Iterable[Any]) -> Parts:
        """What messages with these fields say; ``None`` says nothing. A call's first update has its name."""
        found = cls()
        for delta in filter(None, deltas):
            found.say(delta.reasoning, delta.content)
            for call in delta.tool_calls or []:
                found.call(call.index, call.name, call.arguments)
        return found.parts

    def call(self, index: int, name: str | None, arguments: str | None) -> None:
        """An update of a call; it has a name if the call begins."""
        if name is not None:
            assert index == len(self._calls)
            self._calls.append([name, ""])
        self._calls[index][1] += arguments or ""

    @property
    def parts(self) -> Parts:
        return self._texts[0], self._texts[1], [(name, arguments) for name, arguments in self._calls]
