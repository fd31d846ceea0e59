"""Exported rollouts fit the trainers' own types: verl validates its outputs, and TRL's trainer learns from its rows."""

import ast
import importlib.util
import logging
from pathlib import Path
from typing import Any

import numpy
import pytest

from unspool.rl import Rollout, Row, to_skyrl, to_trl, to_verl

pytestmark = [pytest.mark.trainers, pytest.mark.filterwarnings("ignore")]


def rollouts(count: int) -> list[Rollout]:
    """Rollouts of a prompt of two tokens, an answer, a result and another answer, with different rewards."""
    ids, mask = [1, 2, 3, 4, 5, 6, 7], [0, 0, 1, 1, 0, 1, 1]
    row = Row(
        input_ids=ids,
        loss_mask=mask,
        logprobs=[-1.0 if learnt else None for learnt in mask],
        kinds=["prompt", "prompt", "content", "calls", "results", "content", "content"],
        calls=["a", "b"],
        role="agent",
        prompt_length=2,
        finish_reason="stop",
    )
    return [Rollout(id=f"r{i}", status="finished", reward=float(i), rows=[row]) for i in range(count)]


def test_verl_takes_exported_rows() -> None:
    from verl.experimental.agent_loop.agent_loop import AgentLoopOutput

    (one,) = to_verl(rollouts(1))
    assert set(one) <= set(AgentLoopOutput.model_fields)
    output = AgentLoopOutput.model_validate(one, strict=True)
    found = output.as_dict()
    assert found["prompts"].tolist() == [1, 2]
    assert found["responses"].tolist() == [3, 4, 5, 6, 7]
    assert found["response_mask"].tolist() == [1, 1, 0, 1, 1]
    assert found["rollout_log_probs"].tolist() == [-1, -1, 0, -1, -1]
    assert output.reward_score == 0.0


def skyrls(path: str) -> ast.Module:
    """A module of SkyRL's, whose import would need all of its trainer."""
    spec = importlib.util.find_spec("skyrl")
    assert spec is not None
    return ast.parse((Path(str(spec.origin)).parent / path).read_text(encoding="utf-8"))


def test_skyrls_own_check_takes_exported_rows_as_steps_of_their_trajectories() -> None:
    checks = skyrls("train/utils/trainer_utils.py")
    checks.body = [
        one for one in checks.body if getattr(one, "name", "").startswith(("validate_gen", "_validate_step"))
    ]
    found: dict[str, Any] = {"np": numpy, "logger": logging, "GeneratorOutput": dict}
    exec(compile(checks, "skyrl", "exec"), found)
    runs = rollouts(3)
    for run in runs[:2]:
        run.metadata = {"instance_id": "task"}
        run.rows = run.rows * 2
    output = to_skyrl(runs)
    found["validate_generator_output"](3, output, step_wise=True)
    assert [one.to_string() for one in output["trajectory_ids"]] == ["task_0", "task_0", "task_1", "task_1", "r2_0"]
    (shape,) = [s for s in skyrls("train/generators/base.py").body if getattr(s, "name", "") == "GeneratorOutput"]
    fields = {getattr(one.target, "id", "") for one in ast.walk(shape) if isinstance(one, ast.AnnAssign)}
    assert {*output} <= fields


def test_trl_learns_from_exported_rows(tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    from . import tiny

    words = tiny.tokenizer()
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    rewarded: list[Any] = []

    def score(completions: Any, reward: list[float], role: list[str], rollout: list[str], **_: Any) -> list[float]:
        rewarded.append((reward, role, rollout))
        return reward

    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(words), pad_token_id=words.pad_token_id, **shape))

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        return to_trl(rollouts(len(prompts)))

    inputs = tiny.learn(model, words, rollout, score, tmp_path, max_completion_length=8).inputs
    assert rewarded == [([0.0, 1.0], ["agent"] * 2, ["r0", "r1"])]
    assert inputs["completion_ids"].tolist() == [[3, 4, 5, 6, 7]] * 2
    learnt = inputs["completion_mask"] * inputs.get("tool_mask", 1)
    assert learnt.tolist() == [[1, 1, 0, 1, 1]] * 2
