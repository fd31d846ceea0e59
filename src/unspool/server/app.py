"""The ASGI application: which path speaks which protocol."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from .. import __version__
from ..engines import Engine, EngineError
from ..wire.common import Failure
from ..wire.encoding import encode
from .checks import shown
from .core import Core
from .cors import Origins, dressed, header, preflight
from .endpoint import Endpoint, refusal
from .metrics import MEDIA_TYPE
from .parsing import ParseEndpoint
from .protocols import (
    AguiProtocol,
    CandleProtocol,
    ChatProtocol,
    MessagesProtocol,
    MindieProtocol,
    Protocol,
    ResponsesProtocol,
)
from .replies import JSON, Reply
from .settings import Profile, Settings

if TYPE_CHECKING:
    from .prompts import Prompts

_CHAT: dict[Profile, type[ChatProtocol]] = {
    "openai": ChatProtocol,
    "mindie": MindieProtocol,
    "candle": CandleProtocol,
}


_PATHS = (
    ("POST", "/v1/chat/completions", "OpenAI chat completions"),
    ("POST", "/v1/responses", "OpenAI Responses"),
    ("POST", "/v1/messages", "Anthropic Messages"),
    ("POST", "/ag-ui", "AG-UI: a RunAgentInput in, its events out"),
    ("POST", "/parse", "raw model output in, a message or events out"),
    ("GET", "/v1/models", "the model"),
    ("GET", "/health", "200 where requests are answered, else 503 and why"),
    ("GET", "/metrics", "counts for Prometheus"),
)
"""What a person is told of at ``/``."""


def create_app(settings: Settings, engine: Engine, prompts: "Prompts | None" = None) -> Starlette:
    """The server as an ASGI application; ``app.state.core`` is what its requests share.

    Args:
        settings: what holds.
        engine: what generates; it is closed when the application ends.
        prompts: the model's chat template.
    """
    core = Core(settings, engine, prompts)
    chat = _CHAT[settings.profile](settings)
    posts: dict[str, Protocol] = {
        "/v1/chat/completions": chat,
        "/v1/responses": ResponsesProtocol(settings),
        "/v1/messages": MessagesProtocol(settings),
        "/ag-ui": AguiProtocol(settings),
    }
    pages = _Pages(core, chat)
    endpoints = {path: Endpoint(core, protocol) for path, protocol in posts.items()}
    routes = [Route(path, endpoint, methods=["POST"]) for path, endpoint in endpoints.items()]
    routes += [
        Route("/parse", ParseEndpoint(core), methods=["POST"]),
        Route("/", pages.home),
        Route("/v1/models", pages.models),
        Route("/v1/models/{model:path}", pages.model),
        Route("/health", pages.health),
        Route("/metrics", pages.metrics),
    ]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        patrol = asyncio.ensure_future(core.patrol())
        try:
            yield
        finally:
            patrol.cancel()
            with suppress(asyncio.CancelledError):
                await patrol
            core.close()
            await engine.close()

    errors: Any = {HTTPException: _http_error(posts, chat)}
    app = _App(routes=routes, lifespan=lifespan, exception_handlers=errors)
    app.endpoints = endpoints
    app.origins = Origins(settings.cors)
    app.error_body = lambda path, failure: posts.get(path, chat).error_body(failure)
    app.state.core = core
    return app


def _http_error(posts: dict[str, Protocol], other: Protocol) -> Callable[[Request, HTTPException], Awaitable[Response]]:
    """What answers unknown paths and wrong methods, in the shape of the path's protocol."""

    async def answer(request: Request, error: HTTPException) -> Response:
        path = request.url.path
        message = f"{request.method} {path}: {error.detail}"
        if error.status_code == 404:
            message += f"; there are {', '.join(posts)}, /parse, /v1/models, /health and /metrics"
        body = posts.get(path, other).error_body(Failure(message, error.status_code))
        return Response(body, error.status_code, error.headers, JSON)

    return answer


class _App(Starlette):
    """Starlette, but for a shorter way to what streams: its middleware would have a part in every chunk.

    Attributes:
        endpoints: what answers posts to a path.
        origins: whose pages may ask.
        error_body: the body of an error, in the shape of a path's protocol.
    """

    endpoints: Mapping[str, ASGIApp] = {}
    origins = Origins(())
    error_body: Callable[[str, Failure], bytes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See `Starlette`."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        origin = header(scope, b"origin")
        if origin is not None and not self.origins.allow(origin):
            text = f"pages of {shown(origin)} may not use the server; --cors ORIGIN lets them"
            body = self.error_body(scope["path"], Failure(text, 403))
            await Reply(body, 403, close=True).send(send)
            return
        send = dressed(scope, send, origin)
        endpoint = self.endpoints.get(scope["path"])
        if scope["method"] == "OPTIONS":
            await preflight(scope, send, ("POST", "OPTIONS") if endpoint else ("GET", "POST", "OPTIONS"))
        elif endpoint is None or scope["method"] != "POST":
            await super().__call__(scope, receive, send)
        else:
            await endpoint(scope, receive, send)


class _Pages:
    """What is asked for with GET."""

    def __init__(self, core: Core, protocol: Protocol) -> None:
        self._core = core
        self._protocol = protocol
        model = core.settings.model
        self._model = {"id": model, "object": "model", "created": int(time.time()), "owned_by": "unspool"}

    async def home(self, request: Request) -> Response:
        """What there is, for a person who opens the address; asked for without a key."""
        settings = self._core.settings
        lines = [
            f"unspool {__version__} serves the model {settings.model} (dialect {settings.dialect.name}).",
            "",
            *(f"  {method:<5} {path:<22} {text}" for method, path, text in _PATHS),
            "",
            settings.example(str(request.base_url).rstrip("/")),
        ]
        return Response("\n".join(lines) + "\n", media_type="text/plain")

    async def models(self, request: Request) -> Response:
        """The one model."""
        return self._refused(request) or Response(encode({"object": "list", "data": [self._model]}), media_type=JSON)

    async def model(self, request: Request) -> Response:
        """The model, by its name."""
        refused = self._refused(request)
        if refused is not None:
            return refused
        name = request.path_params["model"]
        if name != self._model["id"]:
            message = f"the model {name!r} is not served; it is {self._model['id']!r}"
            return Response(self._protocol.error_body(Failure(message, 404)), 404, media_type=JSON)
        return Response(encode(self._model), media_type=JSON)

    async def health(self, request: Request) -> Response:
        """Whether requests would be answered; asked for without a key."""
        if self._core.draining:
            return _told("draining", "the server is shutting down")
        try:
            await self._core.engine.health()
        except EngineError as error:
            return _told("engine", str(error))
        return Response(encode({"status": "ok"}), media_type=JSON)

    async def metrics(self, request: Request) -> Response:
        """Counts for Prometheus."""
        return self._refused(request, draining=False) or Response(
            self._core.metrics.text(self._core.gauges()), media_type=MEDIA_TYPE
        )

    def _refused(self, request: Request, draining: bool = True) -> Response | None:
        reply: Reply | None = refusal(self._core, self._protocol.error_body, request.scope, draining)
        return None if reply is None else Response(reply.body, reply.status, media_type=JSON)


def _told(status: str, message: str) -> Response:
    return Response(encode({"status": status, "message": message}), 503, media_type=JSON)
