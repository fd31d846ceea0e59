"""Checks a dialect file against its own examples, and against the promises of every dialect."""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from .arguments import check
from .dialect.compiling import compile_plan, listed, marked
from .dialect.examples import example_tools
from .dialect.file import Dialect, Example, read_dialect
from .dialect.impossible import closing_for
from .dialect.patterns import LITERAL, Pattern, plain_name, solid, worded
from .dialect.registry import find_base
from .dialect.template import BODIES, Template, id_steps, literal, unstarted
from .errors import ConstraintError, DialectError
from .events import Event
from .hints import end_hint, explained, rules
from .message import Message, ToolCall
from .parser import Parser
from .renderer import render
from .spacing import mended


def load_dialect(path: str | PathLike[str]) -> Dialect:
    """Load a dialect file and try its examples: each raw text is read whole, and each first one is rendered back.

    Args:
        path: a TOML file. Its ``base`` may be any dialect that `get_dialect` knows.

    Raises:
        DialectError: the file is invalid, or an example fails. The message names the key and what is allowed, or the
            example, the result and the expected result.
        TypeError: ``path`` is not a path.
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
    """A problem of a dialect file.

    Attributes:
        where: the example or the raw text, such as ``examples[0].raw[1]``.
        what: the difference between what was expected and what was got.
        why: how the text was read, line by line; empty if that does not help.
    """

    where: str
    what: str
    why: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def check_dialect(dialect: Dialect) -> list[Problem]:
    """Return the problems of a dialect; an empty list if there are none.

    Every raw text must mean its example's message, and every promise of `unspool.promises` must hold, as for the
    shipped dialects. A dialect with calls needs an example with one.
    """
    # Loading does not need the grammar.
    from .promises import DIALECT_PROMISES, RAW_PROMISES, WRITTEN_PROMISES
    from .trials import Case, at_content

    found = [*_opened_by_the_start(dialect), *_unclosed_frames(dialect)]
    found += [*_problems(dialect), *_foreign_ids(dialect)]
    found += [*_closed_by_openings(dialect), *_closed_alike(dialect), *_closed_as_opened(dialect)]
    found += [*_unlike_their_block(dialect), *_ended_inside(dialect)]
    found += [*_closed_inside_calls(dialect), *_begun_alike(dialect), *_closed_like_names(dialect)]
    found += [*_opened_by_names(dialect), *_opened_by_json(dialect), *_opened_like_json(dialect)]
    found += [*_bracketed_alone(dialect), *_without_arguments(dialect), *_glued(dialect), *_begun_by_ids(dialect)]
    if dialect.call and not any(example.tool_calls for example in dialect.examples):
        found.append(Problem("examples", "none contains a call, though the file has `call`: add one with `tool_calls`"))
    if found:
        return found
    tools = example_tools(dialect)
    for i, example in enumerate(dialect.examples):
        for j, raw in enumerate(example.raw):
            case = Case(dialect, j, raw, example, tools)
            for promise in (*RAW_PROMISES, *(WRITTEN_PROMISES if j == 0 else ())):
                found += _kept(f"examples[{i}].raw[{j}]", partial(promise, case), end_hint(dialect, raw))
    # The prompt decides the stage: a dialect that begins with reasoning must also work for outputs without it.
    for begun in dict.fromkeys((dialect, at_content(dialect))):
        for general in DIALECT_PROMISES:
            found += _kept("file", partial(general, begun))
    if found:
        found[0] = msgspec.structs.replace(found[0], why=(*found[0].why, *rules(dialect)))
    return found


def try_examples(dialect: Dialect) -> Iterator[Problem]:
    """Return the problems of a dialect's examples, each read whole and written back."""
    yield from _problems(dialect)


def _kept(where: str, promise: Callable[[], None], hints: Iterable[str] = ()) -> list[Problem]:
    try:
        promise()
    except (AssertionError, DialectError, ConstraintError) as error:
        return [Problem(where, str(error), tuple(hints))]
    return []


