"""`Telemetry`: OpenTelemetry's spans of requests, outputs and calls of tools (the extra ``otel``).

Names and attributes are those of the semantic conventions for HTTP and for generative AI:
https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-spans.md

Nothing else imports OpenTelemetry, and nothing imports this module unless spans are wanted.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from importlib.metadata import entry_points
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.propagate import get_global_textmap
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode

from .. import __version__
from ..engines import Delta, Engine, EngineError, Request
from ..engines.base import engine_name
from ..message import Message
from ..regex import Regex
from ..request.chat_request import ChatRequest
from ..tools import ServerTool, ToolResult
from ..tools.base import shortened
from ..wire.common import Usage
from ..wire.encoding import clean, encode
from .choice import ChoiceReader

_PROTOCOLS: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
"""The names of OTLP's exporters among the entry points, by the protocols of ``OTEL_EXPORTER_OTLP_PROTOCOL``."""
_NAME: Final = 128  # how many characters of a name that a client or a model chose go into a span
_TEXT: Final = 16_384  # how many characters of one text go into a span
_MESSAGES: Final = 64  # how many of the last messages go into a span
_CARRIED: Final = Regex(r"[ -~]{1,512}")
"""The form of accepted headers: https://www.w3.org/TR/trace-context/#tracestate-limits asks for 512 characters."""
_ASKED: Final = ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty", "seed")
_CANCELLED: Final = "cancelled"


