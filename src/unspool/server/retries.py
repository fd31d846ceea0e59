"""Retries within a session: a client that sends a request again gets the answer to the first, not another one.

Clients send a request again if its answer did not begin in time, or the connection broke. Otherwise the model would
answer twice, and one of the answers would be lost for training. The clients of OpenAI and Anthropic count their
attempts in ``x-stainless-retry-count``; others name a request by an ``Idempotency-Key``.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from starlette.types import Scope, Send

from ..generation.outbox import MOST_BYTES, rest
from ..generation.service import log
from ..request.chat_request import Attempt
from .endpoint import LONG
from .replies import header

if TYPE_CHECKING:
    from ..sessions import Session

ATTEMPT: Final = "unspool.attempt"  # the key of a request's attempt in its scope
_SIZE: Final = 8 * 1024 * 1024  # how many bytes of an answer are kept for retries
_ALL: Final = 64 * 1024 * 1024  # how many bytes of all of them are kept, with those that are being written
_STEP: Final = 16 * 1024  # by how many bytes an answer is counted ahead of what is written
_OVERHEAD: Final = 4096  # about how many bytes an answer takes besides its own
_BEHIND: Final = 2 * _SIZE  # how many bytes are kept for a client that reads more slowly than another one
_AGE: Final = 600.0  # how long they are kept, in seconds
_GRACE: Final = 15.0
"""How long an answer of which nothing was sent goes on without a client: clients wait up to 8 s before a retry."""

_Key = tuple[str, bytes]
"""The key of a session, and that of an attempt."""
_Work = Callable[["Session", Scope, bytes, Send], Coroutine[Any, Any, bool]]
"""What answers a request, and returns whether that ended without an error."""


class _AnswerReader:
    """A client that reads an answer: how many parts of it were sent there."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.parts = 0


_SENT: Final = object()


