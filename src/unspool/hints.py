"""Explains why an example of a dialect file fails: how its text was read, by which rules, and what would help."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from .dialect.compiling import marked
from .dialect.file import Dialect, Example
from .dialect.patterns import Pattern, worded
from .dialect.template import literal
from .events import (
    NOTICES,
    ContentDelta,
    Event,
    Markup,
    Notice,
    ReasoningDelta,
    Stage,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from .message import Message

__all__ = ["end_hint", "explained", "rules"]


def explained(dialect: Dialect, raw: str, got: Message, events: Sequence[Event], example: Example) -> Iterator[str]:
    """Explain, line by line, why a text does not mean what its example says.

    Args:
        dialect: the dialect of the file.
        raw: the text.
        got: the message that it was read as.
        events: the events that it was read as.
        example: the message that it should mean.
    """
    yield from _escape_hint(got, example)
    yield from end_hint(dialect, raw)
    yield from _begun_hint(dialect, raw, got, example)
    yield from _edge_hints(dialect, got, example)
    yield from _value_hint(dialect, got, example)
    yield from _closed_itself_hint(dialect, raw, got, example)
    yield from _style_hint(dialect, got)
    yield from _object_hint(dialect, raw, got, example)
    yield from _unmarked_hint(dialect, raw, got, example)
    yield from _type_hint(dialect)
    yield from _trace(events, example)
    yield from rules(dialect)


# -- how a text was read -----------------------------------------------------------------------------------------------

_AROUND = 12  # how many events a trace shows on either side of the difference
_MAX_TEXT = 40  # how many characters of an event's text it shows


def _trace(events: Sequence[Event], example: Example) -> Iterator[str]:
    """How a text was read: its notices, and the events around the first one that the example does not have."""
    for event in events:
        if isinstance(event, Notice):
            detail = f" ({event.detail})" if event.detail else ""
            yield f"notice {event.kind} at {event.start}: {NOTICES[event.kind]}{detail}"
    at = _first_wrong(events, example)
    begin = max(0, at - _AROUND)
    words = [word for event in events[begin : at + _AROUND] if (word := _in_short(event))]
    before = ["…"] if any(map(_in_short, events[:begin])) else []
    behind = ["…"] if any(map(_in_short, events[at + _AROUND :])) else []
    yield "read as: " + ", ".join([*before, *words, *behind])


def _first_wrong(events: Sequence[Event], example: Example) -> int:
    """The index of the first event that the example does not have; the number of events if it has all."""
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
    """A line of a trace for an event; empty if it adds nothing."""
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


# -- rules, and proposals ------------------------------------------------------------------------------------


def rules(dialect: Dialect) -> Iterator[str]:
    """The rules by which a dialect's templates may not mean what they seem to mean, with proposals."""
    begins: dict[str, list[str]] = {}
    for key in ("reasoning", "content", "preamble", "calls", "call", "argument", "item"):
        for template in getattr(dialect, key):
            first = Pattern(template.before).first
            if first and key not in begins.setdefault(first, []):
                begins[first].append(key)
            opening = literal(template.head).strip()
            searched = Pattern((opening,)).first if opening else ""
            common = not worded(searched) or searched.isalnum()
            if " " in opening and searched != opening and common:
                what = f"`{key}` begins with {opening!r}, in which white space is soft"
                yield f"hint: {what}: only {searched!r} is searched for, and text may contain it for another reason"
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
            yield f"hint: the `end` string {end!r} occurs in `{inside[0]}` too, where it ends only that part"


def _escape_hint(got: Message, example: Example) -> Iterator[str]:
    """A line break that is written with a backslash, in a TOML string without escapes."""
    if r"\n" in got.reasoning + got.content and r"\n" not in example.reasoning + example.content:
        why = "the text has a backslash and an n where a line break is meant: TOML has no escapes in single quotes"
        yield f"hint: {why}: use double quotes, or real line breaks in triple single quotes"


