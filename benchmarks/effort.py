"""How much is measured: everything, or in about twenty seconds."""

from dataclasses import dataclass
from typing import Final

from unspool import Dialect

from .samples import by_syntax, calling


def one_each() -> list[Dialect]:
    """One dialect of each syntax."""
    return [dialects[0] for dialects in by_syntax(calling()).values()]


@dataclass(frozen=True, slots=True)
class Effort:
    """Sizes of the measurements.

    Attributes:
        rounds: rounds of about a millisecond for each thing that is timed.
        sizes: lengths of a string argument, in characters, and how often each is measured.
        whole: length of a text fed at once, in characters.
        starts: how often measurements that start an interpreter are made.
        cuts: the number of positions in a dialect's examples where endless text begins.
        everywhere: whether secondary measurements use every dialect, or one of each syntax.
    """

    rounds: int
    sizes: tuple[tuple[int, int], ...]
    whole: int
    starts: int
    cuts: int
    everywhere: bool

    def dialects(self) -> list[Dialect]:
        """The dialects for secondary measurements."""
        return calling() if self.everywhere else one_each()


FULL: Final = Effort(
    rounds=30,
    sizes=((1_000, 300), (100_000, 20), (1_000_000, 3), (10_000_000, 1)),
    whole=1_000_000,
    starts=6,
    cuts=5,
    everywhere=True,
)
QUICK: Final = Effort(
    rounds=8,
    sizes=((1_000, 200), (100_000, 3), (1_000_000, 1)),
    whole=250_000,
    starts=3,
    cuts=1,
    everywhere=False,
)
