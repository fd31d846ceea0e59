"""Single numbers, assigned to parameters by units, by words near them and by their order; and codes."""

import itertools
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from .addresses import address
from .assign import assign
from .filling import Filling, named, own_parts, role
from .formats import clock
from .message import Message, Span
from .prompt import NUMERIC, Parameter
from .spans import SIDES, YEAR, addresses, codes, months, numbers, once, quotes, times, value_of, written
from .words import BOUNDS, CURRENCIES, DIMENSIONS, MONEY, SCALES, SETS, STOP, UNITS, month_of, parts_of, stem

_JOINED: Final = re.compile(r"[$€£]?[\d.,]+([a-z]+)")
CLEAR: Final = 3
"""The evidence for a number that clearly belongs to its parameter: *the bill is 120*."""
NEXT: Final = 4
"""The evidence for a number next to a word of its parameter's name."""
_IN_UNITS: Final = re.compile(r"^(?:\w+ in |in )?([a-z]{3,12})(?:[ .,].*)?$|\bin ([a-z]{3,12})\b")
_COUNT: Final = re.compile(
    r"\b(?:number of|how many|count of|amount of) ([a-z]+(?: [a-z]+)?)|^([a-z]+) (?:from|between|out of|up to) \d"
)
"""What a description says of the things that a number counts."""
_FRACTION: Final = re.compile(r"\bfraction\b|\b0(?:\.0)? (?:to|and) 1(?:\.0)?\b(?!\d)")
"""What a description says of a share that is no percentage."""
_HALF: Final = re.compile(r"(?i)[ap]\.?m|morning|noon")
"""What tells that a time is of the first or the second half of the day."""
_NOON: Final = 12
_FAR: Final = 4
_OF_TIME: Final = frozenset(("second", "minute", "hour", "day", "week"))
_LEAST: Final = 0.1
_LARGE: Final = 200
"""The largest number for an optional parameter that the message does not name."""


def amounts(f: Filling) -> None:
    """Give numbers, lists of them, and codes."""
    _numbered(f)
    _clock(f)
    _month(f)
    inside = [s for s in quotes(f.message) if s.last - s.first > 3]  # a number and its marks are three words
    inside += [s for s in addresses(f.message) if _on_a_street(f.message, s)]
    others = {i for s in (*inside, *_addressed(f.message)) for i in range(s.first, s.last)}
    others |= {i for i, w in enumerate(f.message.words) if w.low in f.tool.described}  # a *3d* printer
    free = [s for s in numbers(f.message) if f.message.free(s) and s.first not in others]
    wanted = [p for p in f.left if p.type in NUMERIC]
    if len({unit_named(p) for p in wanted} & _OF_TIME) == 1 or not any(unit_named(p) in _OF_TIME for p in wanted):
        free = _durations(f.message, free)  # not for an hours and a minutes
    if not free and any(unit_named(p) in _OF_TIME for p in wanted):
        free = _spans_of_time(f.message)
    required = [p for p in wanted if not p.optional]
    # Each is clearly for another parameter.
    shares = len(free) > 1 and sum(e >= 1 for e in numbers_evidence(f)) >= len(free)
    if (
        len(required) == 1
        and len(free) > 1
        and not shares
        and f.filled.several is None
        and _apart(f.message, free, f.tool.nouns)
    ):
        values = [value_of(s) for s in free]
        if required[0].type == "number" or all(isinstance(v, int) for v in values):
            f.give_several(required[0], values)
            for s in free:
                f.message.take(s)
            free = []
    _assigned(f, wanted, free)
    _codes(f)


def _clock(f: Filling) -> None:
    """Give an hour, and a minute, the parts of a time of day: *7:30*, *at 7 in the evening*, *tonight at 10*."""
    hours, minutes = (
        next((p for p in f.left if p.type in NUMERIC and own_parts(p)[-1:] == [w]), None) for w in ("hour", "minute")
    )
    found = next((s for s in times(f.message) if f.message.free(s)), None)
    said = clock(found.value) if found else None
    if hours is None or found is None or said is None or (minutes is None and said[1]):
        return
    late = said[0] < _NOON and not _HALF.search(found.value) and not SETS["late"].isdisjoint(f.message.at)
    f.message.take(found)
    f.give(hours, said[0] + _NOON * late)
    if minutes is not None:
        f.give(minutes, said[1])


