"""What it costs a stream to belong to a session: the processor time of one server with and without it, in turn.

``python -m benchmarks.sessions`` is the server: it prints its port, and its processor time for each line on standard
input.
"""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from statistics import median
from typing import Any, Final

import aiohttp
import uvicorn
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import unspool
from unspool.engines import Delta, Request, Sampled
from unspool.request.prompts import Prompts
from unspool.request.prompts import Tokenizer as Files
from unspool.server import Limits, Settings, create_app
from unspool.wire import Usage

from .effort import Effort
from .table import Row

_STREAMS: Final = 20
_TOKENS: Final = 500
_MOST: Final = 10.0
"""The most that a session may add, in per cent."""
_TEMPLATE: Final = "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}<s>assistant: "
_PATH: Final = "/v1/chat/completions"
_BODY: Final = {"stream": True, "messages": [{"role": "user", "content": "Write."}]}


def sessions(effort: Effort) -> Iterator[Row]:
    """The time that a session adds to a stream's own."""
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.sessions"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        ratios = asyncio.run(_ratios(server, max(5, effort.rounds // 2)))
    finally:
        server.kill()
        server.communicate()
    name = f"session, {_STREAMS} streams × {_TOKENS} tokens"
    yield Row(name, "added to the server's own time for a stream", 100 * (median(ratios) - 1), "%", _MOST)


async def _ratios(server: "subprocess.Popen[str]", rounds: int) -> list[float]:
    """The time with a session by that without, for each round; the first warms up."""
    assert server.stdin is not None
    assert server.stdout is not None
    line = server.stdout.readline

    def spent() -> float:
        assert server.stdin is not None
        server.stdin.write("\n")
        server.stdin.flush()
        return float(line())

    async def cost(client: aiohttp.ClientSession, headers: dict[str, str]) -> float:
        before = spent()
        await asyncio.gather(*(_read(client, headers) for _ in range(_STREAMS)))
        return spent() - before

    async with aiohttp.ClientSession(f"http://127.0.0.1:{int(line())}") as client:
        found = []
        for _ in range(rounds + 1):
            async with client.post("/sessions", json={}) as answer:
                key = (await answer.json())["key"]
            plain = await cost(client, {})
            found.append(await cost(client, {"Authorization": f"Bearer {key}"}) / plain)
        return found[1:]


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


class _Engine:
    """Sends one token each turn of the loop, and what an engine reports about it."""

    def __init__(self) -> None:
        self.tokenizer: Any = _tokenizer()
        self._pieces = [(c, self.tokenizer.encode(c).ids[0]) for c in ("words and words " * _TOKENS)[:_TOKENS]]

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        for text, id in self._pieces[: request.max_tokens]:
            await asyncio.sleep(0)
            sampled = Sampled(ids=(id,), logprobs=(-0.5,)) if request.capture else None
            yield Delta(text=text, token_ids=(id,), sampled=sampled)
        yield Delta(finish_reason="stop", usage=Usage(prompt_tokens=20, completion_tokens=_TOKENS))

    async def health(self) -> None:
        pass

    async def close(self) -> None:
        pass


def _serve() -> None:
    settings = Settings(
        model="m", dialect=unspool.get_dialect("hermes"), sessions=True, limits=Limits(generations=1000), ui=False
    )
    prompts = Prompts(Files(_TEMPLATE, _TEMPLATE, {"eos_token": "</s>"}, ("<s>", "</s>")))
    app = create_app(settings, _Engine(), prompts)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="on"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    print(json.dumps(server.servers[0].sockets[0].getsockname()[1]), flush=True)
    for _ in sys.stdin:
        print(time.process_time(), flush=True)


if __name__ == "__main__":
    _serve()
