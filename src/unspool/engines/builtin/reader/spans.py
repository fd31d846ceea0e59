"""Values that are recognized by their form: addresses, paths, dates, numbers, calculations, units."""

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Final

from .message import Message, Span
from .words import (
    COLORS,
    CURRENCIES,
    DAYS,
    LANGUAGES,
    MONEY,
    MONTHS,
    NUMBERS,
    OPERATOR,
    OPERATORS,
    RELATIVE,
    SETS,
    STOP,
    UNITS,
)

_PAGE: Final = re.compile(
    r"[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|dev|edu|gov|app|ai|info|tech|cloud"
    r"|de|uk|eu|fr|nl|es|ch|se|dk|fi|pl|us|ca|au|nz|jp|co)(?:/.*)?"
)
_ZONE: Final = re.compile(r"[A-Z][a-z]+/[A-Z][A-Za-z_]+")
_SYMBOL: Final = re.compile(r"[A-Z]{1,5}(?:\.[A-Z])?")
_QUOTED: Final = re.compile(
    r"""(?<!\w)"([^"]{1,300})"|(?<!\w)'([^']{2,300})'(?!\w)|“([^”]{1,300})”|(?<!\w)`([^`]{1,300})`"""
)
_EXPRESSION: Final = re.compile(r"(?=[-+(]?\s?[\d(])[\d\s()+\-*/^%.,×÷]*[\d)%]")
_CALCULATES: Final = re.compile(r"\d\s*[-+*/^%×÷x]+\s*[-(\d]")
_TERM: Final = re.compile(r"\d+(?:\.\d+)?[a-z]?|[a-z]|[-+*/^()=]")
_PERCENT: Final = re.compile(r"(?i)(\d+(?:\.\d+)?) ?(?:%|percent) of (\d+(?:\.\d+)?)")
_FUNCTION: Final = re.compile(r"(?i)\b(?:the )?square root of (\d+(?:\.\d+)?)|\bsqrt(?: of)? ?\(? ?(\d+(?:\.\d+)?)\)?")
_OPERATOR: Final = re.compile(rf"(?i)(?<=[\d)] )({OPERATOR})(?= [-(\d])|(?<=\d)(x)(?=\d)")
_CLOCK: Final = re.compile(r"(?i)\d{1,2}(?::\d\d)?(?:am|pm)|\d{1,2}:\d\d(?::\d\d)?")
_HOUR: Final = re.compile(r"\d{1,2}(?::\d\d)?")
_DATE: Final = re.compile(r"\d{4}[-/]\d\d[-/]\d\d(?:t[\d:+-]+z?)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_FILE: Final = re.compile(
    r"(?i)(?:~|\.{0,2}/)[\w./*-]*|[\w-]+(?:/[\w.*-]+)+/?|[\w-]{2,}/|[\w-]+\.(?=[a-z0-9]*[a-z])[a-z0-9]{1,5}"
)
_ORDINAL: Final = re.compile(r"\d{1,2}(?:th|st|nd|rd)?")
_NTH: Final = re.compile(r"\d{1,2}(?:th|st|nd|rd)")
_HOST: Final = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}|[a-z][\w-]*(?:\.[\w-]+)*\.([a-z]{2,})|localhost")
_POINT: Final = re.compile(r"-?\d{1,3}\.\d{1,12}, ?-?\d{1,3}\.\d{1,12}")
_REPOSITORY: Final = re.compile(r"[A-Za-z][\w-]*/[A-Za-z][\w.-]*")
_HOUSE: Final = re.compile(r"\d{1,4}[a-z]?")
YEAR: Final = re.compile(r"(?:19|20)\d\d")
_NUMBER: Final = re.compile(r"(?:[$€£]|d(?=\d+s?$))?(\d[\d,]*(?:\.\d+)?)(?:th|st|nd|rd|k|%|[a-z°]{1,3})?")
_SMALL: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})?e-\d{1,2}")
_MEASURED: Final = re.compile(r"\d+(?:\.\d+)?°?([a-z]{1,4})")
_PHONE: Final = re.compile(r"(?<![\w$€£.-])(?:\+\d|\(\d|\d)[\d() -]{5,18}\d(?![\w.])")
_MONTH: Final = re.compile(r"\d{4}-\d\d")
SIDES: Final = re.compile(r"(\d{2,5})x(\d{2,5})")
"""A width and a height: ``800x600``."""
_OF_TIME: Final = frozenset(("minute", "hour", "day", "week"))
_VERSION: Final = re.compile(r"v\d+(?:\.\d+)*(?:-[\w.]+)?|\d+(?:\.\d+)+(?:-[\w.]+)?")
_LETTERS: Final = re.compile(r"[A-Z]{1,3}")
_DIGITS: Final = 7
_LONGEST: Final = 16
"""The most characters of a number; no calculation uses longer ones."""
_LARGEST: Final = 1e12
_DIGIT: Final = re.compile(r"\d$")


