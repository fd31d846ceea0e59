"""Retries within a session: a client that sends a request again gets the answer to the first, not another one.

Clients send a request again if its answer did not begin in time, or the connection broke. Otherwise the model would
answer twice, and one of the answers would be lost for training. The clients of OpenAI and Anthropic count their
attempts in ``x-stainless-retry-count``; others name a request by an ``Idempotency-Key``.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from starlette.types import Scope, Send

from ..generation.outbox import rest
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
_AGE: Final = 600.0  # how long they are kept, in seconds
_GRACE: Final = 15.0
"""How long an answer of which nothing was sent goes on without a client: clients wait up to 8 s before a retry."""

_Key = tuple[str, bytes]
"""The key of a session, and that of an attempt."""
_Work = Callable[["Session", Scope, bytes, Send], Coroutine[Any, Any, bool]]
"""What answers a request, and returns whether that ended without an error."""


_SENT: Final = object()


class _RetriedAnswer:
    """An answer that a retry may take over from the client that asked for it, or get again.

    Its parts go directly to its client, the last one that asked. A retry first gets what is kept, and the answer waits
    until it has that. A client whose answer is taken over gets no more of it: it has given up.
    """

    def __init__(self, work: Callable[[Send], Coroutine[Any, Any, bool]], retries: "Retries") -> None:
        self._retries = retries
        self.counted = 0  # as how many bytes it is
        loop = asyncio.get_running_loop()
        self._client: Send | None = None  # ``None``: it does not have yet what is kept
        self._ready = asyncio.Event()  # the client has it
        self._taken = loop.create_future()  # done once a retry takes the answer over from the client
        self._sent = loop.create_future()  # for a part that is sent without waiting: done
        self._sent.set_result(None)
        self._whole = True  # whether all of it is kept: one that is too large is not
        self._parts: list[Any] = []  # the messages that begin and end it, and the bytes of those between
        self.size = 0  # the bytes that are kept
        self.ended = 0.0  # when, by the monotonic clock
        self.work = asyncio.create_task(work(self.send))

    def send(self, message: Any) -> Awaitable[None]:
        """Keep a part of the answer, and send it to the client."""
        if self._whole:
            body = message.get("body", b"")
            self._parts.append(body if message.get("more_body") else message)
            self.size += len(body)
            if self.size > self.counted:
                self._count()
        if self._client is None:
            return self._caught_up()
        writing = self._client(message).__await__()  # begun here: most parts need no coroutine of their own
        waits_for: Any = next(writing, _SENT)
        return self._sent if waits_for is _SENT else self._directly(writing, waits_for)

    @property
    def good(self) -> bool:
        """Whether a retry may have it: it is being written and goes on, or it is a whole one without an error."""
        if not self._whole or not self.work.done():
            return self._whole and not self.work.cancelling()
        return not self.work.cancelled() and self.work.exception() is None and self.work.result()

    async def read(self, send: Send) -> None:
        """Send it to a client, from its beginning, until its end, or until a retry takes it over."""
        if not self._taken.done():
            self._taken.set_result(None)
        taken = self._taken = asyncio.get_running_loop().create_future()
        self._client = None
        self._ready.clear()
        catching_up = asyncio.ensure_future(self._catch_up(send))
        try:
            for ended in (catching_up, self.work):
                await asyncio.wait({ended, taken}, return_when=asyncio.FIRST_COMPLETED)
                if taken.done():
                    return
                ended.result()
        finally:
            catching_up.cancel()
            if not taken.done():
                self._leave()

    async def _catch_up(self, send: Send) -> None:
        """Send a client what is kept. A part that comes meanwhile is kept, too, and the next waits."""
        parts, at = self._parts, 0
        while at < len(parts):
            part = parts[at]
            inner = isinstance(part, bytes)
            await send({"type": "http.response.body", "body": part, "more_body": True} if inner else part)
            at += 1
        self._client = send
        self._ready.set()

    async def _caught_up(self) -> None:
        await self._ready.wait()

    async def _directly(self, writing: Generator[Any, Any, None], waits_for: Any) -> None:
        """Wait until the client has read a part, or a retry takes the answer over, which then reads that."""
        sending = asyncio.ensure_future(rest(writing, waits_for))
        try:
            await asyncio.wait({sending, self._taken}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            sending.cancel()

    def _count(self) -> None:
        """Count more bytes, or stop keeping the answer if it, or all together, are too large."""
        more = self.size + _STEP - self.counted
        self._whole = self.size <= _SIZE and self._retries.take(more)
        if self._whole:
            self.counted += more
        else:
            self._retries.give_back(self.counted)
            self._parts, self.counted, self.size = [], 0, 0

    def _leave(self) -> None:
        """Let go of a client that has everything, or has disconnected; it may retry if nothing was sent."""
        self._client = _nowhere  # the connection is not kept with the answer
        self._ready.set()
        if self.work.done():
            return
        if self._parts or not self._whole:
            self.work.cancel()
        else:
            asyncio.get_running_loop().call_later(_GRACE, self._end)

    def _end(self) -> None:
        """End the generation if nobody reads it any more."""
        if self._client is _nowhere:
            self.work.cancel()


async def _nowhere(message: Any) -> None:
    """Send a part of an answer to nobody."""


class Retries:
    """The answers that retries may take over or get again, of all sessions."""

    def __init__(self, work: _Work) -> None:
        self._work = work
        self._running: dict[_Key, _RetriedAnswer] = {}
        self._kept: OrderedDict[_Key, _RetriedAnswer] = OrderedDict()  # whole ones, in the order in which they ended
        self._size = 0  # about the bytes of both

    async def answer(self, session: "Session", scope: Scope, body: bytes, send: Send) -> None:
        """Answer a request of a session. A retry gets the answer to the first attempt, or takes it over."""
        attempt = await asyncio.to_thread(_attempt, scope, body) if len(body) >= LONG else _attempt(scope, body)
        scope = {**scope, ATTEMPT: attempt}
        if not attempt.key:
            await self._work(session, scope, body, send)
            return
        key = session.about.key, attempt.key
        known = self._running.get(key) or self._kept.get(key)
        if attempt.again and known is not None and known.good:
            await known.read(send)
            return
        answer = self._running[key] = _RetriedAnswer(partial(self._work, session, scope, body), self)
        answer.work.add_done_callback(lambda _: self._ended(key, answer))
        await answer.read(send)

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
