"""A server that speaks as vLLM does, and writes the texts that a test chooses, token by token."""

import json
import random
from collections.abc import Callable
from typing import Any

from aiohttp import web

TOKEN = Callable[[str], list[int]]


class Scripted:
    """vLLM's ``/v1/completions``, with ``return_token_ids`` and ``logprobs``; its log-probabilities depend on the
    temperature, as with ``--logprobs-mode processed_logprobs``.

    Args:
        encode: the tokens that the model samples for a text.
        decode: the text of a token, special ones included.

    Attributes:
        outputs: the texts to write, in order.
    """

    def __init__(self, encode: TOKEN, decode: Callable[[int], str]) -> None:
        self._encode = encode
        self._decode = decode
        self.outputs: list[str] = []
        self._chance = random.Random(5)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/completions", self._complete)
        return app

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 100_000}]})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        assert asked["return_token_ids"]
        assert not asked["skip_special_tokens"]
        assert not asked["add_special_tokens"]
        examined = asked["logprobs"] == 1
        ids = self._encode("a" if examined else self.outputs.pop(0))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for at, id in enumerate(ids):
            text, last = self._decode(id), at + 1 == len(ids)
            logprob = -0.5 / asked["temperature"] if examined else -round(self._chance.random(), 6)
            entry = {"tokens": [text], "token_logprobs": [logprob], "top_logprobs": [{text: logprob}]}
            choice: dict[str, Any] = {"index": 0, "text": "" if last else text, "logprobs": entry, "token_ids": [id]}
            choice |= {"finish_reason": "stop" if last else None, "stop_reason": None}
            if not at:
                choice["prompt_token_ids"] = asked["prompt"]
            if last and asked["return_weight_versions"]:
                choice["weight_versions"] = [{"version": "3", "start": 0, "end": len(ids)}]
            await response.write(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
        usage = {"prompt_tokens": len(asked["prompt"]), "completion_tokens": len(ids)}
        await response.write(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response