def end_hint(dialect: Dialect, raw: str) -> Iterator[str]:
    """An `end` string inside a text, which ends the turn for the parser."""
    rest = raw.rstrip()
    while trailing := next((end for end in dialect.end if rest.endswith(end)), ""):
        rest = rest.removesuffix(trailing).rstrip()
    for end in dialect.end:
        if end in rest:
            place = f"the `end` string {end!r} occurs at {rest.index(end)}"
            why = "it is markup if nothing, white space, another `end` or a `start` follows, and text otherwise"
            yield f"hint: {place}: {why}; take it out of `end` if it is part of a message"


def _edge_hints(dialect: Dialect, got: Message, example: Example) -> Iterator[str]:
    """Surplus white space around a text: it belongs to the text unless a template has it."""
    mended: dict[str, str] = {}

    def put(key: str, before: str, after: str) -> None:
        """Add a proposal with white space beside the field, or the template, of a key."""
        text = mended.get(key) or (getattr(dialect, key)[0].text if getattr(dialect, key) else "{calls}")
        field = f"{{{key}}}"
        mended[key] = text.replace(field, before + field + after) if key in ("reasoning", "content") else before + text

    for part in ("reasoning", "content"):
        text, wanted = getattr(got, part), getattr(example, part)
        at = text.find(wanted) if wanted and text.strip() == wanted else -1
        if at < 0 or text == wanted:
            continue
        before, after = text[:at], text[at + len(wanted) :]
        frame = dialect.framed and (not example.tool_calls or any(t.after for t in dialect.content))
        if part == "reasoning" or frame:
            put(part, before, after)
            continue
        if before and example.reasoning and dialect.reasoning:
            mended["reasoning"] = (mended.get("reasoning") or dialect.reasoning[0].text) + before
        if after and example.tool_calls:
            put("calls", after, "")
    why = "white space beside a text belongs to it, unless a template has it"
    for key, text in mended.items():
        yield f"hint: {why}: to exclude it, write {key} = {text!r}"


def _begun_hint(dialect: Dialect, raw: str, got: Message, example: Example) -> Iterator[str]:
    """A text that begins inside reasoning, though the file says otherwise, or the reverse."""
    if example.stage is None and dialect.stage is Stage.REASONING and got.reasoning and not example.reasoning:
        why = "`stage` says that the text begins inside reasoning, and no closing precedes the content"
        yield f"hint: {why}: if the prompt closes the reasoning, write stage = 'content' in the example"
    if example.stage is not None or not example.reasoning or got.reasoning:
        return
    for t in dialect.reasoning:
        closing = t.closing.strip()
        if closing and closing in raw and t.opening.strip() not in raw.partition(closing)[0]:
            why = f"nothing opens the reasoning that {closing!r} closes"
            yield f"hint: {why}: if the prompt does, write stage = 'reasoning' in the example, or in the file"
            return


def _value_hint(dialect: Dialect, got: Message, example: Example) -> Iterator[str]:
    """White space beside the value of an argument: it belongs to the value unless the template has it."""
    for call, wanted in zip(got.tool_calls, example.tool_calls, strict=False):
        values: dict[str, Any] = json.loads(call.arguments) if call.status == "ok" and dialect.argument else {}
        for key, value in values.items():
            want = wanted.arguments.get(key)
            if isinstance(value, str) and isinstance(want, str) and value != want and value.strip() == want.strip():
                at = value.find(want)
                if want and at >= 0:
                    around = f"{value[:at]}{{value}}{value[at + len(want) :]}"
                    text = dialect.argument[0].text.replace("{value}", around)
                    yield f"hint: white space beside a value belongs to it: to exclude it, write argument = {text!r}"
                    return


def _closed_itself_hint(dialect: Dialect, raw: str, got: Message, example: Example) -> Iterator[str]:
    """A call without arguments in a tag that closes itself: ``/`` may be in a name."""
    named = [call.name for call in got.tool_calls]
    for call in example.tool_calls:
        at = raw.find(f"{call.name}/")
        if call.arguments or call.name in named or at < 0 or not dialect.call:
            continue
        after = raw[at + len(call.name) :].partition(">")[0] + ">"
        own = dialect.call[0].text.partition("{name}")[0] + "{name}" + after
        why = f"a name may contain '/', so {call.name + '/'!r} is read as one"
        yield f"hint: {why}: add a template for calls without arguments: call = [{dialect.call[0].text!r}, {own!r}]"
        return


