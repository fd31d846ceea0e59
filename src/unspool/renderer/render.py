"""Renders messages as a family's chat template writes them, with the templates of its dialect."""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..dialect.compiling import compile_plan
from ..dialect.file import Dialect
from ..dialect.ids import fill_id, fill_letters, random_letters
from ..dialect.plan import string_ends
from ..dialect.registry import as_dialect
from ..dialect.syntax import is_keyword
from ..dialect.template import Template, TextCall, id_pattern, unstarted, writable
from ..errors import DialectError
from ..events import Stage
from ..message import Message, ToolCall
from ..parser import parse
from ..toolset import Toolset, read_toolset
from .turn import Turn, TurnCall, read_turn
from .values import JSON, PYTHON, Raw, Value, as_escape, declare, in_quotes, kind, unfold, write

_TRIES: Final = 100  # to draw an id that is not given yet
_MAX_SHOWN: Final = 60


def render(
    message: Message | Mapping[str, Any],
    dialect: str | Dialect,
    *,
    tools: Sequence[Any] | Toolset | None = None,
    stage: Stage | str | None = None,
) -> str:
    """Return the text that the model would write for a message.

    Args:
        message: a `Message`, or an OpenAI assistant message.
        dialect: a name, or a `Dialect`.
        tools: OpenAI tool dicts, or a `Toolset`, for reading the text; ``None``: some with the types of the values.
        stage: where the text begins: at the beginning of the turn (``content``), after the opening of reasoning, or
            after the opening of a block of calls. Default: the stage of the dialect.

    Raises:
        UnknownDialect: no dialect has this name.
        DialectError: the dialect cannot express the message: no text reads back as it; names the field and why.
        TypeError, ValueError: an argument is wrong; the message names it.
    """
    d = as_dialect(dialect)
    request = read_toolset(tools)
    try:
        begin = None if stage is None else Stage(stage)
    except ValueError:
        raise ValueError(f"stage: {stage!r} is not one of {', '.join(Stage)}") from None
    return _TurnWriter(d, read_turn(message), request, begin).render()


@dataclass(slots=True)
class _SpacedText:
    lead: str
    text: str
    trail: str


@dataclass(slots=True)
class _Forms:
    """The alternatives by which one call is written: its own, and those of each argument."""

    call: Template
    arguments: dict[str, Template] = field(default_factory=dict)


@dataclass(slots=True)
class _Difference:
    """A field in which the text reads back differently."""

    part: str
    field: str
    why: str


def _unread(part: str, field: str, why: str) -> _Difference:
    return _Difference(part, field, f"the text would not read back: {why}")


