"""Misspelt words: *wether*."""

import re
from functools import cache
from typing import Final

from .prompt import Tool
from .words import CONCEPTS, KINDS, NUMBERS, SETS, STARTERS, STOP, UNITS, parts_of, stem

_WORD: Final = re.compile(r"(?<![\w@./#'\"-])[A-Za-z]{5,16}(?![\w@./'-])")
_MOST: Final = 24
"""The most words of a message that are checked."""
_SHORT: Final = 5
"""The shortest word that is corrected; shorter ones are too similar to others."""
_OTHER: Final = 7
"""The shortest word in which a letter may be replaced: *story* is not *storm*."""
_LONG: Final = 9
"""The shortest word that may differ by two letters."""


def mended(tools: tuple[Tool, ...], text: str) -> str:
    """A message in which unknown words are replaced by similar words of the tools."""
    known = {w for t in tools for w in t.asking if w.isalpha() and len(w) >= _SHORT}
    known |= {w for t in tools for p in t.parameters for c in p.choices for w in parts_of(str(c)) if len(w) >= _SHORT}
    left = _MOST

    def mend(found: re.Match[str]) -> str:
        nonlocal left
        word = found[0].lower()
        left -= 1
        if (
            left < 0
            or (found[0][0].isupper() and found.start())
            or word in known
            or word in _usual()
            or stem(word) in known
        ):
            return found[0]
        near = sorted((d, w) for w in known if (d := _distance(word, w)) is not None)
        return near[0][1] if near else found[0]

    return _WORD.sub(mend, text)


@cache
def _usual() -> frozenset[str]:
    """Words that are spelled correctly, whatever the tools."""
    words = {w for some in CONCEPTS.values() for phrases in some for p in phrases for w in p.split()}
    return (
        frozenset(words)
        | STOP
        | STARTERS
        | NUMBERS.keys()
        | UNITS.keys()
        | frozenset().union(*SETS.values(), *KINDS.values())
    )


def _distance(word: str, known: str) -> int | None:
    """The number of letters by which a word differs from a known one; ``None`` if they are too different."""
    allowed = 1 + (len(word) >= _LONG and len(known) >= _LONG)
    if word[0] != known[0] or abs(len(word) - len(known)) > allowed:
        return None
    before: list[int] = []
    row = list(range(len(known) + 1))
    for i, a in enumerate(word, 1):
        older, before, row = before, row, [i]
        for j, b in enumerate(known, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (0 if a == b else 1 + (len(word) < _OTHER)))
            if i > 1 and j > 1 and a == known[j - 2] and word[i - 2] == b:
                best = min(best, older[j - 2] + 1)
            row.append(best)
    return row[-1] if row[-1] <= allowed else None
