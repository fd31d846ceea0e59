"""TRL's own GRPO trainer, with tools and a tiny model on the CPU, trains on what was sampled."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unspool.rl import Conversation
from unspool.rl.rewards import format_score
from unspool.rl.trl import rollout_func

pytestmark = [pytest.mark.trainers, pytest.mark.filterwarnings("ignore")]

tiny: Any = None


@pytest.fixture(scope="module", autouse=True)
def _load() -> None:
    global tiny
    tiny = pytest.importorskip("tests.rl.tiny")


def warm(city: str) -> str:
    """Tell how warm it is.

    Args:
        city: The city.
    """
    return f"20 °C in {city}"


async def later(city: str) -> dict[str, Any]:
    """Tell how warm it is, in a while.

    Args:
        city: The city.
    """
    await asyncio.sleep(0)
    return {"city": city, "warm": 20}


class World:
    """An environment that counts what is asked of it."""

    made = 0

    def __init__(self) -> None:
        World.made += 1
        self.asked: list[str] = []

    def reset(self) -> str:
        self.asked = []
        return " It is day."

    def warm(self, city: str) -> str:
        """Tell how warm it is.

        Args:
            city: The city.
        """
        self.asked.append(city)
        return "hot"


# -- the function on its own ------------------------------------------------------------------------------------------


def trainer(most: int = 400, rounds: int = 8) -> Any:
    words = tiny.tokenizer()
    return SimpleNamespace(
        processing_class=words,
        eos_token_ids=[words.eos_token_id],
        max_completion_length=most,
        max_tool_calling_iterations=rounds,
        chat_template_kwargs={},
    )


def scripted(*turns: str) -> Any:
    """Samples these answers, one per turn, with log-probabilities of -1."""
    left = list(turns)

    def generate(prompts: list[list[int]], trainer: Any) -> tuple[list[list[int]], list[list[float]]]:
        ids = trainer.processing_class(left.pop(0), add_special_tokens=False)["input_ids"]
        return [list(ids) for _ in prompts], [[-1.0] * len(ids) for _ in prompts]

    return generate


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def rolled(*turns: str, host: Any = None, **options: Any) -> dict[str, Any]:
    host = host or trainer()
    return rollout_func("hermes", generate=scripted(*turns), **options)([tiny.ASKED], host)


def test_results_between_answers_are_not_learnt() -> None:
    rollout = rolled(call("warm", '{"city": "Paris"}') + "<|im_end|>", "It is 20.<|im_end|>", tools=[warm])
    words = trainer().processing_class
    ids, mask = rollout["completion_ids"][0], np.array(rollout["env_mask"][0], bool)
    learnt, given = np.array(ids)[mask], np.array(ids)[~mask]
    assert words.decode(learnt) == call("warm", '{"city": "Paris"}') + "<|im_end|>It is 20.<|im_end|>"
    assert words.decode(given) == "\n<|im_start|>tool\n20 °C in Paris<|im_end|>\n<|im_start|>assistant\n"
    assert rollout["logprobs"][0] == [-1.0 if m else 0.0 for m in rollout["env_mask"][0]]
    conversation = rollout["conversation"][0]
    assert conversation.ids.tolist() == rollout["prompt_ids"][0] + rollout["completion_ids"][0]


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        (call("cold", "{}"), '{"error": "there is no tool cold; there are warm"}'),
        (call("warm", '{"town": "Paris"}'), "TypeError"),
        (call("warm", "[1]"), "ValueError: arguments of call 0"),
    ],
)
def test_errors_of_tools_go_to_the_model(said: str, answered: str) -> None:
    rollout = rolled(said + "<|im_end|>", "Oh.<|im_end|>", tools=[warm])
    assert answered in rollout["conversation"][0].messages[2]["content"]


def test_coroutines_are_tools_and_calls_beyond_the_most_are_reported() -> None:
    two = call("later", '{"city": "Paris"}') + "\n" + call("later", '{"city": "Rome"}')
    rollout = rolled(two + "<|im_end|>", "Oh.<|im_end|>", tools=[later], most_calls=1)
    results = [m["content"] for m in rollout["conversation"][0].messages if m["role"] == "tool"]
    assert results == ['{"city": "Paris", "warm": 20}', '{"error": "only 1 calls are run at once"}']


def test_an_environment_is_made_for_each_rollout() -> None:
    World.made = 0
    host = trainer()
    play = rollout_func(
        "hermes",
        environment=World,
        generate=scripted(call("warm", '{"city": "Paris"}') + "<|im_end|>", "Hot.<|im_end|>"),
    )
    rollout = play([tiny.ASKED, tiny.ASKED], host)
    assert World.made == 2
    assert [e.asked for e in rollout["environment"]] == [["Paris"], ["Paris"]]
    assert rollout["conversation"][0].messages[0]["content"] == "How warm? It is day."
    assert tiny.ASKED[0]["content"] == "How warm?"


def test_answers_and_results_keep_to_the_length() -> None:
    said = call("warm", '{"city": "Paris"}') + "<|im_end|>"
    count = len(trainer().processing_class(said, add_special_tokens=False)["input_ids"])
    cut = rolled(said, host=trainer(most=20), tools=[warm])
    assert len(cut["completion_ids"][0]) == 20
    assert cut["conversation"][0].turns[0].finish_reason == "length"
    no_room = rolled(said, host=trainer(most=count + 10), tools=[warm])
    assert len(no_room["completion_ids"][0]) == count
    once = rolled(said, said, host=trainer(rounds=1), tools=[warm])
    assert len(once["conversation"][0].turns) == 2
    assert once["env_mask"][0][-count:] == [1] * count


def test_kinds_limits_which_tokens_are_learnt() -> None:
    rollout = rolled(call("warm", '{"city": "Paris"}') + "<|im_end|>", "Oh.<|im_end|>", tools=[warm], kinds="content")
    assert sum(rollout["env_mask"][0]) == 3
    with pytest.raises(ValueError, match="kinds: 'results' is not one of"):
        rollout_func("hermes", kinds=["results"])
    with pytest.raises(TypeError, match="prompt: must be a list of messages"):
        rollout_func("hermes")(["How warm?"], trainer())


# -- the trainer -------------------------------------------------------------------------------------------------------


def test_grpo_learns_from_what_the_model_wrote_and_from_no_result(tmp_path: Path) -> None:
    import torch
    from transformers.utils import get_json_schema

    words = tiny.tokenizer()
    model = tiny.calling_model(words, [get_json_schema(warm)])
    rewarded: list[Conversation] = []

    def reward(completions: Any, conversation: list[Conversation], **_: Any) -> list[float]:
        rewarded.extend(conversation)
        return [format_score(c.turns[0]) + i for i, c in enumerate(conversation)]

    before = [p.detach().clone() for p in model.parameters()]
    options = {"max_completion_length": 200, "learning_rate": 1e-3, "temperature": 0.7}
    inputs, _, gradient = tiny.learn(model, words, rollout_func("hermes", tools=[warm]), reward, tmp_path, **options)
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))

    assert [c.name for c in rewarded[0].calls] == ["warm"]
    assert rewarded[0].calls[0].status == "ok"
    assert "results" in rewarded[0].kinds
    mask = inputs["completion_mask"].bool()
    assert gradient.shape == mask.shape
    order = [ids[m].tolist() for ids, m in zip(inputs["completion_ids"], mask, strict=True)]
    for conversation in rewarded:
        ids, kinds = conversation.ids, conversation.kinds
        count = len(order[0])
        row = order.index(ids[-count:].tolist())
        moved = gradient[row][mask[row]].numpy() != 0
        given = np.isin(kinds[-count:], ("prompt", "results"))
        assert given.any()
        assert not moved[given].any()
        assert moved[~given].all()
