"""How the literals of a dialect's arguments are written."""

import enum


class Syntax(enum.Enum):
    """How a literal is written."""

    JSON = "json"
    PYTHON = "python"
    TEXT = "text"
    """No literal at all: bare text, which is the value of the one argument."""
    QUOTE = "quote"
    """JSON whose strings stand, unescaped, between a marker of the dialect's own, and whose keys are bare."""
