"""Breaks up special tokens that a request's text spells, with a zero-width space, so that they stay text."""

import html
import os.path
import re
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

BREAK: Final = "\u200b"
"""Inserted after the first character of what would be a special token."""

_MARKER: Final = re.compile(
    r"<[^\s<>]{1,64}>"  # <|im_start|>, <think>, </s>, <｜User｜>, <|"|>
    r"|\[/?\w*[A-Z]{2}\w*\]"  # [INST], [gMASK]
    r"|\[\|[^\s\[\]]{1,64}\|\]"  # [|user|]
    r"|[\[\]](?=[^\[\]\s]*[~!])[^\[\]\s]{1,8}[\[\]]"  # ]~b], [e~[, ]!p~[
)
_ESCAPE: Final = re.compile(
    r"(?<!\\)\\++(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([^\w\s]))"  # of JSON and Python, however often escaped
    r"|(&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,31});?)"  # of HTML
)


def markers(texts: Iterable[str]) -> set[str]:
    """What looks like a special token in texts that a template or a dialect writes."""
    return {found for text in texts for found in _MARKER.findall(text)}


class SpecialTokens:
    """Breaks up special tokens in the values of a request."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self.words = tuple(sorted(set(tokens)))
        self._begins = _beginnings(self.words) if self.words else None

    def break_up(self, value: Any) -> Any:
        """Return a value without special tokens in its strings, its keys, and the texts of adjacent parts. A token in
        escapes of JSON or HTML is broken up as well, since a template may decode them."""
        if self._begins is None:
            return value
        if isinstance(value, str):
            return self._break_up_escaped(self._begins.sub(rf"\g<0>{BREAK}", value))
        if isinstance(value, dict):
            return {self.break_up(k): self.break_up(v) for k, v in value.items()}
        if not isinstance(value, list):
            return value
        values = [self.break_up(v) for v in value]
        texts = [v for v in values if isinstance(v, dict) and isinstance(v.get("text"), str)]
        if self.spelled("".join(v["text"] for v in texts)):
            for v in texts[1:]:
                v["text"] = BREAK + v["text"]
        return values

    def spelled(self, text: str) -> bool:
        """Whether a text spells a special token, as it is or in escapes."""
        if self._begins is None:
            return False
        if self._begins.search(text):
            return True
        return ("\\" in text or "&" in text) and bool(self._begins.search(_ESCAPE.sub(_decoded, text)))

    def places(self, text: str) -> list[int]:
        """The positions in a text at which special tokens begin."""
        return [] if self._begins is None else [found.start() for found in self._begins.finditer(text)]

    def _break_up_escaped(self, text: str) -> str:
        """Break up what becomes a special token if the escapes in a text are decoded."""
        if self._begins is None or not ("\\" in text or "&" in text):
            return text
        if not self._begins.search(_ESCAPE.sub(_decoded, text)):
            return text
        plain: list[str] = []
        ends: list[int] = []  # of each decoded character in the text
        at = 0
        for found in _ESCAPE.finditer(text):
            decoded = _decoded(found)
            plain += (text[at : found.start()], decoded)
            ends += range(at + 1, found.start() + 1)
            ends += [found.end()] * len(decoded)
            at = found.end()
        plain.append(text[at:])
        ends += range(at + 1, len(text) + 1)
        pieces: list[str] = []
        at = 0
        for place in self.places("".join(plain)):
            pieces.append(text[at : ends[place]])
            at = ends[place]
        return BREAK.join([*pieces, text[at:]])


def _decoded(escape: re.Match[str]) -> str:
    if escape[4]:
        return html.unescape(escape[4])
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else escape[3]


def _beginnings(words: Iterable[str]) -> re.Pattern[str]:
    """A pattern that matches the first character of each occurrence of a sorted word, even if they overlap.

    The pattern is a prefix tree of the words, so that even a text made of their beginnings takes linear time.
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
