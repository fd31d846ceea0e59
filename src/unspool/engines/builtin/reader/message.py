"""A message as words, each of which belongs to at most one value."""

import itertools
import re
from collections.abc import Iterable
from functools import cached_property
from typing import Final, NamedTuple

from .words import CUES, CURRENCIES, NUMBERS, SETS, spaced

_WORD: Final = re.compile(
    r"""https?://[^\s"'<>]*[^\s"'<>.,;:!?)] | [\w.+-]+@[\w-]+(?:\.[\w-]+)+            # addresses
      | [^\W\d_][\w.-]*(?::[\w*-]+)+(?![\w@/:])                          # keys
      | \d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?\b    # moments
      | \d+-[A-Z][A-Z\d]*\b(?:-\w+)* | \w[\w-]+/(?![\w/])             # codes, folders
      | \d+(?:\.\d+)?[eE]-\d{1,2}\b                                         # small numbers
      | (?<![\w\#])[A-Z](?:\#|\+\+)(?:m|maj|min|dim|aug)?\d{0,2}(?!\w)     # notes, languages
      | \d+A\b | \d+[A-Za-z]+\d\w* | \d{1,4}/\d{1,2}(?:/\d{2,4})?(?![\w/])      # codes, dates
      | [$€£]?\d{1,3}(?:,\d{3})+(?:\.\d+)?\b | [$€£]?\d+(?:[.:-]\d+)*(?:th|st|nd|rd|[a-z%°]{1,3}\b)? # numbers, times
      | [<>=!]=                                                             # comparisons
      | \*+\.\w+ | [\w-]+\*(?:\.\w+)?                                 # patterns of files
      | (?:~|\.{1,2})?(?:/[\w.*-]+)+/? | (?!-\d)[\w-]+(?:[/.][\w*-]+)+/? # paths
      | [^\W\d_][\w]*(?:['’.&-][\w]+)* | [^\s\w] | \w+""",
    re.VERBOSE,
)

_LABELS: Final = frozenset(cue for cues in CUES.values() for cue in cues)
ACRONYM: Final = re.compile(r"[A-Z]{2,4}s?")
_IDENTIFIER: Final = re.compile(
    r"\w*[a-z]\w*(?:_|[/:.](?=\w))[\w/:.-]*|_\w+|\d+(?:\.\d+){2,}|[a-z]+(?:-[a-z]+)*-?\d[\w.-]*"
)
"""Names of machines, keys and the like: ``auth_api``, ``user:42``, ``10.0.0.1``, ``web-02``."""
_LONGEST: Final = 80
"""The most characters of such a name."""


def identifies(word: str) -> bool:
    """Whether a word in lower case has the form of names of machines, keys and the like."""
    return len(word) <= _LONGEST and _IDENTIFIER.fullmatch(word) is not None


class Word(NamedTuple):
    """A word or mark: its position in the text, its spelling, and its lower case."""

    start: int
    end: int
    text: str
    low: str


class Span(NamedTuple):
    """A value in the words from ``first`` up to, but not including, ``last``."""

    first: int
    last: int
    value: str


class Message:
    """A part of a message.

    Attributes:
        taken: for each word, whether a value has it.
        kept: cached spans by their form.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        found = [Word(m.start(), m.end(), m.group(), m.group().lower().replace("’", "'")) for m in _WORD.finditer(text)]
        self.words = [part for word in found for part in _parted(word)]
        self.taken = [False] * len(self.words)
        self.kept: dict[str, list[Span]] = {}

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def low(self) -> str:
        """Its words in lower case, with a space before and after each."""
        return spaced([w.low for w in self.words])

    @cached_property
    def at(self) -> dict[str, list[int]]:
        """The positions of each word."""
        found: dict[str, list[int]] = {}
        for i, w in enumerate(self.words):
            found.setdefault(w.low, []).append(i)
        return found

    @cached_property
    def phrases(self) -> dict[str, list[Span]]:
        """Sequences of up to three words without marks, and their positions."""
        found: dict[str, list[Span]] = {}
        for i in range(len(self)):
            for j in range(i + 1, min(i + 3, len(self)) + 1):
                said = " ".join(re.findall(r"\w+", self.said(i, j).lower())) or self.said(i, j)
                found.setdefault(said, []).append(Span(i, j, said))
        return found

    def said(self, first: int, last: int) -> str:
        """The original text of these words."""
        return self.text[self.words[first].start : self.words[last - 1].end] if first < last else ""

    def span(self, first: int, last: int) -> Span:
        """These words as a span with their original text."""
        return Span(first, last, self.said(first, last))

    def has(self, i: int, words: Iterable[str]) -> bool:
        """Whether one of these words is at ``i``."""
        return 0 <= i < len(self.words) and self.words[i].low in words

    def large(self, i: int) -> bool:
        """Whether the word at ``i`` is capitalized."""
        return 0 <= i < len(self.words) and self.words[i].text[0].isupper()

    def shouted(self, i: int) -> bool:
        """Whether a word is in capitals, unlike the message: publish *ON*."""
        return self.words[i].text.isupper() and len(self.words[i].text) > 1 and not self.text.isupper()

    def free(self, span: Span) -> bool:
        """Whether no value has one of these words."""
        return not any(self.taken[span.first : span.last])

    def take(self, span: Span) -> str:
        """Give these words to a value."""
        self.taken[span.first : span.last] = [True] * (span.last - span.first)
        return span.value

    def covering(self, start: int, end: int, value: str) -> Span:
        """The span of the words that cover a part of the text."""
        inside = [i for i, w in enumerate(self.words) if w.start < end and w.end > start]
        return Span(inside[0], inside[-1] + 1, value) if inside else Span(0, 0, value)

    def trimmed(self, first: int, last: int, words: Iterable[str]) -> int:
        """The end of these words without trailing ones from ``words``."""
        while last > first and self.words[last - 1].low in words and not self.shouted(last - 1):
            last -= 1
        return last


def _parted(word: Word) -> list[Word]:
    """The parts of two currencies, *USD/EUR*, and of a word that begins with a label, *subject:hello*, or a number,
    *six-sided*; not *twenty-five*."""
    label, mark, rest = word.low.partition("/")
    pair = bool(mark) and {label, rest} <= CURRENCIES.keys()
    if not pair:
        label, mark, _ = word.low.partition(":")
    if pair or (mark and label in _LABELS):
        ends = (0, len(label), len(label) + 1, len(word.text))
        return [
            Word(word.start + a, word.start + b, word.text[a:b], word.low[a:b]) for a, b in itertools.pairwise(ends)
        ]
    number, mark, rest = word.low.partition("-")
    if not mark or number not in NUMBERS or not rest.isalpha() or rest in NUMBERS:
        return [word]
    ends = (0, len(number), len(number) + 1, len(word.text))
    return [Word(word.start + a, word.start + b, word.text[a:b], word.low[a:b]) for a, b in itertools.pairwise(ends)]


def items(message: Message, first: int, last: int) -> list[Span]:
    """The members of a list of words: between commas, *and*, *or*, ``&``."""
    found: list[Span] = []
    begin = first
    for i in range(first, last + 1):
        if i < last and message.words[i].low not in SETS["joins"]:
            continue
        a, b = begin, i
        while a < b and message.words[a].low in SETS["before a member"]:
            a += 1
        while b > a and not any(map(str.isalnum, message.words[b - 1].low)):
            b -= 1
        if a < b:
            found.append(message.span(a, b))
        begin = i + 1
    return found
