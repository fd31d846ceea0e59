"""Enumerations and switches."""

import itertools
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

from .filling import Filling, named, own_parts, role
from .message import Message, Span
from .prompt import NUMERIC, Parameter
from .sides import sided
from .spans import currencies, languages, units
from .words import (
    CHOICES,
    COINS,
    CUES,
    CURRENCIES,
    EQUAL,
    GENERIC,
    MONEY,
    NUMBERS,
    OFF,
    OPPOSITES,
    PERIODS,
    SETS,
    STOP,
    TONGUES,
    UNITS,
    parts_of,
    stem,
)

_PARTED: Final = 5
"""The greatest distance between a verb and its particle."""
_MEANS: Final = re.compile(r"\b(\d{1,6}|[a-z]{3,5}) ?(?:=|is|means|for) ?(?:fully )?([a-z]{3,20})\b")
"""How a description explains the number of a choice."""
_STATES: Final = ("still", "already", "is", "are", "was")
"""Words before a current state, which is not asked for: *the garage is still open, shut it*."""
_SHORTENED: Final = 3
"""The least letters of a shortened choice."""
_PERIOD: Final = re.compile(r"(\d{0,3})([a-z]{1,5})")


def choose(f: Filling) -> None:
    """Give enumerations and switches the values in a message, and some units their first value."""
    for p in list(f.left):
        if p.choices and p.type == "array":
            if several := _several(f, p):
                f.give(p, several)
        elif p.choices and not p.optional and f.filled.several is None and len(both := _joined(f.message, p)) > 1:
            f.give_several(p, both)
        elif p.choices:
            value = _choice(f, p)
            if value is None and isinstance(p.choices[0], int) and (number := _explained(f, p)) in p.choices:
                value = number
            if value is not None:
                f.give(p, value)
            elif not p.optional and role(p) is None and (named(p, SETS["unit"]) or own_parts(p) == ["type"]):
                f.give(p, p.choices[0])
                f.filled.assumed.add(p.name)
            else:
                f.miss(p)
        elif p.type in NUMERIC and (number := _explained(f, p)) is not None:
            f.give(p, number)
        elif p.type == "boolean":
            switched = _switch(f.message, p)
            if switched is None and _included(f, p):
                switched = True
            if switched is None:
                f.miss(p)
            else:
                f.give(p, switched)


def _explained(f: Filling, p: Parameter) -> float | None:
    """The number for a word of the message, according to a description: *0 = closed, 100 = open*."""
    m = f.message
    said = {stem(w.low): i for i, w in enumerate(m.words) if not m.taken[i]}
    ends = [int(found[1]) for found in _MEANS.finditer(p.description.lower()) if found[1].isdigit()]
    for part in CHOICES["half"] if len(ends) == 2 else ():
        for span in m.phrases.get(part, ()):
            if m.free(span):
                m.take(span)
                return sum(ends) // 2
    for found in _MEANS.finditer(p.description.lower()):
        number = found[1] if found[1].isdigit() else str(NUMBERS.get(found[1], ""))
        for word in (found[2], found[2].removesuffix("d")):
            if number and word not in STOP and (at := said.get(stem(word))) is not None:
                if p.choices:
                    m.taken[at] = at > 0  # the verb that asks stays
                return int(number)
    return None


def _choice(f: Filling, p: Parameter) -> Any:
    m = f.message
    if (side := role(p)) is not None and all(isinstance(c, str) for c in p.choices):
        same = {canonical(c): c for c in p.choices}
        spans = sorted(s for s in (*currencies(m), *units(m), *languages(m)) if canonical(s.value) in same)
        spans = [s for s in spans if m.free(s)]
        chosen = sided(m, spans, side) if spans else None
        if chosen is not None:
            return same[canonical(m.take(chosen))]
    ordered = sorted(p.choices, key=lambda c: stem(str(c).lower()) in f.tool.name_words)
    for w in m.words:
        if len(w.text) > 1 and (code := MONEY.get(w.text[0])) and code in p.choices:
            return code  # $15
    nothing = next((c for c in p.choices if str(c).lower() == "none"), None)
    for i in range(1, len(m)) if nothing is not None else ():
        if m.has(i, own_parts(p)) and m.has(i - 1, ("no", "without")):
            m.take(m.span(i - 1, i + 1))
            return nothing  # *without equipment*
    sides = CUES[side] if side and any(q.choices == p.choices for q in f.tool.parameters if q is not p) else []
    longest = sorted(ordered, key=lambda c: -max((len(a) for a in aliases(str(c)) if a in m.phrases), default=0))
    for weak, said in itertools.product((False, True), (_forms, _alike, turned, _parted, _shortened)):
        for choice in longest if said is _alike else ordered:  # *no more than*, before *more than*
            found = _spans(m, _words(choice), said, verbs=weak and not p.optional)
            found = [
                s
                for s in found
                if (not sides or _led(m, s) in sides)
                and (weak or not _words(choice)[:1].isalnum() or not m.has(s.first - 1, _STATES))
            ]
            if found and (said is not _shortened or sum(_words(c).startswith(found[0].value) for c in ordered) == 1):
                m.take(found[0])
                if m.has(found[0].first - 1, ("by",)) and m.has(found[0].first - 2, SETS["sorting"]):
                    m.take(m.span(found[0].first - 2, found[0].first))  # *sorted by* stars
                if m.has(found[0].last, own_parts(p)):
                    m.taken[found[0].last] = True  # turbo *mode*
                return choice
    return None


