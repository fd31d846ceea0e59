"""AG-UI 1.0: a run as a sequence of events, which the official client verifies.

Everything that starts ends before the run finishes. All text and calls belong to one assistant message; what follows
the results of the server's tools belongs to the next. Each part of interrupted reasoning is a message of its own. A
call that the server runs is also an activity, so that a page can show it: a snapshot when its arguments are complete,
and a delta when it ends. Frames are ``data:`` lines without names, and nothing follows the last event. A whole answer
is the same stream.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ..events import ToolCallEnd, ToolCallStart
from . import sse
from .blocks import BlockWriter, TextKind, events_of
from .common import Failure, Sealing, Usage, WholeAnswer
from .encoding import encode, on_one_line, quoted
from .server_tools import ApprovalAsked, ServerCallResult, ServerCallStart

PROTOCOL_VERSION: Final = "1.0"
APPROVAL: Final = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}
"""The answer to an interrupt that asks whether a call is allowed, as a JSON Schema."""
ACTIVITY: Final = "TOOL_CALL"  # the type of the activities: calls that the server runs
INTERRUPTS: Final = "."  # what is between the approval that an interrupt asks for and its call's id in its own id
REASONING: Final = "reasoning-"  # the prefix of reasoning ids, before the id of the assistant's message and a number


class AguiWriter(BlockWriter):
    """Writes one run: `start`, `events`, then `finish` or `error`.

    Args:
        thread_id, run_id: the ids of the request.
        message_id: the id of the assistant message; by default made from ``run_id``.
        parent_run_id: the id of the parent run, if the request has one.
        model: sent with the usage.
        call_ids: the ids of calls in the thread so far. Models that number their calls start again in each answer,
            and a client would confuse a repeated id with the earlier call, so the run's id is appended to it.
        seal: makes the ``encryptedValue`` of reasoning; ``None`` if there is none.
    """

    def __init__(
        self,
        *,
        thread_id: str,
        run_id: str,
        message_id: str | None = None,
        parent_run_id: str | None = None,
        model: str | None = None,
        call_ids: Iterable[str] = (),
        seal: Sealing | None = None,
    ) -> None:
        super().__init__()
        self._seal = seal
        self._thoughts: list[str] = []
        self._run = {"threadId": thread_id, "runId": run_id}
        self._stem = message_id or run_id
        self._message_id = message_id or f"msg-{run_id}"
        self._known = set(call_ids)
        self._parent = parent_run_id
        self._model = model
        self._reasonings = 0
        self._open_id = ""
        self._calls: list[str] = []
        self._head = b""
        self._server_calls: dict[int, tuple[str, ServerCallStart]] = {}  # calls that have not ended, by index
        self._interrupts: list[dict[str, Any]] = []
        self._begun_calls = self._rounds = 0
        self._answered = False  # results came after the last assistant message

    def start(self) -> bytes:
        parent = {} if self._parent is None else {"parentRunId": self._parent}
        return _event("RUN_STARTED", **self._run, protocolVersion=PROTOCOL_VERSION, **parent)

    def finish(self, usage: Usage | None = None, stop_sequence: str | None = None) -> bytes:
        """``RUN_FINISHED``. The client runs the calls; ``result`` has the finish reason."""
        fields: dict[str, Any] = {"result": {"finishReason": self._finish_reason}, "outcome": {"type": "success"}}
        if self._interrupts:
            fields["outcome"] = {"type": "interrupt", "interrupts": self._interrupts}
        elif self._calls:
            fields["outcome"]["pendingToolCallIds"] = self._calls
        if usage is not None:
            fields["usage"] = [_usage(usage, self._model)]
        return _event("RUN_FINISHED", **self._run, **fields)

    def cancelled(self) -> bytes:
        """``RUN_FINISHED`` of a run that was stopped, after everything open has ended."""
        out: list[bytes] = []
        if self._call is not None:
            out.append(_event("TOOL_CALL_END", toolCallId=self._open_id))
        self._shut(out)
        return b"".join(out) + self._left() + _event("RUN_FINISHED", **self._run, outcome={"type": "cancelled"})

    def error(self, failure: Failure) -> bytes:
        """``RUN_ERROR``, the last event; everything open stays open, except activities."""
        return self._left() + sse.data(error_body(failure))

    def _write_whole(self, answer: WholeAnswer) -> bytes:
        """The run as one stream: the protocol has no other form."""
        return self.start() + self.events(0, events_of(answer)) + self.finish(answer.usage)

    def _next_message(self) -> None:
        """Begin a new assistant message after results."""
        if self._answered:
            self._answered = False
            self._rounds += 1
            self._message_id = f"{self._stem}-{self._rounds}"

    def _open(self, kind: TextKind) -> bytes:
        self._next_message()
        if kind == "content":
            self._open_id = self._message_id
            self._head = _head("TEXT_MESSAGE_CONTENT", "messageId", self._open_id)
            return _event("TEXT_MESSAGE_START", messageId=self._open_id, role="assistant")
        self._reasonings += 1
        self._thoughts = []
        self._open_id = f"{REASONING}{self._message_id}-{self._reasonings}"
        self._head = _head("REASONING_MESSAGE_CONTENT", "messageId", self._open_id)
        return _event("REASONING_START", messageId=self._open_id) + _event(
            "REASONING_MESSAGE_START", messageId=self._open_id, role="reasoning"
        )

    def _text(self, text: str) -> bytes:
        if self._seal is not None and self._kind == "reasoning":
            self._thoughts.append(text)
        return self._head + quoted(text) + b"}\n\n"

    def _close(self, kind: TextKind) -> bytes:
        if kind == "content":
            return _event("TEXT_MESSAGE_END", messageId=self._open_id)
        sealed = None if self._seal is None else self._seal("".join(self._thoughts))
        value = {"subtype": "message", "entityId": self._open_id, "encryptedValue": sealed}
        return (
            _event("REASONING_MESSAGE_END", messageId=self._open_id)
            + (b"" if sealed is None else _event("REASONING_ENCRYPTED_VALUE", **value))
            + _event("REASONING_END", messageId=self._open_id)
        )

    def _open_call(self, event: ToolCallStart) -> bytes:
        opened = self._start_call(event.id, event.name)
        self._calls.append(self._open_id)
        return opened

    def _start_call(self, id: str, name: str) -> bytes:
        self._next_message()
        self._open_id = id if id not in self._known else f"{id}-{self._stem}-{self._begun_calls}"
        self._begun_calls += 1
        self._known.add(self._open_id)
        self._head = _head("TOOL_CALL_ARGS", "toolCallId", self._open_id)
        return _event("TOOL_CALL_START", toolCallId=self._open_id, toolCallName=name, parentMessageId=self._message_id)

    def _arguments(self, text: str) -> bytes:
        return self._text(text) if self._open_id else b""

    def _close_call(self, event: ToolCallEnd) -> bytes:
        closed = _event("TOOL_CALL_END", toolCallId=self._open_id) if self._open_id else b""
        ours = self._server_calls.get(event.index)
        return closed if ours is None else closed + _begun(*ours)

    # -- tools that the server runs ----------------------------------------------------------------------------------

    def _open_server_call(self, event: ServerCallStart) -> bytes:
        if event.approval:  # the run that asked for approval has already sent the call
            self._open_id = ""
            self._server_calls[event.index] = event.id, event
            return b""
        opened = self._start_call(event.id, event.called or event.name)
        self._server_calls[event.index] = self._open_id, event
        return opened

    def _result(self, event: ServerCallResult) -> bytes:
        id, _ = self._server_calls.pop(event.index)
        self._answered = True
        content = [_part(part) for part in event.parts] or event.text
        return _over(id, "failed" if event.error else "completed", event.urls) + _event(
            "TOOL_CALL_RESULT", messageId=f"result-{self._stem}-{event.index}", toolCallId=id, content=content
        )

    def _ask(self, event: ApprovalAsked) -> bytes:
        id, start = self._server_calls.pop(event.index)
        asked = {"reason": "tool_call", "toolCallId": id, "responseSchema": APPROVAL}
        message = f"May {start.name} of {start.server} be called?"
        self._interrupts.append({"id": f"{event.id}{INTERRUPTS}{id}", **asked, "message": message})
        return b""

    def _left(self) -> bytes:
        """End the activities of a run that fails or is stopped."""
        calls, self._server_calls = self._server_calls, {}
        open_call = self._call  # its activity has not begun yet
        return b"".join(_over(id, "cancelled") for index, (id, _) in calls.items() if index != open_call)


def _begun(id: str, call: ServerCallStart) -> bytes:
    """The activity of a call whose arguments are complete; after an approval, it begins again."""
    status = "awaiting_approval" if call.asks else "in_progress"
    content = {"status": status, "server": call.server, "tool": call.name, "toolCallId": id}
    return _event("ACTIVITY_SNAPSHOT", messageId=f"activity-{id}", activityType=ACTIVITY, content=content)


def _over(id: str, status: str, urls: Sequence[str] = ()) -> bytes:
    """The end of an activity, with the pages that were read."""
    patch: list[dict[str, Any]] = [{"op": "replace", "path": "/status", "value": status}]
    if urls:
        patch.append({"op": "add", "path": "/urls", "value": list(urls)})
    return _event("ACTIVITY_DELTA", messageId=f"activity-{id}", activityType=ACTIVITY, patch=patch)


def _part(part: str | tuple[str, str, str]) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind, type, data = part
    return {"type": kind, "source": {"type": "data", "value": data, "mimeType": type}}


def _event(kind: str, **members: Any) -> bytes:
    return sse.data(encode({"type": kind, **members}))


def _head(kind: str, field: str, id: str) -> bytes:
    return b"data: " + on_one_line(encode({"type": kind, field: id}))[:-1] + b',"delta":'


def _usage(usage: Usage, model: str | None) -> dict[str, Any]:
    counts = {
        "model": model,
        "inputTokens": usage.prompt_tokens,
        "outputTokens": usage.completion_tokens,
        "totalTokens": usage.total,
        "reasoningTokens": usage.reasoning_tokens,
        "cachedInputTokens": usage.cached_tokens,
    }
    return {field: value for field, value in counts.items() if value is not None}


def error_body(failure: Failure) -> bytes:
    """``RUN_ERROR``: the stream's event, and the body of a response that is an error. It requires a code."""
    error = {"type": "RUN_ERROR", "message": failure.message, "code": failure.code or str(failure.status)}
    return encode(error)
