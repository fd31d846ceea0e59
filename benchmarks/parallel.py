"""A thousand parsers at once: what they cost and whether they disturb each other."""

from collections.abc import Callable, Iterator
from itertools import repeat, zip_longest
from statistics import median
from typing import Any, Final

import unspool
from unspool import Dialect, DialectError, Message, Parser, Stage

from .clock import ROUND, Clock, seconds
from .effort import Effort
from .samples import calling, cut
from .strings import CHUNK
from .table import Row
from .texts import PROSE, SOURCE, TOOLS

_PARSERS: Final = 1_000
_COST: Final = 1.3
_NUMBER: Final = "QNUMBERQ"

Output = tuple[str, list[str]]
"""A dialect's name and what a model writes in it, in chunks."""


def interleaved(effort: Effort) -> Iterator[Row]:
    """One chunk for each of 1,000 parsers in turn, against one parser after the other."""
    outputs = _outputs()
    alone, together = [], []
    for _ in range(max(3, effort.rounds // 8)):
        cost, expected = _sequentially(outputs)
        alone.append(cost)
        cost, found = _in_turn(outputs)
        together.append(cost)
    different = sum(a != b for a, b in zip(expected, found, strict=True))
    name = f"{_PARSERS:,} parsers at once"
    yield Row(name, "whole answers, one by one", median(alone), "× bare")
    yield Row(name, "the same in turn, a chunk each", median(together), "× bare")
    yield Row(name, "cost per chunk in turn against one by one", median(together) / median(alone), "×", _COST)
    yield Row(name, "messages that differ", different, "", 0)


def _outputs() -> list[Output]:
    """Short answers in all dialects in turn, no two the same."""
    templates = [(d.name, _answer(d)) for d in calling()]
    outputs = []
    for i in range(_PARSERS):
        name, text = templates[i % len(templates)]
        outputs.append((name, cut(text.replace(_NUMBER, str(i)), CHUNK)))
    return outputs


def _answer(dialect: Dialect) -> str:
    """Reasoning, content and a call, as far as the dialect has them; a number is left open."""
    arguments = {"path": f"{_NUMBER}.py", "text": f"# {_NUMBER}\n{SOURCE[:300]}"}
    message: dict[str, Any] = {
        "role": "assistant",
        "content": f"This is answer {_NUMBER}.",
        "tool_calls": [{"id": "call00001", "function": {"name": "write_file", "arguments": arguments}}],
    }
    if dialect.reasoning:
        message["reasoning_content"] = f"Number {_NUMBER}: {PROSE[:300]}"
    try:
        return unspool.render(message, dialect, tools=TOOLS, stage=Stage.CONTENT)
    except DialectError:  # a call behind content would be content
        return unspool.render(message | {"content": ""}, dialect, tools=TOOLS, stage=Stage.CONTENT)


def _parser(name: str) -> Parser:
    return Parser(name, tools=TOOLS, stage=Stage.CONTENT, ids=lambda index, _: f"call_{index}")


def _sequentially(outputs: list[Output]) -> tuple[float, list[Message]]:
    """What a chunk costs in bare calls, and the messages."""
    clock = Clock()
    messages = []
    work, calls = 0.0, 0
    for name, chunks in outputs:
        parser = _parser(name)
        start = seconds()
        for feed, chunk in zip(repeat(parser.feed), chunks, strict=False):  # the loop is the same as below
            feed(chunk)
        work += seconds() - start
        calls += len(chunks)
        messages.append(_closed(parser))
        if calls >= ROUND:
            clock.add(work, calls)
            work, calls = 0.0, 0
    return clock.whole_ratio, messages


def _in_turn(outputs: list[Output]) -> tuple[float, list[Message]]:
    """The same with one chunk for each parser in turn."""
    parsers = [_parser(name) for name, _ in outputs]
    clock = Clock()
    work, calls = 0.0, 0
    for feeds, chunks in _turns(parsers, outputs):
        start = seconds()
        for feed, chunk in zip(feeds, chunks, strict=False):
            feed(chunk)
        work += seconds() - start
        calls += len(chunks)
        if calls >= ROUND:
            clock.add(work, calls)
            work, calls = 0.0, 0
    return clock.whole_ratio, [_closed(p) for p in parsers]


def _turns(parsers: list[Parser], outputs: list[Output]) -> list[tuple[list[Callable[[str], Any]], list[str]]]:
    """The chunks of each turn; outputs end one by one."""
    feeds = [parser.feed for parser in parsers]
    turns = []
    for turn in zip_longest(*(chunks for _, chunks in outputs)):
        going = [(feed, chunk) for feed, chunk in zip(feeds, turn, strict=True) if chunk is not None]
        turns.append(([feed for feed, _ in going], [chunk for _, chunk in going]))
    return turns


def _closed(parser: Parser) -> Message:
    parser.close()
    return parser.message
