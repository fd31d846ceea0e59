"""Finds out how a template writes the arguments of a call: as an object, as Python, or one by one."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from . import histories as h
from . import marks as t

Keys = dict[str, Any]  # the keys of a dialect file

FIELDS: Final = {
    t.NAME[0]: "{name}",
    t.KEY[0]: "{key}",
    t.VALUE[0]: "{value}",
    t.ID[0]: "{id}",
    t.INDEX: "{index}",
    t.NUMBER: "{number}",
}
_DECODER: Final = json.JSONDecoder()
_CONSTANT: Final = r"""(?:"\w+"\s*:\s*(?:"[\w-]*"|true|false|null|\d+))"""
_NESTED: Final = re.compile(r"""['"]\s*:\s*\{\s*['"]""")
_SKIPPED: Final = re.compile(rf"(?<=\{{)\s*{_CONSTANT}\s*,\s*|\s*,\s*{_CONSTANT}(?=\s*[,}}])")
"""A member of an object, the first or a later one, that contains no part of a call."""


def as_template(text: str) -> str:
    """Turn a text with sentinels into a template, without an object's members that contain no part of a call.

    If the object is nested in another one, its members stay, since the text around it is read literally.
    """
    for sentinel, field in FIELDS.items():
        text = text.replace(sentinel, field)
    text = text.replace(t.ARGUMENTS[0], "{arguments}").replace(":\0", ":{index}")
    if re.search(r"""['"]\s*:\s*\{arguments\}""", text) and not _NESTED.search(text):
        text = _SKIPPED.sub("", text)
    return text


Hide = Callable[[str], str]  # replaces the arguments of each call by one sentinel


def _hide(pattern: str) -> Hide:
    found = re.compile(pattern)

    def hide(text: str) -> str:
        number = iter(t.ARGUMENTS)
        return found.sub(lambda m: next(number, m.group()), text)

    return hide


def arguments(one: str, pair: str, turns: Mapping[str, str]) -> tuple[Keys, Hide] | None:
    """How arguments are written: the keys of the dialect file, and a `Hide` for them."""
    at = one.find(t.KEY[0])
    if at < 0:
        return None
    if _object_at(one, at) is not None:
        return {}, _hide_objects
    before = one[:at].rstrip()[-1:]
    behind = one[at + 1 :]
    key, value = f"[{t.KEY}]", f"[{t.VALUE}]"
    quoted = re.match(rf"\s*:\s*([^\s{t.VALUE}]{{1,40}}){value}\1", behind)
    if quoted and before == "{":
        q = re.escape(quoted[1])
        pattern = rf"\{{\s*{key}\s*:\s*{q}{value}{q}(?:\s*,\s*{key}\s*:\s*{q}{value}{q})*\s*\}}"
        return {"quote": quoted[1]}, _hide(pattern)
    if before in ("(", ",") and re.match(rf"""\s*=\s*(['"]){value}\1""", behind):
        member = rf"""{key}\s*=\s*(?:'{value}'|"{value}")"""
        return {"arguments": "python"}, _hide(rf"{member}(?:\s*,\s*{member})*")
    return _tagged(pair, turns)


def _tagged(pair: str, turns: Mapping[str, str]) -> tuple[Keys, Hide] | None:
    parts = t.marks(pair)
    rep = t.repeated(parts, t.KEY[0] + t.VALUE[0], t.KEY[1] + t.VALUE[1]) if t.KEY[1] in pair else None
    if rep is None or t.NAME[0] in rep.unit or rep.unit.count(t.VALUE[0]) != 1:
        return None
    argument = as_template(_typed(rep.unit, turns.get("integer", "")))
    wrapped = _wrapped(rep.unit, turns.get("quotes and lines", ""))
    forms = [argument, *(as_template(form) for form in (wrapped, _plain(rep.unit, turns.get("integer", ""))) if form)]
    keys: Keys = {"argument": forms if len(forms) > 1 else argument}
    item = _item(rep.unit, turns.get("list", ""))
    if item:
        keys["item"] = item
    if rep.separator:
        keys["separator"] = {"arguments": rep.separator}
    one_of = re.escape(rep.unit)
    for kind in (t.KEY, t.VALUE):
        one_of = one_of.replace(re.escape(kind[0]), f"[{kind}]")
    return keys, _hide(f"{one_of}(?:{re.escape(rep.separator)}{one_of})*")


