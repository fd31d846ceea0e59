"""OpenAI's Responses API: items of output (reasoning, message, function call), streamed one after another.

Every event has a ``sequence_number``. Ids of items are made from the response's id and their position, so that a
stream and a whole answer have the same ones. The last event of a stream contains the whole response; there is no
``[DONE]``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from ..events import ToolCallEnd, ToolCallStart
from . import sse
from .blocks import BlockWriter, TextKind, events_of
from .chat import error_body
from .common import Failure, Sealing, Usage, WholeAnswer
from .encoding import clean, encode, on_one_line, quoted
from .freeform import ITEMS, ClientTool, Input, OpenAIs
from .messages import tool_input
from .server_items import ServerItem
from .server_tools import TOOL_LIMIT, ApprovalAsked, ServerCallResult, ServerCallStart, ToolsListed
from .summary import Detail, ReasoningSummary

__all__ = ["DEFAULTS", "INCOMPLETE", "ResponsesWriter", "error_body"]

DEFAULTS: Final[dict[str, Any]] = {
    "background": False,
    "conversation": None,
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": False,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
"""The fields of the request that a response repeats, with their defaults."""

INCOMPLETE: Final = {
    "length": "max_output_tokens",
    "content_filter": "content_filter",
    TOOL_LIMIT: "max_output_tokens",  # the protocol has no name for it
}
"""The finish reasons that leave a response incomplete, with the protocol's names."""

Status = Literal["in_progress", "completed", "incomplete"]


