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
    """One output under way.

    Attributes:
        limit: how many tokens it has at most.
        logprobs: see `Sampling`.
        explain: see `Request`.
        budget: of reasoning; ``None``: there is none.
        loop: the consumer's event loop.
        state, token, count: the model's, the latest token, how many there are; the model's thread alone uses them.
        pieces: what was generated and not pulled; at the end there may be an error.
        waiter: what the consumer waits for.
        stopped: whether the consumer has too many pieces to pull.
        over: whether it has ended or nobody wants it: its slot is free.
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
        """Take a piece for the consumer; the last one ends the output."""
        self.pieces.append(piece)
        self.over = self.over or isinstance(piece, EngineError) or piece.finish_reason is not None


def wake(outputs: Sequence[Output]) -> None:
    """Let the consumers that wait go on: one call into each event loop."""
    waiters: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for output in outputs:
        if output.waiter is not None and output.loop is not None:
            waiters.setdefault(output.loop, []).append(output.waiter)
            output.waiter = None
    for loop, found in waiters.items():
        try:
            loop.call_soon_threadsafe(_resolve, found)
        except RuntimeError:  # the loop is closed: nobody waits any more
            for output in outputs:
                output.over = output.over or output.loop is loop


def _resolve(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
