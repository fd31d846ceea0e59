"""Time relative to a bare method call at the same moment, so that the speed of the machine and its noise matter little.

Processors and builds of Python differ in what a call costs beside other work, so the same code has other ratios on
another machine: `least_chunk` says what the least work for a chunk costs there.

The clock is this thread's processor time, which excludes other programs. Processors also change their speed by half
within a second, so rounds of work of about a millisecond alternate with rounds of bare calls. Each round of work is
compared with the bare calls just before and after it, and the median of the rounds counts. (The fastest work and the
fastest bare call would often have run at different speeds.) The cost of the loop is subtracted from both.
"""

import time
from collections.abc import Callable, Iterable
from functools import cache
from statistics import median
from typing import Any, Final

from unspool.events import ToolCallDelta

ROUND: Final = 2_000
"""The approximate number of calls in a round."""

seconds: Final = time.thread_time if time.get_clock_info("thread_time").resolution < 1e-6 else time.perf_counter
"""Processor time of this thread; the time of day if that is too coarse."""


class Bare:
    """The minimal cost of a call: a method that returns a list of one element."""

    def feed(self, text: str) -> list[str]:
        """The list."""
        return [text]


class Least:
    """The least work for a chunk of a string: look for what ends it, keep the text, and return its event."""

    def __init__(self) -> None:
        self._at = 0
        self._pieces: list[str] = []

    def feed(self, text: str) -> list[ToolCallDelta] | None:
        """The event; ``None`` if a quote is in the text."""
        if '"' in text:
            return None
        at = self._at
        self._at = end = at + len(text)
        self._pieces.append(text)
        return [ToolCallDelta(0, text, at, end)]


_bare = Bare().feed
_CHUNKS: Final = ["abcd"] * ROUND


# One function for each, because the interpreter specialises a call to its callee.
def time_feed(feed: Callable[[str], Any], chunks: Iterable[str]) -> float:
    """Seconds for feeding the chunks."""
    start = seconds()
    for chunk in chunks:
        feed(chunk)
    return seconds() - start


def _time_bare() -> float:
    feed = _bare
    start = seconds()
    for chunk in _CHUNKS:
        feed(chunk)
    return seconds() - start


def _time_loop() -> float:
    start = seconds()
    for _ in _CHUNKS:
        pass
    return seconds() - start


class Clock:
    """Rounds of work, each with the bare calls around it.

    Args:
        every: the least number of calls in a round.
    """

    def __init__(self, every: int = ROUND) -> None:
        self._every = every
        self._work, self._calls = 0.0, 0  # of the current round
        self._loop = _time_loop() / ROUND
        self._before = _time_bare() / ROUND - self._loop
        self._rounds: list[tuple[float, float, int]] = []

    def add(self, work: float, calls: int) -> None:
        """Record that this many calls, which ended just now, took ``work`` seconds."""
        self._work += work
        self._calls += calls
        if self._calls < self._every:
            return
        after = _time_bare() / ROUND - self._loop
        each = self._work / self._calls - self._loop
        self._rounds.append((each, (self._before + after) / 2, self._calls))
        self._work, self._calls = 0.0, 0
        self._before = after
        self._loop = _time_loop() / ROUND

    @property
    def bare(self) -> float:
        """Seconds for a bare call."""
        return median(bare for _, bare, _ in self._rounds)

    @property
    def ratio(self) -> float:
        """The cost of a call of the work, in bare calls."""
        return median(work / bare for work, bare, _ in self._rounds)

    @property
    def whole_ratio(self) -> float:
        """The same over the sum of all rounds, which includes rare work."""
        work = sum(work * calls for work, _, calls in self._rounds)
        return work / sum(bare * calls for _, bare, calls in self._rounds)


def bare_call(rounds: int = 100) -> float:
    """Seconds for a bare call."""
    clock = Clock(1)
    for _ in range(rounds):
        clock.add(0.0, 1)
    return clock.bare


@cache
def least_chunk(rounds: int = 100) -> float:
    """The cost of the least work for a chunk, in bare calls."""
    clock = Clock()
    for _ in range(rounds):
        clock.add(time_feed(Least().feed, _CHUNKS), ROUND)
    return clock.ratio
