"""OpenAI's Responses API: items of output (reasoning, message, function call), streamed one after another.

Every event has a ``sequence_number``. Ids of items are made from the response's id and their position, so that a
stream and a whole answer have the same ones. The last event of a stream contains the whole response; there is no
``[DONE]``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from ..events import ToolCallEnd, ToolCallStart
from ..message import Message, ToolCall
from . import sse
from .blocks import BlockWriter, TextKind, blocks, the_one
from .chat import error_body
from .common import Failure, Sealing, Usage
from .encoding import clean, encode, on_one_line, quoted
from .freeform import Input, Kind, input_of
from .messages import tool_input
from .server_items import ServerItem, approval_item, list_item
from .server_tools import TOOL_LIMIT, AnyEvent, ApprovalAsked, ServerCallResult, ServerCallStart, ToolsListed
from .summary import Detail, Summary, summarized

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
        kinds: Mapping[str, Kind] | None = None,
    ) -> None:
        super().__init__()
        self._kinds = kinds or {}
        self._input: Input | None = None
        self._seal = seal
        self._detail = summary
        self._summary: Summary | None = None
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
        self._opened: ToolCallStart | None = None

    # -- streaming -------------------------------------------------------------------------------------------------

    def start(self) -> bytes:
        """``response.created`` and ``response.in_progress``."""
        response = msgspec.Raw(encode(self._response("in_progress", [])))
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def finish(self, usage: Usage | None = None, stop_sequence: str | None = None) -> bytes:
        """``response.completed``, or ``response.incomplete`` with its reason."""
        status = "incomplete" if self._finish_reason in INCOMPLETE else "completed"
        response = self._whole(self._finished(self._finish_reason, self._items(), usage))
        return self._event(f"response.{status}", response=msgspec.Raw(response))

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
        """The items that have ended."""
        return [item for item in self._output if item is not None]

    def _place(self) -> dict[str, Any]:
        """The index of the open item."""
        return {"output_index": self._at, "item_id": self._item_id}

    def _add(self, kind: str, tool: Kind | None = None) -> None:
        """The next item opens."""
        self._at = len(self._output)
        self._output.append(None)
        self._item_id = self._id_of(kind, self._at, tool)

    def _prepare(self, kind: str, **members: Any) -> None:
        """Prepare the beginning of the open item's deltas, up to the sequence number."""
        payload = on_one_line(encode({"type": kind, **self._place(), **members}))[:-1]
        self._head = b"event: %b\ndata: " % kind.encode() + payload + b',"sequence_number":'
        self._parts = []

    def _text(self, text: str) -> bytes:
        self._parts.append(text)
        self._sequence += 1
        data = self._head + b'%d,"delta":' % (self._sequence - 1) + quoted(text) + b"}\n\n"
        return data if self._summary is None else data + self._summarize(self._summary.feed(text))

    def _summarize(self, sentences: Sequence[str]) -> bytes:
        """The next parts of the open item's summary."""
        out = b""
        for text in sentences:
            place = {**self._place(), "summary_index": len(self._sentences)}
            self._sentences.append(text)
            empty, part = {"type": "summary_text", "text": ""}, {"type": "summary_text", "text": text}
            out += self._event("response.reasoning_summary_part.added", **place, part=empty)
            out += self._event("response.reasoning_summary_text.delta", **place, delta=text)
            out += self._event("response.reasoning_summary_text.done", **place, text=text)
            out += self._event("response.reasoning_summary_part.done", **place, part=part)
        return out

    def _open(self, kind: TextKind) -> bytes:
        reasoning = kind == "reasoning"
        if reasoning and self._detail is not None:
            self._summary, self._sentences = Summary(self._detail), []
        self._add(kind)
        added = self._event(
            "response.output_item.added",
            output_index=self._at,
            item=_text_item(kind, self._item_id, None, "in_progress"),
        )
        part = self._event("response.content_part.added", **self._place(), content_index=0, part=_part(kind, ""))
        if reasoning:
            self._prepare("response.reasoning_text.delta", content_index=0)
        else:
            self._prepare("response.output_text.delta", content_index=0, logprobs=[])
        return added + part

    def _close(self, kind: TextKind) -> bytes:
        text = "".join(self._parts)
        extra: dict[str, Any]
        name, extra = ("reasoning_text", {}) if kind == "reasoning" else ("output_text", {"logprobs": []})
        status: Status = "incomplete" if self._finish_reason in INCOMPLETE else "completed"
        summed = b"" if self._summary is None else self._summarize(self._summary.close())
        self._summary = None
        return (
            summed
            + self._event(f"response.{name}.done", **self._place(), content_index=0, text=text, **extra)
            + self._event("response.content_part.done", **self._place(), content_index=0, part=_part(kind, text))
            + self._done(self._text_item(kind, self._item_id, text, status))
        )

    def _open_call(self, event: ToolCallStart) -> bytes:
        self._opened = event
        kind = self._kinds.get(event.name)
        custom = kind is not None and kind.kind == "custom"
        self._add("tool_call", kind)
        self._input = Input() if custom else None
        item = _call_item(self._item_id, event.id, event.name, "", "in_progress", kind)
        added = self._event("response.output_item.added", output_index=self._at, item=item)
        self._prepare(f"response.{'custom_tool_call_input' if custom else 'function_call_arguments'}.delta")
        return added

    def _arguments(self, text: str) -> bytes:
        item = self._server_items.get(self._call) if self._call is not None else None
        if item is not None:
            if item.streams:
                return self._text(text)
            item.arguments.append(text)
            return b""
        assert self._opened is not None
        if self._input is not None:
            self._parts.append(text)
            return self._piece(self._input.feed(text))
        kind = self._kinds.get(self._opened.name)
        if kind is not None and kind.kind == "tool_search":
            self._parts.append(text)
            return b""
        return self._text(text)

    def _piece(self, text: str) -> bytes:
        """The next piece of a custom tool's input."""
        if not text:
            return b""
        self._sequence += 1
        return self._head + b'%d,"delta":' % (self._sequence - 1) + quoted(text) + b"}\n\n"

    def _close_call(self, event: ToolCallEnd) -> bytes:
        if event.index in self._server_items:
            return self._close_server_call(self._server_items[event.index])
        assert self._opened is not None
        arguments, name = "".join(self._parts), self._opened.name
        kind = self._kinds.get(name)
        item = _call_item(self._item_id, self._opened.id, name, arguments, _call_status(event.status), kind)
        if self._input is not None:
            rest = self._piece(self._input.close())
            closed = self._event("response.custom_tool_call_input.done", **self._place(), input=self._input.text)
            return rest + closed + self._done(item)
        if kind is not None and kind.kind == "tool_search":
            return self._done(item)
        closed = self._event("response.function_call_arguments.done", **self._place(), arguments=arguments)
        return closed + self._done(item)

    def _text_item(self, kind: TextKind, id: str, text: str, status: Status) -> dict[str, Any]:
        """A complete item of text."""
        item = _text_item(kind, id, text, status)
        if kind == "reasoning" and self._detail is not None:
            item["summary"] = [{"type": "summary_text", "text": s} for s in summarized(text, self._detail)]
        if kind == "reasoning" and self._seal is not None:
            item["encrypted_content"] = self._seal(text)
        return item

    def _done(self, item: dict[str, Any]) -> bytes:
        encoded = msgspec.Raw(encode(item))
        event = self._event("response.output_item.done", output_index=self._at, item=encoded)
        self._output[self._at] = encoded
        return event

    # -- tools that the server runs ----------------------------------------------------------------------------------

    def _listed(self, event: ToolsListed) -> bytes:
        self._add("tools")
        item = list_item(self._item_id, event)
        added = self._event("response.output_item.added", output_index=self._at, item={**item, "tools": []})
        begun = self._event("response.mcp_list_tools.in_progress", **self._place())
        ended = "failed" if event.error else "completed"
        return added + begun + self._event(f"response.mcp_list_tools.{ended}", **self._place()) + self._done(item)

    def _open_server_call(self, event: ServerCallStart) -> bytes:
        item = self._server_items[event.index] = ServerItem(event)
        if not item.streams:  # the item depends on the whole arguments
            return b""
        added = self._begin(item)
        self._prepare("response.mcp_call_arguments.delta")
        return added

    def _begin(self, item: ServerItem) -> bytes:
        """Open the item of a call."""
        self._add(item.kind)
        item.at, item.id = self._at, self._item_id
        added = self._event("response.output_item.added", output_index=self._at, item=item.item("in_progress"))
        return added + self._event(f"response.{item.kind}.in_progress", **self._place())

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
        self._add("approval")
        asked = approval_item(event.id, item)
        return self._event("response.output_item.added", output_index=self._at, item=asked) + self._done(asked)

    # -- whole -----------------------------------------------------------------------------------------------------

    def whole(
        self,
        messages: Sequence[Message],
        usage: Usage | None = None,
        *,
        logprobs: Sequence[Sequence[Any]] = (),
        events: Sequence[Sequence[AnyEvent]] = (),
        stop_sequence: str | None = None,
    ) -> bytes:
        """The whole response, the same as in the last event of a stream.

        Args:
            messages, usage, logprobs, stop_sequence: as for `Writer.whole`.
            events: if given, the response is written only from them.

        Raises:
            ValueError: not exactly one message.
        """
        message = the_one(messages)
        if events:
            self.events(0, events[0])
            return self._whole(self._finished(self._finish_reason, self._items(), usage))
        found = blocks(message)
        output = []
        for i, block in enumerate(found):
            if isinstance(block, ToolCall):
                status = _call_status(block.status)
                kind_ = self._kinds.get(block.name)
                id = self._id_of("tool_call", i, kind_)
                item = _call_item(id, block.id, block.name, block.arguments, status, kind_)
            else:
                cut = message.finish_reason in INCOMPLETE and i == len(found) - 1
                kind, text = block
                item = self._text_item(kind, self._id_of(kind, i), text, "incomplete" if cut else "completed")
            output.append(item)
        return self._whole(self._finished(message.finish_reason, output, usage))

    def _finished(self, reason: str, output: Sequence[Any], usage: Usage | None) -> dict[str, Any]:
        response = self._response("incomplete" if reason in INCOMPLETE else "completed", output)
        if reason in INCOMPLETE:
            response["incomplete_details"] = {"reason": INCOMPLETE[reason]}
        if usage is not None:
            response["usage"] = _usage(usage)
        return response

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

    def _id_of(self, kind: str, index: int, tool: Kind | None = None) -> str:
        return f"{_PREFIXES[kind if tool is None else tool.kind]}_{self._stem}_{index}"


