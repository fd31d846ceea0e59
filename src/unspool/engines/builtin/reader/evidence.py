"""Short texts: assigns phrases to parameters, all at once.

`division.py` divides a message into phrases. For each parameter and each phrase, the evidence for the pair is added up:
the parameter's name next to or within the phrase, the preposition before it, words of the description, quotes,
capitals, the position. The assignment with the best total wins.
"""

from functools import lru_cache
from typing import Final

from .assign import MOST, assign
from .division import FORMED, WITH, Phrase, functional, joined_lists, joint, label_stems, of_tool, phrases
from .filling import Filling, keeps, named, own_parts, role
from .message import Message, Span, identifies, items
from .prompt import Parameter
from .words import (
    BEFORE_PLACE,
    GENERIC,
    KINDS,
    PREPOSITIONS,
    SETS,
    STOP,
    derived,
    kin,
    parts_of,
    stem,
)

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
_PEOPLE: Final = frozenset(("people", "author", "place", "zone", "email"))


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
    found = joined_lists(f, phrases(f), wanted)[:MOST]
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
    if c.last > s.last and _is(m, s.last, label_stems(p)):
        m.taken[s.last] = True


def _members(f: Filling, s: Span) -> list[Span]:
    """The members of a list, of which *with* may join two: *compare* a *with* b."""
    m = f.message
    at = next((i for i in range(s.first + 1, s.last - 1) if m.has(i, WITH)), None)
    if at is None:
        return items(m, s.first, s.last)
    end = at - (at - s.first > 1 and joint(f, at - 1))
    return [*items(m, s.first, end), *items(m, at + 1, s.last)]


def _leading(m: Message, p: Parameter, first: int) -> int:
    """The beginning of the words that lead to a value, such as its parameter's name or a preposition."""
    i = _called(m, p, first)
    i = first if i is None else i
    while i > 0 and not m.taken[i - 1] and m.has(i - 1, SETS["determiners"]):
        i -= 1
    return i - (i > 0 and not m.taken[i - 1] and m.has(i - 1, PREPOSITIONS))


def _fit(f: Filling, p: Parameter, c: Phrase) -> tuple[float, Span]:
    """The evidence for a pair, and the words of the phrase that are the value."""
    m = f.message
    names = label_stems(p)
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
    total += _by_lead(f, p, c) + _LABEL * _named_behind(m, p, c.last)
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
            if not (of_tool(f, last - 1) or (asked and joint(f, last - 1))):
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


def _is_ware(f: Filling, first: int, last: int) -> bool:
    """Whether words are the wares that are asked for, of a tool of a shop that has no text to search for: *which shoes
    under 60 are in stock*."""
    m = f.message
    shop = "shop" in (*f.tool.concepts[0], *f.tool.concepts[1])
    open_ = any(q.kinds[:1] in (("query",), ("subject",)) for q in f.tool.parameters)
    general = f.tool.asking | SETS["articles sold"]
    said = any(
        m.words[i].low in general or stem(m.words[i].low) in general or of_tool(f, i) for i in range(first, last)
    )
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
    return any(_is(m, n, label_stems(p)) for n in near)


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
    ends = last == len(m) or m.taken[last] or not m.words[last].low[0].isalnum() or functional(m, last)
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
    return int(not m.large(first) and _is(m, first, label_stems(p)))


def _only_region(f: Filling, p: Parameter) -> bool:
    """Whether a parameter is a state or country, and the tool has no place beside it: *laws about noise in Texas*."""
    return named(p, SETS["regions"]) and not any(q.kinds[:1] == ("place",) for q in f.tool.parameters)


def _by_lead(f: Filling, p: Parameter, c: Phrase) -> float:
    """The evidence for a parameter from the word before a phrase."""
    large = f.message.large(c.first)
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
    placed = p.kinds[:1] == ("place",) or (large and _only_region(f, p))
    if c.lead in BEFORE_PLACE and placed and not (p.optional and c.lead in SETS["inverting"]):
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
    said = stem(low) in label_stems(p) or low in own or (not asks and any(derived(low, w) for w in own))
    return i if said else None


def without_own(f: Filling, p: Parameter, first: int, last: int) -> tuple[int, int]:
    """A phrase without the tool's own words: *the chicken curry timer*, *customer John Wick*, *Helen free*."""
    m = f.message
    while last - first > 1 and of_tool(f, first):
        first += 1
    cut = (i for i in range(first + 1, last) if of_tool(f, i) and not keeps(p, m.words[i].low))
    last = next(cut, last)
    if (
        m.large(first)
        and not m.words[first].text.isupper()
        and (named(p, SETS["somebody"] | SETS["humans"] | SETS["regions"]) or (p.kinds[:1] and p.kinds[0] in _PEOPLE))
    ):
        last = next((i for i in range(first, last) if not m.large(i) and m.words[i].low[0].isalpha()), last)
    return first, last


def _no_value(f: Filling, first: int, last: int, *, clear: bool) -> bool:
    """Whether words are no value, because they name a parameter or, if nothing else is clear, ask for the tool."""
    m = f.message
    own = {stem(w) for q in f.tool.parameters for w in own_parts(q)} | f.tool.name_words
    own |= {w for q in f.tool.parameters if len(q.name) == 1 for w in (f"{q.name}-axis", "axis")}
    idle = SETS["function"] | SETS["anyone"] | (frozenset() if clear else f.tool.asking)
    low = [w.low for w in m.words[first:last]]
    if last - first == 1 and m.large(first) and of_tool(f, first):
        return True
    return all(stem(w) in own or w in idle for w in low) and not m.large(first)


def _is(m: Message, i: int, names: frozenset[str]) -> bool:
    return 0 <= i < len(m) and not m.taken[i] and stem(m.words[i].low) in names


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
