"""A bounded queue between an engine and a client. A slow client slows down only its own generation."""

import asyncio
import types
from collections.abc import Awaitable, Generator
from typing import Any, Final, Protocol

_DONE: Final = object()
MOST_BYTES: Final = 512 * 1024  # the most bytes of a response that may wait for a client before its engine waits too


class Sink(Protocol):
    """Takes the bytes of a stream, such as a connection."""

    def write(self, data: bytes) -> Awaitable[None]:
        """Take some bytes. It waits while the client does not read."""

    def end(self) -> Awaitable[None]:
        """End the stream."""


class Outbox:
    """The bytes of one streamed response, on their way from its producers to the client.

    As long as the sink takes bytes, they go there at once, without a task or an iteration of the event loop. Engines
    often have several pieces at once: further bytes of the same time, by the loop's clock, wait for the end of the
    iteration. Bytes that are put while the client does not read wait until it does. Both are then sent in one piece."""

    def __init__(self, sink: Sink, limit: int) -> None:
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._clock = self._loop.time
        self._limit = limit
        self._waiting: list[bytes] = []
        self._sender: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._bytes = 0  # the number of waiting bytes
        # The number of waiting events, including those that are being sent; ``limit`` of them make it `full`.
        self.events = 0
        self.begun = self.over = False
        self.stalled_since: float | None = None  # the time, by the loop's clock, since which the sink has taken nothing
        self.sent_at = 0.0  # the time, by the loop's clock, of the last write

    @property
    def full(self) -> bool:
        """Whether producers must wait for `room`."""
        return self.events >= self._limit or self._bytes >= MOST_BYTES

    def put(self, data: bytes, events: int) -> None:
        """Send the bytes of some events; `OSError` if the connection is lost."""
        self.begun = True
        if self._sender is not None and self._sender.done():
            self._sender.result()  # raises the error that ended it
        if self._sender is None and not self._waiting:
            now = self._clock()
            if now != self.sent_at:
                self.sent_at = now
                self._begin(self._sink.write(data).__await__())
                return
            self._loop.call_soon(self._flush)
        self._waiting.append(data)
        self.events += events
        self._bytes += len(data)

    async def room(self) -> None:
        """Wait until fewer events and bytes wait than the limits allow; `OSError` if the connection is lost."""
        while self.full:
            self._room.clear()
            await self._room.wait()
            if self._sender is not None and self._sender.done():
                self._sender.result()

    async def end(self, data: bytes) -> None:
        """Send the last bytes. Returns when the sink has taken everything."""
        self.over = True
        self.put(data, 0)
        self._flush()
        if self._sender is not None:
            await self._sender
        self._begin(self._sink.end().__await__())
        if self._sender is not None:
            await self._sender

    async def close(self) -> None:
        self._waiting = []
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)

    def _begin(self, writing: Generator[Any, Any, None]) -> None:
        """Run until the sink waits. Only then is a task needed."""
        waits_for = next(writing, _DONE)
        if waits_for is _DONE:
            return
        self.stalled_since = self._clock()
        self._sender = asyncio.ensure_future(self._continue(rest(writing, waits_for)))

    def _flush(self) -> None:
        """Send the bytes that were put at one time."""
        if self._sender is None and self._waiting:
            self.sent_at = self._clock()
            try:
                self._begin(self._drain().__await__())
            except OSError as error:
                self._sender = self._loop.create_future()
                self._sender.set_exception(error)

    async def _continue(self, writing: Awaitable[None]) -> None:
        try:
            await writing
            await self._drain()
            self._sender = self.stalled_since = None
        finally:
            self._room.set()

    async def _drain(self) -> None:
        """Send all waiting bytes, and those that are put meanwhile."""
        while self._waiting:
            data, events, size = b"".join(self._waiting), self.events, self._bytes
            self._waiting = []
            if self._sender is not None:
                self.stalled_since = self._clock()
            await self._sink.write(data)
            self.events -= events
            self._bytes -= size
            self._room.set()


@types.coroutine
def rest(started: Generator[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """The rest of an awaitable that was started outside a task and now waits for a future."""
    try:
        while True:
            try:
                sent = yield waits_for
            except GeneratorExit:
                started.close()
                raise
            except BaseException as error:
                waits_for = started.throw(error)
            else:
                waits_for = started.send(sent)
    except StopIteration:
        return