class _TurnWriter:
    """Writes one turn: tries alternatives in order, until the text reads back."""

    def __init__(self, d: Dialect, turn: Turn, tools: Toolset, stage: Stage | None) -> None:  # a line for each field
        self.d = d
        self.turn = turn
        self.stage = stage
        self.begin = stage or d.stage
        unknown = tools.tools is None and turn.calls
        self.names = tools.names or ()
        self.tools = read_toolset(declare((c.name, c.value) for c in turn.calls)) if unknown else tools
        self.alternatives = {
            "reasoning": writable(d.reasoning),
            "content": writable(d.preamble or d.content if turn.calls else d.content),
            "calls": writable(d.calls),
        }
        self.chosen = dict.fromkeys(self.alternatives, 0)
        self.own = [self.own_text(c) for c in turn.calls]
        own_or_not = zip(turn.calls, self.own, strict=True) if d.call else ()
        self.forms = [_Forms(t.templates[0] if t else d.call_of(c.name)) for c, t in own_or_not]
        self.ids = _call_ids(d.id, turn.calls)
        ends = string_ends(compile_plan(d))
        self.ends = re.compile("|".join((r"\\.", *map(re.escape, ends)))) if ends else None
        self.style = PYTHON if d.codec.name == "python" else JSON if d.codec.quote == '"' else in_quotes(d.codec.quote)

    def own_text(self, call: TurnCall) -> TextCall | None:
        """How a call is written whose only argument is bare text."""
        found = self.d.text_call((self.tools.tools or {}).get(call.name), call.name)
        return found if found and call.value.keys() == {found.key} else None

    def render(self) -> str:
        self.check()
        text, difference = self.attempt()
        if difference is None:
            return text
        first = difference
        if self.fit_forms():
            text, difference = self.attempt()
        while difference is not None:
            if not self.advance(difference.part):
                raise self.refusal(first)
            text, difference = self.attempt()
        return text

    def attempt(self) -> tuple[str, _Difference | None]:
        """The text by the chosen alternatives, and where it reads back differently."""
        for i, (call, form) in enumerate(zip(self.turn.calls, self.forms, strict=True)):
            if form.call.object is None and self.d.codec.name == "python":
                key = next((k for k in call.value if not is_keyword(k)), None)
                if key is not None:
                    why = f"{key[:_MAX_SHOWN]!r} cannot be the name of a keyword argument"
                    return "", _Difference("calls", f"tool_calls[{i}].arguments", why)
        text = self.text()
        return text, self.differs(text)

    def check(self) -> None:  # an error for each thing that cannot be written
        d, turn = self.d, self.turn
        if turn.reasoning and not d.reasoning:
            raise DialectError(f"reasoning: dialect {d.name!r} has no markers for reasoning")
        if turn.calls and not d.call:
            raise DialectError(f"tool_calls: dialect {d.name!r} has no template for calls")
        if turn.calls and turn.content and d.policy.text_before_tools == "content":
            raise DialectError(
                f"content: dialect {d.name!r} reads calls after content as content (policy text_before_tools)"
            )
        seen: dict[str, int] = {}
        for i, call in enumerate(turn.calls):
            if not call.name.isprintable() and call.name not in self.names:
                raise DialectError(
                    f"tool_calls[{i}].name: {call.name[:_MAX_SHOWN]!r} has characters that cannot be seen"
                )
            if call.id and seen.setdefault(call.id, i) < i:
                at = f"tool_calls[{seen[call.id]}]"
                raise DialectError(f"tool_calls[{i}].id: {call.id[:_MAX_SHOWN]!r} is already the id of {at}")
        if self.begin is Stage.TOOL_CALL:
            for name, part in (("reasoning", turn.reasoning), ("content", turn.content)):
                if part:
                    raise DialectError(f"{name}: must be empty; with stage tool_call only calls can follow")
            if not turn.calls:
                raise DialectError("tool_calls: must not be empty with stage tool_call")

    # -- alternatives ---------------------------------------------------------------------------------------------

    def advance(self, part: str) -> bool:
        """Choose the next alternative for the part that does not read back, or else for another."""
        for name in (part, *(n for n in ("calls", "content", "reasoning") if n != part)):
            if self.chosen[name] + 1 < len(self.alternatives[name]):
                self.chosen[name] += 1
                return True
        return False

    def fit_forms(self) -> bool:
        """Find, for each call and each argument, the first alternative that reads back by itself."""
        calls, arguments = writable(self.d.call), writable(self.d.argument)
        if len(calls) + len(arguments) < 2 + bool(arguments) and not any(self.own):
            return False
        for i, call in enumerate(self.turn.calls):
            fitting = {k: self.fit_argument(call, k, arguments) for k in call.value} if len(arguments) > 1 else {}
            own = self.own[i]
            texts = writable(own.templates) if own else []
            forms = [
                _Forms(t, fitting) for t in (*texts, self.d.call_of(call.name), *calls) if t.body or not call.value
            ]
            self.forms[i] = next((f for f in forms if self.alone(call, f)), forms[0])
        return True

    def fit_argument(self, call: TurnCall, key: str, templates: list[Template]) -> Template:
        one = {key: call.value[key]}
        alone = TurnCall(call.name, call.id, write(one, JSON), one)
        fits = (t for t in templates if self.alone(alone, _Forms(self.d.call[0], {key: t})))
        return next(fits, templates[0])

    def alone(self, call: TurnCall, form: _Forms) -> bool:
        """Whether a message with only this call reads back."""
        renderer = _TurnWriter(self.d, Turn("", "", [call]), self.tools, Stage.CONTENT)
        renderer.forms = [form]
        return renderer.attempt()[1] is None

    def refusal(self, first: _Difference) -> DialectError:
        """The error for a turn that does not read back; names the part that fails by itself, if there is one."""
        turn = self.turn
        parts = [Turn(turn.reasoning, "", []), Turn("", turn.content, []), *(Turn("", "", [c]) for c in turn.calls)]
        parts = [p for p in parts if p.reasoning or p.content or p.calls]
        for i, part in enumerate(parts if len(parts) > 1 else ()):
            try:
                _TurnWriter(self.d, part, self.tools, Stage.CONTENT).render()
            except DialectError as error:
                number = i - (len(parts) - len(turn.calls))
                return DialectError(str(error).replace("tool_calls[0]", f"tool_calls[{number}]", 1))
        return DialectError(f"{first.field}: {first.why}")

    # -- writing --------------------------------------------------------------------------------------------------

    def text(self) -> str:
        parts = self.parts()
        out: list[str] = []
        margin = ""
        for i, part in enumerate(parts):
            out += (max(margin, part.lead, key=len) if i else "", part.text)
            margin = part.trail
        return "".join((*out, margin))

    def parts(self) -> list[_SpacedText]:
        turn = self.turn
        parts: list[_SpacedText] = []
        opened = self.begin is Stage.REASONING and bool(self.d.reasoning)
        if turn.reasoning or opened:
            parts.append(self.part("reasoning", turn.reasoning, first=True, opened=opened))
        if turn.content:
            parts.append(self.part("content", turn.content, first=not parts))
        if turn.calls:
            parts.append(self.calls(first=not parts))
        return parts

    def part(self, name: str, text: str, *, first: bool, opened: bool = False) -> _SpacedText:
        template = self.alternatives[name][self.chosen[name]]
        opening, closing = template.opening, template.closing
        opening = "" if opened else unstarted(opening, self.d.start) if first else opening
        lead, trail = self.margins(name)
        if name == "content" and not (template.before or template.after):
            # A part of white space only is at the beginning and the end of the turn.
            opening = opening if first else ""
            closing = "" if self.turn.calls else closing
        return _SpacedText(lead, opening + text + closing, trail)

    def margins(self, name: str) -> tuple[str, str]:
        """The margins of the chosen alternative; after the first, the longest of all, which is what is read."""
        templates, chosen = self.alternatives[name], self.chosen[name]
        if not chosen:
            return templates[0].lead, templates[0].trail
        return max((t.lead for t in templates), key=len), max((t.trail for t in templates), key=len)

    def calls(self, *, first: bool) -> _SpacedText:
        template = self.alternatives["calls"][self.chosen["calls"]]
        opening, closing = template.opening, template.closing
        calls = [self.call(i) for i in range(len(self.turn.calls))]
        begin = opening
        if first:
            begin = "" if self.begin is Stage.TOOL_CALL else unstarted(opening, self.d.start)
            if not opening:
                calls[0] = unstarted(calls[0], self.d.start)
        separator = self.d.separator.calls
        lead, trail = self.margins("calls")
        if template.body == "call":
            separator = closing + template.trail + separator + opening
        return _SpacedText(lead, begin + separator.join(calls) + closing, trail)

    def call(self, i: int) -> str:
        call, form = self.turn.calls[i], self.forms[i]
        index, own = self.ids[i]
        shape = form.call.object
        fields = {"name": call.name, "index": index, "number": str(int(index) + 1), "id": own}
        if shape is not None:
            style = PYTHON if shape.quote == "'" else JSON
            fields = {k: style.string(v)[1:-1] for k, v in fields.items()}
            fields["arguments"] = self.without_ends(call.text if style is JSON else write(call.value, PYTHON))
        elif form.call.body == "value":
            fields |= {"value": str(next(iter(call.value.values())))}
        elif form.call.body:
            fields["arguments"] = self.arguments(call, form)
        return form.call.fill(fields)

    def arguments(self, call: TurnCall, form: _Forms) -> str:
        d = self.d
        if d.argument:
            return d.separator.arguments.join(
                self.argument(form.arguments.get(k, d.argument[0]), k, v) for k, v in call.value.items()
            )
        if d.codec.name == "python":
            return ", ".join(f"{k}={self.without_ends(write(v, PYTHON))}" for k, v in call.value.items())
        return self.without_ends(call.text) if self.style is JSON else write(call.value, self.style)

    def without_ends(self, literal: str) -> str:
        """A literal with escapes in the place of markers that would end a string."""
        return literal if self.ends is None else self.ends.sub(_spelled_otherwise, literal)

    def argument(self, template: Template, key: str, value: Value) -> str:
        if self.d.item:
            return "".join(unfold({key: value}, lambda v: self.nested(template, v), _plain))
        return template.fill(_argument_fields(key, value) | {"value": _plain(value)})

    def nested(self, template: Template, value: dict[str, Any] | list[Any]) -> list[Value]:
        """Write an object as arguments, and a list as items."""
        found: list[Value] = []
        item = self.d.item[0]
        separator = self.d.separator.arguments if isinstance(value, dict) else ""
        for key, child in value.items() if isinstance(value, dict) else (("", v) for v in value):
            chosen = template if isinstance(value, dict) else item
            fields = _argument_fields(key, child)
            if found and separator:
                found.append(Raw(separator))
            for step in chosen.steps:
                found.append(child if step.name == "value" else Raw(step.write(fields)))
        return found

    # -- reading back ---------------------------------------------------------------------------------------------

    def differs(self, text: str) -> _Difference | None:  # a check for each field
        turn = self.turn
        read = parse(text, self.d, tools=self.tools, stage=self.stage)
        for name, want, got in (("reasoning", turn.reasoning, read.reasoning), ("content", turn.content, read.content)):
            if got and not want and len(read.tool_calls) < len(turn.calls):
                return _unread("calls", "tool_calls[0]", f"a call would be {name}: {got[:_MAX_SHOWN]!r}")
            if name == "reasoning" and not want and got and got in turn.content:
                return _unread("content", "content", f"part of it would be reasoning: {got[:_MAX_SHOWN]!r}")
            if want != got:
                return _unread(name, name, _comparison(want, got))
        if len(read.tool_calls) != len(turn.calls):
            return _unread("calls", "tool_calls", f"{len(turn.calls)} calls become {len(read.tool_calls)}")
        for i, (call, got_call) in enumerate(zip(turn.calls, read.tool_calls, strict=True)):
            found = self.call_differs(i, call, got_call)
            if found is not None:
                return found
        return None

    def call_differs(self, i: int, call: TurnCall, read: ToolCall) -> _Difference | None:
        at = f"tool_calls[{i}]"
        if call.name != read.name:
            return _unread("calls", f"{at}.name", _comparison(call.name, read.name))
        if read.status != "ok":
            return _unread("calls", f"{at}.arguments", f"the call would be {read.status}")
        try:
            back = TurnCall.read(read.name, read.id, read.arguments)
        except ValueError as error:  # two keys that read back as one
            return _unread("calls", f"{at}.arguments", str(error))
        if back.value != call.value:
            return _unread("calls", *_argument_difference(f"{at}.arguments", call, back))
        own = self.written_id(i)
        if own is not None and own != read.id:
            return _unread("calls", f"{at}.id", _comparison(own, read.id))
        return None

    def written_id(self, i: int) -> str | None:
        """The id that a call has before its arguments; one after them comes too late for a stream."""
        names = [step.name for step in self.forms[i].call.head]
        index, own = self.ids[i]
        if "id" in names:
            return own
        if ("index" in names or "number" in names) and "{index}" in self.d.id:
            return fill_id(self.d.id, self.turn.calls[i].name, index)
        return None


