"""`create_app`: the ASGI application, a route for each protocol and page."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from .. import __version__
from ..engines import Engine, EngineError
from ..generation.metrics import MEDIA_TYPE, Metrics, added
from ..generation.service import Service, watch
from ..request.prompts import Prompts
from ..request.protocols import (
    AguiProtocol,
    CandleProtocol,
    ChatProtocol,
    CompletionsProtocol,
    MessagesProtocol,
    MindieProtocol,
    ResponsesProtocol,
    TraceProtocol,
    WireProtocol,
)
from ..request.settings import Profile, Settings
from ..store import Store
from ..tools import Tools
from ..wire.common import Failure
from ..wire.encoding import encode
from .background import Background
from .endpoint import Endpoint, ThreadEndpoint, refusal
from .explain import ASKED, prompt
from .guards import Guard, unsupported, with_cors
from .models import Served, by_model, unknown_model
from .page import PageFile, page_routes
from .parse_endpoint import parse
from .protocol_endpoint import CompletionsEndpoint, CountEndpoint, ProtocolEndpoint
from .replies import JSON, ErrorBody, Reply, failed, header, with_id
from .responses import InputTokensEndpoint, ResponsesEndpoint
from .stored import stored_routes
from .tokens_endpoint import detokenize, tokenize, tokenizer_info
from .workers import ServerWorker

if TYPE_CHECKING:
    from ..generation.telemetry import Telemetry

_CHAT: dict[Profile, type[ChatProtocol]] = {
    "openai": ChatProtocol,
    "mindie": MindieProtocol,
    "candle": CandleProtocol,
}

_PATHS = (
    ("POST", "/v1/chat/completions", "OpenAI chat completions"),
    ("POST", "/v1/responses", "OpenAI Responses"),
    ("GET", "/v1/responses/{id}", "a stored response; also DELETE, and POST …/cancel"),
    ("POST", "/v1/conversations", "a conversation; its pages are those of OpenAI"),
    ("POST", "/v1/messages", "Anthropic Messages"),
    ("POST", "/v1/completions", "OpenAI completions: a raw prompt in, raw output out"),
    ("POST", "/v1/messages/count_tokens", "the number of tokens in the prompt; also /v1/responses/input_tokens"),
    ("POST", "/ag-ui", "AG-UI: a RunAgentInput in, its events out"),
    ("POST", "/tokenize", "the tokens of a text, or of a conversation"),
    ("POST", "/detokenize", "the text of tokens"),
    ("POST", "/parse", "raw model output in, a message or events out"),
    ("GET", "/", "this text; in a browser, a page that explains outputs"),
    ("GET", "/v1/models", "the models"),
    ("GET", "/tokenizer_info", "the model's named special tokens"),
    ("GET", "/version", "the server's version"),
    ("GET", "/health", "200 if requests are answered, else 503 and the reason"),
    ("GET", "/metrics", "counts for Prometheus"),
)
"""The overview at ``/``, for people."""
_RUNS = 1.0  # seconds between two looks at the running answers


def _protocols(settings: Settings) -> dict[str, WireProtocol]:
    return {
        "/v1/chat/completions": _CHAT[settings.profile](settings),
        "/v1/completions": CompletionsProtocol(settings),
        "/v1/responses": ResponsesProtocol(settings),
        "/v1/messages": MessagesProtocol(settings),
        "/ag-ui": AguiProtocol(settings),
    }


def _endpoints(service: Service, protocols: Mapping[str, WireProtocol], background: Background) -> dict[str, Endpoint]:
    found: dict[str, Endpoint] = {
        path: ResponsesEndpoint(service, protocol, background)
        if isinstance(protocol, ResponsesProtocol)
        else (CompletionsEndpoint if protocol.raw else ProtocolEndpoint)(service, protocol)
        for path, protocol in protocols.items()
    }
    found["/v1/messages/count_tokens"] = CountEndpoint(service, protocols["/v1/messages"])
    found["/v1/responses/input_tokens"] = InputTokensEndpoint(service, protocols["/v1/responses"])
    found["/tokenize"] = ThreadEndpoint(service, tokenize)
    found["/detokenize"] = ThreadEndpoint(service, detokenize)
    if service.settings.ui:
        found["/ui/chat"] = ProtocolEndpoint(service, TraceProtocol(service.settings))
        found["/ui/prompt"] = ThreadEndpoint(service, prompt)
    return found


def create_app(
    settings: Settings,
    engine: Engine,
    prompts: Prompts | None = None,
    tools: Tools | None = None,
    *,
    others: Sequence[Served] = (),
    worker: ServerWorker | None = None,
    store: Store | None = None,
    telemetry: "Telemetry | None" = None,
) -> Starlette:
    """Make the server as an ASGI application; ``app.state.service`` is what its requests share.

    Args:
        settings: the server's settings.
        engine: generates the outputs; closed when the application ends.
        prompts: the model's chat template.
        tools: the tools that the server runs, for any model; closed when the application ends.
        others: further models. Requests choose with ``model``; those that name none get the first model.
        worker: the role of this process, if it is one of several on one port.
        store: keeps responses and conversations; by default in memory; closed when the application ends.
        telemetry: makes OpenTelemetry's spans (`unspool.generation.telemetry`); closed when the application ends.
    """
    service = _service((Served(settings, engine, prompts), *others), tools, store, telemetry)
    posts = _protocols(settings)
    chat = posts["/v1/chat/completions"]

    def error_body(path: str) -> ErrorBody:
        return next((one for at, one in posts.items() if f"{path}/".startswith(f"{at}/")), chat).error_body

    background = Background()
    endpoints = _endpoints(service, posts, background)
    if others:
        of_models = {one: _endpoints(one, _protocols(one.settings), background) for one in service.models}
        endpoints = by_model(of_models, error_body)
    endpoints["/parse"] = ThreadEndpoint(service, parse)
    files, index = page_routes() if settings.ui else ([], None)
    if settings.ui:
        endpoints |= {f"/ui/{name}": ThreadEndpoint(service, work) for name, work in ASKED.items()}
    app = _App(
        routes=[
            *files,
            *(Route(path, endpoint, methods=["POST"]) for path, endpoint in endpoints.items()),
            *stored_routes(service, background),
            *_Pages(service, chat.error_body, index, worker).routes(),
        ],
        lifespan=_lifespan(service, background),
        exception_handlers={HTTPException: _http_error(posts, error_body)},  # type: ignore[dict-item]
    )
    app.endpoints = endpoints
    if service.sessions is not None:
        from .sessions import SessionRoutes

        app.of_sessions = SessionRoutes(service, service.sessions, error_body, app.route)
    app.guard = Guard(settings.hosts, settings.cors)
    app.for_pages = with_cors(app.answer)
    app.error_body = error_body
    app.state.service = service
    return app


def _service(
    served: Sequence[Served], tools: Tools | None, store: Store | None, telemetry: "Telemetry | None"
) -> Service:
    """The first model's service, which knows the services of the others; each has its own counts."""
    service = Service(*served[0], tools, store, telemetry)
    service.models = (service, *(Service(*other, tools, service.store, telemetry) for other in served[1:]))
    if service.settings.sessions:
        from ..sessions import Sessions

        if any(one.prompts is None for one in service.models):
            raise ValueError("sessions: need the model's chat template")
        sessions = Sessions(service.store)
        for one in service.models:
            one.sessions = sessions
    if served[1:]:
        for one in service.models:
            one.models = service.models
            one.metrics = Metrics(one.settings.dialect.name, one.settings.model)
    return service


