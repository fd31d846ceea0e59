"""The page's endpoints besides ``/parse``: dialects, detection, grammars, prompts, and the bytes of each protocol."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from .. import __version__
from ..check import Problem, try_examples
from ..dialect.examples import example_tools
from ..dialect.file import Dialect
from ..dialect.loader import KEYS
from ..dialect.registry import get_dialect, list_dialects
from ..engines.threads import Awaited
from ..errors import ConstraintError, UnknownDialect
from ..events import NOTICES, Event, Stage
from ..generation.service import Service
from ..grammar import Constraint, constrain
from ..grammar.calls import LEVELS
from ..infer.detect import detect_dialect
from ..policy import CHOICES, DEFAULTS
from ..request.chat_request import check_text
from ..request.common import toolset
from ..request.declared import read_nested
from ..request.fields import BadRequest, Fields
from ..request.parts.reading import settled
from ..request.prepared import prepare
from ..request.protocols import TraceProtocol
from ..request.protocols.chat import read_format, reasoning_markers
from ..tokens import counted
from ..wire import AguiWriter, CandleWriter, ChatWriter, MessagesWriter, MindieWriter, ResponsesWriter, Writer
from ..wire.encoding import clean, encode
from .endpoint import Work
from .parse_endpoint import FIELDS, read_asked, read_dialect, read_prompt

_MAX_DETECT: Final = 16 * 1024
"""The longest output, in characters, for which dialects are detected, since every dialect reads it."""
_MAX_NAME: Final = 1024
_GRAMMAR: Final = (
    *("dialect", "toml", "reasoning", "policy", "tools", "tool_choice", "parallel_tool_calls"),
    *("stage", "prompt", "response_format", "strict_level"),
)


def _about(service: Service, fields: Fields, awaited: Awaited) -> bytes:
    """What the page needs first: dialects, policies, notices, and the server's settings."""
    fields.only(("dialect",))
    if fields.has("dialect"):
        try:
            return encode(_description(get_dialect(fields.text("dialect"))))
        except UnknownDialect as error:
            raise fields.wrong("dialect", str(error)) from None
    settings = service.settings
    return encode(
        {
            "version": __version__,
            "model": settings.model,
            "models": [one.settings.model for one in service.models],
            "engine": settings.engine,
            "dialect": settings.dialect.name,
            "stage": settings.dialect.stage,
            "policy": _policy_of(settings.policy.over(settings.dialect.policy).over(DEFAULTS)),
            "policies": CHOICES,
            "stages": list(Stage),
            "protocols": list(_WRITERS),
            "notices": NOTICES,
            "keys": KEYS,
            "levels": list(LEVELS),
            "strict_level": settings.strict_level.name.lower(),
            "prompts": service.prompts is not None,
            "sessions": service.sessions is not None,
            "limits": {"text": settings.limits.text, "body": settings.limits.body},
            "dialects": [
                {"name": d.name, "aliases": d.aliases, "description": d.description, "calls": bool(d.call)}
                for d in list_dialects()
            ],
        }
    )


def _description(dialect: Dialect) -> dict[str, Any]:
    return {
        "name": dialect.name,
        "aliases": dialect.aliases,
        "models": dialect.models,
        "description": dialect.description,
        "stage": dialect.stage,
        "policy": _policy_of(dialect.policy.over(DEFAULTS)),
        "toml": dialect.file[1],
        "tools": example_tools(dialect),
        "examples": dialect.examples,
    }


def _policy_of(policy: Any) -> dict[str, Any]:
    return {field: getattr(policy, field) for field in CHOICES}


def _detect(service: Service, fields: Fields, awaited: Awaited) -> bytes:
    """Detect the dialects that a model may use, by its name, its chat template, or its output."""
    fields.only(("model", "chat_template", "output"))
    given = {field: fields.text(field, None) for field in ("model", "chat_template", "output")}
    for field, value in given.items():
        most = _MAX_NAME if field == "model" else service.settings.limits.text
        if len(value or "") > most:
            raise fields.wrong(field, f"{len(value):,} characters; allowed are {most:,}")
    if not any(given.values()):
        raise BadRequest("output", "is required, or model, or chat_template")
    output = (given["output"] or "")[:_MAX_DETECT] or None
    found = detect_dialect(given["model"] or None, given["chat_template"] or None, output=output, awaited=awaited.check)
    return encode({"candidates": found})


def _check(service: Service, fields: Fields, awaited: Awaited) -> bytes:
    """Try the examples of a dialect file, and return the problems."""
    fields.only(("toml",))
    fields.text("toml")
    dialect, _ = read_dialect(fields, service)
    problems: list[Problem] = []
    for problem in try_examples(dialect):
        awaited.check()
        problems.append(problem)
    return encode({"dialect": _description(dialect), "problems": problems})


