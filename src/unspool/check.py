"""A dialect file against its own examples, and against what is promised of every dialect."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from .arguments import check
from .dialect.file import Dialect, Example, example_tools, read_dialect
from .dialect.patterns import Pattern
from .dialect.registry import find_base
from .dialect.template import id_steps, literal, unstarted
from .errors import ConstraintError, DialectError
from .events import (
    NOTICES,
    ContentDelta,
    Event,
    Markup,
    Notice,
    ReasoningDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from .message import Message, ToolCall
from .parser import Parser
from .renderer import render


def load_dialect(path: str | PathLike[str]) -> Dialect:
    """Load a dialect file; its examples have to hold, each read whole and each first raw text written back.

    Args:
        path: a TOML file. Its ``base`` may be any dialect that `get_dialect` knows.

    Raises:
        DialectError: naming the file and the key with what is allowed, or the example with what was got and expected.
        TypeError: this is no path.
    """
    check("path", path, (str, PathLike), "the path of a TOML file")
    if isinstance(path, str) and not path.endswith(".toml") and not Path(path).exists():
        raise DialectError(f"{path}: no such file; a shipped dialect is get_dialect({path!r})")
    dialect = read_file(path)
    for problem in _problems(dialect):
        raise DialectError(f"{Path(path).name}: {problem}")
    return dialect


def read_file(path: str | PathLike[str]) -> Dialect:
    """Load a dialect file without trying its examples."""
    return read_dialect(Path(path), find_base)


class Problem(msgspec.Struct, frozen=True):
    """What is wrong with a dialect file.

    Attributes:
        where: the example or the raw text, such as ``examples[0].raw[1]``.
        what: what was got and what is expected.
        why: how the text was read, line by line; empty where that says nothing.
    """

    where: str
    what: str
    why: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def check_dialect(dialect: Dialect) -> list[Problem]:
    """What is wrong with a dialect; empty where nothing is.

    Every raw text has to mean its example's message, and every promise of `unspool.promises` has to be kept, as it is
    for the shipped dialects. A dialect with calls needs an example with one.
    """
    from .promises import DIALECT_PROMISES, RAW_PROMISES, WRITTEN_PROMISES, Case  # loading does not need the grammar

    found = [*_problems(dialect), *_foreign_ids(dialect), *_closed_by_openings(dialect)]
    if dialect.call and not any(example.tool_calls for example in dialect.examples):
        found.append(Problem("examples", "none contains a call, though the file has `call`: add one with `tool_calls`"))
    if found:
        return found
    tools = example_tools(dialect)
    for i, example in enumerate(dialect.examples):
        for j, raw in enumerate(example.raw):
            case = Case(dialect, j, raw, example, tools)
            for promise in (*RAW_PROMISES, *(WRITTEN_PROMISES if j == 0 else ())):
                found += _kept(f"examples[{i}].raw[{j}]", partial(promise, case))
    for general in DIALECT_PROMISES:
        found += _kept("file", partial(general, dialect))
    if found:
        found[0] = msgspec.structs.replace(found[0], why=tuple(rules(dialect)))
    return found


def try_examples(dialect: Dialect) -> Iterator[Problem]:
    """What is wrong with the examples of a dialect, each read whole and written back: a part of `check_dialect`."""
    yield from _problems(dialect)


def _kept(where: str, promise: Callable[[], None]) -> list[Problem]:
    try:
        promise()
    except (AssertionError, DialectError, ConstraintError) as error:
        return [Problem(where, str(error))]
    return []


def example_message(example: Example) -> Message:
    """The message that an example describes; a call whose id is not given has an empty one."""
    calls = [ToolCall(i, call.id or "", call.name, _json(call.arguments)) for i, call in enumerate(example.tool_calls)]
    return Message(reasoning=example.reasoning, content=example.content, tool_calls=calls)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _problems(dialect: Dialect) -> Iterator[Problem]:
    """Where an example, read whole, does not mean what it should, or is not what is written."""
    tools = example_tools(dialect)
    for i, example in enumerate(dialect.examples):
        for j, raw in enumerate(example.raw):
            where = f"examples[{i}].raw[{j}]"
            message, events = _parse(dialect, tools, example, raw)
            differences = list(_differences(message, example))
            hints = [*_end_hint(dialect, raw), *_edge_hints(dialect, message, example), *_type_hint(dialect)]
            hints = [*hints, *_trace(events, example), *rules(dialect)] if differences else []
            yield from (Problem(where, what, tuple(hints)) for what in differences[:1])
            yield from (Problem(where, what) for what in differences[1:])
        for what, hint in _written(dialect, tools, example):
            yield Problem(f"examples[{i}].raw[0]", what, (*hint, *rules(dialect)))


def _parse(dialect: Dialect, tools: list[dict[str, Any]], example: Example, raw: str) -> tuple[Message, list[Event]]:
    # Ids with random letters would differ from run to run; others may be what an example expects.
    parser = Parser(dialect, tools=tools, stage=example.stage, ids=_made_id if "?" in dialect.id else None)
    events = parser.feed(raw) + parser.close()
    return parser.message, events


def _made_id(index: int, name: str) -> str:
    """An id that is the same in every run."""
    return f"made-{index}"


def _foreign_ids(dialect: Dialect) -> Iterator[Problem]:
    """Ids of examples that the model could not have been made to write: those that `id` does not fit."""
    if not dialect.call or not any(step.name == "id" for step in dialect.call[0].steps):
        return
    for i, example in enumerate(dialect.examples):
        for j, call in enumerate(example.tool_calls):
            if call.id is not None and not re.fullmatch(_id_pattern(dialect.id, call.name), call.id):
                what = f"{call.id!r} does not fit `id`, {dialect.id!r}, by which ids are generated: let `id` say how"
                yield Problem(f"examples[{i}].tool_calls[{j}].id", f"{what} the model writes them")


def _id_pattern(template: str, name: str) -> str:
    parts = []
    for step in id_steps(template):
        if step.name:
            parts.append(re.escape(name) if step.name == "name" else "[0-9]+")
        else:
            parts += ["[A-Za-z0-9]" if c == "?" else re.escape(c) for c in step.text]
    return "".join(parts)


def _closed_by_openings(dialect: Dialect) -> Iterator[Problem]:
    """Closings of a text with which another part's opening begins: behind the text either could stand there."""
    keys = ("reasoning", "content", "preamble", "calls", "call", "argument", "item")
    openings = [(key, t, _solid(unstarted(t.opening, dialect.start))) for key in keys for t in getattr(dialect, key)]
    for key in ("reasoning", "content", "preamble", "argument", "item"):
        for t in getattr(dialect, key):
            closing = _solid(t.closing)
            for other, u, opening in openings:
                if closing and u is not t and opening.startswith(closing):
                    what = f"{t.text!r} closes with {t.closing.strip()!r}, with which {u.text!r} of `{other}` begins"
                    why = "behind a text nothing tells one from the other: let them begin with different characters"
                    yield Problem(key, f"{what}: {why}")