def configured(*, content: bool = False) -> "Telemetry | None":
    """Make the telemetry that the environment describes: ``OTEL_TRACES_EXPORTER``, ``OTEL_EXPORTER_OTLP_*``,
    ``OTEL_TRACES_SAMPLER``, ``OTEL_BSP_*``, ``OTEL_RESOURCE_ATTRIBUTES``, ``OTEL_SERVICE_NAME``.

    Args:
        content: whether spans contain texts.

    Returns:
        ``None`` if ``OTEL_SDK_DISABLED`` is true.

    Raises:
        ValueError: a variable is wrong; the message begins with its name.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    resource = Resource.create({"service.version": __version__})
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "unspool"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for exporter in _exporters():
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return Telemetry(provider, content=content)


def _exporters() -> Iterator[Any]:
    for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        where, wanted = "OTEL_TRACES_EXPORTER", name.strip()
        if wanted == "none":
            continue
        if wanted == "otlp":
            where = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
            if where not in os.environ:
                where = "OTEL_EXPORTER_OTLP_PROTOCOL"
            protocol = os.environ.get(where, "http/protobuf")
            if protocol not in _PROTOCOLS:
                raise ValueError(f"{where}: {protocol!r} is not one of {', '.join(_PROTOCOLS)}")
            wanted = _PROTOCOLS[protocol]
        found = entry_points(group="opentelemetry_traces_exporter", name=wanted)
        if not found:
            raise ValueError(f"{where}: no package with the exporter {wanted!r} is installed")
        yield next(iter(found)).load()()


class Telemetry:
    """Makes spans, which go to a provider (``None``: OpenTelemetry's own), and contain texts if ``content`` is true.
    Which span is the current one is OpenTelemetry's matter: tasks inherit it."""

    def __init__(self, provider: trace.TracerProvider | None, *, content: bool) -> None:
        self._provider = provider
        self._tracer = trace.get_tracer("unspool", __version__, provider)
        self._content = content

    def close(self) -> None:
        """Send what was not sent yet. It blocks."""
        if isinstance(self._provider, TracerProvider):
            self._provider.shutdown()

    @contextmanager
    def _span(self, name: str, kind: SpanKind, attributes: Mapping[str, Any], scope: Any = None) -> Iterator[Span]:
        context = None if scope is None else get_global_textmap().extract(_carried(scope))
        with self._tracer.start_as_current_span(
            name,
            context,
            kind,
            {k: v for k, v in attributes.items() if v is not None},
            record_exception=False,  # a traceback may hold texts
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except asyncio.CancelledError:
                _fail(span, _CANCELLED)
                raise
            except EngineError as error:
                if not error.refused:
                    _fail(span, str(error.status), str(error) if error.status >= 500 else None)
                raise
            except Exception as error:  # of any kind: it only passes here
                _fail(span, type(error).__name__)
                raise

    # -- requests --------------------------------------------------------------------------------------------------

    @contextmanager
    def request(self, scope: Mapping[str, Any]) -> Iterator[None]:
        """A context in which a request is answered. It continues the client's trace.

        Of what a client sends, only well-formed headers of the trace itself count, never its baggage.
        """
        path, server = scope["path"], scope.get("server") or (None, None)
        attributes = {
            "http.request.method": scope["method"],
            "http.route": path,
            "url.path": path,
            "url.scheme": scope.get("scheme"),
            "network.protocol.version": scope.get("http_version"),
            "server.address": server[0],
            "server.port": server[1],
        }
        with self._span(f"{scope['method']} {path}", SpanKind.SERVER, attributes, scope):
            yield

    def accepted(self, id: str, request: ChatRequest) -> None:
        """Describe the current request, which was read."""
        model = request.body.get("model")
        span = trace.get_current_span()
        span.set_attribute("gen_ai.response.id", id)
        if request.stream:
            span.set_attribute("gen_ai.request.stream", True)
        if isinstance(model, str):
            span.set_attribute("gen_ai.request.model", clean(model[:_NAME]))
        if request.n > 1:
            span.set_attribute("gen_ai.request.choice.count", request.n)

    def answered(self, status: int | str) -> None:
        """Note how the current request was answered: by a status, or ``cancelled``, or ``failed`` after it began."""
        span = trace.get_current_span()
        if isinstance(status, int):
            span.set_attribute("http.response.status_code", status)
        if isinstance(status, str) or status >= 500:
            _fail(span, str(status))

    # -- outputs ---------------------------------------------------------------------------------------------------

    @contextmanager
    def output(
        self, asked: Request, chat: ChatRequest, choice: ChoiceReader, engine: Engine, session: str | None
    ) -> Iterator["OutputSpan"]:
        """A context in which an engine generates an output, for a request of the session with this id, if of any."""
        operation = "chat" if asked.messages else "text_completion"
        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": engine_name(engine),
            "gen_ai.conversation.id": session or _conversation(chat.body),
            "gen_ai.request.model": asked.model,
            "gen_ai.response.model": asked.model,
            "gen_ai.response.id": asked.id,
            "gen_ai.request.stream": True,  # engines always stream
            "gen_ai.request.max_tokens": asked.max_tokens,
            "gen_ai.request.stop_sequences": [clean(stop[:_NAME]) for stop in chat.stop] or None,
            "gen_ai.output.type": "json" if chat.response_format is not None else None,
            **{f"gen_ai.request.{name}": getattr(asked.sampling, name) for name in _ASKED},
        }
        with self._span(f"{operation} {asked.model}", SpanKind.CLIENT, attributes) as span:
            content = self._content and span.is_recording()
            if content:
                span.set_attribute("gen_ai.input.messages", _text_of(_given(asked)))
            try:
                yield OutputSpan(span, content)
            finally:
                usage = choice.usage or Usage()
                counts = {
                    "input_tokens": usage.prompt_tokens or None,
                    "output_tokens": choice.tokens,
                    "cache_read.input_tokens": usage.cached_tokens,
                    "reasoning.output_tokens": usage.reasoning_tokens,
                }
                span.set_attributes({f"gen_ai.usage.{k}": v for k, v in counts.items() if v is not None})
                span.set_attribute("gen_ai.provider.name", engine_name(engine))  # detected by now

    # -- calls of tools --------------------------------------------------------------------------------------------

    @contextmanager
    def call(self, tool: ServerTool, id: str, arguments: str) -> Iterator[Callable[[ToolResult], None]]:
        """A context in which the server runs a call. Call the function that it returns with the result."""
        name = clean(tool.original[:_NAME])
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "extension",
            "gen_ai.tool.call.id": clean(id[:_NAME]),
            "gen_ai.tool.call.arguments": clean(arguments[:_TEXT]) if self._content else None,
            "unspool.tool.server": tool.server,
        }
        with self._span(f"execute_tool {name}", SpanKind.INTERNAL, attributes) as span:

            def end(result: ToolResult) -> None:
                if result.error:
                    _fail(span, "tool_error")
                if self._content:
                    span.set_attribute("gen_ai.tool.call.result", clean(result.text[:_TEXT]))

            yield end


