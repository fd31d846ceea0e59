"""The markers of a dialect, which open and close its parts, and the sets of markers that are searched for."""

import re
from collections.abc import Iterable, Set
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from .literals import Finder, firsts
from .loose import Loose
from .patterns import (
    DIGITS,
    FEW_SPACES,
    LITERAL,
    MAX_FIELD,
    MORE,
    NAME,
    NO,
    SPACE,
    SPACES,
    TAG_BEGINS,
    TAG_ENDS,
    WORD,
    Atom,
    Pattern,
    plain_name,
    spaced,
    worded,
)
from .template import ObjectShape, Template

# The parts that begin at an opening and end at a closing.
REASONING, FRAME, CALL, START = "reasoning", "frame", "call", "start"
REASONING_END, FRAME_END, CALL_END, BLOCK_END, END = "reasoning_end", "frame_end", "call_end", "block_end", "end"

_M = TypeVar("_M", bound="Marker")
_C = TypeVar("_C", bound="Marker | Stray | Parameter")


ARGUMENT_KEYS: Final = frozenset(("arguments", "parameters", "args", "input", "tool_arguments"))
"""Keys of arguments that are read in every call that is an object."""
NAME_KEYS: Final = frozenset(("name", "function", "function_name", "tool", "tool_name"))
"""Keys of the name of a declared tool, or of an object that contains it, that are read so."""


class Outside(NamedTuple):
    """A plain object around the arguments of a call."""

    # Matches everything from the first key up to the arguments; its groups are ``name`` and ``id``.
    header: re.Pattern[str]
    tail: re.Pattern[str]
    late: bool  # the call is announced with its arguments: its id may come after its name, or it may be no call
    quote: str  # the quote of its strings


def outside(shape: ObjectShape, *, late: bool = False) -> Outside | None:
    """How a call of this shape is written plainly, with its keys in order; ``None`` if it may not be."""
    q = shape.quote
    if q not in ("'", '"'):
        return None
    text = rf"[^{q}\\\x00-\x1f]{{1,256}}+"
    colon, comma = f"{FEW_SPACES}:{FEW_SPACES}", f"{FEW_SPACES},{FEW_SPACES}"
    if shape.name_is_key:
        header = rf"{FEW_SPACES}{q}(?P<name>{text}){q}{colon}(?=\{{)"
        return Outside(re.compile(header), re.compile(rf"{FEW_SPACES}\}}"), True, q)
    roles = [role for _, role in shape.keys]
    if roles[:1] == ["arguments"] or not {"name", "arguments"} <= set(roles) <= {"name", "arguments", "id"}:
        return None
    at = roles.index("arguments")
    if "name" not in roles[:at]:
        return None
    known = {key for key, _ in shape.keys}
    keys = "|".join(map(re.escape, (shape.keys[at][0], *sorted(ARGUMENT_KEYS - known))))
    members = [f"{q}{re.escape(key)}{q}{colon}{q}(?P<{role}>{text}){q}{comma}" for key, role in shape.keys[:at]]
    header = rf"{FEW_SPACES}{''.join(members)}{q}(?:{keys}){q}{colon}(?=\{{)"
    after = [f"(?:{comma}{q}{re.escape(key)}{q}{colon}{q}{text}{q})?" for key, _ in shape.keys[at + 1 :]]
    late = late or ("id" in roles and roles.index("id") > roles.index("name"))
    return Outside(re.compile(header), re.compile(rf"{FEW_SPACES}{''.join(after)}{FEW_SPACES}\}}"), late, q)


class Form(msgspec.Struct, eq=False, dict=True):
    """One way a call is written."""

    opening: Pattern
    closing: Pattern
    shape: ObjectShape | None
    syntax: str | None  # the syntax of the arguments; ``None`` if each argument has a template
    arguments: bool  # whether the form contains arguments at all
    marked: bool
    forced: bool = False  # a bare object accepted because the request demands a call
    other: bool = False
    """A JSON object in a block of a dialect that writes none: it counts only if it names a declared tool."""
    name: str = ""  # the tool, if the form is for one tool only
    key: str = ""  # the tool's argument, if the form contains bare text
    triggers: frozenset[str] = frozenset()  # the texts that may end the bare text
    demands: bool = False  # whether it must have arguments, because it skips text that is the name in another form
    wordless: bool = False
    """Whether it lacks the word before the name that another form has (``call:``): without arguments, the name must be
    declared."""
    discount: int = 0  # how many literal characters do not count when it is tried, so that it comes after its like
    template: Template | None = None

    @cached_property
    def bracketed(self) -> bool:
        """Whether it opens with a bracket, which its closing need not close."""
        return literals_of(self.opening).endswith("(") and not literals_of(self.closing).startswith(")")

    def surplus(self, brackets: str) -> str:
        """Those of the brackets before its closing that are too many."""
        brackets = brackets.strip()
        return brackets.removeprefix(")").lstrip() if self.bracketed else brackets

    @cached_property
    def outside(self) -> Outside | None:
        """How a call that is an object is written plainly, around its arguments."""
        return None if self.shape is None else outside(self.shape, late=self.other)

    @cached_property
    def find(self) -> Finder:
        """Finds what may end the bare text."""
        return Finder(self.triggers)


