"""Traces of answers: every piece of raw output, with its events and the text that was held.

The lines are those of a recording (see `unspool.engines.capture`), with ``events``, ``stands`` and ``held`` added. The
lines that a client keeps can be read as a recording.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from . import sse
from .chat import error_body
from .common import Failure, Usage, WholeAnswer, Writer
from .encoding import encode
from .server_tools import AnyEvent

__all__ = ["TraceWriter", "error_body"]


class TraceWriter(Writer):
    """Writes one answer of one choice, always as a stream. It is a `Writer` that gets pieces, not events.

    Args:
        asked: the recording's first line; set before the stream starts.
    """

    def __init__(self) -> None:
        self.asked: Mapping[str, Any] = {"type": "request"}

    def start(self) -> bytes:
        return _line(self.asked)

    def piece(self, at: float, delta: Any, fields: Mapping[str, Any]) -> bytes:
        """A piece of raw output, a struct, in seconds since the request, with the fields of
        `unspool.generation.tracing.Trace.step`."""
        return _line({"type": "chunk", "at": round(at, 6), **msgspec.to_builtins(delta), **fields})

    def last(self, at: float, fields: Mapping[str, Any]) -> bytes:
        """The events of the output's end; see `piece`."""
        return _line({"type": "end", "at": round(at, 6), **fields})

    def events(self, choice: int, events: Sequence[AnyEvent], logprobs: Sequence[Any] = ()) -> bytes:
        """Return nothing, because events are written with their piece."""
        return b""

    def finish(self, usage: Usage | None = None, stop_sequence: str | None = None) -> bytes:
        """The counts; a stream that ends without this line was cut."""
        return _line({"type": "done", "usage": usage, "stop_sequence": stop_sequence})

    def error(self, failure: Failure) -> bytes:
        """Report that the engine failed."""
        return _line({"type": "error", "message": failure.message, "status": failure.status})

    def _write_whole(self, answer: WholeAnswer) -> bytes:
        return encode({"message": answer.messages[0], "usage": answer.usage})


def _line(value: Mapping[str, Any]) -> bytes:
    return sse.data(encode(value))
