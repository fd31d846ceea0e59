"""Patterns: markers with fields, matched against text that is still arriving.

Matching returns where the pattern ends, that it cannot match (`NO`), or that more text must decide (`MORE`). It is one
pass without backtracking, and all fields and white space are bounded, so a match looks at bounded text.
"""

import itertools
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

import msgspec

from ..regex import Prefix, Regex
from .template import Field, Piece, unescape

NO: Final = -1
MORE: Final = -2

MAX_SPACE: Final = 4096
MAX_FIELD: Final = 1024
MAX_ANY: Final = 256

TAG_BEGINS: Final = "<[]◁"
TAG_ENDS: Final = "]>▷"  # the characters around tags and special tokens

# Kinds of atoms.
LITERAL, SPACE, NAME, DIGITS, WORD, UNTIL, ANY, SAME = range(8)

SPACES: Final = rf"\s{{0,{MAX_SPACE}}}+"  # white space in regular expressions, as far as it counts
_SPACES: Final = Prefix(SPACES)
FEW_SPACES: Final = r"\s{0,64}+"  # white space in regular expressions for plain text; the machine reads longer runs
_MOST_NESTED: Final = 128  # characters of a literal of which each beginning has a group in a regular expression
_NAMED: Final = r"[\w.\-:/]"  # a character of a name
_NAME = Regex(rf"{_NAMED}{{1,{MAX_FIELD}}}+")
_DIGITS = Regex(r"[0-9]{1,18}+")
_KEYS = r"[\w.\-]{1,64}+"
_WORDS = "[A-Za-z_]{1,32}+"
_WORD = Regex(_WORDS)
_TAG = Regex(r"</?[A-Za-z]+>")
_KINDS = {
    "name": NAME,
    "index": DIGITS,
    "number": DIGITS,
    "string": WORD,
    "type": WORD,
    "key": UNTIL,
    "id": UNTIL,
    "any": ANY,
}

# White space is soft where a template has some, except after the sign that begins a tag, and before and after a tag.
_SOFT = Regex(r"(?<!<)(?<!</)\s+|(?<=[^\[<])(?=<[\w/|｜!])|(?<=[^\[]>)(?=[^\s\]>])|(?<=\})(?=\[/?\w)")


_MAY: Final = re.compile("").match  # called for each marker, so that it must be quick
_ANY_SPACE: Final = Prefix(r"\s*+")
_SEPARATORS: Final = Prefix(r"[\s,;]*+")
_CLOSING: Final = Prefix(rf"(?:[\]}})]{FEW_SPACES}){{0,8}}+")
_FENCED: Final = Prefix(rf"(?:(?:[\]}})]|```){FEW_SPACES}){{0,8}}+")


def skip_space(text: str, i: int, spaces: Prefix = _ANY_SPACE) -> int:
    """The end of the white space that begins at ``i``."""
    if " " < text[i : i + 1] < "\x7f":  # first the common case: there is none
        return i
    return spaces.match(text, i).end()


def rest_begins(literal: str, text: str, i: int) -> bool:
    """Whether the rest of a text, from ``i`` on, is the beginning of a literal; a long rest is not copied."""
    return len(text) - i <= len(literal) and literal.startswith(text[i:])


_FENCE = Regex(r"```\w{0,16}\s{0,64}+(?=[{\"])")
_FENCE_MAYBE = Regex(r"`{1,3}(?:(?<=```)\w{0,16}\s{0,64}+)?")


def fence(text: str, i: int, *, final: bool) -> int:
    """The end of a fence's opening at ``i`` around JSON, before its bracket or quote; `NO` or `MORE`."""
    m = _FENCE.match(text, i)
    if m is not None:
        return m.end()
    return MORE if not final and _FENCE_MAYBE.fullmatch(text, i) else NO


def skip_separators(text: str, i: int) -> int:
    """The end of the white space, commas and semicolons that begin at ``i``."""
    return _SEPARATORS.match(text, i).end()


