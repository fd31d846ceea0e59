"""TRL's GRPO learns from sessions: a program of the Agents SDK acts, and llama.cpp or vLLM samples on the CPU."""

import asyncio
import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import openai
import pytest

from unspool.engines.local import LlamaProcess
from unspool.engines.upstream import Upstream
from unspool.request.prompts import Prompts, Tokenizer
from unspool.rl import Rollout, read_rollout, to_trl

from ..loopback import told
from ..plugins.vllm_server import serving as serving_vllm
from ..server.support import Live, live
from ..sessions.proxy import Proxy
from ..sessions.support import check, made, tree
from ..sessions.test_small import started, through
from ..small import need_small_model

pytestmark = [pytest.mark.trainers, pytest.mark.filterwarnings("ignore")]

VLLM = os.environ.get("PYTHON_OF_VLLM")
"""An interpreter that has vLLM with its engine for a CPU, as `make trainers` installs it."""
PATIENCE = 120.0  # seconds
ASKED = [{"role": "user", "content": "What is the weather in Paris?"}]


@pytest.fixture(scope="module")
def llama() -> Iterator[LlamaProcess]:
    with started() as process:  # without the adapter, so that it is the model that TRL trains
        yield process


def get_weather(city: Literal["Paris", "Rome"]) -> str:
    """Get the current weather in a city."""
    return "18 C, sunny"


def function_tool() -> Any:
    return importlib.import_module("agents").function_tool(get_weather, strict_mode=False)


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
                tools=[function_tool()],
                model_settings=agents.ModelSettings(tool_choice="get_weather", max_tokens=100),
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


@pytest.mark.skipif(VLLM is None, reason="PYTHON_OF_VLLM is not set; `make trainers` does so")
def test_grpo_learns_what_vllm_sampled(tmp_path: Path) -> None:
    tiny = importlib.import_module("tests.rl.tiny")
    words, folder = tiny.tokenizer(), tmp_path / "model"
    tool = function_tool()
    function = {"name": tool.name, "description": tool.description, "parameters": tool.params_json_schema}
    call = {"id": "c", "type": "function", "function": {"name": tool.name, "arguments": {"city": "Paris"}}}
    said = [
        *ASKED,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": get_weather("Paris")},
        {"role": "assistant", "content": "It is 18."},
    ]
    model = tiny.calling_model(words, [{"type": "function", "function": {**function, "strict": False}}], said)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    flags = ["serve", "--enforce-eager", "--max-num-seqs", "2", "--logprobs-mode", "processed_logprobs"]
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_PLUGINS": "",
        "VLLM_SERVER_DEV_MODE": "1",
    }
    program = (str(VLLM), "-m", "vllm.entrypoints.cli.main")
    with serving_vllm(folder, flags, environment, None, program) as url, Proxy(url).running() as proxy:
        told(f"{url}/update_weight_version", {"new_version": "step-3"})
        prompts = Prompts(Tokenizer(tiny.TEMPLATE, tiny.TEMPLATE, {"eos_token": "<|im_end|>"}, tiny.MARKS))
        engine = Upstream(proxy.url, tokenizer=words.backend_tokenizer)
        with live(engine, "hermes", prompts=prompts, sessions=True) as server:
            server.http.timeout = 120.0  # the first answer takes vLLM long where the processors are busy
            runs = train(model, words, server, proxy, tmp_path, 1e-4)
    for one in runs:
        assert [c.logprobs_kind for c in one.calls] == ["constrained", "processed"]
        assert [c.finish_reason for c in one.calls] == ["tool_calls", "stop"]
        assert [c.weight_versions for c in one.calls] == [[("step-3", 0, len(c.output_ids))] for c in one.calls]
        assert one.rows[0].weight_versions == ["step-3"]


def train(model: Any, words: Any, server: Live, proxy: Proxy, folder: Path, near: float) -> list[Rollout]:
    """Take a step of GRPO, and check what is learnt, and that the model gives it the probabilities that were reported.

    Args:
        model, words: the model and its tokenizer.
        server: where the agent acts.
        proxy: what the engine was sent and sampled.
        folder: for files.
        near: how far log-probabilities may differ on average.

    Returns:
        the runs that it learnt from.
    """
    tiny = importlib.import_module("tests.rl.tiny")
    runs: list[Rollout] = []

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        new = [run(server, prompt, seed) for seed, prompt in enumerate(prompts)]
        runs.extend(new)
        return to_trl(new)

    def reward(completions: Any, reward: list[float], **_: Any) -> list[float]:
        return reward

    options = {"max_completion_length": 400, "learning_rate": 1e-5}
    inputs, logps, _ = tiny.learn(model.float(), words, rollout, reward, folder / "out", ASKED, **options)
    judge(runs, proxy)
    assert [one for one in runs if "<|im_end|><|im_end|>" in words.decode(one.rows[0].input_ids)] == []
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
    return runs


def judge(runs: list[Rollout], proxy: Proxy) -> None:
    """Check that the runs are what the engine was sent and sampled: a call, and the answer that continues it."""
    found = [json.loads(msgspec.json.encode(one)) for one in runs]
    for at, one in enumerate(found):
        assert tree(one) == [(None, None), (0, None)]
        assert {"calls", "constrained", "results"} <= set(one["rows"][0]["kinds"])
        check(one, proxy.record[-4:][2 * at : 2 * at + 2])  # before these, the engine was examined
