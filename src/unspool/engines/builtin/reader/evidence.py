"""Short texts: assigns phrases to parameters, all at once.

A message is divided into phrases at function words, marks and values that are taken. For each parameter and each
phrase, the evidence for the pair is added up: the parameter's name next to or within the phrase, the preposition before
it, words of the description, quotes, capitals, the position. The assignment with the best total wins.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from .assign import MOST, assign
from .filling import Filling, keeps, named, own_parts, role
from .message import ACRONYM, Message, Span, identifies, items
from .prompt import Parameter
from .spans import quotes
from .words import (
    BEFORE_PLACE,
    GENERIC,
    IRREGULAR,
    KINDS,
    NUMBERS,
    PREPOSITIONS,
    RELATIVE,
    SETS,
    STARTERS,
    STOP,
    UNITS,
    derived,
    initials,
    kin,
    parts_of,
    stem,
)

_EITHER: Final = re.compile(r"[a-z]{3,}(?:, [a-z]{3,})*,? or [a-z]{3,}")
"""A description that says which things a text may name."""
_LABEL: Final = 6.0
"""For a parameter's name next to a phrase, or at one of its ends."""
_SIDE: Final = 5.0
_PREPOSITION: Final = 4.0
_DESCRIBED: Final = 2.5
_QUOTED: Final = 2.0
_NAME: Final = 1.5
"""For capitals if names are expected; the same amount against lower case."""
_LARGE: Final = 0.5
"""For capitals elsewhere."""
_DIRECT: Final = 1.0
"""For a required value right after the verb."""
_LISTED: Final = 2.1
"""For a list if the parameter is a list."""
_ANY: Final = 0.4
_MARKED: Final = 3.9
"""The least total of a clear pair."""
_SURE: Final = 2.4
"""The least total for an optional parameter, and for one next to a long text that takes the words that are left."""
_MOST_WORDS: Final = 6
_NEAR: Final = 4
"""The greatest distance between a parameter's name and its value."""
_LONG: Final = (("body",), ("query",))
FORMED: Final = frozenset(
    ("month", "version", "date", "time", "email", "url", "unit", "currency", "expression", "phone", "path", "zone")
)
"""Kinds with a fixed form, which no other words can have."""
_WITH: Final = ("with", "against")
_ENDS: Final = frozenset((".", "?", "!", ";"))
_PEOPLE: Final = frozenset(("people", "author", "place", "zone", "email"))


class Phrase(NamedTuple):
    """Words that belong together.

    Attributes:
        lead: the preposition before them; ``verb`` after the verb that asks.
        quoted: the content of their quotes; empty without quotes.
        several: whether they are a list.
    """

    first: int
    last: int
    lead: str
    quoted: str = ""
    several: bool = False


def marked(f: Filling) -> None:
    """Give texts the phrases that a word clearly marks as theirs, before frames take long texts."""
    _weighed(f, _MARKED)


def weighed(f: Filling) -> None:
    """Give short texts the phrases that fit them best."""
    _weighed(f, 0.0)


def _weighed(f: Filling, least: float) -> None:
    wanted = f.texts()
    if not wanted:
        return
    open_ = any(not _is_short(p) and not p.optional for p in wanted)
    found = _listed(f, phrases(f), wanted)[:MOST]
    fits = {(p.name, c): _fit(f, p, c) for p in wanted for c in found}

    def weight(p: Parameter, c: Phrase) -> float:
        total = fits[p.name, c][0]
        own = _MARKED if p.kinds[:1] == ("sort",) else _SURE if p.optional or open_ else 0.0
        return total if total >= max(least, own) else 0.0

    short = sorted(wanted, key=lambda p: p.optional)
    for p, c in assign(short, found, weight):
        region = p.optional and bool(least) and len(wanted) > 1
        labelled = named(p, SETS["rooms"]) and fits[p.name, c][0] > _LABEL  # the *living room* thermostat
        if p.kinds[:1] in (("place",), ("zone",)) and not c.quoted and not region and not labelled:
            continue  # `place` takes it, together with other places
        give(f, p, c, fits[p.name, c][1])


def _is_short(p: Parameter) -> bool:
    return p.kinds[:1] not in _LONG and SETS["long names"].isdisjoint(own_parts(p))