class ResponsesWriter(BlockWriter):
    """Writes one response: `start`, `events`, then `finish` or `error`; or `whole`.

    Args:
        id: ``resp_…``.
        model: the served name.
        created: the time, in seconds.
        request: the fields of the request that a response repeats (see `DEFAULTS`); others are ignored.
        seal: makes the ``encrypted_content`` of reasoning; ``None``: the field is left out.
        summary: how detailed the summary of reasoning is; ``None``: the summary is empty.
        kinds: the kinds of tools other than functions, by name.

    Attributes:
        response: the JSON of the response when it was last written as a whole.
        status: its status.
        hidden: what clients do not get of an item, by its id: calls of a search with their results.
    """

    def __init__(
        self,
        *,
        id: str,
        model: str,
        created: int,
        request: Mapping[str, Any] | None = None,
        seal: Sealing | None = None,
        summary: Detail | None = None,
        kinds: Mapping[str, ClientTool] | None = None,
    ) -> None:
        super().__init__()
        self._kinds = kinds or {}
        self._input: Input | None = None
        self._seal = seal
        self._detail = summary
        self._summary: ReasoningSummary | None = None
        self._sentences: list[str] = []
        self._identity = {"id": id, "object": "response", "created_at": created, "model": model}
        self._repeated = {**DEFAULTS, **{k: v for k, v in (request or {}).items() if k in DEFAULTS}}
        self._stem = id.removeprefix("resp_")
        self._sequence = 0
        self.response = b""
        self.status = ""
        self.hidden: dict[str, dict[str, str]] = {}
        self._output: list[msgspec.Raw | None] = []  # None: an item that has not ended
        self._at = 0  # the open item
        self._server_items: dict[int, ServerItem] = {}
        self._head = b""
        self._parts: list[str] = []
        self._item_id = ""
        self._call_id, self._tool = "", ClientTool("function", "")  # the open call
        self._whole_call = False  # whether its item has no events for pieces of its arguments

    # -- streaming -------------------------------------------------------------------------------------------------

    def start(self) -> bytes:
        """``response.created`` and ``response.in_progress``."""
        response = msgspec.Raw(encode(self._response("in_progress", [])))
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def finish(self, usage: Usage | None = None, stop_sequence: str | None = None) -> bytes:
        """``response.completed``, or ``response.incomplete`` with its reason."""
        response = msgspec.Raw(self._ended(usage))
        return self._event(f"response.{self.status}", response=response)

    def error(self, failure: Failure) -> bytes:
        """``response.failed``, with the items that were complete."""
        response = self._response("failed", self._items())
        response["error"] = {"code": failure.code or _failure_code(failure.status), "message": failure.message}
        return self._event("response.failed", response=msgspec.Raw(self._whole(response)))

    def empty(self, status: str) -> bytes:
        """The response before its first item."""
        return self._whole(self._response(status, []))

    def _whole(self, response: dict[str, Any]) -> bytes:
        self.response, self.status = encode(response), response["status"]
        return self.response

    def _event(self, kind: str, **members: Any) -> bytes:
        payload = {"type": kind, "sequence_number": self._sequence, **members}
        self._sequence += 1
        return sse.event(kind.encode(), encode(payload))

    def _items(self) -> list[msgspec.Raw]:
        return [item for item in self._output if item is not None]

    def _place(self) -> dict[str, Any]:
        return {"output_index": self._at, "item_id": self._item_id}

    def _add(self, prefix: str) -> None:
        """The next item opens; its id has this prefix."""
        self._at = len(self._output)
        self._output.append(None)
        self._item_id = f"{prefix}_{self._stem}_{self._at}"

    def _added(self, item: dict[str, Any]) -> bytes:
        return self._event("response.output_item.added", output_index=self._at, item=item)

    def _done(self, item: dict[str, Any]) -> bytes:
        encoded = msgspec.Raw(encode(item))
        self._output[self._at] = encoded
        return self._event("response.output_item.done", output_index=self._at, item=encoded)

    def _prepare(self, kind: str, **members: Any) -> None:
        """Prepare the beginning of the open item's deltas, up to the sequence number."""
        payload = on_one_line(encode({"type": kind, **self._place(), **members}))[:-1]
        self._head = b"event: %b\ndata: " % kind.encode() + payload + b',"sequence_number":'
        self._parts = []

    def _delta(self, text: str) -> bytes:
        self._sequence += 1
        return self._head + b'%d,"delta":' % (self._sequence - 1) + quoted(text) + b"}\n\n"

    def _text(self, text: str) -> bytes:
        self._parts.append(text)
        data = self._delta(text)
        return data if self._summary is None else data + self._summarize(self._summary.feed(text))

    def _summarize(self, sentences: Sequence[str]) -> bytes:
        """The next parts of the open item's summary."""
        out = b""
        for text in sentences:
            place = {**self._place(), "summary_index": len(self._sentences)}
            self._sentences.append(text)
            out += self._event("response.reasoning_summary_part.added", **place, part=_summary_part(""))
            out += self._event("response.reasoning_summary_text.delta", **place, delta=text)
            out += self._event("response.reasoning_summary_text.done", **place, text=text)
            out += self._event("response.reasoning_summary_part.done", **place, part=_summary_part(text))
        return out

    def _open(self, kind: TextKind) -> bytes:
        reasoning = kind == "reasoning"
        if reasoning and self._detail is not None:
            self._summary, self._sentences = ReasoningSummary(self._detail), []
        self._add("rs" if reasoning else "msg")
        added = self._added(self._text_item(kind, None, "in_progress"))
        part = self._event("response.content_part.added", **self._place(), content_index=0, part=_part(kind, ""))
        if reasoning:
            self._prepare("response.reasoning_text.delta", content_index=0)
        else:
            self._prepare("response.output_text.delta", content_index=0, logprobs=[])
        return added + part

    def _close(self, kind: TextKind) -> bytes:
        text, place = "".join(self._parts), {**self._place(), "content_index": 0}
        name = "reasoning_text" if kind == "reasoning" else "output_text"
        extra: dict[str, Any] = {} if kind == "reasoning" else {"logprobs": []}
        status: Status = "incomplete" if self._finish_reason in INCOMPLETE else "completed"
        summed = b"" if self._summary is None else self._summarize(self._summary.close())
        self._summary = None
        return (
            summed
            + self._event(f"response.{name}.done", **place, text=text, **extra)
            + self._event("response.content_part.done", **place, part=_part(kind, text))
            + self._done(self._text_item(kind, text, status))
        )

    def _text_item(self, kind: TextKind, text: str | None, status: Status) -> dict[str, Any]:
        """The open item, which has its text once that is complete."""
        content = [] if text is None else [_part(kind, text)]
        if kind == "content":
            return {"type": "message", "id": self._item_id, "role": "assistant", "status": status, "content": content}
        # No status: not even the whole answer shows whether reasoning was complete.
        summary = [] if text is None else [_summary_part(sentence) for sentence in self._sentences]
        item: dict[str, Any] = {"type": "reasoning", "id": self._item_id, "summary": summary, "content": content}
        if text is not None and self._seal is not None:
            item["encrypted_content"] = self._seal(text)
        return item

    def _open_call(self, event: ToolCallStart) -> bytes:
        self._call_id = event.id
        self._tool = self._kinds.get(event.name) or ClientTool("function", event.name)
        custom = self._tool.kind == "custom"
        self._add(_PREFIXES[self._tool.kind])
        self._input = Input() if custom else None
        added = self._added(self._call_item("", "in_progress"))
        self._whole_call = self._tool.kind not in ("function", "custom")
        self._prepare(f"response.{'custom_tool_call_input' if custom else 'function_call_arguments'}.delta")
        return added

    def _call_item(self, arguments: str, status: Status) -> dict[str, Any]:
        tool = self._tool
        item = {"type": _TYPES[tool.kind], "id": self._item_id, "call_id": self._call_id, "status": status}
        if tool.kind == "tool_search":
            sent = msgspec.Raw(clean(tool_input(arguments or "{}")).encode())  # an object, in any case
            return {**item, "execution": "client", "arguments": sent}
        if tool.kind in ITEMS:
            return item | _own_fields(tool.kind, arguments)
        given = {"arguments": arguments} if self._input is None else {"input": self._input.text}
        return {**item, "name": tool.name, **given, **({"namespace": tool.namespace} if tool.namespace else {})}

    def _arguments(self, text: str) -> bytes:
        item = self._server_items.get(self._call) if self._call is not None else None
        if item is not None and not item.streams:
            item.arguments.append(text)
            return b""
        if item is None and self._input is not None:
            self._parts.append(text)
            piece = self._input.feed(text)
            return self._delta(piece) if piece else b""
        if item is None and self._whole_call:
            self._parts.append(text)
            return b""
        return self._text(text)

    def _close_call(self, event: ToolCallEnd) -> bytes:
        if event.index in self._server_items:
            return self._close_server_call(self._server_items[event.index])
        arguments = "".join(self._parts)
        status: Status = "incomplete" if event.status == "incomplete" else "completed"
        closed = b""
        if self._input is not None:
            piece = self._input.close()
            closed = self._delta(piece) if piece else b""
            closed += self._event("response.custom_tool_call_input.done", **self._place(), input=self._input.text)
        elif not self._whole_call:
            closed = self._event("response.function_call_arguments.done", **self._place(), arguments=arguments)
        return closed + self._done(self._call_item(arguments, status))

    # -- tools that the server runs ----------------------------------------------------------------------------------

    def _listed(self, event: ToolsListed) -> bytes:
        self._add("mcpl")
        item: dict[str, Any] = {"type": "mcp_list_tools", "id": self._item_id, "server_label": event.server}
        item |= {"tools": [], "error": event.error}
        added = self._added(item)
        begun = self._event("response.mcp_list_tools.in_progress", **self._place())
        ended = "failed" if event.error else "completed"
        done = self._event(f"response.mcp_list_tools.{ended}", **self._place())
        return added + begun + done + self._done({**item, "tools": list(event.tools)})

    def _open_server_call(self, event: ServerCallStart) -> bytes:
        item = self._server_items[event.index] = ServerItem(event)
        if not item.streams:  # the item depends on the whole arguments
            return b""
        added = self._begin(item)
        self._prepare("response.mcp_call_arguments.delta")
        return added

    def _begin(self, item: ServerItem) -> bytes:
        self._add(_PREFIXES[item.kind])
        item.at, item.id = self._at, self._item_id
        return self._added(item.item("in_progress")) + self._event(f"response.{item.kind}.in_progress", **self._place())

    def _close_server_call(self, item: ServerItem) -> bytes:
        if item.start.asks:
            return b""
        if item.streams:
            item.arguments = self._parts
            return self._event("response.mcp_call_arguments.done", **self._place(), arguments=item.text)
        out = [self._begin(item)]
        if item.kind == "code_interpreter_call":
            code = f"response.{item.kind}_code"
            out.append(self._event(f"{code}.delta", **self._place(), delta=item.code))
            out.append(self._event(f"{code}.done", **self._place(), code=item.code))
        return b"".join([*out, self._event(f"response.{item.kind}.{item.runs}", **self._place())])

    def _result(self, event: ServerCallResult) -> bytes:
        item = self._server_items.pop(event.index)
        if item.start.asks:  # it was not run
            return b""
        self._at, self._item_id = item.at, item.id
        if item.kind == "web_search_call":
            call = {"id": item.start.id, "name": item.start.called or item.start.name, "arguments": item.text}
            self.hidden[item.id] = {**call, "result": event.text}
        # Only MCP calls have an event for failure; for others, the item says so.
        ended = "failed" if event.error and item.kind == "mcp_call" else "completed"
        ended_event = self._event(f"response.{item.kind}.{ended}", **self._place())
        return ended_event + self._done(item.item("failed" if event.error else "completed", event))

    def _ask(self, event: ApprovalAsked) -> bytes:
        item = self._server_items.pop(event.index)
        self._add("mcpr")
        asked = {"type": "mcp_approval_request", "id": event.id, "server_label": item.start.server}
        asked |= {"name": item.start.name, "arguments": item.text}
        return self._added(asked) + self._done(asked)

    # -- whole -----------------------------------------------------------------------------------------------------

    def _write_whole(self, answer: WholeAnswer) -> bytes:
        """The same as in the last event of the stream."""
        self.events(0, events_of(answer))
        return self._ended(answer.usage)

    def _ended(self, usage: Usage | None) -> bytes:
        reason = INCOMPLETE.get(self._finish_reason)
        response = self._response("completed" if reason is None else "incomplete", self._items())
        if reason is not None:
            response["incomplete_details"] = {"reason": reason}
        if usage is not None:
            response["usage"] = _usage(usage)
        return self._whole(response)

    def _response(self, status: str, output: Sequence[Any]) -> dict[str, Any]:
        return {
            **self._identity,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "output": output,
            "usage": None,
            **self._repeated,
        }