def skip_brackets(text: str, i: int, *, fences: bool = False) -> int:
    """The end of a few closing brackets, and ``fences``, with white space between them, that begin at ``i``."""
    return (_FENCED if fences else _CLOSING).match(text, i).end()


class Atom(msgspec.Struct, eq=False):
    """One step of a pattern."""

    kind: int
    text: str = ""  # a literal, the name of a field, or white space as it is written
    quote: str = ""  # the quote on either side of a field, if any
    stops: tuple[str, ...] = ()  # the texts that end a field
    any_case: bool = False  # whether the literal is a tag that is matched in any case
    # Whether the field is a tag's name, as in ``<{name}>``: it neither begins with ``/`` nor contains ``<``.
    tag: bool = False


class Pattern:
    """A sequence of literals, soft white space and fields.

    Attributes:
        first: the literal it begins with, ``""`` if it begins with a field.
        alone: whether it consists of that literal only.
        any_case: whether that literal is matched in any case.
        weight: how literal it is: the number of literal characters.
        after_name: whether a literal comes after the name, so that the name is certain to be complete.
        last_name: the index of its last name among the atoms; -1 if it has none.
        splits_name: the position, from 1, of a name that ends inside a run of name characters; 0 if none does.
    """

    __slots__ = (
        "_fields", "_simple", "after_name", "alone", "any_case", "atoms", "begins", "first", "last_name",
        "splits_name", "weight",
    )  # fmt: skip
    _simple: Callable[[str, int], re.Match[str] | None] | None
    """Matches the whole pattern, with fields that are written simply, each in a group; any other text may still match.
    ``None`` if there is no such expression."""
    _fields: list[str]  # the names of those fields
    begins: Callable[[str, int], object]
    """Whether a text may match at a place, as far as its first literals tell."""

    def __init__(self, atoms: list[Atom]) -> None:  # derives a field after the other
        self.atoms = atoms
        self.first = atoms[0].text if atoms and atoms[0].kind == LITERAL else ""
        others = atoms[1:] if self.first else atoms
        self.alone = bool(self.first) and not others
        self.any_case = bool(self.first) and atoms[0].any_case
        self.weight = len(self.first)
        self.last_name, self.splits_name, self.after_name = -1, 0, False
        self._simple, self.begins = None, _MAY
        if not others:  # as in most closings
            return
        self.weight = 0
        for i, atom in enumerate(atoms):
            if atom.kind == LITERAL:
                self.weight += len(atom.text)
                self.after_name = self.last_name >= 0
            elif atom.text == "name" and (atom.kind == NAME or atom.kind == SAME):
                self.last_name, self.after_name = i, False
                if atom.stops and not atom.quote:
                    self.splits_name = self.splits_name or i + 1
        if self.first and not self.any_case:
            self._simple = self._first_match
        if self.first:
            self.begins = self._first_begins

    def _first_match(self, text: str, i: int) -> re.Match[str] | None:
        # Made on first use, as most patterns are never used.
        self._fields = [a.text for a in self.atoms if a.kind not in (LITERAL, SPACE)]
        regex = self._regex(_simply, SPACES)
        # What ends a field must follow it; `_name` and others know what it means if the text ends instead.
        if regex is None or (self._fields and self.atoms[-1].kind != LITERAL):
            self._simple = None
            return None
        self._simple = re.compile(regex).match
        return self._simple(text, i)

    def _first_begins(self, text: str, i: int) -> object:
        if any(a.any_case for a in self.atoms):
            self.begins = _MAY
            return True
        regex = ""
        for atom in reversed(self._beginning()):
            if atom.kind == SPACE:
                regex = SPACES + regex
            elif atom.kind == NAME:
                regex = f"(?:{_NAMED}{{1,{MAX_FIELD}}}+(?:{regex}|\\Z)|\\Z)"
            else:
                one, two = map(re.escape, (atom.text[0], atom.text[1:2]))
                cut = rf"(?:{one}(?:{two}(?s:.{{0,{max(len(atom.text) - 3, 0)}}}+))?)?\Z"  # whatever follows
                regex = f"(?:{re.escape(atom.text)}{regex}|{cut})"
        self.begins = re.compile(regex).match
        return self.begins(text, i)

    def _beginning(self) -> list[Atom]:
        """The literals before the first field; if that is a plain name, also those after it, up to the next field."""
        found: list[Atom] = []
        for at, atom in enumerate(self.atoms):
            after = next((a.text[:1] for a in self.atoms[at + 1 :] if a.kind != SPACE), "")
            name = atom.kind == NAME and not (atom.quote or atom.stops or atom.tag or after in ("", "/"))
            if atom.kind not in (LITERAL, SPACE) and (not name or any(a.kind == NAME for a in found)):
                break
            found.append(atom)
        return found

    def _fill(self, m: re.Match[str], fields: dict[str, str]) -> bool:
        """Fill in fields that are written simply; false if one is only white space."""
        for name, written in zip(self._fields, m.groups(), strict=True):
            value = written.strip()
            if not value:
                return False
            fields[name] = value
        return True

    def __bool__(self) -> bool:
        return bool(self.atoms)

    @property
    def begins_with_name(self) -> bool:
        """Whether nothing but a literal comes before its first name, as in ``</{name}>``."""
        fields = [a.kind for a in self.atoms[1:] if a.kind != SPACE]
        return bool(self.first) and fields[:1] == [NAME]

    @property
    def worded(self) -> bool:
        """Whether its literals contain a letter or digit, not only punctuation."""
        return any(worded(a.text) for a in self.atoms if a.kind == LITERAL)

    def match(self, text: str, i: int, fields: dict[str, str]) -> int:  # hot: the plain pattern first
        """The end of the pattern if it matches at ``i``, `NO`, or `MORE`; fills ``fields`` as far as it matches."""
        first = self.first
        if first:
            if text.startswith(first, i):
                if self.alone:
                    return i + len(first)
                if self._simple is not None:
                    m = self._simple(text, i)
                    # A field counts with the white space around it, so only a short match is certain.
                    if m is not None and (not self._fields or (m.end() - i <= MAX_FIELD and self._fill(m, fields))):
                        return m.end()
                if not self.begins(text, i):
                    return NO
            elif not self.any_case:
                return MORE if len(text) - i < len(first) and first.startswith(text[i:]) else NO
        return _read(self.atoms, text, i, fields)

    def plain(self) -> str:
        """A regular expression that matches as the pattern does, if its fields contain only word characters; each
        field is a named group. ``""`` if a field may contain anything, or if a tag is matched in any case."""
        return self._regex(_plain_field) or ""

    def begun(self, then: str = "") -> str | None:
        """A regular expression for the empty text and any proper beginning of the pattern, and the whole pattern
        followed by ``then``, if that is given; ``None`` if fields or tags are too complex."""
        regex = then
        if any(len(atom.text) > _MOST_NESTED for atom in self.atoms):
            return None
        for atom in reversed(self.atoms):
            if atom.kind == LITERAL and not atom.any_case:
                part = ""
                for c in reversed(atom.text[:-1]):
                    part = f"(?:{re.escape(c)}{part})?"
                regex = f"(?:{re.escape(atom.text)}{regex}|{part})" if regex else part
            elif atom.kind == SPACE:
                regex = regex and f"{FEW_SPACES}{regex}"
            else:
                field = _field_in_doubt(atom)
                if not field:
                    return None
                regex = field + regex
        # The beginning of a tag's name is not a closing: `<{key}>` does not begin as `</` does.
        return f"(?!{re.escape(self.first)}/){regex}" if self.first[-1:] == "<" else regex

    def whole(self) -> str | None:
        """A regular expression that matches the whole pattern; ``None`` as in `begun`."""
        return self._regex(_whole_field)

    def _regex(self, field: Callable[[Atom], str], spaces: str = FEW_SPACES) -> str | None:
        """A regular expression of all atoms; ``None`` if ``field`` has none for one, or a tag has any case."""
        regex = ""
        for atom in self.atoms:
            if atom.kind == LITERAL and not atom.any_case:
                regex += re.escape(atom.text)
            elif atom.kind == SPACE:
                regex += spaces
            elif part := field(atom):
                regex += part
            else:
                return None
        return regex

    def named(self, text: str, i: int) -> bool:
        """Whether the name is complete, in a text that ends inside the pattern, which begins at ``i``."""
        behind = (at for at in range(self.last_name + 1, len(self.atoms)) if self.atoms[at].kind == LITERAL)
        return self.last_name >= 0 and self._place(text, i, next(behind, len(self.atoms)) + 1) >= 0

    def cut(self, text: str, i: int) -> str:
        """The beginning of a field with which a text ends, in the pattern that begins at ``i``; ``""``: none."""
        for at in range(len(self.atoms) - 1, -1, -1):
            begins = self._place(text, i, at)
            if begins >= 0:
                return "" if self.atoms[at].kind == LITERAL else text[begins:].strip()
        return ""

    def longer_name(self, text: str, i: int) -> str:
        """The run of name characters at ``i``, of which the pattern takes only a part as the name."""
        begins = self._place(text, i, self.splits_name - 1)
        m = _NAME.match(text, begins) if begins >= 0 else None
        return "" if m is None else m.group()

    def _place(self, text: str, i: int, at: int) -> int:
        """Where the atom with this number begins, in a text that contains those before it; else `NO`."""
        return NO if at > len(self.atoms) else _read(self.atoms[:at], text, i, {})

    def head(self) -> "Pattern":
        """The text before the first field."""
        atoms = list(itertools.takewhile(lambda atom: atom.kind in (LITERAL, SPACE), self.atoms))
        while atoms and atoms[-1].kind == SPACE:
            atoms.pop()
        return Pattern(atoms)

    def behind(self, count: int) -> "Pattern":
        """What comes after so many atoms."""
        return Pattern(list(itertools.dropwhile(lambda atom: atom.kind == SPACE, self.atoms[count:])))

    def untagged(self) -> "Pattern | None":
        """What comes after the tag with which it begins, if that is a word and then the name."""
        at = 2 if [a.kind for a in self.atoms[:2]] == [LITERAL, SPACE] else 1
        kinds = [a.kind for a in self.atoms[at : at + 3] if a.kind != SPACE]
        word = kinds[:2] == [LITERAL, NAME] and self.atoms[at].text[0].isalpha()
        return Pattern(self.atoms[at:]) if word and self.first[-1:] in TAG_ENDS else None

    def unbracketed(self) -> "Pattern":
        """What comes after brackets with which it begins; itself if it begins with none."""
        closed = (a.kind == SPACE or (a.kind == LITERAL and not a.text.strip("]})")) for a in self.atoms)
        at = next((i for i, bracket in enumerate(closed) if not bracket), 0)
        return Pattern(self.atoms[at:]) if at and self.first else self

    def progress(self, text: str, i: int, *, whole: bool = False) -> int:
        """The end of the pattern's first literals at ``i``, as far as they match; with ``whole``, without a literal
        that is only the beginning of a longer word, in which no field may go on: ``<call`` in ``<caller``."""
        done = i
        for at, atom in enumerate(self.atoms):
            if atom.kind == SPACE:
                i = skip_space(text, i, _SPACES)
            elif atom.kind == LITERAL and text.startswith(atom.text, i):
                i += len(atom.text)
                if not (whole and self._goes_on(text, i, at)):
                    done = i
            else:
                break
        return done

    def _goes_on(self, text: str, i: int, at: int) -> bool:
        """Whether a word goes on where the literal with this number ends, though another literal must follow it."""
        in_word = text[i - 1].isalnum() and text[i : i + 1].isalnum()
        return in_word and next((a.kind for a in self.atoms[at + 1 :] if a.kind != SPACE), NAME) == LITERAL


