"""Trains the adapter: ``python -m models.small.train MODEL.gguf ROWS.json OUT.safetensors``.

The model is read from the GGUF that is served, so the adapter makes up for its quantization too. Every linear layer but
those of the first two blocks gets two matrices of rank 32.
"""

import argparse
import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

from . import RANK, SCALE

LAYERS: Final = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""The linear layers of a block, by their names in a GGUF."""
FIRST: Final = 2
"""The first block with an adapter; with all of them it would have more than 10 MB."""
_NORMS: Final = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
_NO_LABEL: Final = -100

Row = tuple[list[int], list[tuple[int, int]]]


def load(path: Path) -> LlamaForCausalLM:
    """The model of a GGUF with the architecture of Llama, dequantized."""
    reader = gguf.GGUFReader(path)
    field = {name: f.contents() for name, f in reader.fields.items() if name.startswith("llama.")}
    tensors = {
        t.name: torch.tensor(np.array(gguf.dequantize(t.data, t.tensor_type), dtype=np.float32)) for t in reader.tensors
    }
    heads, heads_kv = field["llama.attention.head_count"], field["llama.attention.head_count_kv"]
    config = LlamaConfig(
        vocab_size=tensors["token_embd.weight"].shape[0],
        hidden_size=field["llama.embedding_length"],
        intermediate_size=field["llama.feed_forward_length"],
        num_hidden_layers=field["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=heads_kv,
        rms_norm_eps=field["llama.attention.layer_norm_rms_epsilon"],
        rope_theta=field["llama.rope.freq_base"],
        max_position_embeddings=field["llama.context_length"],
        tie_word_embeddings="output.weight" not in tensors,
        attention_bias=False,
    )
    state = {
        "model.embed_tokens.weight": tensors["token_embd.weight"],
        "model.norm.weight": tensors["output_norm.weight"],
    }
    state |= {"lm_head.weight": tensors.get("output.weight", tensors["token_embd.weight"])}
    for i in range(config.num_hidden_layers):
        for ours, theirs in {**LAYERS, **_NORMS}.items():
            weight = tensors[f"blk.{i}.{ours}.weight"]
            rows = {"attn_q": heads, "attn_k": heads_kv}.get(ours)
            state[f"model.layers.{i}.{theirs}.weight"] = weight if rows is None else _unpermuted(weight, rows)
    model = LlamaForCausalLM(config)
    model.load_state_dict(state)
    return model


def _unpermuted(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows as transformers orders them: GGUF interleaves the halves of each rotated head."""
    return (
        weight.reshape(heads, weight.shape[0] // heads // 2, 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)
    )


class Adapted(torch.nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    """A frozen linear layer whose weight has the product of two small matrices added to it."""

    def __init__(self, base: torch.nn.Linear, a: torch.Tensor, b: torch.Tensor) -> None:
        super().__init__()
        self.base, self.a, self.b = base, torch.nn.Parameter(a), torch.nn.Parameter(b)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of two layers' outputs, as the gradient of a whole weight is never needed."""
        linear = torch.nn.functional.linear
        return self.base(x) + linear(linear(x, self.a) * SCALE, self.b)


def adapt(model: LlamaForCausalLM) -> dict[str, Adapted]:
    """Freeze the model and add adapters; the result names them as a GGUF does."""
    model.requires_grad_(False)
    adapted = {}
    for i, block in enumerate(model.model.layers):
        for ours, theirs in LAYERS.items() if i >= FIRST else ():
            owner, name = theirs.split(".")
            base, named = getattr(getattr(block, owner), name), f"blk.{i}.{ours}.weight"
            a = torch.randn(RANK, base.in_features) / math.sqrt(base.in_features)
            adapted[named] = Adapted(base, a, torch.zeros(base.out_features, RANK))
            setattr(getattr(block, owner), name, adapted[named])
    return adapted


def batches(rows: list[Row], tokens: int) -> Iterator[list[Row]]:
    """Batches of rows of like length, in random order, each of at most so many tokens with its padding."""
    ordered = sorted(rows, key=lambda row: len(row[0]) + random.random() * 40)
    made: list[list[Row]] = [[]]
    for row in ordered:  # the last row of a batch is about the longest
        if (len(made[-1]) + 1) * len(row[0]) > tokens:
            made.append([])
        made[-1].append(row)
    random.shuffle(made)
    yield from filter(None, made)


def loss_of(model: LlamaForCausalLM, batch: list[Row]) -> torch.Tensor:
    """The mean loss of the tokens that are learnt; only their logits are computed."""
    longest = max(len(ids) for ids, _ in batch)
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    labels = torch.full((len(batch), longest), _NO_LABEL)
    for i, (row, learnt) in enumerate(batch):
        ids[i, : len(row)] = torch.tensor(row)
        for start, end in learnt:
            labels[i, start:end] = ids[i, start:end]
    device = model.device
    # Attention is causal and the padding comes last, so no mask is needed.
    hidden = model.model(input_ids=ids.to(device)).last_hidden_state[:, :-1]
    wanted = labels[:, 1:].to(device)
    chosen = wanted != _NO_LABEL
    return torch.nn.functional.cross_entropy(model.lm_head(hidden[chosen]).float(), wanted[chosen])


def train(model: LlamaForCausalLM, rows: list[Row], given: argparse.Namespace) -> None:
    """Train what is not frozen: AdamW, a warm-up, then a cosine down to a twentieth."""
    learnt = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=given.rate, weight_decay=0.0, betas=(0.9, 0.98))
    drawn = [batch for _ in range(given.epochs) for batch in batches(rows, given.tokens)]
    began, total = time.monotonic(), 0.0
    for step, batch in enumerate(drawn):
        warm = min(1.0, (step + 1) / given.warm_up)
        rate = given.rate * warm * (0.05 + 0.475 * (1 + math.cos(math.pi * step / len(drawn))))
        for group in optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast(model.device.type, dtype=torch.bfloat16):
            loss = loss_of(model, batch)
        loss.backward()
        total += loss.item()
        torch.nn.utils.clip_grad_norm_(learnt, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 20 == 19:
            seconds = time.monotonic() - began
            print(f"step {step + 1} of {len(drawn)}: loss {total / 20:.4f}, {seconds:.0f} s", flush=True)
            total = 0.0


def main() -> None:
    """Train and save the adapter."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("model", type=Path)
    options.add_argument("rows", type=Path)
    options.add_argument("out", type=Path)
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--rate", type=float, default=2e-3, help="the highest rate of learning")
    options.add_argument("--tokens", type=int, default=32768, help="tokens of a step")
    options.add_argument("--warm-up", type=int, default=50, help="steps until the rate is the highest")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    torch.manual_seed(given.seed)
    random.seed(given.seed)
    model = load(given.model).bfloat16()
    adapted = adapt(model)
    train(model.to("cuda" if torch.cuda.is_available() else "cpu"), json.loads(given.rows.read_text()), given)
    halves = {f"{name}.lora_{part}": getattr(layer, part) for name, layer in adapted.items() for part in "ab"}
    save_file({name: p.detach().half().contiguous().cpu() for name, p in halves.items()}, given.out)


if __name__ == "__main__":
    main()
