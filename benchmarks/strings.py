"""Inside a long string argument: chunks of four characters in every dialect, at any length, and whole texts."""

from collections.abc import Iterator
from itertools import chain, repeat
from statistics import median
from typing import Final

from unspool import Dialect

from .clock import ROUND, Clock, seconds, time_feed
from .effort import Effort
from .samples import Sample, Tools, by_syntax, calling, string_sample
from .table import Row, ranked
from .texts import DENSE, SOURCE, TOOLS

CHUNK: Final = 4
_MEDIAN: Final = 9.0
_WORST: Final = 14.0
_SPEED: Final = 50.0
_GROWTH: Final = 1.2
"""What still counts as flat over four decades: memory gets slower, and machines are noisy."""


def strings(effort: Effort) -> Iterator[Row]:
    """feed() per chunk of source code, in every dialect with calls."""
    name = "string argument, 4 characters a chunk"
    for text, of in ((DENSE * 40, "dense source"), (SOURCE * 3, "source")):
        found = [(feeding(string_sample(d, text), CHUNK, effort.rounds), d) for d in calling()]
        yield from ranked(name, found, "× bare", median=_MEDIAN, worst=_WORST, of=of)
    for value, dialect in sorted(found, key=lambda f: f[0]):
        yield Row(name, f"source, {dialect.name} ({dialect.argument_format})", value, "× bare", _WORST)


def feeding(
    sample: Sample, size: int, rounds: int, *, tools: Tools = TOOLS, closing: bool = False, times: int = 1
) -> float:
    """What feed() costs per chunk of the body, in bare calls.

    Args:
        sample: what is fed; each round is an output of its own, and the head is not timed.
        size: characters of a chunk.
        rounds: how many rounds are measured.
        tools: what the request declares.
        closing: whether what follows the body is timed too, where the work may wait for it.
        times: how often the body is fed in a round.

    Raises:
        DidNotArrive: the parser did not understand the sample.
    """
    chunks = sample.chunks(size) * times
    if closing:
        chunks.append(sample.tail)
    clock = Clock()
    for _ in range(rounds):
        parser = sample.begun(tools)
        clock.add(time_feed(parser.feed, chunks), len(chunks))
    sample.check(parser, times, closed=closing)
    return clock.ratio


def flat(effort: Effort) -> Iterator[Row]:
    """The same at growing lengths, in one dialect of each syntax that has many."""
    for syntax, dialects in _main_syntaxes().items():
        sample = string_sample(dialects[0], SOURCE[:1_000])
        name = f"by length, {syntax} ({dialects[0].name})"
        shortest = 0.0
        for size, repeats in effort.sizes:
            value = median(_whole_way(sample, size // 1_000) for _ in range(repeats))
            shortest = shortest or value
            limit = None if value is shortest else _GROWTH * shortest
            yield Row(name, f"{size // 1_000:,} kB", value, "× bare", limit)


def _main_syntaxes() -> dict[str, list[Dialect]]:
    found = by_syntax(calling())
    return {syntax: found[syntax] for syntax in ("json", "xml", "python")}


def _whole_way(sample: Sample, times: int) -> float:
    """What a chunk costs from the beginning to the end of a string that is ``times`` bodies long, in bare calls."""
    chunks = sample.chunks(CHUNK)
    bodies = max(1, ROUND // len(chunks))
    clock = Clock()
    parser = sample.begun()
    for done in range(0, times, bodies):
        now = min(bodies, times - done)
        work = time_feed(parser.feed, chain.from_iterable(repeat(chunks, now)))
        clock.add(work, now * len(chunks))
    sample.check(parser, times)
    return clock.whole_ratio


def whole(effort: Effort) -> Iterator[Row]:
    """Whole texts in one feed()."""
    name = "whole text in one feed()"
    for syntax, dialects in by_syntax(calling()).items():
        found = [(_speed(string_sample(d), effort.whole), d) for d in dialects]
        slowest, dialect = min(found, key=lambda f: f[0])
        case = f"{syntax}: slowest of {len(found)} ({dialect.name})"
        yield Row(name, case, slowest, "MB/s", _SPEED, "least")


def _speed(sample: Sample, size: int, repeats: int = 5) -> float:
    """Millions of characters a second, from a parser's first to its last event."""
    times = max(1, size // len(sample.body))
    text = sample.head + sample.body * times + sample.tail
    quickest = float("inf")
    for _ in range(repeats):
        parser = sample.parser()
        start = seconds()
        parser.feed(text)
        quickest = min(quickest, seconds() - start)
    sample.check(parser, times, closed=True)
    return len(text) / quickest / 1e6
