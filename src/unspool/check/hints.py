"""Rules that explain why an example fails, and what would help."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

from ..dialect.compiling import marked
from ..dialect.file import Dialect
from ..dialect.lint import SOFT, Rules
from ..dialect.lint.proposals import common
from ..dialect.lint.rule import Found, found
from ..dialect.patterns import solid
from ..dialect.template import literal
from ..events import Stage
from .spacing import mended
from .traces import ExampleReading, ExampleWriting, trace
from .trials import Trial

ENDS = Rules()  # why an `end` inside a text ends the turn for the parser
HINTS = Rules()
WRITING = Rules()


def explained(reading: ExampleReading) -> Iterator[str]:
    """Explain, line by line, why a text does not mean what its example says."""
    yield from ENDS.hints(reading)
    yield from HINTS.hints(reading)
    yield from trace(reading)
    yield from SOFT.hints(reading.dialect)


def why_written(writing: ExampleWriting) -> tuple[str, ...]:
    """Explain why a message is written otherwise than its example says."""
    return tuple(itertools.islice(WRITING.hints(writing), 1))


# -- the text of the example -------------------------------------------------------------------------------------------


@HINTS.row(
    "examples", "the text has a backslash and an n where a line break is meant",
    ": TOML has no escapes in single quotes", "use double quotes, or real line breaks in triple single quotes",
)  # fmt: skip
def a_line_break_between_single_quotes(r: ExampleReading) -> Iterator[Found]:
    if r"\n" in r.message.reasoning + r.message.content and r"\n" not in r.example.reasoning + r.example.content:
        yield found("examples")


@ENDS.row(
    "examples, end", "the `end` string {end!r} occurs at {at}",
    ": it is markup if nothing, white space, another `end` or a `start` follows, and text otherwise",
    "take it out of `end` if it is part of a message",
)  # fmt: skip
def an_end_inside_the_text(r: ExampleReading | Trial) -> Iterator[Found]:
    rest = r.raw.rstrip()
    while trailing := next((end for end in r.dialect.end if rest.endswith(end)), ""):
        rest = rest.removesuffix(trailing).rstrip()
    for end in r.dialect.end:
        if end in rest:
            yield found("end", end=end, at=rest.index(end))


@HINTS.row(
    "examples, stage", "`stage` says that the text begins inside reasoning, and no closing precedes the content",
    instead="if the prompt closes the reasoning, write stage = 'content' in the example",
)  # fmt: skip
def an_answer_that_begins_as_reasoning(r: ExampleReading) -> Iterator[Found]:
    begun = r.example.stage is None and r.dialect.stage is Stage.REASONING
    if begun and r.message.reasoning and not r.example.reasoning:
        yield found("stage")


@HINTS.row(
    "examples, stage, reasoning", "nothing opens the reasoning that {closing!r} closes",
    instead="if the prompt does, write stage = 'reasoning' in the example, or in the file",
)  # fmt: skip
def reasoning_that_the_prompt_opens(r: ExampleReading) -> Iterator[Found]:
    if r.example.stage is not None or not r.example.reasoning or r.message.reasoning:
        return
    for t in r.dialect.reasoning:
        closing = t.closing.strip()
        if closing and closing in r.raw and t.opening.strip() not in r.raw.partition(closing)[0]:
            yield found("stage", closing=closing)
            return


# -- white space -------------------------------------------------------------------------------------------------------


@HINTS.row(
    "reasoning, content, calls", "white space beside a text belongs to it, unless a template has it",
    instead="to exclude it, write {key} = {proposal!r}",
)  # fmt: skip
def white_space_beside_a_text(r: ExampleReading) -> Iterator[Found]:
    d, example = r.dialect, r.example
    mended: dict[str, str] = {}

    def text_of(key: str) -> str:
        return mended.get(key) or (getattr(d, key)[0].text if getattr(d, key) else "{calls}")

    framed = d.framed and (not example.tool_calls or any(t.after for t in d.content))
    for part in ("reasoning", "content"):
        text, wanted = getattr(r.message, part), getattr(example, part)
        at = text.find(wanted) if wanted and text.strip() == wanted else -1
        if at < 0 or text == wanted:
            continue
        before, after = text[:at], text[at + len(wanted) :]
        if part == "reasoning" or framed:
            mended[part] = text_of(part).replace(f"{{{part}}}", f"{before}{{{part}}}{after}")
            continue
        if before and example.reasoning and d.reasoning:
            mended["reasoning"] = text_of("reasoning") + before
        if after and example.tool_calls:
            mended["calls"] = after + text_of("calls")
    for key, text in mended.items():
        yield found(key, key=key, proposal=text)


@HINTS.row(
    "argument", "white space beside a value belongs to it", instead="to exclude it, write argument = {proposal!r}",
)  # fmt: skip
def white_space_beside_a_value(r: ExampleReading) -> Iterator[Found]:
    for call, wanted in zip(r.message.tool_calls, r.example.tool_calls, strict=False):
        values: dict[str, Any] = json.loads(call.arguments) if call.status == "ok" and r.dialect.argument else {}
        for key, value in values.items():
            want = wanted.arguments.get(key)
            if not (isinstance(value, str) and isinstance(want, str) and want in value):
                continue
            before, _, after = value.partition(want)
            if want and value != want and value.strip() == want.strip():
                proposal = r.dialect.argument[0].text.replace("{value}", f"{before}{{value}}{after}")
                yield found("argument", proposal=proposal)
                return


# -- calls -------------------------------------------------------------------------------------------------------------


_KEYWORD = re.compile(r"\s*+[(]?\s*+[A-Za-z_]\w*+\s*+=")


@HINTS.row(
    "arguments", "arguments are read as JSON; these look like Python", instead="write arguments = 'python' in the file",
)  # fmt: skip
def arguments_in_python(r: ExampleReading) -> Iterator[Found]:
    calls = () if r.dialect.codec.name != "json" or r.dialect.argument else r.message.tool_calls
    if any(call.status == "invalid" and _KEYWORD.match(call.arguments) for call in calls):
        yield found("arguments")


_NAMED_OBJECT = re.compile(r'\s*+(\[?)\s*+\{\s*+"(\w++)"\s*+:\s*+"[^"]*+"\s*+,\s*+"(\w++)"\s*+:\s*+\{')


_OBJECT = ("call, calls", "after {opening!r} comes an object with the call's name")


def _object_instead(d: Dialect, raw: str) -> Iterator[Found]:
    """Find an object with the call's name in a text, after a marker of a dialect that writes the name before it."""
    if not d.call or d.call[0].object is not None:
        return
    for t in (*d.calls, *d.call):
        opening = (t.opening if t in d.calls else literal(t.head)).strip()
        at = raw.find(opening) if opening else -1
        m = _NAMED_OBJECT.match(raw, at + len(opening)) if at >= 0 else None
        if m is not None:
            bracket, name, arguments = m.groups()
            call = f'{{"{name}": "{{name}}", "{arguments}": {{arguments}}}}'
            written = f"{literal(t.head)}{call}{t.closing}" if t in d.call else call
            listed = f", calls = {opening + ' [{calls}]'!r} and separator.calls = ', '" if bracket else ""
            yield found("call", opening=opening, proposal=f"call = {written!r}{listed}")
            return


