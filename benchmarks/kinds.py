"""Streams of other text than strings: content, reasoning, nested and numeric arguments; small chunks and many tools."""

from collections.abc import Iterator
from typing import Final

from .clock import ROUND, Clock, least_chunk, time_feed
from .effort import Effort
from .samples import (
    Sample,
    content_sample,
    cut,
    nested_sample,
    number_sample,
    reasoning_sample,
    string_sample,
)
from .strings import CHUNK, inside
from .table import Row, ranked
from .texts import HUNDRED_TOOLS, PROSE, SOURCE, ever_new

_ARGUMENTS: Final = 20.0
_OTHER: Final = "other text, 4 characters a chunk"


def kinds(effort: Effort) -> Iterator[Row]:
    """feed() per chunk in other text."""
    dialects = effort.dialects()
    rounds = max(5, effort.rounds // 4)
    prose = ever_new(PROSE, rounds * ROUND * CHUNK)
    source = ever_new(SOURCE, rounds * ROUND * CHUNK)
    letters = source[: rounds * ROUND]
    least = least_chunk()

    found = [(inside(content_sample(d, prose), CHUNK), d) for d in dialects]
    yield from ranked(_OTHER, found, "× bare", least=least, of="content")
    found = [(inside(reasoning_sample(d, prose), CHUNK), d) for d in dialects if d.reasoning]
    yield from ranked(_OTHER, found, "× bare", least=least, of="reasoning")
    found = [(_whole_arguments(nested_sample(d), rounds), d) for d in dialects]
    yield from ranked(_OTHER, found, "× bare", median=_ARGUMENTS, least=least, of="nested arguments")
    found = [(_whole_arguments(number_sample(d), rounds), d) for d in dialects]
    yield from ranked(_OTHER, found, "× bare", median=_ARGUMENTS, least=least, of="numeric arguments")
    found = [(inside(string_sample(d, source), CHUNK, HUNDRED_TOOLS), d) for d in dialects]
    yield from ranked("string argument, 4 characters a chunk", found, "× bare", least=least, of="100 tools")
    found = [(inside(string_sample(d, letters), 1), d) for d in dialects]
    yield from ranked("string argument, 1 character a chunk", found, "× bare", least=least, of="source")


def _whole_arguments(sample: Sample, rounds: int) -> float:
    """The cost of feed() per chunk of a body and of its closing, to which work may be deferred, in bare calls."""
    chunks = [*cut(sample.body, CHUNK), sample.tail]
    clock = Clock()
    for _ in range(rounds):
        parser = sample.begun()
        clock.add(time_feed(parser.feed, chunks), len(chunks))
        sample.check(parser, 1, closed=True)
    return clock.ratio
