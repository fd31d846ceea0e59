"""JSON values that keep every digit, and the styles in which dialects write them.

Numbers keep their text, because ``1e-07`` and ``2 ** 70`` would not survive a float. Nothing here recurses.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from json.encoder import encode_basestring
from math import isinf
from typing import Any, Final

from ..schema import MAX_NESTING, nests_deeper
from ..validation import refuse_constant


@dataclass(frozen=True, slots=True)
class Number:
    """A JSON number as written. It equals only a number with the same text."""

    text: str


Value = str | bool | Number | list[Any] | dict[str, Any] | None
"""A JSON value: a `dict`, `list`, `str`, `bool`, ``None`` or `Number`."""


def read_json(text: str) -> Value:
    """Read the value of a JSON text; `ValueError` if the text is not JSON; contains NaN, Infinity, a number that rounds
    to infinity or a repeated key; or is nested too deep."""
    try:
        value: Value = _DECODER.decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if nests_deeper(value, MAX_NESTING):
        raise ValueError(_TOO_DEEP)
    return value


_TOO_DEEP: Final = f"nested deeper than {MAX_NESTING}"


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} occurs twice in one object")
    return members


def _float(text: str) -> Number:
    if isinf(float(text)):
        raise ValueError(f"{text[:40]} is too large for a float")
    return Number(text)


_DECODER: Final = json.JSONDecoder(
    parse_int=Number, parse_float=_float, parse_constant=refuse_constant, object_pairs_hook=_members
)


def kind(value: Value) -> str:
    """The JSON type of a value; integers are ``number`` too."""
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    return "number" if isinstance(value, Number) else "object" if isinstance(value, dict) else "array"


# --- writing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Style:
    """How values are written: strings, keys, words, and the separators between them."""

    string: Callable[[str], str]
    key: Callable[[str], str]
    true: str = "true"
    false: str = "false"
    null: str = "null"
    comma: str = ", "
    colon: str = ": "


_ESCAPES: Final = {i: f"\\x{i:02x}" for i in (*range(32), 127)} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    ord("\\"): "\\\\",
    ord("'"): "\\'",
}


def python_string(text: str) -> str:
    """A Python string literal in single quotes. Characters beyond ASCII are kept."""
    return f"'{text.translate(_ESCAPES)}'"


JSON: Final = Style(encode_basestring, encode_basestring)
"""The style of `json.dumps` by default, except that characters beyond ASCII are kept."""
PYTHON: Final = Style(python_string, python_string, "True", "False", "None")  # the style of Python's `repr`


def as_escape(char: str) -> str:
    """A character as an escape of JSON."""
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def in_quotes(marker: str) -> Style:
    """A style with bare keys, and with unescaped strings between two markers, as keys are that would not read back."""

    def string(text: str) -> str:
        return f"{marker}{text}{marker}"

    def name(key: str) -> str:
        return string(key) if key[:1] in ("'", '"') or "=" in key or "<" in key else key

    return Style(string, name, comma=",", colon=":")


class Raw(str):
    """Text that is already written."""

    __slots__ = ()


def write(value: Value, style: Style) -> str:
    """The value's text in a style."""
    return "".join(unfold(value, lambda v: _inside(v, style), lambda v: _scalar(v, style)))


def unfold(
    value: Value, inside: Callable[[dict[str, Any] | list[Any]], list[Value]], scalar: Callable[[Value], str]
) -> list[str]:
    """Yield the text of a value in pieces. ``inside`` divides objects and lists into `Raw` text and values, and
    ``scalar`` writes all other values."""
    out: list[str] = []
    todo: list[Value] = [value]
    while todo:
        v = todo.pop()
        if isinstance(v, Raw):
            out.append(v)
        elif isinstance(v, dict | list):
            todo.extend(reversed(inside(v)))
        else:
            out.append(scalar(v))
    return out


def _inside(value: dict[str, Any] | list[Any], style: Style) -> list[Value]:
    found: list[Value] = []
    if isinstance(value, list):
        for item in value:
            found += (Raw(style.comma if found else "["), item)
        return [*found, Raw("]")] if found else [Raw("[]")]
    for key, item in value.items():
        found += (Raw((style.comma if found else "{") + style.key(key) + style.colon), item)
    return [*found, Raw("}")] if found else [Raw("{}")]


def _scalar(value: Value, style: Style) -> str:
    if isinstance(value, str):
        return style.string(value)
    if isinstance(value, Number):
        return value.text
    return style.null if value is None else style.true if value is True else style.false


# --- schemas for values -----------------------------------------------------------------------------------

_INTEGER: Final = re.compile(r"-?[0-9]+")


def declare(calls: Iterable[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """OpenAI tool dicts that fit these calls (names and arguments)."""
    tools: dict[str, list[Value]] = {}
    for name, arguments in calls:
        tools.setdefault(name, []).append(arguments)
    return [
        {"type": "function", "function": {"name": name, "parameters": _schema(values)}}
        for name, values in tools.items()
    ]


def _schema(values: list[Value]) -> dict[str, Any]:
    """A schema that fits all of these values, which occur in the same place."""
    root: dict[str, Any] = {}
    nodes = [root]
    todo: list[tuple[Value, dict[str, Any]]] = [(v, root) for v in values]
    while todo:
        value, node = todo.pop()
        integer = isinstance(value, Number) and _INTEGER.fullmatch(value.text)
        node.setdefault("type", set()).add("integer" if integer else kind(value))
        if isinstance(value, dict):
            properties = node.setdefault("properties", {})
            for key, child in value.items():
                if key not in properties:
                    properties[key] = {}
                    nodes.append(properties[key])
                todo.append((child, properties[key]))
        elif isinstance(value, list) and value:
            if "items" not in node:
                node["items"] = {}
                nodes.append(node["items"])
            todo.extend((child, node["items"]) for child in value)
    for node in nodes:
        types = node["type"]
        if "string" in types and types - {"string", "null"}:
            node.clear()  # a string could look like one of the others, so the schema stays empty
        else:
            node["type"] = sorted(types)
    return root
