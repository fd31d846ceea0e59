"""Finds the text that a chat template writes between two answers, by a word in place of the answer's text.

That word is followed by the answer's closing, the new messages and the opening of the next answer. Together they are
the bridge, which goes after what the model wrote and leaves that unchanged.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ..errors import TemplateError

_BEGINNINGS: Final = "<|[｜"  # the first characters of markers: markers that begin alike differ after these


class Bridge(NamedTuple):
    """The text between two answers: what ends the first one, in order, and the rest, with the next answer's opening."""

    closings: tuple[str, ...]
    text: str

    @property
    def whole(self) -> str:
        return "".join(self.closings) + self.text

    def missing(self, written: str, ends: tuple[str, ...]) -> str:
        """The text that an answer lacks at its end; ``""`` if it ended by itself."""
        for count in range(len(self.closings), 0, -1):
            if written.endswith("".join(self.closings[:count])):
                return "".join(self.closings[count:])
        return "" if ends and written.endswith(ends) else "".join(self.closings)


def behind(word: str, text: str) -> str:
    """The text after the last occurrence of the word; a `TemplateError` if there is none."""
    at = text.rfind(word)
    if at < 0:
        raise TemplateError("template: does not write the text of an answer as it is")
    return text[at + len(word) :]


def between(tail: str, ends: Sequence[str], limit: int, closed: Callable[[], str]) -> Bridge:
    """Find the bridge in the text after the word, which ends with the next answer's opening. ``ends`` are the texts
    that end answers, the longest first. Only if none is there, ``closed`` is asked for the text after the word in a
    conversation that this answer ends. ``limit`` is where the content of the first new message begins, before which
    the answer ends; -1: unknown."""
    found = [(at, -len(end), end) for end in ends if (at := tail.find(end)) >= 0 and (limit < 0 or at < limit)]
    if found:
        at, _, end = min(found)
        closings: list[str] = []
        while end:
            closings.append(end)
            at += len(end)
            end = next((e for e in ends if tail.startswith(e, at)), "")
        return Bridge(tuple(closings), tail[at:])
    # No end is known: the answer ends where the text differs from what the template writes after a last message.
    last = closed()
    same = next((i for i, (a, b) in enumerate(zip(tail, last, strict=False)) if a != b), min(len(tail), len(last)))
    if same < len(last):
        same = len(tail[:same].rstrip(_BEGINNINGS))
    return Bridge((), tail[min(same, limit) if limit >= 0 else same :])
