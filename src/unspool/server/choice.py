"""One choice of a response: an engine's pieces in, the events that the client is told out."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from ..engines import Delta
from ..events import Event, Finish
from ..message import Message, fold
from ..parser import Parser
from ..wire import Coalescer, Usage
from .protocols import Result
from .stops import Stops


class Choice:
    """The reading side of one choice.

    Token ids are fed where the engine tells them and their tokenizer is known: then a marker that is only spelled is
    text, and the tokens of the reasoning are counted.

    Args:
        parser: reads the output.
        stop: strings at which the content ends.
        coalescer: joins deltas, if they are to be joined.
        keep: whether `result` is to tell the events.
        by_ids: whether the parser knows the engine's tokenizer.
    """

    def __init__(
        self, parser: Parser, stop: Sequence[str], coalescer: Coalescer | None, *, keep: bool, by_ids: bool
    ) -> None:
        self._parser = parser
        self._stops = Stops(stop) if stop else None
        self._coalescer = coalescer
        self._clock = asyncio.get_running_loop().time
        self._kept: list[Event] | None = [] if keep or stop else None
        self._by_ids = by_ids
        self._passes = stop or keep or coalescer
        self._reason: str | None = None
        self._usage: Usage | None = None
        self.logprobs: list[Any] = []

    @property
    def over(self) -> bool:
        """Whether a stop string ended it."""
        return self._stops is not None and self._stops.matched is not None

    @property
    def stop(self) -> str | None:
        """The stop string that ended it, if one did."""
        return None if self._stops is None else self._stops.matched

    @property
    def due(self) -> float | None:
        """When to call `tick`, by the loop's clock: then what is held back has to go on."""
        return None if self._coalescer is None else self._coalescer.due

    @property
    def usage(self) -> Usage | None:
        """The engine's counts; the reasoning is counted here where the engine leaves it out and tells its tokens."""
        usage = self._usage
        if usage is None or usage.reasoning_tokens is not None:
            return usage
        return msgspec.structs.replace(usage, reasoning_tokens=self._parser.message.reasoning_tokens)

    def feed(self, delta: Delta) -> list[Event]:
        """The events of the engine's next piece."""
        if delta.finish_reason is not None:
            self._reason = delta.finish_reason
        if delta.usage is not None:
            self._usage = delta.usage
        if self._by_ids and delta.token_ids:
            events = self._parser.feed_tokens(delta.token_ids, delta.stage)
        else:
            events = self._parser.feed(delta.text, delta.stage)
        return self._passed(events) if events and self._passes else events

    def close(self) -> list[Event]:
        """The last events."""
        return self._passed(self._parser.close(self._reason))

    def tick(self) -> list[Event]:
        """What was held back for long enough."""
        return [] if self._coalescer is None else self._coalescer.tick(self._clock())

    def flush(self) -> list[Event]:
        """What was held back."""
        return [] if self._coalescer is None else self._coalescer.flush()

    def _passed(self, events: list[Event]) -> list[Event]:
        if self._stops is not None:
            events = self._stops.feed(events)
        if self._kept is not None:
            self._kept += events
        if self._coalescer is not None:
            events = self._coalescer.feed(events, self._clock())
        return events

    def result(self, *, events: bool, logprobs: bool) -> Result:
        """The choice, complete."""
        kept = (self._kept or ()) if events else ()
        return Result(self.message(), kept, self.logprobs if logprobs else (), self.stop)

    def message(self) -> Message:
        """The choice as a message."""
        if self._kept is None:
            return self._parser.message
        message = fold(self._kept)
        if not self._kept or not isinstance(self._kept[-1], Finish):
            message.finish_reason = self._parser.message.finish_reason
        return message
