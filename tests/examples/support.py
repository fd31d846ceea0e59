"""The servers for the examples: the builtin model in this process, and one with vLLM's raw endpoint."""

import asyncio
import contextlib
import importlib.util
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ..server.support import until

EXAMPLES = Path(__file__).parents[2] / "examples"
RAW = (
    "One city.</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
    '{"city": "Paris"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
)
"""The output of the raw endpoint, in the builtin model's format, after a prompt that opened the reasoning."""


def example(name: str) -> ModuleType:
    """Import an example as a module, without running its `main`."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def raw_endpoint() -> Iterator[tuple[str, list[Any]]]:
    """A server that answers every prompt with `RAW`, as vLLM streams it. Yields its address and the requests it got."""
    asked: list[Any] = []

    async def models(request: Request) -> Response:
        return JSONResponse({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]})

    async def completions(request: Request) -> Response:
        asked.append(await request.json())

        async def stream() -> AsyncIterator[bytes]:
            for at in range(0, len(RAW), 7):
                yield _said(RAW[at : at + 7], None)
                await asyncio.sleep(0)
            yield _said("", "stop") + b"data: [DONE]\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def health(request: Request) -> Response:
        return Response()

    routes = [
        Route("/v1/models", models),
        Route("/v1/completions", completions, methods=["POST"]),
        Route("/health", health),
    ]
    with running(Starlette(routes=routes)) as url:
        yield url, asked


def _said(text: str, reason: str | None) -> bytes:
    return b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "text": text, "finish_reason": reason}]}).encode()


def page_with_delay(name: str, seconds: float) -> Starlette:
    """Serve a page of the examples whose loading ends some seconds later; a browser does not print it before."""

    async def page(request: Request) -> Response:
        return HTMLResponse((EXAMPLES / name).read_text(encoding="utf-8") + '<img src="/delay">')

    async def delay(request: Request) -> Response:
        await asyncio.sleep(seconds)
        return Response(status_code=404)

    return Starlette(routes=[Route(f"/{name}", page), Route("/delay", delay)])


@contextlib.contextmanager
def running(app: Any) -> Iterator[str]:
    """Run an ASGI application on a free port during the block, and yield its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, ws="none", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
