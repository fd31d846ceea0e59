"""TRL's GRPO learns from sessions: a program of the Agents SDK acts, and llama.cpp samples on the CPU."""

import asyncio
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import openai
import pytest

from unspool.engines.local import LlamaProcess
from unspool.rl import Rollout, read_rollout, to_trl

from ..server.support import Live
from ..sessions.proxy import Proxy
from ..sessions.support import check, made, tree
from ..sessions.test_small import PATIENCE, started, through
from ..small import need_small_model

pytestmark = [pytest.mark.trainers, pytest.mark.filterwarnings("ignore")]

ASKED = [{"role": "user", "content": "What is the weather in Paris?"}]


@pytest.fixture(scope="module")
def llama() -> Iterator[LlamaProcess]:
    with started() as process:  # without the adapter, so that it is the model that TRL trains
        yield process


def get_weather(city: Literal["Paris", "Rome"]) -> str:
    """Get the current weather in a city."""
    return "18 C, sunny"


def act(server: Live, session: dict[str, Any], asked: list[Any]) -> None:
    """What an agent does: it must call its function first."""
    agents = importlib.import_module("agents")
    agents.set_tracing_disabled(True)

    async def work() -> None:
        async with openai.AsyncOpenAI(
            base_url=f"{server.url}/v1", api_key=session["key"], timeout=PATIENCE, max_retries=0
        ) as client:
            agent = agents.Agent(
                name="a",
                model=agents.OpenAIChatCompletionsModel(model="m", openai_client=client),
                tools=[agents.function_tool(get_weather)],
                model_settings=agents.ModelSettings(tool_choice="get_weather", max_tokens=48),
            )
            result = agents.Runner.run_streamed(agent, list(asked))
            async for _ in result.stream_events():
                pass

    asyncio.run(work())


def run(server: Live, asked: list[Any], seed: int) -> Rollout:
    """A run of the agent, with its reward."""
    session = made(server, sampling={"temperature": 1.0, "seed": seed})
    act(server, session, asked)
    about = f"/sessions/{session['id']}"
    reward = len(server.http.get(f"{about}/trajectory").json()["calls"][1]["output_ids"])
    assert server.post(f"{about}/finish", reward=float(reward)).status_code == 200
    return read_rollout(server.http.get(f"{about}/trajectory").content)


def test_grpo_learns_what_llama_cpp_sampled(llama: LlamaProcess, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = need_small_model()
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    with through(llama) as (server, proxy):
        # llama.cpp computes with weights and activations of few bits
        train(model, AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name), server, proxy, tmp_path, 0.1)


def train(model: Any, words: Any, server: Live, proxy: Proxy, folder: Path, near: float) -> None:
    """Take a step of GRPO, and check what is learnt, and that the model gives it the probabilities that were reported.

    Args:
        model, words: the model and its tokenizer.
        server: where the agent acts.
        proxy: what the engine was sent and sampled.
        folder: for files.
        near: how far log-probabilities may differ on average.
    """
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    runs: list[Rollout] = []
    trained: list[Any] = []
    learnt: list[Any] = []

    class Watched(GRPOTrainer):  # type: ignore[misc]
        """The trainer, which keeps what it trains on, and the log-probabilities that it computes."""

        def _get_per_token_logps_and_entropies(self, *given: Any, **named: Any) -> Any:
            computed = super()._get_per_token_logps_and_entropies(*given, **named)
            if computed[0].requires_grad:
                learnt.append(computed[0].detach())
            return computed

        def _compute_loss(self, model: Any, inputs: Any) -> Any:
            trained.append(inputs)
            return super()._compute_loss(model, inputs)

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        new = [run(server, prompt, seed) for seed, prompt in enumerate(prompts)]
        runs.extend(new)
        return to_trl(new)

    arguments = GRPOConfig(
        output_dir=str(folder / "out"),
        per_device_train_batch_size=2,
        num_generations=2,
        max_completion_length=400,
        max_steps=1,
        learning_rate=1e-5,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        logging_strategy="no",
        bf16=False,
    )
    trainer = Watched(
        model=model.float(),
        reward_funcs=lambda completions, reward, **_: reward,
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": ASKED}] * 2),
        processing_class=words,
        rollout_func=rollout,
    )
    trainer.train()
    judge(runs, proxy)
    (inputs,), (logps,) = trained, learnt
    mask = inputs["completion_mask"].bool() & inputs["tool_mask"].bool()
    for one, row, here, found in zip(runs, inputs["completion_ids"], mask, logps, strict=True):
        (given,) = one.rows
        assert row[here].tolist() == [i for i, m in zip(given.input_ids, given.loss_mask, strict=True) if m]
        free = np.zeros(len(given.input_ids), bool)  # those that were not computed under a grammar
        for call in one.calls:
            start = len(call.prompt_ids)
            free[start : start + len(call.output_ids)] = call.logprobs_kind != "constrained"
        free = free[np.array(given.loss_mask, bool)]
        sampled = np.array([p for p, m in zip(given.logprobs, given.loss_mask, strict=True) if m], float)
        assert free.any()
        assert np.abs(sampled - found[here].numpy())[free].mean() < near


def judge(runs: list[Rollout], proxy: Proxy) -> None:
    """Check that the runs are what the engine was sent and sampled: a call, and the answer that continues it."""
    found = [json.loads(msgspec.json.encode(one)) for one in runs]
    for at, one in enumerate(found):
        assert tree(one) == [(None, None), (0, None)]
        assert {"calls", "constrained", "results"} <= set(one["rows"][0]["kinds"])
        check(one, proxy.record[-4:][2 * at : 2 * at + 2])  # before these, the engine was examined
