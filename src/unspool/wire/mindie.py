"""The MindIE profile of chat completions.

It differs from OpenAI's: the role is in every delta and has no chunk of its own. The last chunk has the finish reason
and the usage. With ``fullTextEnabled`` the content is cumulative. Errors have their own form; after the first byte,
an error is a last chunk with ``stop`` and ``err_msg``. A cancelled request gets nothing more, so there is no writer
for it.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final, Literal, Unpack

from ..events import ContentDelta, Finish
from ..message import Message
from . import sse
from .chat import ChatWriter, Options, ReasoningField, StreamedChoice, tool_call
from .common import Failure, Usage, WholeAnswer
from .encoding import encode, on_one_line, quoted
from .server_tools import AnyEvent

Timing = Literal["usage", "top"]


class MindieWriter(ChatWriter):
    """Writes one response of one choice.

    Args:
        full_text: ``fullTextEnabled``: each delta has the content so far, and the last chunk also ``full_text``.
        timing: where a whole answer has ``prefill_time`` and ``decode_time_arr``: in the usage, or at top level.
        reasoning_field, options: as for `ChatWriter`.

    Raises:
        ValueError: ``timing`` is neither ``usage`` nor ``top``.
    """

    ROLE_CHUNK = False
    DELTA = b'"role":"assistant",'
    NO_LOGPROBS = b""

    def __init__(
        self,
        *,
        full_text: bool = False,
        timing: Timing = "usage",
        reasoning_field: ReasoningField = "reasoning_content",
        **options: Unpack[Options],
    ) -> None:
        if timing not in ("usage", "top"):
            raise ValueError(f"timing: {timing!r} is not one of usage, top")
        super().__init__(reasoning_field=reasoning_field, **options)
        self._full_text = full_text
        self._timing = timing
        self._so_far = b'"'  # the content so far as a JSON string, without its closing quote
        self._finish_reason = "stop"

    def events(self, choice: int, events: Sequence[AnyEvent], logprobs: Sequence[Any] = ()) -> bytes:
        """See `Writer`. A piece of the engine's without output is a chunk too."""
        data = super().events(choice, events, logprobs)
        c = self._choices[choice]
        return (
            data
            if events or data or c.over
            else c.content + (self._so_far if self._full_text else b'"') + b'"' + c.tail
        )

    def _content(self, c: StreamedChoice, event: ContentDelta) -> bytes:
        if not self._full_text:
            return super()._content(c, event)
        self._so_far += quoted(event.text)[1:-1]
        return c.content + self._so_far + b'"' + c.tail

    def _finish(self, c: StreamedChoice, event: Finish) -> bytes:
        c.over = True
        self._finish_reason = self._reason(event.reason)
        return b""

    def finish(self, usage: Usage | None = None, stop_sequence: str | None = None) -> bytes:
        """The last chunk, and the end of the stream. Only whole answers have times."""
        members = {} if usage is None else {"usage": usage.openai()}
        content = self._so_far + b'"' if self._full_text else b'""'
        full = b'"full_text":%b,' % content if self._full_text else b""
        return self._last(full, members, content, self._finish_reason)

    def error(self, failure: Failure) -> bytes:
        """A failure after the first byte: a last chunk without output, with the message."""
        return self._last(b"", {"err_msg": failure.message}, b'""', "stop")

    def _last(self, full: bytes, members: dict[str, Any], content: bytes, reason: str) -> bytes:
        c = self._choices[0]
        fields = on_one_line(encode(members))[1:-1] + b"," if members else b""
        delta = c.content.removeprefix(self._prefix) + content
        return self._prefix + full + fields + delta + self._tail(c.logprobs, quoted(reason)) + sse.DONE

    def _whole(self, answer: WholeAnswer) -> dict[str, Any]:
        whole = super()._whole(answer)
        if answer.usage is not None:
            times = {"prefill_time": answer.usage.prefill_time, "decode_time_arr": answer.usage.decode_time_arr}
            found = {name: time for name, time in times.items() if time is not None}
            (whole["usage"] if self._timing == "usage" else whole).update(found)
        return whole

    def _message(self, message: Message) -> dict[str, Any]:
        sent: dict[str, Any] = {"role": "assistant", "content": message.content}
        if message.reasoning:
            sent.update(dict.fromkeys(self._fields, message.reasoning))
        sent["tool_calls"] = [tool_call(c) for c in message.tool_calls]
        return sent


_ERROR_TYPES: Final = {s.value: s.phrase for s in HTTPStatus} | {
    404: "NotFoundError",
    422: "Input Validation Error",
    424: "Generation Error",
    500: "Incomplete Generation",
}
"""MindIE's names of statuses: some differ from HTTP's."""


def error_body(failure: Failure) -> bytes:
    """The body of a response that is an error; the message is also in ``err_msg``, as in a stream."""
    kind = failure.type or _ERROR_TYPES.get(failure.status, "Error")
    return encode({"error": failure.message, "error_type": kind, "err_msg": failure.message})
