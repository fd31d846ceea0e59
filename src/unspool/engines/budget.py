"""Budgets of reasoning: after this many tokens, the dialect's own marker closes the reasoning."""

from typing import Any

from ..tokens import added_tokens, encoded
from .base import Thinking

__all__ = ["Budget"]


class Budget:
    """Counts the tokens of one output's reasoning, and determines which token must come when the budget is used up.

    Args:
        asked: the budget, and how reasoning is recognized.
        tokenizer: the tokenizer of the model.
    """

    def __init__(self, asked: Thinking, tokenizer: Any) -> None:
        self._left = asked.budget
        self._inside = asked.inside
        self._opening, self._closing = asked.opening, asked.closing
        self._longest = max(len(asked.opening), len(asked.closing))
        self._tail = ""
        self._whole = True  # the last token ended with a complete character
        known = added_tokens(tokenizer).get(asked.closing)
        self._ids = [known] if known is not None else encoded(tokenizer, asked.closing)
        self._at = 0  # how many of these have come

    @property
    def due(self) -> int | None:
        """The token that must come next, if the grammar admits it; ``None`` means any token."""
        if self._at:
            return self._ids[self._at]
        return self._ids[0] if self._inside and self._left <= 0 and self._whole and self._ids else None

    def took(self, token: int, text: str) -> None:
        """Record a token, and the text that it completed."""
        forced = self.due is not None and token == self._ids[self._at]
        self._at = self._at + 1 if forced else 0
        if self._at == len(self._ids):
            self._at = 0
        self._whole = bool(text)
        if self._inside:
            self._left -= 1
        self._tail = (self._tail + text)[-(self._longest + len(text)) :]
        marker = self._closing if self._inside else self._opening
        at = self._tail.rfind(marker) if marker else -1
        if at >= 0:
            self._inside = not self._inside
            self._tail = self._tail[at + len(marker) :]
        self._tail = self._tail[-self._longest :]