def example_message(example: Example) -> Message:
    """The message that an example describes; a call without an id has an empty one."""
    calls = [ToolCall(i, call.id or "", call.name, _json(call.arguments)) for i, call in enumerate(example.tool_calls)]
    return Message(reasoning=example.reasoning, content=example.content, tool_calls=calls)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _problems(dialect: Dialect) -> Iterator[Problem]:
    """Yield the examples that mean something else when they are read whole, or that are written differently."""
    tools = example_tools(dialect)
    for i, example in enumerate(dialect.examples):
        understood = False
        for j, raw in enumerate(example.raw):
            where = f"examples[{i}].raw[{j}]"
            message, events = _parse(dialect, tools, example, raw)
            differences = list(_differences(message, example))
            understood = understood or not (j or differences)
            for what in differences[:1]:
                yield Problem(where, what, tuple(explained(dialect, raw, message, events, example)))
            yield from (Problem(where, what) for what in differences[1:])
        for what, hint in _written(dialect, tools, example, understood=understood):
            yield Problem(f"examples[{i}].raw[0]", what, (*hint, *rules(dialect)))


def _parse(dialect: Dialect, tools: list[dict[str, Any]], example: Example, raw: str) -> tuple[Message, list[Event]]:
    # Random ids would differ from run to run. Other ids may be what an example expects.
    parser = Parser(dialect, tools=tools, stage=example.stage, ids=_made_id if "?" in dialect.id else None)
    events = parser.feed(raw) + parser.close()
    return parser.message, events


def _made_id(index: int, name: str) -> str:
    """An id that is the same in every run."""
    return f"made-{index}"


def _foreign_ids(dialect: Dialect) -> Iterator[Problem]:
    """Ids of examples that do not match `id`, so that no grammar could generate them."""
    if not dialect.call or not any(step.name == "id" for step in dialect.call[0].steps):
        return
    for i, example in enumerate(dialect.examples):
        for j, call in enumerate(example.tool_calls):
            if call.id is not None and not re.fullmatch(_id_pattern(dialect.id, call.name), call.id):
                what = f"{call.id!r} does not match `id`, {dialect.id!r}: write `id` so that it matches the model's ids"
                yield Problem(f"examples[{i}].tool_calls[{j}].id", what)


def _id_pattern(template: str, name: str) -> str:
    parts = []
    for step in id_steps(template):
        if step.name:
            parts.append(re.escape(name) if step.name == "name" else "[0-9]+")
        else:
            parts += ["[A-Za-z0-9]" if c == "?" else re.escape(c) for c in step.text]
    return "".join(parts)


def _closed_by_openings(dialect: Dialect) -> Iterator[Problem]:
    """Closings that are the beginning of another part's opening: after text, they look the same."""
    keys = ("reasoning", "content", "preamble", "calls", "call", "argument", "item")
    openings = [(key, t, solid(unstarted(t.opening, dialect.start))) for key in keys for t in getattr(dialect, key)]
    for key in ("reasoning", "content", "preamble", "argument", "item"):
        for t in getattr(dialect, key):
            closing = solid(t.closing)
            for other, u, opening in openings:
                if closing and u is not t and opening.startswith(closing):
                    what = f"{t.text!r} closes with {t.closing.strip()!r}, and {u.text!r} of `{other}` begins with it"
                    why = "after text, they look the same: make them begin with different characters"
                    yield Problem(key, f"{what}: {why}")


def _closed_alike(dialect: Dialect) -> Iterator[Problem]:
    """Nested parts with the same closing: if one closing is missing, nothing shows which one it is.

    Reasoning does not contain calls. Its closing may equal theirs, if it has a letter or digit, but must not be only
    the end of theirs. If frames open with a `start`, calls are frames too, and all closings may be equal.
    """
    nested = (("argument", "item"), ("call",), ("calls",), () if _starts_frames(dialect) else ("reasoning",))
    seen: list[tuple[str, str, str]] = []
    for keys in nested:
        found = [(key, t, solid(_end(t))) for key in keys for t in getattr(dialect, key) if _end(t)]
        for key, t, closing in found:
            for inner, text, known in seen:
                shared = key == "reasoning" and inner in ("call", "calls") and closing == known and worded(closing)
                if _alike(closing, known) and not shared:
                    what = f"{t.text!r} and {text!r} of `{inner}` both close with {min(closing, known, key=len)!r}"
                    why = "if one closing is missing, nothing shows which one it is: make them differ"
                    yield Problem(key, f"{what}: {why}")
            if key == "argument" and closing in (",", ";"):
                yield Problem(key, f"{t.text!r} closes with {closing!r}, which texts contain: write a longer one")
            elif key not in ("reasoning", "argument") and not closing.strip(",;"):
                what = f"{t.text!r} closes with {_end(t)!r}, which may also separate two parts"
                yield Problem(key, f"{what}: write a closing that is more than commas and semicolons")
            elif key == "calls" and closing[0] in ",;":
                what = f"{t.text!r} closes with {_end(t)!r}, which begins like a separator of calls"
                yield Problem(key, f"{what}: write a closing that begins with neither a comma nor a semicolon")
        seen += [(key, t.text, closing) for key, t, closing in found]


