"""Several URLs of one model: the least busy one first, and those that do not answer are left out until they do."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence

from ..base import EngineError
from .kinds import Kind, Served

__all__ = ["Backend", "Pool"]

log = logging.getLogger("unspool")


class Backend:
    """One server.

    Attributes:
        url: its base.
        kind: given, or found out; ``None`` until then.
        served: what it says of itself; ``None`` until it was asked.
        busy: how many outputs it generates for us.
        fault: why it is left out; ``""``: it is not.
        seen: whether it has answered since it was last left out.
        asking: held while it is asked about itself.
    """

    def __init__(self, url: str, kind: Kind | None) -> None:
        self.url = url
        self.kind = kind
        self.served: Served | None = None
        self.busy = 0
        self.fault = ""
        self.seen = False
        self.asking = asyncio.Lock()
        self._given = kind

    def out(self, fault: str) -> None:
        """Leave it out. Its answers are forgotten: another server may come back."""
        if not self.fault:
            log.warning("engine %s: taken out: %s", self.url, fault)
        self.fault = fault or "it does not respond"
        self.seen = False
        self.kind, self.served = self._given, None

    def back(self) -> None:
        """Note that it answers."""
        if self.fault:
            log.warning("engine %s: back", self.url)
        self.fault = ""
        self.seen = True


class Pool:
    """Chooses among backends, and asks them from time to time whether they are there.

    Args:
        backends: at least one.
        probe: returns where a backend is there.
        interval: seconds between two checks.
    """

    def __init__(
        self, backends: Sequence[Backend], probe: Callable[[Backend], Awaitable[None]], interval: float
    ) -> None:
        self.backends = backends
        self._probe = probe
        self._interval = interval
        self._watch: asyncio.Task[None] | None = None
        self._stopped = False
        self._turn = 0

    @contextlib.contextmanager
    def turn(self, tried: set[Backend]) -> Iterator[Backend | None]:
        """The least busy backend that was not tried yet, busy for as long as the block lasts; ``None``: there is none.

        Those that are left out are tried where no other is there: they may be back before the next check.
        """
        left = [b for b in self.backends if b not in tried]
        there = [b for b in left if not b.fault] or ([] if tried else left)
        if not there:
            yield None
            return
        self._turn += 1  # those that are as busy take turns
        start = self._turn % len(there)
        chosen = min((*there[start:], *there[:start]), key=lambda b: b.busy)
        chosen.busy += 1
        try:
            yield chosen
        finally:
            chosen.busy -= 1

    def start(self) -> None:
        """Begin to check, where that has not begun.

        Raises:
            EngineError: it was stopped.
        """
        if self._stopped:
            raise EngineError("the engine is closed", 503)
        if self._watch is None:
            self._watch = asyncio.create_task(self._check_for_ever())

    async def stop(self) -> None:
        """Stop checking for ever; may be called again, in any event loop."""
        self._stopped = True
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def check(self) -> None:
        """Ask every backend whether it is there."""
        await asyncio.gather(*map(self._check, self.backends))

    async def _check_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self.check()

    async def _check(self, backend: Backend) -> None:
        try:
            await self._probe(backend)
        except EngineError as error:
            backend.out(str(error))
        else:
            backend.back()
