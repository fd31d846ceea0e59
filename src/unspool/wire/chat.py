"""OpenAI chat completions: ``chat.completion.chunk`` events and the whole ``chat.completion``.

The official clients decide the details. Their stream helper concatenates every string of a delta, so role, id, type
and name are sent once. It opens choices in order, so chunks with the roles come first, 0 to n-1. It takes a call as
complete when the next one opens, which parsers guarantee.

Calls of custom tools stream as those of functions, with their text in ``custom.input``. OpenAI's types define this
form for whole answers, and leave it open for chunks.

Profiles of other servers are subclasses, which differ in the handlers of events and a few constants.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NotRequired, TypedDict

from ..events import ContentDelta, Finish, ReasoningDelta, ToolCallDelta, ToolCallEnd, ToolCallStart
from ..message import Message, ToolCall, checked_messages
from ..validation import wrong_type
from . import sse
from .common import Failure, Usage, WholeAnswer, Writer, not_written
from .encoding import encode, on_one_line, quoted
from .freeform import ClientTool, Input, input_of
from .server_tools import TOOL_LIMIT, AnyEvent, Clients

ReasoningField = Literal["reasoning_content", "reasoning", "both"]
REASONING_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "reasoning_content": ("reasoning_content",),
    "reasoning": ("reasoning",),
    "both": ("reasoning_content", "reasoning"),
}
"""The fields for reasoning, by option."""


class Options(TypedDict):
    """The arguments of `ChatWriter` that all profiles have."""

    id: str
    model: str
    created: int
    calls_reason: NotRequired[str]
    server_tools: NotRequired[bool]


class StreamedChoice:
    """One choice of a stream: its prepared bytes, and what goes into its next chunk."""

    __slots__ = ("arguments", "content", "head", "inputs", "logprobs", "over", "plain", "tail")

    def __init__(self, head: bytes, tail: bytes) -> None:
        self.head = head
        self.content = head + b'"content":'
        self.plain = self.tail = tail
        self.arguments: dict[int, bytes] = {}
        self.inputs: dict[int, Input] = {}
        self.logprobs: list[Any] = []
        self.over = False


class ChatWriter(Writer):
    """Writes one response: `start`, then `events` of any choice in any order, then `finish` or `error`; or `whole`.

    Args:
        id, model, created: constant in all chunks; ``created`` is in seconds.
        n: number of choices.
        reasoning_field: ``reasoning_content``, ``reasoning`` or ``both``.
        include_usage: ``stream_options.include_usage``: a last chunk without choices has the usage, others ``null``.
        calls_reason: the finish reason of an answer with calls. At OpenAI, a named ``tool_choice`` finishes with
            ``stop``, and a request with the legacy ``function_call`` with ``function_call``.
        system_fingerprint: written if given.
        server_tools: whether the server runs tools itself. The protocol has no fields for that: their calls are left
            out, and an extension, ``tool_results``, has the result of each.
        kinds: the kinds of tools other than functions, by name: custom tools.

    Raises:
        ValueError: an option has a value that is not allowed.
    """

    ROLE_CHUNK = True
    """Whether the role has a chunk of its own, before all others."""
    DELTA = b""
    """The beginning of every delta."""
    NO_LOGPROBS = b'"logprobs":null,'
    """The bytes for a chunk without log probabilities."""

    def __init__(
        self,
        *,
        id: str,
        model: str,
        created: int,
        n: int = 1,
        reasoning_field: ReasoningField = "reasoning_content",
        include_usage: bool = False,
        calls_reason: str = "tool_calls",
        system_fingerprint: str | None = None,
        server_tools: bool = False,
        kinds: Mapping[str, ClientTool] | None = None,
    ) -> None:
        if n < 1:
            raise ValueError(f"n: must be at least 1, not {n}")
        if reasoning_field not in REASONING_FIELDS:
            raise ValueError(f"reasoning_field: {reasoning_field!r} is not one of {', '.join(REASONING_FIELDS)}")
        self._identity: dict[str, Any] = {"id": id, "object": "", "created": created, "model": model}
        if system_fingerprint is not None:
            self._identity["system_fingerprint"] = system_fingerprint
        self._prefix = (
            b"data: " + on_one_line(encode({**self._identity, "object": "chat.completion.chunk"}))[:-1] + b","
        )
        self._suffix = b',"usage":null}\n\n' if include_usage else b"}\n\n"
        self._include_usage = include_usage
        self._calls_reason = calls_reason
        self._fields = REASONING_FIELDS[reasoning_field]
        self._keys = tuple(encode(field) + b":" for field in self._fields)
        tail = self._tail((), b"null")
        head = b'"choices":[{"index":%d,"delta":{'
        self._choices = [StreamedChoice(self._prefix + head % i + self.DELTA, tail) for i in range(n)]
        self._clients = [Clients() for _ in range(n)] if server_tools else None
        self._kinds = kinds or {}
        self._handlers: dict[type, Callable[[StreamedChoice, Any], bytes]] = self._handle()
        if self._kinds:
            self._handlers |= {ToolCallDelta: self._any_arguments, ToolCallEnd: self._any_call_end}

    def _handle(self) -> dict[type, Callable[[StreamedChoice, Any], bytes]]:
        """The handlers of events; an event without one is not written."""
        return {
            ContentDelta: self._content,
            ReasoningDelta: self._reasoning,
            ToolCallStart: self._call,
            ToolCallDelta: self._arguments,
            Finish: self._finish,
        }

    # -- streaming -------------------------------------------------------------------------------------------------

    def start(self) -> bytes:
        """The role of every choice. The content is ``null``, as in the whole answer, until there is some."""
        if not self.ROLE_CHUNK:
            return b""
        return b"".join(c.head + b'"role":"assistant","content":null' + c.tail for c in self._choices)

    def events(self, choice: int, events: Sequence[AnyEvent], logprobs: Sequence[Any] = ()) -> bytes:
        """The next events of a choice.

        Args:
            choice: its index.
            events: the parser's events.
            logprobs: the engine's entries for the same tokens, in OpenAI's form. They go into the next chunk, since
                the parser may hold back their text.

        Raises:
            ValueError: there is no such choice.
            TypeError: these are not events.
        """
        try:
            c = self._choices[choice]
            count = len(events)
        except (IndexError, TypeError):
            if not isinstance(choice, int) or not 0 <= choice < len(self._choices):
                raise ValueError(f"choice: {choice!r} is not between 0 and {len(self._choices) - 1}") from None
            raise wrong_type("events", events, "a list of events") from None
        if logprobs:
            c.logprobs += logprobs
            c.tail = self._tail(c.logprobs, b"null")
        if self._clients is not None:
            return self._hide(c, self._clients[choice], events)
        return self._write(c, events, count)

    def _hide(self, c: StreamedChoice, clients: Clients, events: Sequence[AnyEvent]) -> bytes:
        """Write what a client may see, with the results of the server's calls."""
        known = len(clients.results)
        seen = clients.take(events)
        data = self._write(c, seen, len(seen)) if seen else b""
        if len(clients.results) == known:
            return data
        return data + c.head + b'"tool_results":' + on_one_line(encode(clients.results[known:])) + c.tail

    def _write(self, c: StreamedChoice, events: Sequence[AnyEvent], count: int) -> bytes:
        handlers = self._handlers
        if count == 1 and not c.logprobs and not c.over:  # the usual case
            handler = handlers.get(type(events[0]))
            return not_written(events[0]) if handler is None else handler(c, events[0])
        out: list[bytes] = []
        for event in events:
            handler = handlers.get(type(event))
            if handler is None or c.over:
                not_written(event)
                continue
            chunk = handler(c, event)
            if chunk:
                out.append(chunk)
                if c.logprobs:
                    c.logprobs = []
                    c.tail = c.plain
        return b"".join(out)

    def finish(self, usage: Usage | None = None, stop_sequence: str | None = None) -> bytes:
        """The bytes after the last event of the last choice: the usage, if requested, and the end of the stream."""
        if usage is None or not self._include_usage:
            return sse.DONE
        return self._prefix + b'"choices":[],"usage":' + encode(usage.openai()) + b"}\n\n" + sse.DONE

    def error(self, failure: Failure) -> bytes:
        """A failure after the first byte. The official clients raise on an event with an ``error``."""
        return sse.data(error_body(failure)) + sse.DONE

    def _tail(self, logprobs: Sequence[Any], reason: bytes) -> bytes:
        """The bytes after the members of a delta."""
        fields = (
            b'"logprobs":{"content":%b,"refusal":null},' % on_one_line(encode(logprobs))
            if logprobs
            else self.NO_LOGPROBS
        )
        return b"}," + fields + b'"finish_reason":' + reason + b"}]" + self._suffix

    def _content(self, c: StreamedChoice, event: ContentDelta) -> bytes:
        return c.content + quoted(event.text) + c.tail

    def _reasoning(self, c: StreamedChoice, event: ReasoningDelta) -> bytes:
        text = quoted(event.text)
        return c.head + b",".join([key + text for key in self._keys]) + c.tail

    def _call(self, c: StreamedChoice, event: ToolCallStart) -> bytes:
        kind, field = b"function", b"arguments"
        if event.name in self._kinds:
            kind, field = b"custom", b"input"
            c.inputs[event.index] = Input()
        c.arguments[event.index] = c.head + b'"tool_calls":[{"index":%d,"%b":{"%b":' % (event.index, kind, field)
        opened = b'"tool_calls":[{"index":%d,"id":%b,"type":"%b","%b":{"name":%b,"%b":""}}]'
        return c.head + opened % (event.index, quoted(event.id), kind, kind, quoted(event.name), field) + c.tail

    def _arguments(self, c: StreamedChoice, event: ToolCallDelta) -> bytes:
        return c.arguments[event.index] + quoted(event.arguments) + b"}}]" + c.tail

    # If custom tools are declared, a call may be of one of them.

    def _any_arguments(self, c: StreamedChoice, event: ToolCallDelta) -> bytes:
        text = c.inputs.get(event.index)
        return self._arguments(c, event) if text is None else self._input(c, event.index, text.feed(event.arguments))

    def _any_call_end(self, c: StreamedChoice, event: ToolCallEnd) -> bytes:
        text = c.inputs.pop(event.index, None)
        return b"" if text is None else self._input(c, event.index, text.close())

    def _input(self, c: StreamedChoice, index: int, text: str) -> bytes:
        return c.arguments[index] + quoted(text) + b"}}]" + c.tail if text else b""

    def _finish(self, c: StreamedChoice, event: Finish) -> bytes:
        c.over = True
        return c.head + self._tail(c.logprobs, quoted(self._reason(event.reason)))

    def _reason(self, reason: str) -> str:
        if reason == TOOL_LIMIT:
            return "length"
        return self._calls_reason if reason == "tool_calls" else reason

    # -- whole -----------------------------------------------------------------------------------------------------

    def _write_whole(self, answer: WholeAnswer) -> bytes:
        return encode(self._whole(answer))

    def _whole(self, answer: WholeAnswer) -> dict[str, Any]:
        whole = {
            **self._identity,
            "object": "chat.completion",
            "choices": [
                self._whole_choice(i, m, answer.logprobs[i] if answer.logprobs else ())
                for i, m in enumerate(checked_messages(answer.messages))
            ],
        }
        for clients, choice, events in zip(self._clients or (), whole["choices"], answer.events, strict=False):
            clients.take(events)
            if clients.results:
                choice["message"]["tool_results"] = clients.results
        if answer.usage is not None:
            whole["usage"] = answer.usage.openai()
        return whole

    def _whole_choice(self, index: int, message: Message, logprobs: Sequence[Any]) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": index, "message": self._message(message)}
        if logprobs or self.NO_LOGPROBS:
            choice["logprobs"] = {"content": list(logprobs), "refusal": None} if logprobs else None
        choice["finish_reason"] = self._reason(message.finish_reason)
        return choice

    def _message(self, message: Message) -> dict[str, Any]:
        sent: dict[str, Any] = {"role": "assistant", "content": message.content or None, "refusal": None}
        for field in self._fields:
            sent[field] = message.reasoning or None
        if message.tool_calls:
            sent["tool_calls"] = [tool_call(c, self._kinds) for c in message.tool_calls]
        return sent


def tool_call(call: ToolCall, kinds: Mapping[str, ClientTool] | None = None) -> dict[str, Any]:
    if kinds and call.name in kinds:
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": input_of(call.arguments)}}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


_INVALID: Final = "invalid_request_error"
_ERRORS: Final[dict[int, tuple[str, str | None]]] = {
    401: (_INVALID, "invalid_api_key"),
    403: ("permission_error", None),
    404: (_INVALID, None),
    413: (_INVALID, "request_too_large"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}
"""Type and code by status; any other 4xx is an invalid request, any other status a server error."""


def error_body(failure: Failure) -> bytes:
    """The body of a response that is an error: ``{"error": {"message", "type", "param", "code"}}``."""
    kind, code = _ERRORS.get(failure.status, (_INVALID if 400 <= failure.status < 500 else "server_error", None))
    error = {
        "message": failure.message,
        "type": failure.type or kind,
        "param": failure.param,
        "code": failure.code or code,
    }
    return encode({"error": error})
