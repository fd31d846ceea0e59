"""The words of a message, and the values that stand in them: addresses, paths, dates, numbers, calculations, places."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from .words import CURRENCIES, DAYS, LANGUAGES, MONTHS, NUMBERS, OPERATORS, RELATIVE, STOP, UNITS

MOST: Final = 400
"""How many characters of a message are read; longer ones are the model's."""

_WORD: Final = re.compile(
    r"""https?://[^\s"'<>]+ | [\w.+-]+@[\w-]+(?:\.[\w-]+)+            # addresses
      | [$€£]?\d{1,3}(?:,\d{3})+(?:\.\d+)?\b | [$€£]?\d+(?:[.:-]\d+)*(?:th|st|nd|rd|[a-z%°]{1,3}\b)? # numbers, times
      | (?:~|\.{1,2})?(?:/[\w.*-]+)+/? | [\w-]+(?:[/.][\w*-]+)+/? # paths
      | [^\W\d_][\w]*(?:['’.&-][\w]+)* | [^\s\w] | \w+""",
    re.VERBOSE,
)
_QUOTED: Final = re.compile(r"""(?<!\w)"([^"]{1,300})"|(?<!\w)'([^']{2,300})'(?!\w)|“([^”]{1,300})”""")
_EXPRESSION: Final = re.compile(r"(?=[-+(]?\s?[\d(])[\d\s()+\-*/^%.,×÷]*[\d)%]")
_FUNCTION: Final = re.compile(r"(?i)\b(?:the )?square root of (\d+(?:\.\d+)?)|\bsqrt ?\(? ?(\d+(?:\.\d+)?)\)?")
_OPERATOR: Final = re.compile(
    rf"(?i)(?<=[\d)] )({'|'.join(sorted(OPERATORS, key=len, reverse=True))})(?= [-(\d])|(?<=\d)(x)(?=\d)"
)
_CLOCK: Final = re.compile(r"(?i)\d{1,2}(?::\d\d)?(?:am|pm)|\d{1,2}:\d\d(?::\d\d)?")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_FILE: Final = re.compile(r"(?i)(?:~|\.{0,2}/)[\w./*-]*|[\w-]+(?:/[\w.*-]+)+/?|[\w-]+\.(?=[a-z0-9]*[a-z])[a-z0-9]{1,5}")
_ORDINAL: Final = re.compile(r"\d{1,2}(?:th|st|nd|rd)?")


class Word(NamedTuple):
    """A word or mark of a message: where it stands, and in lower case."""

    start: int
    end: int
    text: str
    low: str


class Span(NamedTuple):
    """A value that stands in the words from ``first`` up to ``last``."""

    first: int
    last: int
    value: str


