"""`Service`: the engine, the places, the counts and the threads that all requests of a server share."""

import asyncio
import hmac
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from ..engines import Engine
from ..engines.base import engine_name
from ..engines.threads import Awaited, Threads, TooLong
from ..request.chat_request import ChatRequest
from ..request.continuation import Turns
from ..request.parts.reading import urls
from ..request.prepared import Constraints
from ..request.prompts import Prompts
from ..request.settings import Settings
from ..store import Store
from ..tools import Tools
from ..wire.common import Failure
from .admission import Admission, Overloaded
from .metrics import Metrics, added

if TYPE_CHECKING:
    from ..sessions import Sessions
    from .telemetry import Telemetry

log = logging.getLogger("unspool.server")
_T = TypeVar("_T")
_LONG: Final = 256 * 1024
"""The size in bytes from which a request gets its own thread, so that it does not delay short ones."""
_PATIENCE: Final = 1.0
"""The seconds after which work that keeps other work waiting begins again in a thread for such work."""


class Answer(Protocol):
    """The interface of a running answer."""

    @property
    def queued(self) -> int:
        """The number of events that wait for the client."""

    def abort(self, failure: Failure) -> None:
        """End with an error."""


async def watch(watched: Collection[Any], seconds: float) -> None:
    """Call ``look`` of each running answer, or connection, at regular times, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(seconds)
        now = loop.time()
        for one in list(watched):
            one.look(now)


class _Lanes:
    """Threads for one kind of work, so that neither large nor slow work delays the rest. There are as many for slow
    work as for the rest: where all work is slow, it takes hardly longer than without these."""

    def __init__(self, count: int, name: str) -> None:
        self._plain, self._slow = Threads(count, name), Threads(count, f"slow-{name}")
        self._long = Threads(1, f"long-{name}")

    async def run(self, size: int, work: Callable[[Awaited], _T]) -> _T:
        if size >= _LONG:
            return await self._long.run(work)
        try:
            return await self._plain.run(work, _PATIENCE)
        except TooLong:
            pass  # outside of this, so that what fails now does not seem to be its consequence
        return await self._slow.run(work)

    def close(self) -> None:
        for threads in (self._plain, self._slow, self._long):
            threads.close()


class Service:
    """Shared by all requests of a server."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        prompts: Prompts | None = None,
        tools: Tools | None = None,
        store: Store | None = None,
        telemetry: "Telemetry | None" = None,
    ) -> None:
        self.settings = settings
        # Keeps what outlives a request; by default in memory.
        self.store = store or Store(size=settings.limits.stored, days=settings.limits.days)
        self.telemetry = telemetry
        self.tools = tools or Tools(())
        # The secret for approvals of calls.
        self.approval_key = settings.approval_key or hmac.digest(self.store.secret, b"approvals", "sha256")
        self.engine = engine
        self.prompts = prompts  # the model's chat template; without it, the engine gets messages instead of a prompt
        name = partial(engine_name, engine)  # the kind of a server is detected later
        # The turns that prompts may continue; ``None`` without a chat template.
        self.turns = None if prompts is None else Turns(settings, prompts, engine.tokenizer, name, self.store.secret)
        self.admission = Admission(settings.limits.generations, settings.limits.waiting)
        self.constraints = Constraints(settings)
        self.metrics = Metrics(settings.dialect.name)
        self.runs: set[Answer] = set()
        self.held = 0  # bytes of the requests that are being read and answered
        self.draining = False  # whether the server is shutting down
        # The services of all models of the server, including this one, with the default first.
        self.models: tuple[Service, ...] = (self,)
        self.sessions: Sessions | None = None  # the runs of agents that are recorded; ``None`` if none are
        self._threads = _Lanes(4, "requests")  # they mostly wait for templates
        self._asides = _Lanes(1, "texts")

    async def in_thread(self, size: int, work: Callable[[Awaited], _T]) -> _T:
        """Do slow work in a thread; see `Threads.run`. Large requests, by their bytes, get their own thread, and so do
        those that turn out to be slow while others wait: the work begins again there."""
        return await self._threads.run(size, work)

    async def aside(self, size: int, work: Callable[[Awaited], _T]) -> _T:
        """The same in other threads, for requests that generate nothing, so that they delay no answer."""
        return await self._asides.run(size, work)

    @contextmanager
    def holding(self) -> Iterator[Callable[[int], None]]:
        """Count the bytes of one request for the duration of the context. Call the function that it returns with the
        size of each part; `Overloaded` if all requests together are too large."""
        size = 0

        def hold(more: int) -> None:
            nonlocal size
            size += more
            self.held += more
            if self.held > self.settings.limits.held:
                raise Overloaded(1)

        try:
            yield hold
        finally:
            self.held -= size

    @contextmanager
    def running(self, run: Answer) -> Iterator[None]:
        """Count an answer as running for the duration of the context."""
        self.runs.add(run)
        try:
            yield
        finally:
            self.runs.discard(run)

    async def fetched(self, request: ChatRequest) -> dict[str, bytes]:
        """The bytes of a request's parts by URL; `BadRequest` if there are too many, or one cannot be fetched."""
        parts = urls(request, self.settings.limits)
        if not parts:
            return {}
        from ..request.parts.fetching import fetch_parts

        return await fetch_parts(parts, self.settings.media_hosts, self.settings.limits)

    def traced(self, scope: Mapping[str, Any]) -> AbstractContextManager[None]:
        """A context in which a request is answered, for `telemetry`."""
        return nullcontext() if self.telemetry is None else self.telemetry.request(scope)

    def answered(self, path: str, status: int | str) -> None:
        """Count an answered request; see `Metrics.response`."""
        self.metrics.response(path, status)
        if self.telemetry is not None:
            self.telemetry.answered(status)

    def close(self) -> None:
        self._threads.close()
        self._asides.close()

    def gauges(self) -> dict[str, tuple[str, int]]:
        return {
            "open_streams": ("Responses that are being written.", len(self.runs)),
            "generations": ("Outputs that are being generated.", self.admission.running),
            "waiting": ("Outputs that wait for their turn.", self.admission.waiting),
            "held_bytes": ("Bytes of the requests that are being answered.", self.held),
            "queued_events": ("Events that wait for clients.", sum(run.queued for run in self.runs)),
        }

    def counts(self) -> str:
        """The counts of all models, for Prometheus."""
        return added(one.metrics.text(one.gauges()) for one in self.models)

    def abort(self, failure: Failure) -> None:
        """End the running answers with an error of their protocol."""
        for run in list(self.runs):
            run.abort(failure)
