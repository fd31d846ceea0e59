"""Servers in their own processes, and the engine `Upstream` connected to them."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

from unspool.engines import Delta, Request, Sampling
from unspool.engines.upstream import Upstream

from .succession import PROMPT

PATIENCE = 180.0
GREEDY = Sampling(temperature=0.0)


@contextlib.contextmanager
def process(command: list[str], url: str, log: Path, **environment: str) -> Iterator[None]:
    """A server in its own process, as soon as it answers at ``url``."""
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}
        )
        try:
            deadline = time.monotonic() + PATIENCE
            while True:
                with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                    urllib.request.urlopen(url, timeout=5).close()
                    break
                assert server.poll() is None, log.read_text(errors="replace")[-3000:]
                assert time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
                time.sleep(0.2)
            yield
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


@contextlib.asynccontextmanager
async def connected(url: str, **options: Any) -> AsyncIterator[Upstream]:
    engine = Upstream(url, **options)
    try:
        yield engine
    finally:
        await engine.close()


async def collect(engine: Upstream, prompt: str = PROMPT, **fields: Any) -> list[Delta]:
    return [d async for d in engine.generate(Request(**{"prompt": prompt, "sampling": GREEDY, **fields}))]


def text(deltas: list[Delta]) -> str:
    return "".join(d.text for d in deltas)


def generated(url: str, prompt: str = PROMPT, options: Mapping[str, Any] | None = None, **fields: Any) -> list[Delta]:
    async def main() -> list[Delta]:
        async with connected(url, **(options or {})) as engine:
            return await collect(engine, prompt, **fields)

    return asyncio.run(main())