@HINTS.row(*_OBJECT, instead="write {proposal}")
def a_name_inside_the_object(r: ExampleReading) -> Iterator[Found]:
    if not r.message.tool_calls and r.example.tool_calls:
        yield from _object_instead(r.dialect, r.raw)


@HINTS.row(
    "calls, call, anywhere", "no letter or digit marks the calls", ", so that {after_content}", "write {proposal}"
)
def calls_that_look_like_text(r: ExampleReading) -> Iterator[Found]:
    """Calls after content whose opening has no letter or digit, so that only their place marks them."""
    d, example = r.dialect, r.example
    called = example.content and example.tool_calls and not r.message.tool_calls and d.call
    if not called or example.content not in r.raw:
        return
    block, call = d.calls[0], d.call[0]
    if marked(block.before or call.before, d.anywhere):
        return
    behind = r.raw.partition(example.content)[2]
    space = behind[: len(behind) - len(behind.lstrip())]
    opening = block.opening.strip() or literal(call.head).strip()
    if call.object is not None and not block.opening.strip():
        opening = opening.partition("{")[0] or "{"
    listed = "" if common(opening) else f"anywhere = [{opening!r}] if content does not contain it, or "
    if not opening:
        after = "after content, one that begins with its name looks like text, wherever it stands"
        proposal = f"a marker before it, as in call = {'<call>' + call.text!r}"
    elif space:
        after = "after content they count only where `calls` says: at a new line, or after a space"
        proposal = f"calls = {space + block.text.lstrip()!r}; or write {listed}a marker with a word"
    else:
        after = "right after content they look like text"
        proposal = f"{listed}a marker with a word"
    yield found("calls", after_content=after, proposal=proposal)


@HINTS.row(
    "argument, examples", "argument {key!r} of {name!r} is a string in one example and of another type in another",
    ": the tool's schema is made from all examples, so it may be read as a string everywhere",
)  # fmt: skip
def an_argument_of_several_types(r: ExampleReading) -> Iterator[Found]:
    seen: dict[tuple[str, str], set[bool]] = {}
    for call in (call for example in r.dialect.examples for call in example.tool_calls):
        for key, value in call.arguments.items():
            seen.setdefault((call.name, key), set()).add(isinstance(value, str))
    for (name, key), types in seen.items():
        if len(types) > 1 and r.dialect.argument:
            yield found("examples", name=name, key=key)


# -- what is written ---------------------------------------------------------------------------------------------------


@WRITING.row("examples, end", "a message is written without its `end`", instead="list the text without {end!r} first")
def a_text_with_its_end(w: ExampleWriting) -> Iterator[Found]:
    for end in w.dialect.end:
        if w.raw.rstrip().endswith(end) and not w.written.endswith(end):
            yield found("examples", end=end)


@WRITING.row(
    "reasoning, content, calls, call, argument, separator", "only white space differs, after {before!r}",
    instead="{proposal}",
)  # fmt: skip
def white_space_that_is_written_otherwise(w: ExampleWriting) -> Iterator[Found]:
    if solid(w.written) == solid(w.raw):
        at = next(i for i, (a, b) in enumerate(zip(w.written + "\0", w.raw + "\0", strict=False)) if a != b)
        keys = mended(w.dialect, w.written, w.raw, at, w.write)
        general = "outer white space of the templates, and `separator`, say what is written between two parts"
        yield found("examples", before=w.raw[max(at - 12, 0) : at], proposal=f"write {keys}" if keys else general)


@WRITING.row(*_OBJECT, instead="write {proposal}")
def an_object_that_is_read_in_any_format(w: ExampleWriting) -> Iterator[Found]:
    yield from _object_instead(w.dialect, w.raw)


@WRITING.row(
    "examples", "both are read as the message, and the first template is the one that is written",
    instead="list the rendered text first in `raw`",
)  # fmt: skip
def a_text_that_is_only_read(w: ExampleWriting) -> Iterator[Found]:
    if w.understood:
        yield found("examples")
