"""What short pieces of literals do in each state of a reader: tokens recur, and so do their effects.

A `Spot` is a state of a `LiteralReader`. It maps pieces of text to their effects, as the machine has read them before.
The keys of objects and the digits of a number are not part of the state, but `Changes`, which `LiteralReader.follow`
repeats. Only a limited number of effects are remembered; then all are forgotten.
"""

from collections.abc import Hashable
from typing import Any, Final

from ...dialect.markers import Scan
from .pieces import StringKind, guarded_strings

_MOST_STEPS: Final = 20_000
_MOST_SPOTS: Final = 4_000


# A plain tuple: a `NamedTuple` is unpacked through an iterator, which takes several times as long.
Changes = tuple[str, bool, str | None, int, int | None, tuple[tuple[int, ...], ...]]
"""The effects of a piece of text that are not part of the state of its reader:

1. the part of it that belongs to the number that was open, and 2. whether that number ends;
3. the beginning of a number that stays open;
4. how many open objects end;
5. the hash of the key that is then given to the innermost open object;
6. for each object that begins and stays open, outermost first: the hashes of its keys.
"""

NOTHING: Final[Changes] = ("", False, None, 0, None, ())

Step = tuple[str, str, "Spot | None", Changes | None]
"""The effect of a piece of text: the JSON that it becomes, the part of it that waits for more, the spot after it
(``None``: it has none), and what else it changes."""


class Spot(dict[str, Step]):
    """A state of a reader, with the effects of the pieces that came there so far."""

    __slots__ = ("state", "strings")

    def __init__(self, state: tuple[Any, ...], strings: StringKind | None) -> None:
        self.state = state  # see `LiteralReader.state`
        self.strings = strings  # the kind of the string value that the reader is inside of; ``None`` if it is elsewhere


class Memory:
    """The remembered spots and steps, shared by all readers, and limited in number."""

    def __init__(self) -> None:
        self._spots: dict[Hashable, Spot] = {}
        self._steps = 0

    def find(self, state: tuple[Any, ...], guard: Scan | None) -> Spot | None:
        """The shared spot of a state, if it is remembered. ``guard``: the markers that end an open string."""
        return self._spots.get((state, guard))

    def add(self, state: tuple[Any, ...], guard: Scan | None, strings: StringKind | None) -> Spot:
        """Remember the spot of a state; see `find`, and `Spot` for ``strings``."""
        if len(self._spots) >= _MOST_SPOTS:
            self._forget()
        if strings is not None and guard is not None:
            strings = guarded_strings(strings, guard.find, guard.heads)
        found = self._spots[state, guard] = Spot(state, strings)
        return found

    def note(self, at: Spot, text: str, step: Step) -> None:
        """Record the effect of a piece of text."""
        if self._steps >= _MOST_STEPS:
            self._forget()
        self._steps += 1
        at[text] = step

    def _forget(self) -> None:
        # Readers, also in other threads, may still be at these spots; once emptied, they contain nothing.
        spots, self._spots = self._spots, {}
        self._steps = 0
        for spot in list(spots.values()):
            spot.clear()


memory: Final = Memory()
