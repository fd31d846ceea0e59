"""The intermediate grammar: a few kinds of nodes, independent of dialects, that every printer can write.

`Chars`, `Const`, and sequences, choices and repetitions of them are *flat*: they match characters only, so a printer
may write them as one regular expression. `Word` demands that.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from .bounds import step

MAX_JSON_SPACE: Final = 32  # the longest white space in one place of a JSON value, in characters


class Const(msgspec.Struct, frozen=True, gc=False):
    text: str


class Chars(msgspec.Struct, frozen=True, gc=False):
    """Characters from a set."""

    # The inside of a character class as regular expressions write it: ``a-z``, ``\\x00`` for control characters,
    # ``\\\\`` before a backslash, a bracket, a caret or a hyphen that means itself. Empty: any character.
    set: str
    negated: bool = False  # the characters that are not in the set
    # min, max: how many; ``None``: no bound.
    min: int = 1
    max: int | None = 1


class Seq(msgspec.Struct, frozen=True):
    parts: "tuple[Node, ...]"


class Alternatives(msgspec.Struct, frozen=True):
    parts: "tuple[Node, ...]"


class Repeat(msgspec.Struct, frozen=True):
    part: "Node"
    min: int = 0
    max: int | None = None
    separator: str = ""


class Word(msgspec.Struct, frozen=True):
    """A flat node, matched as a unit, that contains no text of ``without``."""

    part: "Node"
    without: tuple[str, ...] = ()


class Text(msgspec.Struct, frozen=True):
    """Free text, with the marker that ends it."""

    stop: str  # the marker, which belongs to the node; ``""``: the text ends with the output
    without: tuple[str, ...] = ()  # markers that the text must not contain; ``stop`` is always one
    unlike: "tuple[Node, ...]" = ()  # flat nodes with which the text must not begin
    # min, max: its length in characters, without the marker.
    min: int = 0
    max: int | None = None
    pattern: str = ""  # a regular expression of JSON Schema that the text matches
    head: str = ""  # a fixed text before it, which belongs to the node
    # Flat nodes that the text must not contain. With them, it may contain what ``without`` lists.
    guard: "tuple[Node, ...]" = ()
    ends: "tuple[Node, ...]" = ()  # flat nodes with which the text must not end, for printers that support ``guard``
    folded: tuple[str, ...] = ()  # markers that the text must not contain in any mixture of upper and lower case
    # The marker must not be in a code span: an even number of single backticks comes before it on its line.
    code: bool = False


class Json(msgspec.Struct, frozen=True, eq=False):
    """A JSON value of a schema, whose references start at its own root."""

    schema: "dict[str, Any] | bool"
    without: tuple[str, ...] = ()  # texts that no string in it may contain
    # spelled, unspelled: the same value as other nodes, for printers that cannot exclude texts; or why not.
    spelled: "Node | None" = None
    unspelled: str = ""


class Free(msgspec.Struct, frozen=True, eq=False):
    """Text that a checked Lark grammar in the request describes, bare or in a JSON or Python string between these
    quotes. It contains no marker of ``without``; see `Freeform.written`."""

    source: str
    quote: str = ""
    without: tuple[str, ...] = ()


class Finer(msgspec.Struct, frozen=True, eq=False):
    """Two versions of a node: ``plain``, and ``exact`` for printers that support `Text.guard`."""

    plain: "Node"
    exact: "Node"


class Ref(msgspec.Struct, frozen=True, gc=False):
    """A reference to a rule of the grammar."""

    name: str


Node = Const | Chars | Seq | Alternatives | Repeat | Word | Text | Json | Free | Finer | Ref


class Grammar(msgspec.Struct, frozen=True):
    """A node, and the rules to which it and they refer. Those of ``dense`` refer to the same rules so often that
    expanding these would multiply them."""

    root: Node
    rules: dict[str, Node]
    dense: frozenset[str] = frozenset()


EMPTY = Const("")
WHITE: Final = "\\s\\x1c-\\x1f"
"""The parser's white space (Python's), as the inside of a character class for llguidance."""
SPACES: Final = Chars(WHITE, min=0, max=None)
SEPARATORS: Final = Chars(WHITE + ",;", min=0, max=None)
"""What may come between calls or arguments, so that text after a call may not begin with it and another call."""


def seq(*nodes: Node) -> Node:
    """Nodes in sequence; neighbouring texts are joined, also if one of them is a choice.

    Otherwise, engines that read words greedily would take a text for the beginning of a longer one.
    """
    found: list[Node] = []
    for part in _flattened(nodes, Seq):
        if part == EMPTY:
            continue
        if found and all(isinstance(o, Const) for o in options(found[-1])) and _begun(part):
            part = choice(_joined(one, other) for one in options(found.pop()) for other in options(part))
            found += series(part)
        else:
            found.append(part)
    step(len(found))
    return found[0] if len(found) == 1 else Seq(tuple(found)) if found else EMPTY


def options(node: Node) -> tuple[Node, ...]:
    return node.parts if isinstance(node, Alternatives) else (node,)


def series(node: Node) -> tuple[Node, ...]:
    """The nodes of which a node is the sequence."""
    return node.parts if isinstance(node, Seq) else (node,)


def _begun(node: Node) -> bool:
    """Whether everything that a node matches begins with a fixed text."""
    firsts = (series(o)[0] for o in options(node))
    return all(isinstance(f, Const) and f.text for f in firsts)


def _joined(text: Node, node: Node) -> Node:
    assert isinstance(text, Const)
    first, *rest = series(node)
    assert isinstance(first, Const)
    joined = Const(text.text + first.text)
    return Seq((joined, *rest)) if rest else joined


def choice(nodes: Iterable[Node]) -> Node:
    """A choice of nodes; equal ones are listed once."""
    found: list[Node] = []
    seen: set[Node] = set()
    for part in _flattened(nodes, Alternatives):
        if isinstance(part, Const | Ref):  # comparing others would cost more than listing them twice
            if part in seen:
                continue
            seen.add(part)
        found.append(part)
    step(len(found))
    if not found:
        raise ValueError("a choice of nothing")
    return found[0] if len(found) == 1 else Alternatives(tuple(found))


def optional(part: Node) -> Node:
    return choice((part, EMPTY))


def _flattened(nodes: Iterable[Node], kind: type[Seq] | type[Alternatives]) -> Iterator[Node]:
    for node in nodes:
        if isinstance(node, kind):
            yield from node.parts
        else:
            yield node


def children(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Seq | Alternatives):
        return node.parts
    if isinstance(node, Repeat | Word):
        return (node.part,)
    if isinstance(node, Text):
        return (*node.unlike, *node.guard, *node.ends)
    if isinstance(node, Finer):
        return (node.plain, node.exact)
    if isinstance(node, Json) and node.spelled is not None:
        return (node.spelled,)
    return ()
