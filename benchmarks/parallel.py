"""A thousand parsers at once: what they cost and whether they disturb each other."""

from collections.abc import Iterator
from itertools import repeat, zip_longest
from time import perf_counter
from typing import Final

import unspool
from unspool import Message, Parser

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
    chunks = sum(len(chunks) for _, chunks in outputs)
    alone, together = [], []
    for _ in range(max(3, effort.rounds // 10)):
        seconds, expected = _sequentially(outputs)
        alone.append(seconds)
        seconds, found = _in_turn(outputs)
        together.append(seconds)
    different = sum(a != b for a, b in zip(expected, found, strict=True))
    name = f"{_PARSERS:,} parsers at once"
    yield Row(name, f"cost per chunk against one by one ({min(alone) / chunks * 1e9:.0f} ns)", min(together) / min(alone), "×", _COST)
    yield Row(name, "messages that differ", different, "", 0)


def _outputs() -> list[Output]:
    """Short answers in all dialects in turn, no two the same."""
    templates = []
    for dialect in calling():
        content = "" if dialect.policy.text_before_tools == "content" else f"This is answer {_NUMBER}."
        call = {"name": "write_file", "arguments": {"path": f"{_NUMBER}.py", "text": f"# {_NUMBER}\n{SOURCE[:300]}"}}
        message = {"role": "assistant", "content": content, "tool_calls": [{"id": "call00001", "function": call}]}
        if dialect.reasoning:
            message["reasoning_content"] = f"Number {_NUMBER}: {PROSE[:300]}"
        templates.append((dialect.name, unspool.render(message, dialect, tools=TOOLS, stage="content")))
    outputs = []
    for i in range(_PARSERS):
        name, text = templates[i % len(templates)]
        outputs.append((name, cut(text.replace(_NUMBER, str(i)), CHUNK)))
    return outputs


def _parser(name: str) -> Parser:
    return Parser(name, tools=TOOLS, stage="content", ids=lambda index, _: f"call_{index}")


def _sequentially(outputs: list[Output]) -> tuple[float, list[Message]]:
    """Seconds in feed(), and the messages."""
    seconds = 0.0
    messages = []
    for name, chunks in outputs:
        parser = _parser(name)
        start = perf_counter()
        for feed, chunk in zip(repeat(parser.feed), chunks, strict=False):  # the loop is the same in both
            feed(chunk)
        seconds += perf_counter() - start
        messages.append(_closed(parser))
    return seconds, messages


def _in_turn(outputs: list[Output]) -> tuple[float, list[Message]]:
    """The same with one chunk for each parser in turn."""
    parsers = [_parser(name) for name, _ in outputs]
    # Outputs end one by one: each turn holds those that go on.
    turns = [
        [(parser.feed, chunk) for parser, chunk in zip(parsers, turn, strict=True) if chunk is not None]
        for turn in zip_longest(*(chunks for _, chunks in outputs))
    ]
    seconds = 0.0
    for turn in turns:
        feeds = [feed for feed, _ in turn]
        chunks = [chunk for _, chunk in turn]
        start = perf_counter()
        for feed, chunk in zip(feeds, chunks, strict=False):
            feed(chunk)
        seconds += perf_counter() - start
    return seconds, [_closed(p) for p in parsers]


def _closed(parser: Parser) -> Message:
    parser.close()
    return parser.message
