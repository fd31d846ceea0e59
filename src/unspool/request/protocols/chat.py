"""Reads requests of OpenAI's chat completions, for all three profiles of answers, and for the page's traces."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ...dialect.file import Dialect
from ...wire import CandleWriter, ChatWriter, MindieWriter, TraceWriter
from ...wire import chat as wire
from ...wire import mindie as mindie_wire
from ...wire import trace as trace_wire
from ...wire.chat import Options
from ..chat_request import ChatRequest
from ..common import bounded, check_messages, check_served, going_on, sampling, thinking, toolset, with_text
from ..declared import custom_call, read_nested, read_nested_choice
from ..fields import BadRequest, Fields
from ..parts.reading import CHAT, Forms, read_parts
from ..reasoning import Reasoning, read_budget, read_summary
from ..server_history import result_text, with_results
from ..server_tools import NOTHING, Offer, ServerTools, names_of, offered
from .base import WireProtocol

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
FORMATS = ("text", "json_object", "json_schema")
MAX_LOGPROBS = 20
_ANSWERED = ("tool_calls", "tool_results", "reasoning_content", "reasoning", "reasoning_details", "refusal")
"""Fields that only messages of the assistant have."""


class ChatProtocol(WireProtocol):
    id_prefix = "chatcmpl-"
    error_body = staticmethod(wire.error_body)
    custom_tools = True
    """Whether answers have a form for calls of custom tools."""

    def servers(self, fields: Fields) -> Collection[str] | None:
        return all_servers(fields)

    def read(self, fields: Fields, offer: Offer = NOTHING) -> ChatRequest:
        limits = self.settings.limits
        for legacy, instead in (("functions", "tools"), ("function_call", "tool_choice")):
            if fields.raw.get(legacy):
                raise fields.wrong(legacy, f"is not supported; use {instead}")
        fields.text("model", None)
        begun = going_on(fields)
        check_served(fields)
        check_messages(fields, "messages", limits)
        declared = read_nested(fields, custom=self.custom_tools)
        choice = read_nested_choice(fields, declared)
        named = names_of(declared.tools)
        beside = offer.beside_client(named)
        read = [m for one in fields.objects("messages") for m in with_results(one, _message(one), beside)]
        messages = bounded(read, fields, "messages", limits)
        if not messages:
            raise fields.wrong("messages", "is empty; at least one message is needed")
        server_tools = None if begun or choice == "none" else offered(fields, offer, named)
        tools = toolset(fields, declared.tools, choice, limits, server_tools=server_tools)
        logprobs = fields.flag("logprobs", None)
        top = fields.integer("top_logprobs", 0, MAX_LOGPROBS)
        if top is not None and not logprobs:
            raise fields.wrong("top_logprobs", "needs logprobs to be true")
        think, template, places = thinking(fields)
        return ChatRequest(
            messages=messages,
            begun=begun,
            toolset=tools,
            kinds=declared.kinds,
            grammars=declared.grammars,
            parallel=fields.flag("parallel_tool_calls", True),
            n=fields.integer("n", 1, min(limits.choices, limits.generations), 1),
            stop=fields.texts("stop", limits.stops),
            max_tokens=read_length(fields),
            sampling=sampling(fields, (top or 0) if logprobs else None),
            response_format=read_format(fields),
            thinking=think,
            template=template,
            template_at=places,
            reasoning=Reasoning(summary=read_summary(fields), budget=read_budget(fields, self.settings.efforts)),
            stream=fields.flag("stream"),
            include_usage=fields.object("stream_options").flag("include_usage"),
            body=fields.raw,
            server_tools=server_tools,
        )

    def sent_back(self, rounds: Sequence[dict[str, Any]], tools: ServerTools) -> list[list[dict[str, Any]]]:
        """See `WireProtocol.sent_back`: with ``tool_results`` and without."""
        said = [m for m in rounds if m["role"] == "assistant"]
        calls = [call for m in said for call in m.get("tool_calls", ())]
        theirs = [call for call in calls if not tools.answers(call["function"]["name"])]
        content = "".join(m["content"] or "" for m in said)
        answer = {"role": "assistant", "content": content, "tool_calls": theirs}
        ours = {"role": "assistant", "content": None, "tool_calls": [call for call in calls if call not in theirs]}
        return [[ours, *(m for m in rounds if m["role"] == "tool"), answer], [answer]]

    def writer(self, request: ChatRequest, id: str, created: int) -> ChatWriter:
        return ChatWriter(
            **self._options(request, id, created),
            n=request.n,
            reasoning_field=self.settings.reasoning_field,
            include_usage=request.include_usage,
            kinds=request.kinds,
        )

    def _options(self, request: ChatRequest, id: str, created: int) -> Options:
        """The options that the writers of all profiles have."""
        return {
            "id": id,
            "model": self.settings.model,
            "created": created,
            "calls_reason": self.settings.named_reason if request.toolset.kind == "named" else "tool_calls",
            "server_tools": request.server_tools is not None,
        }


class MindieProtocol(ChatProtocol):
    id_prefix = "endpoint_common_"
    custom_tools = False
    invalid_status = 422
    error_body = staticmethod(mindie_wire.error_body)

    def read(self, fields: Fields, offer: Offer = NOTHING) -> ChatRequest:
        request = super().read(fields, offer)
        if request.n != 1:
            raise fields.wrong("n", f"{request.n} is not 1")
        return request

    def writer(self, request: ChatRequest, id: str, created: int) -> MindieWriter:
        return MindieWriter(
            **self._options(request, id, created),
            reasoning_field=self.settings.reasoning_field,
            full_text=self.settings.full_text,
            timing=self.settings.timing,
        )


class CandleProtocol(ChatProtocol):
    keeps_events = True
    custom_tools = False

    def writer(self, request: ChatRequest, id: str, created: int) -> CandleWriter:
        return CandleWriter(
            **self._options(request, id, created),
            markers=reasoning_markers(self.settings.dialect),
            n=request.n,
            include_usage=request.include_usage,
            content_chunks=self.settings.content_chunks,
            summary=request.reasoning.summary,
        )


class TraceProtocol(ChatProtocol):
    """Requests with one choice, whose answers explain how they were parsed, and are always streamed."""

    id_prefix = "trace-"
    error_body = staticmethod(trace_wire.error_body)

    def servers(self, fields: Fields) -> Collection[str] | None:
        """No server: a trace shows a single output with its calls."""
        return ()

    def read(self, fields: Fields, offer: Offer = NOTHING) -> ChatRequest:
        if fields.raw.get("n") not in (None, 1):
            raise fields.wrong("n", "must be 1: a trace shows one choice")
        fields.raw["stream"] = True
        return super().read(fields, offer)

    def writer(self, request: ChatRequest, id: str, created: int) -> TraceWriter:  # type: ignore[override]
        return TraceWriter()


def all_servers(options: Fields) -> Collection[str] | None:
    """See `WireProtocol.servers`: of a protocol without a field for them, so that all are offered."""
    return () if options.raw.get("server_tools") is False or options.raw.get("tool_choice") == "none" else None


def reasoning_markers(dialect: Dialect) -> tuple[str, str]:
    """The markers that open and close reasoning; empty if the dialect has none."""
    if not dialect.reasoning:
        return "", ""
    return dialect.reasoning[0].opening.strip(), dialect.reasoning[0].closing.strip()


# -- requests ----------------------------------------------------------------------------------------------------------


def read_content(fields: Fields, forms: Forms = CHAT) -> Any:
    """Read a message's content: a string, a list of parts, or null. A refusal becomes the assistant's text, and a
    string among the parts is one of text."""
    content = fields.raw.get("content")
    if not isinstance(content, str | list | None):
        raise fields.wrong("content", "must be a string, a list of parts or null")
    if isinstance(content, list):
        parts = [{"type": "text", "text": one} if isinstance(one, str) else one for one in content]
        fields = fields.having({**fields.raw, "content": parts})
    return None if content is None else read_parts(fields, "content", forms)


def _message(fields: Fields) -> dict[str, Any]:
    """A message, whose reasoning becomes ``reasoning_content``, whatever its field was."""
    role = fields.one_of("role", ROLES)
    fields = fields.having({k: v for k, v in fields.raw.items() if k not in _ANSWERED or _says(v, role)})
    thoughts = []
    if role == "assistant" and isinstance(fields.raw.get("content"), list):  # some clients write these as parts
        parts = [(one, result_text(_thought(one))) for one in fields.raw["content"]]
        thoughts = [text for _, text in parts if text]
        fields = fields.having({**fields.raw, "content": [one for one, text in parts if not text]})
    content = read_content(fields)
    for field in ("name", "tool_call_id", "reasoning_content", "reasoning"):
        fields.text(field, None)
    _check_role(fields, role, content)
    message = {k: v for k, v in fields.raw.items() if k not in ("reasoning", "reasoning_details")}
    if content is not None:
        message["content"] = content
    return message | _answered(fields, content, thoughts) if role == "assistant" else message


def _answered(fields: Fields, content: Any, thoughts: Iterable[Any]) -> dict[str, Any]:
    """What only an answer has, with its thoughts, which may also be parts of its content."""
    answer = {"content": with_text(content, fields.text("refusal", None))}
    details = [d.raw.get("text") or d.raw.get("summary") for d in fields.objects("reasoning_details", ())]
    given = "".join(text for text in (*details, *thoughts) if isinstance(text, str))
    if reasoning := fields.raw.get("reasoning_content") or fields.raw.get("reasoning") or given:
        answer["reasoning_content"] = reasoning
    if fields.has("tool_calls"):
        answer["tool_calls"] = [_call(call) for call in fields.objects("tool_calls")]
    return answer


def _says(value: Any, role: str) -> bool:
    """Whether a field that only answers have is not empty: clients fill in those of which they know no value. In an
    answer, blank text is a text."""
    if isinstance(value, str):
        return role == "assistant" or bool(value.strip())
    return bool(value)


def _thought(part: Any) -> Any:
    """The text of a part of an answer that is a thought, as Mistral, LiteLLM and LangChain write it, or its texts."""
    kind = part.get("type") if isinstance(part, dict) else None
    return part.get(kind) if kind in ("thinking", "reasoning") else None


def _check_role(fields: Fields, role: str, content: Any) -> None:
    """Refuse what would be lost."""
    if fields.has("function_call"):
        raise fields.wrong("function_call", "is not supported; use tool_calls")
    if fields.has("audio") and not content:
        raise fields.wrong("audio", "is not supported: no sounds are stored; send content")
    for field in _ANSWERED if role != "assistant" else ():
        if field in fields.raw:
            raise fields.wrong(field, f"a message of role {role!r} has none")


def _call(fields: Fields) -> dict[str, Any]:
    """A call of the history. Every call becomes a function's, since the model knows only functions."""
    id = fields.text("id", None)
    if fields.one_of("type", ("function", "custom"), "function") == "custom":
        custom = fields.object("custom")
        return custom_call(id, custom.text("name"), custom.text("input"))
    function = fields.object("function")
    function.text("name")
    if not isinstance(function.raw.get("arguments"), str | dict | None):
        raise function.wrong("arguments", "must be a string")
    return fields.raw


def read_length(fields: Fields) -> int | None:
    """Read the largest number of tokens of an answer, under its name or its old one."""
    found: int | None = fields.integer("max_completion_tokens", 1, default=fields.integer("max_tokens", 1))
    return found


def read_format(fields: Fields) -> dict[str, Any] | None:
    """Read ``response_format``; ``None`` if it demands nothing but text."""
    if not fields.has("response_format"):
        return None
    found = fields.object("response_format")
    if found.one_of("type", FORMATS) == "text":
        return None
    if found.raw["type"] == "json_schema":
        schema = found.object("json_schema")
        schema.text("name", None)
        schema.flag("strict", None)
        if not isinstance(schema.raw.get("schema"), dict):
            raise BadRequest(schema.path("schema"), "must be an object")
    return found.raw
