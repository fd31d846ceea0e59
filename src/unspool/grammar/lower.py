"""Lowers a grammar to what one format can express, so that its printer only prints; and what printers share.

What a format cannot express is expressed differently, which may be narrower: free text that must not *begin* with
something does not contain it at all, and text in markup that may contain its own closing does not.
"""

from typing import Final, Protocol, TypeVar, assert_never

import msgspec

from ..dialect.patterns import worded
from ..errors import ConstraintError
from .bounds import step
from .flat import cases, count
from .freeform import NO_LARK
from .nodes import (
    Alternatives,
    Chars,
    Const,
    Finer,
    Free,
    Grammar,
    Json,
    Node,
    Ref,
    Repeat,
    Seq,
    Text,
    Word,
    options,
    series,
)

_T = TypeVar("_T", covariant=True)


class Abilities(msgspec.Struct, frozen=True):
    """What a format can express."""

    # Text that does not begin with something, or that may contain a marker unless something follows it.
    complements: bool = False
    mixed_case: bool = False  # text that contains no marker in any mixture of upper and lower case
    excludes: bool = False  # JSON whose strings do not contain some texts


def lowered(grammar: Grammar, abilities: Abilities) -> Grammar:
    """The same grammar or a narrower one, without `Finer`, what the format cannot express, and unused rules."""
    lower = _Lowering(abilities)
    root = lower.node(grammar.root)
    rules: dict[str, Node] = {}
    while missing := [name for name in lower.wanted if name not in rules]:
        rules |= {name: lower.node(grammar.rules[name]) for name in missing}
    return Grammar(root, rules, grammar.dense)


class _Lowering:
    def __init__(self, abilities: Abilities) -> None:
        self.can = abilities
        self.done: dict[int, Node] = {}  # by identity, so that shared nodes stay shared
        self.wanted: dict[str, None] = {}

    def node(self, node: Node) -> Node:
        found = self.done.get(id(node))
        if found is None:
            step()
            found = self.done[id(node)] = self.made(node)
        return found

    def made(self, node: Node) -> Node:
        match node:
            case Const() | Chars() | Word() | Free():
                return node
            case Ref():
                self.wanted[node.name] = None
                return node
            case Seq() | Alternatives():
                parts = tuple(map(self.node, node.parts))
                same = all(a is b for a, b in zip(parts, node.parts, strict=True))
                return node if same else type(node)(parts)
            case Repeat():
                part = self.node(node.part)
                return node if part is node.part else Repeat(part, node.min, node.max, node.separator)
            case Finer():
                return self.node(node.exact if self.can.complements else node.plain)
            case Json():
                if not node.without or node.spelled is None:
                    return node
                return Json(node.schema, node.without) if self.can.excludes else self.node(node.spelled)
            case Text():
                return self.text(node)

    def text(self, node: Text) -> Text:
        begins = () if self.can.complements else node.unlike
        mixed = () if self.can.mixed_case else node.folded
        if not begins and not mixed:
            return node
        more = (*(sign for u in begins for sign in signs(u)), *(c for t in mixed for c in cases(t)))
        without = tuple(t for t in dict.fromkeys((*node.without, *more)) if t and t != node.stop)
        unlike, folded = () if begins else node.unlike, () if mixed else node.folded
        return msgspec.structs.replace(node, without=without, unlike=unlike, folded=folded)


def signs(node: Node) -> list[str]:
    """Texts of which every text of a flat node contains one: if possible, names with what prose has not beside them."""
    return _signs(node, None)[1]


_MARKED, _SPOKEN, _WORD, _UNWORDED, _NONE = range(1, 6)  # how far prose may contain a sign
_NO_SIGN: Final = (_NONE, list[str]())


def _signs(node: Node, before: Node | None) -> tuple[int, list[str]]:
    """The best signs of a part, the last of several, and how far prose may contain them. ``before`` stands before the
    node."""
    parts = series(node)
    best, later = _NO_SIGN, ""
    for i in reversed(range(len(parts))):
        found = [_sign(one, parts[i - 1] if i else before, later) for one in options(parts[i])]
        worst = max(rank for rank, _ in found)
        if worst < best[0]:
            best = worst, [sign for _, each in found for sign in each]
        part = parts[i]
        later = part.text if isinstance(part, Const) else later
    return best


def _sign(node: Node, before: Node | None, later: str) -> tuple[int, list[str]]:
    if isinstance(node, Seq | Alternatives):
        return _signs(node, before)
    if not isinstance(node, Const) or not node.text:
        return _NO_SIGN
    if not worded(node.text):
        return _UNWORDED, [node.text]
    if isinstance(before, Chars) and before.set == "\"'":
        return _MARKED, [f"{q}{node.text}{q}" for q in before.set]
    text = node.text + later
    if text.isidentifier():
        return _WORD, [text]
    return _SPOKEN if text.rstrip(".:!").isidentifier() else _MARKED, [text]


class GrammarWriter(Protocol[_T]):
    """Writes the nodes of a lowered grammar. A format has a method for each kind of node."""

    def const(self, text: str) -> _T: ...
    def ref(self, name: str) -> _T: ...
    def flat(self, node: Chars | Word) -> _T: ...
    def seq(self, node: Seq) -> _T: ...
    def choice(self, node: Alternatives) -> _T: ...
    def repeat(self, node: Repeat) -> _T: ...
    def text(self, node: Text) -> _T: ...
    def json(self, node: Json) -> _T: ...

    def free(self, node: Free) -> _T:
        raise ConstraintError(NO_LARK)

    def node(self, node: Node) -> _T:
        match node:
            case Const():
                return self.const(node.text)
            case Ref():
                return self.ref(node.name)
            case Chars() | Word():
                return self.flat(node)
            case Seq():
                return self.seq(node)
            case Alternatives():
                return self.choice(node)
            case Repeat():
                return self.repeat(node)
            case Text():
                return self.text(node)
            case Json():
                return self.json(node)
            case Free():
                return self.free(node)
            case Finer():
                raise TypeError("the grammar is not lowered")
            case _:
                assert_never(node)


class Printer(GrammarWriter[str], Protocol):
    """Prints the nodes of a lowered grammar in a notation like EBNF."""

    def seq(self, node: Seq) -> str:
        return " ".join(map(self.grouped, node.parts))

    def choice(self, node: Alternatives) -> str:
        return " | ".join(map(self.node, node.parts))

    def grouped(self, node: Node) -> str:
        return f"({self.node(node)})" if isinstance(node, Alternatives) else self.node(node)

    def repeat(self, node: Repeat) -> str:
        part = f"({self.node(node.part)})"
        if not node.separator:
            return part + count(node.min, node.max)
        if node.max == 0:
            return self.const("")
        high = None if node.max is None else node.max - 1
        more = f"({self.const(node.separator)} {part})" + count(max(0, node.min - 1), high)
        return f"({part} {more})" + ("" if node.min else "?")
