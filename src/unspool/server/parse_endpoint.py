"""`parse`: ``POST /parse``, which parses a text without an engine into a message, events, or steps."""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ..dialect.file import Dialect
from ..dialect.loader import parse_dialect
from ..dialect.registry import find_base, get_dialect
from ..engines.threads import Awaited
from ..errors import DialectError, ToolsError, UnknownDialect
from ..events import Event, Stage
from ..generation.service import Service
from ..generation.tracing import Trace
from ..parser import Parser
from ..policy import CHOICES, Policy
from ..request.common import toolset
from ..request.declared import read_nested
from ..request.fields import BadRequest, Fields
from ..validation import json_kind, json_shown
from ..wire.encoding import encode

_FORMATS: Final = ("message", "events", "steps")
_PIECE: Final = 2 * 1024  # how many characters are parsed between two checks, in a few milliseconds
MAX_PIECES: Final = 50_000  # how many pieces a text may be cut into
MAX_TOML: Final = 32 * 1024  # how many characters a dialect's file may have
_FILE: Final = "dialect.toml"  # the name of such a file in errors
FIELDS: Final = (
    "text", "pieces", "dialect", "toml", "reasoning", "tools", "tool_choice", "stage", "prompt", "policy",
    "finish_reason", "format",
)  # fmt: skip


class Piece(NamedTuple):
    """A piece of the output, with the stage that the engine reported."""

    text: str
    stage: Stage | None


class OutputToParse(NamedTuple):
    """An output to parse: a new parser, the pieces of the output, and the engine's finish reason."""

    parser: Parser
    pieces: list[Piece]
    reason: str

    def steps(self, awaited: Awaited) -> Iterator[tuple[Piece | None, list[Event]]]:
        """Yield the pieces with their events; ``None`` is the end. `Abandoned` if nobody waits any more."""
        feed = self.parser.feed
        for piece in self.pieces:
            awaited.check()
            events = feed(piece.text[:_PIECE], piece.stage)
            for at in range(_PIECE, len(piece.text), _PIECE):
                awaited.check()
                events += feed(piece.text[at : at + _PIECE], piece.stage)
            yield piece, events
        awaited.check()
        yield None, self.parser.close(self.reason)


def parse(service: Service, fields: Fields, awaited: Awaited) -> bytes:
    """Parse the text of a request.

    The body's fields are the arguments of `unspool.parse`. Without ``dialect``, the server's dialect and policies are
    used; ``toml`` is the text of a dialect file instead. ``pieces``, instead of ``text``, is the output as it was
    cut: strings, or objects with ``text`` and ``stage``. ``format`` is ``message``, ``events``, or ``steps``: the
    events of each piece, with the text that is still held after it.
    """
    fields.only(FIELDS)
    asked = read_asked(fields, service)
    form = fields.one_of("format", _FORMATS, "message")
    if form == "steps":
        return _steps(asked, awaited)
    # As bytes, events need a fraction of the memory.
    parts = [encode(events)[1:-1] for _, events in asked.steps(awaited) if events and form == "events"]
    return b'{"events":[' + b",".join(parts) + b"]}" if form == "events" else encode({"message": asked.parser.message})


def _steps(asked: OutputToParse, awaited: Awaited) -> bytes:
    parser = asked.parser
    trace, begins = Trace(parser), parser.stage
    steps = [encode(trace.step("" if piece is None else piece.text, events)) for piece, events in asked.steps(awaited)]
    head = encode({"dialect": parser.dialect.name, "stage": begins, "message": parser.message})
    return head[:-1] + b',"steps":[' + b",".join(steps) + b"]}"