def once(spans: Callable[[Message], Iterator[Span]]) -> Callable[[Message], Iterator[Span]]:
    """Cache the result for each message."""

    def kept(m: Message) -> Iterator[Span]:
        if spans.__name__ not in m.kept:
            m.kept[spans.__name__] = list(spans(m))
        return iter(m.kept[spans.__name__])

    return kept


def emails(m: Message) -> Iterator[Span]:
    """Email addresses."""
    yield from (Span(i, i + 1, w.text.rstrip(".")) for i, w in enumerate(m.words) if "@" in w.text and "." in w.text)


def urls(m: Message) -> Iterator[Span]:
    """URLs."""
    for i, w in enumerate(m.words):
        if w.low.startswith(("http://", "https://", "www.")):
            yield Span(i, i + 1, w.text.rstrip(".,?!"))
        elif _PAGE.fullmatch(w.low):
            yield Span(i, i + 1, w.text)


def hosts(m: Message) -> Iterator[Span]:
    """Hosts: ``nas.local``, ``10.0.0.1``."""
    for i, w in enumerate(m.words):
        if (found := _HOST.fullmatch(w.low)) and found[1] not in SETS["extensions"]:
            yield Span(i, i + 1, w.text)


def paths(m: Message) -> Iterator[Span]:
    """Files and folders."""
    for i, w in enumerate(m.words):
        named = _FILE.fullmatch(w.text) or (w.low.count(".") > 1 and w.low.rpartition(".")[2] in SETS["extensions"])
        if named and not w.low.startswith(("a.m", "p.m", "http")) and w.low not in SETS["no path"]:
            yield Span(i, i + 1, w.text)


def phones(m: Message) -> Iterator[Span]:
    """Phone numbers: ``+44 20 7946 0958``, ``555-0142``."""
    for found in _PHONE.finditer(m.text):
        if sum(map(str.isdigit, found[0])) >= _DIGITS and not _DATE.fullmatch(found[0].strip()):
            yield m.covering(found.start(), found.end(), found[0].strip())


def channels(m: Message) -> Iterator[Span]:
    """Channels: ``#general``."""
    for i, w in enumerate(m.words[:-1]):
        if w.text == "#" and m.words[i + 1].text[0].isalpha() and w.end == m.words[i + 1].start:
            last = i + 2
            while m.has(last, ("-",)) and last + 1 < len(m) and m.words[last + 1].start == m.words[last - 1].end + 1:
                last += 2
            yield m.span(i, last)


def repositories(m: Message) -> Iterator[Span]:
    """Repositories: ``owner/name``."""
    yield from (Span(i, i + 1, w.text) for i, w in enumerate(m.words) if _REPOSITORY.fullmatch(w.text))


def addresses(m: Message) -> Iterator[Span]:
    """Street addresses: ``10 Downing Street, London``; after a preposition also ``Torstrasse 12, Berlin``."""
    for i, w in enumerate(m.words):
        last = i + 1 if w.low[0].isdigit() else _house(m, i)
        if last == i:
            continue
        while last < len(m) and m.large(last) and m.words[last].low[0].isalpha():
            last += 1
            if m.has(last, (",",)) and m.large(last + 1) and last - i > 2:
                last += 1
        if last - i > 2 or (last - i > 1 and m.large(i)):
            yield m.span(i, last)


def _house(m: Message, i: int) -> int:
    """The end of a street's name and its number behind a preposition; ``i`` if there is none."""
    last = i
    while m.large(last) and m.words[last].low.isalpha() and m.words[last].low not in MONTHS | DAYS:
        last += 1
    numbered = last < len(m) and _HOUSE.fullmatch(m.words[last].low) and not m.large(i - 1)
    if last == i or not numbered or not m.has(i - 1, SETS["before a street"]):
        return i
    return last + 1 + (m.has(last + 1, (",",)) and m.large(last + 2))