def give(f: Filling, p: Parameter, c: Phrase, s: Span) -> None:
    m = f.message
    first = _leading(m, p, s.first)
    if c.quoted:
        m.take(Span(c.first, c.last, c.quoted))
        f.give(p, [c.quoted] if p.type == "array" else c.quoted)
    elif c.several:
        f.give_all(p, _members(f, s))
    else:
        f.give_span(p, s)
    m.take(m.span(first, s.first))
    if c.last > s.last and _is(m, s.last, _names(p)):
        m.taken[s.last] = True


def _members(f: Filling, s: Span) -> list[Span]:
    """The members of a list, of which *with* may join two: *compare* a *with* b."""
    m = f.message
    at = next((i for i in range(s.first + 1, s.last - 1) if m.has(i, _WITH)), None)
    if at is None:
        return items(m, s.first, s.last)
    end = at - (at - s.first > 1 and _joint(f, at - 1))
    return [*items(m, s.first, end), *items(m, at + 1, s.last)]


def _leading(m: Message, p: Parameter, first: int) -> int:
    """The beginning of the words that lead to a value, such as its parameter's name or a preposition."""
    i = _called(m, p, first)
    i = first if i is None else i
    while i > 0 and not m.taken[i - 1] and m.has(i - 1, SETS["determiners"]):
        i -= 1
    return i - (i > 0 and not m.taken[i - 1] and m.has(i - 1, PREPOSITIONS))


# -- phrases -----------------------------------------------------------------------------------------------------------


def phrases(f: Filling) -> list[Phrase]:
    """The phrases of a message, in order."""
    m = f.message
    whole = {s.first: s for s in quotes(m) if m.free(s)}
    labels = frozenset().union(*(_names(p) for p in f.texts()))
    found: list[Phrase] = []
    lead = ""
    i = 0
    while i < len(m):
        low = m.words[i].low
        if i in whole:
            found.append(Phrase(i, whole[i].last, lead, whole[i].value))
            i, lead = whole[i].last, ""
        elif m.taken[i]:
            i, lead = i + 1, ""
        elif lead == "verb" and low in SETS["particles"]:
            i += 1  # put *on*
        elif low == "with" and found and found[-1].last == i and _with_more(f, i):
            last = i + 2
            while last < len(m) and _goes_on(f, last):
                last += 1
            found[-1] = found[-1]._replace(last=last)  # pasta *with pesto*
            i = last
        elif not low[0].isalnum() or _functional(m, i) or _measures(m, i) or _versus(f, i):
            i, lead = i + 1, lead if low in SETS["determiners"] else low
        elif i + 1 in whole and low in SETS["written"]:
            i, lead = i + 1, ""  # with the *text* '...'
        elif _asks(f, i):
            i, lead = i + 1, "verb"
        else:
            last = i + 1
            while last < len(m) and last not in whole and _goes_on(f, last):
                if stem(m.words[last].low) in labels and _goes_on(f, last + 1) and not _own(f, last + 1):
                    break  # auth-api *version 2*
                last += 1
            found.append(Phrase(i, last, lead))
            i, lead = last, ""
    return found


def _listed(f: Filling, found: list[Phrase], wanted: list[Parameter]) -> list[Phrase]:
    """The phrases. If a list is wanted, phrases that commas and *and* join are one."""
    m = f.message
    needed = [p for p in wanted if not p.optional]
    lists = any(p.type == "array" for p in wanted)
    each = not lists and sum(named(p, SETS["one at a time"] | SETS["machines"]) or _plural(m, p) for p in needed) == 1
    if not lists and ((len(needed) != 1 and not each) or f.filled.several):
        return found
    pairs = lists and len(needed) == 1 and not SETS["pairs"].isdisjoint(f.tool.name_words | f.tool.described)
    joined: list[Phrase] = []
    for c in found:
        before = joined[-1] if joined else None
        between = {w.low for w in m.words[before.last : c.first]} if before else set()
        if pairs and m.has(c.first - 1, _WITH):  # does aspirin *interact with* zinc
            between = {","}
        free = before is not None and not any(m.taken[before.last : c.first])
        large = before is not None and f.cased and m.large(before.first) and m.large(c.first)
        each_its = before is not None and all(m.has(s.first - 1, SETS["determiners"]) for s in (before, c))
        named_so = c.last - c.first > 1 and any(
            m.has(c.first, own_parts(q)) for q in wanted
        )  # *host* shop, *zone* b.org
        if (
            before
            and free
            and not named_so
            and (lists or large or each or each_its)
            and not between.isdisjoint(SETS["joins"])
            and between <= SETS["joins"] | SETS["determiners"]
        ):
            joined[-1] = before._replace(last=c.last, several=True)
        else:
            joined.append(c)
    return joined


