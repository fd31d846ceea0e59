"""Special tokens in text that only means to speak of them: they are broken up by a zero-width space."""

import os.path
import re
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

BREAK: Final = "\u200b"
"""Stands behind the first character of what would have been a special token."""


class Marks:
    """Breaks special tokens up, wherever a value of a request spells one.

    Args:
        tokens: their texts.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        told = sorted(tokens)
        self._begins = _beginnings(told) if told else None

    def broken(self, value: Any) -> Any:
        """The value without special tokens: not in a string, a key, or in texts of parts one after another."""
        if self._begins is None:
            return value
        if isinstance(value, str):
            return self._begins.sub(rf"\g<0>{BREAK}", value)
        if isinstance(value, dict):
            return {self.broken(k): self.broken(v) for k, v in value.items()}
        if not isinstance(value, list):
            return value
        values = [self.broken(v) for v in value]
        texts = [v for v in values if isinstance(v, dict) and isinstance(v.get("text"), str)]
        if self._begins.search("".join(v["text"] for v in texts)):
            for v in texts[1:]:
                v["text"] = BREAK + v["text"]
        return values


def _beginnings(words: Iterable[str]) -> re.Pattern[str]:
    """Matches the first character of each occurrence of a word, also where they overlap.

    The words are a tree, so that even a text made of their beginnings takes linear time.

    Args:
        words: sorted.
    """
    heads = groupby(words, lambda word: word[0])
    return re.compile("|".join(f"{re.escape(c)}(?={_tree([w[1:] for w in group])})" for c, group in heads))


def _tree(words: Iterable[str]) -> str:
    """A pattern that matches where any of the sorted words begins."""
    told = []
    for _, group in groupby(words, lambda word: word[:1]):
        alike = list(group)
        common = os.path.commonprefix(alike)  # noqa: RUF071 - of strings, not of paths
        rest = _tree([w[len(common) :] for w in alike]) if common not in alike else ""
        told.append(re.escape(common) + rest)
    return f"(?:{'|'.join(told)})"
