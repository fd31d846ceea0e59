"""The engine `Upstream` with llama-cpp-python's server, and with llama.cpp's own if ``LLAMA_SERVER`` names it.

The models are files made here: one whose tokens follow each other (`succession`), and one with random weights, whose
output has a meaning only under a grammar. llama-cpp-python shows the user-defined tokens of a model, and hides control
tokens; llama.cpp's server shows the control tokens that a request lists.
"""

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import unspool
from tests.loopback import free_port, process
from tests.support import closed_tool
from unspool.engines import Request, Sampling

from .generation import text_of
from .processes import GREEDY, collect, connected, generated
from .succession import BOS, EOS, LOOP, MARKERS, OUTPUT, chains, joined, layers, rounded, weights

pytestmark = [pytest.mark.llama, pytest.mark.filterwarnings("ignore")]

OWN = os.environ.get("LLAMA_SERVER", "")
SERVERS = ["llama-cpp-python", *(["llama.cpp"] if OWN else [])]
FEED_FORWARD = 64
_DAYS = {"type": "integer", "minimum": 1, "maximum": 14}
_WEATHER = {"city": {"type": "string", "maxLength": 8}, "unit": {"enum": ["celsius", "fahrenheit"]}}
TOOLS = [closed_tool("get_weather", "hourly", "days", **_WEATHER, hourly="boolean", days=_DAYS), closed_tool("now")]


