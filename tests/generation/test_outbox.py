"""Messages are sent at once while the connection takes them, and wait in order while it does not."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest

from unspool.generation.outbox import MOST_BYTES, Outbox
from unspool.server.replies import StreamReply


class Connection:
    """Takes messages, and can be stopped and started again."""

    def __init__(self) -> None:
        self.taken: list[MutableMapping[str, Any]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.error: Exception | None = None
        self.closes_after: bytes | None = None

    async def send(self, message: MutableMapping[str, Any]) -> None:
        await self.open.wait()
        if self.error is not None:
            raise self.error
        self.taken.append(message)
        if "body" in message and message["body"] == self.closes_after:
            self.open.clear()

    @property
    def bodies(self) -> list[bytes]:
        return [m["body"] for m in self.taken if "body" in m]


@contextlib.asynccontextmanager
async def connected(limit: int = 3) -> AsyncIterator[tuple[Connection, Outbox]]:
    connection = Connection()
    outbox = Outbox(StreamReply(connection.send, "id"), limit)
    yield connection, outbox
    await outbox.close()


async def test_put_sends_before_it_returns() -> None:
    async with connected() as (connection, outbox):
        assert not outbox.begun
        outbox.put(b"a", 1)
        outbox.put(b"b", 1)
        assert (connection.taken[0]["type"], connection.taken[0]["status"]) == ("http.response.start", 200)
        assert connection.bodies == [b"a", b"b"]
        assert (outbox.begun, outbox.events, outbox.stalled_since) == (True, 0, None)
        await outbox.end(b"z")
        assert connection.bodies == [b"a", b"b", b"z", b""]
        assert not connection.taken[-1].get("more_body")


async def test_data_for_a_stalled_connection_waits_and_is_sent_in_one_piece() -> None:
    async with connected() as (connection, outbox):
        connection.open.clear()
        for piece in (b"a", b"b", b"c"):
            outbox.put(piece, 1)
        assert (connection.taken, outbox.events, outbox.full) == ([], 2, False)
        assert isinstance(outbox.stalled_since, float)
        outbox.put(b"d", 1)
        assert outbox.full
        waiting = asyncio.ensure_future(outbox.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        connection.open.set()
        await waiting
        assert connection.bodies == [b"a", b"bcd"]
        await asyncio.sleep(0)
        assert [outbox.events, outbox.stalled_since] == [0, None]
        outbox.put(b"e", 1)
        assert connection.bodies[-1] == b"e"


async def test_data_put_within_one_turn_of_the_loop_is_sent_in_one_piece() -> None:
    async with connected() as (connection, outbox):
        outbox._clock = lambda: 7.0
        for piece in (b"a", b"b", b"c"):
            outbox.put(piece, 1)
        assert (connection.bodies, outbox.events) == ([b"a"], 2)
        await asyncio.sleep(0)
        assert (connection.bodies, outbox.events) == ([b"a", b"bc"], 0)
        for piece in (b"d", b"e", b"f"):
            outbox.put(piece, 1)
        assert outbox.full
        await outbox.room()
        outbox.put(b"g", 1)
        await outbox.end(b"z")
        assert b"".join(connection.bodies) == b"abcdefgz"
        assert connection.bodies[-1] == b""


async def test_a_connection_lost_within_one_turn_is_reported_to_the_next_put() -> None:
    async with connected() as (connection, outbox):
        outbox._clock = lambda: 7.0
        outbox.put(b"a", 1)
        outbox.put(b"b", 1)
        connection.error = ConnectionResetError("gone")
        await asyncio.sleep(0)
        with pytest.raises(ConnectionResetError):
            outbox.put(b"c", 1)


async def test_the_end_is_sent_after_waiting_data() -> None:
    async with connected() as (connection, outbox):
        connection.open.clear()
        outbox.put(b"a", 1)
        outbox.put(b"b", 1)
        ending = asyncio.ensure_future(outbox.end(b"z"))
        await asyncio.sleep(0)
        connection.open.set()
        await ending
        assert b"".join(connection.bodies) == b"abz"


async def test_a_connection_that_does_not_accept_the_end_counts_as_stalled() -> None:
    async with connected() as (connection, outbox):
        outbox.put(b"a", 1)
        connection.closes_after = b"z"
        ending = asyncio.ensure_future(outbox.end(b"z"))
        await asyncio.sleep(0)
        assert outbox.over
        assert outbox.stalled_since is not None
        connection.open.set()
        await ending
        assert connection.bodies == [b"a", b"z", b""]


@pytest.mark.parametrize("wait", [False, True])
async def test_a_lost_connection_is_reported_to_whoever_puts_or_waits(wait: bool) -> None:
    async with connected() as (connection, outbox):
        connection.open.clear()
        for _ in range(5):
            outbox.put(b"a", 1)
        connection.error = ConnectionResetError("gone")
        waiting = asyncio.ensure_future(outbox.room())
        await asyncio.sleep(0)
        connection.open.set()
        with pytest.raises(ConnectionResetError):
            await waiting
        with pytest.raises(ConnectionResetError):
            outbox.put(b"b", 1) if not wait else await outbox.end(b"")


async def test_closing_cancels_what_is_being_sent() -> None:
    async with connected() as (connection, outbox):
        connection.open.clear()
        outbox.put(b"a", 1)
        outbox.put(b"b", 1)
        await outbox.close()
        connection.open.set()
        await asyncio.sleep(0)
        assert connection.taken == []


async def test_many_bytes_make_the_engine_wait_like_many_events() -> None:
    async with connected(1000) as (connection, outbox):
        connection.open.clear()
        for _ in range(3):
            outbox.put(b"x" * (MOST_BYTES // 2), 1)
            await asyncio.sleep(0)
        assert outbox.full
        room = asyncio.ensure_future(outbox.room())
        await asyncio.sleep(0)
        assert not room.done()
        connection.open.set()
        await room
        assert not outbox.full
