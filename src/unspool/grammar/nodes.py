"""The intermediate grammar: a few kinds of nodes that know no dialect, and that every printer can write.

`Chars`, `Const`, and sequences, choices and repetitions of them are *flat*: they stand for characters alone, so that a
printer may write them as one regular expression. `Word` asks for that.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from .bounds import step

MAX_JSON_SPACE: Final = 32
"""How many characters of white space may be in one place of a JSON value."""


class Const(msgspec.Struct, frozen=True, gc=False):
    """This very text."""

    text: str


class Chars(msgspec.Struct, frozen=True, gc=False):
    """Characters of a set.

    Attributes:
        set: the inside of a character class as regular expressions write it: ``a-z``, ``\\x00`` for control characters,
            ``\\\\`` before a backslash, a bracket, a caret or a hyphen that means itself. Empty: any character.
        negated: those that are not in the set.
        min, max: how many; ``None``: no bound.
    """

    set: str
    negated: bool = False
    min: int = 1
    max: int | None = 1


class Seq(msgspec.Struct, frozen=True):
    """One after another."""

    parts: "tuple[Node, ...]"


class Choice(msgspec.Struct, frozen=True):
    """One of them."""

    parts: "tuple[Node, ...]"


class Repeat(msgspec.Struct, frozen=True):
    """A node several times, with a text between two of them."""

    part: "Node"
    min: int = 0
    max: int | None = None
    separator: str = ""


class Word(msgspec.Struct, frozen=True):
    """A flat node, to be matched as a unit.

    Attributes:
        without: texts that it does not contain.
        unlike: what the whole of it is not.
    """

    part: "Node"
    without: tuple[str, ...] = ()
    unlike: "tuple[Node, ...]" = ()


class Text(msgspec.Struct, frozen=True):
    """Free text, and the marker that ends it.

    Attributes:
        stop: the marker, which belongs to the node; ``""``: the text ends with the output.
        without: markers that the text does not contain; ``stop`` is always one.
        unlike: flat nodes; the text begins with none of them.
        min, max: its length in characters, without the marker.
        pattern: a regular expression of JSON Schema that it matches.
        head: a text before it, which belongs to the node.
        guard: flat nodes; the text contains none of them. Printers that can keep to them let it contain what
            ``without`` lists.
        folded: markers that the text does not contain in any mixture of upper and lower case.
        code: the marker is not in a code span: on its line, an even number of single backticks is before it.
    """

    stop: str
    without: tuple[str, ...] = ()
    unlike: "tuple[Node, ...]" = ()
    min: int = 0
    max: int | None = None
    pattern: str = ""
    head: str = ""
    guard: "tuple[Node, ...]" = ()
    folded: tuple[str, ...] = ()
    code: bool = False


class Json(msgspec.Struct, frozen=True, eq=False):
    """A JSON value.

    Attributes:
        schema: its JSON Schema; references start at its own root.
        without: texts that no string in it contains.
        spelled: the same value as other nodes, for printers that cannot keep texts out of strings.
    """

    schema: "dict[str, Any] | bool"
    without: tuple[str, ...] = ()
    spelled: "Node | None" = None


class Free(msgspec.Struct, frozen=True, eq=False):
    """Text by a grammar of the request's own.

    Attributes:
        source: that, in Lark; it has been checked.
        quote: the quotes of the string of JSON or Python in which the text is; ``""``: it stands alone.
        without: markers that the text does not contain; see `Freeform.written`.
    """

    source: str
    quote: str = ""
    without: tuple[str, ...] = ()


class Finer(msgspec.Struct, frozen=True, eq=False):
    """The same in two ways: ``plain``, and ``exact`` for printers that can keep text to `Text.guard`."""

    plain: "Node"
    exact: "Node"


class Ref(msgspec.Struct, frozen=True, gc=False):
    """A rule of the grammar."""

    name: str


Node = Const | Chars | Seq | Choice | Repeat | Word | Text | Json | Free | Finer | Ref


class Grammar(msgspec.Struct, frozen=True):
    """A node, and the rules that it and they refer to.

    Attributes:
        dense: rules whose parts refer to the same rules so often that writing those out would multiply them.
    """

    root: Node
    rules: dict[str, Node]
    dense: frozenset[str] = frozenset()


EMPTY = Const("")
WHITE: Final = "\\s\\x1c-\\x1f"
"""White space as the parser has it (Python's), as the inside of a character class of llguidance."""


def seq(*parts: Node) -> Node:
    """The parts one after another; neighbouring texts are joined, also where one is chosen from several.

    Engines that read words greedily would otherwise take a text for the beginning of a longer one that may be there.
    """
    found: list[Node] = []
    for part in _flattened(parts, Seq):
        if part == EMPTY:
            continue
        if found and _is_text(found[-1]) and _begun(part):
            part = choice(_joined(one, other) for one in _options(found.pop()) for other in _options(part))
            found += part.parts if isinstance(part, Seq) else (part,)
        else:
            found.append(part)
    step(len(found))
    return found[0] if len(found) == 1 else Seq(tuple(found)) if found else EMPTY


def _options(node: Node) -> tuple[Node, ...]:
    return node.parts if isinstance(node, Choice) else (node,)


def _is_text(node: Node) -> bool:
    """Whether a node is a text, or one of several."""
    return all(isinstance(o, Const) for o in _options(node))


def _begun(node: Node) -> bool:
    """Whether every text of a node begins with a text of its own."""
    firsts = (o.parts[0] if isinstance(o, Seq) else o for o in _options(node))
    return all(isinstance(f, Const) and f.text for f in firsts)


def _joined(text: Node, node: Node) -> Node:
    assert isinstance(text, Const)
    first, *rest = node.parts if isinstance(node, Seq) else (node,)
    assert isinstance(first, Const)
    joined = Const(text.text + first.text)
    return Seq((joined, *rest)) if rest else joined


def choice(parts: Iterable[Node]) -> Node:
    """One of the parts; those that are the same are named once."""
    found: list[Node] = []
    seen: set[Node] = set()
    for part in _flattened(parts, Choice):
        if isinstance(part, Const | Ref):  # comparing others would cost more than naming them twice
            if part in seen:
                continue
            seen.add(part)
        found.append(part)
    step(len(found))
    if not found:
        raise ValueError("a choice of nothing")
    return found[0] if len(found) == 1 else Choice(tuple(found))


def optional(part: Node) -> Node:
    """The part, or nothing."""
    return choice((part, EMPTY))


def _flattened(parts: Iterable[Node], kind: type[Seq] | type[Choice]) -> Iterator[Node]:
    for part in parts:
        if isinstance(part, kind):
            yield from part.parts
        else:
            yield part


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly within a node."""
    if isinstance(node, Seq | Choice):
        return node.parts
    if isinstance(node, Repeat):
        return (node.part,)
    if isinstance(node, Word):
        return (node.part, *node.unlike)
    if isinstance(node, Text):
        return (*node.unlike, *node.guard)
    if isinstance(node, Finer):
        return (node.plain, node.exact)
    if isinstance(node, Json) and node.spelled is not None:
        return (node.spelled,)
    return ()