_PREFIXES: Final = {
    "reasoning": "rs",
    "content": "msg",
    "tool_call": "fc",
    "tools": "mcpl",
    "approval": "mcpr",
    "mcp_call": "mcp",
    "code_interpreter_call": "ci",
    "web_search_call": "ws",
    "function": "fc",
    "custom": "ctc",
    "tool_search": "tsc",
}
"""The prefixes of item ids."""


def _part(kind: TextKind, text: str) -> dict[str, Any]:
    if kind == "reasoning":
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _text_item(kind: TextKind, id: str, text: str | None, status: Status) -> dict[str, Any]:
    content = [] if text is None else [_part(kind, text)]
    if kind == "reasoning":  # no status: not even the whole answer shows whether reasoning was complete
        return {"type": "reasoning", "id": id, "summary": [], "content": content}
    return {"type": "message", "id": id, "role": "assistant", "status": status, "content": content}


def _call_item(
    id: str, call_id: str, name: str, arguments: str, status: Status, kind: Kind | None = None
) -> dict[str, Any]:
    ids = {"id": id, "call_id": call_id, "status": status}
    if kind is None:
        return {"type": "function_call", **ids, "name": name, "arguments": arguments}
    if kind.kind == "tool_search":
        return {"type": "tool_search_call", **ids, "execution": "client", "arguments": _object(arguments)}
    space = {"namespace": kind.namespace} if kind.namespace else {}
    if kind.kind == "custom":
        text = input_of(arguments) if arguments else ""
        return {"type": "custom_tool_call", **ids, "name": kind.name, "input": text, **space}
    return {"type": "function_call", **ids, "name": kind.name, "arguments": arguments, **space}


def _object(arguments: str) -> Any:
    """The arguments as an object; anything else is wrapped in one."""
    return msgspec.Raw(clean(tool_input(arguments or "{}")).encode())


def _call_status(status: str) -> Status:
    return "incomplete" if status == "incomplete" else "completed"


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
