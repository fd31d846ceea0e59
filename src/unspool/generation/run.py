"""`Run`: answers one request, from the engine's outputs, through parsers, to the bytes of the answer.

If the server runs tools for the request, each output is generated in rounds; see `unspool.generation.loop`.
"""

import asyncio
import contextlib
import math
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..engines import Delta, EngineError, Request, check_media
from ..engines.capture import asked_of
from ..events import Event
from ..parser import Parser
from ..request.continuation import Continued, Written
from ..request.exact import RememberedTurn
from ..request.fields import BadRequest
from ..request.prepared import Prepared, Reader
from ..request.protocols import WireProtocol
from ..store import StoreError
from ..tokens import counted
from ..tools import Tools
from ..wire import TraceWriter
from ..wire.common import Failure, Usage, Writer
from ..wire.server_tools import AnyEvent
from .admission import Overloaded
from .choice import ChoiceReader
from .loop import Loop
from .outbox import Outbox, Sink
from .service import Service, log
from .tracing import Trace, named

if TYPE_CHECKING:
    from ..sessions import GenerationRecording, Session

_Stream = AsyncGenerator[Delta, None]
_TOKEN: Final = 1024  # how many characters a token may stand for: runs of white space are the longest
_TURN: Final = 0.005  # seconds after which an output gives others a turn: an engine may have thousands of pieces ready
_LOOK: Final = 16  # after how many pieces it looks at the clock


class Deposit:
    """Where an answer goes before its client gets the end of it. This one keeps nothing. ``turn`` is the stored turn
    that the request continues, ``size`` the bytes that were stored of the conversation."""

    turn: RememberedTurn | None = None
    size = 0

    async def keep(self, id: str, writer: Writer, last: tuple[Continued, Written] | None) -> None:
        """Keep an answer, with its last round and that round's prompt; `StoreError` if it cannot be kept."""


