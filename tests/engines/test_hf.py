"""A local model of transformers in the batching loop generates what transformers itself generates."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any

import pytest

from tests.engines.batching.support import ask, begun, collect, settled, text_of, until
from tests.engines.conformance.tools import TOOLS, check_calls
from unspool import constrain, parse
from unspool.engines import EngineError, Sampling
from unspool.engines import hf as hf_module
from unspool.engines.batching import Batching
from unspool.engines.hf import TransformersModel

from .test_generate import ENDS, tokenizer

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]

COMMON: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 2048,
    "initializer_range": 0.2,
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", COMMON),
    "qwen3": ("Qwen3Config", COMMON),
    "sliding window": ("MistralConfig", {**COMMON, "sliding_window": 8}),
    "sliding and full": (
        "Gemma3TextConfig",
        {**COMMON, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "recurrent and full": (
        "Qwen3NextConfig",
        {
            **COMMON,
            "layer_types": ["linear_attention", "full_attention"],
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
        },
    ),
    "learnt positions": (
        "GPT2Config",
        {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 2048, "initializer_range": 0.2},
    ),
    "no positions": ("BloomConfig", {"hidden_size": 64, "n_layer": 2, "n_head": 4, "initializer_range": 0.2}),
}
"""Kinds of decoders, each with its own caches or positions."""
PROMPTS = (
    "How is the weather in Paris today, and what shall I wear for it?",
    "Hi",
    "def f(x):\n    return x",
    "one two three four five six seven eight nine ten eleven twelve",
    "中文",
    "A longer one, which no sliding window holds: " + "word " * 20,
)


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The model directory of a kind, each made once."""

    @cache
    def made(kind: str) -> Path:
        import torch
        import transformers

        torch.manual_seed(0)
        name, options = KINDS[kind]
        config = getattr(transformers, name)(
            **options,
            vocab_size=-(-len(tokenizer()) // 128) * 128,
            eos_token_id=tokenizer().eos_token_id,
            bos_token_id=None,
            pad_token_id=0,
        )
        path: Path = tmp_path_factory.mktemp("model")
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(path)
        tokenizer().save_pretrained(path)
        return path

    return made


def loaded(path: Path) -> TransformersModel:
    return TransformersModel(path, device="cpu", context=1024)


def run(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test that is a coroutine."""

    @wraps(test)
    def sync(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return sync


def generated(model: TransformersModel, prompt: str, count: int) -> list[int]:
    """What transformers generates, greedily."""
    import torch

    ids = tokenizer()(prompt, add_special_tokens=False, return_tensors="pt").input_ids
    out = model._model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=count,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=list(model.eos),
    )
    return [t for t in out[0, ids.shape[1] :].tolist() if t not in model.eos]


def ids_of(pieces: Sequence[Any]) -> list[int]:
    return [t for p in pieces for t in p.token_ids]


@pytest.mark.parametrize("joins", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@run
async def test_batched_outputs_equal_those_of_generate(
    kind: str, joins: bool, directory: Callable[[str], Path]
) -> None:
    model = loaded(directory(kind))
    assert model._joins, "all these caches can be joined"
    model._joins = joins
    engine = Batching(model, slots=4, ahead=5)
    counts = [30, 8, 21, 14, 40, 25]

    async def one(i: int) -> list[int]:
        found: list[int] = []
        async for piece in engine.generate(ask(PROMPTS[i], max_tokens=counts[i])):
            found += piece.token_ids
            if i % 2 and len(found) % 6 == 0:
                await asyncio.sleep(0.05)  # it pauses, leaves the batch, and comes back
        return found

    got = await asyncio.gather(*(one(i) for i in range(len(PROMPTS))))
    want = [generated(model, prompt, count) for prompt, count in zip(PROMPTS, counts, strict=True)]
    assert got == want
    assert len({tuple(ids) for ids in got}) == len(PROMPTS)
    await engine.close()


@pytest.mark.parametrize("temperature", [0.7, 1.5])
@pytest.mark.parametrize("dialect", ENDS)
@run
async def test_required_requests_end_in_valid_calls(
    dialect: str, temperature: float, directory: Callable[[str], Path]
) -> None:
    model = loaded(directory("llama"))
    engine = Batching(model)
    constraint = constrain(dialect, TOOLS, "required", stage="content", tokenizer=model.tokenizer)
    asks = [
        ask(f"{i}", constraint=constraint, max_tokens=900, sampling=Sampling(temperature=temperature, seed=i))
        for i in range(6)
    ]
    for pieces in await asyncio.gather(*(collect(engine, a) for a in asks)):
        text = text_of(pieces)
        assert pieces[-1].finish_reason == "stop", text
        check_calls(parse(text, dialect, tools=TOOLS, tool_choice="required", stage="content"), text)
    await engine.close()


@run
async def test_log_probabilities_equal_torchs(directory: Callable[[str], Path]) -> None:
    import torch

    model = loaded(directory("llama"))
    engine = Batching(model)
    sampling = Sampling(temperature=1.0, seed=1, logprobs=4)
    asks = [ask(p, sampling=sampling, max_tokens=20) for p in PROMPTS[:3]]
    for prompt, pieces in zip(PROMPTS, await asyncio.gather(*(collect(engine, a) for a in asks)), strict=False):
        before = tokenizer().encode(prompt, add_special_tokens=False)
        with torch.inference_mode():
            logits = model._model(torch.tensor([before + ids_of(pieces)])).logits[0]
        exact = torch.log_softmax(logits.float(), dim=-1)
        entries = [entry for piece in pieces for entry in piece.logprobs]
        assert len(entries) == len(ids_of(pieces))
        for at, (token, entry) in enumerate(zip(ids_of(pieces), entries, strict=True), len(before) - 1):
            assert entry["logprob"] == pytest.approx(float(exact[at, token]), abs=1e-3)
            reported = [t["logprob"] for t in entry["top_logprobs"]]
            assert reported == pytest.approx(exact[at].topk(4).values.tolist(), abs=1e-3)
    await engine.close()


@run
async def test_a_cancelled_request_frees_its_slot_and_cache(directory: Callable[[str], Path]) -> None:
    model = loaded(directory("llama"))
    engine = Batching(model, slots=2)
    streams = [await begun(engine, ask(p), 3) for p in PROMPTS[:2]]
    waiting = asyncio.ensure_future(collect(engine, ask(PROMPTS[2], max_tokens=10)))
    await until(lambda: engine.waiting == 1)
    await streams[0].aclose()
    assert ids_of(await waiting) == generated(model, PROMPTS[2], 10)
    await streams[1].aclose()
    await until(lambda: engine.running == 0)
    await collect(engine, ask(PROMPTS[3], max_tokens=1))  # a prompt alone, so that the batch before it is released
    assert model._cache is None
    await engine.close()


@run
async def test_a_failed_step_does_not_harm_waiting_requests(
    directory: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(directory("llama"))
    engine = Batching(model, ahead=4)
    slow = await begun(engine, ask(PROMPTS[0], max_tokens=40))
    await settled(lambda: len(next(iter(engine._running)).pieces))  # it has paused, as part of a batch
    stream = await begun(engine, ask(PROMPTS[1], max_tokens=40), 2)
    forward, broken = model._forward, [True]

    def fail(*args: Any) -> Any:
        if broken:
            broken.clear()
            raise RuntimeError("the device is lost")
        return forward(*args)

    monkeypatch.setattr(model, "_forward", fail)
    with pytest.raises(EngineError, match="the model failed"):
        async for _ in stream:
            pass
    rest = [t async for piece in slow for t in piece.token_ids]
    assert rest == generated(model, PROMPTS[0], 40)[1:]
    assert ids_of(await collect(engine, ask(PROMPTS[2], max_tokens=9))) == generated(model, PROMPTS[2], 9)
    await engine.close()


# -- files of the directory ---------------------------------------------------------------------------------


def changed(source: Path, target: Path, **files: dict[str, Any]) -> Path:
    """A copy of a model's directory with other values in its JSON files."""
    for file in source.iterdir():
        data = file.read_bytes()
        if file.stem in files:
            data = json.dumps({**json.loads(data), **files[file.stem]}).encode()
        (target / file.name).write_bytes(data)
    return target


def test_ends_and_sampling_come_from_the_models_configuration(directory: Callable[[str], Path], tmp_path: Path) -> None:
    config = {"eos_token_id": [3, 5], "temperature": 0.6, "top_p": 0.95, "do_sample": True}
    model = TransformersModel(changed(directory("llama"), tmp_path, generation_config=config), device="cpu")
    assert model.eos == {3, 5, tokenizer().eos_token_id}
    assert model.sampling == Sampling(temperature=0.6, top_p=0.95)
    assert model.context == 2048
    assert model.vocab_size == -(-len(tokenizer()) // 128) * 128
    assert loaded(directory("llama")).sampling == Sampling()


@pytest.mark.parametrize(
    ("kind", "context", "error"),
    [
        ("llama", 2049, "context: 2,049 is not between 2 and the model's 2,048"),
        ("llama", 1, "context: 1 is not between"),
        ("no positions", None, "has no max_position_embeddings"),
    ],
)
def test_the_context_is_at_most_the_models(
    kind: str, context: int | None, error: str, directory: Callable[[str], Path]
) -> None:
    with pytest.raises(ValueError, match=error):
        TransformersModel(directory(kind), device="cpu", context=context)


def test_only_a_directory_is_read_and_none_of_its_code_is_run(directory: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a directory"):
        TransformersModel("someone/some-model")
    with pytest.raises((OSError, ValueError)):
        TransformersModel(tmp_path)
    path = changed(
        directory("llama"),
        tmp_path,
        config={"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Model"}},
    )
    (path / "own.py").write_text("import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n")
    with pytest.raises((OSError, ValueError)):
        TransformersModel(path)
    assert not (path / "ran").exists()


def test_weights_that_could_run_code_are_not_read(directory: Callable[[str], Path], tmp_path: Path) -> None:
    import torch

    path = changed(directory("llama"), tmp_path)
    (path / "model.safetensors").unlink()
    torch.save({}, path / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        TransformersModel(path)


def test_models_without_a_key_value_cache_are_refused(tmp_path: Path) -> None:
    from transformers import MambaConfig, MambaForCausalLM

    MambaForCausalLM(MambaConfig(vocab_size=64, hidden_size=16, num_hidden_layers=1, state_size=4)).save_pretrained(
        tmp_path
    )
    tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="does not support past_key_values"):
        TransformersModel(tmp_path)


def test_caches_of_unknown_kinds_are_not_joined(
    directory: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hf_module, "_JOINABLE", frozenset())
    assert not loaded(directory("llama"))._joins