def _read(atoms: list[Atom], text: str, i: int, fields: dict[str, str]) -> int:
    """The end of some atoms at ``i``, `NO`, or `MORE`; fills ``fields``."""
    n = len(text)
    for atom in atoms:
        kind = atom.kind
        if kind == LITERAL:
            if text.startswith(atom.text, i):
                i += len(atom.text)
            elif atom.any_case:
                i = _any_case(text, i, atom.text)
            else:
                return MORE if n - i < len(atom.text) and atom.text.startswith(text[i:]) else NO
        elif kind == SPACE:
            i = _SPACES.match(text, i).end()
        else:
            i = NO if atom.tag and text.startswith("/", i) else _FIELDS[kind](text, i, n, atom, fields)
        if i < 0:
            return i
    return i


def _name(text: str, i: int, n: int, atom: Atom, fields: dict[str, str]) -> int:
    if atom.quote:
        end = _until(text, i, n, atom, fields)
        return NO if end >= 0 and not fields["name"] else end
    m = _NAME.match(text, i)
    if m is None:
        return MORE if i == n else NO
    end = m.end()
    if end == n and end - i < MAX_FIELD:
        return MORE
    if atom.stops:
        end = text.rfind(atom.stops[0], i + 1, end)
        if end < 0:
            return NO
    elif text[end - 1] == "/" and text.startswith(">", end):  # the tag closes itself
        end -= 1
        if end == i:
            return NO
    fields["name"] = text[i:end]
    return end


