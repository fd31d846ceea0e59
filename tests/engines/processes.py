"""The engine `Upstream` connected to servers in their own processes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from unspool.engines import Delta, Request, Sampling
from unspool.engines.upstream import Upstream

from .succession import PROMPT

GREEDY = Sampling(temperature=0.0)


@contextlib.asynccontextmanager
async def connected(url: str, **options: Any) -> AsyncIterator[Upstream]:
    engine = Upstream(url, **options)
    try:
        yield engine
    finally:
        await engine.close()


async def collect(engine: Upstream, prompt: str = PROMPT, **fields: Any) -> list[Delta]:
    return [d async for d in engine.generate(Request(**{"prompt": prompt, "sampling": GREEDY, **fields}))]


def generated(url: str, prompt: str = PROMPT, options: Mapping[str, Any] | None = None, **fields: Any) -> list[Delta]:
    async def main() -> list[Delta]:
        async with connected(url, **(options or {})) as engine:
            return await collect(engine, prompt, **fields)

    return asyncio.run(main())
