"""The syntaxes in which arguments are written as literals."""

from typing import Final

from ..regex import Prefix


class Syntax:
    JSON: Final = "json"
    PYTHON: Final = "python"
    TEXT: Final = "text"  # no literal but bare text, which is the value of the only argument
    QUOTE: Final = "quote"  # JSON with bare keys, whose strings are unescaped between quotes that the dialect defines


KEYWORDS = r"[\w.$@:/#-]++(?: [\w.$@:/#-][\w.$@:/#-]*+)*+"
KEYWORD = Prefix(f"(?:{KEYWORDS})?")
"""The name of a keyword argument: a Python name, or one with other characters that are written as they are."""


def is_keyword(key: str) -> bool:
    """Whether a key can be written as the name of a keyword argument."""
    return KEYWORD.match(key).end() == len(key)
