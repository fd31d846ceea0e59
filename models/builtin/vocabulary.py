"""The model's tokenizer: byte-level BPE whose words are split alike with and without a space before them.

The model must copy names from a request into JSON, where a quotation mark precedes them instead of a space. Merges of a
space with what follows come last, so ``" Lima"`` and ``"Lima"`` are the same tokens except for the first. The two
tokens of such a pair share an embedding (see `network`).
"""

import itertools
import json
import re
from collections.abc import Iterable
from typing import Any, Final

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from . import examples as ex

SPECIAL: Final = (
    ex.BOS, ex.EOS, "<｜▁pad▁｜>", ex.USER, ex.ASSISTANT, "<think>", "</think>", ex.CALLS, ex.CALLS_END, ex.CALL,
    ex.CALL_END, ex.SEP, "<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>", ex.OUTPUT, ex.OUTPUT_END,
)  # fmt: skip
WORDS: Final = 900
"""How many merges make words and parts of words."""
_WORD: Final = re.compile(r"[A-Z]?[a-z]+")
_SPLIT: Final = r" ?\p{Lu}?\p{Ll}+| ?\p{L}| ?\p{N}| ?_| ?[^\s\p{L}\p{N}_]+|\s"
_PUNCTUATION: Final = ('{ "', '" :', '" ,', '" }', ": /", ":/ /")
_SPACE: Final = "Ġ"  # how byte-level BPE writes it


def build(seed: int, count: int = 6000) -> Tokenizer:
    """A tokenizer trained on the words of this many examples."""
    words = itertools.chain.from_iterable(_words(e) for e in itertools.islice(ex.examples(seed), count))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trained = Tokenizer(models.BPE())
    trained.train_from_iterator(
        ([w] for w in words),
        trainers.BpeTrainer(vocab_size=len(alphabet) + WORDS, initial_alphabet=alphabet, show_progress=False),
    )
    learnt = [tuple(pair) for pair in json.loads(trained.to_str())["model"]["merges"]]
    merges = [*learnt, *(tuple(p.split()) for p in _PUNCTUATION)]
    tokens = [*alphabet, *("".join(pair) for pair in merges)]
    spaced = [t for t in tokens if t[0].isascii() and t != _SPACE]
    merges += [(_SPACE, t) for t in spaced]
    tokens += [_SPACE + t for t in spaced]
    vocabulary = {t: i for i, t in enumerate([*SPECIAL, *tokens])}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=False))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(list(SPECIAL))
    return made


def _words(example: Iterable[ex.Piece]) -> Iterable[str]:
    text = re.sub(r"<[^>]*>", " ", "".join(p.text for p in example))
    return _WORD.findall(text)


def config() -> dict[str, Any]:
    """The contents of ``tokenizer_config.json``."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": ex.BOS,
        "eos_token": ex.EOS,
        "pad_token": SPECIAL[2],
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 2048,
    }