def _plural(m: Message, p: Parameter) -> bool:
    """Whether a message names a parameter in the plural: *the tables* users and invoices."""
    return any(f"{w}s" in m.at for w in own_parts(p))


def _goes_on(f: Filling, i: int) -> bool:
    m = f.message
    if i == len(m) or m.taken[i]:
        return False
    if (m.has(i - 1, SETS["titles"]) and m.has(i, ".")) or (m.has(i - 2, SETS["titles"]) and m.has(i - 1, ".")):
        return i + 1 < len(m)  # dr. *lindqvist*
    if m.large(i - 1) and m.large(i + 1) and m.words[i].low in SETS["within a name"] | {".", "'", "&"}:
        return not m.taken[i + 1]
    if (m.words[i].low in ("a", "an") and not m.large(i)) or _versus(f, i):
        return False
    return m.words[i].low[0].isalnum() and not _functional(m, i) and not _asks(f, i)


def _with_more(f: Filling, i: int) -> bool:
    """Whether *with* goes on with the only short text of a tool: *oatmeal with blueberries*."""
    m = f.message
    wanted = [p for p in f.texts() if not (p.kinds[:1] and p.kinds[0] in FORMED | {"place"})]
    if i < 2 or _own(f, i - 1) or not _goes_on(f, i + 1):
        return False  # filter *rows* with amount > 3
    if len(wanted) != 1 or wanted[0].type == "array" or wanted[0].optional:
        return False
    own = {w for p in f.tool.parameters for part in own_parts(p) for w in (part, stem(part))}
    person = not {*own_parts(wanted[0])}.isdisjoint(SETS["humans"] | SETS["somebody"] | SETS["machines"])
    word = m.words[i + 1].low
    return not (person or m.large(i + 1) or not word.isalpha() or stem(word) in own or word in NUMBERS)


def _versus(f: Filling, i: int) -> bool:
    """Whether a word stands between the values of two parameters: height *vs* weight."""
    return f.message.has(i, ("vs", "versus", "against")) and sum(not p.optional for p in f.texts()) > 1


def _functional(m: Message, i: int) -> bool:
    """Whether a word only joins others."""
    low = m.words[i].low
    if m.shouted(i):
        return low in SETS["spoken in capitals"]  # publish *ON*
    if tells_how(m, i):
        return True
    if i > 0 and m.large(i) and (m.large(i + 1) or m.large(i - 1)) and low != "i":
        return False  # *Under Pressure*
    return low in SETS["calls"] | RELATIVE | SETS["function"] or low in PREPOSITIONS or low in BEFORE_PLACE


def tells_how(m: Message, i: int) -> bool:
    """Whether a word ends a question by how something is: is room 204 *free* on Friday, how many are *left*."""
    if not m.has(i, SETS["how things are"]) or m.large(i):
        return False
    ends = i + 1 == len(m) or m.taken[i + 1] or not m.words[i + 1].low[0].isalnum() or m.has(i + 1, PREPOSITIONS)
    return ends and any(m.has(k, SETS["inverting"]) for k in range(i))


def _measures(m: Message, i: int) -> bool:
    """Whether a word is the unit of a number that is taken."""
    return i > 0 and m.taken[i - 1] and m.has(i, UNITS)


def _asks(f: Filling, i: int) -> bool:
    """Whether a word is a verb: the one that asks, or one that leads to a phrase: *starring*, *filed against*."""
    m = f.message
    low = m.words[i].low
    if m.has(i + 1, _WITH) and _joint(f, i) and any(m.has(k, SETS["inverting"]) for k in range(i)):
        return True  # does aspirin *interact* with zinc
    if does(m, i) and not (m.large(i - 1) and any(low in own_parts(p) for p in f.tool.parameters)):
        return True  # but not the *Leipzig store*
    if i > 0 and m.large(i) and (m.large(i + 1) or m.large(i - 1)) and m.words[i - 1].low[0].isalnum():
        return False  # Africa and *Take On Me*
    opens = i == 0 or not m.words[i - 1].low[0].isalnum() or m.has(i - 1, SETS["before a verb"])
    opens = opens or (m.taken[i - 1] and m.words[0].low in PREPOSITIONS)  # in app.ini *replace* a
    opens = opens or (all(m.taken[:i]) and low in f.tool.asking | f.tool.described)  # left *join* orders
    if opens and i + 1 < len(m):
        known = low in STARTERS or low in SETS["verbs"] or low in SETS["imperatives"] or low in f.tool.asking
        return known or m.has(i + 1, SETS["behind a verb"])
    if i > 0 and stem(m.words[i - 1].low) == "go":
        return False  # went *running*
    leads = m.has(i + 1, SETS["determiners"]) or m.large(i + 1) or m.has(i + 1, PREPOSITIONS)
    return leads and not m.large(i) and len(low) > 4 and low.endswith(("ing", "ed"))


