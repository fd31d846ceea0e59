"""Summaries of reasoning: sentences of the reasoning itself, picked out as it streams.

No model writes them. The first sentence of a paragraph says what the paragraph is about, so these sentences are the
summary: with ``detailed``, one of each paragraph; with ``concise``, only those that are far enough from the last.
"""

from typing import Final, Literal

from ..regex import Regex

Detail = Literal["auto", "concise", "detailed"]
DETAILS: Final[tuple[Detail, ...]] = ("auto", "concise", "detailed")

_APART: Final = 400  # the least characters of reasoning between two sentences of a concise summary
_LONGEST: Final = 240  # the most characters of a sentence; of a longer one, only the beginning is taken
_END: Final = Regex(r"(?:[.!?](?=\s)|[。！？]|\n)")


class ReasoningSummary:
    """Picks the sentences of one block of reasoning.

    Args:
        detail: how many sentences to pick; ``auto`` is ``concise``.
    """

    def __init__(self, detail: Detail) -> None:
        self._apart = 0 if detail == "detailed" else _APART
        self._held = ""  # the text of a sentence that may be picked
        self._lines = 2  # line feeds since the last text
        self._passed = self._apart  # characters since the last sentence that was picked

    def feed(self, text: str) -> list[str]:
        """The sentences that the next piece of reasoning completes."""
        found: list[str] = []
        lines = text.split("\n")
        for line in lines[:-1]:
            self._line(line + "\n", found)
        if lines[-1]:
            self._line(lines[-1], found)
        return found

    def close(self) -> list[str]:
        """The sentence that the end completes, if any."""
        held, self._held = self._held.strip(), ""
        return [held] if held else []

    def _line(self, line: str, found: list[str]) -> None:
        blank = not line.strip()
        if not self._held and (blank or self._lines < 2 or self._passed < self._apart):
            self._lines = self._lines + line.count("\n") if blank else line.count("\n")
            self._passed += len(line)
            return
        self._held += line
        self._lines = line.count("\n")
        sentence = self._held.lstrip()
        end = _END.search(sentence)
        if end is None and len(sentence) < _LONGEST:
            return
        sentence = sentence[: min(len(sentence) if end is None else end.end(), _LONGEST)].strip()
        self._passed, self._held = len(self._held) - len(sentence), ""
        if sentence:
            found.append(sentence)


def summarized(text: str, detail: Detail) -> list[str]:
    """The summary of a whole block of reasoning, which equals that of its pieces."""
    summary = ReasoningSummary(detail)
    return [*summary.feed(text), *summary.close()]
