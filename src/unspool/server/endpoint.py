"""`Endpoint`: answers POST requests, from the check of the API key to the answer, and what each of them needs."""

import asyncio
import hmac
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from ..engines import EngineError
from ..engines.threads import Awaited
from ..generation.admission import Overloaded
from ..generation.service import Service, log
from ..request.fields import BadRequest, Fields, read_object
from ..store import StoreError
from ..wire.chat import error_body as openai_error
from ..wire.common import Failure
from .replies import ErrorBody, Reply, failed

if TYPE_CHECKING:
    from ..sessions import Session

_T = TypeVar("_T")
_FIELDS: Final = 100
SESSION: Final = "unspool.session"  # the key of a request's session in its scope
LONG: Final = 16 * 1024  # the size in bytes from which on a request is read in a thread


class Endpoint:
    """An ASGI application that answers POST requests; ``invalid`` is the HTTP status for a wrong field."""

    def __init__(self, service: Service, error_body: ErrorBody, invalid: int = 400) -> None:
        self._service = service
        self._error_body = error_body
        self._invalid = invalid

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read a request's body, and answer it, unless the client disconnects."""
        service = self._service
        limits = service.settings.limits
        with service.traced(scope), service.holding() as hold:
            reply = refusal(service, self._error_body, scope)
            try:
                body = b"" if reply else await read_body(scope, receive, min(limits.body, limits.held), hold)
            except ClientDisconnect:
                return
            except (BadRequest, Overloaded) as error:
                reply = failed(self._error_body, failure_of(error, scope), close=True)
            if reply is not None:
                await self._send(reply, scope, send)
                return
            task = asyncio.ensure_future(self.respond(scope, body, send))
            del body
            watch = asyncio.ensure_future(_disconnect(receive))
            try:
                await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                task.cancel()
                watch.cancel()
                ended, _ = await asyncio.gather(task, watch, return_exceptions=True)
            if isinstance(ended, asyncio.CancelledError):
                service.answered(scope["path"], "cancelled")
            elif ended is not None:
                raise ended

    async def _read(self, body: bytes, read: Callable[[bytes], _T]) -> _T:
        """Read a body, in a thread if it is long."""
        return read(body) if len(body) < LONG else await self._service.in_thread(len(body), lambda _: read(body))

    async def respond(self, scope: Scope, body: bytes, send: Send) -> None:
        """Answer a request whose body was read: with a whole answer, or the error that it ends with."""
        try:
            reply = await self._reply(scope, body)
        except Exception as error:
            reply = self._refused(error, scope)
        await self._send(reply, scope, send)

    async def _reply(self, scope: Scope, body: bytes) -> Reply:
        """The whole answer, if `respond` does not stream one; for its errors see `failure_of`."""
        raise NotImplementedError

    def _refused(self, error: Exception, scope: Scope) -> Reply:
        return failed(self._error_body, failure_of(error, scope, self._invalid))

    async def _send(self, reply: Reply, scope: Scope, send: Send) -> None:
        self._service.answered(scope["path"], reply.status)
        await reply.send(send)


Work = Callable[[Service, Fields, Awaited], bytes]
"""Computes the body of an answer from the fields of a request. It may raise `BadRequest` or `Abandoned`."""


class ThreadEndpoint(Endpoint):
    """Computes its answers in a thread, since they take time, and streams must not wait for them."""

    def __init__(self, service: Service, work: Work) -> None:
        super().__init__(service, openai_error)
        self._work = work

    async def _reply(self, scope: Scope, body: bytes) -> Reply:
        def work(awaited: Awaited) -> bytes:
            return self._work(self._service, read_object(body), awaited)

        return Reply(await self._service.aside(len(body), work))


def failure_of(error: Exception, scope: Scope, invalid: int = 400) -> Failure:
    """What a client gets to know of an error; ``invalid`` is the status for a wrong field. Other errors are logged."""
    if isinstance(error, BadRequest):
        return Failure(str(error), error.status or invalid, error.param, code=error.code)
    if isinstance(error, Overloaded):
        return Failure(str(error), 429, retry_after=error.retry_after)
    if isinstance(error, EngineError):  # its tokenizer may be the engine's
        return Failure(str(error), error.status, error.param, code=error.code, retry_after=error.retry_after)
    if isinstance(error, StoreError):
        if error.status >= 500:
            log.error("%s: %s", scope["path"], error)
        return Failure(str(error), error.status)
    if isinstance(error, RecursionError):  # JSON may nest deeper than Python functions may
        return Failure("the request is nested too deeply", invalid)
    log.error("%s: the request failed", scope["path"], exc_info=error)
    return Failure("internal server error", 500)


def session_of(scope: Scope) -> "Session | None":
    """The session that a request belongs to, which `unspool.server.sessions` has found and admitted."""
    found: Session | None = scope.get(SESSION)
    return found


def refusal(service: Service, error_body: ErrorBody, scope: Scope, draining: bool = True) -> Reply | None:
    """The answer to a client without the API key, or (with ``draining``) to a request during the shutdown."""
    key = service.settings.api_key
    if key is not None and session_of(scope) is None and not has_key(scope, key):
        text = "the API key is missing or wrong; send it as Authorization: Bearer KEY"
        return failed(error_body, Failure(text, 401), close=True)
    if draining and service.draining:
        return failed(error_body, Failure("the server is shutting down", 503, retry_after=5), close=True)
    return None


def caller_of(service: Service, scope: Scope) -> bytes:
    """The API key of a client: that of its session, or the one that is required, whatever else the client sent."""
    session = session_of(scope)
    key = service.settings.api_key if session is None else session.about.key
    return next(iter(keys_of(scope)), b"") if key is None else key.encode()


def keys_of(scope: Scope) -> list[bytes]:
    """The API keys of a request, sent as OpenAI or Anthropic do."""
    found = []
    for name, value in scope["headers"]:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            found.append(value[7:].strip())
        elif name == b"x-api-key":
            found.append(value.strip())
    return found


def has_key(scope: Scope, key: str) -> bool:
    """Whether one of the API keys of a request is this one."""
    return any(hmac.compare_digest(key.encode(), given) for given in keys_of(scope))


def query_of(scope: Scope) -> dict[str, str]:
    """The query of a request; a `BadRequest` if it has very many fields."""
    try:
        return dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=_FIELDS))
    except ValueError:
        raise BadRequest(None, f"the query has more than {_FIELDS} fields", 400) from None


def integer_of(query: Mapping[str, str], name: str, low: int, high: int, default: _T) -> int | _T:
    """An integer of a query, between two bounds, inclusive; a `BadRequest` if it is none."""
    given = query.get(name)
    if given is None:
        return default
    if not given.isascii() or not given.isdigit() or not low <= int(given[:12]) <= high:
        raise BadRequest(name, f"{given[:80]!r} is not an integer between {max(low, 0):,} and {high:,}")
    return int(given[:12])


async def read_body(scope: Scope, receive: Receive, limit: int, hold: Callable[[int], None]) -> bytes:
    """Read the body of a request, and ``hold`` the size of each part. `BadRequest` if it has more bytes than ``limit``,
    `Overloaded` if there is no room for it, `ClientDisconnect` if the client went away."""
    too_large = BadRequest(None, f"the body is larger than {limit:,} bytes", 413)
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value[:20]) > limit:
            raise too_large
    parts: list[bytes] = []
    size = 0
    while True:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise too_large
        hold(len(parts[-1]))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _disconnect(receive: Receive) -> None:
    """Wait until the client disconnects, of which ASGI does not notify a handler."""
    while (await receive())["type"] != "http.disconnect":
        pass
