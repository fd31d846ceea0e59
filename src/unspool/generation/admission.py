"""`Admission`: limits how many outputs are generated at once and how many wait, and refuses the others."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

_TRIES: Final = 5
_PAUSE: Final = 0.1  # seconds between two attempts to enter a full queue


class Overloaded(Exception):
    """The queue is full; a client may try again after ``retry_after`` seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many requests are waiting; try again in {retry_after} s")
        self.retry_after = retry_after


class Admission:
    """Places for outputs that are generated at once, with a queue of at most ``queue`` outputs, served in order."""

    def __init__(self, places: int, queue: int) -> None:
        self._places = places
        self._queue = queue
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._takes = 1.0  # seconds for one output, as a moving average
        self.running = 0
        self.waiting = 0

    @asynccontextmanager
    async def places(self, n: int, *, begun: bool = False) -> AsyncIterator[None]:
        """Wait for ``n`` places, and occupy them for the duration of the context. `Overloaded` if the queue is full and
        the answer has not ``begun``: then it can still be refused."""
        loop = asyncio.get_running_loop()
        if self._waiting or self.running + n > self._places:
            await self._wait(n, begun)
        else:
            self.running += n
        began = loop.time()
        try:
            yield
        finally:
            self._takes += 0.2 * (loop.time() - began - self._takes)
            self.running -= n
            self._admit()

    async def _wait(self, n: int, begun: bool) -> None:
        for _ in range(_TRIES):
            if begun or self.waiting + n <= self._queue:
                break
            await asyncio.sleep(_PAUSE)  # if many clients left at once, some may not have been noticed yet
        else:
            until_done = math.ceil(self._takes * (1 + self.waiting / self._places))  # about so many seconds
            raise Overloaded(min(max(until_done, 1), 60))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = n, turn
        self._waiting.append(entry)
        self.waiting += n
        self._admit()  # places may be free now
        try:
            await turn
        except asyncio.CancelledError:
            if entry in self._waiting:
                self._waiting.remove(entry)
                self.waiting -= n
            elif not turn.cancelled():
                self.running -= n  # it was admitted and cancelled at the same time
            self._admit()
            raise

    def _admit(self) -> None:
        """Admit outputs in order. Cancelled tasks that have not run since then are still in the queue."""
        while self._waiting:
            n, turn = self._waiting[0]
            if not turn.cancelled() and self.running + n > self._places:
                return
            self._waiting.popleft()
            self.waiting -= n
            if not turn.cancelled():
                self.running += n
                turn.set_result(None)
