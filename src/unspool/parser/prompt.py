"""Finds where an output begins, from its prompt."""

from collections.abc import Sequence
from typing import Any

from ..dialect.file import Dialect
from ..dialect.patterns import worded
from ..dialect.template import Template
from ..events import Stage
from .white import common_prefix


def prompt_tail(dialect: Dialect, prompt: str) -> str | None:
    """The text after the last opening of an assistant's turn; ``None`` if the prompt contains none."""
    found = _last_start(dialect, prompt)
    return None if found is None else prompt[found[1] :]


def last_turn(dialect: Dialect, prompt: str) -> str:
    """The last assistant's turn of a prompt, which is all that decides where the output begins."""
    found = _last_start(dialect, prompt)
    return prompt if found is None else prompt[found[0] :]


def _last_start(dialect: Dialect, prompt: str) -> tuple[int, int] | None:
    """The place of the last opening of an assistant's turn: its beginning and end."""
    best = -1
    before = after = 0
    for start in dialect.start:
        marker = start.rstrip()
        at = prompt.rfind(marker)
        if at >= 0 and at + len(marker) > max(best, 0):
            before, best = at, at + len(marker)
            after = best + common_prefix(prompt, start[len(marker) :], best)
    return (before, after) if best >= 0 else None


def prompt_end(dialect: Dialect, prompt: str) -> Stage:
    """The stage from the very end of the prompt: an opening there counts, anything else means content."""
    text = prompt.rstrip()
    for template in dialect.reasoning:
        opening, closing = _literal(template.before), _literal(template.after)
        if closing and text[-len(closing) :].lower() == closing.lower():
            return Stage.CONTENT
        if opening and text[-len(opening) :].lower() == opening.lower():
            return Stage.REASONING
    for template in dialect.calls:
        opening = _literal(template.before)
        if worded(opening) and text.endswith(opening):
            return Stage.TOOL_CALL
    return Stage.CONTENT


def _literal(parts: Template | tuple[Any, ...]) -> str:
    """The text of pieces without fields."""
    assert isinstance(parts, tuple)
    return "".join(parts).strip() if all(isinstance(p, str) for p in parts) else ""


def decode_ids(tokenizer: Any, ids: Sequence[int]) -> str:
    """The text of token ids, special tokens included."""
    from ..tokens import Detokenizer  # not needed for text

    decoder = Detokenizer(tokenizer)
    pieces: list[str] = []
    for token in ids:
        pieces.extend(decoder.push(token))
    pieces.append(decoder.flush()[0])
    return "".join(pieces)
