"""Flat nodes as regular expressions."""

from .nodes import Chars, Choice, Const, Node, Repeat, Seq, Word

__all__ = ["ANY", "count", "expression", "literal", "searched"]

ANY = r"[\s\S]"
"""Any character."""

_SPECIAL = frozenset('\\.+*?()|[]{}^$#&-~/"')
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def literal(text: str) -> str:
    """A text as a regular expression that matches nothing else."""
    return "".join(_NAMED.get(c) or ("\\" + c if c in _SPECIAL else c) for c in text)


def expression(node: Node) -> str:
    """A flat node as a regular expression.

    Raises:
        TypeError: the node is not flat.
    """
    if isinstance(node, Const):
        return literal(node.text)
    if isinstance(node, Chars):
        body = f"[{'^' if node.negated else ''}{node.set}]" if node.set else ANY
        return body.replace('"', '\\"').replace("/", "\\/") + count(node.min, node.max)
    if isinstance(node, Seq):
        return "".join(_group(p) if isinstance(p, Choice) else expression(p) for p in node.parts)
    if isinstance(node, Choice):
        return "|".join(expression(p) for p in node.parts)
    if isinstance(node, Word):
        return expression(node.part)
    if isinstance(node, Repeat):
        if node.separator:
            raise TypeError("a repetition with a separator is not flat")
        return _group(node.part) + count(node.min, node.max)
    raise TypeError(f"{type(node).__name__} is not flat")


def searched(pattern: str) -> str:
    """A pattern of JSON Schema, which is searched for, as an expression for the whole of a text."""
    front = "" if pattern.startswith("^") else ANY + "*"
    back = "" if pattern.endswith("$") and not pattern.endswith("\\$") else ANY + "*"
    inner = pattern[not front :]
    return f"{front}(?:{inner if back else inner[:-1]}){back}"


def _group(node: Node) -> str:
    return f"(?:{expression(node)})"


def count(low: int, high: int | None) -> str:
    """How often what stands before it comes, as regular expressions, Lark and EBNF write it."""
    if (low, high) == (1, 1):
        return ""
    if high is None:
        return "*" if low == 0 else "+" if low == 1 else f"{{{low},}}"
    return "?" if (low, high) == (0, 1) else f"{{{low}}}" if low == high else f"{{{low},{high}}}"