def _run(text: str, i: int, n: int, atom: Atom, fields: dict[str, str]) -> int:
    m = (_DIGITS if atom.kind == DIGITS else _WORD).match(text, i)
    if m is None:
        return MORE if i == n else NO
    if m.end() == n:
        return MORE
    fields[atom.text] = m.group()
    return m.end()


def _same(text: str, i: int, n: int, atom: Atom, fields: dict[str, str]) -> int:
    value = fields.get(atom.text)
    if value is None:  # an element of a list has no key
        return NO
    if text.startswith(value, i):
        return i + len(value)
    return MORE if rest_begins(value, text, i) else NO


def _any_case(text: str, i: int, literal: str) -> int:
    """Match a literal that is not spelled exactly at ``i``: perhaps in another case, or cut by the end of the text."""
    here = text[i : i + len(literal)]
    if here.isascii():
        here = here.lower()
    if len(here) < len(literal):
        return MORE if literal.startswith(here) else NO
    return i + len(literal) if here == literal else NO


def _until(text: str, i: int, n: int, atom: Atom, fields: dict[str, str]) -> int:  # one loop over the stops
    """Match a field that extends to the first of its stops."""
    limit = MAX_ANY if atom.kind == ANY else MAX_FIELD
    end = NO
    for stop in atom.stops:
        # The window is bounded: a header must not search all of a long text.
        found = text.find(stop, i, i + limit + len(stop) if end < 0 else end + len(stop) - 1)
        if found >= 0 and (end < 0 or found < end):
            end = found
    if end - i > limit or (end < 0 and n - i >= limit + max(map(len, atom.stops), default=1)):
        return NO  # no stop begins within the limit
    if atom.kind == ANY:
        return MORE if end < 0 else end
    value = text[i:end].strip() if end >= 0 else without_beginning(text[i:n], atom.stops)
    if "\n" in value or (atom.tag and "<" in value):
        return NO
    if end < 0:
        return MORE
    fields[atom.text] = unescape(value) if atom.quote else value
    return end


