"""The inside of strings: pieces of them as the inside of a JSON string."""

import re
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final

SHORT: Final = 16
"""Pieces up to this length recur, since they are tokens: what was found out about them is remembered."""

JSON_RUN = re.compile(r'[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+')
JSON_PARTIAL = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
RAW_RUNS = {q: re.compile(rf"[^{q}\\]*+") for q in ("'", '"')}
# Text with the escapes that need no look at what they stand for.
PYTHON_RUNS = {q: re.compile(rf"[^{q}\\]*+(?:\\[\\'\"ntrbf][^{q}\\]*+)*+") for q in ("'", '"')}
_CONTROL = re.compile(r"[\x00-\x1f]")


def escaped(text: str) -> str:
    """Text as the inside of a JSON string; what is not ASCII stays."""
    return encode_basestring(text)[1:-1]


@lru_cache(4096)
def json_piece(text: str) -> bool:
    """Whether a piece from inside a JSON string is valid, whole, and does not end the string."""
    return bool(text) and JSON_RUN.fullmatch(text) is not None


@lru_cache(4096)
def escaped_piece(text: str) -> str:
    """`escaped`, remembered."""
    return escaped(text)


@lru_cache(4096)
def python_piece(text: str, quote: str) -> str | None:
    """A piece from inside a Python string as JSON, if it neither ends the string nor breaks off in an escape."""
    return translated(text) if PYTHON_RUNS[quote].fullmatch(text) else None


@lru_cache(4096)
def quoted_piece(text: str, stop: str) -> str | None:
    """A piece from inside an unescaped string as JSON, if it does not hold what may end the string."""
    return escaped(text) if stop not in text else None


def translated(run: str) -> str:
    """A run of a Python string whose escapes are JSON's, or of quotes, as JSON."""
    if "\\" not in run:
        return escaped(run)
    if "\x00" in run:
        return "\\u0000".join(translated(part) for part in run.split("\x00"))
    if "'" in run or '"' in run:
        # Escaped backslashes step aside, so that a backslash in front of a quote is an escape for certain.
        aside = "\\\\" in run
        if aside:
            run = run.replace("\\\\", "\x00")
        run = run.replace("\\'", "'")
        if '"' in run:
            run = run.replace('\\"', '"').replace('"', '\\"')
        if aside:
            run = run.replace("\x00", "\\\\")
    return run if run.isprintable() else _CONTROL.sub(_control, run)


def _control(m: re.Match[str]) -> str:
    return escaped(m.group())


def marker_scan(marker: str) -> re.Pattern[str]:
    """Finds the marker, or its beginning at the end of the text."""
    nested = ""
    for c in reversed(marker[1:]):
        nested = f"(?:{re.escape(c)}{nested}|\\Z)"
    return re.compile(re.escape(marker[0]) + nested)
