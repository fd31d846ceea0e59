"""A tiny random model that calls a tool. Within seconds, it memorizes one transcript from `sft`."""

from typing import Any

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
