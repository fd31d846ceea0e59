"""Turns pieces of strings into the inside of JSON strings."""

import json
import re
from json.encoder import encode_basestring
from typing import Final

from ...regex import Prefix, Regex

SHORT: Final = 16
"""Pieces up to this length recur, because they are tokens; results for them are cached."""

JSON_RUN = Prefix(r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\uHHHH)*+'.replace("H", "[0-9a-fA-F]"))
JSON_PARTIAL = Regex(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
RAW_RUNS = {q: Prefix(rf"[^{q}\\]*+") for q in ("'", '"')}
# Text and escapes that can be translated without decoding; of the control characters, the common ones.
PYTHON_RUNS = {
    q: Prefix(r"[^Q\\\x00-\x08\x0b-\x1f]*+(?:\\[\\'\"ntrbf][^Q\\\x00-\x08\x0b-\x1f]*+)*+".replace("Q", q))
    for q in ("'", '"')
}


def json_string(text: str) -> str:
    """Text as a JSON string; what is not ASCII stays."""
    return encode_basestring(text)


def escaped(text: str) -> str:
    """Text as the inside of a JSON string; what is not ASCII stays."""
    return encode_basestring(text)[1:-1]


def unescaped(fragment: str) -> str:
    """The text of the inside of a JSON string."""
    if "\\" not in fragment:
        return fragment
    try:
        text: str = json.loads(f'"{fragment}"', strict=False)
    except ValueError:  # a repaired escape
        return fragment
    return text


def translated(run: str) -> str:
    """A run of a Python string (see `PYTHON_RUNS`), whose escapes are JSON's or of quotes, as JSON."""
    if "\\" not in run:
        return escaped(run)
    if "'" in run or '"' in run:
        # Escaped backslashes are masked, so that a backslash before a quote is certainly an escape.
        aside = "\\\\" in run
        if aside:
            run = run.replace("\\\\", "\x00")
        run = run.replace("\\'", "'")
        if '"' in run:
            run = run.replace('\\"', '"').replace('"', '\\"')
        if aside:
            run = run.replace("\x00", "\\\\")
    if "\n" in run:
        run = run.replace("\n", "\\n")
    if "\t" in run:
        run = run.replace("\t", "\\t")
    return run


LONG: Final = 64
"""From this length on, a Python string is read in stretches of up to `STRETCH` characters."""
STRETCH: Final = 8192
_MASKS: Final = (("\\\\", "\x00\x00", "\\\\"), ("\\'", "\x01\x01", "'"), ('\\"', "\x02\x02", '\\"'))
_ESCAPED: Final = (('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"))
_UNCOMMON = Regex(r"\\[^ntrbf]")
_CONTROLS: Final = bytes(c for c in range(32) if c not in b"\n\t")


def python_stretch(text: str, i: int, delimiter: str) -> tuple[str, int] | None:
    """The next stretch of a Python string as JSON, and its end: at the delimiter, or after `STRETCH` characters.

    ``None`` if it is too short to be worthwhile, or contains escapes that must be read one by one.
    """
    run = text[i : i + STRETCH]
    octets = run.encode("utf-8", "surrogatepass")
    if len(octets.translate(None, _CONTROLS)) < len(octets):
        return None
    # Escaped backslashes and quotes are masked, so that a quote ends the string and a backslash begins an escape.
    masked = run
    masks = [(e, m, j) for e, m, j in _MASKS if e in masked] if "\\" in run else []
    for escape, mask, _ in masks:
        masked = masked.replace(escape, mask)
    end = masked.find(delimiter)
    if end < 0:
        end = len(run) - len(delimiter) + 1
        end -= _escaped_at(run, end)
    if end < LONG or ("\\" in masked and _UNCOMMON.search(masked, 0, end)):
        return None
    masked = masked[:end]
    for character, escape in _ESCAPED:
        if character in masked:
            masked = masked.replace(character, escape)
    for _, mask, escape in masks:
        masked = masked.replace(mask, escape)
    return masked, i + end


def _escaped_at(text: str, at: int) -> bool:
    """Whether the character at ``at`` comes after an odd number of backslashes."""
    k = at
    while k and text[k - 1] == "\\":
        k -= 1
    return (at - k) % 2 == 1


def marker_scan(marker: str) -> re.Pattern[str]:
    """A pattern that finds the marker, or its beginning at the end of the text."""
    nested = ""
    for c in reversed(marker[1:]):
        nested = f"(?:{re.escape(c)}{nested}|\\Z)"
    return re.compile(re.escape(marker[0]) + nested)
