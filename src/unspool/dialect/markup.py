"""Arguments in markup as regular expressions: complete arguments, and text that decides nothing yet.

The machine can read all arguments step by step. These expressions show when that is worthwhile, and take plain
arguments in one step. They match only where the patterns would. If a template is too complex, there is none.
"""

import re
from collections.abc import Iterable

from .markers import Parameter
from .patterns import FEW_SPACES, Pattern

Expression = re.Pattern[str] | None


class Awaited:
    """What may come inside one kind of container, or inside a call.

    Attributes:
        between: matches text in which no further argument has opened, and nothing has closed.
        opens: matches the opening of a further argument, with white space before it.
    """

    __slots__ = ("_ahead", "_inside", "_whole", "between", "opens")

    def __init__(self, children: Iterable[Parameter], closings: Iterable[Pattern], others: Iterable[Pattern]) -> None:
        """Compile what may come next.

        Args:
            children: the templates of what is inside it.
            closings: its closings.
            others: other markers that may come.
        """
        openings = [child.opening for child in children]
        patterns = [*openings, *closings]
        begun, whole = [p.begun() for p in patterns], [p.whole() for p in patterns]
        known = None not in begun and None not in whole
        # Where one of them begins, another marker may be instead: the text before its first field decides.
        rivals = [p for p in others if any(q.first.startswith(p.first) for q in patterns)]
        decided = _any([*map(str, whole), *(p.head().whole() or re.escape(p.first) for p in rivals)])
        self._ahead = f"{FEW_SPACES}(?!{decided}){_any(map(str, begun))}" if known else ""
        self.between: Expression = re.compile(self._ahead) if known else None
        self.opens: Expression = re.compile(FEW_SPACES + _any(map(str, whole[: len(openings)]))) if known else None
        self._inside: dict[int, Expression] = {}
        self._whole: dict[int, Expression] = {}

    def inside(self, parameter: Parameter) -> Expression:
        """Matches the text of a value as long as it is undecided whether the value has ended.

        The group ``text`` is what certainly belongs to the value. Text without `Parameter.firsts` makes it longer.
        """
        if id(parameter) not in self._inside:
            text, closing = self._value(parameter)
            self._inside[id(parameter)] = re.compile(f"(?P<text>{text}){closing}") if closing else None
        return self._inside[id(parameter)]

    def whole(self, parameter: Parameter) -> Expression:
        """The same with the argument's opening before it."""
        if id(parameter) not in self._whole:
            (text, closing), opened = self._value(parameter), parameter.opened()
            head = opened.pattern if closing and opened is not None else None
            self._whole[id(parameter)] = None if head is None else re.compile(f"{head}{text}{closing}")
        return self._whole[id(parameter)]

    def _value(self, parameter: Parameter) -> tuple[str, str]:
        """What matches the text of a value, and the beginning of its closing; ``""`` if that is too complex."""
        closing = parameter.closing.begun(self._ahead) if self._ahead else None
        return f"[^{re.escape(parameter.firsts)}]*+", closing or ""


def _any(expressions: Iterable[str]) -> str:
    return f"(?:{'|'.join(dict.fromkeys(expressions))})"