_KEYWORD = re.compile(r"\s*+[(]?\s*+[A-Za-z_]\w*+\s*+=")


def _style_hint(dialect: Dialect, got: Message) -> Iterator[str]:
    """Arguments in Python's syntax, in a dialect with JSON."""
    if dialect.codec.name != "json" or dialect.argument:
        return
    for call in got.tool_calls:
        if call.status == "invalid" and _KEYWORD.match(call.arguments):
            yield "hint: arguments are read as JSON; these look like Python: write arguments = 'python' in the file"
            return


_NAMED_OBJECT = re.compile(r'\s*+(\[?)\s*+\{\s*+"(\w++)"\s*+:\s*+"[^"]*+"\s*+,\s*+"(\w++)"\s*+:\s*+\{')


def _object_hint(dialect: Dialect, raw: str, got: Message, example: Example) -> Iterator[str]:
    """Calls that are objects with the name inside, in a dialect that has the name elsewhere."""
    if got.tool_calls or not example.tool_calls or not dialect.call or dialect.call[0].object is not None:
        return
    for t in (*dialect.calls, *dialect.call):
        opening = (t.opening if t in dialect.calls else literal(t.head)).strip()
        at = raw.find(opening) if opening else -1
        m = _NAMED_OBJECT.match(raw, at + len(opening)) if at >= 0 else None
        if m is not None:
            bracket, name, arguments = m.groups()
            call = f'{{"{name}": "{{name}}", "{arguments}": {{arguments}}}}'
            written = f"{literal(t.head)}{call}{t.closing}" if t in dialect.call else call
            proposal = f"call = {written!r}"
            if bracket:
                proposal += f", calls = {opening + ' [{calls}]'!r} and separator.calls = ', '"
            yield f"hint: after {opening!r} comes an object with the call's name: write {proposal}"
            return


def _unmarked_hint(dialect: Dialect, raw: str, got: Message, example: Example) -> Iterator[str]:
    """Calls after content whose opening has no letter or digit, so that only their place marks them."""
    if not (example.content and example.tool_calls and example.content in raw) or got.tool_calls or not dialect.call:
        return
    block, call = dialect.calls[0], dialect.call[0]
    if marked(block.before or call.before, dialect.anywhere):
        return
    behind = raw.partition(example.content)[2]
    space = behind[: len(behind) - len(behind.lstrip())]
    opening = block.opening.strip() or literal(call.head).strip()
    if call.object is not None and not block.opening.strip():
        opening = opening.partition("{")[0] or "{"
    why = "no letter or digit marks the calls"
    if not opening:
        why = "after content, a call that begins with its name looks like text, wherever it stands"
        yield f"hint: {why}: write a marker before it, as in call = {'<call>' + call.text!r}"
    elif space:
        why = f"{why}, so that after content they count only where `calls` says: at a new line, or after a space"
        yield f"hint: {why}: write calls = {space + block.text.lstrip()!r}"
    else:
        why = f"{why}, so that right after content they look like text"
        yield f"hint: {why}: write anywhere = [{opening!r}] if content does not contain it, or a marker with a word"


def _type_hint(dialect: Dialect) -> Iterator[str]:
    """Arguments that have several types in the examples, from which the tool's schema is made."""
    seen: dict[tuple[str, str], set[str]] = {}
    for call in (call for example in dialect.examples for call in example.tool_calls):
        for key, value in call.arguments.items():
            seen.setdefault((call.name, key), set()).add("string" if isinstance(value, str) else "another type")
    for (name, key), types in seen.items():
        if len(types) > 1 and dialect.argument:
            why = "the tool's schema is made from all examples, so it may be read as a string everywhere"
            yield f"hint: argument {key!r} of {name!r} is a string in one example and of another type in another: {why}"