def zones(m: Message) -> Iterator[Span]:
    """Time zones."""
    for i, w in enumerate(m.words):
        if _ZONE.fullmatch(w.text) or (w.text.isupper() and w.low in SETS["zones"]):
            yield Span(i, i + 1, w.text)


def quotes(m: Message) -> Iterator[Span]:
    """Quoted texts."""
    for found in _QUOTED.finditer(m.text):
        yield m.covering(found.start(), found.end(), next(g for g in found.groups() if g))


def symbols(m: Message) -> Iterator[Span]:
    """Stock symbols, in capitals."""
    for i, w in enumerate(m.words):
        if _SYMBOL.fullmatch(w.text) and w.low not in STOP and w.low not in SETS["no symbol"]:
            yield Span(i, i + 1, w.text)


def points(m: Message) -> Iterator[Span]:
    """Coordinates: ``52.5, 13.4``."""
    yield from (m.covering(found.start(), found.end(), found[0]) for found in _POINT.finditer(m.text))


@once
def codes(m: Message) -> Iterator[Span]:
    """Numbers of orders, flights and the like: words with a digit, including the words and marks joined to them."""
    for i, w in enumerate(m.words):
        if not re.search(r"\d", w.text):
            continue
        first = i
        while first > 0 and m.words[first - 1].end == m.words[first].start and m.has(first - 1, "-#"):
            if m.has(first - 1, "#") or first == 1:
                break
            first -= 2
        last = i + 1
        while m.has(last, ("-",)) and last + 1 < len(m) and m.words[last - 1].end + 1 == m.words[last + 1].start:
            last += 2
        lead = m.words[first - 1] if first == i and i else None
        if lead and _LETTERS.fullmatch(lead.text) and lead.low not in SETS["no letters"] and w.low.isdigit():
            first -= 1  # flight *BA 117*
        s = m.span(first, last)
        yield s._replace(value=s.value.removesuffix("'s"))


@once
def numbers(m: Message) -> Iterator[Span]:
    """Numbers, in digits and in words."""
    i = 0
    while i < len(m):
        w = m.words[i].low
        if len(w) <= _LONGEST and (found := _NUMBER.fullmatch(w)):
            value = found[1].replace(",", "")
            if w.endswith("k") and w[-2:-1].isdigit():
                value = str(int(float(value) * 1000))
            negative = m.has(i - 1, SETS["minus"]) and (i < 2 or not re.search(r"[\d)]$", m.words[i - 2].low))
            found_ = Span(i - 1, i + 1, f"-{value}") if negative else _and_a_half(m, Span(i, i + 1, value))
            yield found_
            i = found_.last
        elif _SMALL.fullmatch(w):
            yield Span(i, i + 1, w)
            i += 1
        elif sides := SIDES.fullmatch(w):
            yield Span(i, i + 1, sides[1])
            yield Span(i, i + 1, sides[2])
            i += 1
        elif w in ("half", "quarter") and m.has(i + 1, ("of",)) and m.has(i + 2, ("an",)) and m.has(i + 3, UNITS):
            yield Span(i, i + 3, written(NUMBERS[w]))  # a quarter of an hour
            i += 3
        elif w == "half" and m.has(i + 1, ("an", "a")) and m.has(i + 2, UNITS):
            yield Span(i, i + 2, "0.5")
            i += 2
        elif w in ("a", "an") and m.has(i + 1, UNITS) and UNITS[m.words[i + 1].low] in _OF_TIME:
            more = _and_a_half(m, Span(i, i + 2, "1"))
            if more.last > i + 2 or m.has(i + 2, ("long",)) or m.has(i - 1, ("for", "in")):
                yield more if more.last > i + 2 else Span(i, i + 1, "1")
            i = more.last
        elif w in NUMBERS and not (w == "one" and m.has(i - 1, SETS["the one"])):
            span = _spelled(m, i)
            yield span
            i = span.last
        elif "-" in w and all(p in NUMBERS for p in w.split("-")):
            yield Span(i, i + 1, written(sum(NUMBERS[p] for p in w.split("-"))))
            i += 1
        else:
            i += 1


