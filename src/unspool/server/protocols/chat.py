"""Chat completions: requests, and the three profiles of answers."""

from collections.abc import Sequence
from typing import Any

from ...dialect.file import Dialect
from ...dialect.template import Piece
from ...wire import CandleWriter, ChatWriter, Failure, MindieWriter, Usage
from ...wire import chat as wire
from ...wire import mindie as mindie_wire
from ..checks import BadRequest, Fields
from ..job import (
    MAX_TOKENS,
    Job,
    check_messages,
    check_served,
    check_tools,
    not_text,
    read_choice,
    reasoning_of,
    sampling,
    thinking,
    tool,
)
from ..settings import Limits
from .base import Protocol, Result

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
FORMATS = ("text", "json_object", "json_schema")
MAX_LOGPROBS = 20


class ChatProtocol(Protocol):
    """OpenAI's own."""

    id_prefix = "chatcmpl-"

    def read(self, fields: Fields) -> Job:
        """See `Protocol.read`."""
        limits = self.settings.limits
        for legacy, instead in (("functions", "tools"), ("function_call", "tool_choice")):
            if fields.has(legacy):
                raise fields.wrong(legacy, f"is not supported; use {instead}")
        fields.text("model", None)
        fields.flag("continue_final_message")
        check_served(fields)
        check_messages(fields, "messages", limits)
        messages = read_messages(fields)
        tools = read_tools(fields, limits)
        choice, callable_ = read_choice(fields, fields.raw.get("tool_choice"), tools)
        logprobs = fields.flag("logprobs", None)
        top = fields.integer("top_logprobs", 0, MAX_LOGPROBS)
        if top is not None and not logprobs:
            raise fields.wrong("top_logprobs", "needs logprobs to be true")
        think, template = thinking(fields)
        most = fields.integer("max_tokens", 1, MAX_TOKENS)
        return Job(
            messages=messages,
            tools=tools,
            callable=callable_,
            tool_choice=choice,
            parallel=fields.flag("parallel_tool_calls", True),
            n=fields.integer("n", 1, min(limits.choices, limits.generations), 1),
            stop=fields.texts("stop", limits.stops),
            max_tokens=fields.integer("max_completion_tokens", 1, MAX_TOKENS, most),
            sampling=sampling(fields, (top or 0) if logprobs else None),
            response_format=read_format(fields),
            thinking=think,
            template=template,
            stream=fields.flag("stream"),
            include_usage=fields.object("stream_options").flag("include_usage"),
            given=fields.raw,
        )

    def writer(self, job: Job, id: str, created: int) -> ChatWriter:
        """See `Protocol.writer`."""
        return ChatWriter(
            id=id,
            model=self.settings.model,
            created=created,
            n=job.n,
            reasoning_field=self.settings.reasoning_field,
            include_usage=job.include_usage,
            calls_reason=self._calls_reason(job),
        )

    def whole(self, job: Job, id: str, created: int, results: Sequence[Result], usage: Usage | None) -> bytes:
        """See `Protocol.whole`."""
        return self.writer(job, id, created).whole([r.message for r in results], usage, _logprobs(results))

    def error_body(self, failure: Failure) -> bytes:
        """See `Protocol.error_body`."""
        return wire.error_body(failure)

    def _calls_reason(self, job: Job) -> str:
        return self.settings.named_reason if job.named else "tool_calls"


class MindieProtocol(ChatProtocol):
    """The MindIE profile."""

    id_prefix = "endpoint_common_"
    invalid = 422

    def read(self, fields: Fields) -> Job:
        """See `Protocol.read`; there is one choice."""
        job = super().read(fields)
        if job.n != 1:
            raise fields.wrong("n", f"{job.n} is not 1")
        return job

    def writer(self, job: Job, id: str, created: int) -> MindieWriter:
        """See `Protocol.writer`."""
        return MindieWriter(
            id=id,
            model=self.settings.model,
            created=created,
            reasoning_field=self.settings.reasoning_field,
            calls_reason=self._calls_reason(job),
            full_text=self.settings.full_text,
            timing=self.settings.timing,
        )

    def error_body(self, failure: Failure) -> bytes:
        """See `Protocol.error_body`."""
        return mindie_wire.error_body(failure)


