"""JSON that any client can take: one string on the hot path, or a whole value."""

import re
from typing import Any, Final

import msgspec

INVALID_JSON: Final = "INVALID_JSON"
"""The key of arguments that are not a JSON object, where a protocol or a template needs one."""

_encode: Final = msgspec.json.Encoder().encode

# Engines may hand out halves of surrogate pairs, which UTF-8 cannot carry. The other three end a line for clients that
# split server-sent events with `str.splitlines`; in streams they are escapes. (JSON escapes the rest of that kind.)
_UNSAFE: Final = re.compile("[\x85\u2028\u2029\ud800-\udfff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LINE_ENDS: Final = tuple((c.encode(), f"\\u{ord(c):04x}".encode()) for c in "\x85\u2028\u2029")


def quoted(text: str) -> bytes:
    """A JSON string for a stream. A lone surrogate becomes U+FFFD, one for one, wherever the text was cut."""
    if text.isascii() or not _UNSAFE.search(text):
        return _encode(text)
    return on_one_line(_encode(clean(text)))


def clean(text: str) -> str:
    """The text with U+FFFD for every lone surrogate."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def encode(value: Any) -> bytes:
    """A value as JSON; like `quoted`, it takes any string."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_cleaned(value))


def on_one_line(data: bytes) -> bytes:
    """JSON that no client splits in the middle."""
    if data.isascii():
        return data
    for character, escape in _LINE_ENDS:
        data = data.replace(character, escape)
    return data


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, msgspec.Struct):
        return _cleaned(msgspec.to_builtins(value))
    if isinstance(value, dict):
        return {_cleaned(k): _cleaned(v) for k, v in value.items()}
    return [_cleaned(v) for v in value] if isinstance(value, list | tuple) else value
