"""One request under way: an engine's outputs through parsers, and the answer on its way to the client."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from ..engines import Delta, EngineError, Request
from ..events import Event, Finish, Stage
from ..grammar import Constraint
from ..message import Message, fold
from ..parser import Parser
from ..wire.common import Failure, Usage, Writer
from .admission import Overloaded
from .core import Core, log
from .job import Job
from .outbox import Outbox
from .protocols import Protocol, Result
from .replies import Reply, failed, stream_start
from .stops import Stops

Send = Callable[[dict[str, Any]], Awaitable[None]]


class Prepared(msgspec.Struct, frozen=True):
    """A request that has been checked.

    Attributes:
        job: what it asks for.
        prompt: rendered, where there is a chat template.
        stage: where the output begins, where that is known without a prompt.
        constraint: what may be generated.
    """

    job: Job
    prompt: str | None = None
    stage: Stage | None = None
    constraint: Constraint | None = None


class Choice:
    """The reading side of one choice: its parser, its stop strings, and what is kept of it."""

    def __init__(self, parser: Parser, stop: Sequence[str], *, keep: bool) -> None:
        self._parser = parser
        self._stops = Stops(stop) if stop else None
        self._kept: list[Event] | None = [] if keep or stop else None
        self._reason: str | None = None
        self.usage: Usage | None = None
        self.logprobs: list[Any] = []

    @property
    def over(self) -> bool:
        """Whether a stop string ended it."""
        return self._stops is not None and self._stops.matched is not None

    @property
    def stop(self) -> str | None:
        """The stop string that ended it, if one did."""
        return None if self._stops is None else self._stops.matched

    def feed(self, delta: Delta) -> list[Event]:
        """The events of the engine's next piece."""
        if delta.finish_reason is not None:
            self._reason = delta.finish_reason
        if delta.usage is not None:
            self.usage = delta.usage
        return self._passed(self._parser.feed(delta.text, delta.stage))

    def close(self) -> list[Event]:
        """The last events."""
        return self._passed(self._parser.close(self._reason))

    def _passed(self, events: list[Event]) -> list[Event]:
        if self._stops is not None:
            events = self._stops.feed(events)
        if self._kept is not None:
            self._kept += events
        return events

    def result(self, *, events: bool, logprobs: bool) -> Result:
        """The choice, complete."""
        kept = (self._kept or ()) if events else ()
        return Result(self.message(), kept, self.logprobs if logprobs else (), self.stop)

    def message(self) -> Message:
        """The choice as a message."""
        if self._kept is None:
            return self._parser.message
        message = fold(self._kept)
        if not self._kept or not isinstance(self._kept[-1], Finish):
            message.finish_reason = self._parser.message.finish_reason
        return message


