"""`ChoiceReader`: one output of a request, from the engine's deltas to the events for the client."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ..engines import Delta
from ..events import Event, Finish
from ..message import Message, fold
from ..request.continuation import Written
from ..request.prepared import Reader
from ..wire import Coalescer, Usage
from .stops import Stops


class Times:
    """The times at which the tokens of an output arrived, since the engine was asked, by a clock in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = clock()
        self._first: float | None = None
        self._between: list[float] = []

    def arrived(self, tokens: int) -> None:
        """Note that this many tokens arrived at once."""
        if not tokens:
            return
        now = self._clock()
        passed, self._last = round(1000 * (now - self._last), 3), now
        if self._first is None:
            self._first = passed
            tokens -= 1
            passed = 0.0
        self._between += [round(passed / tokens, 3)] * tokens if tokens else []

    def added_to(self, usage: Usage) -> Usage:
        """The counts with these times, unless the engine sent its own."""
        if usage.prefill_time is not None or usage.decode_time_arr is not None or self._first is None:
            return usage
        return msgspec.structs.replace(usage, prefill_time=self._first, decode_time_arr=self._between)


class ChoiceReader:
    """Reads one output of a request.

    If the engine sends token ids and their tokenizer is known (``by_ids``), the ids are parsed. Then a marker that is
    only spelled is text, and the tokens of the reasoning are counted. With ``one_call``, the output ends after its
    first call; with ``keep``, `kept` contains the events, and with ``timed``, `usage` contains times.
    """

    def __init__(
        self,
        parser: Reader,
        stop: Sequence[str] = (),
        coalescer: Coalescer | None = None,
        *,
        one_call: bool = False,
        keep: bool = False,
        by_ids: bool = False,
        timed: bool = False,
    ) -> None:
        self.reader = parser
        self._stops = Stops(stop, one_call=one_call) if stop or one_call else None
        self._coalescer = coalescer
        self._clock = asyncio.get_running_loop().time
        self._kept: list[Event] | None = [] if keep or self._stops else None
        self._by_ids = by_ids
        self._filtered = self._stops or keep or coalescer
        self._reason: str | None = None
        self._usage: Usage | None = None
        self._since = 0  # the tokens since the engine's last counts
        self._timed = timed
        self._times: Times | None = None
        self.logprobs: list[Any] = []
        self._raw: list[str] = []
        self._ids: list[int] | None = []

    def written(self) -> Written:
        """The model's output, up to where it was cut."""
        text, ids, message = "".join(self._raw), self._ids, self.message()
        if self.over and self._kept:
            text, ids = text[: self._kept[-1].end], None
        return Written(text, ids, message, self.tokens, self.over)

    @property
    def over(self) -> bool:
        """Whether the output ended before its engine did."""
        return self._stops is not None and self._stops.over

    @property
    def stop(self) -> str | None:
        """The stop string that ended the output, if any."""
        return None if self._stops is None else self._stops.matched

    @property
    def due(self) -> float | None:
        """The time to call `tick`, by the loop's clock; ``None`` while nothing is held back."""
        return None if self._coalescer is None else self._coalescer.due

    @property
    def usage(self) -> Usage | None:
        """The engine's counts. Two are added here: the tokens since its last counts if the output was cut off, and
        the tokens of the reasoning if known."""
        usage = self._usage
        if self.over:
            known = usage or Usage()
            completion = known.completion_tokens + self._since
            usage = msgspec.structs.replace(known, completion_tokens=completion, total_tokens=None)
        if usage is None:
            return None
        if usage.reasoning_tokens is None:
            usage = msgspec.structs.replace(usage, reasoning_tokens=self.reader.message.reasoning_tokens)
        return usage if self._times is None else self._times.added_to(usage)

    @property
    def tokens(self) -> int:
        """The number of generated tokens, as far as the engine reports it."""
        return self._since + (0 if self._usage is None else self._usage.completion_tokens)

    def begin(self) -> None:
        """Note that the engine was asked."""
        if self._timed:
            self._times = Times(self._clock)

    def counted(self, prompt: int) -> None:
        """Set the number of the prompt's tokens; see `uncounted`."""
        self._usage = msgspec.structs.replace(self._usage or Usage(), prompt_tokens=prompt)

    @property
    def uncounted(self) -> bool:
        """Whether the engine was cut off before it sent the number of the prompt's tokens."""
        return self.over and (self._usage is None or not self._usage.prompt_tokens)

    def feed(self, delta: Delta) -> list[Event]:
        """Parse the engine's next delta, and return its events."""
        if delta.finish_reason is not None:
            self._reason = delta.finish_reason
        tokens = len(delta.token_ids) or (1 if delta.text else 0)
        self._raw.append(delta.text)
        if delta.token_ids and self._ids is not None:
            self._ids += delta.token_ids
        elif delta.text:  # the ids of only some tokens are of no use
            self._ids = None
        if delta.usage is not None:
            self._usage, self._since = delta.usage, 0
        else:
            self._since += tokens
        if self._times is not None:
            self._times.arrived(tokens)
        if self._by_ids and delta.token_ids:
            events = self.reader.feed_tokens(delta.token_ids, delta.stage)
        else:
            events = self.reader.feed(delta.text, delta.stage)
        return self._filter(events) if events and self._filtered else events

    def close(self) -> list[Event]:
        return self._filter(self.reader.close(self._reason))

    def tick(self) -> list[Event]:
        """The events that were held back for long enough."""
        return [] if self._coalescer is None else self._coalescer.tick(self._clock())

    def flush(self) -> list[Event]:
        """The events that were held back."""
        return [] if self._coalescer is None else self._coalescer.flush()

    def _filter(self, events: list[Event]) -> list[Event]:
        if self._stops is not None:
            events = self._stops.feed(events)
        if self._kept is not None:
            self._kept += events
        if self._coalescer is not None:
            events = self._coalescer.feed(events, self._clock())
        return events

    @property
    def kept(self) -> Sequence[Event]:
        """The events so far, if they are kept."""
        return self._kept or ()

    def message(self) -> Message:
        if self._kept is None:
            return self.reader.message
        message = fold(self._kept)
        if not self._kept or not isinstance(self._kept[-1], Finish):
            message.finish_reason = self.reader.message.finish_reason
        return message