def does(m: Message, i: int) -> bool:
    """Whether a verb is what somebody did or does: *she ate*, *did Arsenal win*, *what does an egg contain*."""
    low = m.words[i].low
    if m.has(i - 1, SETS["determiners"]) or m.has(i - 1, PREPOSITIONS):
        return False
    if low in IRREGULAR and (i == 0 or not m.large(i)):
        return True
    verb = low in SETS["imperatives"] or low in SETS["plain verbs"] or low.endswith("ing")
    named_so = m.large(i - 1) or (i > 0 and not m.words[i - 1].low.isalpha() and m.words[i - 1].low[0].isalnum())
    last = i == len(m) - 1 or m.words[i + 1].low in _ENDS or m.has(i + 1, PREPOSITIONS) or m.has(i + 1, SETS["joins"])
    asked = (
        verb and last and not {"do", "does", "did"}.isdisjoint(w.low for w in m.words[1 : i - 1])
    )  # what does my horoscope *say*
    if not (verb and (named_so or asked)) or m.large(i):
        return False
    begin = next((k for k in range(i - 1, -1, -1) if m.words[k].low in _ENDS), -1) + 1
    return begin + 1 < i and any(m.has(k, SETS["inverting"]) for k in range(begin, i))


# -- evidence ----------------------------------------------------------------------------------------------------------


def _fit(f: Filling, p: Parameter, c: Phrase) -> tuple[float, Span]:
    """The evidence for a pair, and the words of the phrase that are the value."""
    m = f.message
    names = _names(p)
    first, last = c.first, c.last
    whole = c.quoted or c.several
    total = _ANY
    if not c.quoted and 0 < (named_so := _begins(m, p, first)) < last - first:
        total, first = total + _LABEL, first + named_so  # *tenant Maria*
    elif (
        not whole
        and last - first > 1
        and c.lead != "as"
        and (_is(m, last - 1, names) or (_is_short(p) and _is(m, last - 1, _kin(p))))
    ):
        thing = keeps(p, m.words[last - 1].low)
        total, last = (
            total + _LABEL,
            last - (not m.large(last - 1) and not thing),
        )  # *the customers table*, *Elm Street*
    elif (label := _called(m, p, first)) is not None:
        total += (
            _LABEL if _is(m, label, names) or len(own_parts(p)) == first - label else _LABEL / 2 + 1 / len(own_parts(p))
        )
    if c.lead in BEFORE_PLACE and m.large(c.first) and _only_region(f, p):
        total += BEFORE_PLACE[c.lead]
    total += _by_lead(p, c, large=m.large(c.first)) + _LABEL * _named_behind(m, p, c.last)
    if c.quoted:
        return total + _QUOTED + _ANY * named(p, SETS["written"]), Span(c.first, c.last, c.quoted)
    if not _is_short(p):
        return _long(f, p, c, total)
    if c.several and p.type != "array" and p.optional:
        return 0.0, m.span(first, last)
    if c.several:
        last = f.message.trimmed(first + 1, last, SETS["leads on"])
        if m.has(last - 1, own_parts(p)) and p.type == "array":
            total, last = total + _LABEL, last - 1  # the platform and data *teams*
        asked = any(m.has(k, SETS["inverting"]) for k in range(first))
        while last - first > 1 and not keeps(p, m.words[last - 1].low):
            if not (_own(f, last - 1) or (asked and _joint(f, last - 1))):
                break
            last -= 1
    elif not c.quoted:
        before = last
        first, last = without_own(f, p, first, last)
        if last < before and last - first > 1 and total < _LABEL and _is(m, last - 1, names):
            total += _LABEL  # the *living room* thermostat
    total = _by_words(f, p, c, m.span(first, last), total)
    formless = p.kinds[:1] and p.kinds[0] in FORMED and total < _LABEL
    if formless and c.lead == "verb" and named(p, SETS["called"]) and not _mailed(f, p) and m.large(first):
        formless = False  # pay *Nadia*
    if formless and p.kinds[:1] == ("path",) and c.lead in SETS["within"] and _places(m, c.first, last):
        formless = False  # in *src*, in the *checkpoints* folder
    if formless or (last - first > _MOST_WORDS and not whole) or _no_value(f, first, last, clear=total > _PREPOSITION):
        return 0.0, m.span(first, last)
    return total + _LISTED * (p.type == "array" and bool(c.several)), m.span(first, last)