class Message:
    """A part of a message, as words; those that belong to a value are taken."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = [Word(m.start(), m.end(), m.group(), m.group().lower().replace("’", "'")) for m in _WORD.finditer(text)]
        self.taken = [False] * len(self.words)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def low(self) -> str:
        """Its words in lower case, with a space before and behind each."""
        return f" {' '.join(w.low for w in self.words)} "

    def said(self, first: int, last: int) -> str:
        """What stands there, as it was written."""
        return self.text[self.words[first].start : self.words[last - 1].end] if first < last else ""

    def is_(self, i: int, *words: str) -> bool:
        """Whether one of these words stands at ``i``."""
        return 0 <= i < len(self.words) and self.words[i].low in words

    def free(self, span: Span) -> bool:
        """Whether no value has these words."""
        return not any(self.taken[span.first : span.last])

    def take(self, span: Span) -> str:
        """Give these words to a value."""
        self.taken[span.first : span.last] = [True] * (span.last - span.first)
        return span.value

    def covering(self, start: int, end: int, value: str) -> Span:
        """The words that a part of the text lies in."""
        inside = [i for i, w in enumerate(self.words) if w.start < end and w.end > start]
        return Span(inside[0], inside[-1] + 1, value)

    # -- what can be told by its form ------------------------------------------------------------------------------

    def emails(self) -> Iterator[Span]:
        """Addresses of mail."""
        yield from (Span(i, i + 1, w.text.rstrip(".")) for i, w in enumerate(self.words) if "@" in w.text and "." in w.text)

    def urls(self) -> Iterator[Span]:
        """Addresses of pages."""
        for i, w in enumerate(self.words):
            if w.low.startswith(("http://", "https://", "www.")):
                yield Span(i, i + 1, w.text.rstrip(".,?!"))
            elif re.fullmatch(r"[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|dev|edu|gov|de|uk)(?:/.*)?", w.low):
                yield Span(i, i + 1, w.text)

    def paths(self) -> Iterator[Span]:
        """Files and folders."""
        yield from (
            Span(i, i + 1, w.text)
            for i, w in enumerate(self.words)
            if _FILE.fullmatch(w.text) and not w.low.startswith(("a.m", "p.m", "http")) and w.low not in ("km/h", "and/or", "e.g", "i.e")
        )

    def zones(self) -> Iterator[Span]:
        """Zones of time."""
        for i, w in enumerate(self.words):
            if re.fullmatch(r"[A-Z][a-z]+/[A-Z][A-Za-z_]+", w.text) or w.text in ("UTC", "GMT", "EST", "PST", "CET", "CEST", "EDT", "PDT", "IST", "JST", "BST"):
                yield Span(i, i + 1, w.text)

    def quotes(self) -> Iterator[Span]:
        """What stands in quotes."""
        for m in _QUOTED.finditer(self.text):
            span = self.covering(m.start(), m.end(), next(g for g in m.groups() if g))
            yield span

    def symbols(self) -> Iterator[Span]:
        """Symbols of shares: capitals."""
        for i, w in enumerate(self.words):
            if re.fullmatch(r"[A-Z]{1,5}(?:\.[A-Z])?", w.text) and w.low not in STOP and w.text not in ("I", "A", "OK"):
                yield Span(i, i + 1, w.text)

    def numbers(self) -> Iterator[Span]:
        """Numbers in digits and in words."""
        i = 0
        while i < len(self.words):
            w = self.words[i].low
            value: str | None = None
            j = i + 1
            if m := re.fullmatch(r"(?:[$€£]|d(?=\d+$))?(\d[\d,]*(?:\.\d+)?)(?:th|st|nd|rd|k|%|[a-z°]{1,3})?", w):
                value = m[1].replace(",", "")
                if w.endswith("k") and w[-2:-1].isdigit():
                    value = str(int(float(value) * 1000))
                if self.is_(i - 1, "-", "minus") and (i < 2 or not re.search(r"[\d)]$", self.words[i - 2].low)):
                    value, i = f"-{value}", i - 1
            elif w in NUMBERS and w != "one" or (w == "one" and not self.is_(i - 1, "the", "this", "that", "any", "which")):
                total = NUMBERS[w]
                while j < len(self.words) and self.words[j].low in (*NUMBERS, "-") and self.words[j].low != "half":
                    if self.words[j].low != "-":
                        n = NUMBERS[self.words[j].low]
                        total = total * n if n == 100 else total + n
                    j += 1
                if "-" in w:
                    total = 0
                value = str(int(total)) if total == int(total) else str(total)
            elif "-" in w and all(p in NUMBERS for p in w.split("-")):
                value = str(int(sum(NUMBERS[p] for p in w.split("-"))))
            if value is not None:
                yield Span(i, j, value)
            i = j

    def expressions(self) -> Iterator[Span]:
        """Calculations: words such as *plus* become what they mean."""
        for m in _FUNCTION.finditer(self.text):
            yield self.covering(m.start(), m.end(), f"sqrt({m[1] or m[2]})")
        signs = _OPERATOR.sub(lambda m: OPERATORS[m[0].lower()].ljust(len(m[0])), self.text)
        if m := re.search(r"(?i)(\d+(?:\.\d+)?) ?(?:%|percent) of (\d+(?:\.\d+)?)", self.text):
            yield self.covering(m.start(), m.end(), f"{m[1]} / 100 * {m[2]}")
            return
        for m in _EXPRESSION.finditer(signs):
            text = " ".join(m.group().split()).strip(",. ")
            if re.search(r"\d\s*[-+*/^%×÷x]+\s*[-(\d]", text) and not _DATE.fullmatch(text.replace(" ", "")):
                yield self.covering(m.start(), m.start() + len(m.group().rstrip()), text)

    def dates(self) -> Iterator[Span]:
        """Days: *tomorrow*, *next Friday*, *March 5th*, ``2026-01-02``."""
        i = 0
        while i < len(self.words):
            w = self.words[i].low
            first, j = i, i + 1
            if _DATE.fullmatch(w):
                pass
            elif w in RELATIVE:
                if self.is_(i - 1, "this", "next", "the"):
                    first -= 1
            elif w in DAYS and not (len(w) == 3 and self.words[i].text == w and w in ("sat", "sun", "mon", "wed")):
                if self.is_(i - 1, "next", "this", "coming"):
                    first -= 1
            elif w in ("week", "month", "weekend") and self.is_(i - 1, "next", "this"):
                first -= 1
            elif w in MONTHS and not (w in ("may", "mar", "jan") and not (self._day(i + 1) or self._day(i - 1))):
                if self._day(i + 1):
                    j += 1
                    if self.is_(j, ",") and j + 1 < len(self) and re.fullmatch(r"\d{4}", self.words[j + 1].low):
                        j += 2
                    elif j < len(self) and re.fullmatch(r"20\d\d", self.words[j].low):
                        j += 1
                elif self._day(i - 1) or (self.is_(i - 1, "of") and self._day(i - 2)):
                    first -= 1 if self._day(i - 1) else 2
                else:
                    i = j
                    continue
            else:
                i = j
                continue
            if j < len(self) and self.is_(j, "morning", "afternoon", "evening", "night"):
                j += 1
            yield Span(first, j, self.said(first, j))
            i = j

    def _day(self, i: int) -> bool:
        return 0 <= i < len(self.words) and bool(_ORDINAL.fullmatch(self.words[i].low))

    def times(self) -> Iterator[Span]:
        """Times of day."""
        i = 0
        while i < len(self.words):
            w = self.words[i].low
            j = i + 1
            if _CLOCK.fullmatch(w) or (re.fullmatch(r"\d{1,2}(?::\d\d)?", w) and self.is_(j, "am", "pm", "a.m", "p.m", "o'clock", "oclock")):
                if self.is_(j, "am", "pm", "a.m", "p.m", "o'clock", "oclock"):
                    j += 1
                    if self.is_(j - 1, "a.m", "p.m") and self.is_(j, "."):
                        j += 1
                yield Span(i, j, self.said(i, j))
            elif w in ("noon", "midnight"):
                yield Span(i, j, self.said(i, j))
            elif self.is_(i - 1, "at") and (re.fullmatch(r"\d{1,2}", w) or w in NUMBERS) and not self.is_(j, *UNITS, "percent", "%"):
                yield Span(i, j, self.said(i, j))
            i = j

    def units(self) -> Iterator[Span]:
        """Units of measure: behind a number, or behind *to*, *in*, *into*, *many*."""
        for i, w in enumerate(self.words):
            if m := re.fullmatch(r"\d+(?:\.\d+)?°?([a-z]{1,4})", w.low):
                if m[1] in UNITS:
                    yield Span(i, i + 1, w.text[-len(m[1]) :])
            elif w.low in UNITS:
                after = i and (re.search(r"\d$", self.words[i - 1].low) or self.words[i - 1].low in (*NUMBERS, "to", "in", "into", "many", "degrees", "°", "°", "much"))
                if (after and not (w.low == "in" and not re.search(r"\d$", self.words[i - 1].low))) or len(w.low) > 2:
                    if w.low == "in" and i + 1 < len(self) and self.words[i + 1].low in UNITS and len(self) - i < 4:
                        continue
                    yield Span(i, i + 1, w.text)

    def currencies(self) -> Iterator[Span]:
        """Currencies: their codes, as they were written or as their names say."""
        for i, w in enumerate(self.words):
            if w.low in CURRENCIES and (w.low != "try" or w.text == "TRY") and (w.low != "won" or i):
                yield Span(i, i + 1, w.text if len(w.text) == 3 and w.text.isupper() else CURRENCIES[w.low])
            elif w.text[0] in "$€£" and len(w.text) > 1:
                yield Span(i, i, {"$": "USD", "€": "EUR", "£": "GBP"}[w.text[0]])

    def languages(self) -> Iterator[Span]:
        """Languages."""
        yield from (Span(i, i + 1, w.text) for i, w in enumerate(self.words) if w.low in LANGUAGES)

    # -- what can be told by where it stands -----------------------------------------------------------------------

    def runs(self, skipped: Iterable[str] = ()) -> Iterator[Span]:
        """Words that belong to no value, that say something, one behind the other."""
        skip = {*STOP, *skipped}
        first: int | None = None
        for i, w in enumerate([*self.words, Word(0, 0, "", "")]):
            plain = i < len(self.words) and not self.taken[i] and w.low not in skip and w.low[0].isalnum()
            joins = first is not None and i + 1 < len(self.words) and w.low in ("of", "de", "da", "del", "la", "the", "am", "an", "der", "upon", ".", "'") and w.low not in skipped
            if joins and not (self.taken[i] or self.taken[i + 1]) and (self.words[i + 1].text[:1].isupper() or w.low == "."):
                continue
            if plain and first is None:
                first = i
            elif not plain and first is not None:
                last = i
                while last > first and (self.words[last - 1].low in STOP or not self.words[last - 1].low[0].isalnum()):
                    last -= 1
                yield Span(first, last, self.said(first, last))
                first = None


def items(message: Message, first: int, last: int) -> list[Span]:
    """The members of a list of words: between commas, *and*, *or*, ``&``."""
    found: list[Span] = []
    begin = first
    for i in range(first, last + 1):
        if i == last or message.words[i].low in (",", "and", "or", "&", "vs", "vs.", "versus", "+", ";"):
            a, b = begin, i
            while a < b and message.words[a].low in ("the", "some", "a", "an", "in", "for", "of", "at", "both", "also", "to", "then", "my"):
                a += 1
            while b > a and not message.words[b - 1].low[0].isalnum():
                b -= 1
            if a < b:
                found.append(Span(a, b, message.said(a, b)))
            begin = i + 1
    return found