def _lifespan(service: Service, background: Background) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """Watch the models while the application runs, and close them, the tools and the store when it ends."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        watches: list[asyncio.Future[Any]] = [asyncio.ensure_future(watch(one.runs, _RUNS)) for one in service.models]
        if service.sessions is not None:
            watches += [asyncio.ensure_future(service.sessions.examine(one)) for one in service.models]
            watches.append(asyncio.ensure_future(service.sessions.keep_storing()))
        try:
            yield
        finally:
            for task in watches:
                task.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
            await background.close()
            for one in service.models:
                one.close()
            await service.tools.aclose()
            for one in service.models:
                await one.engine.close()
            if service.sessions is not None:
                await service.sessions.store_again()
            await asyncio.to_thread(service.store.close)
            if service.telemetry is not None:
                await asyncio.to_thread(service.telemetry.close)

    return lifespan


def _http_error(
    posts: Iterable[str], error_body: Callable[[str], ErrorBody]
) -> Callable[[Request, HTTPException], Awaitable[Response]]:
    """Answer unknown paths and wrong methods, in the form of the path's protocol."""

    async def answer(request: Request, error: HTTPException) -> Response:
        path = request.url.path
        message = f"{request.method} {path}: {error.detail}"
        if error.status_code == 404:
            message += f"; there are {', '.join(posts)}, /parse, /v1/models, /health and /metrics"
        headers = error.headers
        if error.status_code == 405:
            headers = {"Allow": _allowed(request)}
            message += f"; allowed is {headers['Allow']}"
        body = error_body(path)(Failure(message, error.status_code))
        return Response(body, error.status_code, headers, JSON)

    return answer


