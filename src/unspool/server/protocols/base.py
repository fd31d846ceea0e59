"""What the server needs to know of a protocol."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec

from ...events import Event
from ...message import Message
from ...wire.common import Failure, Usage, Writer
from ..checks import Fields
from ..job import Job
from ..settings import Settings


class Result(msgspec.Struct, frozen=True):
    """A choice that is complete.

    Attributes:
        message: the choice.
        events: what told it, where the protocol `keeps_events`.
        logprobs: the engine's entries.
        stop: the stop string that ended it, if one did.
    """

    message: Message
    events: Sequence[Event] = ()
    logprobs: Sequence[Any] = ()
    stop: str | None = None


class Protocol(ABC):
    """Reads requests and makes writers of answers.

    Attributes:
        id_prefix: how the ids of responses begin.
        invalid: the HTTP status of a request with a wrong field.
        keeps_events: whether whole answers are written from events.
    """

    id_prefix = ""
    invalid = 400
    keeps_events = False

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @abstractmethod
    def read(self, fields: Fields) -> Job:
        """What a request asks for.

        Raises:
            BadRequest: the field that is wrong, and what is allowed.
        """

    @abstractmethod
    def writer(self, job: Job, id: str, created: int) -> Writer:
        """What writes the answer; ``created`` is in seconds."""

    def whole(self, job: Job, id: str, created: int, results: Sequence[Result], usage: Usage | None) -> bytes:
        """An answer that is not streamed.

        Raises:
            NotImplementedError: the protocol has none; then all its jobs are streams.
        """
        raise NotImplementedError

    @abstractmethod
    def error_body(self, failure: Failure) -> bytes:
        """The body of an answer that is an error."""

    def finish(self, writer: Writer, usage: Usage | None, stop: str | None) -> bytes:
        """What follows the last event of a stream; ``stop`` is the stop string that ended it, if one did."""
        return writer.finish(usage)
