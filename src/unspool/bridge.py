"""The text that a chat template writes between two answers, found by a word that stands in for the answer's text.

What closes the answer, the new messages and the opening of the next answer follow that word. They are the bridge: it
goes after what the model wrote, which stays as it is.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from .errors import TemplateError

__all__ = ["Bridge", "behind", "between"]

_BEGINNINGS: Final = "<|[｜"
"""The first characters of markers: two that begin alike differ after them."""


class Bridge(NamedTuple):
    """The text between two answers.

    Attributes:
        closings: what ends the first answer, one after the other; none where the template writes nothing for it.
        text: what follows, the next answer's opening included.
    """

    closings: tuple[str, ...]
    text: str

    @property
    def whole(self) -> str:
        """All of it."""
        return "".join(self.closings) + self.text

    def missing(self, written: str, ends: tuple[str, ...]) -> str:
        """The text that still ends an answer; ``""`` where it ended by itself."""
        for count in range(len(self.closings), 0, -1):
            if written.endswith("".join(self.closings[:count])):
                return "".join(self.closings[count:])
        return "" if ends and written.endswith(ends) else "".join(self.closings)


def behind(word: str, text: str) -> str:
    """The text after the last occurrence of the word.

    Raises:
        TemplateError: the word is not in the text.
    """
    at = text.rfind(word)
    if at < 0:
        raise TemplateError("template: does not write the text of an answer as it is")
    return text[at + len(word) :]


def between(tail: str, ends: Sequence[str], limit: int, closed: Callable[[], str]) -> Bridge:
    """The bridge in what comes after the word.

    Args:
        tail: that, in a conversation that goes on and ends with the next answer's opening.
        ends: texts that end answers, the longest first.
        limit: where in it the content of the first new message begins, as no end of the answer comes after that;
            -1 where that is unknown.
        closed: what comes after the word in a conversation that ends with this answer; asked for where no end is
            known.
    """
    found = [(at, -len(end), end) for end in ends if (at := tail.find(end)) >= 0 and (limit < 0 or at < limit)]
    if found:
        at, _, end = min(found)
        closings: list[str] = []
        while end:
            closings.append(end)
            at += len(end)
            end = next((e for e in ends if tail.startswith(e, at)), "")
        return Bridge(tuple(closings), tail[at:])
    # No end is known: the answer ends where the template differs from what it writes after a last message.
    last = closed()
    same = next((i for i, (a, b) in enumerate(zip(tail, last, strict=False)) if a != b), min(len(tail), len(last)))
    if same < len(last):
        same = len(tail[:same].rstrip(_BEGINNINGS))
    return Bridge((), tail[min(same, limit) if limit >= 0 else same :])
