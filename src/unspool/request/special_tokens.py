"""Breaks up special tokens that a request's text spells, with a zero-width space, so that they stay text."""

import os.path
import re
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

BREAK: Final = "\u200b"
"""Inserted after the first character of what would be a special token."""


class SpecialTokens:
    """Breaks up special tokens in the values of a request.

    Args:
        tokens: their texts.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        words = sorted(tokens)
        self._begins = _beginnings(words) if words else None

    def break_up(self, value: Any) -> Any:
        """Return a value without special tokens in its strings, its keys, and the texts of adjacent parts."""
        if self._begins is None:
            return value
        if isinstance(value, str):
            return self._begins.sub(rf"\g<0>{BREAK}", value)
        if isinstance(value, dict):
            return {self.break_up(k): self.break_up(v) for k, v in value.items()}
        if not isinstance(value, list):
            return value
        values = [self.break_up(v) for v in value]
        texts = [v for v in values if isinstance(v, dict) and isinstance(v.get("text"), str)]
        if self._begins.search("".join(v["text"] for v in texts)):
            for v in texts[1:]:
                v["text"] = BREAK + v["text"]
        return values


def _beginnings(words: Iterable[str]) -> re.Pattern[str]:
    """A pattern that matches the first character of each occurrence of a word, even if they overlap.

    The pattern is a prefix tree of the words, so that even a text made of their beginnings takes linear time.

    Args:
        words: the words, sorted.
    """
    heads = groupby(words, lambda word: word[0])
    return re.compile("|".join(f"{re.escape(c)}(?={_tree([w[1:] for w in group])})" for c, group in heads))


def _tree(words: Iterable[str]) -> str:
    """A pattern that matches any of the sorted words."""
    parts = []
    for _, group in groupby(words, lambda word: word[:1]):
        alike = list(group)
        common = os.path.commonprefix(alike)  # noqa: RUF071 - of strings, not of paths
        rest = _tree([w[len(common) :] for w in alike]) if common not in alike else ""
        parts.append(re.escape(common) + rest)
    return f"(?:{'|'.join(parts)})"