def _by_words(f: Filling, p: Parameter, c: Phrase, s: Span, total: float) -> float:
    """The evidence for a pair, with that from the words of the value and those around its phrase."""
    m = f.message
    first, last = s.first, s.last
    if _is(m, last - 1, _described(p)):
        total += _DESCRIBED
    human = named(p, SETS["humans"]) or "full name" in p.description.lower()
    if human and last - first > 1 and m.has(first, SETS["titles"]):
        total += _DESCRIBED  # *dr lindqvist*
    if ((p.kinds[:1] and p.kinds[0] in _PEOPLE) or human or named(p, SETS["regions"])) and f.cased:
        total += _NAME if m.large(first) and (first > 0 or m.large(first + 1)) else -_NAME
    elif named(p, SETS["machines"]):
        total += _NAME * any(_coded(m.words[i].low) for i in range(first, last))
    elif (m.large(first) and first > 0) or _coded(m.words[first].low):
        total += _LARGE
    if not m.large(first) and all(stem(w.low) in f.tool.described for w in m.words[first:last]):
        total -= _DIRECT  # how do I *care* for a fern
    if p.kinds[:1] == ("sort",) and _is_ware(f, first, last):
        total += _MARKED
    if c.lead == "verb" and m.has(c.first - 1, ("a", "an")) and m.has(c.last, SETS["made for"]) and named(p, ("name",)):
        total -= _DIRECT + _ANY  # create an *account* for Priya
    if c.lead in SETS["inverting"] and c.first > 1:
        total += _ANY  # how much protein does *tofu* have
    if c.lead in SETS["asking how"] and not m.large(first):
        total -= _ANY / 2  # how *busy*
    if c.lead == "of" and c.first > 1 and m.taken[c.first - 2]:
        total += _ANY  # 200 grams *of rice*
    if m.has(c.last, ("of",)) and not m.taken[c.last]:
        total -= _ANY / 2  # the usage *of checkout*
    return total


def _joint(f: Filling, i: int) -> bool:
    """Whether a word says what the members of a list do together: do aspirin and zinc *interact*."""
    m = f.message
    about = f.tool.described | f.tool.nouns
    return not m.large(i) and (stem(m.words[i].low) in about or any(derived(m.words[i].low, w) for w in about))


def _is_ware(f: Filling, first: int, last: int) -> bool:
    """Whether words are the wares that are asked for, of a tool of a shop that has no text to search for: *which shoes
    under 60 are in stock*."""
    m = f.message
    shop = "shop" in (*f.tool.concepts[0], *f.tool.concepts[1])
    open_ = any(q.kinds[:1] in (("query",), ("subject",)) for q in f.tool.parameters)
    general = f.tool.asking | SETS["articles sold"]
    said = any(m.words[i].low in general or stem(m.words[i].low) in general or _own(f, i) for i in range(first, last))
    return shop and not open_ and not said and m.words[last - 1].low.endswith("s") and not m.large(last - 1)


def _places(m: Message, first: int, last: int) -> bool:
    """Whether words may name a folder: one word, or with a noun such as *folder*."""
    return last - first == 1 or (last - first == 2 and m.has(last - 1, KINDS["directory"]))


def _named_behind(m: Message, p: Parameter, i: int) -> bool:
    """Whether *as* and a parameter's name follow a value: submit 42 *as the final answer*, month *on the x axis*."""
    k = i + 1 + m.has(i + 1, SETS["determiners"])
    if m.has(i, ("as", "on", "along")) and len(p.name) == 1 and m.has(k, (p.name, f"{p.name}-axis")):
        return not m.taken[k]
    near = range(i + 1, i + _NEAR) if m.has(i, ("as",)) and k > i + 1 else ()
    return any(_is(m, n, _names(p)) for n in near)