def _month(f: Filling) -> None:
    """Give a number of a month the month that is named: *sales for October*."""
    p = next((p for p in f.left if p.type in NUMERIC and own_parts(p) == ["month"]), None)
    found = next((s for s in months(f.message) if f.message.free(s)), None) if p is not None else None
    if p is not None and found is not None and (number := month_of(f.message.words[found.first].low)):
        f.message.take(f.message.span(found.first, found.first + 1))
        f.give(p, number)


def _numbered(f: Filling) -> None:
    """Give numbers to texts for things that they number: *order 8841*."""
    m = f.message
    coded = [p for p in f.left if p.type == "string" and not p.choices and (named(p, SETS["codes"]) or _digital(p))]
    for p in coded:
        own = {stem(w) for w in own_parts(p)} - SETS["codes"]
        found = [s for s in codes(m) if m.free(s) and _headed(m, s, own)]
        if len(found) == 1 and own:
            f.give_span(p, found[0])


def _digital(p: Parameter) -> bool:
    """Whether a description says that a text has digits: *last four digits*."""
    return not SETS["digits"].isdisjoint(p.description.lower().split())


def _headed(m: Message, s: Span, own: set[str]) -> bool:
    """Whether one of these words leads to a code: *card* 9920, *card* ending in 9920."""
    i = s.first - 1
    while m.has(i, SETS["before a code"]) and stem(m.words[i].low) not in own:
        i -= 1
    return i >= 0 and stem(m.words[i].low) in own


def _durations(m: Message, free: list[Span]) -> list[Span]:
    """Numbers, with *1 hour and 30 minutes* as one."""
    joined: list[Span] = []
    for s in free:
        before = joined[-1] if joined else s
        if before is not s and s.first - before.last <= 2:
            larger, smaller = unit_of(m, before), unit_of(m, s)
            if (times := _times(larger, smaller)) > 1:
                total = float(before.value) * times + float(s.value)
                joined[-1] = Span(before.first, s.last, written(total))
                continue
        joined.append(s)
    return joined


def _times(larger: str | None, smaller: str | None) -> float:
    """How many of one unit make up another; zero if they measure different quantities."""
    a, b = SCALES.get(larger or ""), SCALES.get(smaller or "")
    return a[1] / b[1] if a and b and a[0] == b[0] else 0


@once
def _addressed(m: Message) -> Iterator[Span]:
    """An address with its parts, whose numbers count nothing."""
    if (found := address(m)) is not None:
        yield m.span(found.first, found.last)


def _on_a_street(m: Message, s: Span) -> bool:
    """Whether a house's number comes before the name of its street: *22 Baker Street*."""
    return any(m.words[i].low in SETS["ways"] for i in range(s.first + 2, s.last))


def _assigned(f: Filling, wanted: list[Parameter], free: list[Span]) -> None:
    """Give numbers to parameters, all at once: required ones first, optional ones only with evidence."""
    m = f.message
    subtracted = len(wanted) == 2 and "from" in m.at and not SETS["subtracting"].isdisjoint(m.at)
    for p, s in assign(wanted, free[::-1] if subtracted else free, lambda p, s: _fits(f, p, s)):
        if _evidence(f, p, s):
            m.take(m.span(min(_leading(m, s, _names_of(p)), _label(m, p, s)), s.first))
        unit, said = unit_named(p), unit_of(m, s)
        if unit != said and (times := _times(said, unit)):
            s = s._replace(value=written(float(s.value) * times))
        if _FRACTION.search(p.description.lower()) and float(s.value) > 1 and _percent(m, s):
            s = s._replace(value=written(float(s.value) / 100))
        _give(f, p, s)


def _percent(m: Message, s: Span) -> bool:
    return m.words[s.last - 1].low.endswith("%") or m.has(s.last, ("%", "percent"))