def _argument_fields(key: str, value: Value) -> dict[str, str]:
    return {"key": key, "string": "true" if isinstance(value, str) else "false", "type": kind(value)}


def _spelled_otherwise(m: re.Match[str]) -> str:
    """Escape the first character of a marker; leave an escape as it is."""
    text = m.group()
    return text if text[0] == "\\" else as_escape(text[0]) + text[1:]


def _plain(value: Value) -> str:
    return value if isinstance(value, str) else write(value, JSON)


# --- ids --------------------------------------------------------------------------------------------------------------


def _call_ids(template: str, calls: Sequence[TurnCall]) -> list[tuple[str, str]]:
    """The index and the id of each call: the index in its id, else its position, or the next whose id is unused."""
    counted = "{index}" in template or "{number}" in template
    indices = [_index_in(template, c) if c.id else None for c in calls]
    taken = {fill_id(template, c.name, i) for c, i in zip(calls, indices, strict=True) if i is not None}
    given = {c.id for c in calls if c.id}
    found: list[tuple[str, str]] = []
    for position, (call, index) in enumerate(zip(calls, indices, strict=True)):
        if index is None:
            index = str(position)
            while counted and fill_id(template, call.name, index) in taken:
                index = str(int(index) + 1)
            taken.add(fill_id(template, call.name, index))
        own = call.id or _drawn(fill_id(template, call.name, index), given)
        given.add(own)
        found.append((index, own))
    return found


