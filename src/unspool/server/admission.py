"""Who generates, who waits and who is sent away."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

_LOOKS: Final = 5
_PAUSE: Final = 0.1  # seconds between two looks whether there is room in the line


class Overloaded(Exception):
    """There is no room to wait.

    Attributes:
        retry_after: seconds after which it may be worth another try.
    """

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many requests are waiting; try again in {retry_after} s")
        self.retry_after = retry_after


class Admission:
    """A number of places and a line before them, served in order.

    Args:
        places: how many outputs are generated at once.
        line: how many may wait.
    """

    def __init__(self, places: int, line: int) -> None:
        self._places = places
        self._line = line
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._takes = 1.0  # seconds an output takes, a moving average
        self.running = 0
        self.waiting = 0

    @asynccontextmanager
    async def places(self, n: int) -> AsyncIterator[None]:
        """Hold ``n`` places, as soon as there are so many free.

        Raises:
            Overloaded: the line is full.
        """
        loop = asyncio.get_running_loop()
        if self._waiting or self.running + n > self._places:
            await self._wait(n)
        else:
            self.running += n
        began = loop.time()
        try:
            yield
        finally:
            self._takes += 0.2 * (loop.time() - began - self._takes)
            self.running -= n
            self._admit()

    async def _wait(self, n: int) -> None:
        for _ in range(_LOOKS):
            if self.waiting + n <= self._line:
                break
            await asyncio.sleep(_PAUSE)  # of clients that left together, not all may have been noticed yet
        else:
            raise Overloaded(self._retry_after())
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = n, turn
        self._waiting.append(entry)
        self.waiting += n
        self._admit()  # there may be room by now
        try:
            await turn
        except asyncio.CancelledError:
            if entry in self._waiting:
                self._waiting.remove(entry)
                self.waiting -= n
            elif not turn.cancelled():
                self.running -= n  # its turn came as it went away
            self._admit()
            raise

    def _admit(self) -> None:
        """Let in whose turn it is. Who is cancelled but has not run since stands in the line as if nothing was."""
        while self._waiting:
            n, turn = self._waiting[0]
            if not turn.cancelled() and self.running + n > self._places:
                return
            self._waiting.popleft()
            self.waiting -= n
            if not turn.cancelled():
                self.running += n
                turn.set_result(None)

    def _retry_after(self) -> int:
        """About as long as the line takes."""
        return min(max(math.ceil(self._takes * (1 + self.waiting / self._places)), 1), 60)
