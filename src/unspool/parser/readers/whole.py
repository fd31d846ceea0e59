"""Literals that are complete in the text and plain: they are read at once."""

import json
import re
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring
from math import isinf
from typing import Any, Final

from ...dialect.patterns import NO
from ...dialect.syntax import KEYWORDS
from .strings import json_string

MAX_DEPTH: Final = 512
MAX_WORD: Final = 64
WORDS = {"true": "true", "false": "false", "null": "null"}
PYTHON_WORDS = WORDS | {"True": "true", "False": "false", "None": "null"}

LONGEST: Final = 4096  # the longest object or array, in characters, that is read in one go


def whole_object(text: str, i: int) -> int:
    """The end of the object that begins at ``i``, if it is plain; else 0, which decides nothing."""
    return whole_value(text, i, 0) if text.startswith("{", i) else 0


def whole_value(text: str, i: int, depth: int) -> int:
    """The end of the object or array that begins at ``i``, if it is plain; else 0, which decides nothing.

    It is plain if a `LiteralReader` would pass it on unchanged, without a notice: strict JSON, no repeated key, no
    number beyond a float, not too deep. ``depth``: how many brackets are open around it.
    """
    if text.find("}" if text[i] == "{" else "]", i, i + LONGEST) < 0:
        return 0
    piece = text[i : i + LONGEST]
    try:
        value, end = _scan(piece, 0)
        members = len(value) if piece[0] == "{" else 0
        if members != piece.count(":", 0, end):  # else each member has a key of its own, and no string a colon
            end = _scan_members(piece, 0)[1]
    except (ValueError, RecursionError, StopIteration):
        return 0
    return i + end if depth + piece.count("{", 0, end) + piece.count("[", 0, end) <= MAX_DEPTH else 0


def _members(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len(dict(pairs)) < len(pairs):
        raise ValueError("a key is given twice")


def _float(number: str) -> float:
    value = float(number)
    if isinf(value):
        raise ValueError("a number too large for a float")
    return value


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _scanner(**hooks: Any) -> Callable[[str, int], tuple[Any, int]]:
    decoder = json.JSONDecoder(parse_float=_float, parse_constant=_constant, **hooks)
    return decoder.scan_once  # type: ignore[attr-defined, no-any-return]  # it is no part of the stub


_scan: Final = _scanner()
_scan_members: Final = _scanner(object_pairs_hook=_members)
"""Reads one value, without the checks of `json.JSONDecoder.raw_decode`."""

_GAP: Final = r"\s{0,64}+"
_NUMBER: Final = r"-?(?:0|[1-9][0-9]{0,200}+)(?:\.[0-9]{1,90})?"


@lru_cache(64)
def _member(python: bool, quote: str) -> re.Pattern[str]:
    """Matches a plain member and the comma or bracket after it: its key, a string, what JSON writes alike, a word."""
    q = re.escape(quote)
    if python:
        key = rf"{q}([^{q}\\]{{1,256}}+){q}{_GAP}:" if q else rf"({KEYWORDS}){_GAP}="
        string, words = r"""(?:'([^'\\]*+)'|"([^"\\]*+)")""", "True|False|None|true|false|null"
    else:
        key = rf"((?!{q}|[\"'])[^:=,{{}}\[\]<\s]{{1,256}}+){_GAP}:"
        string = rf"{q}((?:(?!{q})[{re.escape(quote[0])}]|[^{re.escape(quote[0])}]++)*+)()?{q}"
        words = "true|false|null"
    end = "[,}]" if q else "[,)]"
    return re.compile(rf"{_GAP}{key}{_GAP}(?:{string}|({_NUMBER})|({words})){_GAP}({end})")


def whole_members(text: str, i: int, *, python: bool, quote: str) -> tuple[str, int]:
    """The JSON of plain keyword arguments, or of a plain object with other quotes, and where its bracket closes.

    They begin after the opening bracket, at ``i``. The text is ``""`` if they are not plain, or not complete. Keywords
    have no quote.
    """
    member = _member(python, quote)
    found: dict[str, str] = {}
    while True:
        m = member.match(text, i)
        if m is None:
            return "", NO
        key, string, other, number, word, after = m.groups()
        if key in found or len(key) > MAX_WORD:
            return "", NO
        string = other if string is None else string
        found[key] = json_string(string) if string is not None else number or PYTHON_WORDS[word]
        i = m.end()
        if after != ",":
            inside = ", ".join([f"{encode_basestring(key)}: {value}" for key, value in found.items()])
            return f"{{{inside}}}", i - 1
