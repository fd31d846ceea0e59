"""The server under load, compared with the most that starlette and uvicorn can do, and with a typical server.

The processor time of each server's process counts, read before and after, because other programs may run. Loads are
small and interleaved, and the median of the rounds counts.
"""

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from statistics import median, quantiles
from typing import Any, Final

import uvloop

from .effort import Effort
from .servers import BODY, CHUNKS, PATH
from .table import Row

STREAMS: Final = 200
MANY: Final = 500
_SHARE: Final = 60
_HEAD: Final = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
_REQUEST: Final = _HEAD.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
_STAMP: Final = re.compile(rb'content":"(\d+) ?"')


def serving(effort: Effort) -> Iterator[Row]:
    """Throughput, growth, added latency and memory."""
    rounds = max(3, effort.rounds // 4)
    name = f"server, {STREAMS} streams × {CHUNKS} chunks"
    for kind, case, least in (("flood", "as fast as they go", _SHARE), ("turns", "one each turn of the loop", None)):
        with Fleet(kind) as fleet:
            costs = fleet.costs(STREAMS, rounds)
            yield Row(name, f"{case}, share of bare starlette + uvicorn", *_share(costs, "unspool"), least, "least")
            yield Row(name, f"{case}, FastAPI + pydantic's share", *_share(costs, "fastapi"))
            if kind == "turns":
                yield Row(name, "processor time per chunk", median(costs["unspool"]) * 1e6, "µs")
                yield Row(name, f"per chunk with {MANY} streams, against one", fleet.growth(rounds), "×", 1.5)
    with Fleet("tick", "bare", "unspool") as fleet:
        bare, ours = fleet.delays("bare"), fleet.delays("unspool")
        for case, at in (("p50", 49), ("p99", 98)):
            yield Row(name, f"time added per chunk, {case}", (ours[at] - bare[at]) / 1e3, "µs")
    with Fleet("idle", "bare", "unspool") as fleet:
        for server, case in (("unspool", "memory per idle stream"), ("bare", "the same, bare starlette + uvicorn")):
            yield Row(name, case, fleet.memory(server) / 1024, "KiB")


def _share(costs: dict[str, list[float]], server: str) -> tuple[float, str]:
    """A server's chunks per second, in per cent of the limit's."""
    return median(100 * bare / own for bare, own in zip(costs["bare"], costs[server], strict=True)), "%"


class Fleet:
    """The servers, each a process.

    Args:
        kind: what the source of the chunks does, see `servers.source`.
        names: the servers; all by default.
    """

    def __init__(self, kind: str, *names: str) -> None:
        command = [sys.executable, "-m", "benchmarks.servers"]
        pipe = subprocess.PIPE
        self._servers = {
            name: subprocess.Popen([*command, name, kind], stdin=pipe, stdout=pipe, text=True)
            for name in names or ("bare", "fastapi", "unspool")
        }
        self.ports: dict[str, int] = {}
        """The port of each server."""

    def __enter__(self) -> "Fleet":
        self.ports = {name: int(self._line(name)) for name in self._servers}
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.kill()
            server.communicate()

    def costs(self, streams: int, rounds: int) -> dict[str, list[float]]:
        """Seconds of processor time per chunk, by server and round; the first round warms up."""
        found: dict[str, list[float]] = {name: [] for name in self._servers}
        for turn in range(rounds + 1):
            for name, costs in found.items():
                cost = self._cost(name, lambda port: load(port, streams), streams)
                if turn:
                    costs.append(cost)
        return found

    def growth(self, rounds: int) -> float:
        """The cost of a chunk of many streams at once, compared with one stream after the other."""

        async def alone(port: int) -> None:
            for _ in range(STREAMS // 4):
                await load(port, 1)

        ratios = []
        for _ in range(rounds):
            one = self._cost("unspool", alone, STREAMS // 4)
            ratios.append(self._cost("unspool", lambda port: load(port, MANY), MANY) / one)
        return median(ratios)

    def delays(self, server: str) -> list[float]:
        """Percentiles of a chunk's time from the engine to the client, in nanoseconds."""
        received = uvloop.run(load(self.ports[server], STREAMS))
        delays = [at - int(stamp) for pieces in received for at, data in pieces for stamp in _STAMP.findall(data)]
        return quantiles(delays, n=100)

    def memory(self, server: str) -> float:
        """Bytes for each stream that waits for its engine."""

        async def hold() -> float:
            loop = asyncio.get_running_loop()
            before = self._ask(server)[1]
            held = [await loop.create_connection(_Client, "127.0.0.1", self.ports[server]) for _ in range(MANY)]
            while not all(client.pieces for _, client in held):
                await asyncio.sleep(0.01)
            after = self._ask(server)[1]
            for transport, _ in held:
                transport.abort()
            return (after - before) / MANY

        return uvloop.run(hold())

    def _cost(self, server: str, work: Callable[[int], Awaitable[object]], streams: int) -> float:
        async def done() -> None:
            await work(self.ports[server])

        before = self._ask(server)[0]
        uvloop.run(done())
        return (self._ask(server)[0] - before) / (streams * CHUNKS)

    def _ask(self, server: str) -> tuple[float, float]:
        """Processor time so far, and memory now."""
        stdin = self._servers[server].stdin
        assert stdin is not None
        stdin.write("\n")
        stdin.flush()
        seconds, memory = map(float, self._line(server).split())
        return seconds, memory

    def _line(self, server: str) -> str:
        stdout = self._servers[server].stdout
        assert stdout is not None
        return stdout.readline()


class _Client(asyncio.Protocol):
    """Sends the request, and records what arrives and when."""

    def __init__(self) -> None:
        self.pieces: list[tuple[int, bytes]] = []
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Send the request."""
        transport.write(_REQUEST)

    def data_received(self, data: bytes) -> None:
        """Record the data."""
        self.pieces.append((time.monotonic_ns(), data))

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the answer is complete."""
        if not self.over.done():
            self.over.set_result(None)


async def load(port: int, streams: int) -> list[list[tuple[int, bytes]]]:
    """Read this many streams at once, each to its end."""
    loop = asyncio.get_running_loop()
    clients = [(await loop.create_connection(_Client, "127.0.0.1", port))[1] for _ in range(streams)]
    await asyncio.gather(*(client.over for client in clients))
    for client in clients:
        assert b"".join(data for _, data in client.pieces).startswith(b"HTTP/1.1 200")
    return [client.pieces for client in clients]
