"""Searching text for literals, each of which may have arrived only in part."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Set
from typing import Any, Final

from .patterns import Pattern


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


def finder(literals: Set[str], follows: Mapping[str, str] = {}) -> re.Pattern[str]:
    """Finds the first of the literals, or the beginning of one at the end of the text. It is a trie, so the search
    reads every character once. ``follows``: expressions for what must follow some of them."""
    if not literals:
        return re.compile(r"(?!)")
    any_case = literals.any_case if isinstance(literals, Literals) else ()
    return re.compile(_trie(_tree(sorted(literals), any_case, follows)))


_Tree = dict[str, Any]
"""Maps a character, or a class, to the tree of what follows; the empty text ends a literal, with what must follow."""

_RUN: Final = 4
"""How many characters of a literal are matched together: each group takes time to compile, long ones time to fail."""


# Both are written without recursion, because literals come from users' files.


def _tree(literals: list[str], any_case: Container[str], follows: Mapping[str, str]) -> _Tree:  # in one loop
    root: _Tree = {}
    open_: list[tuple[_Tree, int, list[str]]] = [(root, 0, literals)]
    for node, depth, alive in open_:
        whole = [literal for literal in alive if len(literal) == depth]
        if whole:  # do not wait for longer ones
            then = follows.get(whole[0], "") if len(whole) == 1 else ""
            longer = [literal for literal in alive if len(literal) > depth]
            go_on = sorted({re.escape(c) for literal in longer for c in _spellings(literal, depth, any_case)})
            node[""] = f"(?={'|'.join((then, *go_on))})" if then else ""
            continue
        following: dict[str, list[str]] = {}
        for literal in alive:
            for spelling in _spellings(literal, depth, any_case):
                following.setdefault(spelling, []).append(literal)
        spelled: dict[tuple[str, ...], list[str]] = {}
        for c, those in following.items():
            spelled.setdefault(tuple(those), []).append(c)
        for rest, characters in spelled.items():
            several = "".join(map(re.escape, sorted(characters)))
            child = node[several if len(characters) == 1 else f"[{several}]"] = {}
            open_.append((child, depth + 1, list(rest)))
    return root


def _spellings(literal: str, at: int, any_case: Container[str]) -> set[str]:
    """A character of a literal, in every case that counts."""
    return {literal[at], literal[at].upper()} if literal in any_case else {literal[at]}


def _trie(root: _Tree) -> str:
    order: list[tuple[_Tree, list[tuple[list[str], _Tree]]]] = []
    heads = [root]
    for node in heads:
        runs = [_run(c, child) for c, child in node.items() if c]
        order.append((node, runs))
        heads.extend(end for _, end in runs)
    done: dict[int, str] = {}
    for node, runs in reversed(order):
        if "" in node:
            done[id(node)] = node[""]
            continue
        branches = ["".join(run) + done[id(end)] for run, end in runs]
        # At the end of the text, any beginning will do.
        parts = ["".join(run[:k]) for run, _ in runs for k in range(len(run) - 1, 0, -1)]
        if parts:
            branches.append(f"(?:{'|'.join(parts)})\\Z")
        if node is not root:
            branches.append(r"\Z")
        done[id(node)] = branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
    return done[id(root)]


def _run(c: str, node: _Tree) -> tuple[list[str], _Tree]:
    """The text that follows without a branch, and the tree after it."""
    run = [c]
    while len(run) < _RUN and len(node) == 1 and "" not in node:
        ((more, node),) = node.items()
        run.append(more)
    return run, node