class CandleProtocol(ChatProtocol):
    """The candle profile."""

    keeps_events = True

    def writer(self, job: Job, id: str, created: int) -> CandleWriter:
        """See `Protocol.writer`."""
        return CandleWriter(
            id=id,
            model=self.settings.model,
            created=created,
            markers=reasoning_markers(self.settings.dialect),
            n=job.n,
            include_usage=job.include_usage,
            calls_reason=self._calls_reason(job),
            content_chunks=self.settings.content_chunks,
        )

    def whole(self, job: Job, id: str, created: int, results: Sequence[Result], usage: Usage | None) -> bytes:
        """See `Protocol.whole`."""
        events = [r.events for r in results]
        messages = [r.message for r in results]
        return self.writer(job, id, created).whole(messages, usage, _logprobs(results), events=events)


def _logprobs(results: Sequence[Result]) -> Sequence[Sequence[Any]]:
    told = [r.logprobs for r in results]
    return told if any(told) else ()


def reasoning_markers(dialect: Dialect) -> tuple[str, str]:
    """What a dialect opens and closes reasoning with; empty where it has none."""

    def text(pieces: Sequence[Piece]) -> str:
        return "".join(p for p in pieces if isinstance(p, str))

    if not dialect.reasoning:
        return "", ""
    return text(dialect.reasoning[0].before), text(dialect.reasoning[0].after)


# -- requests ----------------------------------------------------------------------------------------------------------


def read_messages(fields: Fields) -> list[dict[str, Any]]:
    """The conversation. Reasoning of the history is told as ``reasoning_content``, whatever it was called.

    Raises:
        BadRequest: a message is not as it should be.
    """
    messages = [_message(m) for m in fields.objects("messages")]
    if not messages:
        raise fields.wrong("messages", "is empty; at least one message is needed")
    return messages


def read_content(fields: Fields) -> Any:
    """A message's content: a string, a list of parts of text or null. A refusal is the assistant's text.

    Raises:
        BadRequest: it is something else.
    """
    content = fields.raw.get("content")
    if isinstance(content, list):
        return [_text_part(part) for part in fields.objects("content")]
    if content is not None and not isinstance(content, str):
        raise fields.wrong("content", "must be a string, a list of parts or null")
    return content


def _text_part(part: Fields) -> dict[str, Any]:
    kind = part.text("type")
    if kind not in ("text", "refusal"):
        raise not_text(part, "text")
    return {**part.raw, "type": "text", "text": part.text(kind)}


def _message(fields: Fields) -> dict[str, Any]:
    role = fields.one_of("role", ROLES)
    content = read_content(fields)
    for field in ("name", "tool_call_id", "reasoning_content", "reasoning"):
        fields.text(field, None)
    message = {k: v for k, v in fields.raw.items() if k not in ("reasoning", "reasoning_details")}
    if isinstance(content, list):
        message["content"] = content
    if role == "assistant":
        list(fields.objects("reasoning_details", ()))
        reasoning = reasoning_of(fields.raw)
        if reasoning:
            message["reasoning_content"] = reasoning
        for call in fields.objects("tool_calls", ()):
            call.text("id", None)
            call.one_of("type", ("function",), "function")
            call.object("function").text("name")
            if not isinstance(call.object("function").raw.get("arguments"), str | dict | None):
                raise call.object("function").wrong("arguments", "must be a string")
    return message


def read_tools(fields: Fields, limits: Limits) -> list[dict[str, Any]]:
    """The tools.

    Raises:
        BadRequest: a tool is not as it should be.
    """
    found = []
    for one in fields.objects("tools", ()):
        one.one_of("type", ("function",), "function")
        function = Fields(one.raw.get("function"), one.path("function"))
        strict = function.flag("strict", None)
        found.append(tool(function.text("name"), function.text("description", None), read_parameters(function), strict))
    return check_tools("tools", found, limits)


def read_parameters(fields: Fields) -> dict[str, Any] | None:
    """The schema of a tool's arguments, where it has one.

    Raises:
        BadRequest: it is no object.
    """
    return fields.object("parameters").raw if fields.has("parameters") else None


def read_format(fields: Fields) -> dict[str, Any] | None:
    """``response_format``, where it asks for more than text.

    Raises:
        BadRequest: it is none of those that there are.
    """
    if not fields.has("response_format"):
        return None
    told = fields.object("response_format")
    if told.one_of("type", FORMATS) == "text":
        return None
    if told.raw["type"] == "json_schema":
        schema = told.object("json_schema")
        schema.text("name", None)
        schema.flag("strict", None)
        if not isinstance(schema.raw.get("schema"), dict):
            raise BadRequest(schema.path("schema"), "must be an object")
    return told.raw