class OutputSpan:
    """The span of an output; with its headers, a server continues the trace."""

    def __init__(self, span: Span, content: bool) -> None:
        self._span = span
        self._content = content
        self._began = time.perf_counter()
        self.headers: dict[str, str] = {}
        get_global_textmap().inject(self.headers)

    async def watched(self, stream: AsyncGenerator[Delta, None]) -> AsyncGenerator[Delta, None]:
        """The stream, whose first piece is timed."""
        first = True
        async with aclosing(stream):
            async for delta in stream:
                if first:
                    first = False
                    seconds = time.perf_counter() - self._began
                    self._span.set_attribute("gen_ai.response.time_to_first_chunk", seconds)
                yield delta

    def end(self, message: Message) -> None:
        """Note how the output ended."""
        self._span.set_attribute("gen_ai.response.finish_reasons", [message.finish_reason])
        if self._content:
            self._span.set_attribute("gen_ai.output.messages", _text_of([_answer(message)]))


def _fail(span: Span, kind: str, message: str | None = None) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR, message)


def _conversation(body: Mapping[str, Any]) -> str | None:
    """The id of a conversation of Responses, or of a thread of AG-UI."""
    given = body.get("conversation") or body.get("threadId")
    id = given.get("id") if isinstance(given, dict) else given
    return clean(id[:_NAME]) if isinstance(id, str) else None


def _carried(scope: Mapping[str, Any]) -> dict[str, str]:
    """The headers of a request's trace, each of which may occur once."""
    found: dict[str, str] = {}
    names = {name.encode() for name in get_global_textmap().fields} - {b"baggage"}
    for name, value in scope["headers"]:
        if name in names:
            text, key = value.decode("latin-1"), name.decode()
            found[key] = text if key not in found and _CARRIED.fullmatch(text) else ""
    return {name: text for name, text in found.items() if text}


# -- content -----------------------------------------------------------------------------------------------------------


def _text_of(messages: Sequence[Mapping[str, Any]]) -> str:
    return encode(messages).decode()


def _given(asked: Request) -> list[dict[str, Any]]:
    """The last messages of a request, or its raw prompt."""
    if not asked.messages:
        text = asked.prompt if isinstance(asked.prompt, str) else ""
        return [{"role": "user", "parts": [_part(text)]}]
    return [{"role": m.get("role"), "parts": [*_parts(m)]} for m in asked.messages[-_MESSAGES:]]


def _answer(message: Message) -> dict[str, Any]:
    return {**_given(Request(messages=[message.to_openai()]))[0], "finish_reason": message.finish_reason}


def _parts(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if message.get("reasoning_content"):
        yield _part(message["reasoning_content"], "reasoning")
    content = message.get("content") or ()
    pieces: Iterable[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for piece in pieces:
        if message.get("role") == "tool" and "text" in piece:
            yield {
                "type": "tool_call_response",
                "id": message.get("tool_call_id"),
                "response": shortened(str(piece["text"]), _TEXT),
            }
        elif "text" in piece:
            yield _part(piece["text"])
        else:
            yield {"type": str(piece.get("type"))}
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        given = function.get("arguments")
        arguments = given if isinstance(given, str) else encode(given).decode()
        yield {
            "type": "tool_call",
            "id": call.get("id"),
            "name": function.get("name"),
            "arguments": shortened(arguments, _TEXT),
        }


def _part(text: str, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "content": shortened(text, _TEXT)}
