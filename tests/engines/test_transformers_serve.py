"""The engine `Upstream` with ``transformers serve``, in its own process."""

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken

from tests.loopback import free_port, process
from tests.tokenizer import byte_level
from unspool.engines import EngineError, Request, Sampling

from .generation import text_of
from .processes import GREEDY, collect, connected, generated
from .succession import BOS, EOS, LOOP, MARKERS, OUTPUT, TEMPLATE, chains, joined, rounded, weights

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]


def save(folder: Path) -> None:
    """Save a model that writes `OUTPUT` after `PROMPT`, with its tokenizer and its chat template."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    made = byte_level(special=[BOS, EOS])
    made.add_tokens([AddedToken(t, special=False, normalized=False) for t in MARKERS])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, bos_token=BOS, eos_token=EOS, chat_template=TEMPLATE)
    tokenizer.save_pretrained(folder)

    ids = made.get_vocab()
    size = rounded(len(ids))
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=size,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=100_000,
        bos_token_id=ids[BOS],
        eos_token_id=ids[EOS],
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config)
    embedding, head = weights(size, chains(ids), ids[EOS])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.zero_()
        model.model.embed_tokens.weight.copy_(torch.from_numpy(embedding))
        model.lm_head.weight.copy_(torch.from_numpy(head))
    model.save_pretrained(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    save(folder)
    return folder


@pytest.fixture(scope="module")
def url(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    base = f"http://127.0.0.1:{(port := free_port())}"
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(model)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    cache = tmp_path_factory.mktemp("cache")
    with process(command, f"{base}/health", cache / "log", HF_HUB_OFFLINE="1", HF_HOME=str(cache)):
        yield base


def test_the_raw_text_keeps_its_markers(url: str) -> None:
    deltas = generated(url, max_tokens=50)
    assert text_of(deltas) == joined()
    assert len([d for d in deltas if d.text]) > 5, "it streams"
    assert deltas[-1].finish_reason == "stop"
    usage = deltas[-1].usage
    assert usage is not None
    assert usage.completion_tokens in (len(OUTPUT), len(OUTPUT) + 1)


def test_the_limit_is_kept_and_reported(url: str) -> None:
    deltas = generated(url, max_tokens=3)
    assert text_of(deltas) == joined(OUTPUT[:3])
    assert deltas[-1].finish_reason == "length"


def test_concurrent_outputs_do_not_mix(url: str) -> None:
    async def main() -> list[str]:
        async with connected(url) as engine:
            found = await asyncio.gather(*(collect(engine, max_tokens=50) for _ in range(8)))
        return [text_of(deltas) for deltas in found]

    assert asyncio.run(main()) == [joined()] * 8


def test_closing_stops_the_server(url: str) -> None:
    async def main() -> float:
        async with connected(url) as engine:
            stream = engine.generate(Request(prompt=f"{BOS}{LOOP[0]}", sampling=GREEDY, max_tokens=90_000))
            for _ in range(5):
                await anext(stream)
            await stream.aclose()
            begun = time.monotonic()
            await collect(engine, max_tokens=50)  # the server generates one at a time
            return time.monotonic() - begun

    assert asyncio.run(main()) < 20


def test_features_that_the_server_lacks_are_refused(url: str) -> None:
    def status(**fields: Any) -> int:
        with pytest.raises(EngineError) as caught:
            generated(url, **fields)
        return caught.value.status

    assert status(sampling=Sampling(logprobs=1)) == 400
    assert status(options={"model": "another"}) == 400, "it is pinned to its own"
