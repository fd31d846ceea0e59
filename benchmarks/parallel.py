"""A thousand parsers at once: their cost, and whether they interfere with each other."""

from collections.abc import Callable, Iterator
from itertools import repeat
from statistics import median
from typing import Any, Final

import unspool
from unspool import Dialect, DialectError, Message, Parser, Stage, get_dialect

from .clock import Clock, seconds
from .effort import Effort
from .samples import calling, cut
from .strings import CHUNK
from .table import Row
from .texts import PROSE, SOURCE, TOOLS, ever_new

_PARSERS: Final = 1_000
_COST: Final = 1.3
_SPREAD: Final = 200
"""Turns until the last parser begins."""
_ONE: Final = "hermes"
_DIFFERENT: Final = 114  # two texts for each dialect
_LENGTH: Final = 200
_NUMBER: Final = "QNUMBERQ"

Output = tuple[str, list[str]]
"""A dialect's name and what a model writes in it, in chunks."""
Turn = tuple[list[Callable[[str], Any]], list[str]]


def interleaved(effort: Effort) -> Iterator[Row]:
    """One chunk for each of 1,000 parsers in turn, against one parser after the other."""
    name = f"{_PARSERS:,} parsers in turn, against one by one"
    different = 0
    for case, dialects in (("one dialect", [get_dialect(_ONE)]), ("all dialects", calling())):
        outputs = _outputs(dialects)
        ratios = []
        for _ in range(max(1, effort.rounds // 8)):
            alone, expected = _one_by_one(outputs)
            together, found = _in_turn(outputs)
            ratios.append(together / alone)
            different += sum(a != b for a, b in zip(expected, found, strict=True))
        yield Row(name, f"cost per chunk, {case}", median(ratios), "×", _COST)
    yield Row(name, "messages that differ", different, "", 0)


def _outputs(dialects: list[Dialect]) -> list[Output]:
    """Short answers in alternating dialects, all different."""
    source, prose = ever_new(SOURCE, _DIFFERENT * _LENGTH), ever_new(PROSE, _DIFFERENT * _LENGTH)
    answers = []
    for i, at in enumerate(range(0, len(source), _LENGTH)):
        dialect = dialects[i % len(dialects)]
        answers.append((dialect.name, _answer(dialect, source[at : at + _LENGTH], prose[at : at + _LENGTH])))
    outputs = []
    for i in range(_PARSERS):
        name, text = answers[i % len(answers)]
        outputs.append((name, cut(text.replace(_NUMBER, str(i)), CHUNK)))
    return outputs


def _answer(dialect: Dialect, source: str, prose: str) -> str:
    """Reasoning, content and a call, as far as the dialect has them; a number is left open."""
    arguments = {"path": f"{_NUMBER}.py", "text": f"# {_NUMBER}\n{source}"}
    message: dict[str, Any] = {
        "role": "assistant",
        "content": f"This is answer {_NUMBER}.",
        "tool_calls": [{"id": "call00001", "function": {"name": "write_file", "arguments": arguments}}],
    }
    if dialect.reasoning:
        message["reasoning_content"] = f"Number {_NUMBER}: {prose}."
    try:
        return unspool.render(message, dialect, tools=TOOLS, stage=Stage.CONTENT)
    except DialectError:  # a call after content would be content
        return unspool.render(message | {"content": ""}, dialect, tools=TOOLS, stage=Stage.CONTENT)


def _parser(name: str) -> Parser:
    return Parser(name, tools=TOOLS, stage=Stage.CONTENT, ids=lambda index, _: f"call_{index}")


def _one_by_one(outputs: list[Output]) -> tuple[float, list[Message]]:
    """The cost of a chunk in bare calls, and the messages."""
    clock = Clock()
    messages = []
    for name, chunks in outputs:
        parser = _parser(name)
        start = seconds()
        for feed, chunk in zip(repeat(parser.feed), chunks, strict=False):  # the loop is the same as below
            feed(chunk)
        clock.add(seconds() - start, len(chunks))
        messages.append(_closed(parser))
    return clock.whole_ratio, messages


def _in_turn(outputs: list[Output]) -> tuple[float, list[Message]]:
    """The same with one chunk for each parser in turn."""
    parsers = [_parser(name) for name, _ in outputs]
    clock = Clock()
    for feeds, chunks in _turns(parsers, outputs):
        start = seconds()
        for feed, chunk in zip(feeds, chunks, strict=False):
            feed(chunk)
        clock.add(seconds() - start, len(chunks))
    return clock.whole_ratio, [_closed(p) for p in parsers]


def _turns(parsers: list[Parser], outputs: list[Output]) -> list[Turn]:
    """The parsers that each turn feeds, and their chunks. Like requests, parsers begin one after another, so that they
    are at different positions."""
    turns: list[Turn] = [([], []) for _ in range(_SPREAD + max(len(chunks) for _, chunks in outputs))]
    for i, (parser, (_, chunks)) in enumerate(zip(parsers, outputs, strict=True)):
        feed = parser.feed
        for turn, chunk in enumerate(chunks, i * _SPREAD // len(outputs)):
            turns[turn][0].append(feed)
            turns[turn][1].append(chunk)
    return turns


def _closed(parser: Parser) -> Message:
    parser.close()
    return parser.message
