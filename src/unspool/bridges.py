"""What stands between two answers of a conversation: the first one's end, new messages, and the next one's opening.

A template renders the conversation with a stand-in for the answer, whose last text is a word that nothing else holds.
Behind that word is the bridge: it goes behind what the model wrote, whatever that is, and that stays as it is.
"""

import os.path
from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["Bridge", "cut", "parting"]

_BEGINNINGS: Final = "<|[｜"
"""What markers begin with: two that begin alike part behind it."""


class Bridge(NamedTuple):
    """What stands between two answers.

    Attributes:
        closings: what ends the first answer, one behind the other; none where the template writes nothing for it.
        text: what follows, the next answer's opening included.
    """

    closings: tuple[str, ...]
    text: str

    @property
    def whole(self) -> str:
        """All of it."""
        return "".join(self.closings) + self.text

    def missing(self, written: str, ends: tuple[str, ...]) -> str:
        """What still has to be written behind an answer to end it; ``""`` where it ended by itself in any way."""
        for count in range(len(self.closings), 0, -1):
            if written.endswith("".join(self.closings[:count])):
                return "".join(self.closings[count:])
        return "" if ends and written.endswith(ends) else "".join(self.closings)


def cut(tail: str, ends: Sequence[str], limit: int) -> tuple[tuple[str, ...], int] | None:
    """Where the answer ends in what stands behind its last text.

    Args:
        tail: that text.
        ends: what may end an answer, longer ones first.
        limit: where the new messages begin, at the latest; -1: unknown.

    Returns:
        The closings and the place behind them; ``None`` where there are none.
    """
    found = [(at, -len(end), end) for end in ends if (at := tail.find(end)) >= 0 and (limit < 0 or at < limit)]
    if not found:
        return None
    at, _, end = min(found)
    closings: list[str] = []
    while end:
        closings.append(end)
        at += len(end)
        end = next((e for e in ends if tail.startswith(e, at)), "")
    return tuple(closings), at


def parting(tail: str, last: str, limit: int) -> int:
    """Where the answer ends in ``tail`` if no end of it is known: where the template goes on otherwise than it does
    behind a last message.

    Args:
        tail: what stands behind the answer's last text.
        last: the same where nothing follows the answer.
        limit: as for `cut`.
    """
    same = os.path.commonprefix([tail, last])  # noqa: RUF071 - of strings, not of paths
    if len(same) < len(last):
        same = same.rstrip(_BEGINNINGS)
    return min(len(same), limit) if limit >= 0 else len(same)
