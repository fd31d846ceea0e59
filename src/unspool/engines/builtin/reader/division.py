"""Divides a message into phrases at function words, verbs, marks and values that are taken."""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from .filling import Filling, named, own_parts
from .message import ACRONYM, Message
from .prompt import Parameter
from .spans import quotes
from .words import (
    BEFORE_PLACE,
    GENERIC,
    IRREGULAR,
    NUMBERS,
    PREPOSITIONS,
    RELATIVE,
    SETS,
    STARTERS,
    STOP,
    UNITS,
    derived,
    initials,
    stem,
)

_EITHER: Final = re.compile(r"[a-z]{3,}(?:, [a-z]{3,})*,? or [a-z]{3,}")
"""A description that says which things a text may name."""
FORMED: Final = frozenset(
    ("month", "version", "date", "time", "email", "url", "unit", "currency", "expression", "phone", "path", "zone")
)
"""Kinds with a fixed form, which no other words can have."""
WITH: Final = ("with", "against")
_ENDS: Final = frozenset((".", "?", "!", ";"))


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


def phrases(f: Filling) -> list[Phrase]:
    """The phrases of a message, in order."""
    m = f.message
    whole = {s.first: s for s in quotes(m) if m.free(s)}
    labels = frozenset().union(*(label_stems(p) for p in f.texts()))
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
        elif not low[0].isalnum() or functional(m, i) or _measures(m, i) or _versus(f, i):
            i, lead = i + 1, lead if low in SETS["determiners"] else low
        elif i + 1 in whole and low in SETS["written"]:
            i, lead = i + 1, ""  # with the *text* '...'
        elif _asks(f, i):
            i, lead = i + 1, "verb"
        else:
            last = i + 1
            while last < len(m) and last not in whole and _goes_on(f, last):
                if stem(m.words[last].low) in labels and _goes_on(f, last + 1) and not of_tool(f, last + 1):
                    break  # auth-api *version 2*
                last += 1
            found.append(Phrase(i, last, lead))
            i, lead = last, ""
    return found


def joined_lists(f: Filling, found: list[Phrase], wanted: list[Parameter]) -> list[Phrase]:
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
        if pairs and m.has(c.first - 1, WITH):  # does aspirin *interact with* zinc
            between = {","}
        free = before is not None and not any(m.taken[before.last : c.first])
        large = before is not None and f.cased and m.large(before.first) and m.large(c.first)
        each_its = before is not None and m.has(before.first - 1, ("compare",))
        each_its = each_its or (
            before is not None and all(m.has(s.first - 1, SETS["determiners"]) for s in (before, c))
        )
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
    return m.words[i].low[0].isalnum() and not functional(m, i) and not _asks(f, i)


def _with_more(f: Filling, i: int) -> bool:
    """Whether *with* goes on with the only short text of a tool: *oatmeal with blueberries*."""
    m = f.message
    wanted = [p for p in f.texts() if not (p.kinds[:1] and p.kinds[0] in FORMED | {"place"})]
    if i < 2 or of_tool(f, i - 1) or not _goes_on(f, i + 1):
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


def functional(m: Message, i: int) -> bool:
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
    if m.has(i + 1, WITH) and joint(f, i) and any(m.has(k, SETS["inverting"]) for k in range(i)):
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


def joint(f: Filling, i: int) -> bool:
    """Whether a word says what the members of a list do together: do aspirin and zinc *interact*."""
    m = f.message
    about = f.tool.described | f.tool.nouns
    return not m.large(i) and (stem(m.words[i].low) in about or any(derived(m.words[i].low, w) for w in about))


def of_tool(f: Filling, i: int) -> bool:
    """Whether a word is a noun for what the tool is about, or its initials."""
    m = f.message
    if ACRONYM.fullmatch(m.words[i].text):
        return m.words[i].low.removesuffix("s") in initials(f.tool.name)  # open *PRs*
    return stem(m.words[i].low) in f.tool.nouns and not m.large(i)


@lru_cache(maxsize=256)
def label_stems(p: Parameter) -> frozenset[str]:
    """Stems of a parameter's name, and of what its description says that it is: *branch or tag*."""
    own = [w for w in own_parts(p) if stem(w) not in GENERIC and len(w) > 2]
    said = _EITHER.fullmatch(p.description.lower())
    own += [w for w in re.split(r",? or |, ", said[0]) if w not in GENERIC | STOP] if said else []
    return frozenset(map(stem, own))
