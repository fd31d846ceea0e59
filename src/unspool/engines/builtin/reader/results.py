"""What the last calls returned, in words, and as entries: a thing with its fields, or one for each of the things that
are listed."""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from .message import Message
from .prompt import Prompt, Turn, parameter
from .spans import paths
from .words import parts_of, stem

_MOST: Final = 50
"""The most entries of a result, and the most fields of an entry, that are read."""
_LONGEST: Final = 2000
"""The most characters of a result that are read."""
_NAMED: Final = 40
"""The most characters of the argument that an answer names."""
_TOLD: Final = 400
"""The most characters of what an answer says of one result."""
_WORDS: Final = re.compile(r"[^\W_]+|[\w-]+")
MARKS: Final = "[](){}<>.,:;#*'\""
"""Marks around the first word of a line: ``[14] Login``."""


class Entry(NamedTuple):
    """One of the things that a result lists: its text, its fields, and the stems of its words.

    A line's first word has the name ``""``.
    """

    text: str
    fields: dict[str, Any]
    stems: frozenset[str]


def results(prompt: Prompt) -> list[str]:
    """The results between the user's last two messages."""
    users = [i for i, t in enumerate(prompt.turns) if t.role == "user"]
    return [t.text for t in prompt.turns[users[-2] : users[-1]] if t.role == "result"] if len(users) > 1 else []


def told(prompt: Prompt) -> str:
    """The answer from the results after the last message, with all that they say; empty if there are none."""
    asked = max((i for i, t in enumerate(prompt.turns) if t.role == "user"), default=-1)
    calls, given = ([t for t in prompt.turns[asked + 1 :] if t.role == role] for role in ("call", "result"))
    parts: list[str] = []
    for call, result in zip(calls, given, strict=False):
        about = next((v for v in call.arguments.values() if isinstance(v, str) and 0 < len(v) <= _NAMED), "")
        about = f" for {about}" if about else ""
        said = _in_words(_read(result.text[:_LONGEST]))[:_TOLD].rstrip(" .!?,;")
        parts.append(f"Here is the answer{about}: {said}." if said else f"The tool found nothing{about}.")
    return " ".join(parts) if len(calls) == len(given) else ""


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # most tools answer in words
        return "" if text.strip().lower() == "none" else text


def _in_words(value: Any) -> str:
    """A result's names and values, without its marks; empty if it holds nothing."""
    if isinstance(value, dict):
        return ", ".join(filter(None, (_named(" ".join(parts_of(k)) or k, v) for k, v in value.items())))
    if isinstance(value, list):
        return "; ".join(filter(None, map(_in_words, value)))
    if value is None:
        return ""
    return " ".join(value.split()) if isinstance(value, str) else json.dumps(value)


def _named(name: str, value: Any) -> str:
    said = _in_words(value)
    inside = isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, dict) for v in value))
    return said if inside or not said else f"{name} {said}"


def entries(prompt: Prompt, before: Sequence[Turn] = ()) -> list[Entry]:
    """The items that the last results list, or the values of a single thing; for several calls, their arguments."""
    if len(before) > 1:
        return [_entry(turn.arguments) for turn in before]
    found = [entry for text in results(prompt) for entry in _entries(text[:_LONGEST])][:_MOST]
    above = next((v for turn in before for name, v in turn.arguments.items() if _is_folder(name, v)), "")
    return [_placed(entry, above.rstrip("/")) for entry in found]


def _is_folder(name: str, value: Any) -> bool:
    """Whether an argument is the path of a folder, whose files a result may list."""
    known = parameter(name).kinds[:1] in (("path",), ("directory",)) and isinstance(value, str)
    return known and bool(value.strip("./")) and "." not in PurePosixPath(value).name


def _placed(entry: Entry, above: str) -> Entry:
    """An entry of text with the path that it names as a field; a name without a folder is inside of ``above``."""
    label = str(entry.fields.get("", ""))
    path = next((s.value for s in paths(Message(label))), "").partition(":")[0]
    if not path:
        return entry
    inside = above and "/" not in path and path == label
    return entry._replace(fields=entry.fields | {"path": f"{above}/{path}" if inside else path})


def _entries(text: str) -> list[Entry]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # most tools answer in words
        lines = [line for line in text.split("\n") if line.strip()]
        several = len(lines) > 1
        return [_of(line, {"": line.split()[0].strip(MARKS) if several else line.strip()}) for line in lines]
    if isinstance(value, dict):
        inner = [v for v in value.values() if isinstance(v, list) and v]
        value = [value] if len(inner) != 1 or _is_thing(value, inner[0]) else inner[0]
    return [_entry(one) for one in (value if isinstance(value, list) else [value])]


def _is_thing(value: dict[str, Any], members: list[Any]) -> bool:
    """Whether an object is one thing with a list as a field, such as an order with its items or a book with its
    authors, and no mere list."""
    others = [name for name, v in value.items() if v is not members]
    mere = len(members) > 1 and isinstance(members[0], dict)
    marks = {"id"} if mere else {"id", "title"}
    return any(not marks.isdisjoint(parts_of(name)) for name in others) or (len(others) > 1 and not mere)


def _entry(value: Any) -> Entry:
    if isinstance(value, dict):
        fields = dict(itertools.islice(_fields(value), _MOST))
        return _of(" ".join(map(str, fields.values())), fields)
    return _of(str(value), {"": value} if isinstance(value, (str, int, float)) else {})


def _fields(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields of an object, and those of its inner objects that have names of their own.

    The only member of a list counts as a field of the list's name in the singular.
    """
    inside: list[tuple[str, Any]] = []
    for name, v in value.items():
        if isinstance(v, (str, int, float)):
            yield name, v
            continue
        members = v if isinstance(v, list) else [v]
        plain = [w for w in members if isinstance(w, (str, int, float))]
        if plain:
            yield (name, ", ".join(map(str, plain))) if len(members) > 1 else (stem(name), plain[0])
        elif len(members) == 1 and isinstance(members[0], dict):
            inside += _fields(members[0])
    names = [name for name, _ in inside]
    yield from ((name, v) for name, v in inside if name not in value and names.count(name) == 1)


def _of(text: str, fields: dict[str, Any]) -> Entry:
    return Entry(text, fields, frozenset(map(stem, (*_WORDS.findall(text.lower()), *parts_of(text)))))
