"""`Endpoint`: answers the POST requests of a protocol, from the check of the API key to the answer."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.types import Receive, Scope, Send

from ..engines.threads import Awaited
from ..generation.admission import Overloaded
from ..generation.run import Deposit, Run
from ..generation.service import Service, log
from ..grammar import bounds
from ..request.approvals import Approvals
from ..request.chat_request import ChatRequest, check_text
from ..request.exact import Exact
from ..request.fields import BadRequest, Fields, read_object
from ..request.parts.reading import settled, urls
from ..request.prepared import Prepared, prepare
from ..request.protocols import WireProtocol
from ..request.server_tools import Offer
from ..store import StoreError
from ..tools import Listing, Tools
from ..wire.common import Failure
from .own_tools import own_tools
from .replies import ErrorBody, Reply, StreamReply, client_id, failed
from .retries import Retries

if TYPE_CHECKING:
    from ..sessions import Session

SESSION: Final = "unspool.session"
"""The key of a request's session in its scope."""
_LONG: Final = 16 * 1024
"""The size in bytes from which on a request is read in a thread."""


class TooLarge(Exception):
    """A body is larger than allowed."""


class Disconnected(Exception):
    """The client disconnected while it sent its request."""


class Endpoint:
    """An ASGI application that answers the requests of one protocol."""

    def __init__(self, service: Service, protocol: WireProtocol) -> None:
        self._service = service
        self._protocol = protocol
        self._retries = Retries(self._respond)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await answer(self._service, self._protocol.error_body, scope, receive, send, self._answer)

    async def respond(self, scope: Scope, body: bytes, send: Send) -> None:
        """Answer a request whose body was already read."""
        await self._answer(scope, body, send)

    async def _answer(self, scope: Scope, body: bytes, send: Send) -> None:
        session = session_of(scope)
        if session is None:
            await self._respond(None, scope, body, send)
            return
        from ..sessions import Refused

        try:
            await self._retries.answer(session, scope, body, send)
        except Refused as error:
            reply = failed(self._protocol.error_body, Failure(str(error), error.status))
            self._service.metrics.response(scope["path"], reply.status)
            await reply.send(send)

    async def _respond(self, session: "Session | None", scope: Scope, body: bytes, send: Send) -> None:
        async with AsyncExitStack() as closing:
            if session is not None:
                session.enter()
                closing.callback(session.leave)
            with self._service.holding() as hold:
                await self._answer_within(scope, body, send, hold, closing, session)

    async def _answer_within(
        self,
        scope: Scope,
        body: bytes,
        send: Send,
        hold: Callable[[int], None],
        closing: AsyncExitStack,
        session: "Session | None",
    ) -> None:
        """Answer a request.

        Args:
            scope, body, send: the request.
            hold: counts its bytes.
            closing: closes what it opens.
            session: the session that it belongs to.
        """
        protocol = self._protocol
        try:
            fields, deposit = await self._recalled(scope, await self._parse(body))
            hold(deposit.size)
            own = own_tools(self._service.settings, protocol.own_servers(fields), self._service.tools)
            closing.push_async_callback(own.aclose)
            offer = await self._offer(scope, fields, own)
            prepared = await self._prepare(len(body) + deposit.size, fields, offer, hold, deposit.turn, session)
            del body, fields
        except BadRequest as error:
            status = error.status or protocol.invalid_status
            reply = failed(protocol.error_body, Failure(str(error), status, error.param, code=error.code))
        except Overloaded as error:
            reply = failed(protocol.error_body, Failure(str(error), 429, retry_after=error.retry_after))
        except StoreError as error:
            reply = failed(protocol.error_body, Failure(str(error), 503))
        except Exception:
            log.exception("%s: the request could not be read", scope["path"])
            reply = failed(protocol.error_body, Failure("internal server error", 500))
        else:
            tools = Tools([*self._service.tools.servers.values(), *own.servers.values()])
            run = Run(self._service, protocol, prepared, client_id(scope), tools, deposit, session)
            await self._carry_out(run, deposit, closing, scope, send)
            return
        self._service.answered(scope["path"], reply.status)
        await reply.send(send)

    async def _carry_out(self, run: Run, deposit: Deposit, closing: AsyncExitStack, scope: Scope, send: Send) -> None:
        """Run a request."""
        with self._service.running(run):
            await self._run(run, scope, send)

    async def _recalled(self, scope: Scope, fields: Fields) -> tuple[Fields, Deposit]:
        """The request with what is stored of its conversation, and the place for its answer.

        Raises:
            BadRequest: the store has nothing of that.
            StoreError: the store cannot be read.
        """
        return fields, Deposit()

    async def _parse(self, body: bytes) -> Fields:
        """Decode the JSON of a request, in a thread if it is long."""
        if len(body) < _LONG:
            return read_object(body)
        return await self._service.in_thread(len(body), lambda _: read_object(body))

    async def _offer(self, scope: Scope, fields: Fields, own: Tools) -> Offer:
        """The server's tools for this request."""
        service = self._service
        labels = self._protocol.servers(fields)
        known = service.tools.servers if labels is None else service.tools.servers.keys() & set(labels)
        listing, of_own = Listing(), Listing()
        if known:
            listing = await service.tools.list_tools(labels)
        if own.servers:
            of_own = await own.list_tools()
        listing, of_own = await self._usable(listing), await self._usable(of_own)
        caller = caller_of(service, scope)
        approvals = Approvals(service.approval_key, caller)
        return Offer(listing, of_own, tuple(service.tools.servers), approvals, _betas(scope), caller)

    async def _usable(self, listing: Listing) -> Listing:
        """The listing without tools for whose calls no grammar can be made: one would fail each request that needs a
        grammar, whoever sends it."""
        if not any(tool.kind == "mcp" for tool in listing.tools):
            return listing
        writable = self._service.constraints.writable
        kept = await self._service.in_thread(
            0, lambda awaited: tuple(t for t in listing.tools if t.kind != "mcp" or writable(t, awaited))
        )
        return msgspec.structs.replace(listing, tools=kept)

    async def _run(self, run: Run, scope: Scope, send: Send) -> None:
        stream = StreamReply(send, run.id) if run.streamed else None
        failure = await run.generate(stream)
        if stream is not None and stream.begun:
            self._service.answered(scope["path"], "failed" if failure else 200)
            return
        if failure is not None:
            reply = failed(self._protocol.error_body, failure, run.id)
        else:
            reply = Reply(run.whole(), request_id=run.id)
        self._service.answered(scope["path"], reply.status)
        await reply.send(send)

    async def _prepare(
        self,
        size: int,
        fields: Fields,
        offer: Offer,
        hold: Callable[[int], None],
        turn: Exact | None,
        session: "Session | None",
    ) -> Prepared:
        """Prepare a request, in a thread if it is long, or if grammars must be read or derived."""
        service, limits = self._service, self._service.settings.limits
        turns = service.turns if session is None else session.tree(service)

        def read(awaited: Awaited) -> ChatRequest:
            with bounds.awaited(awaited.check):
                request = self._protocol.read(fields, offer)
            request = msgspec.structs.replace(request, caller=offer.caller, stored=turn)
            return request if session is None else session.adapted(request)

        def make(request: ChatRequest, fetched: Mapping[str, bytes], awaited: Awaited) -> Prepared:
            engine = service.engine
            request = settled(request, fetched, limits)
            if fetched or size > limits.text:  # a shorter request cannot have so many characters
                check_text(request, limits)
            return prepare(request, service.settings, turns, engine.tokenizer, service.constraints, awaited)

        def whole(awaited: Awaited) -> ChatRequest | Prepared:
            request = read(awaited)
            return request if urls(request, limits) else make(request, {}, awaited)

        if size >= _LONG or _declares(fields):
            found = await service.in_thread(size, whole)
            if isinstance(found, Prepared):
                return found
            request = found
        else:
            request = read(Awaited())
        fetched = await service.fetched(request)
        hold(sum(map(len, fetched.values())))
        if not fetched and not request.tools and request.response_format is None and service.turns is None:
            return make(request, fetched, Awaited())
        return await service.in_thread(size, lambda awaited: make(request, fetched, awaited))


