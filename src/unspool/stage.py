"""Where an output begins, by the prompt that it answers."""

from collections.abc import Sequence
from typing import Any

from .arguments import check_prompt
from .dialect.file import Dialect
from .events import Stage
from .parser import Parser


def detect_stage(dialect: str | Dialect, prompt: str | Sequence[int], *, tokenizer: Any = None) -> Stage:
    """Where the output that follows a prompt begins.

    What comes after the last opening of an assistant's turn is replayed through the parser itself, so that prefills,
    closed thinking and calls of earlier turns are understood as in an output.

    Args:
        dialect: a name, or a `Dialect`.
        prompt: the rendered prompt, or its token ids.
        tokenizer: needed for token ids; see `Parser`.

    Raises:
        UnknownDialect: no dialect has this name.
        ValueError: token ids without a tokenizer.
        TypeError: an argument is of another type; the message names it.
    """
    check_prompt(prompt)
    return Parser(dialect, prompt=prompt, tokenizer=tokenizer).stage
