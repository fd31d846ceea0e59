"""Openings of arguments that lack a tag before a key or a value, or have one twice: ``<k>city</k>Paris</v>``."""

from typing import Final

from .patterns import (
    LITERAL,
    MAX_FIELD,
    MAX_SPACE,
    MORE,
    NO,
    SPACE,
    TAG_BEGINS,
    TAG_ENDS,
    Atom,
    Pattern,
    plain_name,
    skip_space,
    spaced,
    without_beginning,
)

MAX_AGAIN: Final = 8  # how often a tag may be repeated, and still be one


def value_tags(opening: Pattern) -> list[Pattern]:  # one pass that groups atoms
    """The tags between the key and the value of an argument; empty if the key is inside of a tag."""
    key = next((i for i, a in enumerate(opening.atoms) if a.text == "key" and a.kind != LITERAL), -1)
    found: list[list[Atom]] = [[]]
    for atom in opening.atoms[key + 1 :] if key >= 0 else ():
        group = found[-1]
        if atom.kind == LITERAL and atom.text[0] in TAG_BEGINS and group and group[-1].text[-1:] in TAG_ENDS:
            found.append([atom])
        elif atom.kind != SPACE:
            group.append(atom)
    whole = all(g and g[0].kind == LITERAL and g[0].text[0] in TAG_BEGINS for g in found)
    return [spaced(g) for g in found] if whole else []


class Loose(Pattern):
    """The opening of an argument whose key and value have several tags between them, of which one may be missing, and
    each may be repeated. It matches as `Pattern` does. The value's closing may stand in place of the key's.
    ``unopened`` is the same without what is before the key."""

    __slots__ = ("_before", "_closing", "_firsts", "_margin", "tags", "unopened")

    def __init__(self, opening: Pattern, tags: list[Pattern], closing: Pattern, *, opened: bool = True) -> None:
        super().__init__([])
        self.atoms = opening.atoms
        self.first = opening.first if opened else ""
        self.tags = tags
        self._firsts = [tag.first for tag in tags]
        self._closing = closing
        key = next(i for i, a in enumerate(opening.atoms) if a.text == "key" and a.kind != LITERAL)
        self._before = spaced(a for a in opening.atoms[:key] if a.kind != SPACE) if opened else None
        self.unopened = Loose(opening, tags, closing, opened=False) if opened else self
        last = max(i for i, a in enumerate(opening.atoms) if a.kind == LITERAL and a.text == tags[-1].first)
        self._margin = opening.atoms[last - 1].text if opening.atoms[last - 1].kind == SPACE else ""

    def match(self, text: str, i: int, fields: dict[str, str]) -> int:
        return self._read(text, i, fields, {})

    def begins_in(self, key: str) -> bool:
        return any(map(key.__contains__, self._firsts))

    def deviations(self, text: str, i: int) -> list[tuple[str, str]]:
        """How the text at ``i``, which matches, deviates: kinds of notices, each with its tag; missing ones first."""
        counts: dict[int, int] = {}
        self._read(text, i, {}, counts)
        found = [("missing_open", self.atoms[0].text)] if self._before is None else []
        found += [("missing_open", t.first) for n, t in enumerate(self.tags) if not counts[n]]
        return found + [("doubled_marker", t.first) for n, t in enumerate(self.tags) if counts[n] > 1]

    def _read(self, text: str, i: int, fields: dict[str, str], counts: dict[int, int]) -> int:
        if self._before is not None:
            i = self._before.match(text, i, fields)
        if i >= 0:
            i = self._key(text, i, fields)
        if i < 0:
            return i
        wrong = self._closing.match(text, i, {})
        if wrong == MORE:
            return MORE
        i = max(i, wrong)  # in place of the first tag, which is missing
        for n, tag in enumerate(self.tags):
            counts[n] = 0
            while counts[n] < (MAX_AGAIN if n < len(self.tags) - 1 else 1):  # what follows the last is the value
                at = skip_space(text, i)
                r = tag.match(text, at, fields) if at - i <= MAX_SPACE else NO
                if r == MORE:
                    return MORE
                if r < 0:
                    break
                i = r
                counts[n] += 1
        if list(counts.values()).count(0) > (self._before is not None):
            return NO
        return i if counts[n] or not text.startswith(self._margin, i) else i + len(self._margin)

    def _key(self, text: str, begins: int, fields: dict[str, str]) -> int:
        """The end of the key that begins at an index: one of the tags is there."""
        firsts = [self._closing.first, *self._firsts]
        window = begins + MAX_FIELD + max(map(len, firsts))
        ends = [p for first in firsts if (p := text.find(first, begins, window)) >= 0]
        i = min(ends, default=len(text))
        key = text[begins:i].strip() if ends else without_beginning(text[begins:i], firsts)
        if "\n" in key or self.tags[0].first[0] in key or i - begins > MAX_FIELD or (ends and not key):
            return NO
        if self._before is None and not plain_name(key):
            return NO
        if not ends:
            return MORE
        fields["key"] = key
        return i
