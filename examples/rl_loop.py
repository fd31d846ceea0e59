"""A group of rollouts for policy gradients: exact token ids, a mask of sampled tokens, and a reward for each.

Most of the reward is for right calls, a share for each; some is for their format, a little for few tokens.

    pip install '.[server,rl]'
    vllm serve Qwen/Qwen3-8B --port 8000
    python examples/rl_loop.py http://127.0.0.1:8000 path/to/Qwen3-8B hermes

The folder has the model's tokenizer and chat template. Any engine that sends token ids works: vLLM, SGLang, your own.
"""

import asyncio
import sys

from tokenizers import Tokenizer

from unspool.engines import Engine, Request, Sampling
from unspool.engines.upstream import Upstream
from unspool.rl import Conversation, collate
from unspool.rl.rewards import calls_match, format_score

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": CITY}}]
QUESTION = [{"role": "user", "content": "Is it warmer in Paris or in Oslo?"}]
EXPECTED = [{"name": "get_weather", "arguments": {"city": city}} for city in ("Paris", "Oslo")]
TOKENS = 400


async def rollout(engine: Engine, conversation: Conversation, seed: int) -> float:
    """Let the model answer, and return the reward."""
    request = Request(prompt=conversation.prompt(), sampling=Sampling(temperature=1.0, seed=seed), max_tokens=TOKENS)
    ids: list[int] = []
    reason = "stop"
    async for delta in engine.generate(request):
        ids += delta.token_ids
        reason = delta.finish_reason or reason
    message = conversation.extend(ids, finish_reason=reason)
    right = calls_match(message, EXPECTED, ordered=False, partial=True)
    return 0.7 * right + 0.2 * format_score(message) + 0.1 * right * (1 - len(ids) / TOKENS)


async def main(url: str, folder: str, dialect: str, group: int = 4) -> None:
    engine = Upstream(url, tokenizer=Tokenizer.from_file(f"{folder}/tokenizer.json"))
    first = Conversation(dialect, folder, messages=QUESTION, tools=TOOLS)
    conversations = [first.copy() for _ in range(group)]
    rewards = await asyncio.gather(*(rollout(engine, c, seed) for seed, c in enumerate(conversations)))
    await engine.close()

    batch = collate(conversations, pad=0)
    mean = sum(rewards) / group
    for conversation, reward in zip(conversations, rewards, strict=True):
        learnt = int(conversation.mask(("reasoning", "calls", "content")).sum())
        print(f"reward {reward:.2f}, advantage {reward - mean:+.2f}, {learnt} tokens to learn")
    print("ids", batch.ids.shape, "mask", batch.mask.shape)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3]))
