"""A server for the examples: vLLM's raw endpoint, with a scripted output."""

import asyncio
import contextlib
import importlib.util
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tokenizers import Tokenizer

from ..server.support import running
from ..tokenizer import FOLDER

EXAMPLES = Path(__file__).parents[2] / "examples"
RAW = (
    '<think>\nOne city.\n</think>\n\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
)
"""The output of the raw endpoint, in the format of the examples' template."""
ANSWER = "It is 21 degrees in Paris."
"""What it writes after a tool's result."""


def example(name: str) -> ModuleType:
    """Import an example as a module, without running its `main`."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def raw_endpoint(*outputs: str) -> Iterator[tuple[str, list[Any]]]:
    """A server that answers prompts with `RAW` and `ANSWER`, as vLLM streams them, or with the output that a request's
    seed chooses. Yields its address and the requests it got."""
    asked: list[Any] = []
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))

    async def models(request: Request) -> Response:
        return JSONResponse({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]})

    async def completions(request: Request) -> Response:
        asked.append(await request.json())

        prompt, seed = asked[-1]["prompt"], asked[-1].get("seed", 0)
        first = outputs[seed % len(outputs)] if outputs else RAW
        text = prompt if isinstance(prompt, str) else tokenizer.decode(prompt, skip_special_tokens=False)

        async def stream() -> AsyncIterator[bytes]:
            for token in tokenizer.encode(ANSWER if "<tool_response>" in text else first).ids:
                yield _said(tokenizer.decode([token], skip_special_tokens=False), [token], None)
                await asyncio.sleep(0)
            yield _said("", tokenizer.encode("<|im_end|>").ids, "stop") + b"data: [DONE]\n\n"

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


def _said(text: str, ids: list[int], reason: str | None) -> bytes:
    choice = {"index": 0, "text": text, "token_ids": ids, "finish_reason": reason}
    return b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode()


def page_with_delay(name: str, seconds: float) -> Starlette:
    """Serve a page of the examples whose loading ends some seconds later; a browser does not print it before."""

    async def page(request: Request) -> Response:
        return HTMLResponse((EXAMPLES / name).read_text(encoding="utf-8") + '<img src="/delay">')

    async def delay(request: Request) -> Response:
        await asyncio.sleep(seconds)
        return Response(status_code=404)

    return Starlette(routes=[Route(f"/{name}", page), Route("/delay", delay)])
