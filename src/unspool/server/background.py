"""Responses in the background: nobody waits for them, and clients ask the store, from any process, how they are."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Final

import msgspec
from starlette.types import Send

from ..generation.run import Run
from ..generation.service import Service, log
from ..request.fields import NotFound
from ..request.stored import EVENTS, LOST, OPEN, RESPONSE, Saved, beat_again, current
from ..store import ReadTransaction, Record, Store, StoreError, StoreFull, WriteTransaction
from ..wire.common import Failure
from ..wire.encoding import encode
from ..wire.sse import KEEP_ALIVE, event
from .replies import StreamReply

_BEAT: Final = LOST / 6
_FLUSH: Final = 0.1  # seconds between two writes of events
_LOOK: Final = 0.25  # seconds between two looks for events that another process writes
_AT_ONCE: Final = 64
_SEQUENCE: Final = re.compile(rb'"sequence_number":(\d+)')
_ENDS: Final = re.compile(rb"event: response\.(?:completed|incomplete|failed)\n")


class Background:
    def __init__(self) -> None:
        self._running: dict[str, tuple[Run, asyncio.Task[None]]] = {}
        self._news = asyncio.Event()
        self._closing = asyncio.Event()

    def start(self, service: Service, run: Run, owner: bytes, closing: AsyncExitStack) -> None:
        """Run a response, whose record is stored, and then close what its request opened."""
        task = asyncio.ensure_future(self._work(service, run, owner, closing))
        self._running[run.id] = run, task

    def cancel(self, id: str) -> None:
        """Stop a response, if it runs in this process."""
        if id in self._running:
            self._running[id][1].cancel()

    async def close(self) -> None:
        """End all responses with an error, which is stored."""
        self._closing.set()
        running = list(self._running.values())
        for run, _ in running:
            run.abort(Failure("the server is shutting down", 503))
        await asyncio.gather(*(task for _, task in running), return_exceptions=True)

    async def write(self, store: Store, work: Callable[[WriteTransaction], object]) -> None:
        """Write what nobody waits for. Where the store is full, this is tried again until others take the process to be
        gone."""
        deadline = time.monotonic() + LOST
        while True:
            try:
                await store.writing(work)
                return
            except StoreFull as error:
                if self._closing.is_set() or time.monotonic() > deadline:
                    raise
                log.warning("a response in the background waits: %s", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), _BEAT)

    async def _work(self, service: Service, run: Run, owner: bytes, closing: AsyncExitStack) -> None:
        task = asyncio.current_task()
        assert task is not None
        beating = asyncio.ensure_future(_beating(service.store, owner, run.id, task))
        journal = _Journal(self, service.store, owner, run) if run.streamed else None
        try:
            with service.running(run):
                failure = await run.generate(journal)
            if failure is not None:
                if journal is not None and not journal.begun:
                    await journal.write(run.writer.start() + run.writer.error(failure))
                else:
                    run.writer.error(failure)  # which is stored with the response
                await run.deposit.keep(run.id, run.writer, None)
        except StoreError as error:
            log.warning("%s: the failure of the response could not be stored: %s", run.id, error)
        except Exception:
            log.exception("%s: the response in the background failed", run.id)
        finally:
            beating.cancel()
            if journal is not None:
                await journal.close()
            await closing.aclose()
            del self._running[run.id]
            self.notify()

    # -- events ----------------------------------------------------------------------------------------------------

    def notify(self) -> None:
        """Tell those who wait that there is something new."""
        self._news.set()
        self._news = asyncio.Event()

    async def stream(self, service: Service, owner: bytes, id: str, after: int, send: Send) -> None:
        """Send the events of a response after one of them, as they come, until its end."""
        reply = StreamReply(send, id)
        async for data in self._events(service, owner, id, after):
            await reply.write(data)
        await reply.write(b"")
        await reply.end()

    async def _events(self, service: Service, owner: bytes, id: str, after: int) -> AsyncIterator[bytes]:
        clock = asyncio.get_running_loop().time
        at, since, last = 0, clock(), b""

        def read(reading: ReadTransaction) -> tuple[list[Record], Saved | None]:
            found = reading.children(owner, EVENTS, (RESPONSE, id), after=at, limit=_AT_ONCE)
            with suppress(NotFound):
                return found, current(reading, owner, id)
            return found, None

        while True:
            news = self._news
            records, saved = await service.store.reading(read)
            for record in records:
                at, since, last = record.at, clock(), record.data
                yield _after(record.data, after)
                if _ENDS.search(record.data):
                    return
            if records:
                continue
            if saved is None or saved.status == "cancelled":
                return
            # The last events are written just after the response itself, unless its process has ended before that.
            if saved.status not in OPEN and clock() - since > _BEAT:
                yield _end(saved, last)
                return
            if clock() - since > service.settings.limits.silence:
                since = clock()
                yield KEEP_ALIVE
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), _LOOK)


class _Journal:
    """Stores the events of a response, several at once; a `Sink` of `unspool.generation.outbox`. The run ends if they
    cannot be stored. ``begun``: whether there were any."""

    def __init__(self, background: Background, store: Store, owner: bytes, run: Run) -> None:
        self._background = background
        self._store = store
        self._owner = owner
        self._run = run
        self._waiting: list[bytes] = []
        self._count = 0
        self._flushing: asyncio.Task[None] | None = None
        self._broken = False
        self.begun = False

    async def write(self, data: bytes) -> None:
        """Take some bytes: whole frames."""
        self.begun = True
        self._waiting.append(data)
        if self._flushing is None and not self._broken:
            self._flushing = asyncio.ensure_future(self._flush())

    async def end(self) -> None:
        """Nothing is left to do: see `close`."""

    async def close(self) -> None:
        if self._flushing is not None:
            await self._flushing

    async def _flush(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(_FLUSH)
                data, self._waiting = b"".join(self._waiting), []
                id = f"{self._run.id}/{self._count}"
                self._count += 1
                parent = RESPONSE, self._run.id
                put = partial(WriteTransaction.put, owner=self._owner, kind=EVENTS, id=id, data=data, parent=parent)
                await self._background.write(self._store, put)
                self._background.notify()
        except StoreError as error:
            self._broken = True
            self._run.abort(Failure(f"the events could not be stored: {error}", error.status))
        finally:
            self._flushing = None


async def _beating(store: Store, owner: bytes, id: str, task: "asyncio.Task[None]") -> None:
    """Show that a response is being generated, until it ends or is cancelled by another process."""
    while True:
        await asyncio.sleep(_BEAT)
        try:
            alive = await store.writing(lambda w: beat_again(w, owner, id))
        except StoreError as error:
            log.warning("%s: %s", id, error)
        else:
            if not alive:
                task.cancel()


def _end(saved: Saved, last: bytes) -> bytes:
    """The event that ends a response, after some frames."""
    kind = f"response.{saved.status}"
    found = _SEQUENCE.search(last.rstrip().rpartition(b"\n\n")[2])
    number = 0 if found is None else int(found[1]) + 1
    response = msgspec.Raw(saved.response)
    return event(kind.encode(), encode({"type": kind, "sequence_number": number, "response": response}))


def _after(data: bytes, number: int) -> bytes:
    """The frames with later events."""
    if number < 0:
        return data
    frames = [frame + b"\n\n" for frame in data.split(b"\n\n") if frame]
    return b"".join(f for f in frames if (found := _SEQUENCE.search(f)) is not None and int(found[1]) > number)