def _drawn(template: str, given: Container[str]) -> str:
    """An id with random letters, of which a few tries find one that is not given yet."""
    own = template
    for _ in range(_TRIES if "?" in template else 0):
        own = fill_letters(template, random_letters(template.count("?")))
        if own not in given:
            break
    return own


def _index_in(template: str, call: TurnCall) -> str | None:
    match = re.fullmatch(id_pattern(template, call.name), call.id)
    fields = {} if match is None else match.groupdict()
    if not fields:
        return None
    index = fields["index"] if "index" in fields else str(int(fields["number"]) - 1)
    return index if fill_id(template, call.name, index) == call.id or "?" in template else None


def _comparison(want: str, got: str) -> str:
    """Describe two texts around the first character in which they differ."""
    n = min(len(want), len(got))
    at = next((i for i in range(n) if want[i] != got[i]), n)
    low = max(0, at - _MAX_SHOWN // 3)
    shown = [repr(t[low : low + _MAX_SHOWN]) + ("…" if len(t) > low + _MAX_SHOWN else "") for t in (want, got)]
    return f"{shown[0]} becomes {shown[1]}" + (f" at character {low}" if low else "")


def _argument_difference(where: str, call: TurnCall, back: TurnCall) -> tuple[str, str]:
    for key, value in call.value.items():
        at = f"{where}.{key}" if key.isidentifier() else f"{where}[{key[:_MAX_SHOWN]!r}]"
        if key not in back.value:
            return at, "the argument is lost"
        if back.value[key] != value:
            return at, _comparison(write(value, JSON), write(back.value[key], JSON))
    added = next(k for k in back.value if k not in call.value)
    return where, f"an argument {added[:_MAX_SHOWN]!r} is added"
