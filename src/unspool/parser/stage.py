"""Finds where an output begins, from its prompt."""

from collections.abc import Sequence
from typing import Any

from ..arguments import check_prompt
from ..dialect.file import Dialect
from ..events import Stage
from . import Parser


def detect_stage(dialect: str | Dialect, prompt: str | Sequence[int], *, tokenizer: Any = None) -> Stage:
    """Return the stage in which the output after a prompt begins.

    The parser itself replays what follows the last opening of an assistant's turn, so prefills, closed reasoning and
    calls are read as in an output.

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