def _declares(fields: Fields) -> bool:
    """Whether a request declares tools, whose grammars may take time to read."""
    items = fields.raw.get("input")
    return fields.has("tools") or (
        isinstance(items, list) and any(isinstance(item, dict) and "tools" in item for item in items)
    )


def _betas(scope: Scope) -> frozenset[str]:
    """The betas of Anthropic's protocol that a client names."""
    named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"anthropic-beta"]
    return frozenset(beta.strip() for value in named for beta in value.split(",") if beta.strip())


async def answer(
    service: Service,
    error_body: ErrorBody,
    scope: Scope,
    receive: Receive,
    send: Send,
    work: Callable[[Scope, bytes, Send], Awaitable[None]],
) -> None:
    """Read a request's body, and run the work that answers it, which is cancelled if the client disconnects.

    Args:
        service: what all requests share.
        error_body: writes the body of an answer that is an error.
        scope, receive, send: the request.
        work: answers it, given its body.
    """
    with service.traced(scope):
        await _answer(service, error_body, scope, receive, send, work)


async def _answer(
    service: Service,
    error_body: ErrorBody,
    scope: Scope,
    receive: Receive,
    send: Send,
    work: Callable[[Scope, bytes, Send], Awaitable[None]],
) -> None:
    reply = refusal(service, error_body, scope)
    limit = service.settings.limits.body
    with service.holding() as hold:
        try:
            body = b"" if reply else await read_body(scope, receive, limit, hold)
        except Disconnected:
            return
        except TooLarge:
            failure = Failure(f"the body is larger than {limit:,} bytes", 413)
            reply = failed(error_body, failure, close=True)
        except Overloaded as error:
            reply = failed(error_body, Failure(str(error), 429, retry_after=error.retry_after), close=True)
        if reply is not None:
            service.answered(scope["path"], reply.status)
            await reply.send(send)
            return
        task = asyncio.ensure_future(work(scope, body, send))
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


def session_of(scope: Scope) -> "Session | None":
    """The session that a request belongs to, which `unspool.server.sessions` has found and admitted."""
    found: Session | None = scope.get(SESSION)
    return found


def refusal(service: Service, error_body: ErrorBody, scope: Scope, draining: bool = True) -> Reply | None:
    """The answer to a client without the API key, or (with ``draining``) to a request during the shutdown."""
    key = service.settings.api_key
    if (
        key is not None
        and session_of(scope) is None
        and not any(hmac.compare_digest(key.encode(), given) for given in keys_of(scope))
    ):
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


async def read_body(scope: Scope, receive: Receive, limit: int, hold: Callable[[int], None]) -> bytes:
    """Read the body of a request.

    Args:
        scope, receive: the request.
        limit: how many bytes it may have.
        hold: called with the size of each part, to count it.

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


async def _disconnect(receive: Receive) -> None:
    """Wait until the client disconnects, of which ASGI does not notify a handler."""
    while (await receive())["type"] != "http.disconnect":
        pass
