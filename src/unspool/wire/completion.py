"""OpenAI completions: events and whole answers with the object ``text_completion``."""

from collections.abc import Sequence
from typing import Any

from ..events import ContentDelta, Finish
from ..message import checked_messages
from . import sse
from .chat import error_body
from .common import Failure, Usage, WholeAnswer, Writer, not_written
from .encoding import encode
from .server_tools import AnyEvent


class CompletionWriter(Writer):
    """Writes one response: `start`, then `events` of any choice in any order, then `finish` or `error`; or `whole`.

    Args:
        id, model, created: constant in all chunks; ``created`` is in seconds.
        n: number of choices.
        echoed: the text with which each choice begins; none if prompts are not repeated. The entries of its tokens,
            if there are any, come before those of the output; the first has no log-probability.
        include_usage: whether a last chunk without choices has the usage, and all others ``null``.
    """

    def __init__(
        self,
        *,
        id: str,
        model: str,
        created: int,
        n: int,
        echoed: Sequence[str],
        include_usage: bool,
    ) -> None:
        self._identity = {"id": id, "object": "text_completion", "created": created, "model": model}
        self._include_usage = include_usage
        self._echoes = bool(echoed)
        self._due = list(echoed) or [""] * n  # what each choice begins with, until it is written
        self._logprobs: list[list[Any]] = [[] for _ in range(n)]
        self._offsets = [0] * n

    def start(self) -> bytes:
        """Nothing: choices begin with their text."""
        return b""

    def events(self, choice: int, events: Sequence[AnyEvent], logprobs: Sequence[Any] = ()) -> bytes:
        """The next events of a choice; see `ChatWriter.events`."""
        self._logprobs[choice] += logprobs
        text, reason = self._due[choice], None
        for event in events:
            if isinstance(event, ContentDelta):
                text += event.text
            elif isinstance(event, Finish):
                reason = event.reason
            else:
                not_written(event)
        if not text and reason is None:
            return b""
        self._due[choice] = ""
        entries, self._logprobs[choice] = self._logprobs[choice], []
        chunk = {**self._identity, "choices": [self._choice(choice, text, entries, reason)]}
        if self._include_usage:
            chunk["usage"] = None
        return sse.data(encode(chunk))

    def finish(self, usage: Usage | None = None, stop_sequence: str | None = None) -> bytes:
        """The usage, if requested, and the end of the stream."""
        if usage is None or not self._include_usage:
            return sse.DONE
        return sse.data(encode({**self._identity, "choices": [], "usage": usage.openai()})) + sse.DONE

    def error(self, failure: Failure) -> bytes:
        """A failure after the first byte; see `ChatWriter.error`."""
        return sse.data(error_body(failure)) + sse.DONE

    def _write_whole(self, answer: WholeAnswer) -> bytes:
        choices = [
            self._choice(i, self._due[i] + m.content, answer.logprobs[i] if answer.logprobs else (), m.finish_reason)
            for i, m in enumerate(checked_messages(answer.messages))
        ]
        whole = {**self._identity, "choices": choices}
        return encode(whole if answer.usage is None else {**whole, "usage": answer.usage.openai()})

    def _choice(self, index: int, text: str, entries: Sequence[Any], reason: str | None) -> dict[str, Any]:
        found = self._found(index, entries) if entries else None
        return {"index": index, "text": text, "logprobs": found, "finish_reason": reason}

    def _found(self, index: int, entries: Sequence[Any]) -> dict[str, Any]:
        """Entries of chat completions in the form of completions."""
        values: list[float | None] = [entry["logprob"] for entry in entries]
        tops: list[dict[str, float] | None] = []
        offsets = []
        for entry in entries:
            chosen = {"token": entry["token"], "logprob": entry["logprob"]}
            tops.append({top["token"]: top["logprob"] for top in (chosen, *entry["top_logprobs"])})
            offsets.append(self._offsets[index])
            self._offsets[index] += len(entry["token"])
        if self._echoes and not offsets[0]:
            values[0] = tops[0] = None
        return {
            "tokens": [entry["token"] for entry in entries],
            "token_logprobs": values,
            "top_logprobs": tops,
            "text_offset": offsets,
        }