def write(path: Path, *, hidden: bool = False, random: bool = False) -> None:
    """Write a model of the architecture ``llama``.

    Args:
        path: the file.
        hidden: whether the markers are control tokens.
        random: whether its weights are random, so that it may write anything.
    """
    import gguf

    kind = gguf.TokenType
    tokens = ["<unk>", BOS, EOS, *(f"<0x{b:02X}>" for b in range(256)), *MARKERS]
    kinds = [kind.UNKNOWN, kind.CONTROL, kind.CONTROL, *[kind.BYTE] * 256]
    kinds += [kind.CONTROL if hidden else kind.USER_DEFINED] * len(MARKERS)
    ids = {t: i for i, t in enumerate(tokens)}
    size = rounded(len(tokens))
    tokens += [f"<unused{i}>" for i in range(size - len(tokens))]
    kinds += [kind.UNUSED] * (size - len(kinds))

    out = gguf.GGUFWriter(path, "llama")
    out.add_context_length(8192)
    out.add_embedding_length(size)
    out.add_block_count(1)
    out.add_feed_forward_length(FEED_FORWARD)
    out.add_head_count(4)
    out.add_head_count_kv(4)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_rope_dimension_count(size // 4)
    out.add_vocab_size(size)
    out.add_tokenizer_model("llama")
    out.add_token_list(tokens)
    out.add_token_scores([0.0] * size)
    out.add_token_types(kinds)
    out.add_bos_token_id(ids[BOS])
    out.add_eos_token_id(ids[EOS])
    out.add_add_bos_token(True)
    out.add_add_space_prefix(False)
    embedding, head = weights(size, chains(ids), ids[EOS])
    tensors = {"token_embd": embedding, "output": head, "output_norm": np.ones(size, np.float32)}
    tensors |= {f"blk.0.{name}": value for name, value in layers(size, FEED_FORWARD).items()}
    rng = np.random.default_rng(3)
    for name, value in tensors.items():
        if random and "norm" not in name:
            value = rng.normal(0, 0.2, value.shape).astype(np.float32)
        out.add_tensor(f"{name}.weight", value)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def serve(kind: str, model: Path, folder: Path) -> Iterator[str]:
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    common = ["--model", str(model), "--host", "127.0.0.1", "--port", str(port)]
    if kind == "llama.cpp":
        command = [OWN, *common, "--ctx-size", "8192", "--parallel", "2", "--threads", "1", "--no-warmup"]
    else:
        command = [sys.executable, "-m", "llama_cpp.server", *common, "--n_ctx", "8192", "--n_threads", "1"]
        command += ["--logits_all", "true"]
    path = "/health" if kind == "llama.cpp" else "/v1/models"
    with process(command, base + path, folder / "log"):
        yield base


@pytest.fixture(scope="module", params=SERVERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def url(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of the model that writes `OUTPUT`."""
    folder = tmp_path_factory.mktemp("told")
    write(folder / "model.gguf")
    yield from serve(kind, folder / "model.gguf", folder)


@pytest.fixture(scope="module")
def random_url(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of the model that may write anything."""
    folder = tmp_path_factory.mktemp("random")
    write(folder / "model.gguf", random=True)
    yield from serve(kind, folder / "model.gguf", folder)


def test_the_kind_of_the_server_is_detected(url: str, kind: str) -> None:
    async def main() -> str:
        async with connected(url) as engine:
            await engine.health()
            (backend,) = engine._pool.backends
            assert backend.kind is not None
            return backend.kind.name

    assert asyncio.run(main()) == kind


def test_the_raw_text_keeps_its_markers(url: str, kind: str) -> None:
    deltas = generated(url)
    assert text_of(deltas) == joined()
    assert len([d for d in deltas if d.text]) > 5, "it streams"
    assert deltas[-1].finish_reason == "stop"
    usage = deltas[-1].usage
    if kind == "llama.cpp":
        assert usage is not None
        assert usage.completion_tokens == len(OUTPUT) + 1, "the end is one"
        asked = "Weather in Paris?".replace(" ", "▁").encode()  # the tokens of this tokenizer are bytes
        assert usage.prompt_tokens == len(asked) + 4, "the beginning is there once"


def test_the_limit_is_kept_and_reported(url: str) -> None:
    deltas = generated(url, max_tokens=3)
    assert text_of(deltas) == joined(OUTPUT[:3])
    assert deltas[-1].finish_reason == "length"


def test_logprobs_are_reported(url: str) -> None:
    deltas = generated(url, max_tokens=3, sampling=Sampling(temperature=0.0, logprobs=2))
    entries = [entry for d in deltas for entry in d.logprobs]
    assert [e["token"] for e in entries] == list(OUTPUT[:3])
    for entry in entries:
        assert entry["bytes"] == list(entry["token"].encode())
        assert entry["logprob"] <= 0
        assert len(entry["top_logprobs"]) == 2
        assert entry["top_logprobs"][0]["token"] == entry["token"]


def test_closing_stops_the_server(url: str) -> None:
    async def main() -> float:
        async with connected(url) as engine:
            for _ in range(3):
                stream = engine.generate(Request(prompt=f"{BOS}{LOOP[0]}", sampling=GREEDY, max_tokens=8000))
                for _ in range(5):
                    await anext(stream)
                await stream.aclose()
            begun = time.monotonic()
            assert text_of(await collect(engine)) == joined()
            return time.monotonic() - begun

    assert asyncio.run(main()) < 5


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dialect", ["deepseekv31", "hermes", "qwen3-coder", "kimi_k2", "llama3", "pythonic"])
def test_a_required_call_is_valid_whatever_the_weights(random_url: str, dialect: str, seed: int) -> None:
    asked: dict[str, Any] = {"tools": TOOLS, "tool_choice": "required", "stage": "content"}
    constraint = unspool.constrain(dialect, **asked, parallel_tool_calls=False)
    sampling = Sampling(temperature=1.0, seed=seed)
    raw = text_of(generated(random_url, max_tokens=2000, sampling=sampling, constraint=constraint))
    message = unspool.parse(raw, dialect, **asked)
    assert [c.status for c in message.tool_calls] == ["ok"], raw
    schemas = {t["function"]["name"]: t["function"]["parameters"] for t in TOOLS}
    for call in message.tool_calls:
        # llama.cpp's grammars take some random bytes that are no characters for characters.
        arguments = json.loads(re.sub("\ufffd+", "?", call.arguments))
        jsonschema.validate(arguments, schemas[call.name])


@pytest.mark.parametrize("dialect", [d.name for d in unspool.list_dialects() if d.call])
def test_the_server_reads_the_grammar_of_every_dialect(url: str, dialect: str) -> None:
    constraint = unspool.constrain(dialect, TOOLS, "required", stage="reasoning")
    deltas = generated(url, max_tokens=1, constraint=constraint)
    assert deltas[-1].finish_reason in ("length", "stop")


def test_the_server_accepts_the_longest_allowed_lengths(url: str) -> None:
    # llama-cpp-python's server crashes on a grammar that it cannot read.
    text_: dict[str, Any] = {"type": "string", "minLength": 1500, "maxLength": 2000}
    items = {"type": "array", "items": {"type": "object", "properties": {"a": text_}}, "maxItems": 1900}
    long = {"type": "object", "properties": {"text": text_, "items": items}, "required": ["text"]}
    tool = {"type": "function", "function": {"name": "say", "parameters": long}}
    for dialect in ("hermes", "qwen3-coder", "pythonic"):
        constraint = unspool.constrain(dialect, [tool], "required", stage="content")
        assert generated(url, max_tokens=1, constraint=constraint)[-1].finish_reason == "length"


def test_control_tokens_are_shown_if_the_server_can_show_them(kind: str, tmp_path: Path) -> None:
    write(tmp_path / "model.gguf", hidden=True)
    for base in serve(kind, tmp_path / "model.gguf", tmp_path):
        if kind == "llama-cpp-python":
            assert text_of(generated(base)) == ""
        else:
            shown = tuple(t for t in OUTPUT if t != "get_weather")
            assert text_of(generated(base, options={"markers": shown})) == joined(shown)
            assert text_of(generated(base)) == ""