_FIELDS: Final = {NAME: _name, DIGITS: _run, WORD: _run, UNTIL: _until, ANY: _until, SAME: _same}
"""The function that reads each kind of field."""


def _simply(atom: Atom) -> str:
    """A regular expression, a group, for a field that is written simply; ``""`` if there is none."""
    kind = atom.kind
    slash = "(?!/)" if atom.tag else ""
    if kind == NAME and not atom.stops:
        return rf"{slash}({_NAMED}{{1,{MAX_FIELD}}}+)(?!(?<=/)>)"
    if atom.stops and (kind == UNTIL or (kind == NAME and atom.quote)):
        return rf"{slash}([^\n&\\<{re.escape(''.join(stop[0] for stop in atom.stops))}]{{1,{MAX_ANY}}}+)"
    return "([0-9]{1,18}+)" if kind == DIGITS else "([A-Za-z_]{1,32}+)" if kind == WORD else ""


def _plain_field(atom: Atom) -> str:
    """A regular expression, a named group, for a field of word characters only; ``""`` if it may contain more."""
    if atom.kind == SAME:
        return f"(?P={atom.text})"
    if atom.kind in (UNTIL, WORD):
        return f"(?P<{atom.text}>{_WORDS if atom.kind == WORD else _KEYS})"
    return ""


