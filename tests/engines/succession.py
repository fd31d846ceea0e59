"""Models with weights set by hand: each token has one successor, so they write only a given text."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

BOS: Final = "<｜begin▁of▁sentence｜>"
EOS: Final = "<｜end▁of▁sentence｜>"
PROMPT: Final = f"{BOS}<｜User｜>Weather in Paris?<｜Assistant｜><think>"
OUTPUT: Final = (
    *("They want", " a forecast.", "</think>", "Ich prüfe das. 🌍"),
    *("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "get_weather", "<｜tool▁sep｜>"),
    *('{"city": ', '"Paris"', ', "days": 3}', "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"),
)
"""The output after the prompt, in which no token occurs twice."""
LOOP: Final = ("tick", " tock", " tack ")
"""Text that repeats forever if a prompt ends with it."""
MARKERS: Final = ("<｜User｜>", "<｜Assistant｜>", "<think>", *OUTPUT, *LOOP)
TEMPLATE: Final = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{{ m.content }}"
    "{% elif m.role == 'assistant' %}<｜Assistant｜></think>{{ m.content or '' }}"
    "{% if m.tool_calls %}<｜tool▁calls▁begin｜>{% for c in m.tool_calls %}<｜tool▁call▁begin｜>{{ c.function.name }}"
    "<｜tool▁sep｜>{{ c.function.arguments | tojson }}<｜tool▁call▁end｜>{% endfor %}<｜tool▁calls▁end｜>{% endif %}"
    "<｜end▁of▁sentence｜>{% endif %}{% endfor %}{% if add_generation_prompt %}<｜Assistant｜><think>{% endif %}"
)
"""A chat template like that of DeepSeek-V3.1, with thinking on."""


def chains(ids: dict[str, int]) -> dict[int, int]:
    """The successor of each token."""
    text = [ids[t] for t in ("<think>", *OUTPUT, EOS)]
    loop = [ids[t] for t in (*LOOP, LOOP[0])]
    return {a: b for chain in (text, loop) for a, b in pairwise(chain)}


def weights(size: int, follows: dict[int, int], otherwise: int) -> "tuple[NDArray[np.float32], NDArray[np.float32]]":
    """Embeddings and head of a model that has as many dimensions as tokens, and whose layers add nothing."""
    head = np.zeros((size, size), np.float32)
    for token in range(size):
        head[follows.get(token, otherwise), token] = 1
    return np.eye(size, dtype=np.float32), head


def layers(size: int, hidden: int) -> "dict[str, NDArray[np.float32]]":
    """The only layer of such a model, which adds nothing, by the names of GGUF."""
    square: Any = np.zeros((size, size), np.float32)
    return {
        "attn_norm": np.ones(size, np.float32),
        "attn_q": square,
        "attn_k": square,
        "attn_v": square,
        "attn_output": square,
        "ffn_norm": np.ones(size, np.float32),
        "ffn_gate": np.zeros((hidden, size), np.float32),
        "ffn_up": np.zeros((hidden, size), np.float32),
        "ffn_down": np.zeros((size, hidden), np.float32),
    }


def rounded(size: int, to: int = 64) -> int:
    return -(-size // to) * to


def joined(tokens: Sequence[str] = OUTPUT) -> str:
    return "".join(tokens)
