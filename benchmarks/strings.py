"""Inside a long string argument: chunks of four characters in every dialect, at any length, and whole texts."""

from collections.abc import Iterator
from itertools import chain, cycle, islice, repeat
from typing import Final

from unspool import Dialect

from .clock import ROUND, Clock, least_chunk, seconds, time_feed
from .effort import Effort
from .samples import Sample, Tools, by_syntax, calling, cut, string_sample
from .table import Row, ranked
from .texts import DENSE, SOURCE, TOOLS, ever_new

CHUNK: Final = 4
_MEDIAN: Final = 7.0
_WORST: Final = 10.0
_SPEED: Final = 50.0
_GROWTH: Final = 1.2
"""The growth over four decades that still counts as flat, since memory gets slower and machines are noisy."""
_MOST: Final = 1_000_000
"""Longer texts repeat themselves."""


def strings(effort: Effort) -> Iterator[Row]:
    """feed() per chunk of source code, in every dialect with calls."""
    name = "string argument, 4 characters a chunk"
    size = effort.rounds * ROUND * CHUNK
    for text, of in ((DENSE, "dense source"), (SOURCE, "source")):
        found = [(inside(string_sample(d, ever_new(text, size)), CHUNK), d) for d in calling()]
        yield from ranked(name, found, "× bare", median=_MEDIAN, worst=_WORST, of=of, least=least_chunk())
    for value, dialect in sorted(found, key=lambda f: f[0]):
        case = f"source, {dialect.name} ({dialect.argument_format})"
        yield Row(name, case, value, "× bare", _WORST, least=value / least_chunk())


def inside(sample: Sample, size: int, tools: Tools = TOOLS) -> float:
    """The cost of feed() per chunk inside the body, in bare calls.

    Args:
        sample: the output to feed; its body is repeated in every round.
        size: characters of a chunk.
        tools: the tools of the request.

    Raises:
        DidNotArrive: the parser did not understand the sample.
    """
    chunks = iter(cut(sample.body, size))
    clock = Clock()
    parser = sample.begun(tools)
    while some := list(islice(chunks, ROUND)):
        clock.add(time_feed(parser.feed, some), len(some))
    sample.check(parser, 1)
    return clock.ratio


def flat(effort: Effort) -> Iterator[Row]:
    """The same at growing lengths, in one dialect of each of the most common syntaxes."""
    for syntax, dialects in by_syntax(calling()).items():
        if syntax not in ("json", "xml", "python"):
            continue
        name = f"string by length, {syntax} ({dialects[0].name})"
        shortest = 0.0
        for size, repeats in effort.sizes:
            value = _whole_way(dialects[0], size, repeats)
            limit = _GROWTH * shortest if shortest else None
            shortest = shortest or value
            yield Row(name, f"{size // 1_000:,} kB", value, "× bare", limit)


def _whole_way(dialect: Dialect, size: int, repeats: int) -> float:
    """The cost of a chunk over whole strings of a length, in bare calls. Every chunk counts."""
    length = min(size, _MOST)
    text = ever_new(SOURCE, length * min(repeats, _MOST // length))
    samples = [string_sample(dialect, part) for part in cut(text, length)]
    clock = Clock()
    for sample in islice(cycle(samples), repeats):
        times = size // length
        parser = sample.begun()
        chunks = chain.from_iterable(repeat(cut(sample.body, CHUNK), times))
        while some := list(islice(chunks, ROUND)):
            clock.add(time_feed(parser.feed, some), len(some))
        sample.check(parser, times)
    return clock.whole_ratio


def whole(effort: Effort) -> Iterator[Row]:
    """Whole texts in one feed()."""
    name = "whole text in one feed()"
    text = ever_new(SOURCE, effort.whole)
    for syntax, dialects in by_syntax(calling()).items():
        found = [(_speed(string_sample(d, text)), d) for d in dialects]
        value, dialect = min(found, key=lambda f: f[0])
        yield Row(name, f"{syntax}, slowest of {len(found)} ({dialect.name})", value, "MB/s", _SPEED, "least")


def _speed(sample: Sample, repeats: int = 5) -> float:
    """Millions of characters per second, from a parser's first to its last event, in the fastest of several runs."""
    text = sample.head + sample.body + sample.tail
    quickest = float("inf")
    for _ in range(repeats):
        parser = sample.parser()
        start = seconds()
        parser.feed(text)
        quickest = min(quickest, seconds() - start)
    sample.check(parser, 1, closed=True)
    return len(text) / quickest / 1e6