def _whole_field(atom: Atom) -> str:
    """The same for a complete field, if `_field_in_doubt` knows it."""
    field = _WORDS if atom.kind == WORD else _field_in_doubt(atom)
    return f"(?!/){field}" if field and atom.tag else field


def _field_in_doubt(atom: Atom) -> str:
    """A regular expression for what a field may contain before its end is certain; ``""`` if there is none."""
    if atom.kind == WORD:
        return r"[A-Za-z_]{0,31}+"
    if atom.kind == NAME and not atom.stops:
        return f"{_NAMED}{{0,64}}+"
    if atom.kind == DIGITS:
        return r"[0-9]{0,18}+"
    if atom.kind not in (NAME, UNTIL, ANY, SAME) or not atom.stops:
        return ""
    first, *others = atom.stops
    if any(stop in first[1:] for stop in others):
        return ""  # one stop may be inside the beginning of another
    outside = "<" * atom.tag + "".join(stop[0] for stop in atom.stops)
    return rf"[^\n{re.escape(outside)}]{{0,64}}+"


def without_beginning(text: str, stops: Iterable[str]) -> str:
    """Text without white space around it, and without an end that may begin a stop."""
    for stop in stops:
        for k in range(min(len(stop) - 1, len(text)), 0, -1):
            if text.endswith(stop[:k]):
                return text[:-k].strip()
    return text.strip()


def worded(text: str) -> bool:
    """Whether a text contains a letter or digit, not only punctuation and white space."""
    return any(map(str.isalnum, text))


@lru_cache(1024)
def shows(text: str) -> bool:
    """Whether a text shows a marker, however it goes on: it has letters or digits, and ends with a sign."""
    return bool(text) and not (text[-1].isalnum() or text[-1].isspace()) and worded(text)


def solid(text: str) -> str:
    """A text without its white space, which is soft around markers."""
    return "".join(text.split())


def plain_name(name: str) -> bool:
    """Whether a name consists of the characters that names may have outside quotes."""
    return _NAME.fullmatch(name) is not None


def names_call(name: str) -> bool:
    """Whether a plain name may be that of a tool that nobody declared: it is not punctuation, and does not end like a
    sentence."""
    return plain_name(name) and (worded(name) or "_" in name) and name[-1] not in ".:"


def _atoms(
    parts: tuple[Piece, ...], barriers: tuple[str, ...] = (), *, ends: tuple[str, ...] = (), any_case: bool = False
) -> list[Atom]:  # a branch for each kind of field
    """The atoms of some parts, with what ends their fields."""
    atoms = _divided(parts)
    for atom in atoms if any_case else ():
        if atom.kind == LITERAL and _TAG.fullmatch(atom.text):
            atom.text, atom.any_case = atom.text.lower(), True
    for i, atom in enumerate(atoms):
        if atom.kind == UNTIL or atom.kind == ANY:
            later = [a.text for a in atoms[i + 1 :] if a.kind == LITERAL]
            every = tuple(dict.fromkeys([*later, *barriers, "\n"]))
            atom.stops = every if atom.kind == ANY else (*later[:1], *ends)
        elif atom.kind == NAME and atom.quote:
            atom.stops = (atom.quote,)
        elif atom.kind == NAME:
            # A literal that begins with name characters (`:{index}`, `.call(`) is searched for inside the run by
            # them, unless white space is written before it.
            follower = next((a for a in atoms[i + 1 :] if a.kind != SPACE or a.text), None)
            begun = _NAME.match(follower.text) if follower is not None and follower.kind == LITERAL else None
            atom.stops = () if begun is None else (begun.group(),)
    return atoms


