"""An output of `unspool.engines.batching` in progress, between the thread that computes it and its consumer."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from ..grammar import Matcher
from ..tokens import Detokenizer
from .base import Delta, EngineError
from .budget import Budget
from .sampling import Sampler

__all__ = ["Output", "wake"]


class Output(msgspec.Struct, kw_only=True, eq=False):
    """One running output.

    Attributes:
        limit: the largest number of tokens.
        logprobs: see `Sampling`.
        explain: see `Request`.
        budget: the budget of reasoning; ``None`` if there is none.
        loop: the consumer's event loop.
        state, token, count: the model's state, the last token, and the number of tokens; only the model's thread uses
            them.
        pieces: the pieces that were not pulled yet; the last may be an error.
        waiter: the future that the consumer awaits.
        stopped: whether the consumer has too many pieces to pull.
        over: whether it has ended, or nobody wants it, so that its slot is free.
    """

    id: str
    prompt: Sequence[int]
    limit: int
    logprobs: int | None
    sampler: Sampler
    detokenizer: Detokenizer
    matcher: Matcher | None
    explain: bool = False
    budget: Budget | None = None
    loop: asyncio.AbstractEventLoop | None = None
    state: Any = None
    token: int = 0
    count: int = 0
    pieces: deque[Delta | EngineError] = msgspec.field(default_factory=deque)
    waiter: asyncio.Future[None] | None = None
    stopped: bool = False
    over: bool = False

    def put(self, piece: Delta | EngineError) -> None:
        """Add a piece for the consumer; the last one ends the output."""
        self.pieces.append(piece)
        self.over = self.over or isinstance(piece, EngineError) or piece.finish_reason is not None


def wake(outputs: Sequence[Output]) -> None:
    """Wake waiting consumers, with one call into each event loop."""
    waiters: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for output in outputs:
        if output.waiter is not None and output.loop is not None:
            waiters.setdefault(output.loop, []).append(output.waiter)
            output.waiter = None
    for loop, found in waiters.items():
        try:
            loop.call_soon_threadsafe(_resolve, found)
        except RuntimeError:  # the loop is closed, and nobody waits any more
            for output in outputs:
                output.over = output.over or output.loop is loop


def _resolve(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
