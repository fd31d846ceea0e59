"""A reader for the subset of TOML in which dialects are written: tables of strings and lists of strings.

`tomllib` takes longer to import than a dialect takes to load, so shipped files are read here.
"""

import json
from typing import Any, Final

# JSON has all escapes that TOML has, except those of eight digits.
_json: Final = json.JSONDecoder()


class MoreThanPlain(Exception):
    """The text contains something that only `tomllib` reads."""


def read_plain(text: str) -> dict[str, Any]:
    """Read tables of strings and of lists of strings, as `tomllib.loads` does.

    Raises:
        MoreThanPlain: the text contains something else, or is not TOML.
    """
    if not text.replace("\n", "").isprintable():
        raise MoreThanPlain
    data: dict[str, Any] = {}
    table = data
    at = _skip(text, 0)
    while at < len(text):
        if text[at] == "[":
            name, at = _until("]", text, at + 1)
            table = _set(data, _key(name), {})
        else:
            (*outer, key), at = _keys(text, at)
            value, at = _value(text, _skip(text, at))
            inner: Any = table
            for name in outer:
                inner = _inner(inner, name)
            _set(inner, key, value)
        rest = _line(text, at).lstrip(" ")
        if rest and rest[0] != "#":
            raise MoreThanPlain
        at = _skip(text, at)
    return data


def _line(text: str, at: int) -> str:
    """The rest of a line."""
    end = text.find("\n", at)
    return text[at:] if end < 0 else text[at:end]


def _until(sign: str, text: str, at: int) -> tuple[str, int]:
    """The text before a delimiter in the same line, and the end of the delimiter."""
    found, there, _ = _line(text, at).partition(sign)
    if not there:
        raise MoreThanPlain
    return found, at + len(found) + 1


def _inner(table: dict[str, Any], key: str) -> Any:
    """The inner table that a dotted key names."""
    inner = table.setdefault(key, {})
    if not isinstance(inner, dict):
        raise MoreThanPlain
    return inner


def _set(table: dict[str, Any], key: str, value: Any) -> Any:
    """Give a table a new member."""
    if key in table:
        raise MoreThanPlain
    table[key] = value
    return value


def _keys(text: str, at: int) -> tuple[list[str], int]:
    """The parts of a key, and the end of the delimiter after it."""
    if text[at] not in "\"'":
        name, at = _until("=", text, at)
        return [_key(part) for part in name.split(".")], at
    if text.startswith("'''", at):
        raise MoreThanPlain
    quoted, at = _string(text, at)
    blank, at = _until("=", text, at)
    if blank.strip(" "):
        raise MoreThanPlain
    return [quoted], at


def _key(written: str) -> str:
    """A bare key."""
    key = written.strip(" ")
    if not key.isascii() or not key.replace("-", "_").replace("_", "a").isalnum():
        raise MoreThanPlain
    return key


def _skip(text: str, at: int) -> int:
    """The end of the white space, line breaks and comments that begin here."""
    while True:
        while text[at : at + 1] in (" ", "\n"):
            at += 1
        if text[at : at + 1] != "#":
            return at
        end = text.find("\n", at)
        at = len(text) if end < 0 else end


def _value(text: str, at: int) -> tuple[str | list[str], int]:
    """A string or a list of strings, and its end."""
    if text[at : at + 1] != "[":
        return _string(text, at)
    found: list[str] = []
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        one, at = _string(text, at)
        found.append(one)
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "]":
            raise MoreThanPlain
    return found, at + 1


def _string(text: str, at: int) -> tuple[str, int]:
    """A string in quotes of any kind except three double ones, and its end."""
    if text.startswith("'''", at):
        at += 4 if text[at + 3 : at + 4] == "\n" else 3
        end = text.find("'''", at)
        if end < 0 or text[end + 3 : end + 4] == "'":
            raise MoreThanPlain
        return text[at:end], end + 3
    if text[at : at + 1] == "'":
        end = text.find("'", at + 1)
        if end < 0 or "\n" in text[at:end]:
            raise MoreThanPlain
        return text[at + 1 : end], end + 1
    if text[at : at + 1] != '"' or text.startswith('"""', at):
        raise MoreThanPlain
    try:
        value, end = _json.raw_decode(text, at)
    except ValueError:
        raise MoreThanPlain from None
    if "\\/" in text[at:end] or "\\u" in text[at:end]:  # JSON admits these, TOML does not
        raise MoreThanPlain
    return value, end
