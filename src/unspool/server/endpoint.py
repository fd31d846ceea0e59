"""The way of a request: key, size, fields, prompt; then it runs."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from ..engines.threads import Awaited
from ..parser import Parser
from ..wire.common import Failure
from .admission import Overloaded
from .checks import BadRequest, read_object
from .core import Core, log
from .job import Job, check_text
from .prepared import Prepared, prepare
from .protocols import Protocol
from .replies import Reply, failed
from .run import Run

_LONG: Final = 16 * 1024
"""Bytes of a request from which on reading it takes long enough to be done in a thread."""


class TooLarge(Exception):
    """A body is larger than allowed."""


class Disconnected(Exception):
    """The client went away while it sent its request."""


class Endpoint:
    """An ASGI application that answers the requests of one protocol."""

    def __init__(self, core: Core, protocol: Protocol) -> None:
        self._core = core
        self._protocol = protocol

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await answer(self._core, self._protocol.error_body, scope, receive, send, self._answer)

    async def _answer(self, scope: Scope, body: bytes, send: Send) -> None:
        try:
            prepared, parsers = await self._prepare(body)
            del body
        except BadRequest as error:
            status = error.status or self._protocol.invalid
            reply = failed(self._protocol, Failure(str(error), status, error.param))
        except Exception:
            log.exception("%s: the request could not be read", scope["path"])
            reply = failed(self._protocol, Failure("the server failed", 500))
        else:
            await Run(self._core, self._protocol, scope, prepared, parsers).respond(send)
            return
        self._core.metrics.response(scope["path"], reply.status)
        await reply.send(send)

    async def _prepare(self, body: bytes) -> tuple[Prepared, list[Parser]]:
        """Read a request, and make what reads its outputs, which goes through the end of the prompt; in a thread where
        it is long, or where a grammar may have to be derived."""
        core, size = self._core, len(body)

        def read(awaited: Awaited | None = None) -> Job:
            job = self._protocol.read(read_object(body))
            if size > core.settings.limits.text:  # else there cannot be so many characters
                check_text(job, core.settings.limits)
            return job

        def make(awaited: Awaited) -> tuple[Prepared, list[Parser]]:
            tokenizer = core.engine.tokenizer
            prepared = prepare(job, core.settings, core.prompts, tokenizer, core.constraints, awaited)
            parsers = []
            for _ in range(job.n):
                awaited.check()
                parsers.append(prepared.parser(core.settings, tokenizer))
            return prepared, parsers

        job = read() if size < _LONG else await core.apart(size, read)
        if size < _LONG and not job.tools and job.response_format is None:
            return make(Awaited())
        return await core.apart(size, make)


async def answer(
    core: Core,
    error_body: Callable[[Failure], bytes],
    scope: Scope,
    receive: Receive,
    send: Send,
    work: Callable[[Scope, bytes, Send], Awaitable[None]],
) -> None:
    """Read a request's body and do the work that answers it, unless the client goes away: then that is cancelled.

    Args:
        core: the server.
        error_body: the body of an answer that is an error.
        scope, receive, send: the request.
        work: answers it, given its body.
    """
    reply = refusal(core, error_body, scope)
    limit = core.settings.limits.body
    with core.holding() as hold:
        try:
            body = b"" if reply else await read_body(scope, receive, limit, hold)
        except Disconnected:
            return
        except TooLarge:
            failure = Failure(f"the body is larger than {limit:,} bytes", 413)
            reply = Reply(error_body(failure), 413, close=True)
        except Overloaded as error:
            failure = Failure(str(error), 429)
            reply = Reply(error_body(failure), 429, retry_after=error.retry_after, close=True)
        if reply is not None:
            core.metrics.response(scope["path"], reply.status)
            await reply.send(send)
            return
        task = asyncio.ensure_future(work(scope, body, send))
        del body
        watch = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
            watch.cancel()
            ended, _ = await asyncio.gather(task, watch, return_exceptions=True)
        if isinstance(ended, asyncio.CancelledError):
            core.metrics.response(scope["path"], "cancelled")
        elif ended is not None:
            raise ended


def refusal(core: Core, error_body: Callable[[Failure], bytes], scope: Scope, draining: bool = True) -> Reply | None:
    """The answer to a client that has no key, or, if ``draining`` counts, that comes too late."""
    key = core.settings.api_key
    if key is not None and not any(hmac.compare_digest(key.encode(), given) for given in _keys(scope)):
        text = "the API key is missing or wrong; send it as Authorization: Bearer KEY"
        return Reply(error_body(Failure(text, 401)), 401, close=True)
    if draining and core.draining:
        return Reply(error_body(Failure("the server is shutting down", 503)), 503, retry_after=5, close=True)
    return None


def _keys(scope: Scope) -> list[bytes]:
    """The keys that a request presents, in OpenAI's way or in Anthropic's."""
    found = []
    for name, value in scope["headers"]:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            found.append(value[7:].strip())
        elif name == b"x-api-key":
            found.append(value.strip())
    return found


async def read_body(scope: Scope, receive: Receive, limit: int, hold: Callable[[int], None]) -> bytes:
    """A request's body.

    Args:
        scope, receive: the request.
        limit: how many bytes it may have.
        hold: is told of each part.

    Raises:
        TooLarge: it has more bytes than ``limit``.
        Overloaded: there is no room for it.
        Disconnected: the client went away.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value[:20]) > limit:
            raise TooLarge
    parts: list[bytes] = []
    size = 0
    while True:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise TooLarge
        hold(len(parts[-1]))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _gone(receive: Receive) -> None:
    """Returns when the client is gone. (A handler is not told by itself, whether it streams or not.)"""
    while (await receive())["type"] != "http.disconnect":
        pass