def _closed_inside_calls(dialect: Dialect) -> Iterator[Problem]:
    """Closings of reasoning inside the markers of a call: reasoning that mentions a call would end there."""
    if _starts_frames(dialect):
        return
    called = [(key, u) for key in ("calls", "call", "argument", "item") for u in getattr(dialect, key)]
    for t in dialect.reasoning:
        closing = solid(t.closing)
        for key, u in called:
            markers = [solid(p) for p in (*u.before, *u.after) if isinstance(p, str)]
            if any(closing in m for m in markers) and not _alike(closing, solid(_end(u))):
                what = f"{t.text!r} closes with {t.closing.strip()!r}, which {u.text!r} of `{key}` contains"
                yield Problem("reasoning", f"{what}: reasoning that mentions a call would end there: make them differ")


def _opened_by_the_start(dialect: Dialect) -> Iterator[Problem]:
    """Reasoning, or calls, whose whole opening is at the end of a ``start``: nothing would show where they begin.

    Parts may share what they all begin with: content then begins with it too.
    """
    found = [("reasoning", t, t.opening, 'stage = "reasoning"') for t in dialect.reasoning[:1]]
    if not any(unstarted(t.opening, dialect.start) != t.opening for t in dialect.content[:1]):
        found += [("calls", t, t.opening, 'stage = "tool_call" in the example') for t in dialect.calls[:1]]
        bare = dialect.call[:1] if not dialect.calls[:1] or not dialect.calls[0].opening else ()
        found += [("call", t, str(first), "") for t in bare for first in t.before[:1] if isinstance(first, str)]
    for key, t, opening, stage in found:
        for start in dialect.start if opening.strip() else ():
            if not unstarted(opening, (start,)).strip():
                what = f"{start!r} ends with {opening.strip()!r}, the opening of {t.text!r} of `{key}`"
                why = "" if key == "reasoning" else ", so that every turn would begin inside a call"
                instead = f"; if prompts have it, write {stage}" if stage else ""
                yield Problem("start", f"{what}{why}: leave it out of `start`{instead}")


def _unclosed_frames(dialect: Dialect) -> Iterator[Problem]:
    """Frames that white space alone closes, in formats where calls may follow: the next part's opening ends them."""
    for key in ("content", "preamble") if dialect.call else ():
        for t in getattr(dialect, key):
            if t.before and not t.after and t.inner_trail:
                moved = t.inner_trail + (dialect.calls[0].text.lstrip() if dialect.calls else "{calls}")
                what = f"{t.text!r} closes with white space only, which content may contain too"
                why = f"write {key} = {t.text.removesuffix(t.inner_trail)!r} and calls = {moved!r}"
                yield Problem(key, f"{what}: {why}, or a closing with a marker")


def _begun_by_ids(dialect: Dialect) -> Iterator[Problem]:
    """Calls that begin with their id, where nothing marks the beginning of their block either."""
    bare = any(not solid(unstarted(block.opening, dialect.start)) for block in dialect.calls)
    for t in dialect.call if bare else ():
        if t.object is None and t.steps[0].name == "id":
            what = f"{t.text!r} begins with {{id}}, so any text before a call is its id"
            proposal = f"<call>{t.text}"
            yield Problem("call", f"{what}: write a marker before it, as in {proposal!r}, or open `calls` with one")


def _closed_like_names(dialect: Dialect) -> Iterator[Problem]:
    """Calls whose closing begins like a name, and comes right after the name if the arguments are left out."""
    for t in dialect.call:
        if "{name}{arguments}" in t.text and t.closing and plain_name(t.closing[0]):
            what = f"{t.text!r} closes with {t.closing!r}, and {t.closing[0]!r} may be in a name"
            moved = t.text.replace("{name}{arguments}", "{name} {arguments}")
            yield Problem("call", f"{what}: without arguments, it is part of the name: separate them, as in {moved!r}")


