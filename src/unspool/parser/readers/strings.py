"""Turns pieces of strings into the inside of JSON strings."""

import json
import re
from codecs import raw_unicode_escape_encode, unicode_escape_decode
from json.decoder import scanstring  # type: ignore[attr-defined]  # it has no stub
from json.encoder import encode_basestring
from typing import Final

import msgspec

from ...dialect.patterns import MORE
from ...regex import Prefix, Regex

SHORT: Final = 16  # pieces up to this length recur, because they are tokens; results for them are cached
LONG: Final = 64  # from this length on, it is worthwhile to prepare for a faster way
STRETCH: Final = 16_384
"""Long texts are translated in stretches of this length, in characters, because large blocks of memory are slow."""

JSON_RUN = Prefix(r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\uHHHH)*+'.replace("H", "[0-9a-fA-F]"))
JSON_PARTIAL = Regex(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
# Up to a quote that may end the string (see `quote_in`): text and common escapes.
PYTHON_RUN = Prefix(r"[^\\]*+(?:\\[\\'\"ntrbf][^\\]*+)*+")
RAW_RUN = Prefix(r"[^\\]*+(?:\\.[^\\]*+)*+", re.S)
# A quote is escaped if it comes after exactly one backslash; after more, they must be counted.
_FREE = r"(?<![^\\]\\Q)(?<!\A\\Q)"
_QUOTES = {q: Regex(q + _FREE.replace("Q", q)) for q in ("'", '"')}
_QUOTES |= {3 * q: Regex(rf"{q}(?:{q}{q}{_FREE.replace('Q', 3 * q)}|{q}?\Z)") for q in ("'", '"')}
_ESCAPE = Regex(r"\\(?:\r\n|\n|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|(.))", re.S)
_ESCAPE_MAYBE = Regex(r"\\(?:\r|[0-7]{1,2}|x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7})?\Z")
_SIMPLE = {"n": "\\n", "t": "\\t", "r": "\\r", "b": "\\b", "f": "\\f", "a": "\\u0007", "v": "\\u000b"}
_encode: Final = msgspec.json.Encoder().encode


def quote_in(text: str, i: int, delimiter: str) -> int:
    """The place of the first delimiter in a string's text, from ``i`` on, that may end it; the text's end if there
    is none."""
    m = _QUOTES[delimiter].search(text, i)
    return len(text) if m is None else m.start()


def json_run(text: str, i: int) -> int:
    """The end of what `JSON_RUN` matches in a string that is wrong nowhere, or only once."""
    if len(text) - i >= LONG and quote_in(text, i, '"') < len(text):
        try:
            end: int = scanstring(text, i)[1] - 1
        except ValueError:  # wrong, or not ended: `JSON_RUN` finds how far it is right
            pass
        else:
            return end
    return JSON_RUN.match(text, i).end()


def json_string(text: str) -> str:
    """Text as a JSON string; what is not ASCII stays."""
    return encode_basestring(text) if len(text) < LONG else f'"{escaped(text)}"'


def escaped(text: str) -> str:
    """Text as the inside of a JSON string; what is not ASCII stays."""
    size = len(text)
    if size < LONG:
        return encode_basestring(text)[1:-1]
    try:
        return "".join([_encode(text[i : i + STRETCH]).decode()[1:-1] for i in range(0, size, STRETCH)])
    except UnicodeEncodeError:  # half of a surrogate pair
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
    """A run of a Python string (see `PYTHON_RUN`) as the inside of a JSON string."""
    if "\\" in run:
        run, _ = unicode_escape_decode(raw_unicode_escape_encode(run)[0])
    return escaped(run)


def escape_at(text: str, i: int, *, raw: bool, slash: bool) -> tuple[str, int]:
    """The escape of a Python string at ``i`` as the inside of a JSON string, and its end, or `MORE` if it is cut.

    Args:
        raw: a backslash means itself.
        slash: a slash may be escaped, as in JSON.
    """
    if raw:
        return ("", MORE) if i + 1 == len(text) else ("\\\\" + escaped(text[i + 1]), i + 2)
    if _ESCAPE_MAYBE.match(text, i):
        return "", MORE
    m = _ESCAPE.match(text, i)
    if m is None:  # `\x` or `\u` without its digits means itself
        return "\\\\", i + 1
    c = m.group(1)
    if c is not None:
        means_itself = c not in "\\'\"" and not (c == "/" and slash)
        return _SIMPLE.get(c) or ("\\\\" if means_itself else "") + escaped(c), m.end()
    body = m.group()[1:]
    if body in ("\n", "\r\n"):
        return "", m.end()
    code = int(body, 8) if body[0] in "01234567" else int(body[1:], 16)
    if code > 0x10FFFF:
        return "\\\\", i + 1
    # A surrogate stays an escape: two of them make one character in JSON.
    return f"\\u{code:04x}" if 0xD800 <= code < 0xE000 else escaped(chr(code)), m.end()


def marker_scan(marker: str) -> re.Pattern[str]:
    """A pattern that finds the marker, or its beginning at the end of the text."""
    nested = ""
    for c in reversed(marker[1:]):
        nested = f"(?:{re.escape(c)}{nested}|\\Z)"
    return re.compile(re.escape(marker[0]) + nested)
