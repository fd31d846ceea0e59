"""A tiny random model that calls a tool, which memorizes one transcript from `sft` within seconds; a step of GRPO."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from unspool.rl import Conversation

from ..tokenizer import byte_level

MARKS = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<pad>")
TEMPLATE = """\
{%- for t in tools or [] %}<|im_start|>system
{{ t | tojson }}<|im_end|>
{% endfor %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
ASKED = [{"role": "user", "content": "How warm?"}]
CALL = {"id": "call_1", "type": "function", "function": {"name": "warm", "arguments": {"city": "Paris"}}}
RESULT = "20 °C in Paris"
SAID: list[dict[str, Any]] = [
    *ASKED,
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "name": "warm", "content": RESULT},
    {"role": "assistant", "content": "It is 20."},
]


def tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with a token for every byte and every marker."""
    made = byte_level(special=MARKS)
    theirs = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<pad>")
    theirs.chat_template = TEMPLATE
    return theirs


def calling_model(words: PreTrainedTokenizerFast, tools: list[Any], said: list[Any] = SAID) -> LlamaForCausalLM:
    """A model with 100,000 weights that says what the assistant says there: it calls the tool, and answers."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # for so small a model, threads would only wait for each other
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
        bos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    transcript = Conversation("hermes", words, tools=tools).sft(said)
    ids = torch.tensor(transcript.ids)[None]
    labels = torch.where(torch.tensor(transcript.mask)[None], ids, -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    for _ in range(300):
        loss = model(input_ids=ids, labels=labels).loss
        if loss.item() < 0.002:
            break
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


class Learnt(NamedTuple):
    """What a step learns from: the trainer's inputs, each token's log-probability, and the loss's gradient by it."""

    inputs: Any
    logprobs: Any
    gradient: Any


def learn(
    model: Any,
    words: Any,
    rollout: Callable[..., Any],
    reward: Callable[..., list[float]],
    folder: Path,
    asked: list[Any] = ASKED,
    **options: Any,
) -> Learnt:
    """Take a step of TRL's GRPO from two rollouts, and return what it learns from."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    trained: list[Any] = []
    computed: list[Any] = []
    gradients: list[Any] = []

    class Watched(GRPOTrainer):  # type: ignore[misc]
        def _get_per_token_logps_and_entropies(self, *given: Any, **named: Any) -> Any:
            found = super()._get_per_token_logps_and_entropies(*given, **named)
            if found[0].requires_grad:
                computed.append(found[0].detach())
                found[0].register_hook(lambda gradient: gradients.append(gradient.clone()))
            return found

        def _compute_loss(self, model: Any, inputs: Any) -> Any:
            trained.append(inputs)
            return super()._compute_loss(model, inputs)

    arguments = GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=2,
        num_generations=2,
        max_steps=1,
        report_to=[],
        use_cpu=True,
        bf16=False,
        save_strategy="no",
        logging_strategy="no",
        **options,
    )
    Watched(
        model=model,
        reward_funcs=reward,
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": asked}] * 2),
        processing_class=words,
        rollout_func=rollout,
    ).train()
    (inputs,), (logprobs,), (gradient,) = trained, computed, gradients
    return Learnt(inputs, logprobs, gradient)