class Block(msgspec.Struct, eq=False):
    """One way a block of calls is written."""

    opening: Pattern
    closing: Pattern
    lead: str
    trail: str
    marked: bool
    margin: str = ""  # white space that it removes from the text before it: its own, or the longest of all
    inner: "Candidates[CallOpening]" = msgspec.field(default_factory=lambda: Candidates())
    """The calls that may follow in it, if they are not the dialect's."""
    template: Template | None = None


class Marker(msgspec.Struct, eq=False):
    """A marker that is searched for in text: an `Opening` or a `Closing`."""

    kind: str
    pattern: Pattern
    marked: bool = True
    """Whether letters or digits mark it. If not, it counts for declared tools, where content or a line begins."""
    block: Block | None = None  # the block that it opens or closes, alone or with a call's marker


class Opening(Marker, eq=False):
    """The beginning of a part: reasoning, a frame of content, a turn; or a `CallOpening`."""

    template: Template | None = None


class CallOpening(Opening, eq=False, kw_only=True):
    """The beginning of a call, with its block's opening or without."""

    form: Form
    spaced: bool = False  # whether it counts after any space too, though it is not marked
    anywhere: bool = False  # whether it counts anywhere, though it is not marked


class Closing(Marker, eq=False):
    """The end of a part: reasoning, a frame of content, a call, a block of calls, a turn."""


class Stray(msgspec.Struct, eq=False):
    """A marker that may occur in content and open or close nothing."""

    pattern: Pattern
    opens: bool
    closings: list[Pattern]  # if it is an opening: its closings
    text: bool = False
    """Whether it is an opening that counts only in a block: elsewhere it is text, and so are its closings."""
    inner: bool = False
    """Whether it closes an argument: it is stray only directly before a stray closing."""


class Parameter(msgspec.Struct, eq=False, dict=True):
    """One way an argument is written."""

    opening: Pattern
    closing: Pattern
    closings: list[Pattern]  # that, and those of its other spellings that no text contains
    lead: str
    trail: str
    triggers: frozenset[str]
    """The ends of its value: its closings, its call's, its block's, the next argument's opening."""
    heads: str  # the first characters of ``triggers``
    gap: str  # the text between a value and the next argument's opening, if the closing between them is missing
    held: str  # text that may belong to either: `trail`, `gap`
    vague: bool  # whether it begins as a call or a closing does, so that what follows decides
    rivals: list[Pattern]  # the markers of calls, blocks and turns
    loose: Loose | None  # the opening with a tag missing or repeated between the key and the value
    head: str  # the text before its key, if that begins it; ``""`` if anything else does
    last: str  # what the last tag before its value begins with, if there are several tags; else ``""``
    repeats: bool  # whether its value is between tags, of which the same one twice is one
    token: str  # the token before each of its tags, if its closing names it; else ``""``

    @cached_property
    def pattern(self) -> Pattern:
        """Its opening, by which `Candidates` picks it."""
        return self.opening

    @cached_property
    def windows(self) -> "Parameter":
        """The same, where the lines around its value end as on Windows."""
        texts = {name: getattr(self, name).replace("\n", "\r\n") for name in ("lead", "trail", "gap", "held")}
        return msgspec.structs.replace(self, **texts)

    @cached_property
    def find(self) -> Finder:
        """Finds what may end its value."""
        return Finder(self.triggers)

    @cached_property
    def begun(self) -> Pattern | None:
        """The text up to its first field, if that shows an argument; ``None`` if other text may begin so."""
        head = self.opening.head()
        return head if head.worded and not self.vague else None

    @cached_property
    def names(self) -> re.Pattern[str]:
        """Finds a closing that names an argument."""
        return re.compile(rf"{re.escape(self.closing.first)}([^<>\s]{{1,{MAX_FIELD}}}+)>")

    @cached_property
    def opened(self) -> re.Pattern[str] | None:
        """Matches its opening, with a group for each field, unless others begin alike. ``None``: too complex."""
        before = self.opening.plain()
        if self.vague:
            heads = [p.head().whole() or re.escape(p.first) for p in self.rivals]
            before = "" if "" in heads else f"(?!{'|'.join(dict.fromkeys(heads))}){before}"
        return re.compile(f"{FEW_SPACES}{before}") if "(?P<key>" in before else None

    @cached_property
    def plain(self) -> re.Pattern[str] | None:
        """Matches a whole argument whose value contains nothing that may end it, except its own closing. The groups are
        those of its opening, and `value`, with white space around it. ``None`` if it is too complex."""
        if self.opened is None or not (after := self.closing.plain()):
            return None
        ends = "|".join(map(re.escape, sorted(self.triggers)))
        first = re.escape(self.heads)
        again = rf"(?!\s*+{re.escape(self.last)})" if self.last else ""
        value = rf"{again}(?P<value>(?:(?!{ends})[{first}]|[^{first}]++)*+)"
        return re.compile(f"{self.opened.pattern}{value}{after}")


