"""vLLM's own server without an engine (`vllm launch render`) with the plug-in in it; run by ``make vllm``."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import unspool
from unspool import Stage

from .support import WEATHER, Parts, parts

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n<think>\n"
)
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 300,
    "max_position_embeddings": 8192,
    "torch_dtype": "float32",
}
MODULE = "unspool.plugins.vllm_plugin"
WAYS = {
    "entry point": ({}, []),
    "flag": ({"VLLM_PLUGINS": ""}, ["--tool-parser-plugin", MODULE, "--reasoning-parser-plugin", MODULE]),
}


class Server:
    """One server, and what it keeps for its tests."""

    def __init__(self, url: str, tokenizer: Any) -> None:
        self.url = url
        self.tokenizer = tokenizer
        self.request = {
            "model": "tiny",
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [WEATHER],
            "tool_choice": "auto",
        }

    def post(self, path: str, body: dict[str, Any]) -> Any:
        asked = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None


def _start(folder: Path, way: str) -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment, flags = WAYS[way]
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "launch", "render", str(folder)]
    command += ["--served-model-name", "tiny", "--max-model-len", "4096", "--dtype", "float32", "--port", str(port)]
    command += ["--host", "127.0.0.1", "--enable-auto-tool-choice", *flags]
    command += ["--tool-call-parser", "unspool_hermes", "--reasoning-parser", "unspool_hermes"]
    given = {"VLLM_TARGET_DEVICE": "cpu", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", **environment}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env={**os.environ, **given}, stdout=log, stderr=log)
    return process, f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module", params=list(WAYS))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    from .test_vllm_host import make_tokenizer

    folder = tmp_path_factory.mktemp("model")
    tokenizer = make_tokenizer(SPECIAL)
    tokenizer.eos_token = "<|im_end|>"
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    process, url = _start(folder, request.param)
    try:
        until = time.monotonic() + 240
        while True:
            assert process.poll() is None, (folder / "log").read_text(encoding="utf-8")[-3000:]
            assert time.monotonic() < until, "the server did not start"
            try:
                urllib.request.urlopen(url + "/health", timeout=5).close()
                break
            except OSError:
                time.sleep(1)
        yield Server(url, tokenizer)
    finally:
        process.terminate()
        process.wait(30)


def derendered(server: Server, raw: str, prompt: list[int]) -> Parts:
    """A whole output through the server."""
    ids = server.tokenizer.encode(raw)
    choice = {"index": 0, "token_ids": ids, "finish_reason": "length"}
    body = {
        "generate_response": {"request_id": "r", "choices": [choice], "prompt_token_ids": prompt},
        "chat_request": server.request,
        "prompt_token_ids": prompt,
    }
    message = server.post("/v1/chat/completions/derender", body)["choices"][0]["message"]
    calls = [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or []]
    return message.get("reasoning") or "", message.get("content") or "", calls


def streamed(server: Server, raw: str, prompt: list[int]) -> Parts:
    """The same, a few tokens at a time."""
    ids = server.tokenizer.encode(raw)
    state = None
    reasoning, content = "", ""
    found: list[list[str]] = []
    for at in range(0, len(ids), 5):
        last = at + 5 >= len(ids)
        choice = {"index": 0, "token_ids": ids[at : at + 5], "finish_reason": "length" if last else None}
        body = {
            "stream": True,
            "generate_chunk": {"request_id": "r", "choices": [choice]},
            "stream_state": state,
            "chat_request": {**server.request, "stream": True},
            "prompt_token_ids": prompt,
        }
        answer = server.post("/v1/chat/completions/derender", body)
        state = answer["stream_state"]
        for told in (c["delta"] for c in answer["chunk"]["choices"]):
            reasoning += told.get("reasoning") or ""
            content += told.get("content") or ""
            for call in told.get("tool_calls") or []:
                if call.get("id"):
                    found.append([call["function"]["name"], ""])
                found[call["index"]][1] += call["function"].get("arguments") or ""
    return reasoning, content, [(name, arguments) for name, arguments in found]


def test_rendering_carries_our_tag_and_derendering_says_what_the_parser_says(server: Server) -> None:
    rendered = server.post("/v1/chat/completions/render", {**server.request, "tool_choice": "required"})
    prompt = rendered["token_ids"]
    own = unspool.constrain("hermes", [WEATHER], "required", stage=Stage.CONTENT)
    assert own is not None
    from xgrammar import StructuralTag

    carried = json.loads(rendered["sampling_params"]["structured_outputs"]["structural_tag"])
    assert carried == StructuralTag.model_validate(own.structural_tag).model_dump()
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}\n</tool_call>'
    for raw in (f"Two.</think>\n\n{call}\n{call}", "Plain.\n</think>\n\nAnswer <b>1</b>.", "Never closed", call):
        want = parts(unspool.parse(raw, "hermes", tools=[WEATHER], prompt=server.tokenizer.decode(prompt)))
        assert derendered(server, raw, prompt) == want
        assert streamed(server, raw, prompt) == want