def _spelled(m: Message, i: int) -> Span:
    total = NUMBERS[m.words[i].low]
    j = i + 1
    while (m.has(j, NUMBERS) or m.has(j, "-")) and not m.has(j, ("half",)) and total < _LARGEST:
        if m.words[j].low != "-":
            n = NUMBERS[m.words[j].low]
            if n < 100 and not m.has(j, ("dozen",)) and (n >= 10 or total % 100 % 10 or 10 <= total % 100 < 20):
                break  # two numbers: *two six-sided dice*
            total = total * n if n == 100 or m.has(j, ("dozen",)) else total + n
        j += 1
    return _and_a_half(m, Span(i, j - m.has(j - 1, "-"), written(total)))


def _and_a_half(m: Message, s: Span) -> Span:
    said = [w.low for w in m.words[s.last : s.last + 3]]
    if said[:2] != ["and", "a"] or said[2:] not in (["half"], ["quarter"]):
        return s
    return Span(s.first, s.last + 3, written(float(s.value) + NUMBERS[said[2]]))


def value_of(number: Span) -> int | float:
    """The value of one of `numbers`."""
    value = float(number.value)
    return int(value) if value == int(value) else value


def written(value: float) -> str:
    """A number as text, without ``.0`` if it is whole."""
    return str(int(value)) if value == int(value) else str(value)


@once
def expressions(m: Message) -> Iterator[Span]:
    """Calculations, with words such as *plus* replaced by operators."""
    for found in _FUNCTION.finditer(m.text):
        yield m.covering(found.start(), found.end(), f"sqrt({found[1] or found[2]})")
    yield from _equations(m)
    yield from _in_words(m)
    if percent := _PERCENT.search(m.text):
        yield m.covering(percent.start(), percent.end(), f"{percent[1]} / 100 * {percent[2]}")
        return
    signs = _OPERATOR.sub(lambda found: OPERATORS[found[0].lower()].ljust(len(found[0])), m.text)
    for found in _EXPRESSION.finditer(signs):
        text = " ".join(found.group().split()).strip(",. ")
        if _CALCULATES.search(text) and not _DATE.fullmatch(text.replace(" ", "")):
            yield m.covering(found.start(), found.start() + len(found.group().rstrip()), text)


def _equations(m: Message) -> Iterator[Span]:
    """Equations: ``3x + 7 = 22``."""
    i = 0
    while i < len(m):
        last = i
        while last < len(m) and _TERM.fullmatch(m.words[last].low):
            last += 1
        text = m.said(i, last)
        if "=" in text.strip("= ") and re.search(r"\d", text) and re.search(r"[-+*/^(]|\d[a-z]", text):
            yield Span(i, last, text)
        i = max(last, i + 1)


def _in_words(m: Message) -> Iterator[Span]:
    """A calculation whose numbers are written out: *twelve times nine*, *fifteen percent of 80*."""
    for a, b in itertools.pairwise(numbers(m)):
        said = " ".join(w.low for w in m.words[a.last : b.first])
        if m.words[a.first].low[0].isdigit() and m.words[b.first].low[0].isdigit():
            continue
        if said in ("percent of", "% of"):
            yield Span(a.first, b.last, f"{a.value} / 100 * {b.value}")
        elif said in OPERATORS:
            yield Span(a.first, b.last, f"{a.value} {OPERATORS[said]} {b.value}")


def dates(m: Message) -> Iterator[Span]:
    """Days: *tomorrow*, *next Friday*, *March 5th*, ``2026-01-02``."""
    i = 0
    while i < len(m):
        found = _date(m, i)
        if found is None:
            i += 1
            continue
        first, last = found
        last += m.has(last, SETS["day parts"]) and not m.taken[last]
        yield m.span(first, last)
        i = last


def _date(m: Message, i: int) -> tuple[int, int] | None:
    """The words of the day that the word at ``i`` names."""
    w = m.words[i]
    if _DATE.fullmatch(w.low):
        return i, i + 1
    if w.low == "day" and m.has(i + 1, ("after", "before")) and m.has(i + 2, RELATIVE):
        return i - m.has(i - 1, ("the",)), i + 3
    if w.low in RELATIVE or (w.low in DAYS and not (w.low in SETS["no day"] and w.text == w.low)):
        return i - m.has(i - 1, SETS["sets out"]), i + 1
    behind = i + 1 + m.has(i + 1, ("of",))
    if _NTH.fullmatch(w.low) and m.has(behind, MONTHS):
        return i - m.has(i - 1, ("the",)), behind + 1
    if m.has(i - 1, ("the",)) and m.has(i - 2, ("on", "by", "until")) and _NTH.fullmatch(w.low):
        return i - 1, i + 1
    if w.low in SETS["spans of days"] and m.has(i - 1, SETS["sets out"] - {"the"}):
        return i - 1, i + 1
    if w.low not in MONTHS:
        return None
    if _day(m, i + 1):
        last = i + 2
        comma = m.has(last, ",")
        return i, last + comma + 1 if _year(m, last + comma) else last
    if _day(m, i - 1):
        return i - 1, i + 1
    return (i - 2, i + 1) if m.has(i - 1, ("of",)) and _day(m, i - 2) else None


