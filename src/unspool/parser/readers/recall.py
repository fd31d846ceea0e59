"""A cache of what pieces of literals do in each state of a reader: tokens recur, and so do their effects.

The state of a reader is small: what it expects, which brackets are open, and the text that waits. That is a `Spot`.
The spots, and the pieces of text that lead from one to another, are an automaton that grows as pieces come. A piece may
have other effects: keys are recorded, since none may be repeated, and numbers may become too large. These are its
`Deeds`, which `LiteralReader.follow` repeats. Only short pieces without a backslash are remembered, and only a
limited number in all; then all are forgotten.
"""

from typing import Final, NamedTuple

from ...regex import Prefix, Regex
from .pieces import StringKind
from .strings import SHORT
from .syntax import COLON, NUMBER, STRING

_MOST_STEPS: Final = 20_000
_MOST_SPOTS: Final = 4_000
MOST_WAITING: Final = 32
"""How many characters may wait at a spot."""

_NUMBER = Prefix(r"[-+.0-9eE]*+")
_OPEN_NUMBER = Regex(r"[-+.0-9eE]+\Z")


# Plain tuples: a `NamedTuple` is unpacked through an iterator, which takes several times as long.
Deeds = tuple[str, bool, str, int | None, int, tuple[frozenset[int], ...]]
"""The effects of a piece of text, other than leading from one spot to another:

1. the part of it that belongs to the open number;
2. whether the number ends there;
3. the beginning of a number that stays open;
4. the hash of the key that ends in it, which belongs to the innermost object once the objects of 5 have ended;
5. how many open objects end;
6. for each object that begins and stays open, outermost first: the hashes of its keys.
"""

Step = tuple["Spot", str, str, Deeds | None]
"""The effect of a piece of text: the spot that it leads to, the JSON that it becomes, the part of it that is not read
(the beginning of a word), and its other effects."""


class ReaderState(NamedTuple):
    """A state of a reader, and the text that waits there.

    Attributes:
        how: how the literal is written.
        mode, comma, is_key, number, delimiter: the values of the reader's attributes.
        brackets: the reader's stack.
        waits: the text that waits: first what is read, but held, such as a key that may be repeated; then what is not
            read, such as the beginning of a word. The other values are those before the held part.
        unread: the length of the part that is not read.
        key: the key so far, inside a key that is passed on as it is read; ``None`` if it is long or has escapes.
    """

    how: object
    mode: int
    brackets: str
    comma: bool
    is_key: bool = False
    number: int = 0
    delimiter: str = ""
    waits: str = ""
    unread: int = 0
    key: str | None = ""


class Spot(dict[str, Step]):
    """A state of a reader, with the effects of the texts that came there so far.

    Attributes:
        place: the state.
        strings: the kind of the string value that the reader is inside of; ``None`` if it is elsewhere.
    """

    __slots__ = ("place", "strings")

    def __init__(self, place: ReaderState, strings: StringKind | None) -> None:
        self.place = place
        self.strings = strings

    def forget(self) -> None:
        """Forget the effects of all texts."""
        self.clear()


class Memory:
    """The remembered spots and steps, shared by all readers, and limited in number."""

    __slots__ = ("_spots", "_steps")

    def __init__(self) -> None:
        self._spots: dict[ReaderState, Spot] = {}
        self._steps = 0

    def spot(self, place: ReaderState, strings: StringKind | None) -> Spot:
        """The shared spot of a place."""
        found = self._spots.get(place)
        if found is None:
            if len(self._spots) >= _MOST_SPOTS:
                self._forget()
            found = self._spots[place] = Spot(place, strings)
        return found

    def note(self, at: Spot, text: str, fragment: str, rest: str, to: Spot) -> None:
        """Record that a text led from one spot to another, and became JSON, except for the rest of it."""
        if len(text) > SHORT or "\\" in text or "\\" in fragment:
            return
        deeds = _deeds(at.place, fragment, to.place)
        if deeds is None:
            return
        if self._steps >= _MOST_STEPS:
            self._forget()
        self._steps += 1
        at[text] = (to, fragment, rest, None if deeds == _NOTHING else deeds)

    def _forget(self) -> None:
        # Readers, also in other threads, may still be at these spots; once emptied, they contain nothing.
        spots, self._spots = self._spots, {}
        self._steps = 0
        for spot in list(spots.values()):
            spot.forget()


memory: Final = Memory()
_NOTHING: Final[Deeds] = "", False, "", None, 0, ()


def _deeds(at: ReaderState, text: str, to: ReaderState) -> Deeds | None:
    """The effects of JSON that led from one spot to another; ``None`` if `Deeds` cannot express them."""
    if at.key is None or to.key is None:
        return None
    digits = number = ""
    known: int | None = None
    left = 0
    objects: list[set[int]] = []
    quoted = at.mode == STRING
    pieces = (at.key + text).split('"')
    last = len(pieces) - 1
    for i, piece in enumerate(pieces):
        if not quoted:
            for c in piece:
                if c == "{":
                    objects.append(set())
                elif c == "}" and objects:
                    objects.pop()
                elif c == "}":
                    if known is not None:
                        return None
                    left += 1
        elif i < last and (at.is_key if i == 0 else _is_key(pieces[i + 1], to)):
            if objects:
                objects[-1].add(hash(piece))
            elif known is not None:
                return None
            else:
                known = hash(piece)
        quoted = not quoted
    if at.mode == NUMBER:
        digits = _NUMBER.match(text).group()
    number_ends = at.mode == NUMBER and (len(digits) < len(text) or to.mode != NUMBER)
    if to.mode == NUMBER and (at.mode != NUMBER or number_ends):
        opened = _OPEN_NUMBER.search(text)
        number = "" if opened is None else opened.group()
    return digits, number_ends, number, known, left, tuple(map(frozenset, objects))


def _is_key(after: str, to: ReaderState) -> bool:
    """Whether a string is a key, by the text after it, which may lead to the end."""
    return (after.lstrip(" \t\n\r")[:1] or (":" if to.mode == COLON else "")) == ":"