def _divided(parts: tuple[Piece, ...]) -> list[Atom]:
    """The atoms of some parts, without white space at the ends."""
    atoms: list[Atom] = []
    before = ""
    for part, after in itertools.zip_longest(parts, parts[1:], fillvalue=""):
        if isinstance(part, Field):
            _add_field(atoms, part.name, before, after if isinstance(after, str) else "")
            before = ""
        else:
            _add_literal(atoms, part)
            before = part
    while atoms and atoms[-1].kind == SPACE:
        atoms.pop()
    while atoms and atoms[0].kind == SPACE:
        atoms.pop(0)
    return atoms


def _add_field(atoms: list[Atom], name: str, before: str, after: str) -> None:
    """Add a field, with the literals beside it; a key or a name that is written again is the same."""
    if name == "any":
        atoms.append(Atom(ANY, "any"))
        return
    _soft(atoms)
    if name in ("key", "name") and any(atom.kind != LITERAL and atom.text == name for atom in atoms):
        atoms.append(Atom(SAME, name))
    else:
        quote = before[-1:] if before[-1:] in ('"', "'") and after.startswith(before[-1]) else ""
        atoms.append(Atom(_KINDS[name], name, quote, tag=before.endswith("<")))
    _soft(atoms)


def _add_literal(atoms: list[Atom], text: str) -> None:
    """Add a literal, in which there may be white space where the template writes some, and after a tag."""
    at = 0
    for m in _SOFT.finditer(text):
        if m.start() > at:
            atoms.append(Atom(LITERAL, text[at : m.start()]))
        _soft(atoms)
        if atoms and atoms[-1].kind == SPACE:
            atoms[-1].text += m.group()
        at = m.end()
    if at < len(text):
        atoms.append(Atom(LITERAL, text[at:]))
    if text[-1] == ">" and text[-2:] != "[>":
        _soft(atoms)


def _soft(atoms: list[Atom]) -> None:
    if atoms and atoms[-1].kind not in (SPACE, ANY):
        atoms.append(Atom(SPACE))


@lru_cache(1024)
def pattern(
    parts: tuple[Piece, ...], barriers: tuple[str, ...] = (), *, ends: tuple[str, ...] = (), any_case: bool = False
) -> Pattern:
    """The pattern of some parts. Equal parts share one: a dialect repeats them in its blocks, calls and arguments."""
    return Pattern(_atoms(parts, barriers, ends=ends, any_case=any_case))


@lru_cache(256)
def closing(parts: tuple[Piece, ...], *, any_case: bool = False) -> Pattern:
    """The pattern of a part's closing; a key in it is the key that was opened."""
    atoms = _atoms(parts, any_case=any_case)
    for atom in atoms:
        if atom.text == "key":
            atom.kind = SAME
    return Pattern(atoms)


def joined(*patterns: Pattern) -> Pattern:
    """Join patterns, with soft white space between them."""
    filled = [each for each in patterns if each]
    if len(filled) == 1:
        return filled[0]
    return Pattern([atom for each in filled for atom in (Atom(SPACE), *each.atoms)][1:])


def spaced(atoms: Iterable[Atom]) -> Pattern:
    """Atoms with soft white space between them."""
    soft: list[Atom] = []
    for atom in atoms:
        _soft(soft)
        soft.append(atom)
    return Pattern(soft)
