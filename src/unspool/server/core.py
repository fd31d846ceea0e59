"""What all requests of a server share."""

import asyncio
import logging
from typing import TYPE_CHECKING

from ..engines import Engine
from ..wire.common import Failure
from .admission import Admission
from .metrics import Metrics
from .settings import Settings

if TYPE_CHECKING:
    from .prompts import Prompts
    from .run import Run

log = logging.getLogger("unspool.server")
_PATROL = 1.0  # seconds between two looks at the clients


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
        self.metrics = Metrics(settings.dialect.name)
        self.runs: set[Run] = set()
        self.draining = False

    def gauges(self) -> dict[str, tuple[str, int]]:
        """What `Metrics.text` tells of this moment."""
        return {
            "open_streams": ("Responses that are being written.", len(self.runs)),
            "generations": ("Outputs that are being generated.", self.admission.running),
            "waiting": ("Outputs that wait for their turn.", self.admission.waiting),
            "queued_events": ("Events that wait for clients.", sum(run.queued for run in self.runs)),
        }

    async def patrol(self) -> None:
        """Give up clients that read nothing for too long, keep silent streams alive; runs until it is cancelled."""
        stall = self.settings.limits.stall
        while True:
            await asyncio.sleep(_PATROL)
            now = asyncio.get_running_loop().time()
            for run in list(self.runs):
                outbox = run.outbox
                if outbox is None or not outbox.begun:
                    continue
                if outbox.stalled_since is None:
                    if now - outbox.sent_at > self.settings.limits.silence:
                        run.keep_alive()
                elif now - outbox.stalled_since > stall:
                    log.warning("%s: the client read nothing for %g s; it is given up", run.id, stall)
                    run.give_up()

    async def drain(self, seconds: float) -> None:
        """Take no new requests; what runs has so long to end, then it is ended with an error of its protocol."""
        self.draining = True
        if self.runs:
            log.info("draining: %d responses have %g s to end", len(self.runs), seconds)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self.runs and loop.time() < deadline:
            await asyncio.sleep(0.05)
        for run in list(self.runs):
            run.abort(Failure("the server is shutting down", 503))