def _glued(dialect: Dialect) -> Iterator[Problem]:
    """Calls that begin with a field and close with nothing, with nothing between two of them."""
    for t in dialect.call[:1]:
        separator = dialect.separator.calls
        if t.closing or t.object is not None or dialect.calls[0].body != "calls":
            continue
        if separator.strip() and dialect.argument_format == "json" and not marked(t.before, dialect.anywhere):
            what = f"{t.text!r} closes with nothing, and {separator!r} is between two calls"
            why = "if brackets are missing, it could be part of the arguments"
            yield Problem("separator", f"{what}: {why}: let `call` close with a marker, or begin with a word")
        elif t.steps[0].name and not separator:
            what = f"{t.text!r} begins with a field, and nothing is between two calls"
            why = "after a call without arguments, the next one would be part of its name"
            yield Problem("separator", f"{what}: {why}: write what is between them, as in separator.calls = '\\n'")


def _begun_alike(dialect: Dialect) -> Iterator[Problem]:
    """Openings that are the beginning of another opening: text after the shorter one may complete the longer one.

    Reasoning, which a prompt may open, is also compared with openings that are only read.
    """
    keys = ("reasoning", "content", "preamble", "calls")
    found = [(key, i, t) for key in keys for i, t in enumerate(getattr(dialect, key))]
    openings = [(key, i, t, solid(unstarted(t.opening, dialect.start))) for key, i, t in found]
    for key, first, t, opening in openings:
        if key == "calls" or first or not opening:
            continue
        for other, i, u, longer in openings:
            if longer != opening and longer.startswith(opening) and (i == 0 or key == "reasoning"):
                what = f"{t.text!r} opens with {t.opening.strip()!r}, and {u.text!r} of `{other}` begins with it"
                yield Problem(key, f"{what}: text could complete the longer opening: make neither begin with the other")


def _ended_inside(dialect: Dialect) -> Iterator[Problem]:
    """Parts whose opening, or whose closing, ends the turn, though something must follow it."""
    ends = tuple(solid(e) for e in dialect.end)
    for key in BODIES:
        for t in getattr(dialect, key):
            found = next((e for e in ends for p in t.before if isinstance(p, str) and e in solid(p)), "")
            if found:
                what = f"{t.text!r} opens with {found!r}, one of `end`, at which the model stops"
                yield Problem(key, f"{what}: leave it out of `end`, or open the part with something else")
    blocks = [b for b in dialect.calls if b.opening.strip() or b.closing.strip()]
    keys = ["argument", "item", *(["call"] if blocks else []), *([] if _starts_frames(dialect) else ["reasoning"])]
    for key in keys:
        for t in getattr(dialect, key):
            if solid(_end(t)).endswith(ends):
                what = f"{t.text!r} closes with {_end(t)!r}, one of `end`, at which the model stops"
                yield Problem(key, f"{what}: leave it out of `end`, or close the part with something else")


def _starts_frames(dialect: Dialect) -> bool:
    return dialect.framed and any(t.text.startswith(dialect.start) for t in dialect.reasoning[:1] if dialect.start)


def _end(t: Template) -> str:
    """The closing of a part; for a call that is an object, what follows the object."""
    return "".join(p if isinstance(p, str) else f"{{{p.name}}}" for p in t.after).strip()


def _alike(a: str, b: str) -> bool:
    """Whether two closings are equal, or one ends with the other, and that other has a letter or digit."""
    return a == b or any(x.endswith(y) and worded(y) for x, y in ((a, b), (b, a)))


def _unlike_their_block(dialect: Dialect) -> Iterator[Problem]:
    """Calls that begin in their block like another part, or that depend on their block's margin or marker."""
    for key in ("reasoning", "content", "preamble"):
        for t in getattr(dialect, key):
            opening = solid(unstarted(t.opening, dialect.start))
            for u in dialect.call:
                if opening and solid(literal(u.head)).startswith(opening):
                    what = f"{u.text!r} begins like {t.text!r} of `{key}`, with {t.opening.strip()!r}"
                    yield Problem("call", f"{what}: in text, they look the same: make them begin differently")
    for t in dialect.call:
        if t.trail and not all(block.closing for block in dialect.calls):
            moved = f"}}{t.trail}".join(dialect.calls[0].text.rsplit("}", 1))
            what = f"{t.text!r} ends with white space, and no marker of `calls` follows it"
            yield Problem("call", f"{what}: write it into `calls`, as in {moved!r}, and into `separator.calls`")
    for block, call in zip(dialect.calls[:1], dialect.call[:1], strict=False):
        opening = block.opening.strip()
        weak = opening and not marked(block.before, dialect.anywhere)
        if weak and marked(call.before, dialect.anywhere):
            what = (
                f"{block.text!r} opens with {opening!r}, which has no letter or digit (a fence's language is ignored)"
            )
            why = "so it counts only with declared tools, although `call` is marked"
            yield Problem("calls", f"{what}, {why}: write anywhere = [{opening!r}] if it counts anywhere")


