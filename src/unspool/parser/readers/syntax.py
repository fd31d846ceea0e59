"""Where a reader of literals is."""

import enum
from typing import Final

MAX_DEPTH: Final = 512
MAX_WORD: Final = 64
MAX_KEY: Final = 1024
MAX_KEYS: Final = 1024
"""How many keys of one object are remembered, so that one given twice is found."""
MAX_HELD: Final = 65_536
"""How many characters are held back until it is certain what they are."""
MAX_SPACE: Final = 4096
"""How much white space after a quote is looked at before it counts as text."""


class Root(enum.Enum):
    """The required kind of the outermost value."""

    OBJECT = "object"
    KEYWORDS = "keywords"
    """Python keyword arguments; ends before the closing parenthesis."""
    ANY = "any"


# Modes: what is expected, or what the reader is inside of.
VALUE, FIRST_ITEM, FIRST_KEY, KEY, COLON, AFTER, STRING, NUMBER, WORD, DONE, ERROR = range(11)

# States of a number, named after what was read last.
SIGN, ZERO, INT, DOT, FRACTION, EXP, EXP_SIGN, EXP_DIGITS = range(8)
