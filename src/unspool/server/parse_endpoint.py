"""`ParseEndpoint`: ``POST /parse``, which parses a text without an engine into a message or events."""

from typing import Any

from starlette.types import Receive, Scope, Send

from ..arguments import json_shown
from ..dialect.file import Dialect
from ..dialect.registry import get_dialect
from ..engines.threads import Awaited
from ..errors import DialectError, ToolsError, UnknownDialect
from ..events import Stage
from ..generation.service import Service, log
from ..parser import Parser
from ..policy import CHOICES, Policy
from ..request.common import toolset
from ..request.fields import BadRequest, Fields, read_object
from ..request.protocols.chat import read_tools
from ..wire import parse as wire
from ..wire.common import Failure
from .endpoint import answer
from .replies import Reply, failed

_FORMATS = ("message", "events")
_PIECE = 2 * 1024
"""Characters that are parsed between two checks; a few milliseconds."""
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

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await answer(self._service, wire.error_body, scope, receive, send, self._answer)

    async def _answer(self, scope: Scope, body: bytes, send: Send) -> None:
        try:
            # In a thread: a text takes a while, and streams must not wait for it.
            reply = Reply(await self._service.in_thread(len(body), lambda awaited: self._parse(body, awaited)))
        except BadRequest as error:
            status = error.status or 400
            reply = failed(wire.error_body, Failure(str(error), status, error.param))
        except Exception:
            log.exception("%s: the request failed", scope["path"])
            reply = failed(wire.error_body, Failure("internal server error", 500))
        self._service.metrics.response(scope["path"], reply.status)
        await reply.send(send)

    def _parse(self, body: bytes, awaited: Awaited) -> bytes:
        parser, text, reason, form = self._read(read_object(body))
        parts: list[bytes] = []
        for at in range(0, len(text), _PIECE):
            awaited.check()
            found = parser.feed(text[at : at + _PIECE])
            if form == "events":
                parts.append(wire.part(found))
        awaited.check()
        last = parser.close(reason)
        return wire.joined([*parts, wire.part(last)]) if form == "events" else wire.message(parser.message)

    def _read(self, fields: Fields) -> tuple[Parser, str, str, str]:
        unknown = sorted(fields.raw.keys() - set(_FIELDS))
        if unknown:
            raise fields.wrong(unknown[0], f"is unknown; allowed are {', '.join(_FIELDS)}")
        settings = self._service.settings
        for field in ("text", "prompt"):
            size = len(fields.text(field, None) or "")
            if size > settings.limits.text:
                raise fields.wrong(field, f"{size:,} characters; allowed are {settings.limits.text:,}")
        own = not fields.has("dialect") and not fields.has("reasoning")
        dialect = settings.dialect if own else _dialect(fields, settings.dialect)
        stage = fields.one_of("stage", tuple(Stage), None)
        prompt = fields.text("prompt", None)
        policy = _policy(fields.object("policy")).over(settings.policy if own else Policy())
        tools: Any = None
        choice = fields.raw.get("tool_choice")
        if fields.has("tools"):
            found = toolset(fields, read_tools(fields), choice, settings.limits)
            tools, choice = list((found.tools or {}).values()), found.choice
        try:
            parser = Parser(dialect, tools=tools, tool_choice=choice, stage=stage, prompt=prompt, policy=policy)
        except ToolsError as error:  # a choice without tools
            raise BadRequest(error.field, error.message) from None
        reason = fields.text("finish_reason", "stop")
        return parser, fields.text("text"), reason, fields.one_of("format", _FORMATS, "message")


def _dialect(fields: Fields, default: Dialect) -> Dialect:
    """A dialect by its name, never by its file: a request must not read the server's disk."""
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
            raise fields.wrong(field, f"is unknown; allowed are {', '.join(CHOICES)}")
        if value is not None and value not in CHOICES[field]:
            allowed = ", ".join(str(c) for c in CHOICES[field])
            raise fields.wrong(field, f"{json_shown(value)} is not one of {allowed}")
    return Policy(**fields.raw)