def _opened_by_names(dialect: Dialect) -> Iterator[Problem]:
    """Parts whose opening is in the header of a call if a tool has a certain name: ``f:`` in ``<call>{name}: …``."""
    if dialect.framed or all(block.opening.strip() for block in dialect.calls):
        return  # calls are frames, or begin in a block, whatever their names
    for key in ("reasoning", "content", "preamble"):
        for t in getattr(dialect, key):
            opening = solid(unstarted(t.opening, dialect.start))
            for u in dialect.call:
                name = _name_between(opening, u)
                if name:
                    what = f"{t.text!r} opens with {opening!r}, which {u.text!r} contains if a tool is named {name!r}"
                    yield Problem(key, f"{what}: if that call is text, it would open the part: make them differ")


def _opened_like_json(dialect: Dialect) -> Iterator[Problem]:
    """Parts that open as JSON begins: if a request demands a call, it may be bare JSON."""
    for key in ("reasoning", "content", "preamble") if dialect.call else ():
        for t in getattr(dialect, key):
            opening = solid(unstarted(t.opening, dialect.start))
            if opening and any(bare.startswith(opening) for bare in ('[{"', '{"')):
                what = f"{t.text!r} opens with {opening!r}, as JSON does, which a call may be if a request demands one"
                yield Problem(key, f"{what}: write an opening with which JSON does not begin")


def _bracketed_alone(dialect: Dialect) -> Iterator[Problem]:
    """Calls that each open with the bracket of a JSON list: a list of several would end after its first call."""
    bare = [b for b in dialect.calls if not solid(unstarted(b.opening, dialect.start))]
    for block, t in itertools.product(bare[:1], dialect.call):
        before, after = t.text.partition("{")[0], t.text.rpartition("}")[2]
        if t.object is not None and solid(before) == "[":
            moved = f"{before}{{call}}{after}".join(re.split(r"\{calls?\}", block.text))
            what = f"{t.text!r} opens as a JSON list of calls does, and such a list would end after its first call"
            yield Problem("call", f"{what}: write the markers into `calls`, as in {moved!r}")


def _without_arguments(dialect: Dialect) -> Iterator[Problem]:
    """Calls that are written without arguments, whatever the tool: those of most tools could not be written."""
    for t in dialect.call[:1]:
        if not t.body:
            whole = _with_arguments(t, markup=bool(dialect.argument))
            why = "has no {arguments}, and the first template writes the calls of all tools"
            what = f"write first how the model writes arguments, as in call = [{whole!r}, {t.text!r}]"
            yield Problem("call", f"{t.text!r} {why}: {what}")


def _with_arguments(t: Template, *, markup: bool) -> str:
    """A template of calls without arguments, with a place for them: in its object, or before its closing."""
    if '"{name}"}' in t.text:
        return t.text.replace('"{name}"}', '"{name}", "arguments": {arguments}}')
    text = t.text.rstrip()
    closing = t.steps[-1].text.strip()
    if worded(closing):
        return f"{text.removesuffix(closing)}{'' if markup else ' '}{{arguments}}{closing}{t.trail}"
    return f"{text}{{arguments}}{closing_for(text)}{t.trail}"


_JSON = """{"a": {"a": [{"a": "a"}, ["a", null]], "a": "a"}}"""


def _opened_by_json(dialect: Dialect) -> Iterator[Problem]:
    """Calls that count anywhere, because `anywhere` says so, though JSON contains their openings, or what of them
    counts by itself."""
    texts = [t.translate({34: quote}) for t in (_JSON, solid(_JSON)) for quote in (34, 39)]
    for o in compile_plan(dialect).calls.following if dialect.anywhere else ():
        if o.marked and any(
            o.pattern.match(t, i, {}) >= 0 or listed(t[i : o.pattern.progress(t, i, whole=True)], dialect.anywhere)
            for t in texts
            for i in range(len(t))
        ):
            opening = "".join(a.text for a in o.pattern.atoms if a.kind == LITERAL)
            what = f"{dialect.anywhere[0]!r} makes {opening!r} open a call anywhere, and JSON contains it"
            yield Problem("anywhere", f"{what}: leave it out, or open calls with a marker that JSON does not contain")
            return