class Run:
    """Answers one request, with the client's own id for it (or ``""``), the tool servers that it may use, and the
    session that records it, if it belongs to one."""

    def __init__(
        self,
        service: Service,
        protocol: WireProtocol,
        prepared: Prepared,
        client_id: str,
        tools: Tools,
        deposit: Deposit,
        session: "Session | None",
    ) -> None:
        self._session = session
        self.id = protocol.id_prefix + uuid.uuid4().hex
        self._service = service
        self._protocol = protocol
        self._client_id = client_id
        self.deposit = deposit
        self._last: tuple[Continued, Written] | None = None
        self.body = b""  # the whole answer, once it is generated, if it is not `streamed`
        self._name = f"{self.id} ({client_id})" if client_id else self.id
        self._prepared = prepared
        self._request = prepared.request
        self._clock = asyncio.get_running_loop().time
        self._started = self._clock()
        self.streamed = self._request.stream
        self.writer: Writer = protocol.writer(self._request, self.id, int(time.time()))
        self._choices = [self._choice(parser) for parser in prepared.parsers]
        self._trace: Trace | None = None
        reader = self._choices[0].reader
        if isinstance(self.writer, TraceWriter) and isinstance(reader, Parser):
            self._trace = Trace(reader)
        self._loops: list[Loop] = []
        if prepared.request.server_tools is not None:
            keep = not prepared.request.stream
            self._loops = [
                Loop(self._name, service, prepared, tools.session, protocol, keep=keep) for _ in self._choices
            ]
        self._usages: list[list[Usage | None]] = [[] for _ in self._choices]  # of the rounds before the last
        self._left = service.settings.limits.output  # characters of all outputs
        self._outbox: Outbox | None = None
        self._begun = False
        self._producing = False
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._abort: Failure | None = None
        self._work: asyncio.Task[Any] | None = None

    @property
    def queued(self) -> int:
        """The number of events that wait for the client."""
        return 0 if self._outbox is None else self._outbox.events

    def abort(self, failure: Failure) -> None:
        """End the answer with an error, unless it is complete."""
        if self._producing and self._work is not None:
            self._abort = failure
            self._work.cancel()

    def look(self, now: float) -> None:
        """Send a keep-alive if a stream has been silent for too long."""
        outbox = self._outbox
        if outbox is None or not outbox.begun or outbox.over or outbox.stalled_since is not None:
            return
        if now - outbox.sent_at > self._service.settings.limits.silence:
            with contextlib.suppress(OSError):  # the connection is lost; the next `put` raises it again
                outbox.put(self.writer.KEEP_ALIVE, 0)

    async def generate(self, sink: Sink | None = None) -> Failure | None:
        """Generate the answer, and return the engine's failure, if any; a stream that has begun ends with it. Without a
        sink, the answer is not streamed, and `body` has it. Cancelling the task stops the engine."""
        self._work = asyncio.current_task()
        if self._service.telemetry is not None:
            self._service.telemetry.accepted(self.id, self._request)
        try:
            if sink is None:
                failure = await self._produce()
                if failure is None:
                    self.body = self._whole()
                    failure = await self.keep()
                return failure
            return await self._stream(sink)
        except asyncio.CancelledError:
            log.info("%s: cancelled: nobody waits for it any more", self._name)
            raise
        finally:
            self._work = None  # break the reference cycle through the task's exception

    def _whole(self) -> bytes:
        choices, protocol = self._choices, self._protocol
        logprobs = [c.logprobs for c in choices] if self._request.sampling.logprobs is not None else []
        events: list[Sequence[AnyEvent]] = [c.kept for c in choices] if protocol.keeps_events else []
        if self._loops:
            events = [loop.kept or () for loop in self._loops]
        return self.writer.whole(
            [loop.message() for loop in self._loops] or [c.message() for c in choices],
            self._usage(),
            logprobs=logprobs if any(logprobs) else (),
            events=events,
            stop_sequence=choices[0].stop,
        )

    async def _stream(self, sink: Sink) -> Failure | None:
        outbox = self._outbox = Outbox(sink, self._service.settings.limits.queue)
        try:
            failure = await self._produce()
            if failure is None:
                end = self.writer.finish(self._usage(), self._choices[0].stop)
                failure = await self.keep()
                if failure is None:
                    await outbox.end(end)
                    return None
            if outbox.begun:
                await outbox.end(self.writer.error(failure))
            return failure
        finally:
            await outbox.close()

    async def keep(self) -> Failure | None:
        """Keep the answer as it is now; return why that failed."""
        if self._session is not None:
            await self._session.settled()
        try:
            await self.deposit.keep(self.id, self.writer, self._last)
        except (StoreError, BadRequest) as error:  # such as of a conversation that was deleted meanwhile
            log.warning("%s: the response could not be stored: %s", self._name, error)
            return Failure(f"the response could not be stored: {error}", error.status or 400)
        return None

    # -- producing -------------------------------------------------------------------------------------------------

    async def _produce(self) -> Failure | None:
        """Run the engine, and return its error if it fails."""
        self._producing = True
        try:
            if self._loops:  # each round takes its own place
                await self._all(
                    [loop.run(partial(self._round, i), partial(self._send, i)) for i, loop in enumerate(self._loops)]
                )
                return None
            async with self._service.admission.places(len(self._choices)):
                await self._all([self._generate(i, self._prepared) for i in range(len(self._choices))])
            return None
        except Overloaded as error:
            return Failure(str(error), 429, retry_after=error.retry_after)
        except BadRequest as error:
            log.warning("%s: the next round could not start: %s", self._name, error)
            return Failure(str(error), error.status or 400, error.param)
        except EngineError as error:
            if error.refused:
                log.info("%s: the request is refused: %s", self._name, error)
            else:
                log.warning("%s: the engine failed: %s", self._name, error)
            text, param = self._request.spelled(str(error)), self._request.spelled(error.param or "") or None
            return Failure(text, error.status, param, code=error.code, retry_after=error.retry_after)
        except asyncio.CancelledError:
            if self._abort is None or self._work is None:
                raise
            self._work.uncancel()
            return self._abort
        except Exception:  # an engine may fail in any way; the client gets an error, and the log the details
            log.exception("%s: the engine failed", self._name)
            return Failure("the engine failed", 500)
        finally:
            self._producing = False

    async def _all(self, outputs: Sequence[Coroutine[Any, Any, object]]) -> None:
        """Generate outputs together. The first error ends all of them."""
        if len(outputs) == 1:
            await outputs[0]
            return
        tasks = [asyncio.ensure_future(output) for output in outputs]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            del tasks, task  # their error holds this frame, which would hold them, and with them all of the request

    async def _round(self, index: int, prepared: Prepared) -> Written:
        """Generate one round of a choice; see `Loop`."""
        if prepared is not self._prepared:
            last = self._choices[index]
            self._usages[index].append(last.usage)
            self._choices[index] = self._choice(prepared.parsers[0])
            self._choices[index].logprobs = last.logprobs
        async with self._service.admission.places(1, begun=self._begun):
            return await self._generate(index, prepared)

    async def _send(self, index: int, events: Sequence[AnyEvent]) -> None:
        """Pass on a loop's events."""
        if events:
            self._write(index, events)
        if self._outbox is not None and self._outbox.full:
            await self._outbox.room()

    async def _generate(self, index: int, prepared: Prepared) -> Written:
        """Generate one output, pass its events on, and count it."""
        choice = self._choices[index]
        choice.begin()
        recorded = self._session is not None
        asked = prepared.for_engine(self._service.settings, self.id, index, self._client_id, capture=recorded)
        if isinstance(self.writer, TraceWriter):
            self.writer.asked = self._request_line(asked)
        check_media(self._service.engine, asked)
        telemetry = self._service.telemetry
        if telemetry is None:
            return await self._output(index, prepared, asked)
        session = None if self._session is None else self._session.about.id
        with telemetry.output(asked, prepared.request, choice, self._service.engine, session) as span:
            asked = msgspec.structs.replace(asked, trace=span.headers)
            written = await self._output(index, prepared, asked, span.watched)
            span.end(written.message)
        return written

    async def _output(
        self, index: int, prepared: Prepared, asked: Request, watched: Callable[[_Stream], _Stream] = lambda s: s
    ) -> Written:
        service, choice = self._service, self._choices[index]
        recording: GenerationRecording | None = None
        if self._session is not None and service.sessions is not None:
            recording = self._session.recording(service, prepared, asked, await service.sessions.examine(service))
            asked = await recording.begin(getattr(service.engine, "context", None))
        most = None if asked.echo else asked.max_tokens or None
        try:
            await self._pass_on(index, watched(service.engine.generate(asked)), most, recording)
            self._deliver(index, choice.close())
            if choice.uncounted and asked.prompt is not None:
                await self._count(choice, asked.prompt)
            written = choice.written()
            self._last = None if prepared.continued is None else (prepared.continued, written)
            service.metrics.output(written.message)
            for notice in written.message.notices:
                log.warning("%s: %s at %d: %s", self._name, notice.kind, notice.start, notice.detail)
            if recording is not None:
                written = await recording.done(written, choice.stop)
        except BaseException as error:
            if recording is not None:
                recording.broken(choice.written(), "error" if isinstance(error, EngineError) else "abort")
            raise
        if prepared.turns is not None and prepared.continued is not None and not self._loops:
            prepared.turns.remember(prepared.continued, written)
        return written

    async def _count(self, choice: ChoiceReader, prompt: str | Sequence[int]) -> None:
        """Count the tokens of a prompt that the engine did not count."""
        tokenizer = self._service.engine.tokenizer
        if not isinstance(prompt, str):
            choice.counted(len(prompt))
        elif tokenizer is not None:
            found = await self._service.in_thread(len(prompt), lambda waited: counted(tokenizer, prompt, waited.check))
            choice.counted(found)

    async def _pass_on(
        self, index: int, stream: _Stream, tokens: int | None, recording: "GenerationRecording | None"
    ) -> None:
        """Read the engine's output, of at most this many tokens, until it ends, or until the choice ends earlier."""
        choice, outbox = self._choices[index], self._outbox
        passed, since = 0, time.monotonic()
        left = math.inf if tokens is None else tokens * _TOKEN
        try:
            async for delta in stream:
                passed += 1
                if recording is not None:
                    recording.take(delta)
                if not passed % _LOOK and time.monotonic() - since > _TURN:
                    await asyncio.sleep(0)
                    since = time.monotonic()
                size = _size(delta)
                self._left -= size
                left -= size
                if self._left < 0 or left < 0:
                    log.warning("%s: the engine sends more than it may; the answer ends", self._name)
                    self._deliver(index, choice.feed(Delta(finish_reason="length")))
                    break
                self._deliver(index, choice.feed(delta), delta)
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

    def _deliver(self, index: int, events: list[Event], delta: Delta | None = None) -> None:
        """Pass on the events of a piece of the output, or of its end."""
        if self._trace is not None:
            self._trace_step(self._trace, events, delta)
        elif delta is None:
            if events:
                self._emit(index, events)
        elif events or delta.logprobs or not self._begun or delta.finish_reason is None:
            self._emit(index, events, delta.logprobs)

    def _wake(self, index: int) -> None:
        """Set a timer for the events that the choice holds back, in case the engine sends nothing until then."""
        due = self._choices[index].due
        if due is not None and index not in self._timers:
            self._timers[index] = asyncio.get_running_loop().call_at(due, self._tick, index)

    def _tick(self, index: int) -> None:
        del self._timers[index]
        self._emit(index, self._choices[index].tick())
        self._wake(index)

    def _emit(self, index: int, events: Sequence[Event], logprobs: Sequence[Any] = ()) -> None:
        """Pass on a parser's events."""
        self._write(index, self._loops[index].translate(events) if self._loops else events, logprobs)

    def _write(self, index: int, events: Sequence[AnyEvent], logprobs: Sequence[Any] = ()) -> None:
        if self._loops:
            kept = self._loops[index].kept
            if kept is not None:
                kept += events
        start = b"" if self._begun else self._begin()
        outbox = self._outbox
        if outbox is None:
            self._choices[index].logprobs += logprobs
            return
        if logprobs and self._request.sampling.logprobs is not None:
            data = self.writer.events(index, events, logprobs)
        else:
            data = self.writer.events(index, events)
        if start or data:
            outbox.put(start + data, len(events))

    def _begin(self) -> bytes:
        """The beginning of a stream, at the first piece of the answer, whose time is counted."""
        self._begun = True
        self._service.metrics.first_event(self._clock() - self._started)
        return b"" if self._outbox is None else self.writer.start()

    def _trace_step(self, trace: Trace, events: list[Event], delta: Delta | None) -> None:
        """Write a piece of the output, or its end, with its events."""
        outbox, tracer = self._outbox, self.writer
        assert outbox is not None
        assert isinstance(tracer, TraceWriter)
        at = self._clock() - self._started
        step = trace.step("" if delta is None else delta.text, events)
        data = tracer.last(at, step) if delta is None else tracer.piece(at, delta, step)
        outbox.put((b"" if self._begun else self._begin()) + data, max(len(events), 1))

    def _request_line(self, asked: Request) -> dict[str, Any]:
        """The first line of a trace: that of a recording, with further details for the explain page."""
        service = self._service
        settings = service.settings
        line = asked_of(asked, *named(settings.dialect), policy=settings.policy)
        special = () if service.prompts is None else service.prompts.tokenizer.added
        for medium, placed in zip(asked.media, line.get("media", ()), strict=True):
            placed["url"] = medium.url
        return {**line, "special": special, "constrained": asked.constraint is not None}

    def _usage(self) -> Usage | None:
        usages = [_added([*before, c.usage]) for before, c in zip(self._usages, self._choices, strict=True)]
        each = len(usages) // self._request.prompt_count
        usage = _added([_added(usages[at : at + each], True) for at in range(0, len(usages), each)])
        if usage is not None:
            if self._request.max_tokens == 0:  # engines generate a token all the same, which nobody gets
                usage = msgspec.structs.replace(usage, completion_tokens=0, reasoning_tokens=None, total_tokens=None)
            self._service.metrics.usage(usage)
        return usage

    def _choice(self, parser: Reader) -> ChoiceReader:
        settings, request = self._service.settings, self._request
        return ChoiceReader(
            parser,
            request.stop,
            settings.coalescer() if request.stream else None,
            one_call=not request.parallel,
            keep=self._protocol.keeps_events and not request.stream,
            by_ids=self._service.engine.tokenizer is not None and not self._protocol.raw,
            timed=settings.profile == "mindie" and not request.stream,
        )


def _size(delta: Delta) -> int:
    """About how many characters a piece holds, with its tokens and what is reported about them."""
    size = max(len(delta.text), len(delta.token_ids))
    for entry in delta.logprobs:
        for one in (entry, *entry.get("top_logprobs", ())):
            size += len(one.get("token", "")) + len(one.get("bytes") or ())
    return size


def _added(usages: Sequence[Usage | None], one_prompt: bool = False) -> Usage | None:
    """The sum of counts, such as those of rounds, or those of choices, which share ``one_prompt``. A single one is
    unchanged."""
    known = [u for u in usages if u is not None]
    if len(known) < 2:
        return known[0] if known else None
    names = ("completion_tokens", "reasoning_tokens")
    sums: dict[str, Any] = {}
    for name in names if one_prompt else (*names, "prompt_tokens", "cached_tokens"):
        if counts := [count for u in known if (count := getattr(u, name)) is not None]:
            sums[name] = sum(counts)
    return msgspec.structs.replace(known[0], total_tokens=None, **sums) if one_prompt else Usage(**sums)
