"""Finds how a file's templates and separators must have their white space so that an example is written as it says."""

import itertools
from collections.abc import Callable, Iterator

import msgspec

from ..dialect.file import Dialect
from ..dialect.template import parse_template
from ..errors import DialectError

Edit = dict[str, str]  # new texts by key: of first templates, and of separators


def mended(dialect: Dialect, written: str, raw: str, at: int, write: Callable[[Dialect], str]) -> str:
    """The keys with which an example is written as its text; empty if no small change does it. Now it is ``written``
    with other white space, from ``at`` on. ``write`` writes it in a dialect; it raises `DialectError` if it cannot."""
    spaces = list(dict.fromkeys((_around(raw, at), _around(written, at))))
    edits = [e for e in _edits(dialect, spaces) if any(_current(dialect, key) != text for key, text in e.items())]
    for few in itertools.chain(((e,) for e in edits), itertools.combinations(edits, 2)):
        keys = {key: text for edit in few for key, text in edit.items()}
        if len(keys) == sum(map(len, few)) and _writes(write, _edited(dialect, keys), raw):
            return " and ".join(f"{key} = {text!r}" for key, text in keys.items())
    return ""


def _writes(write: Callable[[Dialect], str], dialect: Dialect, raw: str) -> bool:
    try:
        return write(dialect) == raw
    except DialectError:
        return False


def _around(text: str, at: int) -> str:
    begin = len(text[:at].rstrip())
    return text[begin : len(text) - len(text[begin:].lstrip())]


def _current(d: Dialect, key: str) -> str:
    name = key.removeprefix("separator.")
    text: str = getattr(d.separator, name) if name != key else getattr(d, key)[0].text
    return text


def _edits(d: Dialect, spaces: list[str]) -> Iterator[Edit]:
    """Small changes, the most usual ones first."""
    for space in spaces:
        for key, text in (("calls", d.separator.calls), ("arguments", d.separator.arguments)):
            yield {f"separator.{key}": text.strip() + space}
    # Each argument ends its line, instead of what separates arguments, or what closes them.
    if d.call and d.argument:
        argument, call = d.argument[0].text, d.call[0].text
        for space in spaces:
            lines = {"argument": argument.rstrip() + space, "separator.arguments": d.separator.arguments.strip()}
            yield {**lines, "call": _beside(call, "arguments", after="")}
    for key, field in _BODIES:
        for t in getattr(d, key)[:1]:
            for space in dict.fromkeys(("", *spaces)):
                yield {key: _beside(t.text, field or t.body, after=space)}
                yield {key: _beside(t.text, field or t.body, before=space)}
                if key != "call":
                    yield {key: t.text.rstrip() + space}
                if key not in ("call", "reasoning"):
                    yield {key: space + t.text.lstrip()}


_BODIES = (("calls", ""), ("call", "arguments"), ("argument", "value"), ("reasoning", "reasoning"))


def _beside(text: str, field: str, *, before: str | None = None, after: str | None = None) -> str:
    """A template with other white space beside a field."""
    head, body, tail = text.partition(f"{{{field}}}")
    head = head if before is None else head.rstrip() + before
    return f"{head}{body}{tail if after is None else after + tail.lstrip()}"


def _edited(d: Dialect, keys: Edit) -> Dialect:
    fields = {key.removeprefix("separator."): text for key, text in keys.items() if key.startswith("separator.")}
    templates = {
        key: (parse_template(key, text, key), *getattr(d, key)[1:])
        for key, text in keys.items()
        if not key.startswith("separator.")
    }
    separator = msgspec.structs.replace(d.separator, **fields)
    return msgspec.structs.replace(d, separator=separator, **templates)