def _spans_of_time(m: Message) -> list[Span]:
    """Units without a number: *over the last hour*."""
    return [
        Span(i, i + 1, "1")
        for i, w in enumerate(m.words)
        if UNITS.get(w.low) in _OF_TIME and m.has(i - 1, ("last", "past", "previous")) and not m.taken[i]
    ]


def _fits(f: Filling, p: Parameter, s: Span) -> float:
    """How well a number fits a parameter; zero if it does not."""
    m = f.message
    unit, said = unit_named(p), unit_of(m, s)
    times = _times(said, unit)
    if (p.type == "integer" and not (float(s.value) * (times or 1)).is_integer()) or (
        unit and said and unit != said and not times
    ):
        return 0
    sure = _evidence(f, p, s)
    if not sure and ((p.optional and not _plain(m, s)) or _of_another(f, p, s)):
        return 0
    bound = BOUNDS.get(_bound(m, s))
    against = {"min": SETS["most"], "max": SETS["least"], "most": SETS["least"], None: frozenset()}[bound]
    named_so = s.first > 1 and m.large(s.first - 1) and not said and not sure  # *Terminal 2*
    aside = _LEAST if named(p, against) or _other_side(m, p, s) or named_so else 1.0
    return aside * (10 * sure + (0.5 if p.optional else 5.0))


def _other_side(m: Message, p: Parameter, s: Span) -> bool:
    """Whether a number is on the opposite side of its parameter: *from 3, 4 to 5, 6*."""
    side = role(p)
    cues = [w.low for w in m.words[: s.first] if w.low in ("from", "to")]
    return side is not None and "." in p.name and bool(cues) and cues[-1] != side


def _evidence(f: Filling, p: Parameter, s: Span) -> float:
    """The evidence for a number: a parameter's unit, a nearby word of its name, a bound, or the counted thing."""
    m = f.message
    if (unit := unit_named(p)) and ((said := unit_of(m, s)) == unit or _times(said, unit)):
        return 5
    names = _names_of(p)
    if SIDES.fullmatch(m.words[s.first].low) and names & {"width", "height"}:
        return 3
    if _label(m, p, s) < s.first:
        return 5
    if (d := _distance(m, s, names)) < _FAR:
        return 5 - d
    if m.has(s.first - 1, ("first", "last")) and m.words[s.first - 1].low in p.description.lower().split():
        return 4
    alone = s.last == len(m) or not m.words[s.last].low[0].isalpha()
    parted = m.has(s.last, ("ways",)) or (alone and m.has(s.first - 1, ("for", "between", "among")))
    if parted and named(p, SETS["party"]):
        return 3  # a hotel *for 2*, split it *5 ways*
    if alone and m.has(s.first - 1, ("top", "just", "only")) and named(p, SETS["counted"] | SETS["most"]):
        return 2
    if "age" in names and m.has(s.first - 1, SETS["aged"]):
        return 3
    if "year" in names and YEAR.fullmatch(s.value):
        return 4
    at = m.has(s.first - 1, ("at",)) and not _percent(m, s)  # the VAT *at 19%*
    if named(p, SETS["sums"]) and (at or is_money(m, s) or s.value[-3:-2] == "."):
        return 3
    if s.last < len(m) and stem(m.words[s.last].low) in _counted(p):
        return 3
    if _bounds(m, p, s):
        return 2
    return 1.5 * (named(p, SETS["counted"]) and not named(p, SETS["sums"]) and _counts(f, s))


def _label(m: Message, p: Parameter, s: Span) -> int:
    """Where a parameter's whole name before a number begins, else the number itself: *p = 0.5*, *max_depth 6*."""
    own = own_parts(p)
    i = s.first - m.has(s.first - 1, SETS["before a set number"])
    common = len(own) == 1 and {*own} <= STOP | UNITS.keys() and not m.has(s.first - 1, ("=", ":", "is"))
    for first in () if common or not own else (i - 1, i - len(own)):
        if first >= 0 and [part for w in m.words[first:i] for part in parts_of(w.low)] == own:
            return first
    return s.first


