"""Retries within a session: a client that sends a request again gets the answer to the first, not another one.

Clients send a request again if its answer did not begin in time, or the connection broke. Otherwise the model would
answer twice, and one of the answers would be lost for training. The clients of OpenAI and Anthropic count their
attempts in ``x-stainless-retry-count``; others name a request by an ``Idempotency-Key``.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from starlette.types import Scope, Send

from .replies import header

if TYPE_CHECKING:
    from ..sessions import Session

_COUNT: Final = 64  # how many answers of a session are kept for retries
_SIZE: Final = 8 * 1024 * 1024  # how many bytes of such answers are kept
_AGE: Final = 600.0  # how long they are kept, in seconds
_GRACE: Final = 15.0
"""How long an answer of which nothing was sent goes on without a client: clients wait up to 8 s before a retry."""

_Work = Callable[["Session", Scope, bytes, Send], Awaitable[bool]]
"""What answers a request, and returns whether that ended without an error."""


class _Answer:
    """An answer that several connections may read: the one that asked for it, and retries."""

    def __init__(self, work: Callable[[Send], Awaitable[bool]], send: Send) -> None:
        self._send: Send | None = send
        self._changed = asyncio.Event()
        self._retries = 0
        self._whole = True  # whether all of it is kept: one that is too large is not, unless a retry reads it
        self._parts: list[Any] = []  # the message that begins it, then the bytes of each that follows
        self._over = False  # the last one was sent
        self.size = 0  # the bytes that are kept
        self.ended = time.monotonic()
        self.work = asyncio.ensure_future(work(self.send))
        self.work.add_done_callback(lambda _: self._changed.set())

    def send(self, message: Any) -> Awaitable[None]:
        """Keep a part of the answer, and send it to the first client, as long as that reads."""
        if self._whole:
            body = message.get("body", b"")
            self._over = not message.get("more_body", False)
            self._parts.append(body if self._parts else message)
            self.size += len(body)
            if self.size > _SIZE and not self._retries:
                self._whole, self.size = False, 0
                del self._parts[1:]
        if self._retries:
            self._changed.set()
        return _nowhere(message) if self._send is None else self._send(message)

    @property
    def good(self) -> bool:
        """Whether a retry may have it: it is being written, or it is a whole one without an error."""
        if not self._whole or not self.work.done():
            return self._whole
        return not self.work.cancelled() and self.work.exception() is None and self.work.result()

    async def first(self) -> None:
        """Wait for its end, for the client that asked for it."""
        try:
            await asyncio.shield(self.work)
        except asyncio.CancelledError:
            self._send = None
            self._left()
            raise

    async def again(self, send: Send) -> None:
        """Send it to a retry, from its beginning."""
        self._retries += 1
        try:
            sent = 0
            while True:
                self._changed.clear()
                while sent < len(self._parts):
                    await send(self._message(sent))
                    sent += 1
                if self.work.done():
                    self.work.result()
                    return
                await self._changed.wait()
        finally:
            self._retries -= 1
            if self._send is None:
                self._left()

    def _message(self, i: int) -> Any:
        """The message of a part."""
        part = self._parts[i]
        more = not self._over or i + 1 < len(self._parts)
        return {"type": "http.response.body", "body": part, "more_body": more} if i else part

    def _left(self) -> None:
        """A client is gone, which may come again if nothing was sent."""
        if self._parts:
            self._leave()
        else:
            asyncio.get_running_loop().call_later(_GRACE, self._leave)

    def _leave(self) -> None:
        """End the generation if nobody reads it any more."""
        if not self._retries and self._send is None:
            self.work.cancel()


async def _nowhere(message: Any) -> None:
    """Send a part of an answer to nobody."""


class Retries:
    def __init__(self, work: _Work) -> None:
        self._work = work
        self._answers: WeakKeyDictionary[Session, OrderedDict[bytes, _Answer]] = WeakKeyDictionary()

    async def answer(self, session: "Session", scope: Scope, body: bytes, send: Send) -> None:
        """Answer a request of a session. A retry gets the answer to the first attempt, or joins it."""
        key, again = _key(scope, body)
        if key is None:
            await self._work(session, scope, body, send)
            return
        answers = self._answers.setdefault(session, OrderedDict())
        known = answers.get(key)
        if again and known is not None and known.good:
            try:
                await known.again(send)
            finally:
                _forget(answers)
            return
        answer = _Answer(partial(self._work, session, scope, body), send)
        answers.pop(key, None)
        answers[key] = answer
        try:
            await answer.first()
        finally:
            answer.ended = time.monotonic()
            _forget(answers)


def _key(scope: Scope, body: bytes) -> tuple[bytes | None, bool]:
    """What an attempt has in common with its retries, and whether it is one; ``None`` if the client names neither."""
    named, count = header(scope, b"idempotency-key"), header(scope, b"x-stainless-retry-count")
    if named is None and count is None:
        return None, False
    digest = sha256(f"{scope['path']}\0{named or ''}\0".encode() + body).digest()
    return digest, named is not None or count not in (None, "0")


def _forget(answers: OrderedDict[bytes, _Answer]) -> None:
    """Forget old answers, and so many that their number and size are within the limits."""
    sizes = {key: answer.size for key, answer in answers.items()}
    size, oldest = sum(sizes.values()), time.monotonic() - _AGE
    for key, answer in list(answers.items()):
        if len(answers) <= _COUNT and size <= _SIZE and answer.ended >= oldest:
            return
        if answer.work.done():
            size -= sizes[key]
            del answers[key]