def _own_fields(kind: OpenAIs, arguments: str) -> dict[str, Any]:
    """The fields of a call of a tool that OpenAI defines."""
    own = ITEMS[kind]
    given = msgspec.json.decode(clean(tool_input(arguments or "{}")), type=dict[str, msgspec.Raw])
    value: Any = {**own.fixed, **given}
    if kind == "computer":  # a model may write one action alone
        actions = given.get(own.field, given or ())
        value = [actions] if isinstance(actions, dict) or bytes(actions).startswith(b"{") else actions
    return {own.field: value, **({"pending_safety_checks": []} if own.type == "computer_call" else {})}


_TYPES: Final[dict[str, str]] = {
    "function": "function_call",
    "custom": "custom_tool_call",
    "tool_search": "tool_search_call",
    **{kind: own.type for kind, own in ITEMS.items()},
}
_PREFIXES: Final[dict[str, str]] = {
    "mcp_call": "mcp",
    "code_interpreter_call": "ci",
    "web_search_call": "ws",
    "function": "fc",
    "custom": "ctc",
    "tool_search": "tsc",
    **dict.fromkeys(ITEMS, "cl"),
}
"""The prefixes of the ids of calls, by the type of the server's items or the kind of the client's tools."""


def _part(kind: TextKind, text: str) -> dict[str, Any]:
    if kind == "reasoning":
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _summary_part(text: str) -> dict[str, str]:
    return {"type": "summary_text", "text": text}


def _failure_code(status: int) -> str:
    return {429: "rate_limit_exceeded"}.get(status, "invalid_prompt" if 400 <= status < 500 else "server_error")


def _usage(usage: Usage) -> dict[str, Any]:
    """The usage with the details that the protocol requires; a count that the engine does not report is 0."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": usage.total,
    }
