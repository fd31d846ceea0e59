"""The endpoints of protocols: `ProtocolEndpoint` generates an answer, `CountEndpoint` counts the tokens of a prompt."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
from starlette.types import Scope, Send

from ..engines.threads import Awaited
from ..generation.run import Deposit, Run
from ..generation.service import Service
from ..regex import Regex
from ..request.approvals import Approvals
from ..request.chat_request import Attempt, ChatRequest, check_text
from ..request.fields import BadRequest, Fields, read_object
from ..request.parts.reading import settled, urls
from ..request.prepared import Prepared, prepare, with_edits
from ..request.protocols import CompletionsProtocol, WireProtocol
from ..request.raw import prepare_raw, with_ids
from ..request.server_tools import Offer, OwnServer
from ..tokens import counted
from ..tools import Listing, Tools, ToolServer
from ..wire.encoding import encode
from .endpoint import Endpoint, caller_of, session_of
from .replies import Reply, StreamReply, client_id, failed, header
from .retries import ATTEMPT, Retries

if TYPE_CHECKING:
    from ..sessions import Session

_EDGE: Final = Regex(r" *([A-Za-z][A-Za-z0-9_.-]{0,63})=([A-Za-z0-9_.-]{1,128}) *")
_EDGES: Final = 16
_MOST_SERVERS: Final = 16  # how many servers a request may name by address


class Incoming(NamedTuple):
    """A request whose JSON was read."""

    # fields, size: its fields and bytes, with what is stored of its conversation.
    fields: Fields
    size: int
    offer: Offer
    hold: Callable[[int], None]  # counts further bytes of it
    deposit: Deposit  # keeps its answer
    session: "Session | None"
    edges: list[tuple[str, str]]  # how it is related to other calls of the session, as the agent declares
    attempt: Attempt


class _OfProtocol(Endpoint):
    def __init__(self, service: Service, protocol: WireProtocol) -> None:
        super().__init__(service, protocol.error_body, protocol.invalid_status)
        self._protocol = protocol

    async def _recalled(self, scope: Scope, fields: Fields) -> tuple[Fields, Deposit]:
        """The request with what is stored of its conversation, and the place for its answer."""
        return fields, Deposit()

    def _own_tools(self, fields: Fields) -> Tools:
        """The servers that a request adds to the operator's; no connection is made yet. A label of the operator's means
        its server. `BadRequest` if they are not allowed, not https, or labels repeat."""
        operators = self._service.tools.servers
        own = [one for one in self._protocol.own_servers(fields) if one.label not in operators]
        if own and not self._service.settings.own_servers:
            known = ", ".join(operators) or "none: the server has no tools"
            text = f"tool servers of requests are not allowed here; allowed are those of the server: {known}"
            raise BadRequest(own[0].field, text)
        if len(own) > _MOST_SERVERS:
            raise BadRequest(own[-1].field, f"{len(own)} tool servers; allowed are {_MOST_SERVERS}")
        made = [_server(one) for one in own]
        try:
            Tools([*operators.values(), *made])  # an answer may use all of them
            return Tools(made)
        except ValueError as error:
            raise BadRequest(own[-1].field, str(error)) from None

    async def _offer(self, scope: Scope, fields: Fields, own: Tools) -> Offer:
        service = self._service
        labels = self._protocol.servers(fields)
        known = service.tools.servers if labels is None else service.tools.servers.keys() & set(labels)
        listing = await service.tools.list_tools(labels) if known else Listing()
        of_own = await own.list_tools() if own.servers else Listing()
        listing = await self._usable(Listing((*listing.tools, *of_own.tools), listing.failures | of_own.failures))
        caller = caller_of(service, scope)
        approvals = Approvals(service.approval_key, caller)
        return Offer(listing, own.servers, service.tools.servers, approvals, _betas(scope), caller)

    async def _usable(self, listing: Listing) -> Listing:
        """The listing without tools for whose calls no grammar can be made, which would fail requests that need one."""
        if not any(tool.kind == "mcp" for tool in listing.tools):
            return listing
        writable = self._service.constraints.writable
        kept = await self._service.in_thread(
            0, lambda _: tuple(t for t in listing.tools if t.kind != "mcp" or writable(t))
        )
        return msgspec.structs.replace(listing, tools=kept)

    def _request(self, fields: Fields, offer: Offer, deposit: Deposit) -> ChatRequest:
        request = self._protocol.read(fields, offer)
        return msgspec.structs.replace(request, caller=offer.caller, stored=deposit.turn)


class ProtocolEndpoint(_OfProtocol):
    """An ASGI application that generates the answers of one protocol."""

    def __init__(self, service: Service, protocol: WireProtocol) -> None:
        super().__init__(service, protocol)
        self._retries = Retries(self._respond)

    async def respond(self, scope: Scope, body: bytes, send: Send) -> None:
        session = session_of(scope)
        try:
            if session is None:
                await self._respond(None, scope, body, send)
            else:
                await self._retries.answer(session, scope, body, send)
        except BadRequest as error:  # the session takes no request now
            await self._send(self._refused(error, scope), scope, send)

    async def _respond(self, session: "Session | None", scope: Scope, body: bytes, send: Send) -> bool:
        """Answer a request, and return whether that ended without an error."""
        async with AsyncExitStack() as closing:
            if session is not None:
                session.enter()
                closing.callback(session.leave)
            hold = closing.enter_context(self._service.holding())
            try:
                run = await self._run(scope, body, hold, closing, session)
            except Exception as error:
                await self._send(self._refused(error, scope), scope, send)
                return False
            return await self._carry_out(run, closing, scope, send)

    async def _run(
        self,
        scope: Scope,
        body: bytes,
        hold: Callable[[int], None],
        closing: AsyncExitStack,
        session: "Session | None",
    ) -> Run:
        """Read a request: its bytes are counted by ``hold``, and ``closing`` closes what it opens."""
        service = self._service
        fields, deposit = await self._recalled(scope, await self._read(body, read_object))
        hold(deposit.size)
        own = self._own_tools(fields)
        closing.push_async_callback(own.aclose)
        offer = await self._offer(scope, fields, own)
        size = len(body) + deposit.size
        attempt = scope.get(ATTEMPT, Attempt())
        prepared = await self._prepare(Incoming(fields, size, offer, hold, deposit, session, _edges(scope), attempt))
        tools = Tools([*service.tools.servers.values(), *own.servers.values()])
        return Run(service, self._protocol, prepared, client_id(scope), tools, deposit, session)

    async def _carry_out(self, run: Run, closing: AsyncExitStack, scope: Scope, send: Send) -> bool:
        """Send the answer of a run; see `_respond`."""
        stream = StreamReply(send, run.id) if run.streamed else None
        with self._service.running(run):
            failure = await run.generate(stream)
            if stream is not None and stream.begun:
                self._service.answered(scope["path"], "failed" if failure else 200)
                return failure is None
            if failure is None:
                reply = Reply(run.body, request_id=run.id)
            else:
                reply = failed(self._error_body, failure, run.id)
            await self._send(reply, scope, send)
            return failure is None

    async def _prepare(self, incoming: Incoming) -> Prepared:
        """Prepare a request, in a thread; what its parts name is fetched in between."""
        service, limits = self._service, self._service.settings.limits
        size, session = incoming.size, incoming.session
        turns = service.turns if session is None else session.tree(service)

        def make(request: ChatRequest, fetched: Mapping[str, bytes], awaited: Awaited) -> Prepared:
            request = settled(request, fetched, limits)
            if fetched or size > limits.text:  # a shorter request cannot have so many characters
                check_text(request, limits)
            return prepare(request, service.settings, turns, service.engine.tokenizer, service.constraints, awaited)

        def read(awaited: Awaited) -> ChatRequest | Prepared:
            request = self._request(incoming.fields, incoming.offer, incoming.deposit)
            if session is not None:
                request = session.adapted(request, incoming.edges, incoming.attempt)
            return request if urls(request, limits) else make(request, {}, awaited)

        found = await service.in_thread(size, read)
        if isinstance(found, Prepared):
            return found
        fetched = await service.fetched(found)
        incoming.hold(sum(map(len, fetched.values())))
        return await service.in_thread(size, lambda awaited: make(found, fetched, awaited))


class CompletionsEndpoint(ProtocolEndpoint):
    """An ASGI application for ``/v1/completions``, for prompts that clients write themselves."""

    async def _prepare(self, incoming: Incoming) -> Prepared:
        protocol, engine, prompts = self._protocol, self._service.engine, self._service.prompts
        session = incoming.session
        eos = "" if prompts is None else prompts.tokenizer.special.get("eos_token", "")
        assert isinstance(protocol, CompletionsProtocol)

        def make(awaited: Awaited) -> Prepared:
            request = protocol.read(incoming.fields)
            if session is not None:
                if request.echo:
                    raise BadRequest("echo", "is not possible in a session, which records what is sampled")
                request = session.adapted(request, incoming.edges, incoming.attempt)
                if engine.tokenizer is not None:
                    request = with_ids(request, engine.tokenizer, awaited)
            return prepare_raw(request, engine, eos)

        return await self._service.in_thread(incoming.size, make)


class CountEndpoint(_OfProtocol):
    """An ASGI application that counts the tokens of the prompt, such as Anthropic's ``/v1/messages/count_tokens``."""

    assumed: Mapping[str, Any] = {"max_tokens": 1}  # fields that a request may omit here
    named: Mapping[str, Any] = {}  # fields of the answer that say what it is

    async def _reply(self, scope: Scope, body: bytes) -> Reply:
        service = self._service
        fields, deposit = await self._recalled(scope, await self._read(body, read_object))
        size = len(body) + deposit.size
        own = self._own_tools(fields)
        try:
            offer = await self._offer(scope, fields, own)
            asked = Fields({**self.assumed, **fields.raw, "compaction": None})  # counted is what is there before it
            request = await service.in_thread(size, lambda _: self._request(asked, offer, deposit))
            request = msgspec.structs.replace(request, begun="")  # clients also count what ends in an answer
            fetched = await service.fetched(request)
            return Reply(encode(await service.in_thread(size, lambda awaited: self._count(request, fetched, awaited))))
        finally:
            await own.aclose()

    def _count(self, request: ChatRequest, fetched: Mapping[str, bytes], awaited: Awaited) -> dict[str, Any]:
        service = self._service
        request = settled(request, fetched, service.settings.limits)
        tokenizer = service.engine.tokenizer
        if service.turns is None or tokenizer is None:
            raise BadRequest(None, "the server has no tokenizer for the model, so it cannot count tokens", 501)
        check_text(request, service.settings.limits)
        awaited.check()
        before: dict[str, Any] = {}
        if request.edits:
            before = {"context_management": {"original_input_tokens": service.turns.count(request, awaited)}}
            request = with_edits(request, service.turns, awaited)
        prompt = service.turns.prompt(request, awaited)
        awaited.check()
        ids = prompt.ids
        tokens = counted(tokenizer, prompt.prompt, awaited.check) if ids is None else len(ids)
        tokens += sum(medium.tokens for medium in service.turns.media(prompt.prompt, request))
        return {**self.named, "input_tokens": tokens, **before}


