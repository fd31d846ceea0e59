"""Parses regular expressions of requests into a tree, and writes them again: as they are, or for JSON strings.

It supports what engines have in common: characters, classes, groups, alternatives, counts. Anything else is refused
by name. Since expressions are written from the tree, nothing else can reach an engine.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from .bounds import step
from .flat import anchored, count, in_class
from .nodes import Chars, Const, Node, Repeat, choice, seq

MAX_DEPTH: Final = 100
MAX_COUNT: Final = 10_000
_COUNT: Final = re.compile(r"([0-9]{1,8})(?:(,)([0-9]{1,8})?)?\}")
Ranges = tuple[tuple[int, int], ...]


class Set(msgspec.Struct, frozen=True):
    """One character from a set of ranges of code points."""

    ranges: Ranges


class Series(msgspec.Struct, frozen=True):
    parts: "tuple[Part, ...]"


class Branches(msgspec.Struct, frozen=True):
    parts: "tuple[Part, ...]"


class Several(msgspec.Struct, frozen=True):
    """A repeated part; ``None``: no bound."""

    part: "Part"
    low: int
    high: int | None


Part = Set | Series | Branches | Several

_LAST: Final = 0x10FFFF
_SURROGATES: Final = (0xD800, 0xDFFF)
_DIGIT: Final = ((48, 57),)
_WORD: Final = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Final = ((9, 13), (32, 32))
_CLASSES: Final[dict[str, Ranges]] = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_NAMED: Final = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11, "a": 7, "0": 0}


def parse(pattern: str, flags: str = "") -> Part:
    """Parse a regular expression into a tree. ``^`` at its beginning and ``$`` at its end are ignored, since the whole
    text must match. The flags are any of ``i`` (ASCII letters in any case), ``s`` (``.`` is any character), ``m`` and
    ``u``. A `ValueError` names what is wrong or not supported, and its place."""
    for flag in flags:
        if flag not in "ismu":
            raise ValueError(f"the flag {flag!r} is not one of i, s, m, u")
    reader = _PatternReader(pattern, "i" in flags, "s" in flags)
    found = reader.branches(0)
    if reader.at < len(pattern):
        raise reader.wrong("')' closes nothing")
    return found


def sought(pattern: str) -> Part:
    """The tree of the texts in which a pattern of JSON Schema is found; errors are those of `parse`."""
    anything = Several(Set(((0, _LAST),)), 0, None)
    front, back = (() if bound else (anything,) for bound in anchored(pattern))
    return Series((*front, parse(pattern), *back))


def literal_of(text: str) -> Series:
    return Series(tuple(Set(((ord(c), ord(c)),)) for c in text))


def any_case(text: str) -> Series:
    """The tree of a text, with its ASCII letters in any case."""
    return Series(tuple(Set(_cases(((ord(c), ord(c)),))) for c in text))


def size(part: Part) -> int:
    return 1 + sum(map(size, _inner(part)))


def _inner(part: Part) -> "tuple[Part, ...]":
    return () if isinstance(part, Set) else (part.part,) if isinstance(part, Several) else part.parts


class _PatternReader:
    def __init__(self, text: str, any_case: bool, dot_all: bool) -> None:
        self.text = text
        self.at = 0
        self.any_case = any_case
        self.dot_all = dot_all

    def wrong(self, what: str) -> ValueError:
        return ValueError(f"{what}, at character {self.at} of {self.text[:80]!r}")

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def take(self) -> str:
        if self.at >= len(self.text):
            raise self.wrong("ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def branches(self, depth: int) -> Part:
        if depth > MAX_DEPTH:
            raise self.wrong(f"nests deeper than {MAX_DEPTH}")
        parts = [self.row(depth)]
        while self.peek() == "|":
            self.at += 1
            parts.append(self.row(depth))
        return parts[0] if len(parts) == 1 else Branches(tuple(parts))

    def row(self, depth: int) -> Part:
        parts: list[Part] = []
        while (c := self.peek()) and c not in "|)":
            if c in "^$":
                if not (c == "^" and self.at == 0) and not (c == "$" and self.at == len(self.text) - 1):
                    raise self.wrong(f"{c!r} is not supported inside an expression")
                self.at += 1
                continue
            part = self.one(depth)
            while self.peek() and self.peek() in "*+?{":
                part = self.counted(part)
            parts.append(part)
        return Series(tuple(parts))

    def one(self, depth: int) -> Part:
        c = self.take()
        if c == "(":
            if self.peek() == "?":
                self.at += 1
                if self.take() != ":":
                    raise self.wrong("only groups of the form (…) and (?:…) are supported")
            found = self.branches(depth + 1)
            if self.take() != ")":
                raise self.wrong("a group is not closed")
            return found
        if c == "[":
            return Set(self.folded(self.char_class()))
        if c == ".":
            return Set(_except(((0, _LAST),), () if self.dot_all else ((10, 10),)))
        if c in "*+?":
            raise self.wrong(f"{c!r} repeats nothing")
        return Set(self.folded(self.literal(c)))

    def literal(self, c: str) -> Ranges:
        """A character that stands for itself, or begins an escape."""
        return self.escape() if c == "\\" else ((ord(c), ord(c)),)

    def folded(self, ranges: Ranges) -> Ranges:
        return _cases(ranges) if self.any_case else ranges

    def counted(self, part: Part) -> Part:
        c = self.take()
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(c, (0, 0))
        if c == "{":
            count = _COUNT.match(self.text, self.at)
            if count is None:
                self.at -= 1
                raise self.wrong("'{' needs a count, as {2} or {2,5}; write \\{ for the character")
            self.at = count.end()
            first, comma, last = count.groups()
            low = int(first)
            high = int(last) if last else None if comma else low
            if max(low, high or 0) > MAX_COUNT or (high is not None and high < low):
                raise self.wrong(f"the counts must be at most {MAX_COUNT:,}, the smaller one first")
        if self.peek() == "?" or (self.peek() == "+" and c != "{"):
            raise self.wrong("lazy and possessive counts are not supported")
        return Several(part, low, high)

    def escape(self) -> Ranges:
        c = self.take()
        if c in _CLASSES:
            return _CLASSES[c]
        if c.lower() in _CLASSES:
            return _except(((0, _LAST),), _CLASSES[c.lower()])
        if c in "xu":
            digits = self.hex(2 if c == "x" else 4)
            return ((digits, digits),)
        if c in _NAMED:
            return ((_NAMED[c], _NAMED[c]),)
        if c.isalnum():
            raise self.wrong(f"'\\{c}' is not supported")
        return ((ord(c), ord(c)),)

    def hex(self, size: int) -> int:
        if self.peek() == "{":
            end = self.text.find("}", self.at)
            digits, self.at = self.text[self.at + 1 : max(end, self.at)], end + 1
        else:
            digits, self.at = self.text[self.at : self.at + size], self.at + size
        if not digits or len(digits) > 6 or any(d not in "0123456789abcdefABCDEF" for d in digits):
            raise self.wrong("an escape needs hexadecimal digits")
        value = int(digits, 16)
        if value > _LAST or _SURROGATES[0] <= value <= _SURROGATES[1]:
            raise self.wrong("an escape is not a character")
        return value

    def char_class(self) -> Ranges:
        negated = self.peek() == "^"
        self.at += negated
        found: list[tuple[int, int]] = []
        first = True
        while first or self.peek() != "]":
            first = False
            c = self.take()
            if c == "[" and self.peek() and self.peek() in ":.=":
                raise self.wrong("named classes are not supported")
            if c in "&-~" and self.peek() == c:
                raise self.wrong("operations on classes are not supported")
            one = self.literal(c)
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                last = self.literal(self.take())
                if len(one) != 1 or len(last) != 1 or one[0][0] != one[0][1] or last[0][0] < one[0][0]:
                    raise self.wrong("a range ends before it begins")
                one = ((one[0][0], last[0][1]),)
            found += one
        self.at += 1
        return _except(((0, _LAST),), tuple(found)) if negated else merged_ranges(found)


def merged_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return tuple(found)


def _except(ranges: Ranges, less: Ranges) -> Ranges:
    found: list[tuple[int, int]] = []
    less = merged_ranges(less)
    for low, high in ranges:
        for first, last in less:
            if last < low or first > high:
                continue
            if first > low:
                found.append((low, first - 1))
            low = last + 1
        if low <= high:
            found.append((low, high))
    return tuple(found)


def _cases(ranges: Ranges) -> Ranges:
    more = list(ranges)
    for low, high in ranges:
        for first, last, by in ((65, 90, 32), (97, 122, -32)):
            a, b = max(low, first), min(high, last)
            if a <= b:
                more.append((a + by, b + by))
    return merged_ranges(more)


# --- writing ----------------------------------------------------------------------------------------------------------

_ESCAPES: Final = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r"}


def _special(quote: str) -> Ranges:
    """The characters that strings between these quotes escape: controls, the quote and the backslash."""
    return ((0, 31), (ord(quote), ord(quote)), (92, 92)) if quote else ()


def write(part: Part, quote: str = "") -> str:
    """Write a tree as an expression for an engine, in Rust's syntax: for the text itself, or as it is spelled in a JSON
    or Python string between these quotes."""
    if isinstance(part, Set):
        words = _words(part.ranges, quote)
        return words[0] if len(words) == 1 else f"(?:{'|'.join(words)})"
    if isinstance(part, Series):
        return "".join(f"(?:{write(p, quote)})" if isinstance(p, Branches) else write(p, quote) for p in part.parts)
    if isinstance(part, Branches):
        return "|".join(write(p, quote) for p in part.parts)
    return f"(?:{write(part.part, quote)}){count(part.low, part.high)}"


def wavers(part: Part, quote: str) -> bool:
    """Whether a word of the expression may end before a character that strings escape.

    An engine's lexer would take the backslash as part of the word, so such words are rules.
    """
    if isinstance(part, Set):
        return False
    if isinstance(part, Series):
        return any(wavers(p, quote) for p in part.parts)
    return _escaped(part, quote)


def _escaped(part: Part, quote: str) -> bool:
    if isinstance(part, Set):
        return any(low <= last and high >= first for low, high in part.ranges for first, last in _special(quote))
    return any(_escaped(p, quote) for p in _inner(part))


def rule(part: Part, quote: str) -> str:
    """As `write`, but as the body of a Lark rule in which each escape is a word."""
    if not _escaped(part, quote):
        return f"/{write(part, quote)}/"
    if isinstance(part, Set):
        return _rule_of(part.ranges, quote, "")
    if isinstance(part, Series | Branches):
        return "(" + (" " if isinstance(part, Series) else " | ").join(rule(p, quote) for p in part.parts) + ")"
    if isinstance(part.part, Set) and part.high is None and part.low < 2:
        return _rule_of(part.part.ranges, quote, "+") + count(part.low, None)
    return f"({rule(part.part, quote)}){count(part.low, part.high)}"


def _rule_of(ranges: Ranges, quote: str, run: str) -> str:
    plain = _except(ranges, _special(quote))
    words = [f"/{_set(plain)}{run}/"] if plain else []
    return "(" + " | ".join([*words, *(f"/{e}/" for e in _escapes(ranges, quote))]) + ")"


def _words(ranges: Ranges, quote: str) -> list[str]:
    """Expressions for the characters of a set: one for unescaped characters, and one for each escape."""
    plain = _except(ranges, _special(quote))
    escapes = _escapes(ranges, quote)
    return [*([_set(plain)] if plain or not escapes else []), *escapes]


def _escapes(ranges: Ranges, quote: str) -> list[str]:
    return [
        _escape(code)
        for low, high in _special(quote)
        for a, b in ranges
        for code in range(max(low, a), min(high, b) + 1)
    ]


def _escape(code: int) -> str:
    if code in _ESCAPES:
        return f"\\\\{_ESCAPES[code]}"
    if code < 32:
        last = code & 15
        return f"\\\\u00{code >> 4}" + (f"{last}" if last < 10 else f"[{last:x}{last:X}]")
    return "\\\\" + _char(code)


def _set(ranges: Ranges) -> str:
    whole = _except(ranges, (_SURROGATES,))
    if not whole:
        return "[^\\x{0}-\\x{10FFFF}]"
    return "[" + "".join(_char(a) if a == b else f"{_char(a)}-{_char(b)}" for a, b in whole) + "]"


def _char(code: int) -> str:
    return chr(code) if chr(code).isalnum() and code < 128 else f"\\x{{{code:X}}}"


# --- as nodes ---------------------------------------------------------------------------------------------------------


def node(part: Part, banned: frozenset[int]) -> Node:
    """A tree as a node for the text in a JSON string. ``banned`` characters, which markers need, are escaped."""
    step()
    if isinstance(part, Set):
        return _character(part.ranges, banned)
    if isinstance(part, Several):
        return Repeat(node(part.part, banned), part.low, part.high)
    parts = [node(p, banned) for p in part.parts]
    return choice(parts) if isinstance(part, Branches) else seq(*parts)


def _character(ranges: Ranges, banned: frozenset[int]) -> Node:
    """One character of a set: as it is, or escaped. Of controls without a short escape only a lone one is kept."""
    plain = _except(ranges, (*_special('"'), _SURROGATES, *((c, c) for c in banned)))
    short = {code: f"\\{letter}" for code, letter in _ESCAPES.items()} | {34: '\\"', 92: "\\\\"}
    escaped = short | {code: f"\\u{code:04x}" for code in banned - {34, 92}}
    within = [text for code, text in sorted(escaped.items()) if any(low <= code <= high for low, high in ranges)]
    parts: list[Node] = [Chars("".join(map(_span, plain)))] if plain else []
    parts += map(Const, within)
    if not parts:
        parts = [Const(f"\\u{code:04x}") for low, high in ranges for code in range(low, min(high, 31) + 1)]
    if not parts:
        raise ValueError("a class admits no character")
    return choice(parts)


def _span(pair: tuple[int, int]) -> str:
    low, high = (in_class(chr(c)) for c in pair)
    return low if low == high else f"{low}-{high}"