def _coded(word: str) -> bool:
    """Whether a word has the form of names of machines and the like: *web-03*, *auth_api*."""
    return identifies(word) or (word[0].isalpha() and "-" in word)


def _mailed(f: Filling, p: Parameter) -> bool:
    """Whether a parameter accepts only email addresses."""
    return "mail" in p.description.lower() or "mail" in f.tool.concepts[0] or named(p, ("email", "mail"))


def _long(f: Filling, p: Parameter, c: Phrase, total: float) -> tuple[float, Span]:
    """A text that may be long: after its name and a mark, or a few words after its own preposition."""
    m = f.message
    last = c.last
    first = c.first + _begins(m, p, c.first)
    if (c.lead in SETS["equals"] and _called(m, p, c.first) is not None) or c.first < first < last:
        while last < len(m) and not m.taken[last] and not m.has(last, SETS["marks"]):
            if m.large(last + 1) and _leads_away(f, p, last):
                break
            last += 1
        return total, m.span(first, last)
    ends = last == len(m) or m.taken[last] or not m.words[last].low[0].isalnum() or _functional(m, last)
    few = ends and not _leads_on(f, p, last) and (m.large(c.first) or last - c.first < 3) and c.lead in PREPOSITIONS
    return total if few and total > _PREPOSITION and not _no_value(f, c.first, last, clear=False) else 0.0, m.span(
        c.first, last
    )


def _leads_on(f: Filling, p: Parameter, i: int) -> bool:
    """Whether a preposition goes on with a text: plants *for low light*, unless it leads to another parameter."""
    m = f.message
    free = i + 1 < len(m) and not m.taken[i + 1]
    return free and m.words[i].low in PREPOSITIONS and not _leads_away(f, p, i)


def _leads_away(f: Filling, p: Parameter, i: int) -> bool:
    """Whether a preposition leads to another parameter: *Rumours* by *Fleetwood Mac*."""
    names = PREPOSITIONS.get(f.message.words[i].low, frozenset())
    return any(not names.isdisjoint(own_parts(q)) for q in f.texts() if q is not p)


def _begins(m: Message, p: Parameter, first: int) -> int:
    """The number of words of the parameter's name at the phrase's beginning: *tenant Maria*, *name Baker*."""
    own = own_parts(p)
    if (side := {"from", "to"} & {*own}) and not m.has(first - 1, side):
        return 0  # *branch* fix/login is no from_branch
    if [w.low for w in m.words[first : first + len(own)]] == own and (m.large(first + len(own)) or len(own) > 1):
        return len(own)
    if len(p.name) == 1 and (
        m.has(first, (f"{p.name}-axis",)) or [w.low for w in m.words[first:][:2]] == [*own, "axis"]
    ):
        return 1 + m.has(first, own)
    return int(not m.large(first) and _is(m, first, _names(p)))


def _only_region(f: Filling, p: Parameter) -> bool:
    """Whether a parameter is a state or country, and the tool has no place beside it: *laws about noise in Texas*."""
    return named(p, SETS["regions"]) and not any(q.kinds[:1] == ("place",) for q in f.tool.parameters)


def _by_lead(p: Parameter, c: Phrase, *, large: bool) -> float:
    """The evidence for a parameter from the word before a phrase, which may be capitalized."""
    side = role(p)
    if c.lead and side == c.lead:
        return _SIDE
    if c.lead and not PREPOSITIONS.get(c.lead, frozenset()).isdisjoint(_all_names(p)):
        return 0.0 if large and p.optional and named(p, ("reason",)) else _PREPOSITION  # book a visit for *Rex*
    if c.lead in SETS["calls"] and p.kinds[:1] == ("subject",):
        return _LABEL
    if c.lead == "with" and p.kinds[:1] == ("people",):
        return _PREPOSITION
    if c.lead in ("for", "to") and large and named(p, SETS["humans"]):
        return _PREPOSITION
    if c.lead in BEFORE_PLACE and p.kinds[:1] == ("place",) and not (p.optional and c.lead in SETS["inverting"]):
        return BEFORE_PLACE[c.lead]
    if c.lead == "verb":
        return _DIRECT * (not p.optional)
    if c.lead == "of":
        return 0.0
    return -_ANY / 2 if c.lead in PREPOSITIONS or (side and c.lead in ("from", "to")) else 0.0