def _typed(unit: str, number: str) -> str:
    """An argument's text, with the field for its type if a number's text shows another type."""
    opening, value, rest = unit.partition(t.VALUE[0])
    if opening.replace(t.KEY[0], "zqint") in number:
        return unit
    for ours, theirs, field in (
        ("true", "false", "{string}"),
        ("string", "integer", "{type}"),
        ("string", "number", "{type}"),
    ):
        head, found, tail = opening.rpartition(ours)
        if found and (head + theirs + tail).replace(t.KEY[0], "zqint") in number:
            return head + field + tail + value + rest
    return unit


def _plain(unit: str, turn: str) -> str:
    """The second form of an argument, for a value that is not a string."""
    before, _, rest = unit.partition(t.KEY[0])
    between, _, closing = rest.partition(t.VALUE[0])
    value = str(h.TYPED["zqint"][0])
    _, found, rest = turn.partition(f"{before}zqint")
    other, value_found, rest = rest.partition(value)
    rest = rest.replace("zqint", t.KEY[0])
    last = t.marks(closing.strip())[-1:]
    if not (before.strip() and found and value_found and last) or (other == between and rest.startswith(closing)):
        return ""
    behind, closed, _ = rest.partition(last[0])
    if not closed or any(c in behind for c in (t.NAME[0], t.VALUE[0])) or _typed(unit, turn) != unit:
        return ""
    return f"{before}{t.KEY[0]}{other}{t.VALUE[0]}{behind}{closed}"


def _wrapped(unit: str, turn: str) -> str:
    """The second form of an argument, for a string that would break the markup of the first."""
    opening, _, closing = unit.partition(t.VALUE[0])
    if not (opening and closing):
        return ""
    text = str(h.TURNS["quotes and lines"].calls[0][1][h.KEYS[0]])
    _, found, rest = turn.partition(opening)
    before, written, rest = rest.partition(text)
    after, closed, _ = rest.partition(closing)
    if not (found and written and closed and before.strip() and after.strip()) or closing.strip() in before:
        return ""
    return f"{opening}{before}{t.VALUE[0]}{after}{closing}"


def _item(unit: str, turn: str) -> str:
    """How an element of a list is written, if it has its own markup."""
    opening, _, closing = (part.replace(t.KEY[0], "zqlist") for part in unit.partition(t.VALUE[0]))
    if not (opening and closing):
        return ""
    _, found, rest = turn.partition(opening)
    before, one, rest = rest.partition("1")
    between, two, rest = rest.partition("2")
    after, closed, _ = rest.partition(closing)
    tags = before.strip() and after.strip()
    if not (found and one and two and closed and tags) or between.split() != (after + before).split():
        return ""
    return f"{before}{{value}}{after}"


def _object_at(text: str, at: int) -> tuple[int, int] | None:
    """The JSON object, or the string that contains one, whose first key is at ``at``."""
    start = text.rfind("{", 0, at)
    for begin in (start - 1, start):
        if begin < 0 or (begin < start and text[begin] != '"'):
            continue
        try:
            value, end = _DECODER.raw_decode(text, begin)
            value = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and text[at] in value:
            return begin, end
    return None


def _hide_objects(text: str) -> str:
    """The text with the JSON arguments of each call replaced."""
    out: list[str] = []
    done = 0
    number = iter(t.ARGUMENTS)
    for m in re.finditer(f"[{t.KEY}]", text):
        if m.start() < done:
            continue
        span = _object_at(text, m.start())
        if span is None:
            continue
        out += (text[done : span[0]], next(number, ""))
        done = span[1]
    return "".join((*out, text[done:]))
