"""What it costs a stream to belong to a session: the processor time of one server with and without it, in turn.

The server stands before an engine that streams as vLLM does, a token at a time, with log-probabilities where they are
asked for; the client sends what OpenAI's own sends. ``python -m benchmarks.sessions engine`` is the engine, ``server
URL`` the server: they print their ports, and the server its processor time for each line on standard input.
"""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, Final

import aiohttp
import uvicorn
from aiohttp import web
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import unspool
from unspool.engines.upstream import Upstream
from unspool.request.prompts import Prompts
from unspool.request.prompts import Tokenizer as Files
from unspool.server import Limits, Settings, create_app

from .effort import Effort
from .table import Row

_STREAMS: Final = 20
_TOKENS: Final = 400
_ROUNDS: Final = 12
_PAUSE: Final = 0.001  # seconds between two tokens of a stream
_MOST: Final = 10.0
"""The most that a session may add, in per cent."""
_TEMPLATE: Final = "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}<s>assistant: "
_PATH: Final = "/v1/chat/completions"
_BODY: Final = {"stream": True, "messages": [{"role": "user", "content": "Write."}]}


def sessions(effort: Effort) -> Iterator[Row]:
    """The time that a session adds to a stream's own."""
    with _process("engine") as (_, engine), _process("server", engine) as (server, url):
        times = asyncio.run(_times(server, url, max(_ROUNDS, effort.rounds)))
    name = f"session, {_STREAMS} streams × {_TOKENS} tokens"
    yield Row(name, "added to the server's own time for a stream", 100 * times - 100, "%", _MOST)


@contextmanager
def _process(*words: str) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """A process of this module, and its URL."""
    command = [sys.executable, "-m", "benchmarks.sessions", *words]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


async def _times(server: "subprocess.Popen[str]", url: str, rounds: int) -> float:
    """How many times the time without a session one takes: the median of rounds, of which the first warms up."""

    def spent() -> float:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("\n")
        server.stdin.flush()
        return float(server.stdout.readline())

    async def cost(client: aiohttp.ClientSession, headers: dict[str, str]) -> float:
        before = spent()
        await asyncio.gather(*(_read(client, {"x-stainless-retry-count": "0", **headers}) for _ in range(_STREAMS)))
        return spent() - before

    async with aiohttp.ClientSession(url) as client:
        found = []
        for _ in range(rounds + 1):
            async with client.post("/sessions", json={}) as answer:
                key = (await answer.json())["key"]
            plain = await cost(client, {})
            found.append(await cost(client, {"Authorization": f"Bearer {key}"}) / plain)
        return median(found[1:])


async def _read(client: aiohttp.ClientSession, headers: dict[str, str]) -> None:
    async with client.post(_PATH, json=_BODY, headers=headers) as answer:
        assert answer.status == 200
        async for _ in answer.content.iter_any():
            pass


# -- the server --------------------------------------------------------------------------------------------------------


def _tokenizer() -> Tokenizer:
    words = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    made = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<s>", "</s>"])
    return made


_EOS: Final = 1


def _chunk(text: str, id: int, count: int, prompt: list[int], *, logprobs: bool) -> dict[str, Any]:
    """A token as vLLM 0.33 streams it."""
    listed = {"text_offset": [count], "token_logprobs": [-0.5], "tokens": [text], "top_logprobs": [{text: -0.5}]}
    choice = {
        "index": 0,
        "text": "" if id == _EOS else text,
        "logprobs": listed if logprobs else None,
        "finish_reason": "stop" if id == _EOS else None,
        "stop_reason": None,
        "prompt_token_ids": prompt if count == 0 else None,
        "token_ids": [id],
    }
    usage = {"prompt_tokens": len(prompt), "total_tokens": len(prompt) + count + 1, "completion_tokens": count + 1}
    head = {"id": "cmpl-0", "object": "text_completion", "created": 1, "model": "m"}
    return {**head, "choices": [choice], "usage": usage}


async def _generate(http: web.Request) -> web.StreamResponse:
    asked = await http.json()
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(http)
    tokenizer, prompt = _tokenizer(), asked["prompt"]
    prompt = tokenizer.encode(prompt).ids if isinstance(prompt, str) else prompt
    logprobs = asked.get("logprobs") is not None
    text = ("words and words " * _TOKENS)[: min(_TOKENS, asked["max_tokens"])]
    tokens = [*((c, tokenizer.encode(c).ids[0]) for c in text), ("</s>", _EOS)]
    for count, (piece, id) in enumerate(tokens):
        await answer.write(
            b"data: " + json.dumps(_chunk(piece, id, count, prompt, logprobs=logprobs)).encode() + b"\n\n"
        )
        await asyncio.sleep(_PAUSE)
    await answer.write(b"data: [DONE]\n\n")
    return answer


async def _engine() -> None:
    async def models(http: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 100_000}]})

    async def health(http: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.add_routes([web.get("/v1/models", models), web.get("/health", health), web.post("/v1/completions", _generate)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def _serve(engine: str) -> None:
    settings = Settings(
        model="m", dialect=unspool.get_dialect("hermes"), sessions=True, limits=Limits(generations=1000), ui=False
    )
    prompts = Prompts(Files(_TEMPLATE, _TEMPLATE, {"eos_token": "</s>"}, ("<s>", "</s>")))
    app = create_app(settings, Upstream(engine, tokenizer=_tokenizer()), prompts)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="on"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    print(json.dumps(server.servers[0].sockets[0].getsockname()[1]), flush=True)
    for _ in sys.stdin:
        print(time.process_time(), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "engine":
        asyncio.run(_engine())
    else:
        _serve(sys.argv[2])