def _edges(scope: Scope) -> list[tuple[str, str]]:
    """How an agent declares a request to be related to other calls of its session: the header ``X-Session-Edge``, with
    ``TYPE=ID``, or several of these separated by commas."""
    given = header(scope, b"x-session-edge")
    found = [] if given is None else [_EDGE.fullmatch(one) for one in given.split(",", _EDGES)]
    if None in found or len(found) > _EDGES:
        raise BadRequest("X-Session-Edge", f"must be TYPE=ID, or up to {_EDGES} of these separated by commas", 400)
    return [(one[1], one[2]) for one in found if one is not None]


def _betas(scope: Scope) -> frozenset[str]:
    """The betas of Anthropic's protocol that a client names."""
    named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"anthropic-beta"]
    return frozenset(beta.strip() for value in named for beta in value.split(",") if beta.strip())


def _server(asked: OwnServer) -> ToolServer:
    """A tool server that a request itself names."""
    try:
        parts = urlsplit(asked.url)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or parts.scheme != "https":
        raise BadRequest(asked.field, "must be the https address of a tool server")
    try:
        from ..tools.mcp import MCPToolServer
        from ..tools.targets import Target
    except ImportError:
        raise BadRequest(asked.field, "this server has no client for tool servers; install the extra mcp") from None
    return MCPToolServer(asked.label, Target((("http", asked.url), ("sse", asked.url)), asked.headers, public=True))