_HEAD: Final = 3  # the number of characters by which candidates are chosen
_HEADS: Final = 256  # how many different ones are remembered
_LONG: Final = 64  # in a longer text, `Pattern.begins` tells as much as the first literal does


class Candidates(list[_C]):
    """Markers, or strays, in the order in which they are tried; `at` picks those that may match at a place."""

    __slots__ = ("_heads",)

    def __init__(self, found: Iterable[_C] = ()) -> None:
        super().__init__(found)
        self._heads: dict[str, list[_C]] = {}

    def at(self, text: str, i: int) -> list[_C]:
        """The markers that may be at ``i``, as far as the literals before their first field tell."""
        near = self._heads.get(text[i : i + _HEAD])
        if near is None:
            near = self.near(text, i)
        if len(near) < 2:
            return near
        found, rest = [], len(text) - i
        certain = rest > _LONG
        for each in near:
            pattern = each.pattern
            if pattern.begins(text, i) and (certain or pattern.any_case or text.startswith(pattern.first[:rest], i)):
                found.append(each)
        return found

    def near(self, text: str, i: int) -> list[_C]:
        """The markers whose first characters may be at ``i``."""
        head = text[i : i + _HEAD]
        found = self._heads.get(head)
        if found is None:
            if len(self._heads) >= _HEADS:
                self._heads.clear()
            found = self._heads[head] = [each for each in self if _begins(each.pattern, head)]
        return found


class Siblings(Candidates[Parameter]):
    """The templates of the arguments, or of the elements, that may be in one container."""

    @cached_property
    def undecided(self) -> "dict[Parameter | None, Any]":
        """What may come next in a container, or a call (``None``), for those that were asked about. Objects are the
        keys, as numbers of theirs would mean others in a copy."""
        return {}

    @cached_property
    def openings(self) -> list[Pattern]:
        """What opens one of them, each once; at last, what lacks a tag or repeats one."""
        return [*dict.fromkeys(p.opening for p in self), *(loose for _, loose in self.loose)]

    @cached_property
    def loose(self) -> list[tuple[Parameter, Loose]]:
        """Those that may lack a tag, or repeat one, with such openings."""
        return [(p, p.loose) for p in self if p.loose is not None]

    @cached_property
    def unopened(self) -> list[tuple[Parameter, Loose]]:
        """The same without what is before the key."""
        return [(p, loose.unopened) for p, loose in reversed(self.loose)]

    @cached_property
    def begun(self) -> list[Pattern]:
        """The text up to their first fields, each once, if that shows one of them."""
        return [head for head in {p.opening: p.begun for p in self}.values() if head is not None]


def _begins(pattern: Pattern, head: str) -> bool:
    """Whether a pattern may match a text that begins with these characters; if they are fewer, the text ends."""
    first = pattern.first[:_HEAD]
    if head and pattern.atoms and pattern.atoms[0].kind == NAME and not plain_name(head[0]):
        return False
    head = head.lower() if pattern.any_case else head
    return head.startswith(first) or (len(head) < _HEAD and first.startswith(head))


class Scan:
    """A set of markers that may be in running text, and how to find the first of them. What it knows is made on first
    use: most of a dialect's sets are never used."""

    def __init__(
        self, markers: Iterable[Marker], strays: "list[Stray] | tuple[()]" = (), *, cuts: bool = False
    ) -> None:
        """``cuts``: text is cut where a marker may begin, even if it cannot go on."""
        self._given = (list(markers), strays)
        self._cuts = cuts

    def at(self, text: str, i: int) -> int:
        """The end of the longest marker in a text at ``i``; `NO`, or `MORE` if the text ends in one."""
        m = self.find.match(text, i)
        if m is None or m.group() not in self.triggers:
            return NO if m is None else MORE
        ends = [marker.pattern.match(text, i, {}) for marker in self.markers.at(text, i)] or [NO]
        return max(ends) if max(ends) >= 0 else min(ends)

    @cached_property
    def markers(self) -> "Candidates[Marker]":
        """The markers in the order in which they are tried, the most literal first, without those of a field."""
        return Candidates(ranked(m for m in self._given[0] if m.pattern.first))

    @cached_property
    def triggers(self) -> Set[str]:
        """The literals that the markers begin with."""
        return firsts(x.pattern for x in (*self.markers, *self._given[1]))

    @cached_property
    def find(self) -> Finder:
        """Finds a trigger, or the beginning of one at the end of the text."""
        return Finder(self.triggers, {} if self._cuts else _follows(self.markers, self._given[1]))

    @cached_property
    def heads(self) -> str:
        """The characters that triggers begin with."""
        return "".join(sorted({t[0] for t in self.triggers}))


