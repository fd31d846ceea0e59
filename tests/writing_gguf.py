"""Writes GGUF files, whole and broken ones."""

import struct
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from unspool.tokens import BYTES

_U32, _I32, _F32, _BOOL, _TEXT, _ARRAY, _U64 = 4, 5, 6, 7, 8, 9, 10


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(given: Any) -> bytes:
    """A value with its type before it; the numbers of an `array` may be negative."""
    if isinstance(given, bool):
        return struct.pack("<I?", _BOOL, given)
    if isinstance(given, int):
        return struct.pack("<II", _U32, given)
    if isinstance(given, float):
        return struct.pack("<If", _F32, given)
    if isinstance(given, str):
        return struct.pack("<I", _TEXT) + text(given)
    if isinstance(given, array):
        return struct.pack("<IIQ", _ARRAY, _I32, len(given)) + struct.pack(f"<{len(given)}i", *given)
    items = [value(item) for item in given] or [struct.pack("<I", _U32)]
    return struct.pack("<I", _ARRAY) + items[0][:4] + struct.pack("<Q", len(given)) + b"".join(i[4:] for i in items)


def gguf(
    values: Mapping[str, Any],
    tensors: Sequence[tuple[str, Sequence[int], int]] = (),
    *,
    data: int | bytes | None = None,
    version: int = 3,
) -> bytes:
    """A file.

    Args:
        values: its metadata.
        tensors: names, dimensions and types, one behind the other in halves (type 1) or floats (type 0).
        data: the bytes of the tensors, or how many zeros there are; by default all.
        version: of the format.
    """
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values))
    head += b"".join(text(key) + value(given) for key, given in values.items())
    offset = 0
    for name, dimensions, kind in tensors:
        head += text(name) + struct.pack("<I", len(dimensions)) + struct.pack(f"<{len(dimensions)}Q", *dimensions)
        head += struct.pack("<IQ", kind, offset)
        size = 2 if kind else 4
        for dimension in dimensions:
            size *= dimension
        offset += size
    head += b"\0" * (-len(head) % 32)
    return head + (data if isinstance(data, bytes) else b"\0" * (offset if data is None else data))


MODEL: Mapping[str, Any] = {
    "general.architecture": "llama",
    "general.type": "model",
    "llama.context_length": 2048,
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": ["<|im_end|>", "<|im_start|>", "<think>", "Hi", "Ġyou", "\u00c3", "\u00a9"],
    "tokenizer.ggml.token_type": [3, 3, 4, 1, 1, 1, 1],
    "tokenizer.ggml.eos_token_id": 0,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.chat_template": "{{ bos_token }}{% for m in messages %}<think>{{ m.content }}{% endfor %}",
}
TENSORS = (("a", (64, 4), 1), ("b", (64,), 1))


def of_bytes(*special: str) -> dict[str, Any]:
    """The metadata of a model whose tokens are special ones and the bytes."""
    types = [3] * len(special) + [1] * len(BYTES)
    return {**MODEL, "tokenizer.ggml.tokens": [*special, *BYTES], "tokenizer.ggml.token_type": types}
