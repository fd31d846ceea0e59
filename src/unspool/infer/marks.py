"""Splits a rendering into tokens: whole tags, whole words, and single characters of everything else.

A sentinel appears as one character of the private use area. Two renderings always diverge between two marks.
"""

import re
from collections.abc import Iterable, Sequence
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


def same(parts: Iterable[str]) -> list[str]:
    """Marks with all sentinels of one kind replaced by the same one."""
    return [p.translate(_SAME) for p in parts]


def prefix(a: Sequence[str], b: Sequence[str]) -> int:
    """The length of the common prefix of two lists, in marks."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def suffix(a: Sequence[str], b: Sequence[str]) -> int:
    """The length of the common suffix of two lists, in marks."""
    return prefix(a[::-1], b[::-1])


def find(parts: Sequence[str], characters: str, start: int = 0) -> int:
    """The first mark from ``start`` on that contains one of the characters; -1 if there is none."""
    return next((i for i in range(start, len(parts)) if any(c in parts[i] for c in characters)), -1)


def find_last(parts: Sequence[str], characters: str, end: int | None = None) -> int:
    """The last such mark before ``end``."""
    stop = len(parts) if end is None else end
    return next((i for i in range(stop - 1, -1, -1) if any(c in parts[i] for c in characters)), -1)


class Repeated(NamedTuple):
    """The text that is written twice, and the texts around both and between them."""

    before: str
    unit: str
    separator: str
    after: str


def repeated(parts: Sequence[str], first: str, second: str) -> Repeated | None:
    """Find the repeated unit that contains each of two groups of sentinels among marks."""
    at, last = find(parts, first), find_last(parts, first)
    again, end = find(parts, second), find_last(parts, second)
    if at < 0 or not at <= last < again <= end:
        return None
    plain = same(parts)
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