def _follows(markers: Iterable[Marker], strays: Iterable[Stray]) -> dict[str, str]:
    """What must follow the first literals of some markers, as regular expressions. The bracket or fence that begins a
    closing, or a call without a marker, may be in a text thousands of times; so may the sign that a marker repeats."""
    followed: dict[str, set[str]] = {s.pattern.first: {""} for s in strays}
    for marker in markers:
        followed.setdefault(marker.pattern.first, set()).add(_then(marker))
    return {first: "|".join(sorted(texts)) for first, texts in followed.items() if "" not in texts}


def _then(marker: Marker) -> str:
    """A regular expression for what follows the first literal of a marker; ``""`` if that may be anything."""
    first, after = marker.pattern.first, marker.pattern.atoms[1:]
    then = next((a for a in after if a.kind != SPACE), None)
    if then is None or then.any_case:
        return ""
    # What only begins a call's marker gets a notice, and spares its closing.
    if then.kind == LITERAL and (isinstance(marker, Closing) or not marker.marked):
        return f"{SPACES if after[0].kind == SPACE else ''}(?:{re.escape(then.text[0])}|\\Z)"
    named = then.kind in (NAME, DIGITS, WORD) and not plain_name(first[0])
    other = named if then.kind != LITERAL else then.text[0] != first[0]
    return f"(?!{re.escape(first[0])})" if other and not first.strip(first[0]) else ""


class Region(msgspec.Struct, eq=False):
    """A stretch of running text, with the markers that count in it."""

    scan: Scan
    inner: str = ""  # white space at its end that belongs to its closing
    margin: str = ""  # white space of which a block of calls, or reasoning, may remove a part at its end


class Outline(msgspec.Struct, eq=False, dict=True):
    """The markers that count in each place. A plan has two: for when calls are read, and for when they are text."""

    calls: bool
    edge: Candidates[Marker]  # what may begin at a boundary, the most literal first
    # text, frame: content outside of frames, and in a frame.
    text: Region
    frame: Region
    reasoning: Region
    undecided: Scan  # text that the next marker decides to be reasoning or content
    strays: Candidates[Stray]  # markers that are dropped if they open or close nothing

    @cached_property
    def marked(self) -> Candidates[Marker]:
        """What may begin at a boundary with a marker."""
        return Candidates(m for m in self.edge if m.marked and m.pattern.first)


def ranked(markers: Iterable[_M]) -> list[_M]:
    """Markers with the most literal first; among equals, the ends of turns come last, and other formats after all."""

    def rank(m: Marker) -> tuple[bool, int, bool]:
        form = m.form if isinstance(m, CallOpening) else None
        other, discount = (False, 0) if form is None else (form.other, form.discount)
        return other, discount - m.pattern.weight, m.kind in (END, START)

    return sorted(markers, key=rank)


def is_spelled(o: Marker) -> bool:
    """Whether a marker is another spelling of the dialect's own."""
    template = o.form.template if isinstance(o, CallOpening) else o.template if isinstance(o, Opening) else None
    return template is not None and template.spelled is not None


@lru_cache(256)
def tags(pattern: Pattern) -> tuple[Pattern, ...]:  # one pass that groups atoms
    """The tags and special tokens in a pattern that contain no field."""
    found: list[Pattern] = []
    group: list[Atom] = []
    for atom in (*pattern.atoms, None):
        if atom is not None and atom.kind == SPACE:
            continue
        text = "".join(a.text for a in group)
        whole = group and (text[-1] in TAG_ENDS or not worded(text))
        if group and (atom is None or (whole and (atom.kind != LITERAL or atom.text[0] in TAG_BEGINS))):
            fixed = all(a.kind == LITERAL for a in group)
            if fixed and text[-1] in TAG_ENDS and text[0] in TAG_BEGINS and worded(text):
                found.append(spaced(group))
            group = []
        if atom is not None:
            group.append(atom)
    return tuple(found)


def tag_of(pattern: Pattern) -> str:
    """The tag or special token with which a pattern begins; ``""`` if it begins otherwise."""
    first = pattern.first
    if not first or first[0].isalnum():
        return ""
    ends = (i + 1 for i, c in enumerate(first) if c in TAG_ENDS and worded(first[:i]))
    return first[: next(ends, 0)]


@lru_cache(256)
def literals_of(pattern: Pattern) -> str:
    return "".join(a.text for a in pattern.atoms if a.kind == LITERAL)
