"""Text among arguments in markup that decides nothing yet, as regular expressions.

They match only where the patterns of the templates may still match. If a template is too complex, there is none.
"""

import re
from collections.abc import Iterable
from typing import Final

from .markers import Parameter
from .patterns import FEW_SPACES, Pattern

Expression = re.Pattern[str] | None
_MOST: Final = 20_000  # characters of an expression: a file may have many blocks, each with many calls


class Undecided:
    """What may come inside one kind of container, or inside a call. ``between`` matches text in which no further
    argument has opened, and nothing has closed."""

    __slots__ = ("_inside", "ahead", "between")

    def __init__(self, children: Iterable[Parameter], closings: Iterable[Pattern], others: Iterable[Pattern]) -> None:
        """Compile what may come next: the templates of what is inside, its closings, and other markers."""
        openings = [child.opening for child in children]
        patterns = [*openings, *closings]
        begun, whole = [p.begun() for p in patterns], [p.whole() for p in patterns]
        known = None not in begun and None not in whole
        # Where one of them begins, another marker may be instead: the text before its first field decides.
        rivals = [p for p in others if any(q.first.startswith(p.first) for q in patterns)]
        decided = _any([*map(str, whole), *(p.head().whole() or re.escape(p.first) for p in rivals)])
        self.ahead = f"{FEW_SPACES}(?!{decided}){_any(map(str, begun))}" if known else ""
        self.between: Expression = re.compile(self.ahead) if known else None
        self._inside: dict[Parameter, Expression] = {}

    def inside(self, parameter: Parameter) -> Expression:
        """Matches the text of a value as long as it is undecided whether the value has ended."""
        if parameter not in self._inside:
            closing = parameter.closing.begun(self.ahead) if self.ahead else None
            text = f"[^{re.escape(parameter.heads)}]*+{closing}"
            self._inside[parameter] = re.compile(text) if closing else None
        return self._inside[parameter]


def undecided_opening(calls: Iterable[Pattern], first: Undecided | None) -> Expression:
    """Matches text in which a call may open, by one of some patterns, as long as its first argument has not opened."""
    known = [(part, whole) for p in calls if (part := p.begun()) and (whole := p.whole())]
    size = sum(len(part) + len(whole) for part, whole in known)
    if first is None or not first.ahead or not known or size > _MOST:
        return None
    begun, whole = (_any(parts) for parts in zip(*known, strict=True))
    return re.compile(f"{FEW_SPACES}(?:{whole}{first.ahead}|{begun})")


def _any(expressions: Iterable[str]) -> str:
    return f"(?:{'|'.join(dict.fromkeys(expressions))})"