def _name_between(opening: str, call: Template) -> str:
    """The name of a tool with which the header of a call contains an opening; empty if there is none."""
    steps = [s for s in call.steps if s.name or s.text]
    at = next((i for i, s in enumerate(steps) if s.name == "name"), -1)
    if at < 0:
        return ""
    before = solid(steps[at - 1].text) if at and not steps[at - 1].name else ""
    after = solid(steps[at + 1].text) if at + 1 < len(steps) and not steps[at + 1].name else ""
    for begin in range(len(opening)):
        for end in range(begin + 1, len(opening)):
            around = before.endswith(opening[:begin]) and after.startswith(opening[end:])
            if around and plain_name(opening[begin:end]):
                return opening[begin:end]
    return ""


def _closed_as_opened(dialect: Dialect) -> Iterator[Problem]:
    """Openings that begin with the closing of the same part, or end with the beginning of it.

    Also closings of arguments and calls that an opening matches with its field, as ``[{key}]`` matches ``[/]``.
    """
    for key in ("reasoning", "content", "preamble"):
        for t in getattr(dialect, key):
            opening, closing = solid(t.opening), solid(t.closing)
            shared = next((k for k in range(len(closing) - 1, 0, -1) if opening.endswith(closing[:k])), 0)
            if closing and opening.startswith(closing):
                what = f"{t.text!r} closes with {t.closing.strip()!r}, and its opening begins with it"
                yield Problem(key, f"{what}: if the part opens again, they look the same: make them differ")
            elif shared:
                both = opening + closing[shared:]
                what = f"{t.text!r} opens with {opening!r} and closes with {closing!r}, so that {both!r} contains both"
                why = "if a prompt leaves open how the output begins, it may be either"
                instead = "begin the closing with what the opening does not end with"
                instead += ", or leave `reasoning` out" if key == "reasoning" else ""
                yield Problem(key, f"{what}: {why}: {instead}")
    for field, keys in (("key", ("argument", "item")), ("name", ("call", "calls"))):
        parts = [(key, t) for key in keys for t in getattr(dialect, key)]
        openings = [u for _, u in parts if not literal(u.head).endswith("<")]
        for key, t in parts:
            closing = _end(t)
            for u in openings if closing and all(isinstance(p, str) for p in t.after) else ():
                if u.before and Pattern(u.before).match(f"{closing}\n", 0, {}) in (len(closing), len(closing) + 1):
                    what = f"{t.text!r} closes with {closing!r}, which the opening of {u.text!r} reads as a {field}"
                    head = literal(u.head).strip()
                    begins = f"does not begin with {head!r}" if head else "begins with what no name contains, as <end>"
                    yield Problem(key, f"{what}: write a closing that {begins}")


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
    """Equality of JSON values. ``1``, ``1.0`` and ``True`` are equal in Python, but not in JSON."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    return type(a) is type(b) and bool(a == b)


def _tried(dialect: Dialect, tools: list[dict[str, Any]], example: Example) -> str:
    """How an example is written in a dialect; empty if it cannot be."""
    try:
        return render(example_message(example), dialect, tools=tools, stage=example.stage)
    except DialectError:
        return ""


def _written(
    dialect: Dialect, tools: list[dict[str, Any]], example: Example, *, understood: bool
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield how a rendered example differs from its first text, with hints.

    Args:
        understood: whether the first text is read as the message.
    """
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
        elif solid(written) == solid(raw):
            at = next(i for i, (a, b) in enumerate(zip(written + "\0", raw + "\0", strict=False)) if a != b)
            keys = mended(dialect, written, raw, at, partial(_tried, tools=tools, example=example))
            why = (
                f"write {keys}"
                if keys
                else ("outer white space of the templates, and `separator`, say what is written between two parts")
            )
            yield what, (f"hint: only white space differs, after {raw[max(at - 12, 0) : at]!r}: {why}",)
        elif understood:
            yield (
                what,
                (
                    "hint: both are read as the message, and the first template is the one that is written: "
                    "list the rendered text first in `raw`",
                ),
            )
        else:
            yield what, ()