def _allowed(request: Request) -> str:
    """The methods of a path, of which each may be a route of its own."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for route in routes for method in route.methods}))


class _App(Starlette):
    """Starlette, with streams outside of its middleware, for speed. ``endpoints`` answer POST, by path."""

    endpoints: Mapping[str, ASGIApp] = {}
    guard = Guard()
    of_sessions: ASGIApp | None = None
    for_pages: ASGIApp
    error_body: Callable[[str], ErrorBody]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        refused = self.guard.refusal(scope)
        if refused is not None:
            await failed(self.error_body(scope["path"]), refused, close=True).send(send)
            return
        answer = self.answer if header(scope, b"origin") is None else self.for_pages
        await answer(scope, receive, with_id(scope, send))

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self.of_sessions or self.route)(scope, receive, send)

    async def route(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self.endpoints.get(scope["path"])
        if scope["method"] == "OPTIONS":
            methods = "POST, OPTIONS" if endpoint else "GET, POST, OPTIONS"
            await Response(status_code=204, headers={"allow": methods})(scope, receive, send)
        elif endpoint is None or scope["method"] != "POST":
            await super().__call__(scope, receive, send)
        elif (wrong := unsupported(scope)) is not None:
            await failed(self.error_body(scope["path"]), wrong, close=True).send(send)
        else:
            await endpoint(scope, receive, send)


class _Pages:
    def __init__(
        self, service: Service, error_body: ErrorBody, index: PageFile | None, worker: ServerWorker | None
    ) -> None:
        self._service = service
        self._error_body = error_body
        self._index = index
        self._worker = worker
        self._created = int(time.time())

    def routes(self) -> list[Route]:
        return [
            Route("/", self.home),
            Route("/v1/models", self.models),
            Route("/v1/models/{model:path}", self.model),
            Route("/tokenizer_info", self.tokenizer_info),
            Route("/version", self.version),
            Route("/health", self.health),
            Route("/metrics", self.metrics),
        ]

    async def home(self, request: Request) -> Response | Reply:
        """The page for browsers; otherwise an overview, as JSON if the client accepts that. It needs no key."""
        accept = request.headers.get("accept", "")
        if self._index is not None and "text/html" in accept:
            return await self._index.answer(request)
        settings = self._service.settings
        example = settings.example(str(request.base_url).rstrip("/"))
        if JSON in accept:
            about = {"version": __version__, "model": settings.model, "dialect": settings.dialect.name}
            paths = [{"method": method, "path": path, "what": text} for method, path, text in _PATHS]
            return Reply(encode({"name": "unspool", **about, "paths": paths, "example": example}))
        models = [one.settings for one in self._service.models]
        lines = [
            *(f"unspool {__version__} serves the model {m.model} (dialect {m.dialect.name})." for m in models),
            "",
            *(f"  {method:<5} {path:<26} {text}" for method, path, text in _PATHS),
            "",
            example,
        ]
        return Reply(("\n".join(lines) + "\n").encode(), media_type="text/plain; charset=utf-8")

    async def models(self, request: Request) -> Reply:
        data = [self._entry(service) for service in self._service.models]
        page = {"first_id": data[0]["id"], "last_id": data[-1]["id"], "has_more": False}
        return self._refused(request) or Reply(encode({"object": "list", "data": data, **page}))

    async def model(self, request: Request) -> Reply:
        refused = self._refused(request)
        if refused is not None:
            return refused
        name = request.path_params["model"]
        for service in self._service.models:
            if name == service.settings.model:
                return Reply(encode(self._entry(service)))
        return failed(self._error_body, unknown_model(name, self._service))

    def _entry(self, service: Service) -> dict[str, Any]:
        """A model as ``/v1/models`` lists it, with the fields of OpenAI and vLLM, and those of Anthropic."""
        name, at = service.settings.model, datetime.fromtimestamp(self._created, UTC)
        engine = service.engine
        context, title = getattr(engine, "context", None), getattr(engine, "title", "")  # if the engine knows them
        return {
            "id": name,
            "object": "model",
            "created": self._created,
            "owned_by": "unspool",
            "type": "model",
            "display_name": title if title and isinstance(title, str) else name,
            "created_at": at.isoformat(),
            "lifecycle": "active",
            **({} if context is None else {"max_model_len": context, "max_input_tokens": context}),
        }

    async def tokenizer_info(self, request: Request) -> Reply:
        return self._refused(request) or Reply(encode(tokenizer_info(self._service)))

    async def version(self, request: Request) -> Reply:
        """The server's version; needs no key."""
        return Reply(encode({"version": __version__}))

    async def health(self, request: Request) -> Reply:
        """Whether requests would be answered; needs no key."""
        if self._service.draining:
            return _unavailable("draining", "the server is shutting down")
        models = self._service.models
        faults = [fault for fault in await asyncio.gather(*map(_fault, models)) if fault is not None]
        if len(faults) == len(models):
            return _unavailable("engine", "; ".join(faults))
        return Reply(encode({"status": "degraded", "message": "; ".join(faults)} if faults else {"status": "ok"}))

    async def metrics(self, request: Request) -> Reply:
        refused = self._refused(request, draining=False)
        if refused is not None:
            return refused
        texts = [self._service.counts()] if self._worker is None else await self._worker.counts()
        return Reply(added(texts).encode(), media_type=MEDIA_TYPE)

    def _refused(self, request: Request, draining: bool = True) -> Reply | None:
        return refusal(self._service, self._error_body, request.scope, draining)


async def _fault(service: Service) -> str | None:
    """Why a model's engine cannot generate; ``None`` if it can."""
    try:
        await service.engine.health()
    except EngineError as error:
        return f"{service.settings.model}: {error}" if len(service.models) > 1 else str(error)
    return None


def _unavailable(status: str, message: str) -> Reply:
    return Reply(encode({"status": status, "message": message}), 503)
