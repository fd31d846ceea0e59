"""Your own proxy: it accepts chat completions, renders the prompt, and streams parsed deltas from a raw engine.

pip install fastapi uvicorn
ENGINE=http://127.0.0.1:8000 MODEL=path/to/Qwen3-8B uvicorn --app-dir examples fastapi_proxy:app
"""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

try:
    from fastapi import FastAPI, HTTPException
    from fastapi.responses import StreamingResponse

    ENGINE, MODEL, DIALECT = os.environ["ENGINE"], os.environ["MODEL"], os.environ.get("DIALECT", "hermes")
except (ImportError, KeyError):
    raise SystemExit(__doc__) from None

from unspool import Parser, ToolsError, read_toolset
from unspool.engines import EngineError, Request
from unspool.engines.upstream import Upstream
from unspool.request.chat_request import ChatRequest
from unspool.request.prompts import Prompts, read_tokenizer
from unspool.wire import ChatWriter, Failure

prompts, engine = Prompts(read_tokenizer(MODEL)), Upstream(ENGINE)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    await engine.close()


app = FastAPI(lifespan=lifespan)


@app.post("/v1/chat/completions")
async def chat(body: dict[str, Any]) -> StreamingResponse:
    try:
        toolset = read_toolset(body.get("tools", []))
    except ToolsError as error:
        raise HTTPException(400, str(error)) from None
    prompt = prompts.render(ChatRequest(messages=body["messages"], toolset=toolset))
    parser = Parser(DIALECT, tools=body.get("tools", []), prompt=prompt)
    writer = ChatWriter(id=f"chatcmpl-{os.urandom(16).hex()}", model=DIALECT, created=int(time.time()))

    async def stream() -> AsyncIterator[bytes]:
        yield writer.start()
        try:
            async for piece in engine.generate(Request(prompt=prompt, max_tokens=body.get("max_tokens"))):
                yield writer.events(0, parser.feed(piece.text))
                if piece.finish_reason:
                    yield writer.events(0, parser.close(piece.finish_reason)) + writer.finish()
        except EngineError as error:
            yield writer.error(Failure(str(error)))

    return StreamingResponse(stream(), media_type="text/event-stream")