def read_asked(fields: Fields, service: Service) -> OutputToParse:
    """Read the output to parse from the fields of `parse`."""
    settings = service.settings
    pieces = _pieces(fields, settings.limits.text)
    dialect, policy = read_dialect(fields, service)
    stage = fields.one_of("stage", tuple(Stage), None)
    prompt = read_prompt(fields, service)
    tools: Any = None
    choice = fields.raw.get("tool_choice")
    if fields.has("tools"):
        found = toolset(fields, read_nested(fields, custom=False).tools, choice, settings.limits)
        tools, choice = list((found.tools or {}).values()), found.choice
    try:
        parser = Parser(dialect, tools=tools, tool_choice=choice, stage=stage, prompt=prompt, policy=policy)
    except ToolsError as error:  # a tool choice without tools
        raise BadRequest(error.field, error.message) from None
    return OutputToParse(parser, pieces, fields.text("finish_reason", "stop"))


def read_prompt(fields: Fields, service: Service) -> str | None:
    prompt: str | None = fields.text("prompt", None)
    _check_length(fields, "prompt", len(prompt or ""), service.settings.limits.text)
    return prompt


def read_dialect(fields: Fields, service: Service) -> tuple[Dialect, Policy]:
    """Read the dialect and the policy: the server's, or as ``dialect``, ``toml``, ``reasoning`` and ``policy`` say."""
    settings = service.settings
    own = not any(map(fields.has, ("dialect", "reasoning", "toml")))
    dialect = settings.dialect if own else _dialect(fields, settings.dialect)
    return dialect, _policy(fields.object("policy")).over(settings.policy if own else Policy())


def _pieces(fields: Fields, most: int) -> list[Piece]:
    if not fields.has("pieces"):
        text = fields.text("text")
        _check_length(fields, "text", len(text), most)
        return [Piece(text[at : at + _PIECE], None) for at in range(0, len(text), _PIECE)]
    if fields.has("text"):
        raise fields.wrong("pieces", "cannot be combined with text")
    values = fields.array("pieces")
    if len(values) > MAX_PIECES:
        raise fields.wrong("pieces", f"{len(values):,} pieces; allowed are {MAX_PIECES:,}")
    found = []
    for i, value in enumerate(values):
        if isinstance(value, str):
            found.append(Piece(value, None))
        elif isinstance(value, dict):
            piece = Fields(value, f"{fields.path('pieces')}[{i}]")
            piece.only(Piece._fields)
            stage = piece.one_of("stage", tuple(Stage), None)
            found.append(Piece(piece.text("text", ""), None if stage is None else Stage(stage)))
        else:
            raise fields.wrong(f"pieces[{i}]", f"must be a string or an object, not {json_kind(value)}")
    _check_length(fields, "pieces", sum(len(p.text) for p in found), most)
    return found


def _check_length(fields: Fields, field: str, size: int, most: int) -> None:
    if size > most:
        raise fields.wrong(field, f"{size:,} characters; allowed are {most:,}")


def _dialect(fields: Fields, default: Dialect) -> Dialect:
    """Find a dialect by its name, never by a path: a request must not read the server's disk."""
    field = "toml" if fields.has("toml") else "dialect"
    try:
        if fields.has("toml"):
            dialect = _own(fields)
        else:
            dialect = get_dialect(fields.text("dialect")) if fields.has("dialect") else default
        field = "reasoning"
        if not fields.has(field):
            return dialect
        other = get_dialect(fields.text(field))
    except (UnknownDialect, DialectError) as error:
        raise fields.wrong(field, str(error)) from None
    if not other.reasoning:
        raise fields.wrong(field, f"the dialect {other.name!r} has no reasoning markers")
    return dialect.with_reasoning(other)


def _own(fields: Fields) -> Dialect:
    toml = fields.text("toml")
    _check_length(fields, "toml", len(toml), MAX_TOML)
    re.purge()  # what earlier files left in the cache of the standard library
    try:
        return parse_dialect(toml, _FILE, find_base)
    except RecursionError:
        raise fields.wrong("toml", "is nested too deeply") from None


def _policy(fields: Fields) -> Policy:
    fields.only(CHOICES)
    for field, value in fields.raw.items():
        if value is not None and value not in CHOICES[field]:
            allowed = ", ".join(str(c) for c in CHOICES[field])
            raise fields.wrong(field, f"{json_shown(value)} is not one of {allowed}")
    return Policy(**fields.raw)
