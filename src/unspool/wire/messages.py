"""Anthropic's Messages API: blocks of thinking, text and tool use, one after the other.

Its clients use ``event:`` lines, and parse the input of each tool use. Arguments therefore wait until their call
ends, as Anthropic's values do unless fine-grained streaming is requested. Arguments that are not a JSON object are
wrapped in one, under the key that Anthropic documents for such input.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ..events import ToolCallEnd, ToolCallStart
from . import sse
from .blocks import BlockWriter, TextKind, events_of
from .common import Failure, Sealing, Usage, WholeAnswer
from .encoding import INVALID_JSON, clean, encode, quoted
from .server_tools import TOOL_LIMIT, ServerCallResult, ServerCallStart

STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    TOOL_LIMIT: "pause_turn",
}
"""Anthropic's stop reasons by the engine's finish reason; any other is ``end_turn``."""

PING: Final = sse.event(b"ping", b'{"type":"ping"}')
"""The event that keeps a connection alive; allowed anywhere between two events."""

_as_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def tool_input(arguments: str) -> str:
    """The JSON text of one object: the arguments themselves, byte for byte, or an object that wraps them."""
    try:
        _as_object(clean(arguments))
    except (msgspec.DecodeError, RecursionError):
        return encode({INVALID_JSON: arguments}).decode()
    return arguments


def tool_arguments(given: Mapping[str, Any]) -> str:
    wrapped = given.get(INVALID_JSON)
    if len(given) == 1 and isinstance(wrapped, str) and tool_input(wrapped) != wrapped:
        return wrapped
    return json.dumps(given, ensure_ascii=False)


class MessagesWriter(BlockWriter):
    """Writes one response: `start`, `events`, then `finish` or `error`; or `whole`.

    Args:
        id: ``msg_…``.
        model: the served name.
        fine_grained: pass on pieces of arguments as they arrive, unchecked, as in Anthropic's fine-grained tool
            streaming; clients must then expect invalid JSON.
        seal: makes the ``signature`` of thinking; ``None``: the signature is empty.
        omit: leave out the text of thinking, which is then only in its signature.
        edits: the edits of the context that were made, to list at the end; ``None`` if none were requested.
    """

    KEEP_ALIVE = PING

    def __init__(
        self,
        *,
        id: str,
        model: str,
        fine_grained: bool = False,
        seal: Sealing | None = None,
        omit: bool = False,
        edits: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        self._edits = {} if edits is None else {"context_management": {"applied_edits": list(edits)}}
        self._seal = seal
        self._omit = omit
        self._thoughts: list[str] = []
        self._identity = {"id": id, "type": "message", "role": "assistant", "model": model}
        self._fine_grained = fine_grained
        self._index = -1
        self._head = b""
        self._held: list[str] = []
        self._server_ids: dict[int, str] = {}
        self._kept: list[dict[str, Any]] | None = None  # the blocks so far, if the answer is not streamed

    # -- streaming -------------------------------------------------------------------------------------------------

    def start(self, usage: Usage | None = None) -> bytes:
        """``message_start``, with the prompt's tokens if the engine already knows them."""
        message: dict[str, Any] = {
            **self._identity,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(usage or Usage()),
        }
        return _event({"type": "message_start", "message": message})

    def finish(self, usage: Usage | None = None, stop_sequence: str | None = None) -> bytes:
        """``message_delta`` and ``message_stop``; see `Writer.finish`."""
        delta = _stop(self._finish_reason, stop_sequence)
        counts = _usage(usage) if usage else {"output_tokens": 0}
        last = {"type": "message_delta", "delta": delta, "usage": counts, **self._edits}
        return _event(last) + _event({"type": "message_stop"})

    def error(self, failure: Failure) -> bytes:
        """The event that ends a stream after a failure."""
        return sse.event(b"error", error_body(failure))

    def _block(self, block: dict[str, Any], delta: str, field: str) -> bytes:
        """Open a block, and prepare the beginning of its deltas."""
        self._index += 1
        if self._kept is not None:
            self._kept.append(block)
        self._head = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,' % self._index
            + f'"delta":{{"type":"{delta}","{field}":'.encode()
        )
        return _event({"type": "content_block_start", "index": self._index, "content_block": block})

    def _stop_block(self) -> bytes:
        return _event({"type": "content_block_stop", "index": self._index})

    def _open(self, kind: TextKind) -> bytes:
        if kind == "reasoning":
            self._thoughts = []
            block = {"type": "thinking", "thinking": "", "signature": ""}  # clients accept an empty signature
            return self._block(block, "thinking_delta", "thinking")
        return self._block(_text_block(""), "text_delta", "text")

    def _text(self, text: str) -> bytes:
        if self._kept is not None and not (self._omit and self._kind == "reasoning"):
            block = self._kept[-1]
            if "input" in block:
                block["input"] = msgspec.Raw(clean(text).encode())
            else:
                block[block["type"]] += text
        if self._kind == "reasoning":
            if self._seal is not None:
                self._thoughts.append(text)
            if self._omit:
                return b""
        return self._head + quoted(text) + b"}}\n\n"

    def _close(self, kind: TextKind) -> bytes:
        sealed = self._seal("".join(self._thoughts)) if kind == "reasoning" and self._seal is not None else None
        if not sealed:
            return self._stop_block()
        if self._kept is not None:
            self._kept[-1]["signature"] = sealed
        delta = {"type": "signature_delta", "signature": sealed}
        return _event({"type": "content_block_delta", "index": self._index, "delta": delta}) + self._stop_block()

    def _open_call(self, event: ToolCallStart) -> bytes:
        block = {"type": "tool_use", "id": event.id, "name": event.name, "input": {}}
        return self._block(block, "input_json_delta", "partial_json")

    def _arguments(self, text: str) -> bytes:
        if self._fine_grained and self._kept is None:
            return self._text(text)
        self._held.append(text)
        return b""

    def _close_call(self, event: ToolCallEnd) -> bytes:
        if self._fine_grained and self._kept is None:
            return self._stop_block()
        arguments = "".join(self._held)
        self._held = []
        return self._text(tool_input(arguments)) + self._stop_block()

    def _open_server_call(self, event: ServerCallStart) -> bytes:
        self._server_ids[event.index] = event.id
        names = {"name": event.name, "server_name": event.server}
        block = {"type": "mcp_tool_use", "id": event.id, **names, "input": {}}
        return self._block(block, "input_json_delta", "partial_json")

    def _result(self, event: ServerCallResult) -> bytes:
        id, content = self._server_ids.pop(event.index), [_text_block(event.text)] if event.text else []
        block = {"type": "mcp_tool_result", "tool_use_id": id, "is_error": event.error, "content": content}
        return self._block(block, "", "") + self._stop_block()

    # -- whole -----------------------------------------------------------------------------------------------------

    def _write_whole(self, answer: WholeAnswer) -> bytes:
        """The blocks of the stream, each complete; inputs keep the arguments' own bytes."""
        content: list[dict[str, Any]] = []
        self._kept = content
        self.events(0, events_of(answer))
        whole = {
            **self._identity,
            "content": content,
            **_stop(answer.messages[0].finish_reason, answer.stop_sequence),
            "usage": _usage(answer.usage or Usage()),
            **self._edits,
        }
        return encode(whole)


