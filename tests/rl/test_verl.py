"""verl's own worker runs our agent loop on the CPU, with a tiny model, verl's tools and its policy loss."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.trainers, pytest.mark.filterwarnings("ignore")]

TOOLS = '''
from verl.tools.function_tool import function_tool


@function_tool
def warm(city: str) -> str:
    """Tell how warm it is.

    Args:
        city: The city.
    """
    return f"20 °C in {city}"
'''
LOOPS = """
- name: unspool
  _target_: unspool.rl.verl.AgentLoop
  dialect: hermes
"""


def schema() -> dict[str, Any]:
    """The tool as verl declares it."""
    from transformers.utils import get_json_schema
    from verl.tools.schemas import OpenAIFunctionToolSchema

    def warm(city: str) -> str:
        """Tell how warm it is.

        Args:
            city: The city.
        """
        return city

    dumped: dict[str, Any] = OpenAIFunctionToolSchema(**get_json_schema(warm)).model_dump(
        exclude_unset=True, exclude_none=True
    )
    return dumped


class Server:
    """A replacement for verl's client of its servers, with the model in this process."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.prompts: list[list[int]] = []

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: Any, **_: Any) -> Any:
        import torch
        from verl.workers.rollout.replica import TokenOutput

        self.prompts.append(prompt_ids)
        found = self.model.generate(
            torch.tensor([prompt_ids]),
            max_new_tokens=120,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
        )
        ids = found.sequences[0, len(prompt_ids) :]
        scores = torch.stack(found.scores)[:, 0].log_softmax(-1)
        known = scores[torch.arange(len(ids)), ids].tolist()
        return TokenOutput(token_ids=ids.tolist(), log_probs=known, stop_reason="completed")


def worker(folder: Path, server: Server, **options: Any) -> Any:
    import verl
    from hydra import compose, initialize_config_dir
    from verl.experimental.agent_loop.agent_loop import AgentLoopWorker

    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    (folder / "loops.yaml").write_text(LOOPS, encoding="utf-8")
    rollout = "actor_rollout_ref.rollout"
    with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
        config = compose(
            "ppo_trainer",
            [
                f"actor_rollout_ref.model.path={folder}",
                f"{rollout}.name=vllm",
                f"{rollout}.prompt_length=400",
                f"{rollout}.response_length=200",
                f"{rollout}.calculate_log_probs=True",
                f"{rollout}.agent.agent_loop_config_path={folder / 'loops.yaml'}",
                f"{rollout}.agent.default_agent_loop=unspool",
                f"{rollout}.multi_turn.function_tool_path={folder / 'tools.py'}",
                *options,
            ],
        )
    return AgentLoopWorker(config, server)


def test_verl_trains_on_what_the_model_wrote_and_on_no_result(tmp_path: Path) -> None:
    import torch
    from verl.protocol import DataProto
    from verl.trainer.ppo.core_algos import agg_loss

    from . import tiny

    words = tiny.tokenizer()
    model = tiny.calling_model(words, [schema()])
    words.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    server = Server(model)
    asked = np.empty(1, object)
    asked[0] = tiny.ASKED
    batch = DataProto.from_dict(non_tensors={"raw_prompt": asked})

    async def run() -> Any:
        return await worker(tmp_path, server).generate_sequences(batch)

    output = asyncio.run(run())
    mask = output.batch["response_mask"][0].bool()
    there = output.batch["attention_mask"][0, -len(mask) :].bool()
    ids = output.batch["responses"][0]
    first, second = server.prompts
    assert words.decode(ids[mask]) == (
        '<tool_call>\n{"name": "warm", "arguments": {"city": "Paris"}}\n</tool_call><|im_end|>It is 20.<|im_end|>'
    )
    given = words.decode(ids[there & ~mask])
    assert given == "\n<|im_start|>tool\n20 °C in Paris<|im_end|>\n<|im_start|>assistant\n"
    assert second[: len(first)] == first
    assert words.decode(second[len(first) :]).endswith(given)
    calls = output.non_tensor_batch["calls"][0]
    assert calls == [{"turn": 0, "name": "warm", "status": "ok", "known": True, "attempt": 1}]
    assert output.non_tensor_batch["format_scores"][0] == [1.0, 1.0]
    logprobs = output.batch["rollout_log_probs"][0]
    assert (logprobs[mask] < 0).any()
    assert not logprobs[~mask].any()

    chances = logprobs.clone().requires_grad_()
    loss = agg_loss(-torch.exp(chances - chances.detach())[None], mask[None].float(), "token-mean")
    loss.backward()
    assert chances.grad is not None
    assert (chances.grad != 0).equal(mask)
