"""Writes a dialect file."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..dialect.file import Dialect
from ..dialect.ids import fill_id, fill_letters
from ..dialect.loader import KEYS, parse_dialect
from ..dialect.registry import find_base
from ..errors import DialectError
from ..renderer import render
from .histories import HistoryStyle, HistoryTurn

_TURNS: Final = ("start", "end", "stage")
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_WEATHER: Final = ("get_weather", {"city": "Paris", "days": 3})
_NOW: Final[tuple[str, dict[str, Any]]] = ("now", {})
_EXAMPLES: Final = (
    HistoryTurn(content="Hello."),
    HistoryTurn("plan", "answer"),
    HistoryTurn(calls=(_WEATHER,)),
    HistoryTurn(calls=(_WEATHER, _NOW)),
    HistoryTurn(content="Sure.", calls=(("search", {"query": 'what is "x"?\nor y'}),)),
    HistoryTurn("plan", calls=(_NOW,)),
)
"""The examples in the file."""


def file_text(keys: Mapping[str, Any], about: str) -> str:
    """The text of a dialect file, with a comment at its beginning. `DialectError` if the keys make no dialect."""
    head = _head(keys, about)
    draft = '\n[[examples]]\nraw = "x"\ncontent = "x"\n'
    dialect = parse_dialect(head + draft, "inferred", find_base)
    return head + "".join(_examples(dialect))


def string(text: str) -> str:
    if "'" not in text and text.isprintable() and ('"' in text or "\\" in text):
        return f"'{text}'"
    lines = text.split("\n")
    if len(lines) > 1 and "'" not in text and all(map(str.isprintable, lines)) and ('"' in text or "\\" in text):
        return f"'''\n{text}'''"  # TOML drops a line break after the opening
    return '"' + "".join(_ESCAPES.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in text) + '"'


def _value(value: Any) -> str:
    if isinstance(value, str):
        return string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {_value(v)}" for key, v in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_value, value))}]"
    return str(value)


def _head(keys: Mapping[str, Any], about: str) -> str:
    """The keys, in the order of the guide."""
    lines = [f"# {line}\n" for line in about.splitlines()]
    group = ""
    for key in KEYS:
        if key not in keys:
            continue
        now = "turns" if key in _TURNS else "parts" if key not in ("name", "models") else "names"
        lines.append("\n" if group and now != group else "")
        group = now
        if key == "separator":
            lines += [f"separator.{name} = {string(text)}\n" for name, text in keys[key].items()]
        elif key != "policy":
            lines.append(f"{key} = {_value(keys[key])}\n")
    if "policy" in keys:
        lines.append("\n[policy]\n")
        lines += [f"{name} = {_value(value)}\n" for name, value in keys["policy"].items()]
    return "".join(lines)


def _examples(dialect: Dialect) -> list[str]:
    found: list[str] = []
    for turn in _EXAMPLES:
        reasoning, content, calls = turn
        ids = [_id(dialect.id, n, i) for i, (n, _) in enumerate(calls)]
        message = turn.message(HistoryStyle())
        for call, id in zip(message.get("tool_calls", ()), ids, strict=True):
            call["id"] = id
        # If prompts end in reasoning, an output with reasoning begins there.
        stage = "content" if dialect.stage != "content" and not reasoning else None
        try:
            raw = render(message, dialect, stage=stage)
        except DialectError:  # the format has no such turn
            continue
        lines = ["\n[[examples]]\n"]
        if stage:
            lines.append(f"stage = {string(stage)}\n")
        lines.append(f"raw = {string(raw)}\n")
        lines += [f"{k} = {string(v)}\n" for k, v in (("reasoning", reasoning), ("content", content)) if v]
        if calls:
            with_ids = "{id}" in dialect.call[0].text
            table = [
                {"name": n, **({"arguments": a} if a else {}), **({"id": i} if with_ids else {})}
                for i, (n, a) in zip(ids, calls, strict=True)
            ]
            lines.append(f"tool_calls = {_value(table)}\n")
        found.append("".join(lines))
    return found


def _id(template: str, name: str, index: int) -> str:
    """A constant id in the form of the dialect's ids."""
    text = fill_id(template, name, str(index))
    return fill_letters(text, str(index).zfill(text.count("?")))
