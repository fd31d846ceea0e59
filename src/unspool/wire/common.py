"""What all protocols share: the interface of writers, counts of tokens, and failures."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ..events import Event
from ..message import Message
from ..validation import described
from . import sse
from .server_tools import AnyEvent, ServerEvent

Sealing = Callable[[str], str | None]
"""Seals reasoning, so that clients can keep it but not read it; returns ``None`` if it is too long."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The engine's counts, passed on unchanged.

    Attributes:
        prompt_tokens, completion_tokens: the counts for the whole request; reasoning is part of the completion.
        total_tokens: the engine's total; ``None`` if it reports none, and then the sum of the two.
        cached_tokens: how many tokens of the prompt came from a cache.
        reasoning_tokens: how many tokens of the completion were reasoning.
        prefill_time, decode_time_arr: milliseconds up to the first token, and between tokens (MindIE).
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    prefill_time: float | None = None
    decode_time_arr: list[float] | None = None

    @property
    def total(self) -> int:
        """The engine's total, or the sum."""
        return self.prompt_tokens + self.completion_tokens if self.total_tokens is None else self.total_tokens

    def openai(self) -> dict[str, Any]:
        """The usage in the form of chat completions, with those details that are known."""
        usage: dict[str, Any] = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.total,
        }
        if self.cached_tokens is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self.cached_tokens}
        if self.reasoning_tokens is not None:
            usage["completion_tokens_details"] = {"reasoning_tokens": self.reasoning_tokens}
        return usage


def not_written(event: object) -> bytes:
    """Ignore an event for which a protocol has no fields; a `TypeError` if it is none."""
    if not isinstance(event, Event | ServerEvent):
        raise TypeError(f"events: must be a list of events; it contains {described(event)}")
    return b""


class Failure(msgspec.Struct, frozen=True):
    """A failure, for any protocol.

    Attributes:
        message: the message for people; for a bad request, it names the field and what is allowed.
        status: the HTTP status, even if the response has begun and another status was already sent.
        param: the wrong field of the request.
        type, code: the protocol's own words; ``None`` takes what the protocol says for the status.
        retry_after, allow: seconds after which it may be worth another try, and the methods of a path, for the HTTP
            headers of these names.
    """

    message: str
    status: int = 500
    param: str | None = None
    type: str | None = None
    code: str | None = None
    retry_after: int | None = None
    allow: str = ""


class WholeAnswer(msgspec.Struct, frozen=True):
    """The arguments of `Writer.whole`."""

    messages: Sequence[Message]
    usage: Usage | None
    logprobs: Sequence[Sequence[Any]]
    events: Sequence[Sequence[AnyEvent]]
    stop_sequence: str | None


class Writer(ABC):
    """Writes one response of any protocol: a stream, or `whole`. The bytes of every method are ready to be sent.

    Arguments for which a protocol has no field are ignored.

    Attributes:
        KEEP_ALIVE: bytes that may be sent between any two events.
    """

    KEEP_ALIVE = sse.KEEP_ALIVE

    @abstractmethod
    def start(self) -> bytes:
        """The beginning of a stream, before any event; may be empty."""

    @abstractmethod
    def events(self, choice: int, events: Sequence[AnyEvent], logprobs: Sequence[Any] = ()) -> bytes:
        """The next events of a choice, with the log probabilities of their tokens; may be empty."""

    @abstractmethod
    def finish(self, usage: Usage | None = None, stop_sequence: str | None = None) -> bytes:
        """The end of a stream; ``stop_sequence`` is the request's stop string that ended the output, if any."""

    @abstractmethod
    def error(self, failure: Failure) -> bytes:
        """The end of a stream if the engine fails."""

    def whole(
        self,
        messages: Sequence[Message],
        usage: Usage | None = None,
        *,
        logprobs: Sequence[Sequence[Any]] = (),
        events: Sequence[Sequence[AnyEvent]] = (),
        stop_sequence: str | None = None,
    ) -> bytes:
        """The whole answer.

        Args:
            messages: one for each choice.
            usage: of all choices together.
            logprobs, events: those of each choice, if known. Only the events contain what the server's tools did.
            stop_sequence: as for `finish`.

        Raises:
            ValueError: the protocol has one choice, and there is not exactly one message.
        """
        return self._write_whole(WholeAnswer(messages, usage, logprobs, events, stop_sequence))

    @abstractmethod
    def _write_whole(self, answer: WholeAnswer) -> bytes: ...
