"""Servers that send interim responses (100 Continue) without an end are given up by every HTTP client of this side."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2
import pytest

from unspool.engines import EngineError
from unspool.engines.upstream import Upstream
from unspool.tools.addresses import AddressRefused
from unspool.tools.fetch import Fetcher
from unspool.tools.http import client

from .support import request

INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
FINAL = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nHi"


async def _engine(url: str) -> None:
    engine = Upstream(url, kind="vllm", model="m")
    try:
        async for _ in engine.generate(request()):
            pass
    finally:
        await engine.close()


async def _page(url: str) -> bytes:
    fetcher = Fetcher([url.removeprefix("http://")], private=True, time=30, size=1000)
    try:
        return (await fetcher.fetch(url)).body
    finally:
        await fetcher.aclose()


async def _tool_server(url: str) -> bytes:
    async with client("shop", {}, 1000, public=False, timeout=30) as http:
        return (await http.get(url)).content


CLIENTS: dict[str, Callable[[str], Awaitable[object]]] = {"engine": _engine, "page": _page, "tool server": _tool_server}


@contextlib.asynccontextmanager
async def sending(interim: int | None) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that sends interim responses, without an end or so many, and the bytes that it has sent."""
    sent, serving = [0], []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        with contextlib.suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            if interim is not None:
                writer.write(INTERIM * interim + FINAL)
            while interim is None:
                writer.write(INTERIM * 1000)
                sent[0] += len(INTERIM) * 1000
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", sent
        await asyncio.gather(*filter(None, serving))


@pytest.mark.parametrize("name", CLIENTS)
async def test_interim_responses_without_an_end_are_given_up(name: str) -> None:
    async with sending(None) as (url, sent):
        with pytest.raises((EngineError, AddressRefused, httpx2.ReadError)):
            await asyncio.wait_for(CLIENTS[name](url), 20)
        assert sent[0] < 16_000_000


@pytest.mark.parametrize("name", ["page", "tool server"])
async def test_a_few_interim_responses_are_skipped(name: str) -> None:
    async with sending(3) as (url, _):
        assert await CLIENTS[name](url) == b"Hi"
