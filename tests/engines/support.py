"""Helpers for the tests of engines: tokenizers that are made here, and matchers with them.

The engines are imported inside functions, because the default run does not install them.
"""

from functools import cache
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import unspool
from unspool import Constraint, list_dialects
from unspool.grammar import Llguidance, Matcher, Xgrammar

WITH_CALLS = [d for d in list_dialects() if d.call]
EOS = 256
"""The token that ends a sequence. The tokens before it are the bytes."""


def _letters() -> dict[int, str]:
    """How byte-level tokenizers write each byte: printable ones as they are, others as letters beyond Latin-1."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) if b in plain else chr(256 + others.index(b)) for b in range(256)}


@cache
def byte_tokenizer() -> Any:
    """A tokenizer in which each byte is the token with the same number."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(vocab={letter: byte for byte, letter in _letters().items()}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<eos>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>")


@cache
def engine(name: str) -> Llguidance | Xgrammar:
    """An engine over bytes."""
    return Xgrammar(byte_tokenizer()) if name == "xgrammar" else Llguidance(byte_tokenizer(), eos=EOS)


def refuses(matcher: Matcher, text: str) -> str:
    """Why the text cannot be generated; ``""`` if it can."""
    data = text.encode()
    for i, byte in enumerate(data):
        if not matcher.accept(byte):
            return f"stuck behind {data[:i].decode(errors='replace')!r}, before {data[i : i + 20]!r}"
    return "" if matcher.accept(EOS) else "is not the end"


def some(constraint: Constraint | None) -> Constraint:
    assert constraint is not None
    return constraint


def turn(*calls: tuple[str, dict[str, Any]], **parts: Any) -> dict[str, Any]:
    """An assistant message."""
    made = [{"type": "function", "function": {"name": n, "arguments": a}} for n, a in calls]
    return {"role": "assistant", "tool_calls": made, **parts}


def calls_of(message: unspool.Message) -> list[tuple[str, str, str]]:
    return [(c.name, c.arguments, c.status) for c in message.tool_calls]
