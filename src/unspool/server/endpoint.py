"""The way of a request: key, size, fields, prompt; then it runs."""

import asyncio
import hmac
from collections.abc import Callable
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from ..wire.common import Failure
from .checks import BadRequest, read_object
from .core import Core, log
from .prepared import Prepared, prepare
from .protocols import Protocol
from .replies import Reply, failed
from .run import Run

_LONG: Final = 16 * 1024
"""Bytes of a request from which on reading it, its prompt and its grammar take long enough to be done in a thread."""


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
        try:
            prepared = await self._prepare(scope, receive)
        except Disconnected:
            return
        except Exception:
            log.exception("%s: the request could not be read", scope["path"])
            prepared = failed(self._protocol, Failure("the server failed", 500))
        if isinstance(prepared, Reply):
            self._core.metrics.response(scope["path"], prepared.status)
            await prepared.send(send)
            return
        run = Run(self._core, self._protocol, scope["path"], prepared)
        await run.answer(_gone(receive), send)

    async def _prepare(self, scope: Scope, receive: Receive) -> Prepared | Reply:
        refused = refusal(self._core, self._protocol.error_body, scope)
        if refused is not None:
            return refused
        limit = self._core.settings.limits.body
        try:
            body = await read_body(scope, receive, limit)
            if len(body) < _LONG:
                return self._read(body)
            return await asyncio.to_thread(self._read, body)
        except TooLarge:
            failure = Failure(f"the body is larger than {limit:,} bytes", 413)
            return Reply(self._protocol.error_body(failure), 413, close=True)
        except BadRequest as error:
            status = error.status or self._protocol.invalid
            return failed(self._protocol, Failure(str(error), status, error.param))

    def _read(self, body: bytes) -> Prepared:
        core = self._core
        return prepare(self._protocol.read(read_object(body)), core.settings, core.prompts, core.engine.tokenizer)


def refusal(core: Core, error_body: Callable[[Failure], bytes], scope: Scope) -> Reply | None:
    """The answer to a client that has no key, or that comes too late."""
    key = core.settings.api_key
    if key is not None and not any(hmac.compare_digest(key.encode(), given) for given in _keys(scope)):
        text = "the API key is missing or wrong; send it as Authorization: Bearer KEY"
        return Reply(error_body(Failure(text, 401)), 401, close=True)
    if core.draining:
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


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """A request's body.

    Raises:
        TooLarge: it has more bytes than ``limit``.
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
        if not message.get("more_body", False):
            return b"".join(parts)


async def _gone(receive: Receive) -> None:
    """Returns when the client is gone. (A handler is not told by itself, whether it streams or not.)"""
    while (await receive())["type"] != "http.disconnect":
        pass
