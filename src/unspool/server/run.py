"""One request under way: an engine's outputs through parsers, and the answer on its way to the client."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.types import Scope

from ..engines import EngineError
from ..events import Event
from ..message import Message
from ..parser import Parser
from ..wire.common import Failure, Usage, Writer
from .admission import Overloaded
from .choice import Choice
from .core import Core, log
from .outbox import Outbox, Send
from .prepared import Prepared
from .protocols import Protocol
from .replies import Reply, client_id, failed, stream_start


class Run:
    """Answers one request.

    Args:
        core: the server.
        protocol: the client's.
        scope: ASGI's, of the request.
        prepared: the request.
        parsers: one for each choice.
    """

    def __init__(
        self, core: Core, protocol: Protocol, scope: Scope, prepared: Prepared, parsers: Sequence[Parser]
    ) -> None:
        self.id = protocol.id_prefix + new_id()
        self.outbox: Outbox | None = None
        """What waits for the client of a stream, once there is something to send."""
        self._core = core
        self._protocol = protocol
        self._path: str = scope["path"]
        theirs = client_id(scope)
        self._name = f"{self.id} ({theirs})" if theirs else self.id
        self._prepared = prepared
        job = prepared.job
        self._created = int(time.time())
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._writer: Writer | None = protocol.writer(job, self.id, self._created) if job.stream else None
        self._choices = [self._choice(parser) for parser in parsers]
        self._begun = False
        self._producing = False
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._abort: Failure | None = None
        self._work: asyncio.Task[None] | None = None

    @property
    def queued(self) -> int:
        """How many events wait for the client."""
        return 0 if self.outbox is None else self.outbox.events

    def abort(self, failure: Failure) -> None:
        """End the answer with an error, unless it is complete."""
        if self._producing and self._work is not None:
            self._abort = failure
            self._work.cancel()

    def keep_alive(self) -> None:
        """Say something while the engine says nothing, lest something on the way closes the connection."""
        if self.outbox is not None and self._writer is not None and not self.outbox.over:
            with contextlib.suppress(OSError):  # of a connection that is lost: whoever puts next is told again
                self.outbox.put(self._writer.KEEP_ALIVE, 0)

    async def respond(self, send: Send) -> None:
        """Answer the request; where the task that runs this is cancelled, the engine stops.

        Args:
            send: takes ASGI's messages.
        """
        self._work = asyncio.current_task()
        self._core.runs.add(self)
        try:
            await self._respond(send)
        except asyncio.CancelledError:
            log.info("%s: the client is gone; cancelled", self._name)
            raise
        finally:
            self._core.runs.discard(self)

    async def _respond(self, send: Send) -> None:
        outbox = Outbox(send, stream_start(self.id), self._core.settings.limits.queue)
        try:
            self.outbox = outbox if self._writer is not None else None
            failure = await self._produce()
            if self._writer is None or (failure is not None and not outbox.begun):
                await self._reply(failure).send(send)
                return
            self._core.metrics.response(self._path, "failed" if failure else 200)
            await outbox.end(self._writer.error(failure) if failure else self._last(self._writer))
        finally:
            await outbox.close()

    def _reply(self, failure: Failure | None) -> Reply:
        """The answer that is not streamed."""
        self._core.metrics.response(self._path, failure.status if failure else 200)
        if failure is not None:
            return failed(self._protocol, failure, self.id)
        return Reply(self._whole(), request_id=self.id)

    # -- producing -------------------------------------------------------------------------------------------------

    async def _produce(self) -> Failure | None:
        """Run the engine; returns what it failed with."""
        self._producing = True
        try:
            async with self._core.admission.places(len(self._choices)):
                if len(self._choices) == 1:
                    await self._generate(0)
                else:
                    await self._generate_all()
            return None
        except Overloaded as error:
            return Failure(str(error), 429, retry_after=error.retry_after)
        except EngineError as error:
            log.warning("%s: the engine failed: %s", self._name, error)
            return Failure(str(error), error.status, retry_after=error.retry_after)
        except asyncio.CancelledError:
            if self._abort is None or self._work is None:
                raise
            self._work.uncancel()
            return self._abort
        except Exception:
            log.exception("%s: the engine failed", self._name)
            return Failure("the engine failed", 500)
        finally:
            self._producing = False

    async def _generate_all(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for i in range(len(self._choices)):
                    group.create_task(self._generate(i))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _generate(self, index: int) -> None:
        choice, outbox = self._choices[index], self.outbox
        choice.begin()
        stream = self._core.engine.generate(self._prepared.request(self._core.settings, self.id, index))
        try:
            async for delta in stream:
                events = choice.feed(delta)
                if events or delta.logprobs or not self._begun:
                    self._emit(index, events, delta.logprobs)
                if outbox is not None and outbox.full:
                    await outbox.room()
                if choice.over:
                    break
                if choice.due is not None:
                    self._wake(index)
        except EngineError:
            held = choice.flush()
            if held:
                self._emit(index, held)
            raise
        finally:
            if index in self._timers:
                self._timers.pop(index).cancel()
            await stream.aclose()
        events = choice.close()
        if events:
            self._emit(index, events)
        if choice.uncounted and self._prepared.prompt is not None and self._core.engine.tokenizer is not None:
            prompt = self._prepared.prompt
            choice.counted(await self._core.apart(len(prompt), lambda _: self._count(prompt)))
        self._noted(choice.message())

    def _wake(self, index: int) -> None:
        """See to it that what the choice holds back goes on in time, should the engine say nothing more until then."""
        due = self._choices[index].due
        if due is not None and index not in self._timers:
            self._timers[index] = asyncio.get_running_loop().call_at(due, self._tick, index)

    def _tick(self, index: int) -> None:
        del self._timers[index]
        self._emit(index, self._choices[index].tick())
        self._wake(index)

    def _emit(self, index: int, events: Sequence[Event], logprobs: Sequence[Any] = ()) -> None:
        first = not self._begun
        if first:
            self._begun = True
            self._core.metrics.first_event(self._clock() - self._began)
        writer = self._writer
        if writer is None or self.outbox is None:
            self._choices[index].logprobs += logprobs
            return
        start = writer.start() if first else b""
        if logprobs and self._prepared.job.sampling.logprobs is not None:
            data = writer.events(index, events, logprobs)  # type: ignore[call-arg]  # only chat completions ask for them
        else:
            data = writer.events(index, events)
        if start or data:
            self.outbox.put(start + data, len(events))

    def _last(self, writer: Writer) -> bytes:
        """What ends the stream."""
        return self._protocol.finish(writer, self._usage(), self._choices[0].stop)

    def _whole(self) -> bytes:
        """The answer that is not streamed."""
        logprobs = self._prepared.job.sampling.logprobs is not None
        results = [c.result(events=self._protocol.keeps_events, logprobs=logprobs) for c in self._choices]
        return self._protocol.whole(self._prepared.job, self.id, self._created, results, self._usage())

    def _usage(self) -> Usage | None:
        usage = total([c.usage for c in self._choices])
        if usage is not None:
            self._core.metrics.usage(usage)
        return usage

    def _noted(self, message: Message) -> None:
        self._core.metrics.output(message)
        for notice in message.notices:
            log.warning("%s: %s at %d: %s", self._name, notice.kind, notice.start, notice.detail)

    def _count(self, prompt: str) -> int:
        """How many tokens the prompt has, by the engine's tokenizer."""
        encoded = self._core.engine.tokenizer.encode(prompt, add_special_tokens=False)
        return len(getattr(encoded, "ids", encoded))

    def _choice(self, parser: Parser) -> Choice:
        settings, job = self._core.settings, self._prepared.job
        return Choice(
            parser,
            job.stop,
            settings.coalescer() if job.stream else None,
            one_call=not job.parallel,
            keep=self._protocol.keeps_events and not job.stream,
            by_ids=self._core.engine.tokenizer is not None,
            timed=settings.profile == "mindie" and not job.stream,
        )


def total(usages: Sequence[Usage | None]) -> Usage | None:
    """The counts of all choices together: the prompt is the same one. Those of a single choice are not touched."""
    known = [u for u in usages if u is not None]
    if len(known) < 2:
        return known[0] if known else None
    reasoning = [u.reasoning_tokens for u in known if u.reasoning_tokens is not None]
    return msgspec.structs.replace(
        known[0],
        completion_tokens=sum(u.completion_tokens for u in known),
        total_tokens=None,
        reasoning_tokens=sum(reasoning) if reasoning else None,
    )


def new_id() -> str:
    """What follows the prefix of a response's id."""
    return uuid.uuid4().hex
