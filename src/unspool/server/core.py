"""What all requests of a server share."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from ..engines import Engine
from ..engines.threads import Awaited, Threads
from ..wire.common import Failure
from .admission import Admission, Overloaded
from .metrics import Metrics
from .prepared import Constraints
from .settings import Settings

if TYPE_CHECKING:
    from .prompts import Prompts
    from .run import Run

log = logging.getLogger("unspool.server")
_T = TypeVar("_T")
_PATROL = 1.0  # seconds between two looks at the clients
_LONG: Final = 256 * 1024
"""Bytes of a request from which on its reading has a thread of its own, so that it holds up no short one."""


class Core:
    """Settings, engine, places, counts, and the requests that are being answered.

    Args:
        settings: what holds.
        engine: what generates.
        prompts: the model's chat template; without it the engine gets the messages alone.
    """

    def __init__(self, settings: Settings, engine: Engine, prompts: "Prompts | None" = None) -> None:
        self.settings = settings
        self.engine = engine
        self.prompts = prompts
        self.admission = Admission(settings.limits.generations, settings.limits.waiting)
        self.constraints = Constraints(settings)
        self.metrics = Metrics(settings.dialect.name)
        self.runs: set[Run] = set()
        self.held = 0
        """Bytes of the requests that are being read and answered."""
        self.draining = False
        self._short = Threads(2, "requests")
        self._long = Threads(1, "long-requests")

    async def apart(self, size: int, work: Callable[[Awaited], _T]) -> _T:
        """Do what takes a while in a thread; see `Threads.run`.

        Args:
            size: bytes of the request.
            work: does it.
        """
        return await (self._short if size < _LONG else self._long).run(work)

    @contextmanager
    def holding(self) -> "Iterator[Callable[[int], None]]":
        """Account for the bytes of one request, as long as the block lasts: each part is told as it comes.

        Raises:
            Overloaded: all requests together are too large.
        """
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

    def close(self) -> None:
        """Let go of the threads."""
        self._short.close()
        self._long.close()

    def gauges(self) -> dict[str, tuple[str, int]]:
        """What `Metrics.text` tells of this moment."""
        return {
            "open_streams": ("Responses that are being written.", len(self.runs)),
            "generations": ("Outputs that are being generated.", self.admission.running),
            "waiting": ("Outputs that wait for their turn.", self.admission.waiting),
            "held_bytes": ("Bytes of the requests that are being answered.", self.held),
            "queued_events": ("Events that wait for clients.", sum(run.queued for run in self.runs)),
        }

    async def patrol(self) -> None:
        """Keep silent streams alive; runs until it is cancelled."""
        while True:
            await asyncio.sleep(_PATROL)
            now = asyncio.get_running_loop().time()
            for run in list(self.runs):
                outbox = run.outbox
                if outbox is None or not outbox.begun or outbox.stalled_since is not None:
                    continue
                if now - outbox.sent_at > self.settings.limits.silence:
                    run.keep_alive()

    def abort(self, failure: Failure) -> None:
        """End what runs with an error of its protocol."""
        for run in list(self.runs):
            run.abort(failure)
