"""JSON that any client can read: a single string on the hot path, or a whole value."""

import re
from typing import Any, Final

import msgspec

CONTROLS: Final = {c: ascii(chr(c))[1:-1] for c in (*range(9), *range(11, 32), *range(127, 160))}
"""How controls other than line breaks and tabs are spelled out: nobody's text must steer a terminal."""

INVALID_JSON: Final = "INVALID_JSON"
"""The key that wraps arguments that are not a JSON object, if a protocol or a template requires one."""

_encode: Final = msgspec.json.Encoder().encode

# Engines may emit halves of surrogate pairs, which UTF-8 cannot encode. The other three characters end a line for
# clients that split server-sent events with `str.splitlines`, so streams escape them. (JSON escapes the others of
# that kind.)
_UNSAFE: Final = re.compile("[\x85\u2028\u2029\ud800-\udfff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LINE_ENDS: Final = tuple((c.encode(), f"\\u{ord(c):04x}".encode()) for c in "\x85\u2028\u2029")


def quoted(text: str) -> bytes:
    """A JSON string for a stream. A lone surrogate becomes U+FFFD, one for one, wherever the text was cut."""
    if text.isascii() or not _UNSAFE.search(text):
        return _encode(text)
    return on_one_line(_encode(clean(text)))


def clean(text: str) -> str:
    """Replace every lone surrogate with U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def encode(value: Any) -> bytes:
    """Encode a value as JSON; like `quoted`, it accepts any string."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(cleaned(value))


def on_one_line(data: bytes) -> bytes:
    """Escape JSON so that no client splits it in the middle."""
    if data.isascii():
        return data
    for character, escape in _LINE_ENDS:
        data = data.replace(character, escape)
    return data


def cleaned(value: Any) -> Any:
    """The same as `clean` for all strings of a value."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, msgspec.Struct):
        return cleaned(msgspec.to_builtins(value))
    if isinstance(value, dict):
        return {cleaned(k): cleaned(v) for k, v in value.items()}
    return [cleaned(v) for v in value] if isinstance(value, list | tuple) else value
