"""What waits between an engine and a client: bounded, so that a slow client slows its own engine and nobody else's."""

import asyncio
import types
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final

Send = Callable[[dict[str, Any]], Awaitable[None]]

MOST_BYTES: Final = 512 * 1024
"""How many bytes of a response may wait for a client before its engine waits too."""
"""What takes ASGI's messages."""


class Outbox:
    """The bytes of one streamed response, on their way from its producers to the connection.

    What is put goes to the connection at once, without a task of its own or a turn of the loop, as long as the
    connection takes it. What comes in the same moment of the loop's clock, as engines say several things at once, waits
    for the end of the loop's turn, and what comes while the client does not read waits for that; both go on in one
    piece.

    Args:
        send: takes ASGI's messages.
        head: the message that begins the response; it goes with the first bytes.
        limit: how many events may wait before `full`; bytes may be `MOST_BYTES`.
    """

    def __init__(self, send: Send, head: dict[str, Any], limit: int) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._clock = self._loop.time
        self._head: dict[str, Any] | None = head
        self._limit = limit
        self._waiting: list[bytes] = []
        self._sender: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self.events = 0
        """How many events wait, those that are being sent included."""
        self._bytes = 0  # and how many bytes
        self.stalled_since: float | None = None
        """Since when, by the loop's clock, the connection has taken nothing."""
        self.over = False
        """Whether the last bytes were put."""
        self.sent_at = 0.0
        """When, by the loop's clock, something was last put."""

    @property
    def full(self) -> bool:
        """Whether whoever puts has to wait for `room`."""
        return self.events >= self._limit or self._bytes >= MOST_BYTES

    @property
    def begun(self) -> bool:
        """Whether there is a response to end."""
        return self._head is None

    def put(self, data: bytes, events: int) -> None:
        """Send the bytes of some events.

        Raises:
            OSError: the connection is lost, as some servers tell it.
        """
        if self._sender is not None and self._sender.done():
            self._sender.result()  # raises what ended it
        if self._sender is None and not self._waiting:
            now = self._clock()
            if now != self.sent_at:
                self.sent_at = now
                self._begin((self._write(data) if self._head else self._send(_body(data))).__await__())
                return
            self._loop.call_soon(self._flush)
        self._waiting.append(data)
        self.events += events
        self._bytes += len(data)

    async def room(self) -> None:
        """Return when less waits than the limits allow.

        Raises:
            OSError: the connection is lost, as some servers tell it.
        """
        while self.full:
            self._room.clear()
            await self._room.wait()
            if self._sender is not None and self._sender.done():
                self._sender.result()

    async def end(self, data: bytes) -> None:
        """Send the last bytes; returns when the connection has taken everything."""
        self.over = True
        self.put(data, 0)
        self._flush()
        if self._sender is not None:
            await self._sender
        self._begin(self._send({"type": "http.response.body", "body": b""}).__await__())
        if self._sender is not None:
            await self._sender

    async def close(self) -> None:
        """Send no more."""
        self._waiting = []
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)

    async def _write(self, data: bytes) -> None:
        if self._head is not None:
            head, self._head = self._head, None
            await self._send(head)
        await self._send(_body(data))

    def _begin(self, writing: Generator[Any, Any, None]) -> None:
        """Run until the connection makes it wait; only then does it need a task."""
        try:
            waits_for = next(writing)
        except StopIteration:
            return
        self.stalled_since = self._clock()
        self._sender = asyncio.ensure_future(self._go_on(_rest(writing, waits_for)))

    def _flush(self) -> None:
        """Send what came in one moment."""
        if self._sender is None and self._waiting:
            self.sent_at = self._clock()
            try:
                self._begin(self._drain().__await__())
            except OSError as error:
                self._sender = self._loop.create_future()
                self._sender.set_exception(error)

    async def _go_on(self, writing: Awaitable[None]) -> None:
        try:
            await writing
            await self._drain()
            self._sender = self.stalled_since = None
        finally:
            self._room.set()

    async def _drain(self) -> None:
        """Send all that waits, and what comes to wait meanwhile."""
        while self._waiting:
            data, events, size = b"".join(self._waiting), self.events, self._bytes
            self._waiting = []
            if self._sender is not None:
                self.stalled_since = self._clock()
            await self._write(data)
            self.events -= events
            self._bytes -= size
            self._room.set()


def _body(data: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": True}


@types.coroutine
def _rest(begun: Generator[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """What is left of an awaiting that was begun outside of a task and waits for a future."""
    try:
        while True:
            try:
                sent = yield waits_for
            except GeneratorExit:
                begun.close()
                raise
            except BaseException as error:
                waits_for = begun.throw(error)
            else:
                waits_for = begun.send(sent)
    except StopIteration:
        return
