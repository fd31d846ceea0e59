"""Makes examples/tokenizer: a small byte-level BPE of the English documentation, for examples and tests.

    python -m tests.tokenizer

It is a real tokenizer with a real chat template, of no model.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT: Final = Path(__file__).parent.parent
FOLDER: Final = ROOT / "examples" / "tokenizer"
"""The tokenizer's folder. Its template writes what the dialect hermes reads."""
SIZE: Final = 1500
SPECIAL: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
ADDED: Final = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")


def byte_level(
    tokens: Iterable[str] = (),
    corpus: Iterable[str] = (),
    size: int = 0,
    *,
    merges: Sequence[tuple[str, str]] = (),
    special: Iterable[str] = (),
    normalized: bool = False,
) -> Tokenizer:
    """A byte-level BPE, as of GPT-2, Llama 3, Qwen and DeepSeek.

    Args:
        tokens: all its tokens; by default one for each byte.
        corpus: texts on which it is trained instead.
        size: how many tokens training makes.
        merges: pairs of tokens that are one.
        special: the special tokens, in the order of their ids.
        normalized: whether these are looked for in normalized text.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = [*(tokens or alphabet), *(a + b for a, b in merges)]
    made = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(vocabulary)}, merges=list(merges)))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    if size:
        trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
        made.train_from_iterator(corpus, trainer)
    made.add_special_tokens([AddedToken(t, special=True, normalized=normalized) for t in special])
    return made


def make() -> Tokenizer:
    """Train the tokenizer."""
    pages = sorted((ROOT / "docs" / "en").rglob("*.md"))
    made = byte_level(corpus=(line for page in pages for line in page.open(encoding="utf-8")), size=SIZE)
    made.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    made.add_tokens([AddedToken(token, special=False, normalized=False) for token in ADDED])
    return made


if __name__ == "__main__":
    make().save(str(FOLDER / "tokenizer.json"))
    config = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    (FOLDER / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