def _words(choice: Any) -> str:
    return " ".join(re.findall(r"\w+", str(choice).lower().replace("_", " "))) or str(choice)


def _led(m: Message, span: Span) -> str:
    """The word before a choice, ignoring articles: *out of* my *savings*."""
    i = span.first - 1
    while m.has(i, SETS["determiners"] | {"of"}):
        i -= 1
    return m.words[i].low if i >= 0 else ""


def _several(f: Filling, p: Parameter) -> list[Any]:
    """The choices in a message, in its order."""
    said = [(span, c) for c in p.choices if (span := _said(f.message, _words(c))) is not None]
    said.sort(key=lambda both: both[0].first)
    for span, _ in said:
        f.message.take(span)
    return [c for _, c in said]


def _joined(m: Message, p: Parameter) -> list[Any]:
    """Choices with only *and* or a comma between them, which are taken: *my checking and savings accounts*."""
    said = {c: [_words(c), *turned(m, _words(c))] for c in p.choices}
    spans = {c: [s for phrase in some for s in m.phrases.get(phrase, ()) if m.free(s)] for c, some in said.items()}
    found = sorted((some[0], c) for c, some in spans.items() if some)
    for (a, _), (b, _) in itertools.pairwise(found):
        if b.first == a.last or not all(m.has(i, SETS["joins"] | SETS["determiners"]) for i in range(a.last, b.first)):
            return []
    for span, _ in found if len(found) > 1 else ():
        m.take(span)
    return [c for _, c in found]


def _said(m: Message, choice: str) -> Span | None:
    """The span of a choice: itself, a form of it, a synonym, or an equivalent unit."""
    return next((span for said in (_forms, _alike) for span in _spans(m, choice, said)), None)


def _spans(
    m: Message, choice: str, said: Callable[[Message, str], Iterator[str]], *, verbs: bool = False
) -> list[Span]:
    """The spans of a choice in some of its forms; with ``verbs`` also the verb that asks."""
    found: list[Span] = []
    for phrase in dict.fromkeys(said(m, choice)):
        if phrase and phrase != "a" and (phrase == choice or len(phrase) > 2 or not choice[0].isalnum()):
            spans = m.phrases.get(phrase, ())
            found += [s for s in spans if m.free(s) and (verbs or not (_asks(m, s) and phrase == choice))]
    if said is _alike and not found and (unit := _unit(m, choice)) is not None:
        found.append(unit)
    return found


def _forms(m: Message, choice: str) -> Iterator[str]:
    """A choice, and forms of its words."""
    yield from (choice, stem(choice), choice.removesuffix("d"), f"{choice}s")
    if choice.endswith("y"):
        yield f"{choice[:-1]}ies"
    if len(choice) > 3 and choice.isalpha():
        yield from (
            w.low for w in m.words if len(w.low) > 2 and (stem(w.low) == stem(choice) or w.low == f"{choice}ly")
        )


def aliases(choice: str) -> tuple[str, ...]:
    """The synonyms of a choice."""
    low = _words(choice)
    tongue = [TONGUES[low]] if low in TONGUES else ()
    return (*CHOICES.get(low, ()), *COINS.get(low.upper(), ()), *tongue, *_periods(low))


@lru_cache(maxsize=256)
def _periods(choice: str) -> tuple[str, ...]:
    """The ways to say a period: *6 months* for ``6mo``, *daily* for ``1d``, *week* for ``7d``."""
    found = _PERIOD.fullmatch(choice)
    said: list[str] = []
    for unit in PERIODS.get(found[2], ()) if found else ():
        count = int(found[1] or 1) if found else 1
        for n, one in ((count, unit), *((n, u) for same in EQUAL for n, u in same if (count, unit) in same)):
            spelled = [word for word, value in NUMBERS.items() if value == n]
            said += [f"{n} {one}s", f"{n} {one}", *(f"{word} {one}s" for word in spelled)]
            said += [f"{which} {one}" for which in ("last", "past", "one", "this") if n == 1]
            said += ["daily" if one == "day" else f"{one}ly"] if n == 1 else []
    return tuple(dict.fromkeys(said))


def _alike(_: Message, choice: str) -> Iterator[str]:
    yield from aliases(choice)


def turned(_: Message, choice: str) -> Iterator[str]:
    """The two words of a choice in the other order: *p99 latency* for ``latency_p99``."""
    one, _space, other = choice.partition(" ")
    if other and " " not in other:
        yield f"{other} {one}"