def _day(m: Message, i: int) -> bool:
    return 0 <= i < len(m) and bool(_ORDINAL.fullmatch(m.words[i].low))


def _year(m: Message, i: int) -> bool:
    return i < len(m) and bool(YEAR.fullmatch(m.words[i].low))


def times(m: Message) -> Iterator[Span]:
    """Times of day."""
    i = 0
    while i < len(m):
        w = m.words[i].low
        j = i + 1
        named = m.has(j, SETS["clock"])
        if _CLOCK.fullmatch(w) or (named and _HOUR.fullmatch(w)):
            j += named
            j += named and m.has(j - 1, ("a.m", "p.m")) and m.has(j, ".")
            j = _part_of_day(m, j)
            yield m.span(i, j)
        elif (last := _past(m, i)) > i:
            j = _part_of_day(m, last)
            yield m.span(i, j)
        elif w == "in" and (last := _while(m, j)) > j:
            j = last
            yield m.span(i, j)
        elif w in SETS["noon"] or (
            _hour(m, i) and (m.has(i - 1, ("at",)) or _part_of_day(m, j) > j or _in_range(m, i))
        ):
            j = _part_of_day(m, j)
            yield m.span(i, j)
        i = j


def _in_range(m: Message, i: int) -> bool:
    """Whether an hour is at one end of a range of times: *from 9 to 10:30*."""
    other = i + 2 if m.has(i - 1, ("from", "between")) and m.has(i + 1, SETS["until"]) else i - 2
    if other < i and not (m.has(i - 1, SETS["until"]) and m.has(i - 3, ("from", "between"))):
        return False
    return 0 <= other < len(m) and (_CLOCK.fullmatch(m.words[other].low) is not None or _hour(m, other))


def _part_of_day(m: Message, i: int) -> int:
    """The end of the part of the day that follows an hour: 7 *in the evening*; ``i`` if there is none."""
    if m.has(i, ("in",)) and m.has(i + 1, ("the",)) and m.has(i + 2, SETS["day parts"]):
        return i + 3
    return i + 2 if m.has(i, ("at",)) and m.has(i + 1, ("night",)) else i


def _past(m: Message, i: int) -> int:
    """The end of a time such as *half past six*, *quarter to 9*, *ten past five*; ``i`` if there is none."""
    side = i + 1 + m.has(i + 1, ("minutes",))
    counted = m.has(i, ("half", "quarter")) or m.has(i, NUMBERS) or m.words[i].low.isdigit()
    past = m.has(side, ("past", "after")) or (m.has(i, ("quarter",)) and m.has(side, ("to",)))
    return side + 2 if counted and past and side + 1 < len(m) and _hour(m, side + 1) else i


def _while(m: Message, i: int) -> int:
    """The end of a duration that begins at ``i``: *20 minutes*, *half an hour*; ``i`` if there is none."""
    last = i + (2 if m.has(i, ("half",)) and m.has(i + 1, ("an", "a")) else 1)
    counted = m.has(i, NUMBERS) or m.has(i, ("a", "an")) or (i < len(m) and m.words[i].low.isdigit())
    return last + 1 if counted and m.has(last, UNITS) and UNITS[m.words[last].low] in _OF_TIME else i


def _hour(m: Message, i: int) -> bool:
    w = m.words[i].low
    number = re.fullmatch(r"\d{1,2}", w) or w in NUMBERS
    if number and _part_of_day(m, i + 1) > i + 1:
        return True
    return bool(number) and not m.large(i + 1) and not m.has(i + 1, UNITS) and not m.has(i + 1, ("percent", "%"))


def units(m: Message) -> Iterator[Span]:
    """Units of measure: after a number, or after words such as *to*, *into*, *many*."""
    for i, w in enumerate(m.words):
        if (found := _MEASURED.fullmatch(w.low)) and found[1] in UNITS:
            yield Span(i, i + 1, w.text[-len(found[1]) :])
        elif w.low in UNITS and _is_unit(m, i):
            yield Span(i, i + 1, w.text)


