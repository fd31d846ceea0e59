"""Many clients that misbehave at once, over plain sockets."""

import asyncio
import contextlib
import json
import random
import socket
from collections.abc import Sequence
from typing import Any, Literal

from .victim import CHAT, Victim

SLOW = {"messages": [{"role": "user", "content": "Go on."}]}

Leaving = Literal["at once", "one by one"]


def request(body: Any, path: str = CHAT) -> bytes:
    """The bytes of a request."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


async def _connect(
    port: int, data: bytes, room: int | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    one = socket.socket()
    one.setblocking(False)
    if room is not None:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    await asyncio.get_running_loop().sock_connect(one, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=one, limit=4096)
    writer.write(data)
    await writer.drain()
    return reader, writer


def hold(port: int, data: bytes) -> socket.socket:
    """A client that sends data and reads nothing."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    one.connect(("127.0.0.1", port))
    one.sendall(data)
    return one


def exchange(port: int, data: bytes) -> bytes:
    """Send data, and return the answer as far as it arrives."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as one:
        try:
            one.sendall(data)
            return one.recv(4096)
        except ConnectionError:
            return b""


def burst(
    port: int,
    count: int,
    leaving: Leaving,
    *,
    bodies: Sequence[Any] = (SLOW,),
    path: str = CHAT,
    after: str | float = 0.3,
) -> int:
    """Let many clients send requests, and leave together.

    Args:
        port: the server's port.
        count: the number of clients.
        leaving: whether they leave in one turn of the loop, or one after another in random order.
        bodies: the bodies of their requests, which alternate.
        path: the path of their requests.
        after: when they leave: after some seconds, or ``byte``: as soon as one has the first byte of its answer.

    Returns:
        How many had a byte by then.
    """

    async def main() -> int:
        made = await asyncio.gather(*(_connect(port, request(bodies[i % len(bodies)], path)) for i in range(count)))
        firsts = [asyncio.ensure_future(reader.read(1)) for reader, _ in made]
        if after == "byte":
            await asyncio.wait(firsts, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0.3)
        else:
            await asyncio.sleep(float(after))
        begun = sum(first.done() for first in firsts)
        random.shuffle(made)
        for _, writer in made:
            writer.transport.abort()
            if leaving == "one by one":
                await asyncio.sleep(0.001)
        await asyncio.gather(*firsts, return_exceptions=True)
        return begun

    return asyncio.run(main())


def never_read(server: Victim, count: int, body: Any, seconds: float) -> int:
    """Let many clients send requests and read nothing until the server closes their sockets, or the time is over.

    Returns:
        How many connections the server closed.
    """

    async def main() -> int:
        idle = server.sockets()
        made = await asyncio.gather(*(_connect(server.port, request(body), 2048) for _ in range(count)))
        for reader, writer in made:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            del reader
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for taken in (True, False):  # first the server accepts them
                    while (server.sockets() > idle) is not taken:
                        await asyncio.sleep(0.05)
        given_up = 0
        for reader, writer in made:
            with contextlib.suppress(RuntimeError):
                writer.transport.resume_reading()  # type: ignore[attr-defined]
            try:
                async with asyncio.timeout(seconds):
                    while await reader.read(65_536):
                        pass
                given_up += 1
            except (ConnectionError, asyncio.IncompleteReadError):
                given_up += 1
            except TimeoutError:
                pass
            writer.transport.abort()
        return given_up

    return asyncio.run(main())


def dribble(port: int, count: int, data: bytes, seconds: float) -> list[bytes]:
    """Let many clients send a few bytes, then a byte now and then, until the server closes them or the time is over.

    Returns:
        The answer to each. If one is still connected at the end, an error is raised instead.
    """

    async def one() -> bytes:
        reader, writer = await _connect(port, data[:30])
        output = asyncio.ensure_future(reader.read(4096))
        with contextlib.suppress(ConnectionError):
            for i in range(30, len(data)):
                if output.done():
                    break
                writer.write(data[i : i + 1])
                await asyncio.sleep(0.1)
        try:
            async with asyncio.timeout(seconds):
                return await output
        except ConnectionError:
            return b""
        finally:
            writer.transport.abort()

    async def main() -> list[bytes]:
        return await asyncio.gather(*(one() for _ in range(count)))

    return asyncio.run(main())
