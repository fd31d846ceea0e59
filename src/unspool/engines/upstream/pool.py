"""Several URLs of one model: chooses the least busy one, and skips those that do not answer until they do."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

from ..base import EngineError
from .kinds import Kind, ListedModel

log = logging.getLogger("unspool")

_FRESH: Final = 1.0  # how long an answer counts for `BackendPool.health`, in seconds


class Backend:
    def __init__(self, url: str, kind: Kind | None) -> None:
        self.url = url
        self.kind = kind  # its kind, given or detected; ``None`` until then
        self.served: ListedModel | None = None  # what it reports about itself; ``None`` until it was asked
        self.unready = False  # whether it is known to take no ids with media; see `media.CHAT`
        self.spans: dict[str, list[int]] = {}  # the tokens of placeholders, by their texts
        # llama.cpp's marker of media, new with each start, and whether texts begin with a token; ``None``: not asked.
        self.bos: tuple[Any, bool] | None = None
        self.busy = 0  # how many outputs it generates for us
        self.fault = ""  # why it is skipped; ``""`` if it is not
        self.seen = False  # whether it has answered since it was last skipped
        self.asking = asyncio.Lock()  # a lock for asking it about itself
        self._given = kind
        self._answered = 0.0  # when it last answered, by `time.monotonic`

    @property
    def there(self) -> bool:
        return self.seen and time.monotonic() - self._answered < _FRESH

    def out(self, fault: str) -> None:
        """Skip it, and forget its answers, since another server may take its place."""
        if not self.fault:
            log.warning("engine %s: taken out: %s", self.url, fault)
        self.fault = fault or "it does not respond"
        self.seen = False
        self.kind, self.served = self._given, None
        self.unready, self.spans, self.bos = False, {}, None

    def back(self) -> None:
        if self.fault:
            log.warning("engine %s: back", self.url)
        self._answered = time.monotonic()
        self.fault = ""
        self.seen = True


class BackendPool:
    """Chooses among backends, and checks them at an interval in seconds: ``probe`` raises if one is not up."""

    def __init__(
        self, backends: Sequence[Backend], probe: Callable[[Backend], Awaitable[None]], interval: float
    ) -> None:
        self.backends = backends
        self._probe = probe
        self._interval = interval
        self._watch: asyncio.Task[None] | None = None
        self._checks: dict[Backend, asyncio.Task[None]] = {}
        self._stopped = False
        self._turn = 0

    @contextlib.contextmanager
    def turn(self, tried: set[Backend]) -> Iterator[Backend | None]:
        """A context with the least busy backend not tried yet, which counts as busy inside; ``None`` if all were.

        Skipped backends are tried if there is no other, since they may be back before the next check.
        """
        left = [b for b in self.backends if b not in tried]
        there = [b for b in left if not b.fault] or ([] if tried else left)
        if not there:
            yield None
            return
        self._turn += 1  # equally busy ones take turns
        start = self._turn % len(there)
        chosen = min((*there[start:], *there[:start]), key=lambda b: b.busy)
        chosen.busy += 1
        try:
            yield chosen
        finally:
            chosen.busy -= 1

    def start(self) -> None:
        """Begin the checks, unless they have begun; `EngineError` if it was stopped."""
        if self._stopped:
            raise EngineError("the engine is closed", 503)
        if self._watch is None:
            self._watch = asyncio.create_task(self._check_for_ever())

    async def stop(self) -> None:
        """Stop the checks for good; may be called again, in any event loop."""
        self._stopped = True
        tasks = [*self._checks.values()]
        if self._watch is not None:
            tasks.append(self._watch)
        self._watch, self._checks = None, {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def health(self) -> None:
        """Return if a backend is up now; if none has just answered, all are asked. An `EngineError` has the reasons."""
        known = any(b.there for b in self.backends)
        pending = set() if known else {self._checking(b) for b in self.backends}
        while pending and not any(b.there for b in self.backends):
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if self._stopped:
                raise EngineError("the engine is closed", 503)
            for check in done:
                check.result()
        if not any(b.seen for b in self.backends):
            faults = dict.fromkeys(b.fault for b in self.backends)
            raise EngineError("no engine is up: " + "; ".join(faults), 503)

    async def _check_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await asyncio.gather(*map(self._checking, self.backends))

    def _checking(self, backend: Backend) -> "asyncio.Task[None]":
        """The current check of a backend, or a new one, shared by all who wait for it."""
        task = self._checks.get(backend)
        if task is None or task.done():
            task = self._checks[backend] = asyncio.create_task(self._check(backend))
        return task

    async def _check(self, backend: Backend) -> None:
        try:
            await self._probe(backend)
        except EngineError as error:
            backend.out(str(error))
        else:
            backend.back()
