"""Flat nodes, which can be written as regular expressions."""

from .nodes import Chars, Choice, Const, Node, Repeat, Seq, Word

__all__ = ["ANY", "OPEN_SPAN", "cases", "count", "expression", "folded", "literal", "searched"]

ANY = r"[\s\S]"
"""Any character."""

_PLAIN = "(?:[^`\\n]|``+[^`\\n])"
OPEN_SPAN = rf"(?:{ANY}*\n)?(?:{_PLAIN}|`[^`\n]{_PLAIN}*`[^`\n])*`(?:[^`\n]{_PLAIN}*(?:``+)?)?"
"""Text that ends in an open code span: an odd number of single backticks on its last line."""

MAX_CASES = 5
"""How many letters of a marker are written in both cases if each mixture must be listed."""

_SPECIAL = frozenset('\\.+*?()|[]{}^$#&-~/"')
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def literal(text: str) -> str:
    """A text as a regular expression that matches nothing else."""
    return "".join(_NAMED.get(c) or ("\\" + c if c in _SPECIAL else c) for c in text)


def folded(text: str) -> str:
    """A regular expression for a text in any mixture of upper and lower case."""
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isascii() and c.isalpha() else literal(c) for c in text)


def cases(text: str) -> list[str]:
    """The beginning of a text in each mixture of cases: whatever contains the text, in any case, contains one of
    them."""
    found = [""]
    letters = 0
    for c in text:
        both = c.isascii() and c.isalpha()
        letters += both
        if letters > MAX_CASES:
            break
        found = [f + x for f in found for x in ((c.lower(), c.upper()) if both else (c,))]
    return found


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
    """Turn a pattern of JSON Schema, which is searched for, into an expression for the whole text."""
    front = "" if pattern.startswith("^") else ANY + "*"
    back = "" if pattern.endswith("$") and not pattern.endswith("\\$") else ANY + "*"
    inner = pattern[not front :]
    return f"{front}(?:{inner if back else inner[:-1]}){back}"


def _group(node: Node) -> str:
    return f"(?:{expression(node)})"


def count(low: int, high: int | None) -> str:
    """A quantifier, as regular expressions, Lark and EBNF write it."""
    if (low, high) == (1, 1):
        return ""
    if high is None:
        return "*" if low == 0 else "+" if low == 1 else f"{{{low},}}"
    return "?" if (low, high) == (0, 1) else f"{{{low}}}" if low == high else f"{{{low},{high}}}"