def _solid(text: str) -> str:
    """A text without its white space, which is soft."""
    return "".join(text.split())


_AROUND = 12  # events that a trace shows on either side of the difference
_MAX_TEXT = 40  # characters of an event's text that it shows


def _trace(events: Sequence[Event], example: Example) -> Iterator[str]:
    """How a text was read: its notices, and the events around the first that does not belong to the example."""
    for event in events:
        if isinstance(event, Notice):
            detail = f" ({event.detail})" if event.detail else ""
            yield f"notice {event.kind} at {event.start}: {NOTICES[event.kind]}{detail}"
    at = _first_wrong(events, example)
    begin = max(0, at - _AROUND)
    told = [word for event in events[begin : at + _AROUND] if (word := _in_short(event))]
    before = ["…"] if any(map(_in_short, events[:begin])) else []
    behind = ["…"] if any(map(_in_short, events[at + _AROUND :])) else []
    yield "read as: " + ", ".join([*before, *told, *behind])


def _first_wrong(events: Sequence[Event], example: Example) -> int:
    """The place of the first event that tells what the example does not have; the end, where none does."""
    rest = {ReasoningDelta: example.reasoning, ContentDelta: example.content}
    names = [call.name for call in example.tool_calls]
    for at, event in enumerate(events):
        if isinstance(event, ReasoningDelta | ContentDelta):
            if not rest[type(event)].startswith(event.text):
                return at
            rest[type(event)] = rest[type(event)][len(event.text) :]
        elif isinstance(event, ToolCallStart):
            if names[event.index : event.index + 1] != [event.name]:
                return at
        elif isinstance(event, ToolCallEnd) and event.status not in ("ok", "repaired"):
            return at
    return len(events)


