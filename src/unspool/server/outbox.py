"""What waits between an engine and a client: bounded, so that a slow client slows its own engine and nobody else's."""

import asyncio

from ..wire.common import Failure


class Outbox:
    """Bytes on their way from the producers of one response to its one sender.

    Args:
        limit: how many events may wait, those that are being sent included. A put that exceeds it waits for room.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._events = 0  # waiting and being sent
        self._sending = 0
        self._over = False
        self._ready = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self.failure: Failure | None = None
        """Why the response failed, if it did; without any bytes, it failed before the first."""

    @property
    def events(self) -> int:
        """How many events wait."""
        return self._events

    async def put(self, data: bytes, events: int) -> None:
        """Add the bytes of some events; returns when there is room for more."""
        self._events += events
        if data:
            self._parts.append(data)
            self._ready.set()
        if self._events >= self._limit:
            self._room.clear()
            await self._room.wait()

    def end(self, data: bytes = b"") -> None:
        """Nothing follows these bytes."""
        if data:
            self._parts.append(data)
        self._over = True
        self._ready.set()

    async def take(self) -> bytes:
        """All that waits; nothing when it is over. What was taken before counts as sent."""
        self._events -= self._sending
        if self._events < self._limit:
            self._room.set()
        self._sending = 0
        if not self._parts and not self._over:
            self._ready.clear()
            await self._ready.wait()
        parts, self._parts = self._parts, []
        self._sending = self._events
        return parts[0] if len(parts) == 1 else b"".join(parts)