class _RetriedAnswer:
    """An answer that several clients may read: the one that asked for it, and retries.

    As long as one client reads it, its parts go there directly. From the first retry on, each client reads what is kept
    at its own pace, and the answer is written at the pace of the fastest. One that is too far behind is disconnected.
    """

    def __init__(self, work: Callable[[Send], Coroutine[Any, Any, bool]], send: Send, retries: "Retries") -> None:
        self._first = _AnswerReader(send)
        self._retries = retries
        self.counted = 0  # as how many bytes it is
        self._clients = [self._first]  # those that are still there
        loop = asyncio.get_running_loop()
        self._shared = loop.create_future()  # done once a retry joins
        self._sent = loop.create_future()  # for a part that is sent without waiting: done
        self._sent.set_result(None)
        self._sending: asyncio.Future[None] | None = None  # a part for which the first client lets it wait
        self._came = asyncio.Event()  # a part, or the end
        self._went = asyncio.Event()  # a part, to one of several clients
        self._whole = True  # whether all of it is kept: one that is too large is not
        self._parts: list[Any] = []  # the messages that begin and end it, and the bytes of those between
        self._dropped = 0  # how many parts before these are not kept any more
        self.size = 0  # the bytes that are kept
        self.ended = 0.0  # when, by the monotonic clock
        self.work = asyncio.create_task(work(self.send))
        self.work.add_done_callback(lambda _: self._came.set())

    def send(self, message: Any) -> Awaitable[None]:
        """Keep a part of the answer, and send it to the first client, or let it wait for several."""
        shared = self._shared.done()
        if self._whole or shared:
            body = message.get("body", b"")
            self._parts.append(body if message.get("more_body") else message)
            self.size += len(body)
            if self.size > self.counted:
                self._count()
        if shared:
            self._came.set()
            return self._room()
        writing = self._first.send(message).__await__()  # begun here: most parts need no coroutine of their own
        waits_for: Any = next(writing, _SENT)
        return self._sent if waits_for is _SENT else self._directly(writing, waits_for)

    @property
    def good(self) -> bool:
        """Whether a retry may have it: it is being written and goes on, or it is a whole one without an error."""
        if not self._whole or not self.work.done():
            return self._whole and not self.work.cancelling()
        return not self.work.cancelled() and self.work.exception() is None and self.work.result()

    async def first(self) -> None:
        """Wait for its end, for the client that asked for it."""
        try:
            await asyncio.wait({self.work, self._shared}, return_when=asyncio.FIRST_COMPLETED)
            if self._shared.done():
                if self._sending is not None:
                    await self._sending
                await self._follow(self._first)
            else:
                self.work.result()
        finally:
            if self._sending is not None:
                self._sending.cancel()
            self._leave(self._first)

    async def again(self, send: Send) -> None:
        """Send it to a retry, from its beginning."""
        client = _AnswerReader(send)
        self._clients.append(client)
        if not self.work.done() and not self._shared.done():
            self._first.parts = len(self._parts)
            self._shared.set_result(None)
        try:
            await self._follow(client)
        finally:
            self._leave(client)

    def _count(self) -> None:
        """Count more bytes, or stop keeping the whole answer if it, or all together, are too large."""
        more = self.size + _STEP - self.counted
        self._whole = self._whole and self.size <= _SIZE and self._retries.take(more)
        if self._whole:
            self.counted += more
        else:
            self._retries.give_back(self.counted)
            self.counted = 0
            self._drop()

    # -- one client ------------------------------------------------------------------------------------------------

    async def _directly(self, writing: Generator[Any, Any, None], waits_for: Any) -> None:
        """Wait until the first client has read a part, but not once a retry has joined."""
        self._sending = asyncio.ensure_future(rest(writing, waits_for))
        try:
            await asyncio.wait({self._sending, self._shared}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not self._shared.done():
                self._sending.cancel()
        if self._sending.done():
            self._sending.result()

    # -- several clients -------------------------------------------------------------------------------------------

    async def _follow(self, client: _AnswerReader) -> None:
        """Send a client what it does not have yet, as it comes, until the end."""
        while client in self._clients:
            self._came.clear()
            while client in self._clients and (at := client.parts - self._dropped) < len(self._parts):
                part = self._parts[at]
                inner = isinstance(part, bytes)
                await client.send({"type": "http.response.body", "body": part, "more_body": True} if inner else part)
                client.parts += 1
                self._went.set()
            if client in self._clients:
                if self.work.done():
                    self.work.result()
                    return
                await self._came.wait()
        log.warning("a client read an answer too slowly, which another one reads as well; it is disconnected")

    async def _room(self) -> None:
        """Wait until the fastest client has nearly everything."""
        while self._clients and _size(self._parts[self._fastest - self._dropped :]) > MOST_BYTES:
            self._went.clear()
            await self._went.wait()

    @property
    def _fastest(self) -> int:
        return max(client.parts for client in self._clients)

    def _drop(self) -> None:
        """Let go of what no client needs any more, and of clients for which too much is kept."""
        while True:
            behind = [client.parts for client in self._clients] if self._shared.done() else []
            kept = min(behind, default=self._dropped + len(self._parts)) - self._dropped
            self.size -= _size(self._parts[:kept])
            self._dropped += kept
            del self._parts[:kept]
            if self.size <= _BEHIND or min(behind) == max(behind):
                return
            self._clients = [client for client in self._clients if client.parts > self._dropped]

    def _leave(self, client: _AnswerReader) -> None:
        """Drop a client that has disconnected; it may retry if nothing was sent."""
        client.send = _nowhere  # the connection is not kept with the answer
        if client in self._clients:
            self._clients.remove(client)
        if not self._whole:
            self._drop()
        if self._clients or self.work.done():
            return
        if self._parts or self._dropped:
            self.work.cancel()
        else:
            asyncio.get_running_loop().call_later(_GRACE, self._end)

    def _end(self) -> None:
        """End the generation if nobody reads it any more."""
        if not self._clients:
            self.work.cancel()


def _size(parts: Iterable[Any]) -> int:
    return sum(len(part if isinstance(part, bytes) else part.get("body", b"")) for part in parts)


async def _nowhere(message: Any) -> None:
    """Send a part of an answer to nobody."""


class Retries:
    """The answers that retries may join or get again, of all sessions."""

    def __init__(self, work: _Work) -> None:
        self._work = work
        self._running: dict[_Key, _RetriedAnswer] = {}
        self._kept: OrderedDict[_Key, _RetriedAnswer] = OrderedDict()  # whole ones, in the order in which they ended
        self._size = 0  # about the bytes of both

    async def answer(self, session: "Session", scope: Scope, body: bytes, send: Send) -> None:
        """Answer a request of a session. A retry gets the answer to the first attempt, or joins it."""
        attempt = await asyncio.to_thread(_attempt, scope, body) if len(body) >= LONG else _attempt(scope, body)
        scope = {**scope, ATTEMPT: attempt}
        if not attempt.key:
            await self._work(session, scope, body, send)
            return
        key = session.about.key, attempt.key
        known = self._running.get(key) or self._kept.get(key)
        if attempt.again and known is not None and known.good:
            await known.again(send)
            return
        answer = self._running[key] = _RetriedAnswer(partial(self._work, session, scope, body), send, self)
        answer.work.add_done_callback(lambda _: self._ended(key, answer))
        await answer.first()

    def _ended(self, key: _Key, answer: _RetriedAnswer) -> None:
        """Keep an answer, unless another attempt has taken its place."""
        self._size -= answer.counted
        if self._running.get(key) is not answer:
            return
        del self._running[key]
        if key in self._kept:
            self._size -= self._kept.pop(key).size + _OVERHEAD
        if answer.good:
            answer.ended = time.monotonic()
            self._kept[key] = answer
            self._size += answer.size + _OVERHEAD
        self._forget()

    def take(self, more: int) -> bool:
        """Count bytes of an answer that is being written, if there is room for them: those that are kept give way."""
        self._size += more
        self._forget()
        fits = self._size <= _ALL
        if not fits:
            self._size -= more
        return fits

    def give_back(self, bytes: int) -> None:
        """Release bytes of an answer."""
        self._size -= bytes

    def _forget(self) -> None:
        """Forget the answers that are kept too long, or too many."""
        while self._kept:
            old, oldest = next(iter(self._kept.items()))
            if self._size <= _ALL and oldest.ended >= time.monotonic() - _AGE:
                break
            self._size -= self._kept.pop(old).size + _OVERHEAD


def _attempt(scope: Scope, body: bytes) -> Attempt:
    named, count = header(scope, b"idempotency-key"), header(scope, b"x-stainless-retry-count")
    if named is None and count is None:
        return Attempt()
    digest = sha256(f"{scope['path']}\0{named or ''}\0".encode() + body).digest()
    return Attempt(digest[:16], named is not None or count not in (None, "0"))
