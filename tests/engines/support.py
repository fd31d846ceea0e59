"""Helpers for the tests of engines: tokenizers that are made here, and matchers with them.

The engines are imported inside functions, because the default run does not install them.
"""

from functools import cache
from typing import Any

from unspool import list_dialects
from unspool.grammar import Llguidance, Matcher, Xgrammar

from . import generation
from .generation import EOS

WITH_CALLS = [d for d in list_dialects() if d.call]


@cache
def byte_tokenizer() -> Any:
    """A tokenizer in which each byte is the token with the same number."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=generation.byte_tokenizer(), eos_token="<eos>")


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
