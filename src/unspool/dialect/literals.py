"""Searching text for literals, each of which may have arrived only in part."""

import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Set
from functools import cached_property
from typing import Any, Final

from .patterns import Pattern

_SHORT: Final = 256  # characters of a piece


class Literals(Set[str]):
    """Literals to search for, and which of them are matched in any case (those are in lower case here)."""

    __slots__ = ("any_case", "texts")

    def __init__(self, texts: Iterable[str], any_case: Iterable[str] = ()) -> None:
        self.any_case = frozenset(any_case)
        self.texts = frozenset(texts) | self.any_case

    def __contains__(self, text: object) -> bool:
        return text in self.texts or (isinstance(text, str) and text.isascii() and text.lower() in self.any_case)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)


def firsts(patterns: Iterable[Pattern]) -> Set[str]:
    patterns = list(patterns)
    any_case = [p.first for p in patterns if p.any_case]
    texts = frozenset(p.first for p in patterns)
    return Literals(texts, any_case) if any_case else texts


class Finder:
    """Finds the first of some literals, or the beginning of one at the end of a text.

    Attributes:
        search, match: as those of `re.Pattern`.
    """

    search: "Find"
    match: "Find"

    def __init__(self, literals: Set[str], follows: Mapping[str, str] = {}) -> None:
        """``follows``: expressions for what must follow some of the literals."""
        self._given = literals, follows
        self._any_case = literals.any_case if isinstance(literals, Literals) else frozenset[str]()
        self._longer = sorted(literal for literal in literals if len(literal) > 1)
        heads = {head for literal in literals for head in (_spellings(literal, 0, self._any_case) if literal else "")}
        short = _SHORT if "" not in literals else 0

        # The expression of a large dialect is slow to make, and most pieces contain nothing that a literal begins with.
        def search(text: str, pos: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
            return None if len(text) < short and heads.isdisjoint(text) else self._compiled[0](text, pos, end)

        def match(text: str, pos: int = 0) -> re.Match[str] | None:
            return None if short and text[pos : pos + 1] not in heads else self._compiled[1](text, pos)

        self.search, self.match = search, match

    @cached_property
    def _compiled(self) -> "tuple[Find, Find]":
        """The methods of the compiled expression, which become this finder's own."""
        compiled = re.compile(self.pattern)
        found: tuple[Find, Find] = compiled.search, compiled.match
        if self._longer:
            lower = [literal for literal in self._longer if literal in self._any_case]
            found = _searching(compiled, self._longer, lower), _matching(compiled, self._longer, lower)
        self.search, self.match = found  # other threads may search already
        return found

    @cached_property
    def pattern(self) -> str:
        """The expression; a group of it has matched what may or may not be a beginning."""
        literals, follows = self._given
        expression = _expression(literals, self._any_case, follows)
        seconds: dict[str, set[str]] = {}
        for literal in self._longer:
            seconds.setdefault(literal[0], set()).update(_spellings(literal, 1, self._any_case))
        # If only the first character of a literal is one of these, there is at most one place to look at.
        heads = "".join(map(re.escape, seconds))
        later = {c for literal in self._longer for c in literal[1:]}
        later |= {c.upper() for literal in self._any_case for c in literal[1:]}
        after = f"[^{heads}]" if later.isdisjoint(seconds) else "(?s:.)"
        size = max(map(len, self._longer), default=0)
        for head, second in seconds.items():
            one = _class(second)
            expression += rf"|{re.escape(head)}(?:{one}?|({one}{after}{{1,{size}}}+))\Z"
        return expression

    def __reduce__(self) -> tuple[Any, ...]:
        return Finder, self._given

    def __deepcopy__(self, memo: object) -> "Finder":
        return self


Find = Callable[..., re.Match[str] | None]


def _begins(text: str, literals: list[str], any_case: list[str]) -> bool:
    """Whether one of some sorted literals begins with a text, or one of others if case does not matter."""
    i = bisect_left(literals, text)
    if i < len(literals) and literals[i].startswith(text):
        return True
    return bool(any_case) and text.isascii() and not text.islower() and _begins(text.lower(), any_case, [])


def _searching(compiled: re.Pattern[str], literals: list[str], any_case: list[str]) -> Find:
    find = compiled.search

    def search(text: str, pos: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        m = find(text, pos, end)
        while m is not None and m.lastindex is not None and not _begins(m.group(), literals, any_case):
            m = find(text, m.start() + 1, end)
        return m

    return search


def _matching(compiled: re.Pattern[str], literals: list[str], any_case: list[str]) -> Find:
    find = compiled.match

    def match(text: str, pos: int = 0) -> re.Match[str] | None:
        m = find(text, pos)
        return m if m is None or m.lastindex is None or _begins(m.group(), literals, any_case) else None

    return match


def _spellings(literal: str, at: int, any_case: Container[str]) -> set[str]:
    """A character of a literal, in every case that counts."""
    return {literal[at], literal[at].upper()} if literal in any_case else {literal[at]}


def _expression(literals: Iterable[str], any_case: Container[str], follows: Mapping[str, str]) -> str:
    """An expression for any of some literals, the shortest one that is there."""
    ordered = sorted(literals, key=lambda literal: (len(literal), literal))
    by_head: dict[str, list[str]] = {}  # most begin alike
    for literal in ordered:
        spelled = [_class(_spellings(literal, i, any_case)) for i in range(len(literal))]
        if then := follows.get(literal, ""):
            size = len(literal)  # where a longer one goes on, nothing else must follow
            longer = [one for one in ordered if len(one) > size and one[:size].lower() == literal.lower()]
            spelled.append(f"(?={'|'.join([then, *(_class(_spellings(one, size, any_case)) for one in longer)])})")
        by_head.setdefault("".join(spelled[:2]), []).append("".join(spelled[2:]))
    return "|".join(f"{head}(?:{'|'.join(rests)})" for head, rests in by_head.items()) or "(?!)"


def _class(characters: set[str]) -> str:
    text = "".join(map(re.escape, sorted(characters)))
    return text if len(characters) == 1 else f"[{text}]"
