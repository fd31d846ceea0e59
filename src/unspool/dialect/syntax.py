"""How the literals of a dialect's arguments are written."""

import enum

from ..regex import Prefix


class Syntax(enum.Enum):
    """How a literal is written."""

    JSON = "json"
    PYTHON = "python"
    TEXT = "text"
    """No literal at all: bare text, which is the value of the one argument."""
    QUOTE = "quote"
    """JSON whose strings are, unescaped, between a marker of the dialect's own, and whose keys are bare."""


KEYWORD = Prefix(r"(?:[\w.$@:/#-]++(?: [\w.$@:/#-][\w.$@:/#-]*+)*+)?")
"""The name of a keyword argument: Python's own, and what names of parameters hold besides where templates write them as
they are."""


def is_keyword(key: str) -> bool:
    """Whether a key can be as the name of a keyword argument."""
    return KEYWORD.match(key).end() == len(key)
