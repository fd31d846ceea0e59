"""Time, measured against a bare method call in the same moments, so that neither the machine nor its noise counts.

Work and bare calls take turns in rounds of about a millisecond. What the loop itself costs is measured likewise and taken
off both.
"""

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, Final

Feed = Callable[[str], Any]

ROUND: Final = 2_000
"""How many calls a round has, about."""


class Bare:
    """What a call costs at least: a method that returns a list of one element."""

    def feed(self, text: str) -> list[str]:
        """The list."""
        return [text]


_bare = Bare().feed
_CHUNKS: Final = ["abcd"] * ROUND


# One function for each: the interpreter specialises a call to what it calls, which must not be shared.
def time_feed(feed: Feed, chunks: Iterable[str]) -> float:
    """Seconds for feeding the chunks."""
    start = perf_counter()
    for chunk in chunks:
        feed(chunk)
    return perf_counter() - start


def _time_bare() -> float:
    start = perf_counter()
    for chunk in _CHUNKS:
        _bare(chunk)
    return perf_counter() - start


def _time_loop() -> float:
    start = perf_counter()
    for _ in _CHUNKS:
        pass
    return perf_counter() - start


class Clock:
    """Rounds of work and of bare calls, in seconds per call."""

    def __init__(self) -> None:
        self._work: list[float] = []
        self._bare: list[float] = []
        self._loop: list[float] = []

    def add(self, seconds: float, calls: int) -> None:
        """A round of ``calls`` took so long; a round of bare calls follows at once."""
        self._work.append(seconds / calls)
        self._bare.append(_time_bare() / ROUND)
        self._loop.append(_time_loop() / ROUND)

    @property
    def bare(self) -> float:
        """Seconds for a bare call, without the loop around it."""
        return min(self._bare) - min(self._loop)

    @property
    def ratio(self) -> float:
        """How many bare calls one call of the work costs; of each, the quickest round counts."""
        return (min(self._work) - min(self._loop)) / self.bare

    @property
    def total_ratio(self) -> float:
        """The same over all rounds: nothing that happens now and then is left out."""
        loop = sum(self._loop)
        return (sum(self._work) - loop) / (sum(self._bare) - loop)


def bare_call(rounds: int = 100) -> float:
    """Seconds for a bare call."""
    clock = Clock()
    for _ in range(rounds):
        clock.add(0.0, 1)
    return clock.bare