def _in_short(event: Event) -> str:
    """An event in a trace; empty where it says nothing new."""
    if isinstance(event, ReasoningDelta | ContentDelta | Markup):
        kind = {ReasoningDelta: "reasoning", ContentDelta: "content", Markup: "markup"}[type(event)]
        return f"{kind} {_short(event.text)}"
    if isinstance(event, ToolCallStart):
        return f"call {event.name}"
    if isinstance(event, ToolCallDelta):
        return f"arguments {_short(event.arguments)}"
    if isinstance(event, ToolCallEnd):
        return f"{event.status} call ends"
    return ""


def _short(text: str) -> str:
    return repr(text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…")


def rules(dialect: Dialect) -> Iterator[str]:
    """The rules of reading by which a dialect's own templates may not mean what they seem to, with proposals."""
    begins: dict[str, list[str]] = {}
    for key in ("reasoning", "content", "preamble", "calls", "call", "argument", "item"):
        for template in getattr(dialect, key):
            first = Pattern(template.before).first
            if first and key not in begins.setdefault(first, []):
                begins[first].append(key)
            opening = literal(template.head).strip()
            searched = Pattern((opening,)).first if opening else ""
            common = not any(c.isalnum() for c in searched) or searched.isalnum()
            if " " in opening and searched != opening and common:
                what = f"`{key}` begins with {opening!r}, in which white space is soft"
                yield f"hint: {what}: text is searched for {searched!r} alone, which it may contain for another reason"
    for first, keys in begins.items():
        if len(keys) > 1:
            what = f"{', '.join(f'`{key}`' for key in keys)} begin with {first!r}"
            yield f"hint: {what}: the most literal template that fits is read, and text in them cannot contain it"
        for other in begins:
            if other != first and other.startswith(first):
                yield f"hint: {first!r} of `{begins[first][0]}` is the beginning of {other!r} of `{begins[other][0]}`"
    for end in dialect.end:
        inside = [
            k for k in ("reasoning", "calls", "call", "argument", "item") for t in getattr(dialect, k) if end in t.text
        ]
        if inside and not end.isspace():
            yield f"hint: the `end` string {end!r} occurs in `{inside[0]}` too, where it ends nothing but that part"


def _end_hint(dialect: Dialect, raw: str) -> Iterator[str]:
    """An `end` string inside a text ends the turn for the parser."""
    rest = raw.rstrip()
    while trailing := next((end for end in dialect.end if rest.endswith(end)), ""):
        rest = rest.removesuffix(trailing).rstrip()
    for end in dialect.end:
        if end in rest:
            place = f"the `end` string {end!r} occurs at {rest.index(end)}"
            why = "it is markup where nothing, white space, another `end` or a `start` follows, else text"
            yield f"hint: {place}: {why}; take it out of `end` if it is part of a message"


def _edge_hints(dialect: Dialect, got: Message, example: Example) -> Iterator[str]:
    """White space that a text has too much: it is the text's own unless a template has it."""
    why = "white space beside a text is its own, unless a template has it"
    for part in ("reasoning", "content"):
        text, wanted = getattr(got, part), getattr(example, part)
        at = text.find(wanted) if wanted and text.strip() == wanted else -1
        if at < 0 or text == wanted:
            continue
        before, after = text[:at], text[at + len(wanted) :]
        if part == "content" and not dialect.framed:
            following = dialect.calls[0].text if dialect.calls else ""
            if before and example.reasoning:
                yield f"hint: {why}: to take {before!r} off, write reasoning = {dialect.reasoning[0].text + before!r}"
            if after and example.tool_calls:
                yield f"hint: {why}: to take {after!r} off, write calls = {after + following!r}"
        else:
            field = f"{{{part}}}"
            mended = getattr(dialect, part)[0].text.replace(field, before + field + after)
            yield f"hint: {why}: to take it off, write {part} = {mended!r}"


def _type_hint(dialect: Dialect) -> Iterator[str]:
    """Arguments to which the examples give several types: all of them are one tool's schema."""
    seen: dict[tuple[str, str], set[str]] = {}
    for call in (call for example in dialect.examples for call in example.tool_calls):
        for key, value in call.arguments.items():
            seen.setdefault((call.name, key), set()).add("string" if isinstance(value, str) else "another type")
    for (name, key), types in seen.items():
        if len(types) > 1 and dialect.argument:
            why = "all examples declare a tool together, so its text may be a string everywhere"
            yield f"hint: argument {key!r} of {name!r} is a string in one example and of another type in another: {why}"


def _differences(got: Message, example: Example) -> Iterator[str]:
    for part in ("reasoning", "content"):
        yield from _differs(part, getattr(got, part), getattr(example, part))
    names = [c.name for c in got.tool_calls]
    expected = [c.name for c in example.tool_calls]
    if names != expected:
        yield from _differs("tool_calls", names, expected)
        return
    for i, (call, wanted) in enumerate(zip(got.tool_calls, example.tool_calls, strict=True)):
        where = f"tool_calls[{i}]"
        if call.status not in ("ok", "repaired"):
            yield f"{where}.status: got {call.status!r}, expected 'ok'"
        elif not _equal(json.loads(call.arguments), wanted.arguments):
            yield f"{where}.arguments: got {call.arguments}, expected {_json(wanted.arguments)}"
        if wanted.id is not None:
            yield from _differs(f"{where}.id", call.id, wanted.id)


def _differs(what: str, got: object, expected: object) -> Iterator[str]:
    if got != expected:
        yield f"{what}: got {got!r}, expected {expected!r}"


def _equal(a: Any, b: Any) -> bool:
    """Equality of JSON values; to Python ``1``, ``1.0`` and ``True`` are one, to JSON they are not."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    return type(a) is type(b) and bool(a == b)


def _written(dialect: Dialect, tools: list[dict[str, Any]], example: Example) -> Iterator[tuple[str, tuple[str, ...]]]:
    """How an example is written otherwise than its first text, and a hint where one thing alone differs."""
    try:
        written = render(example_message(example), dialect, tools=tools, stage=example.stage)
    except DialectError as error:
        yield f"the message cannot be written: {error}", ()
        return
    raw = example.raw[0]
    for what in _differs("the message is written differently", written, raw):
        end = next((e for e in dialect.end if raw.rstrip().endswith(e) and not written.endswith(e)), "")
        if end:
            yield what, (f"hint: a message is written without its `end`: list the text without {end!r} first",)
        elif _solid(written) == _solid(raw):
            at = next(i for i, (a, b) in enumerate(zip(written + "\0", raw + "\0", strict=False)) if a != b)
            why = "outer white space of the templates, and `separator`, say what is written between two parts"
            yield what, (f"hint: only white space differs, behind {raw[max(at - 12, 0) : at]!r}: {why}",)
        else:
            yield what, ()
