"""Reads the regular expressions of a ``response_template`` as texts with fields, without running them."""

from typing import Final, NamedTuple

from ..errors import DialectError

_MOST: Final = 20_000
_DEEPEST: Final = 20
_SPACE: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}


class LiteralText(NamedTuple):
    """A literal text; ``optional`` if it may be missing."""

    text: str
    optional: bool = False


class Captured(NamedTuple):
    name: str


class Either(NamedTuple):
    """One of several sequences; ``optional`` if it may be missing."""

    choices: tuple[tuple["Part", ...], ...]
    optional: bool = False


class Ahead(NamedTuple):
    """A look-ahead: text that must follow, and is not consumed."""

    text: str


Part = LiteralText | Captured | Either | Ahead


def read_pattern(pattern: str, where: str) -> tuple[tuple[Part, ...], ...]:
    """The alternatives of a pattern, each a sequence. ``$`` is an empty sequence.

    A pattern may contain literals, white space of any length, named groups, alternatives, options, and a look-ahead for
    a literal at any distance. Optional white space becomes an optional text. Anything else is a `DialectError`.
    """
    if len(pattern) > _MOST:
        raise DialectError(f"{where}: a pattern of more than {_MOST:,} characters")
    return _ExpressionReader(pattern, where).alternatives(0)


class _ExpressionReader:
    def __init__(self, pattern: str, where: str) -> None:
        self.pattern = pattern
        self.where = where
        self.i = 0

    def fail(self, what: str) -> DialectError:
        return DialectError(f"{self.where}: cannot be converted: {what} at {self.i} of {self.pattern[:200]!r}")

    def alternatives(self, depth: int) -> tuple[tuple[Part, ...], ...]:
        if depth > _DEEPEST:
            raise self.fail("groups that are nested too deeply")
        found = [self.sequence(depth)]
        while self.pattern.startswith("|", self.i):
            self.i += 1
            found.append(self.sequence(depth))
        return tuple(found)

    def sequence(self, depth: int) -> tuple[Part, ...]:
        parts: list[Part] = []
        while self.i < len(self.pattern) and self.pattern[self.i] not in "|)":
            part = self.part(depth)
            if (
                isinstance(part, LiteralText)
                and parts
                and isinstance(parts[-1], LiteralText)
                and not part.optional | parts[-1].optional
            ):
                parts[-1] = LiteralText(parts[-1].text + part.text)
            elif part != LiteralText(""):
                parts.append(part)
        return tuple(parts)

    def part(self, depth: int) -> Part:
        c = self.pattern[self.i]
        if c == "(":
            return self.group(depth)
        if c in "[.":
            raise self.fail("a class outside a named group")
        if c == "$":
            self.i += 1
            return LiteralText("")
        if c == "\\":
            return self.escape()
        if c in "*+?{^" and not (c == "{" and not self.pattern[self.i + 1 : self.i + 2].isdigit()):
            raise self.fail(f"{c!r}")
        self.i += 1
        return self.counted(c)

    def escape(self) -> Part:
        c = self.pattern[self.i + 1 : self.i + 2]
        self.i += 2
        if c == "s":
            return LiteralText("" if self.quantifier() in ("*", "?") else " ")
        if not c or (c.isalnum() and c not in _SPACE):
            if c in ("Z", "z"):
                return LiteralText("")
            raise self.fail(f"\\{c}")
        return self.counted(_SPACE.get(c, c))

    def counted(self, text: str) -> Part:
        quantifier = self.quantifier()
        if quantifier in ("", "?"):
            return LiteralText(text, bool(quantifier) and not text.isspace())
        if text.isspace():
            return LiteralText(text if quantifier == "+" else "")
        raise self.fail(f"{quantifier!r} after {text!r}")

    def quantifier(self) -> str:
        c = self.pattern[self.i : self.i + 1]
        if c not in ("*", "+", "?"):
            return ""
        self.i += 1
        if self.pattern.startswith("?", self.i):
            self.i += 1
        return c

    def group(self, depth: int) -> Part:
        for opening in ("(?:", "(?P<", "(?="):
            if self.pattern.startswith(opening, self.i):
                break
        else:
            raise self.fail("a group that is neither named nor `(?:…)`")
        self.i += len(opening)
        if opening == "(?P<":
            end = self.pattern.find(">", self.i)
            name = self.pattern[self.i : end]
            self.i = self.closed(end + 1) + 1
            return Captured(name)
        if opening == "(?=":
            for anything in (r"[\s\S]*?", r"[\S\s]*?", ".*?"):
                self.i += len(anything) if self.pattern.startswith(anything, self.i) else 0
        choices = self.alternatives(depth + 1)
        if not self.pattern.startswith(")", self.i):
            raise self.fail("a group that is not closed")
        self.i += 1
        if opening == "(?=":
            return Ahead("".join(p.text for p in choices[0] if isinstance(p, LiteralText)))
        quantifier = self.quantifier()
        if quantifier not in ("", "?"):
            raise self.fail(f"{quantifier!r} after a group")
        return Either(choices, bool(quantifier))

    def closed(self, start: int) -> int:
        """The end of a group whose contents begin at ``start``, whatever they are."""
        depth, i, listed = 1, start, False
        while i < len(self.pattern):
            c = self.pattern[i]
            if c == "\\":
                i += 1
            elif listed:
                listed = c != "]"
            elif c == "[":
                listed = True
                i += self.pattern.startswith("^", i + 1)
                i += self.pattern.startswith("]", i + 1)
            elif c in "()":
                depth += 1 if c == "(" else -1
                if not depth:
                    return i
            i += 1
        raise self.fail("a group that is not closed")
