"""A model of a few hundred random numbers that sees, as llama.cpp loads it: a GGUF, and its projector."""

import math
import random
import struct
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unspool.tokens import BYTES

from ...writing_gguf import gguf

WIDTH, INNER = 32, 64
SEES, SEES_INNER = 16, 32
COST = 3
"""The tokens of an image: its patches are pooled into one, which the projector frames."""
MARKERS = ("<s>", "<|im_end|>", "<|im_start|>", "<start_of_image>", "<end_of_image>", "<tool_call>", "</tool_call>")
TEMPLATE = """<s>{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content or [] %}{% if p.type == 'image' %}
{{- '<start_of_image>' }}{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}
{%- for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def _file(values: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], said: Sequence[bool] = ()) -> bytes:
    """A file with random tensors; norms are ones, and of all tokens only those that are ``said`` are ever written."""
    numbers = random.Random(1)
    tensors, data = [], b""
    for name, shape in shapes.items():
        count = math.prod(shape)
        flat = name.endswith("norm.weight") and len(shape) == 1
        tensors.append((name, tuple(shape), 0))
        made = [1.0 if flat else numbers.gauss(0, 0.3) for _ in range(count)]
        if name == "output.weight":
            made = [number * said[i // shape[0]] for i, number in enumerate(made)]
        data += struct.pack(f"<{count}f", *made)
    return gguf(values, tensors, data=data)


def write_model(folder: Path) -> tuple[Path, Path]:
    """The paths of the model and of its projector."""
    tokens = [*MARKERS, *BYTES]
    block = {
        **dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (WIDTH, WIDTH)),
        **dict.fromkeys(("attn_norm", "ffn_norm"), (WIDTH,)),
        "ffn_gate": (WIDTH, INNER),
        "ffn_up": (WIDTH, INNER),
        "ffn_down": (INNER, WIDTH),
    }
    model = _file(
        {
            "general.architecture": "llama",
            "general.type": "model",
            "llama.context_length": 1024,
            "llama.embedding_length": WIDTH,
            "llama.block_count": 1,
            "llama.feed_forward_length": INNER,
            "llama.attention.head_count": 2,
            "llama.attention.head_count_kv": 2,
            "llama.attention.layer_norm_rms_epsilon": 1e-5,
            "llama.rope.dimension_count": 16,
            "llama.vocab_size": len(tokens),
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": array("i", [3] * 5 + [4] * 2 + [1] * len(BYTES)),
            "tokenizer.ggml.merges": ["a b"],
            "tokenizer.ggml.bos_token_id": 0,
            "tokenizer.ggml.eos_token_id": 1,
            "tokenizer.ggml.add_bos_token": True,
            "tokenizer.chat_template": TEMPLATE,
        },
        {
            "token_embd.weight": (WIDTH, len(tokens)),
            "output.weight": (WIDTH, len(tokens)),
            "output_norm.weight": (WIDTH,),
            **{f"blk.0.{name}.weight": shape for name, shape in block.items()},
        },
        [len(token) == 1 and token.isascii() for token in tokens],
    )
    sees = {
        **dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_out"), (SEES, SEES)),
        "ffn_up": (SEES, SEES_INNER),
        "ffn_down": (SEES_INNER, SEES),
        "ln1": (SEES,),
        "ln2": (SEES,),
    }
    projector = _file(
        {
            "general.architecture": "clip",
            "clip.has_vision_encoder": True,
            "clip.projector_type": "gemma3",
            "clip.use_gelu": True,
            "clip.vision.image_size": 56,
            "clip.vision.patch_size": 14,
            "clip.vision.embedding_length": SEES,
            "clip.vision.feed_forward_length": SEES_INNER,
            "clip.vision.block_count": 1,
            "clip.vision.projection_dim": WIDTH,
            "clip.vision.attention.head_count": 2,
            "clip.vision.attention.layer_norm_epsilon": 1e-6,
            "clip.vision.image_mean": [0.5, 0.5, 0.5],
            "clip.vision.image_std": [0.5, 0.5, 0.5],
        },
        {
            "v.patch_embd.weight": (14, 14, 3, SEES),
            "v.patch_embd.bias": (SEES,),
            "v.position_embd.weight": (SEES, 16),
            **{f"v.blk.0.{name}.weight": shape for name, shape in sees.items()},
            **{f"v.blk.0.{name}.bias": shape[-1:] for name, shape in sees.items()},
            "v.post_ln.weight": (SEES,),
            "v.post_ln.bias": (SEES,),
            "mm.input_projection.weight": (WIDTH, SEES),
            "mm.soft_emb_norm.weight": (SEES,),
        },
    )
    paths = folder / "model.gguf", folder / "mmproj.gguf"
    for path, data in zip(paths, (model, projector), strict=True):
        path.write_bytes(data)
    return paths
