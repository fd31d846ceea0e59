"""Splits a rendering into tokens: whole tags, whole words, and single characters of everything else.

A sentinel appears as one character of the private use area. Two renderings always diverge between two marks.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

NAME: Final = "\ue001\ue002\ue003"
KEY: Final = "\ue011\ue012"
VALUE: Final = "\ue021\ue022"
ID: Final = "\ue031\ue032\ue033"
ARGUMENTS: Final = "\ue041\ue042\ue043"
INDEX: Final = "\ue060"
NUMBER: Final = "\ue061"
CONTENT: Final = "\ue050"
THOUGHT: Final = "\ue051"
_KINDS: Final = (NAME, KEY, VALUE, ID, ARGUMENTS)
_MARK: Final = re.compile(
    r"<<[^<>\s][^<>\n]{0,200}>>|<[^<>\s][^<>\n]{0,200}>|\[/?[A-Za-z][\w.-]{1,40}\]|[^\W_]+(?:_[^\W_]+)*|.", re.S
)
_SAME: Final = str.maketrans({c: kind[0] for kind in _KINDS for c in kind})


def marks(text: str) -> list[str]:
    return _MARK.findall(text)


def same(text: str) -> str:
    """A text with all sentinels of one kind replaced by the same one."""
    return text.translate(_SAME)


def prefix(a: Sequence[str], b: Sequence[str]) -> int:
    """The length of the common prefix of two lists, in marks."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def suffix(a: Sequence[str], b: Sequence[str]) -> int:
    """The length of the common suffix of two lists, in marks."""
    return prefix(a[::-1], b[::-1])


class Repeated(NamedTuple):
    """The text that is written twice, and the texts around both and between them."""

    before: str
    unit: str
    separator: str
    after: str


def repeated(parts: Sequence[str], first: str, second: str) -> Repeated | None:
    """Find the repeated unit that contains each of two groups of sentinels among marks."""
    ones, others = ([i for i, mark in enumerate(parts) if any(c in mark for c in group)] for group in (first, second))
    if not ones or not others or ones[-1] >= others[0]:
        return None
    at, last, again, end = ones[0], ones[-1], others[0], others[-1]
    plain = [same(mark) for mark in parts]
    before, between, after = plain[:at], plain[last + 1 : again], plain[end + 1 :]
    opening = suffix(before, between)
    while opening and between[len(between) - opening].isspace():
        opening -= 1
    closing = min(prefix(after, between), len(between) - opening)
    cut = len(between) - opening
    unit = [*between[cut:], *plain[at : last + 1], *between[:closing]]
    return Repeated(
        "".join(before[: len(before) - opening]), "".join(unit), "".join(between[closing:cut]), "".join(after[closing:])
    )
