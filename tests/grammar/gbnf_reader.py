"""Reads GBNF exactly: all ways to read a text are followed at once, as in llama.cpp.

llguidance's converter makes words of a grammar, which are read greedily: it gets stuck if one word begins like another.
"""

import re
from collections.abc import Iterator
from typing import Any

_TOKEN = re.compile(
    r"""\s*(?:"(?P<text>(?:[^"\\]|\\.)*)"|\[(?P<chars>(?:[^\]\\]|\\.)*)\]|(?P<count>[*+?]|\{\d+(?:,\d*)?\})"""
    r"|(?P<name>\w+)|(?P<sign>[()|]))",
    re.S,
)
_CHARACTER = re.compile(r"\\x(?P<code>[0-9A-Fa-f]{2})|\\(?P<escaped>.)|(?P<plain>.)", re.S)
_NAMED = {"n": "\n", "r": "\r", "t": "\t"}
_COUNTS = {"*": "{0,}", "+": "{1,}", "?": "{0,1}"}
_END = 0
_MAX_OPEN = 10_000


class _Chars:
    """One character: in one of these ranges, or in none."""

    def __init__(self, ranges: list[tuple[str, str]], *, negated: bool = False) -> None:
        self.ranges = ranges
        self.negated = negated

    def has(self, c: str) -> bool:
        return any(low <= c <= high for low, high in self.ranges) != self.negated


class _Rule:
    """One of several sequences."""

    def __init__(self, *sequences: list[Any]) -> None:
        self.sequences = list(sequences)


class _Times:
    """A repeated part."""

    def __init__(self, part: Any, low: int, high: int | None) -> None:
        self.part = part
        self.low = low
        self.high = high
        self._fewer: _Times | None = None

    def fewer(self) -> "_Times":
        """What is left after one of them; always the same object."""
        if self._fewer is None:
            high = None if self.high is None else self.high - 1
            done = (self.low, self.high) == (0, None)
            self._fewer = self if done else _Times(self.part, max(0, self.low - 1), high)
        return self._fewer


class Reader:
    """A grammar in GBNF, as `unspool.grammar.gbnf` writes it.

    What must still be read is a number: that of a part and of what must be read after it.

    Raises:
        ValueError: the text is no such grammar, or a rule begins with itself.
    """

    def __init__(self, grammar: str) -> None:
        self._rests: list[tuple[Any, int]] = [(None, _END)]
        self._numbers: dict[tuple[int, int], int] = {}
        self._opened: dict[int, tuple[list[tuple[_Chars, int]], bool]] = {}
        rules: dict[str, _Rule] = {}
        defined = []
        for line in grammar.removesuffix("\n").split("\n"):
            name, sign, body = line.partition(" ::= ")
            defined.append(name)
            read, rest = _alternatives(list(_tokens(body)), rules)
            if not sign or rest:
                raise ValueError(f"cannot be read: {line!r} from {rest!r} on")
            rules.setdefault(name, _Rule()).sequences = read.sequences
        if sorted(defined) != sorted(rules):
            raise ValueError(f"rules are missing or there twice: {sorted(defined)} for {sorted(rules)}")
        self._root = self._rest(rules["root"], _END)

    def takes(self, text: str) -> bool:
        """Whether the grammar accepts a text."""
        rests = {self._root}
        for c in text:
            rests = {then for rest in rests for chars, then in self._open(rest)[0] if chars.has(c)}
        return any(self._open(rest)[1] for rest in rests)

    def _rest(self, part: Any, then: int) -> int:
        number = self._numbers.setdefault((id(part), then), len(self._rests))
        if number == len(self._rests):
            self._rests.append((part, then))
        return number

    def _open(self, rest: int) -> tuple[list[tuple[_Chars, int]], bool]:
        """The characters that may come first, each with what must be read after it, and whether nothing must."""
        if rest not in self._opened:
            found = []
            waiting = [rest]
            for each in waiting:
                if len(waiting) > _MAX_OPEN:
                    raise ValueError("a rule begins with itself")
                part, then = self._rests[each]
                if isinstance(part, _Chars):
                    found.append((part, then))
                else:
                    waiting += [n for n in self._next(part, then) if n not in waiting]
            self._opened[rest] = found, _END in waiting
        return self._opened[rest]

    def _next(self, part: Any, then: int) -> Iterator[int]:
        if isinstance(part, _Rule):
            for sequence in part.sequences:
                rest = then
                for one in reversed(sequence):
                    rest = self._rest(one, rest)
                yield rest
        elif isinstance(part, _Times):
            if part.low == 0:
                yield then
            if part.high != 0:
                yield self._rest(part.part, self._rest(part.fewer(), then))


def _tokens(body: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(body):
        m = _TOKEN.match(body, at)
        if m is None or m.lastgroup is None:
            raise ValueError(f"cannot be read: {body[at:]!r}")
        yield m.lastgroup, m[m.lastgroup]
        at = m.end()


def _alternatives(tokens: list[tuple[str, str]], rules: dict[str, _Rule]) -> tuple[_Rule, list[tuple[str, str]]]:
    """Sequences up to the end or to a closing bracket, and the tokens from there on."""
    read = _Rule([])
    while tokens and tokens[0] != ("sign", ")"):
        (kind, text), *tokens = tokens
        sequence = read.sequences[-1]
        if (kind, text) == ("sign", "|"):
            read.sequences.append([])
        elif kind == "sign":
            inner, rest = _alternatives(tokens, rules)
            if not rest:
                raise ValueError("a bracket is not closed")
            tokens = rest[1:]
            sequence.append(inner)
        elif kind == "name":
            sequence.append(rules.setdefault(text, _Rule()))
        elif kind == "count":
            low, comma, high = _COUNTS.get(text, text)[1:-1].partition(",")
            sequence.append(_Times(sequence.pop(), int(low), int(high) if high else None if comma else int(low)))
        elif kind == "chars":
            sequence.append(_class(text))
        else:
            sequence.append(_Rule([_Chars([(c, c)]) for c, _ in _characters(text)]))
    return read, tokens


def _class(text: str) -> _Chars:
    negated = text.startswith("^")
    found = list(_characters(text[negated:]))
    ranges = []
    while found:
        low = found.pop(0)[0]
        if len(found) > 1 and found[0] == ("-", True):
            ranges.append((low, found[1][0]))
            found = found[2:]
        else:
            ranges.append((low, low))
    return _Chars(ranges, negated=negated)


def _characters(text: str) -> Iterator[tuple[str, bool]]:
    """Each character of a literal or a class, and whether it is written as itself."""
    for m in _CHARACTER.finditer(text):
        if m["code"]:
            yield chr(int(m["code"], 16)), False
        elif m["escaped"]:
            yield _NAMED.get(m["escaped"], m["escaped"]), False
        else:
            yield m["plain"], True