@lru_cache(maxsize=256)
def _counted(p: Parameter) -> frozenset[str]:
    """Stems of the things that a parameter counts, by its description: *number of trials*, *points from 0 to 100*."""
    found = _COUNT.search(p.description.lower())
    return frozenset(map(stem, (found[1] or found[2]).split())) - STOP if found else frozenset()


def is_money(m: Message, s: Span) -> bool:
    """Whether a number is a sum of money."""
    return m.words[s.last - 1].text[0] in MONEY or m.has(s.last, CURRENCIES.keys() | SETS["coins"])


def numbers_evidence(f: Filling) -> list[float]:
    """The evidence for each number that may belong to a parameter."""
    inside = {i for s in _addressed(f.message) for i in range(s.first, s.last)}
    free = [s for s in numbers(f.message) if s.first not in inside]
    wanted = [p for p in f.left if p.type in NUMERIC]
    return [_evidence(f, p, s) for p, s in assign(wanted, free, lambda p, s: _fits(f, p, s))]


def _names_of(p: Parameter) -> set[str]:
    names = {stem(w) for w in own_parts(p) if len(w) > 2}
    short = "".join(w[0] for w in own_parts(p))
    names |= {short} - STOP - UNITS.keys() if len(short) > 1 else set()  # *lr*
    names |= {adjective for n in names for adjective in DIMENSIONS.get(n, ())}  # 3 *wide*
    shares = any(n.startswith("percent") or n in SETS["shares"] for n in names)
    return names | ({"%", "percent"} if shares else {"d"} if "side" in names else set())


def _bounds(m: Message, p: Parameter, s: Span) -> bool:
    """Whether a number is a bound of the parameter's kind: *at most 5*, *older than 21*."""
    side = BOUNDS.get(_bound(m, s))
    least, most = named(p, SETS["least"]), named(p, SETS["most"])
    return (side == "min" and least) or (side == "max" and most) or (side == "most" and (most or _many(p)))


def _bound(m: Message, s: Span) -> str:
    """The kind of bound that a number is; empty if it is none."""
    said = (" ".join(w.low for w in m.words[max(0, s.first - size) : s.first]) for size in (3, 2, 1))
    return next((words for words in said if words in BOUNDS), "")


def _many(p: Parameter) -> bool:
    return named(p, SETS["counted"])


def _leading(m: Message, s: Span, names: set[str]) -> int:
    """The beginning of the words that describe a number: *with a timeout of 10*, *at most 5*."""
    first = s.first - len(_bound(m, s).split())
    near = range(max(0, s.first - 2), s.first)
    first = min([first, *(i for i in near if stem(m.words[i].low) in names or m.words[i].low in names)])
    while first < s.first and first > 0 and m.has(first - 1, SETS["before a named number"]):
        first -= 1
    return first


def _of_another(f: Filling, p: Parameter, s: Span) -> bool:
    """Whether a number is a count, and belongs to another parameter: *two dice* are not a die's sides."""
    return _counts(f, s) and not named(p, SETS["counted"]) and any(named(q, SETS["counted"]) for q in f.tool.parameters)


def _counts(f: Filling, s: Span) -> bool:
    """Whether a number is followed by the tool's subject."""
    m = f.message
    if s.last < len(m) and stem(m.words[s.last].low) in f.tool.nouns | f.tool.described:
        return True
    sided = m.words[s.last].low if s.last < len(m) else ""  # two *20-sided* dice
    return sided[:1].isdigit() and any(stem(w.low) in f.tool.nouns for w in m.words[s.last + 1 : s.last + 4])


def _plain(m: Message, s: Span) -> bool:
    """Whether a number may belong to an optional parameter: it is small, before a word, and no year."""
    return (
        float(s.value) <= _LARGE
        and not m.has(s.first - 1, SETS["since"])
        and (
            (s.last < len(m) and (m.words[s.last].low[0].isalpha() or m.has(s.last, "%")))
            or m.has(s.first - 1, SETS["set to"])
        )
    )