def _grammar(service: Service, fields: Fields, awaited: Awaited) -> bytes:
    """Derive a constraint, in each of its formats."""
    fields.only(_GRAMMAR)
    dialect, _ = read_dialect(fields, service)
    declared, choice = read_nested(fields, custom=False).tools, fields.raw.get("tool_choice")
    tools = toolset(fields, declared, choice, service.settings.limits)
    level = fields.one_of("strict_level", tuple(LEVELS), service.settings.strict_level.name.lower())
    try:
        found = constrain(
            dialect,
            tools.callable,
            tools.choice,
            fields.flag("parallel_tool_calls", True),
            stage=fields.one_of("stage", tuple(Stage), None),
            prompt=read_prompt(fields, service),
            response_format=read_format(fields),
            strict_level=LEVELS[level],
            closed=service.settings.closed,
        )
    except ConstraintError as error:
        field, _, message = str(error).partition(": ")
        raise BadRequest(field, message) from None
    return encode({"grammar": grammar_forms(found)})


def grammar_forms(constraint: Constraint | None) -> dict[str, Any] | None:
    """A constraint in all its formats, with the reason instead if a format cannot express it."""
    if constraint is None:
        return None
    written: dict[str, Any] = {}
    for form in ("lark", "gbnf", "structural_tag", "json_schema"):
        try:
            written[form] = {"grammar": getattr(constraint, form)}
        except ConstraintError as error:
            written[form] = {"error": str(error)}
    return written


def prompt(service: Service, fields: Fields, awaited: Awaited) -> bytes:
    """Return the engine's input for a chat completion: the rendered prompt, its stage, and the grammar."""
    settings, tokenizer = service.settings, service.engine.tokenizer
    request = settled(TraceProtocol(settings).read(fields), {}, settings.limits)
    check_text(request, settings.limits)
    prepared = prepare(request, settings, service.turns, tokenizer, service.constraints, awaited)
    text = prepared.prompt
    tokens = None if text is None or tokenizer is None else counted(tokenizer, text, awaited.check)
    return encode(
        {
            "prompt": text,
            "special": () if service.prompts is None else service.prompts.tokenizer.added,
            "stage": prepared.parsers[0].stage,
            "tokens": tokens,
            "grammar": grammar_forms(prepared.constraint),
        }
    )


def _chat(kind: Callable[..., Writer]) -> Callable[[str, Dialect], Writer]:
    return lambda model, dialect: kind(id="chatcmpl-1", model=model, created=0)


_WRITERS: Final[dict[str, Callable[[str, Dialect], Writer]]] = {
    "chat": _chat(ChatWriter),
    "responses": lambda model, dialect: ResponsesWriter(id="resp_1", model=model, created=0),
    "messages": lambda model, dialect: MessagesWriter(id="msg_1", model=model),
    "ag-ui": lambda model, dialect: AguiWriter(thread_id="thread_1", run_id="run_1", model=model),
    "mindie": _chat(MindieWriter),
    "candle": lambda model, dialect: CandleWriter(
        id="chatcmpl-1", model=model, created=0, markers=reasoning_markers(dialect)
    ),
}


def _protocol(service: Service, fields: Fields, awaited: Awaited) -> bytes:
    """Write a raw output in a protocol, streamed and whole, with made-up ids and times."""
    fields.only((*FIELDS, "protocol"))
    make = _WRITERS[fields.one_of("protocol", tuple(_WRITERS))]
    asked = read_asked(fields, service)
    model, dialect = service.settings.model, asked.parser.dialect
    writer = make(model, dialect)
    parts = [writer.start()]
    emitted: list[Event] = []
    for _, events in asked.steps(awaited):
        parts.append(writer.events(0, events))
        emitted += events
    parts.append(writer.finish())
    whole = make(model, dialect).whole([asked.parser.message], events=[emitted])
    stream = b"".join(parts).decode()
    return msgspec.json.encode({"stream": stream, "whole": clean(whole.decode())})


def _recordings(service: Service, fields: Fields, awaited: Awaited) -> bytes:
    """Return the recordings with which the page opens, as JSON lines; empty if there are none."""
    fields.only(())
    return encode({"recordings": service.settings.shown})


ASKED: Final[dict[str, Work]] = {
    "about": _about,
    "check": _check,
    "detect": _detect,
    "grammar": _grammar,
    "protocol": _protocol,
    "recordings": _recordings,
}
"""Answers the page's requests that need no model, by their names under ``/ui/``."""