def _parted(m: Message, choice: str) -> Iterator[str]:
    """A verb and its particle around the thing that they are about: *turn* the tv *off*."""
    verb, _, particle = choice.partition(" ")
    if particle in SETS["particles"]:
        for a, b in itertools.product(m.at.get(verb, ()), m.at.get(particle, ())):
            if 0 < b - a <= _PARTED:
                yield particle


def _shortened(m: Message, choice: str) -> Iterator[str]:
    """Words of a message that are the beginning of a choice: *prod*."""
    for w in m.words:
        if _SHORTENED <= len(w.low) < len(choice) - 1 and choice.startswith(w.low) and w.low not in SETS["function"]:
            yield w.low


def _unit(m: Message, choice: str) -> Span | None:
    """The span of the unit that a choice names."""
    unit = UNITS.get(choice)
    for i, w in enumerate(m.words if unit else ()):
        clear = len(w.low) > 1 or w.text.isupper() or m.has(i - 1, SETS["degrees"])
        clear = clear and (w.low != "in" or (i > 0 and m.words[i - 1].low[-1].isdigit()))
        if UNITS.get(w.low) == unit and clear and not m.taken[i]:
            return m.span(i, i + 1)
    return None


def _asks(m: Message, span: Span) -> bool:
    """Whether a word is the verb that asks: *open an issue*."""
    behind = m.has(span.last, SETS["determiners"]) or m.large(span.last)
    return m.words[span.first].low in SETS["asking choices"] and span.first == 0 and behind


def canonical(text: str) -> str:
    """A currency's code, or the usual name of a unit."""
    low = "kelvin" if text == "K" else text.lower()
    return CURRENCIES.get(low, UNITS.get(low, low)).lower()


def _switch(m: Message, p: Parameter) -> bool | None:
    words = set(parts_of(p.name))
    own = {stem(w) for w in words} - SETS["state names"]
    own = own - STOP - SETS["leaving out"] or own
    if words & SETS["state"] or not own:
        for i, w in enumerate(m.words):
            if w.low in SETS["switched"] and (w.low != "on" or _turned_on(m, i)):
                m.taken[i] = True
                return w.low in SETS["enabling"]
    for i, w in enumerate(m.words):
        if w.low.startswith("un") and stem(w.low[2:]) in own:  # unlock, for `locked`
            m.taken[i] = True
            return False
    for opposite in (OPPOSITES[w] for w in own_parts(p) if w in OPPOSITES):
        if (said := _said(m, opposite)) is not None:
            m.take(_ordering(m, said))
            return False
    joined = [part for part in p.name.lower().split("_") if any(map(str.isdigit, part))]  # open_24h
    hits = [i for i, w in enumerate(m.words) if {stem(w.low), stem(w.low.removesuffix("ly"))} & own or w.low in joined]
    hits = hits or [i for s in m.phrases.get(p.description.lower(), ()) for i in range(s.first, s.last)]  # *dry run*
    if not hits:
        phrases = (phrase for word in (*sorted(own), *own_parts(p)) for phrase in CHOICES.get(word, ()))
        hits = [i for phrase in phrases for s in m.phrases.get(phrase, ()) if m.free(s) for i in range(s.first, s.last)]
    if not hits:
        return None
    for i in hits:
        m.take(_ordering(m, m.span(i, i + 1)))
    first = hits[0]
    while first > 0 and m.has(first - 1, SETS["before a switch"]):
        first -= 1
    if m.has(first, ("include", "including", "with", "show", "only")) or m.has(first, ("and",)):
        m.take(m.span(first, hits[0]))
    before = range(max(0, hits[0] - 3), hits[0])
    off = OFF | SETS["leaving out"]
    on = not any(m.words[i].low in OFF or stem(m.words[i].low) in off for i in before)
    for i in before:
        m.taken[i] = m.taken[i] or m.words[i].low in OFF | SETS["switched"]
    return on == words.isdisjoint(SETS["leaving out"])  # *without tolls*, for `avoid_tolls`


def _ordering(m: Message, s: Span) -> Span:
    """Words, with those that make them an order: *in* descending *order*."""
    first = s.first - m.has(s.first - 1, ("in", "from"))
    return m.span(first, s.last + 1) if m.has(s.last, ("order",)) else s


def _included(f: Filling, p: Parameter) -> bool:
    """Whether a message asks for what a switch's description adds: *include the stopped ones too*."""
    m = f.message
    about = {stem(w) for w in re.findall(r"[a-z]{4,}", p.description.lower())} - f.tool.nouns - f.tool.described
    about -= SETS["included"] | SETS["function"] | GENERIC
    for i, w in enumerate(m.words):
        near = m.words[max(0, i - 3) : i + 3]
        if stem(w.low) in about and not m.taken[i] and any(n.low in SETS["included"] for n in near if n is not w):
            m.taken[i] = True
            return True
    return False


def _turned_on(m: Message, i: int) -> bool:
    """Whether *on* refers to a switch, unlike in *on Friday*."""
    verb = any(w.low in SETS["turning"] for w in m.words[max(0, i - 5) : i])
    return verb or m.has(i - 1, SETS["before on"]) or i == len(m) - 1