def _codes(f: Filling) -> None:
    """Texts that are numbers of orders, flights and the like."""
    m = f.message
    for p in f.left[:]:
        postal = named(p, SETS["postal"])
        code = named(p, SETS["code names"]) or _digital(p)
        if p.type in ("string", "any") and (postal or (not p.kinds[:1] and code)):
            side = role(p)
            others = [w for q in f.texts() if q is not p for w in own_parts(q)]
            found = [s for s in codes(m) if m.free(s) and not m.has(s.first - 1, others)]  # *section* 12 of the code
            found = [s for s in found if m.has(s.first - 1, (side,))] if side and postal else found
            if found:
                f.give_all(p, found if not p.optional and _apart(m, found) else found[:1])


def unit_named(p: Parameter) -> str | None:
    """The unit in a parameter's name."""
    parts = parts_of(p.name)
    named = next((UNITS[w] for w in parts if w in UNITS and len(w) > 1 and w != "in"), None)
    if named is None and len(parts) > 1 and parts[-1] in SETS["letters of units"]:
        named = UNITS[parts[-1]]  # radius_m
    described = _IN_UNITS.search(p.description.lower()) if named is None else None
    return UNITS.get(described[1] or described[2]) if described else named


def unit_of(m: Message, s: Span) -> str | None:
    """The unit of a number."""
    if joined := _JOINED.fullmatch(m.words[s.last - 1].low):
        return UNITS.get(joined[1])
    if m.has(s.first, UNITS):
        return UNITS[m.words[s.first].low]  # the last *hour*
    if m.has(s.first + 1, UNITS) and m.has(s.last - 1, ("half", "quarter")):
        return UNITS[m.words[s.first + 1].low]  # *an hour and a half*
    for k in (s.last, s.last + 1):
        if m.has(k, UNITS) and not m.has(k, ("-", "in")):
            return UNITS[m.words[k].low]
        if not m.has(k, SETS["more"]):
            break
    return None


def _distance(m: Message, s: Span, names: set[str]) -> int:
    """The number of words between a number and one of these names; words after the number count as nearer."""
    word = m.words[s.first].low
    if any(word.endswith(n) or word.startswith(n) for n in names & {"%", "d"}):
        return 0
    for d in (1, 2):
        for k in (s.last + d - 1, s.first - d):
            if 0 <= k < len(m) and _says(m.words[k].low, names):
                return d
    return 2 * _FAR


def _says(word: str, names: set[str]) -> bool:
    """Whether a word is one of these, or is derived from one: *sided*."""
    made = any(word.startswith(n) and len(word) <= len(n) + 2 for n in names if len(n) > 3)
    return made or stem(word) in names or word in names


def _apart(m: Message, spans: list[Span], about: frozenset[str] = frozenset()) -> bool:
    """Whether numbers are members of one list, with the same unit if they have units: *orders 12 and 15*."""
    if any(a.last == b.first or m.has(a.last, ("-",)) for a, b in itertools.pairwise(spans)):
        return False  # *two six-sided* dice
    between = [w.low for a, b in itertools.pairwise(spans) for w in m.words[a.last : b.first]]
    same = len({unit_of(m, s) for s in spans} - {None}) < 2
    between = [w for w in between if stem(w) not in about]
    money = [w for w in between if w in CURRENCIES or w in UNITS]
    return same and all(w in SETS["between numbers"] or w in money for w in between) and len(set(money)) < 2


def _give(f: Filling, p: Parameter, s: Span) -> None:
    m = f.message
    value = value_of(s)
    if p.type == "integer" and not isinstance(value, int):
        return
    m.take(s)
    if m.has(s.first - 1, SETS["before a count"]):
        m.taken[s.first - 1] = True
    if is_money(m, s) and m.has(s.last, CURRENCIES) and not any("currency" in q.kinds[:1] for q in f.left):
        m.taken[s.last] = True
    if m.has(s.last, ("year", "years")) and m.has(s.last + 1, ("old",)):
        m.take(m.span(s.last, s.last + 2))
    counted = s.last < len(m) and stem(m.words[s.last].low) in _counted(p)  # 87 *points*
    own = s.last < len(m) and stem(m.words[s.last].low) in map(stem, parts_of(p.name))
    if counted or own or (m.has(s.last, UNITS) and named(p, UNITS)):
        m.taken[s.last] = True
    f.give(p, value)
