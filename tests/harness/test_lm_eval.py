"""EleutherAI's lm-eval against the server: tasks over local data, by its models for completions and for chat."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from unspool.engines.upstream import Upstream

from ..engines.local.test_real import Serving, serving
from ..engines.upstream.support import DONE, Connection, Fake, event, threaded
from ..engines.upstream.support import Asked as Arrived
from ..loopback import told
from ..server.support import live
from ..server.writing import TOKENIZER, template

pytestmark = pytest.mark.harness

QUESTIONS = [
    {"question": "The capital of France is", "choices": [" Paris", " Rome"], "label": 0},
    {"question": "The capital of Italy is", "choices": [" Paris", " Rome"], "label": 1},
    {"question": "The opposite of hot is", "choices": [" seven", " cold", " a warm bath"], "label": 1},
]
GENERATION = {
    "output_type": "generate_until",
    "doc_to_target": "{{choices[label] | trim}}",
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 6, "temperature": 0},
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
}
CHOICE = {
    "output_type": "multiple_choice",
    "doc_to_target": "label",
    "doc_to_choice": "choices",
    "target_delimiter": "",
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}


def evaluated(folder: Path, model: str, url: str, task: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The results of a task, and its samples."""
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
    described = {
        "task": "questions",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "doc_to_text": "{{question}}",
        **task,
    }
    (folder / "task.yaml").write_text(json.dumps(described))  # YAML contains JSON
    arguments = ["--model", model, "--model_args", f"model=served,base_url={url},num_concurrent=2,max_retries=1"]
    arguments += ["--tasks", str(folder / "task.yaml"), "--output_path", str(folder / "out"), "--log_samples"]
    arguments += ["--apply_chat_template"] if "chat" in model else []
    ran = subprocess.run(
        [sys.executable, "-m", "lm_eval", "run", *arguments],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "hf")},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    (results,) = folder.glob("out/**/results_*.json")
    (samples,) = folder.glob("out/**/samples_*.jsonl")
    found = [json.loads(line) for line in samples.read_text().splitlines()]
    return json.loads(results.read_text())["results"]["questions"], sorted(found, key=lambda one: one["doc_id"])


def answers(served: Serving, path: str, **fields: Any) -> Any:
    asked = {"max_tokens": 6, "temperature": 0, "stop": ["\n"], "seed": 1234, **fields}
    return told(served.url + path, asked)["choices"][0]


def test_tasks_of_generation_run_on_the_small_model_by_completions_and_by_chat(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as served:
        for model, path in (("local-completions", "/v1/completions"), ("local-chat-completions", None)):
            folder = tmp_path / model
            folder.mkdir()
            url = served.url + (path or "/v1/chat/completions")
            results, samples = evaluated(folder, model, url, GENERATION)
            for sample, question in zip(samples, QUESTIONS, strict=True):
                ((answer,),) = sample["resps"]
                asked = str(question["question"])
                if path is None:
                    said = answers(served, "/v1/chat/completions", messages=[{"role": "user", "content": asked}])
                    assert answer == said["message"]["content"]
                else:
                    assert answer == answers(served, path, prompt=asked)["text"]
                    assert answer.strip(), "the small model says something"
            right = [s["filtered_resps"][0] == s["target"] for s in samples]
            assert results["exact_match,none"] == pytest.approx(sum(right) / len(right))


def logprob(token: int) -> float:
    return -((token * 37) % 101) / 16


async def scores(connection: Connection, asked: Arrived) -> None:
    """vLLM's answer, with log-probabilities that depend on the token."""
    ids = [*asked.body["prompt"], 65]
    tokens = [TOKENIZER.decode([i], skip_special_tokens=False) for i in ids]
    values = [None, *(logprob(i) for i in ids[1:])]
    better = [{} if i % 2 else {"better": 0.0} for i in ids]
    tops = [None, *({t: p, **b} for t, p, b in zip(tokens[1:], values[1:], better[1:], strict=True))]
    logprobs = {"tokens": tokens, "token_logprobs": values, "top_logprobs": tops, "text_offset": [0] * len(ids)}
    usage = {"prompt_tokens": len(ids) - 1, "completion_tokens": 1, "total_tokens": len(ids)}
    choice = {"index": 0, "text": tokens[-1], "logprobs": logprobs, "finish_reason": "length", "token_ids": [65]}
    await connection.stream(event({"choices": [choice], "usage": usage}), DONE)


def test_tasks_of_likelihoods_get_those_of_an_engine_that_reports_them(tmp_path: Path) -> None:
    with (
        threaded(Fake("vllm", scores)) as fake,
        live(Upstream(fake.url, tokenizer=TOKENIZER), "hermes", prompts=template()) as server,
    ):
        results, samples = evaluated(tmp_path, "local-completions", f"{server.url}/v1/completions", CHOICE)
    right = []
    for sample, question in zip(samples, QUESTIONS, strict=True):
        choices: Any = question["choices"]
        tokens = [TOKENIZER.encode(choice, add_special_tokens=False).ids for choice in choices]
        expected = [sum(map(logprob, ids)) for ids in tokens]
        found = [(float(one[0][0]), one[0][1] in (True, "True")) for one in sample["resps"]]
        assert [value for value, _ in found] == pytest.approx(expected)
        assert [greedy for _, greedy in found] == [all(i % 2 for i in ids) for ids in tokens]
        right.append(expected.index(max(expected)) == question["label"])
    assert results["acc,none"] == pytest.approx(sum(right) / len(right))
