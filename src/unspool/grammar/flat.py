"""Flat nodes, which can be written as regular expressions."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from ..dialect.patterns import solid
from .nodes import Alternatives, Chars, Const, Node, Repeat, Seq, Word, seq

ANY = r"[\s\S]"  # any character

_PLAIN = "(?:[^`\\n]|``+[^`\\n])"
OPEN_SPAN = rf"(?:{ANY}*\n)?(?:{_PLAIN}|`[^`\n]{_PLAIN}*`[^`\n])*`(?:[^`\n]{_PLAIN}*(?:``+)?)?"
"""Text that ends in an open code span: an odd number of single backticks on its last line."""

MAX_CASES = 5  # how many letters of a marker are written in both cases if each mixture must be listed

_SPECIAL = frozenset('\\.+*?()|[]{}^$#&-~/"')
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def verbatim(text: str) -> str:
    """A text as a regular expression that matches nothing else."""
    return "".join(_NAMED.get(c) or ("\\" + c if c in _SPECIAL else c) for c in text)


def in_class(characters: Iterable[str]) -> str:
    """Characters as the inside of a character class."""
    return "".join(_NAMED.get(c) or ("\\" + c if c in "\\]^-[" else c) for c in characters)


def folded(text: str) -> str:
    """A regular expression for a text in any mixture of upper and lower case."""
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isascii() and c.isalpha() else verbatim(c) for c in text)


def cases(text: str) -> list[str]:
    """The beginning of a text in each mixture of cases: what contains the text, in any case, contains one."""
    found = [""]
    letters = 0
    for c in text:
        both = c.isascii() and c.isalpha()
        letters += both
        if letters > MAX_CASES:
            break
        found = [f + x for f in found for x in ((c.lower(), c.upper()) if both else (c,))]
    return found


def lacking(markers: Iterable[str], *stops: str) -> str:
    """Characters without which a text contains none of these markers, and begins none that a stop after it completes.

    Each marker gives its first sign, because letters and ``_COMMON`` are more frequent in texts, or else its first
    character. White space before a marker is soft, so it does not count.
    """
    return "".join(sorted({_lacking(m.lstrip() or m, stops) for m in markers if m}))


_COMMON = frozenset("\"'/\\,.-_")


def _lacking(marker: str, stops: tuple[str, ...]) -> str:
    at = next((i for i, c in enumerate(marker) if not (c.isalnum() or c.isspace() or c in _COMMON)), 0)
    rests = [solid(marker[i:]) for i in range(1, at + 1)]
    begun = any(r.startswith(s) or s.startswith(r) for s in map(solid, filter(None, stops)) for r in rests)
    return marker[0 if begun else at]


def expression(node: Node) -> str:
    """A flat node as a regular expression; `TypeError` if the node is not flat."""
    if isinstance(node, Const):
        return verbatim(node.text)
    if isinstance(node, Chars):
        body = f"[{'^' if node.negated else ''}{node.set}]" if node.set else ANY
        return body.replace('"', '\\"').replace("/", "\\/") + count(node.min, node.max)
    if isinstance(node, Seq):
        return "".join(_group(p) if isinstance(p, Alternatives) else expression(p) for p in node.parts)
    if isinstance(node, Alternatives):
        return "|".join(expression(p) for p in node.parts)
    if isinstance(node, Word):
        return expression(node.part)
    if isinstance(node, Repeat):
        if node.separator:
            raise TypeError("a repetition with a separator is not flat")
        return _group(node.part) + count(node.min, node.max)
    raise TypeError(f"{type(node).__name__} is not flat")


def begun(nodes: Iterable[Node], stop: str) -> list[Node]:
    """The beginnings of flat nodes that a stop after them completes: ``</a`` of ``</a>``, before the stop ``>>``.

    A text before the stop must not end with one, because the node would begin before the stop.
    """
    return list(dict.fromkeys(head for node in nodes for head in _heads(node, stop))) if stop else []


@lru_cache(4096)
def _heads(node: Node, stop: str) -> tuple[Node, ...]:
    return tuple(_begun((), node, (), stop))


def _begun(before: tuple[Node, ...], node: Node, rest: tuple[Node, ...], stop: str) -> Iterator[Node]:
    """The beginnings that end in a node, which is between others."""
    if isinstance(node, Seq):
        for i, part in enumerate(node.parts):
            yield from _begun((*before, *node.parts[:i]), part, (*node.parts[i + 1 :], *rest), stop)
    elif isinstance(node, Alternatives):
        for option in node.parts:
            if not isinstance(option, Const) or stop[0] in option.text:
                yield from _begun(before, option, rest, stop)
    elif isinstance(node, Const):
        for k in range(0 if before else 1, len(node.text)):
            if stop.startswith(node.text[k:]) and _completed(rest, stop, len(node.text) - k):
                yield seq(*before, Const(node.text[:k]))
    elif isinstance(node, Chars):
        if before and _completed((node, *rest), stop, 0):
            yield seq(*before, Chars(node.set, node.negated, 0, node.max))
    else:
        raise TypeError(f"{type(node).__name__} is not text or characters")


def _completed(parts: tuple[Node, ...], stop: str, at: int) -> bool:
    """Whether nodes match at a place in a stop."""
    if not parts:
        return True
    part, rest = parts[0], parts[1:]
    if isinstance(part, Seq):
        return _completed((*part.parts, *rest), stop, at)
    if isinstance(part, Alternatives):  # often many names: most are ruled out first
        options = [o for o in part.parts if not isinstance(o, Const) or stop.startswith(o.text, at)]
        return any(_completed((option, *rest), stop, at) for option in options)
    if isinstance(part, Const):
        return stop.startswith(part.text, at) and _completed(rest, stop, at + len(part.text))
    assert isinstance(part, Chars)
    run = _run(Chars(part.set, part.negated, 0, part.max)).match(stop, at)
    assert run is not None
    return any(_completed(rest, stop, end) for end in range(at + part.min, run.end() + 1))


@lru_cache(256)
def _run(node: Chars) -> re.Pattern[str]:
    return re.compile(expression(node))


def anchored(pattern: str) -> tuple[bool, bool]:
    """Whether a pattern of JSON Schema, which is searched for, is bound to the beginning and the end of a text."""
    return pattern.startswith("^"), pattern.endswith("$") and not pattern.endswith("\\$")


def searched(pattern: str) -> str:
    """Turn a pattern of JSON Schema into an expression for the whole text."""
    begins, ends = anchored(pattern)
    front, back = ("" if bound else ANY + "*" for bound in (begins, ends))
    return f"{front}(?:{pattern[begins : len(pattern) - ends]}){back}"


def _group(node: Node) -> str:
    return f"(?:{expression(node)})"


def count(low: int, high: int | None) -> str:
    """A quantifier, as regular expressions, Lark and EBNF write it."""
    if (low, high) == (1, 1):
        return ""
    if high is None:
        return "*" if low == 0 else "+" if low == 1 else f"{{{low},}}"
    return "?" if (low, high) == (0, 1) else f"{{{low}}}" if low == high else f"{{{low},{high}}}"
