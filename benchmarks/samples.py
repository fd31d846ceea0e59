"""Outputs of dialects around a text of any length. Each sample checks that the text arrives unchanged."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import unspool
from unspool import Dialect, Message, Parser, Stage

from .texts import NUMBERS, RECORDS, TOOLS

# Words at both ends of the long text, by which it is found in the output of `render`.
_FIRST: Final = "QFIRSTQ"
_LAST: Final = "QLASTQ"

Tools = list[dict[str, Any]]


class DidNotArrive(Exception):
    """The parser did not read a sample back as it was written, so nothing was measured."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One output of a dialect, in three pieces.

    Attributes:
        kind: what the long text is.
        head, tail: the output before and after the body.
        body: the long text, written and escaped as in the dialect. It may be repeated.
        wanted: returns what must arrive if the body occurs this many times.
        found: returns what arrived in a message.
    """

    dialect: Dialect
    kind: str
    head: str
    body: str
    tail: str
    wanted: Callable[[int], Any]
    found: Callable[[Message], Any]

    def parser(self, tools: Tools = TOOLS) -> Parser:
        """A fresh parser at the beginning of the output."""
        return Parser(self.dialect, tools=tools, stage=Stage.CONTENT)

    def begun(self, tools: Tools = TOOLS) -> Parser:
        """A fresh parser that has read the head."""
        parser = self.parser(tools)
        parser.feed(self.head)
        return parser

    def check(self, parser: Parser, times: int, *, closed: bool = False) -> None:
        """Finish the output and compare what arrived.

        Args:
            parser: a parser that has read the head and the body.
            times: how often it has read the body.
            closed: whether it has read the tail too.

        Raises:
            DidNotArrive: the message differs from the one that the output was written from.
        """
        if not closed:
            parser.feed(self.tail)
        parser.close()
        message = parser.message
        if self.found(message) != self.wanted(times):
            raise DidNotArrive(f"{self.dialect.name}: {self.kind}: {message.notices[:3]}")


def cut(text: str, size: int) -> list[str]:
    """A text in chunks; the last may be shorter."""
    return [text[i : i + size] for i in range(0, len(text), size)]


def string_sample(dialect: Dialect, text: str) -> Sample:
    """A text inside a string argument."""
    arguments = {"path": "src/shop.py", "text": _FIRST + text + _LAST}
    wanted = lambda times: arguments | {"text": _FIRST + text * times + _LAST}  # noqa: E731
    return _call(dialect, "string", "write_file", arguments, wanted)


def nested_sample(dialect: Dialect) -> Sample:
    """Records with nested lists and objects. The body occurs once."""
    arguments = {"table": _FIRST, "rows": RECORDS, "note": _LAST}
    return _call(dialect, "nested", "add_rows", arguments, lambda _: arguments)


def number_sample(dialect: Dialect) -> Sample:
    """Two hundred numeric arguments. The body occurs once."""
    arguments = {"first": _FIRST, **NUMBERS, "last": _LAST}
    return _call(dialect, "numbers", "plot", arguments, lambda _: arguments)


def content_sample(dialect: Dialect, text: str) -> Sample:
    """A text as content."""
    return _sample(
        dialect,
        "content",
        {"content": _FIRST + text + _LAST},
        lambda times: _FIRST + text * times + _LAST,
        lambda message: message.content,
    )


def reasoning_sample(dialect: Dialect, text: str) -> Sample:
    """A text as reasoning."""
    return _sample(
        dialect,
        "reasoning",
        {"reasoning_content": _FIRST + text + _LAST},
        lambda times: _FIRST + text * times + _LAST,
        lambda message: message.reasoning,
    )


def _call(
    dialect: Dialect, kind: str, name: str, arguments: dict[str, Any], wanted: Callable[[int], dict[str, Any]]
) -> Sample:
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    message = {"tool_calls": [{"id": "call00001", "type": "function", "function": function}]}
    return _sample(dialect, kind, message, lambda times: [(name, wanted(times), "ok")], _calls)


def _calls(message: Message) -> list[tuple[str, Any, str]]:
    return [(c.name, json.loads(c.arguments), c.status) for c in message.tool_calls]


def _sample(
    dialect: Dialect,
    kind: str,
    message: dict[str, Any],
    wanted: Callable[[int], Any],
    found: Callable[[Message], Any],
) -> Sample:
    raw = unspool.render({"role": "assistant", **message}, dialect, tools=TOOLS, stage=Stage.CONTENT)
    at, end = raw.index(_FIRST) + len(_FIRST), raw.index(_LAST)
    return Sample(dialect, kind, raw[:at], raw[at:end], raw[end:], wanted, found)


def calling() -> list[Dialect]:
    """Every dialect that has calls."""
    return [d for d in unspool.list_dialects() if d.call]


def by_syntax(dialects: list[Dialect]) -> dict[str, list[Dialect]]:
    """The dialects by the syntax of their arguments."""
    found: dict[str, list[Dialect]] = {}
    for dialect in dialects:
        found.setdefault(dialect.argument_format, []).append(dialect)
    return found
