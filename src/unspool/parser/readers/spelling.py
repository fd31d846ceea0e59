"""How a literal is written, and what may be at a place in one: looks at text without reading it.

An answer about a place is an index, if it is yes, `NO`, or `MORE` if more text must decide. ``top`` is the innermost
open bracket, ``""`` if there is none.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from ...dialect.patterns import MAX_SPACE, MORE, NO, rest_begins, skip_space
from ...dialect.syntax import KEYWORD, Syntax
from ...regex import Prefix, Regex
from .strings import marker_scan
from .whole import MAX_WORD, PYTHON_WORDS, WORDS

MAX_KEY: Final = 1024
_SPACE = Prefix(r"[ \t\n\r]*+")
_ANY_SPACE = Prefix(r"\s*+")
_EXPONENT = Regex(r"[eE][+-]?[0-9]++")
_NEXT_KEY = Regex(r""",?\s{0,64}+(?:[^\W\d][\w.\-]{0,127}+|"[^"\n]{1,64}+")\s{0,64}+:""")
"""Matches a key after a value that lacks its quotes, or the comma after it."""
_NEXT_KEY_MAYBE = Regex(r""",?\s{0,64}+(?:[^\W\d][\w.\-]{0,127}+\s{0,64}+|"[^"\n]{0,64}+(?:"\s{0,64}+)?)?\Z""")
_PLAIN_VALUE = re.compile(rf"[\"'\[{{0-9-]|{'|'.join(PYTHON_WORDS)}")
_STRING = Regex(r"([rRuU]?)('''|\"\"\"|'|\")")
_FORMATTED = Regex(r"([fF])('''|\"\"\"|'|\")")
_NUMERIC = Regex(rf"[-+.\w]{{0,{MAX_WORD + 1}}}+")
_NUMBER = Regex(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?")


class Root:
    """The required kind of the outermost value."""

    OBJECT: Final = "object"
    KEYWORDS: Final = "keywords"  # Python keyword arguments, which end before the closing parenthesis
    ANY: Final = "any"


class Spelling:
    """How a literal is written, and what kind of value it must be."""

    def __init__(
        self, syntax: str, root: str, repair: bool, quote: str, stops: Callable[[str, int], int] | None
    ) -> None:
        self.python = syntax == Syntax.PYTHON  # whether it is a Python literal
        # Whether its strings have a quote of their own, which is ``quote``; ``scan`` finds it, and ``bare`` what may
        # end a string whose opening quote is missing.
        self.quoted = syntax == Syntax.QUOTE
        self.whole = root == Root.OBJECT  # whether it must be an object
        self.mend = repair  # whether to repair errors that can be repaired from left to right
        self.repair = repair and syntax == Syntax.JSON  # whether to read JSON as other languages write it
        # Answers whether the text at an index ends the call. A quote directly before such a text closes its string.
        self.stops = stops
        # Whether the literal is passed on unchanged, which is so for JSON; ``strict``: and nothing is repaired.
        self.keep = syntax == Syntax.JSON
        self.strict = self.keep and not repair
        self.lenient = self.python or self.repair  # whether numbers are read as Python writes them
        self.space = _SPACE if self.strict else _ANY_SPACE  # matches white space
        self.words = WORDS if self.strict else PYTHON_WORDS  # the words that are values, with their JSON text
        self.quote = quote
        self.scan = marker_scan(quote) if self.quoted else None
        self.bare = None if self.scan is None else re.compile(rf"\s{{0,64}}+(?:{self.scan.pattern}|[,}}\])<\[◁]|\Z)")

    def string_opens(self, text: str, i: int, c: str) -> int:
        """Whether a string opens at ``i``, with the character ``c``."""
        if self.quoted:  # or as in other formats
            found = c in "\"'" or text.startswith(self.quote, i)
            return i if found else MORE if rest_begins(self.quote, text, i) else NO
        if c == '"' or not self.python:
            return i if c == '"' or (c == "'" and self.repair) else NO
        return i if c == "'" or self.opens_string(text, i) else MORE if c in "rRuUfF" and i + 1 == len(text) else NO

    def opens_string(self, text: str, i: int) -> re.Match[str] | None:
        """A quote of Python at ``i``, with its prefix; a formatted string counts if errors are repaired."""
        return _STRING.match(text, i) or (_FORMATTED.match(text, i) if self.mend else None)

    def value_begins(self, text: str, i: int) -> int:
        """Whether a value begins at ``i``, among strings with a quote of their own."""
        if _PLAIN_VALUE.match(text, i) or text.startswith(self.quote, i):
            return i
        rest = text[i : i + len(self.quote) + MAX_WORD]
        return MORE if any(value.startswith(rest) for value in (self.quote, *PYTHON_WORDS)) else NO

    def key_follows(self, text: str, i: int, top: str, *, of_string: bool = False) -> int:
        """Whether a key follows at ``i``, in an object whose strings have a quote of their own; ``of_string``: the key
        of a string with that quote."""
        if top in ("", "["):
            return NO
        m = _NEXT_KEY.match(text, i)
        if m is None or not of_string:
            return i if m else MORE if _NEXT_KEY_MAYBE.match(text, i) else NO
        j = skip_space(text, m.end())
        if j - m.end() > MAX_SPACE:
            return NO
        return i if text.startswith(self.quote, j) else MORE if rest_begins(self.quote, text, j) else NO

    def name_follows(self, text: str, i: int, top: str, *, in_number: bool = False) -> int:
        """Whether a keyword argument begins at ``i``, where a comma was left out."""
        if top != "(" or self.quoted:
            return NO
        m = KEYWORD.match(text, i)
        end = self.space.match(text, m.end()).end()
        if end - i > MAX_KEY:
            return NO
        if end == len(text):
            return MORE
        exponent = _EXPONENT.match(text, i) if in_number else None
        if exponent is not None and exponent.end() < m.end():
            return NO  # the name begins after the exponent
        return i if m.end() > i and text[end] == "=" else NO

    def bare_ends(self, text: str, i: int, top: str) -> int:
        """Whether a number or word may end at ``i``, among strings with a quote of their own; else it begins a string
        whose opening quote is missing."""
        j = skip_space(text, i)
        if j - i > MAX_SPACE:
            return i
        if rest_begins(self.quote, text, j):
            return MORE
        if text[j] in ",}])":
            return i
        r = self.ends_call(text, j)
        return r if r != NO else self.key_follows(text, j, top)

    def number_ends(self, text: str, i: int, top: str) -> int:
        """Whether the same holds after what may be a number at ``i``; a longer one is one."""
        m = _NUMERIC.match(text, i)
        end = i if m is None else m.end()
        r = end if end - i > MAX_WORD else self.bare_ends(text, end, top)
        return r if r == MORE or _NUMBER.fullmatch(text, i, end) else NO

    def word_in(self, text: str, m: re.Match[str], top: str) -> tuple[str, int]:
        """The word that a name is, with which it begins, or which it begins; and whether it counts."""
        if m.group() in self.words:
            return m.group(), m.end()
        written = next((w for w in self.words if m.group().startswith(w)), "")
        if written:  # a name may follow directly, if a comma was left out
            return written, self.name_follows(text, m.start() + len(written), top)
        cut = {json for word, json in self.words.items() if word.startswith(m.group())}
        return m.group(), self.ends_call(text, m.end()) if self.mend and len(cut) == 1 else NO

    def ends_call(self, text: str, i: int) -> int:
        """Whether the call ends at ``i`` or after the white space there."""
        j = skip_space(text, i)
        if self.stops is None or j - i > MAX_SPACE:
            return NO
        return MORE if j == len(text) else self.stops(text, j)

    def closes(self, text: str, i: int) -> int:
        """Whether a quote just before ``i`` closes its string, judged by what follows."""
        j = skip_space(text, i)
        if j - i > MAX_SPACE:
            return NO
        return MORE if j == len(text) else j if text[j] in ",)]}:" else self.ends_call(text, j)

    def closes_again(self, text: str, i: int) -> int:
        """The end of a quote at ``i``, after a value, if what may follow a value follows the quote too."""
        if not text.startswith(self.quote, i):
            return MORE if rest_begins(self.quote, text, i) else NO
        end = i + len(self.quote)
        follows = self.closes(text, end)
        return min(follows, end)

    def ends_apart(self, text: str, i: int) -> bool:
        """Whether a line ends, or white space and another string follow, after a quote: something is missing there."""
        j = skip_space(text, i)
        return "\n" in text[i:j] or (j > i and text.startswith('"', j))


spelling = lru_cache(256)(Spelling)  # make a `Spelling`, or return a cached one