class Run:
    """Answers one request.

    Args:
        core: the server.
        protocol: the client's.
        path: the request's, for the counts.
        prepared: the request.
    """

    def __init__(self, core: Core, protocol: Protocol, path: str, prepared: Prepared) -> None:
        self.id = protocol.id_prefix + new_id()
        self.sending_since: float | None = None
        """Since when, by the loop's clock, the client has not taken what it was sent."""
        self._core = core
        self._protocol = protocol
        self._path = path
        self._prepared = prepared
        job = prepared.job
        self._created = int(time.time())
        self._began = time.monotonic()
        self._outbox = Outbox(core.settings.limits.queue)
        self._writer: Writer | None = protocol.writer(job, self.id, self._created) if job.stream else None
        keep = protocol.keeps_events and not job.stream
        self._choices = [Choice(self._parser(), job.stop, keep=keep) for _ in range(job.n)]
        self._begun = False
        self._abort: Failure | None = None
        self._retry_after: int | None = None
        self._producer: asyncio.Task[None] | None = None
        self._work: asyncio.Task[None] | None = None

    @property
    def queued(self) -> int:
        """How many events wait for the client."""
        return self._outbox.events

    def abort(self, failure: Failure) -> None:
        """End the answer with an error."""
        self._abort = failure
        if self._producer is not None:
            self._producer.cancel()

    def give_up(self) -> None:
        """End without an answer: nobody reads it."""
        if self._work is not None:
            self._work.cancel()

    async def answer(self, gone: Awaitable[None], send: Send) -> None:
        """Answer the request, unless the client goes away: then the engine stops.

        Args:
            gone: completes when the client is gone.
            send: takes ASGI's messages.
        """
        self._core.runs.add(self)
        self._work = asyncio.ensure_future(self._respond(send))
        watch = asyncio.ensure_future(gone)
        try:
            await asyncio.wait({self._work, watch}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._core.runs.discard(self)
            self._work.cancel()
            watch.cancel()
            ended, _ = await asyncio.gather(self._work, watch, return_exceptions=True)
        if isinstance(ended, asyncio.CancelledError):
            log.info("%s: the client is gone; cancelled", self.id)
            self._core.metrics.response(self._path, "cancelled")
        elif ended is not None:
            raise ended

    # -- sending ---------------------------------------------------------------------------------------------------

    async def _respond(self, send: Send) -> None:
        self._producer = asyncio.ensure_future(self._produce())
        loop = asyncio.get_running_loop()
        try:
            data = await self._outbox.take()
            failure = self._outbox.failure
            if failure is not None and not data:
                self._core.metrics.response(self._path, failure.status)
                await failed(self._protocol, failure, self.id, self._retry_after).send(send)
                return
            if self._writer is None:
                self._core.metrics.response(self._path, 200)
                await Reply(data, request_id=self.id).send(send)
                return
            await send(stream_start(self.id))
            while data:
                self.sending_since = loop.time()
                await send({"type": "http.response.body", "body": data, "more_body": True})
                self.sending_since = None
                data = await self._outbox.take()
            await send({"type": "http.response.body", "body": b""})
            self._core.metrics.response(self._path, "failed" if self._outbox.failure else 200)
        finally:
            self._producer.cancel()
            await asyncio.gather(self._producer, return_exceptions=True)

    # -- producing -------------------------------------------------------------------------------------------------

    async def _produce(self) -> None:
        """Run the engine, and end the outbox however that goes."""
        try:
            async with self._core.admission.places(len(self._choices)):
                await self._generate()
            self._outbox.end(self._last())
            return
        except Overloaded as error:
            self._retry_after = error.retry_after
            failure = Failure(str(error), 429)
        except EngineError as error:
            log.warning("%s: the engine failed: %s", self.id, error)
            failure = Failure(str(error), error.status)
        except asyncio.CancelledError:
            if self._abort is None:
                raise
            failure = self._abort
        except Exception:
            log.exception("%s: the engine failed", self.id)
            failure = Failure("the engine failed", 500)
        self._fail(failure)

    def _fail(self, failure: Failure) -> None:
        self._outbox.failure = failure
        self._outbox.end(self._writer.error(failure) if self._begun and self._writer is not None else b"")

    async def _generate(self) -> None:
        if len(self._choices) == 1:
            await self._choice(0)
            return
        try:
            async with asyncio.TaskGroup() as group:
                for i in range(len(self._choices)):
                    group.create_task(self._choice(i))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _choice(self, index: int) -> None:
        choice = self._choices[index]
        stream = self._core.engine.generate(self._request(index))
        try:
            async for delta in stream:
                events = choice.feed(delta)
                if events or delta.logprobs or not self._begun:
                    await self._emit(index, events, delta.logprobs)
                if choice.over:
                    break
        finally:
            await stream.aclose()
        events = choice.close()
        if events:
            await self._emit(index, events)
        self._noted(choice.message())

    async def _emit(self, index: int, events: list[Event], logprobs: Sequence[Any] = ()) -> None:
        first = not self._begun
        if first:
            self._begun = True
            self._core.metrics.first_event(time.monotonic() - self._began)
        writer = self._writer
        if writer is None:
            self._choices[index].logprobs += logprobs
            return
        start = writer.start() if first else b""
        if logprobs and self._prepared.job.sampling.logprobs is not None:
            data = writer.events(index, events, logprobs)  # type: ignore[call-arg]  # only chat completions ask for them
        else:
            data = writer.events(index, events)
        await self._outbox.put(start + data, len(events))

    def _last(self) -> bytes:
        """What ends the answer: the stream's end, or the whole of it."""
        usage = total([c.usage for c in self._choices])
        if usage is not None:
            self._core.metrics.usage(usage)
        if self._writer is not None:
            return self._protocol.finish(self._writer, usage, self._choices[0].stop)
        logprobs = self._prepared.job.sampling.logprobs is not None
        results = [c.result(events=self._protocol.keeps_events, logprobs=logprobs) for c in self._choices]
        return self._protocol.whole(self._prepared.job, self.id, self._created, results, usage)

    def _noted(self, message: Message) -> None:
        self._core.metrics.output(message)
        for notice in message.notices:
            log.warning("%s: %s at %d: %s", self.id, notice.kind, notice.start, notice.detail)

    def _parser(self) -> Parser:
        settings, prepared = self._core.settings, self._prepared
        return Parser(
            settings.dialect,
            tools=prepared.job.tools,
            tool_choice=prepared.job.tool_choice,
            stage=prepared.stage,
            prompt=prepared.prompt,
            policy=settings.policy,
        )

    def _request(self, index: int) -> Request:
        prepared, job = self._prepared, self._prepared.job
        sampling = job.sampling
        if index and sampling.seed is not None:  # choices with one seed would be the same
            sampling = msgspec.structs.replace(sampling, seed=sampling.seed + index)
        return Request(
            id=self.id,
            model=self._core.settings.model,
            prompt=prepared.prompt,
            messages=job.messages,
            tools=job.tools,
            tool_choice=job.tool_choice,
            stage=prepared.stage,
            choice=index,
            sampling=sampling,
            max_tokens=job.max_tokens,
            constraint=prepared.constraint,
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
