"""The modes and limits of a reader of literals."""

from typing import Final

MAX_DEPTH: Final = 512
MAX_WORD: Final = 64
MAX_KEY: Final = 1024
MAX_KEYS: Final = 1024
"""How many keys of one object are remembered, to find repeated ones."""
MAX_HELD: Final = 65_536
"""How many characters may be held back until their meaning is certain."""
MAX_SPACE: Final = 4096
"""How much white space after a quote is examined before the quote counts as text."""


class Root:
    """The required kind of the outermost value."""

    OBJECT: Final = "object"
    KEYWORDS: Final = "keywords"
    """Python keyword arguments, which end before the closing parenthesis."""
    ANY: Final = "any"


# Modes: what is expected next, or what the reader is inside of.
VALUE, FIRST_ITEM, FIRST_KEY, KEY, COLON, AFTER, STRING, NUMBER, WORD, DONE, ERROR = range(11)

# States of a number, named after its last part so far.
SIGN, ZERO, INT, DOT, FRACTION, EXP, EXP_SIGN, EXP_DIGITS = range(8)
