"""Arguments in markup, as regular expressions: what of them is whole, and what may wait since nothing is decided.

The machine reads all of them step by step. These tell it when a look is worth it, and take what is plain in one step.
They say yes only where the patterns would; where a template is too complex there is none.
"""

import re
from collections.abc import Iterable

from .markers import Parameter
from .patterns import FEW_SPACES, Pattern

Expression = re.Pattern[str] | None


class Awaited:
    """What may be in one kind of container, or in a call.

    Attributes:
        between: matches text in which no next argument has opened, and nothing has closed.
        opens: matches the opening of a next argument, with white space before it.
    """

    __slots__ = ("_ahead", "_inside", "_whole", "between", "opens")

    def __init__(self, children: Iterable[Parameter], closings: Iterable[Pattern], others: Iterable[Pattern]) -> None:
        """Compile what may come next.

        Args:
            children: how what lies in it is written.
            closings: what closes it.
            others: what else may be there.
        """
        openings = [child.opening for child in children]
        patterns = [*openings, *closings]
        begun, whole = [p.begun() for p in patterns], [p.whole() for p in patterns]
        known = None not in begun and None not in whole
        # Another marker may be there where one of them begins: what stands before its first field decides.
        rivals = [p for p in others if any(q.first.startswith(p.first) for q in patterns)]
        decided = _any([*map(str, whole), *(p.head().whole() or re.escape(p.first) for p in rivals)])
        self._ahead = f"{FEW_SPACES}(?!{decided}){_any(map(str, begun))}" if known else ""
        self.between: Expression = re.compile(self._ahead) if known else None
        self.opens: Expression = re.compile(FEW_SPACES + _any(map(str, whole[: len(openings)]))) if known else None
        self._inside: dict[int, Expression] = {}
        self._whole: dict[int, Expression] = {}

    def inside(self, parameter: Parameter) -> Expression:
        """Matches the text of a value of which it is not decided whether it has ended."""
        if id(parameter) not in self._inside:
            value = self._value(parameter)
            self._inside[id(parameter)] = re.compile(value) if value else None
        return self._inside[id(parameter)]

    def whole(self, parameter: Parameter) -> Expression:
        """The same after the argument's opening."""
        if id(parameter) not in self._whole:
            value, opened = self._value(parameter), parameter.opened()
            self._whole[id(parameter)] = re.compile(opened.pattern + value) if value and opened is not None else None
        return self._whole[id(parameter)]

    def _value(self, parameter: Parameter) -> str:
        closing = parameter.closing.begun(self._ahead) if self._ahead else None
        return f"[^{re.escape(parameter.firsts)}]*+{closing}" if closing else ""


def _any(expressions: Iterable[str]) -> str:
    return f"(?:{'|'.join(dict.fromkeys(expressions))})"