def _event(payload: dict[str, Any]) -> bytes:
    return sse.event(payload["type"].encode(), encode(payload))


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _stop(reason: str, stop_sequence: str | None) -> dict[str, Any]:
    stop_reason = STOP_REASONS.get(reason, "end_turn")
    if stop_reason == "end_turn" and stop_sequence is not None:
        stop_reason = "stop_sequence"
    return {"stop_reason": stop_reason, "stop_sequence": stop_sequence if stop_reason == "stop_sequence" else None}


def _usage(usage: Usage) -> dict[str, Any]:
    """The usage in Anthropic's form, which counts cached tokens of the prompt separately."""
    counts: dict[str, Any] = {"input_tokens": usage.prompt_tokens - (usage.cached_tokens or 0)}
    if usage.cached_tokens is not None:
        counts["cache_read_input_tokens"] = usage.cached_tokens
    counts["output_tokens"] = usage.completion_tokens
    if usage.reasoning_tokens is not None:
        counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return counts


_ERROR_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Anthropic's error types by status; any other 4xx is an invalid request, any other status an API error."""


NO_THREAD: Final = "thread_not_found"
"""The code at which Anthropic's client sends the whole conversation, instead of a ``thread`` and what is new in it."""


def error_body(failure: Failure) -> bytes:
    """The body of a response that is an error; also the data of a stream's event ``error``."""
    other = "invalid_request_error" if 400 <= failure.status < 500 else "api_error"
    kind = failure.type or _ERROR_TYPES.get(failure.status, other)
    details = {"details": {"error_code": NO_THREAD}} if failure.code == NO_THREAD else {}
    return encode({"type": "error", "error": {"type": kind, "message": failure.message, **details}})