def _is_unit(m: Message, i: int) -> bool:
    w = m.words[i].low
    number = i > 0 and bool(_DIGIT.search(m.words[i - 1].low))
    if w == "in":  # means inches only after a number, and not before another unit
        return number and not (m.has(i + 1, UNITS) and len(m) - i < 4)
    return len(w) > 2 or number or m.has(i - 1, NUMBERS) or m.has(i - 1, SETS["before a unit"])


def currencies(m: Message) -> Iterator[Span]:
    """Currencies, as codes: those written, or those of their names."""
    for i, w in enumerate(m.words):
        if i and (two := CURRENCIES.get(f"{m.words[i - 1].low} {w.low}")):
            yield Span(i - 1, i + 1, two)
        elif (
            w.low in SETS["coins"]
            and (m.has(i + 1, SETS["turned into"] | {"in"}) or m.has(i - 1, SETS["turned into"] | {"in"}))
            and (not CURRENCIES.keys().isdisjoint(m.at) or not any(w.low[0].isdigit() for w in m.words))
        ):
            yield Span(i, i + 1, "GBP")
        elif w.low in CURRENCIES and (w.low != "try" or w.text == "TRY") and (w.low != "won" or i):
            yield Span(i, i + 1, w.text if len(w.text) == 3 and w.text.isupper() else CURRENCIES[w.low])
        elif w.text[0] in MONEY and len(w.text) > 1:
            yield Span(i, i, MONEY[w.text[0]])


def languages(m: Message) -> Iterator[Span]:
    """Languages, unlike the *French* Revolution."""
    for i, w in enumerate(m.words):
        named_so = m.large(i) and m.large(i + 1) and m.has(i - 1, ("the",)) and m.words[i + 1].low not in LANGUAGES
        if w.low in LANGUAGES and not named_so:
            yield Span(i, i + 1, w.text)


def nationalities(m: Message) -> Iterator[Span]:
    """The country of a person: *French* citizens, *Germans*, travellers *from India*, an *Indian* passport."""
    for i, w in enumerate(m.words):
        of = i > 0 and m.large(i) and (m.has(i + 1, SETS["citizens"]) or m.has(i - 1, ("from",)))
        if w.low in SETS["nationalities"] or of:
            yield m.span(i, i + 1)
        elif w.low.removesuffix("s") in SETS["nationalities"]:
            yield Span(i, i + 1, w.text.removesuffix("s"))


def colors(m: Message) -> Iterator[Span]:
    """Colours."""
    yield from (Span(i, i + 1, w.text) for i, w in enumerate(m.words) if w.low in COLORS)


def patterns(m: Message) -> Iterator[Span]:
    """File patterns: ``*.log``."""
    yield from (Span(i, i + 1, w.text) for i, w in enumerate(m.words) if "*" in w.text and len(w.text) > 2)


def months(m: Message) -> Iterator[Span]:
    """Months: *March*, *March 2026*, *last month*, ``2026-03``."""
    for i, w in enumerate(m.words):
        if w.low in MONTHS and (w.low not in SETS["no month"] or m.large(i)):
            yield m.span(i, i + 1 + _year(m, i + 1))
        elif w.low in ("month", "month's") and m.has(i - 1, ("this", "last", "next")):
            yield m.span(i - 1, i + 1)
        elif _MONTH.fullmatch(w.low):
            yield m.span(i, i + 1)


def versions(m: Message) -> Iterator[Span]:
    """Versions: ``4.2.0``, ``v2``."""
    yield from (Span(i, i + 1, w.text) for i, w in enumerate(m.words) if _VERSION.fullmatch(w.low))


FORMS: Final[tuple[tuple[str, Callable[[Message], Iterator[Span]]], ...]] = (
    ("email", emails),
    ("url", urls),
    ("host", hosts),
    ("repository", repositories),
    ("version", versions),
    ("pattern", patterns),
    ("month", months),
    ("phone", phones),
    ("channel", channels),
    ("color", colors),
    ("nationality", nationalities),
    ("path", paths),
    ("directory", paths),
    ("expression", expressions),
    ("zone", zones),
    ("language", languages),
    ("currency", currencies),
    ("unit", units),
    ("symbol", symbols),
    ("date", dates),
    ("time", times),
)
"""The kinds of values that are recognized by their form, in the order in which they take words."""
