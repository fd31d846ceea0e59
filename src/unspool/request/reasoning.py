"""Reads a request's settings of reasoning: sealed texts, summaries, the budget, and how long it is kept."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from ..wire.summary import DETAILS, Detail
from .fields import Fields
from .sealed import Seal, SealError

Context = Literal["never", "loop", "all"]
"""Which of the model's turns a prompt repeats exactly: none, those of the tool loop, or also earlier ones."""
CONTEXTS: Final[tuple[Context, ...]] = ("never", "loop", "all")
EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


class Reasoning(msgspec.Struct, frozen=True, kw_only=True):
    """A request's settings of reasoning."""

    sealed: bool = False  # whether the answer contains sealed reasoning
    summary: Detail | None = None  # how detailed the summary of the reasoning is; ``None`` if there is none
    omit: bool = False  # whether the text of the reasoning is left out
    budget: int | None = None  # the largest number of tokens; ``None`` means any number
    context: Context | None = None  # see `Context`; ``None`` means the server's setting


def opened(seal: Seal | None, fields: Fields, name: str, text: str | None) -> str:
    """The reasoning of an item of the history: its sealed text, in the field ``name``, else its plain text, if it has
    one. An error if the sealed text is not this server's."""
    sealed = fields.text(name, None)
    if not sealed:
        return text or ""
    if seal is None:
        if text:
            return text
        raise fields.wrong(name, "cannot be read: the server has no key for it; leave the item out")
    try:
        return seal.open(sealed)
    except SealError as error:
        raise fields.wrong(name, str(error)) from None


def read_summary(fields: Fields) -> Detail | None:
    """``reasoning.summary``, or ``generate_summary``, its old name."""
    reasoning = fields.lenient("reasoning")
    found: Detail | None = reasoning.one_of("summary", DETAILS, reasoning.one_of("generate_summary", DETAILS, None))
    return found


def read_context(fields: Fields) -> Context | None:
    word = fields.lenient("reasoning").one_of("context", ("auto", "current_turn", "all_turns"), "auto")
    return {"current_turn": "loop", "all_turns": "all"}.get(word)  # type: ignore[return-value]


BUDGETS: Final = ("thinking_budget", "thinking_token_budget", "thinking_budget_tokens", "reasoning_max_tokens")
"""The names of the budget in the chat completions of other servers. All are read."""
_NESTED: Final = ("budget_tokens", "max_tokens")


def read_budget(fields: Fields, efforts: Mapping[str, int]) -> int | None:
    """Read the budget of reasoning in tokens, under any of its names, at the top level or in ``chat_template_kwargs``.
    Without one, it is the server's budget for the request's effort."""
    for source in (fields, fields.object("chat_template_kwargs")):
        nested = [(source.lenient(name), field) for name in ("thinking", "reasoning") for field in _NESTED]
        for holder, field in [(source, name) for name in BUDGETS] + nested:
            if holder.has(field):
                found: int = holder.integer(field, 0)
                return found
    places: list[Any] = [fields.raw.get("reasoning_effort")]
    places += [fields.lenient(name).raw.get("effort") for name in ("reasoning", "output_config")]
    return next((efforts[word] for word in places if isinstance(word, str) and word in efforts), None)
