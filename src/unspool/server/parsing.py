"""``POST /parse``: raw text in, a message or events out; no engine takes part."""

import asyncio

from starlette.types import Receive, Scope, Send

from ..dialect import Dialect
from ..errors import DialectError, ToolsError, UnknownDialect
from ..events import Stage
from ..parser import Parser
from ..policy import CHOICES, Policy
from ..registry import get_dialect
from ..wire import parse as wire
from ..wire.common import Failure
from .checks import BadRequest, Fields, read_object, shown
from .core import Core
from .endpoint import Disconnected, TooLarge, read_body, refusal
from .job import read_choice
from .protocols.chat import read_tools
from .replies import Reply

_FORMATS = ("message", "events")
_FIELDS = (
    "text",
    "dialect",
    "reasoning",
    "tools",
    "tool_choice",
    "stage",
    "prompt",
    "policy",
    "finish_reason",
    "format",
)


class ParseEndpoint:
    """An ASGI application that parses the texts of requests.

    The body's fields are the arguments of `unspool.parse`; ``dialect`` may be left out, then it is the server's with
    the server's policies. ``format`` is ``message`` or ``events``.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            reply = await self._answer(scope, receive)
        except Disconnected:
            return
        self._core.metrics.response(scope["path"], reply.status)
        await reply.send(send)

    async def _answer(self, scope: Scope, receive: Receive) -> Reply:
        refused = refusal(self._core, wire.error_body, scope)
        if refused is not None:
            return refused
        limit = self._core.settings.limits.body
        try:
            fields = read_object(await read_body(scope, receive, limit))
            parser, text, reason, form = self._read(fields)
        except TooLarge:
            return Reply(wire.error_body(Failure(f"the body is larger than {limit:,} bytes", 413)), 413, close=True)
        except BadRequest as error:
            status = error.status or 400
            return Reply(wire.error_body(Failure(str(error), status, error.param)), status)
        # In a thread: a long text takes a while, and streams go on meanwhile.
        return Reply(await asyncio.to_thread(_parse, parser, text, reason, form))

    def _read(self, fields: Fields) -> tuple[Parser, str, str, str]:
        unknown = sorted(fields.raw.keys() - set(_FIELDS))
        if unknown:
            raise fields.wrong(unknown[0], f"is not known; allowed are {', '.join(_FIELDS)}")
        settings = self._core.settings
        tools = read_tools(fields, settings.limits) if fields.has("tools") else None
        own = not fields.has("dialect") and not fields.has("reasoning")
        dialect = settings.dialect if own else _dialect(fields, settings.dialect)
        stage = fields.one_of("stage", tuple(Stage), None)
        prompt = fields.text("prompt", None)
        policy = _policy(fields.object("policy")).over(settings.policy if own else Policy())
        choice = (
            fields.raw.get("tool_choice")
            if tools is None
            else read_choice(fields, fields.raw.get("tool_choice"), tools)[0]
        )
        try:
            parser = Parser(dialect, tools=tools, tool_choice=choice, stage=stage, prompt=prompt, policy=policy)
        except ToolsError as error:  # a choice without tools, which the parser checks itself
            raise BadRequest(error.field, error.message) from None
        reason = fields.text("finish_reason", "stop")
        return parser, fields.text("text"), reason, fields.one_of("format", _FORMATS, "message")


def _dialect(fields: Fields, default: Dialect) -> Dialect:
    """A dialect by its names. Files are not taken: a request must not read the server's disk."""
    field = "dialect"
    try:
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


def _policy(fields: Fields) -> Policy:
    for field, value in fields.raw.items():
        if field not in CHOICES:
            raise fields.wrong(field, f"is not known; allowed are {', '.join(CHOICES)}")
        if value is not None and value not in CHOICES[field]:
            allowed = ", ".join(str(c) for c in CHOICES[field])
            raise fields.wrong(field, f"{shown(value)} is not one of {allowed}")
    return Policy(**fields.raw)


def _parse(parser: Parser, text: str, reason: str, form: str) -> bytes:
    events = parser.feed(text) + parser.close(reason)
    return wire.events(events) if form == "events" else wire.message(parser.message)