def _called(m: Message, p: Parameter, first: int) -> int | None:
    """The position of a word that names the parameter of the words after it, with only words such as *is*, *the* or
    *it to* between."""
    own = own_parts(p)
    i = first - len(own)
    if i >= 0 and [w.low for w in m.words[i:first]] == own and not any(m.taken[i:first]):
        return i  # *directed by* Edgar Wright
    if len(own) > 1 and own[-1] in PREPOSITIONS:
        return None  # *publish* is no publish_at
    i = first - 1
    while i > 0 and first - i < _NEAR and m.has(i, SETS["between a label"]) and not m.taken[i]:
        i -= 1
    if i < 0 or m.taken[i]:
        return None
    low = m.words[i].low
    if (side := {"from", "to"} & {*own}) and not m.has(i - 1, side):
        return None  # *a branch called* x is no from_branch
    asks = low in SETS["imperatives"] and i == first - 1  # *assign* PAY-318 names no assignee, but *assign it to* does
    if asks and p.type == "array" and any(k > first for w in ("with", "as") for k in m.at.get(w, ())):
        return None  # *tag* a-page with news
    said = stem(low) in _names(p) or low in own or (not asks and any(derived(low, w) for w in own))
    return i if said else None


def without_own(f: Filling, p: Parameter, first: int, last: int) -> tuple[int, int]:
    """A phrase without the tool's own words: *the chicken curry timer*, *customer John Wick*, *Helen free*."""
    m = f.message
    while last - first > 1 and _own(f, first):
        first += 1
    cut = (i for i in range(first + 1, last) if _own(f, i) and not keeps(p, m.words[i].low))
    last = next(cut, last)
    if (
        m.large(first)
        and not m.words[first].text.isupper()
        and (named(p, SETS["somebody"] | SETS["humans"] | SETS["regions"]) or (p.kinds[:1] and p.kinds[0] in _PEOPLE))
    ):
        last = next((i for i in range(first, last) if not m.large(i) and m.words[i].low[0].isalpha()), last)
    return first, last


def _own(f: Filling, i: int) -> bool:
    m = f.message
    if ACRONYM.fullmatch(m.words[i].text):
        return m.words[i].low.removesuffix("s") in initials(f.tool.name)  # open *PRs*
    return stem(m.words[i].low) in f.tool.nouns and not m.large(i)


def _no_value(f: Filling, first: int, last: int, *, clear: bool) -> bool:
    """Whether words are no value, because they name a parameter or, if nothing else is clear, ask for the tool."""
    m = f.message
    own = {stem(w) for q in f.tool.parameters for w in own_parts(q)} | f.tool.name_words
    own |= {w for q in f.tool.parameters if len(q.name) == 1 for w in (f"{q.name}-axis", "axis")}
    idle = SETS["function"] | SETS["anyone"] | (frozenset() if clear else f.tool.asking)
    low = [w.low for w in m.words[first:last]]
    if last - first == 1 and m.large(first) and _own(f, first):
        return True
    return all(stem(w) in own or w in idle for w in low) and not m.large(first)


def _is(m: Message, i: int, names: frozenset[str]) -> bool:
    return 0 <= i < len(m) and not m.taken[i] and stem(m.words[i].low) in names


@lru_cache(maxsize=256)
def _names(p: Parameter) -> frozenset[str]:
    """Stems of a parameter's name, and of what its description says that it is: *branch or tag*."""
    own = [w for w in own_parts(p) if stem(w) not in GENERIC and len(w) > 2]
    said = _EITHER.fullmatch(p.description.lower())
    own += [w for w in re.split(r",? or |, ", said[0]) if w not in GENERIC | STOP] if said else []
    return frozenset(map(stem, own))


@lru_cache(maxsize=256)
def _kin(p: Parameter) -> frozenset[str]:
    """Other names for a parameter: *repo*."""
    return frozenset().union(*(kin(w) for w in own_parts(p)))


@lru_cache(maxsize=256)
def _all_names(p: Parameter) -> frozenset[str]:
    """The words of a parameter's name, including its object's, and their stems."""
    return frozenset(w for part in parts_of(p.name) for w in (part, stem(part)))


@lru_cache(maxsize=256)
def _described(p: Parameter) -> frozenset[str]:
    return frozenset(stem(w) for w in p.description.lower().replace(",", " ").split() if w not in STOP) - GENERIC
