"""Finds the tool that a message asks for."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from .addresses import address, takes_address
from .amounts import CLEAR, NEXT, is_money, numbers_evidence, unit_named, unit_of
from .choices import aliases, canonical, turned
from .examples import alike
from .fill import fill, lacks
from .filling import Filling, named, role
from .message import ACRONYM, Message, Span, identifies
from .places import bare
from .prompt import NUMERIC, Parameter, Tool
from .spans import (
    codes,
    currencies,
    dates,
    emails,
    expressions,
    hosts,
    languages,
    numbers,
    paths,
    patterns,
    phones,
    points,
    quotes,
    symbols,
    units,
    urls,
)
from .words import (
    ASKING,
    CONCEPTS,
    DEEDS,
    GENERIC,
    NEAR,
    PREPOSITIONS,
    QUESTION,
    SETS,
    SIGNS,
    SQL,
    STARTERS,
    STOP,
    TOWNS,
    UNITS,
    WANTED,
    WRITE,
    derived,
    first_word,
    has,
    initials,
    kin,
    parts_of,
    plain,
    stem,
    without_lead,
)

ENOUGH: Final = 2.0
"""The least score of a tool that is meant."""
_LEAST: Final = 0.6
_NUMBERED: Final = re.compile(r"[A-Z]{2,}[ -]?\d|[a-z]_\d")
"""A code with a number: *PR 12*, *user_7*."""
_SHORTENED: Final = 4
"""The least letters of a shortened word."""
_TITLE: Final = 6
"""The least words of a message that is no mere title, such as *latest iphone price*."""
_LITTLE: Final = 0.3
"""For words that only distinguish similar tools."""
_DEED: Final = 0.6
"""For a tool that performs the action of the message's verb; the same amount against other actions."""
_BETWEEN: Final = 8
_VALUE: Final = 0.1
_UNREAD: Final = 0.5
"""Distinguishes tools with similar scores, by the values that are found and the words that nothing explains."""
_LACKING: Final = 1.5
"""The penalty for each missing argument, among tools with similar scores."""
_EXAMPLE: Final = 1.5
"""For a word in the form of a description's example."""
_CLEAR_NUMBER: Final = 0.8
"""For a number that clearly belongs to a parameter."""
_VERB: Final = 1.3
"""For a tool whose name begins with the message's verb."""
_KIN: Final = 2.2
"""For a synonym of a word of a tool's name; ``_ALSO`` is for synonyms of words of its description."""
_ALSO: Final = 0.5
_HINT: Final = 1.6
"""For a word that hints at a word of a tool's name."""
_LISTED: Final = 1.5
"""For a tool that needs a list, if the message has one."""
_LIST: Final = re.compile(r" , (?:\w+ ){1,3}(?:, )?(?:and|or) \w")
_SETTING: Final = [["set"], ["turn"], ["switch"], ["toggle"], ["control"]]
"""The beginnings of the names of tools that set a state."""
_NEAR: Final = 1.5
"""How far a tool's score may lie below that of another tool for which the message lacks arguments."""


_REMINDS: Final = re.compile(r"(?i)\bremind (?:me|us|him|her|them)(?: again)? (?:to|that|about)\b")
"""The words before what a reminder says, which asks for nothing itself."""


_ABOUT: Final = re.compile(
    r"(?i)\W*(?:(?:(?:what (?:can|do) you|can you|could you|please) )?(?:tell me|know)"
    r"|i(?: want|'d like| would like) to know|(?:give|get|show) me (?:info|information|details|facts|stats))"
    r"(?: (?:some|more|something|everything|all|a bit))* (?:about|on|of)\b|\W*compare\b"
)
"""The beginning of a request to tell about something, or to compare things."""


_LEADS: Final = re.compile(
    r"(?i)\W*(?:(?:can|could) you |please )*(?:how(?:'s| is| are)|check|what about|how about|and in)\s+"
    r"(.+?)(?: (?:today|now|right now))?\W*"
)
"""Words around a place that ask for whatever there is about it: *how's* Paris *today*?"""


_SOUGHT: Final = re.compile(
    r"(?i)\b(?:find|search(?: for)?|look(?:ing)? (?:for|up)|get|show) (?:[\w'-]+ ){0,4}?([\w-]+) (?:about|on|by|with)\b"
)
"""A request to find something about a topic."""


def _sought(tools: tuple[Tool, ...], text: str) -> str:
    """The stem of what a message wants to find, if it describes a tool that does not search for everything."""
    found = _SOUGHT.search(text)
    word = stem(found[1].lower()) if found else ""
    return word if any(word in t.described and t.concepts[0] != ("search",) for t in tools) else ""


def _spoken(m: Message) -> Iterator[Span]:
    """Languages that a result should be in."""
    yield from (s for s in languages(m) if m.has(s.first - 1, SETS["turned into"] | {"in"}) and s.last + 2 > len(m))


_FORMS: Final[tuple[tuple[Callable[[Message], Iterator[Span]], int, tuple[str, ...], float], ...]] = (
    (urls, 1, ("url",), 3.0),
    (paths, 1, ("path", "directory"), 2.0),
    (hosts, 1, ("host",), 2.0),
    (emails, 1, ("email",), 1.5),
    (currencies, 2, ("currency",), 2.5),
    (symbols, 1, ("symbol",), 1.5),
    (units, 2, ("unit",), 2.5),
    (dates, 2, ("date",), 2.0),
    (patterns, 1, ("pattern",), 2.0),
    (phones, 1, ("phone",), 1.5),
    (_spoken, 1, ("language",), 2.5),
)
"""Forms of values that count for a tool with a parameter of these kinds: how many are needed, and their score."""


class _Asked(NamedTuple):
    """The concepts, words and values of a message.

    Attributes:
        coded: the words before codes and numbers.
        sought: the stem of what is to be found: *papers* about sleep.
        numbered: those that parameters of several tools have in their names, so that they tell no tool from another:
            the points of *customer* 310.
    """

    stems: frozenset[str]
    concepts: frozenset[str]
    expression: str
    forms: tuple[tuple[tuple[str, ...], float], ...]
    channel: bool
    units: frozenset[str | None]
    low: str
    switched: bool
    sql: bool
    file: bool
    address: bool
    wanted: frozenset[str]
    who: bool
    coded: frozenset[str]
    sought: str
    numbered: frozenset[str]
    code: bool
    numbers: bool
    money: bool
    point: bool
    to: bool
    sides: bool
    deed: str | None
    verb: str
    noun: str
    lists: bool
    acronyms: frozenset[str]


def asked_for(message: Message) -> frozenset[str]:
    """The concepts that a message's words ask for."""
    unsaid = SETS["asks of anyone"] if SETS["you"] & message.at.keys() else frozenset()
    if " tell me " in message.low:
        unsaid |= {"tell"}
    low = f"{message.low}{message.low.replace('-', ' ')}" if "-" in message.low else message.low
    known = (both for word in set(low.split()) for both in ASKING.get(word, ()))
    return frozenset(concept for phrase, concept in known if phrase not in unsaid and _says(low, phrase))


def _shortens(word: str, name: str) -> bool:
    """Whether a word is short for a word of a name: *temp*."""
    name = stem(name)  # *remind* is not short for *reminders*
    return len(word) >= _SHORTENED and name.startswith(word) and len(name) > len(word) + 2


def deed(m: Message) -> str | None:
    """The action of a message's verb: *open an issue* creates one, *open the file* reads it."""
    words = plain(without_lead(m.text)).split()[:3]
    if words[:2] == ["tell", "me"] or (words[:2] == ["give", "me"] and not SETS["sets out"].isdisjoint(words[2:])):
        return "read"
    if words[:2] == ["set", "up"]:
        return "create"
    if words[:1] == ["open"]:
        return "create" if words[1:] and words[1] in ("a", "an", "new") else None
    return DEEDS.get(words[0]) if words else None


def _parts(word: str) -> list[str]:
    """A word, and the parts that marks join: *weather-wise*, *sensor.kitchen_temp*."""
    return [word, *parts] if len(parts := re.findall(r"[a-z]+", word)) > 1 and "'" not in word else [word]


def _says(low: str, phrase: str) -> bool:
    return has(low, phrase) if len(phrase) > 3 and phrase != "time" else f" {phrase} " in low


def scores(tools: tuple[Tool, ...], message: Message) -> dict[str, float]:
    """The positive scores of tools, by name."""
    named_so = Counter(w for t in tools for w in {stem(w) for p in t.parameters for w in parts_of(p.name)})
    coded = frozenset(stem(a.low) for a, b in itertools.pairwise(message.words) if identifies(b.low))
    coded |= {stem(message.words[s.first - 1].low) for s in codes(message) if s.first}
    said = ((c, n) for t in tools for p in t.parameters for c in p.choices for n in parts_of(p.name))
    coded |= {stem(n) for c, n in said if named_so[stem(n)] > 1 and f" {str(c).lower()} {n} " in message.low}
    forms = [(kinds, weight) for spans, least, kinds, weight in _FORMS if len(list(spans(message))) >= least]
    if not any(numbers(message)):
        forms = [f for f in forms if f[0] != ("unit",)]
    reminds = _REMINDS.search(message.text) if any("reminder" in t.concepts[0] for t in tools) else None
    asking = Message(message.text[: reminds.end()]) if reminds else message
    asked = _Asked(
        frozenset(stem(part) for w in asking.words for part in _parts(w.low) if part not in STOP)
        | {a.low + b.low for a, b in itertools.pairwise(asking.words)},
        asked_for(asking),
        next((s.value for s in expressions(message)), ""),
        tuple(forms),
        "#" in message.at,
        frozenset(unit_of(message, s) for s in numbers(message)) - {None},
        asking.low,
        bool(SETS["turning"] & message.at.keys() and SETS["switched"] & message.at.keys()),
        SQL.search(message.text) is not None,
        any(s.value.lower().rpartition(".")[2] in SETS["extensions"] for s in paths(message)),
        address(message) is not None,
        frozenset(kind for word, kind in WANTED.items() if f" {word} " in message.low),
        message.has(0, ("who", "who's")) and message.large(2 - message.has(0, ("who's",))),
        coded,
        _sought(tools, message.text),
        frozenset(w for w in coded if named_so[w] > 1),
        any(_NUMBERED.search(s.value) for s in codes(message)),
        any(numbers(message)),
        any(is_money(message, s) or not SETS["costs"].isdisjoint(message.at) for s in numbers(message)),
        any(points(message)),
        any(message.large(i + 1) for i in message.at.get("to", ())),
        any(i < message.at["from"][0] + _BETWEEN for i in message.at.get("to", ()) if "from" in message.at),
        deed(message),
        first_word(message.text),
        next((stem(w.low) for w in message.words[1:2] if message.has(0, ("what", "which"))), ""),
        _LIST.search(message.low) is not None,
        frozenset(w.low.removesuffix("s") for w in message.words if ACRONYM.fullmatch(w.text)),
    )
    each = {t.name: _words(t, asked) + _values(t, asked, message) for t in tools}
    return {name: score for name, score in each.items() if score > _LEAST}


def _words(tool: Tool, asked: _Asked) -> float:
    """The score of a tool from the words of a message."""
    named, also = tool.concepts
    score = 3.0 * len(asked.concepts & {*named}) - ("search" in asked.concepts & {*named} and len(named) > 1)
    for concept in asked.concepts & {*also}:
        score += 2 if "search" not in named or concept == "search" else 0.5
    done = does(tool)
    own = asked.stems & (tool.name_words - GENERIC)
    phrase = " ".join(w for w in parts_of(tool.name) if w not in SETS["calling"])
    score += 3 * (" " in phrase and own.isdisjoint(phrase.split()) and has(asked.low, phrase))
    score += 3 * (own.isdisjoint(parts_of(tool.name)) and not asked.acronyms.isdisjoint(initials(tool.name)))
    others, names = asked.stems - own, tool.name_words - GENERIC
    score += 2 * any(_shortens(w, n) for w in others for n in names)
    longer = asked.stems & tool.described - own  # *hypotenuse*, for `math_hypot`
    score += 2 * any(_shortens(n, w) for w in longer for n in names - DEEDS.keys())
    score += _LITTLE * len(asked.stems & tool.name_words & GENERIC)
    score += _LITTLE * any(tool.name_words & SETS[kind] for kind in asked.wanted)
    score += 2 * (asked.who and not tool.name_words.isdisjoint(SETS["humans"]))
    score += 3.2 * len(own - asked.numbered) + 0.7 * len(asked.stems & tool.described - own)
    if asked.sought:
        score += _KIN * ((asked.sought in tool.described - own) - (named == ("search",)))
    if not own:
        rest = frozenset(tool.name_words - GENERIC - own)
        akin = _akin(asked.stems, rest)
        wonders = asked.deed == "read" and done not in ("read", None)
        said = asked.stems | {asked.verb}
        hinted = not wonders and any(not said.isdisjoint(NEAR.get(stem(w), ())) for w in rest)
        score += _KIN * akin or _HINT * hinted
        score += _ALSO * _akin(asked.stems, tool.described - own)
    sides = {"on", "off"} & {*parts_of(tool.name)}
    if asked.switched and len(sides) == 1:
        score += 3 if (" off " in asked.low) == ("off" in sides) else -3
    if not {*map(stem, parts_of(tool.name))} - GENERIC:
        score += 2.2 * len(asked.stems & tool.name_words & SETS["nouns"])
    score += (_VERB + 0.8 * (asked.verb in STOP)) * (parts_of(tool.name)[:1] == [asked.verb] != [""])
    score += asked.verb in ("what", "which") and parts_of(tool.name)[:1] == ["list"]
    score += 2 * _HINT * (asked.verb in SETS["verbs that name"] and asked.verb in parts_of(tool.name)[1:])
    inputs = {stem(w) for p in tool.parameters for w in parts_of(p.name)} | GENERIC
    score += done in ("read", None) and asked.noun in tool.described - inputs
    score += _LISTED * any(
        asked.lists and p.type == "array" and not (p.optional or p.choices or p.inner) for p in tool.parameters
    )
    score += _DEED * ((done == asked.deed) - (done != asked.deed)) if done and asked.deed else 0
    if only_sets(tool, asked.verb):
        score -= 2 * _NEAR
    unasked = SETS["acts"] & {*named} - asked.concepts
    score -= 2 * ("delete" in unasked) or _LITTLE * bool(unasked)
    return score


def only_sets(tool: Tool, verb: str) -> bool:
    """Whether a message with this verb asks for what a tool only sets: *is Ann online?*"""
    return verb in ("is", "are", "was", "were") and parts_of(tool.name)[:1] in _SETTING


def _akin(said: frozenset[str], words: frozenset[str]) -> bool:
    """Whether a word of the message is a synonym of one of these, or is derived from it."""
    stems = {stem(w) for w in words}
    return any(w in said or not said.isdisjoint(kin(w)) or any(derived(w, s) for s in said) for w in stems)


def _values(tool: Tool, asked: _Asked, message: Message) -> float:
    """The score of a tool from the values in a message."""
    score = 0.0
    for p in tool.parameters:
        score += 0.5 * len(asked.stems & ({stem(w) for w in parts_of(p.name)} - GENERIC))
        spoken = asked.stems & ({stem(w) for w in parts_of(p.name)} - GENERIC)
        score += 0.5 * (p.type == "boolean" and bool(spoken))
        said = [
            c
            for c in map(str, p.choices)
            if len(c) > 1
            and c.lower() not in STOP
            and (stem(c.lower()) in asked.stems or _spelled_out(message, c))
            and (c.lower() != asked.verb or c.lower() not in SETS["asking choices"])
        ]
        said += (
            [c for c in map(str, p.choices) if any(has(asked.low, alias) for alias in aliases(c))] if not said else []
        )
        score += 2 * bool(named(p, SETS["genre names"]) and asked.stems & SETS["genres"])
        score += (1 + (not p.optional)) * bool(said) + 1.5 * any(
            f" {c} {n} " in asked.low for c in said for n in (p.name, p.name.lower())
        )
        switch = {"on", "off"} <= {*p.choices} or (p.type == "boolean" and named(p, SETS["state"]))
        score += 2 * (switch and (asked.switched or asked.verb in SETS["switched"]))
        score += 2 * (p.type in NUMERIC and unit_named(p) in asked.units)
        score += _EXAMPLE * bool(p.type == "string" and alike(message, p))
        score += 1.2 * (asked.code and not p.optional and p.type == "string" and named(p, SETS["codes"]))
        score += 2 * (
            named(p, SETS["codes"] | SETS["machines"]) and not asked.coded.isdisjoint(map(stem, parts_of(p.name)))
        )
    if asked.numbers:
        sure = numbers_evidence(Filling(tool, message, cased=True))
        score += _CLEAR_NUMBER * (sum(e >= CLEAR for e in sure) + any(e >= NEXT for e in sure))
    measures = {canonical(c) for p in tool.parameters for c in p.choices if isinstance(c, str)} & {*UNITS.values()}
    if measures and asked.units:
        score += 2 if measures & asked.units else -2
    inside = {q.name.lower() for p in tool.parameters for q in (p, *p.inner)}
    score += 2.5 * (asked.point and not SETS["latitudes"].isdisjoint(inside))
    score += 1.2 * (asked.sides and {role(p) for p in tool.parameters} >= {"from", "to"})
    score += 0.6 * (asked.to and any("to" in parts_of(p.name) for p in tool.parameters))
    score += 1.5 * (asked.money and any(named(p, SETS["amounts"]) for p in tool.parameters))
    kinds = {kind for p in tool.parameters for kind in p.kinds[:2]}
    score += sum(weight for some, weight in asked.forms if kinds & {*some})
    score += 2.5 * (asked.channel and "channel" in kinds)
    score += 3 * (asked.address and takes_address(tool))
    score -= 2 * (asked.file and "directory" in tool.concepts[0])  # a file has no files: *show me README.md*
    score += 4 * (asked.sql and "sql" in (*tool.concepts[0], *tool.concepts[1]))
    if asked.expression:
        concepts = {*tool.concepts[0], *tool.concepts[1]}
        signs = any(sign in asked.expression and concept in tool.concepts[0] for concept, sign in SIGNS.items())
        calculates = "math" in concepts or any("expression" in p.kinds[:1] for p in tool.parameters)
        score += 4 if calculates else 3 * signs
    return score


def _spelled_out(message: Message, choice: str) -> bool:
    """Whether a message has the words of a choice that underscores join."""
    words = choice.lower().replace("_", " ")
    return "_" in choice and any(has(message.low, said) for said in (words, *turned(message, words)))


def best(tools: tuple[Tool, ...], message: Message) -> Tool | None:
    """The tool that a message asks for; among similar ones, the one for whose parameters it has values."""
    found = scores(tools, message)
    most = max(found.values(), default=0.0)
    if most < ENOUGH:
        simple = _simple(tools, message, found) or _searching(tools, message)
        return simple or _bare(tools, message) or _looking(tools, message) or _telling(tools, message)
    if (reached := _reached(tools, message, found)) is not None:
        return reached
    first = [t for t in tools if found.get(t.name, 0) == most]
    verb = first_word(message.text)
    near = [t for t in tools if found.get(t.name, 0) >= most - _NEAR]
    able = [t for t in tools if found.get(t.name, 0) >= ENOUGH and parts_of(t.name)[:1] == [verb] and t not in near]
    if len(near) == 1 and able and lacks(near[0], message.text):
        whole = next((t for t in able if not lacks(t, message.text)), None)
        return whole or near[0]  # *pay 60 dollars to ConEd* is no transfer between accounts
    if len(near) == 1:
        asks = (QUESTION.match(verb) or verb not in DEEDS) and does(near[0]) != "read"
        reads = asks and lacks(near[0], message.text)
        return (_reading(tools, message, found) if reads else None) or near[0]  # *how many* are left reserves none
    full: list[tuple[float, Tool]] = []
    complete = False
    for tool in near:
        f = fill(tool, m := Message(message.text))
        lacking = _LACKING * len(f.missing)
        asked = _VALUE * (parts_of(tool.name)[:1] == [verb])
        counts = [s for s in numbers(m) if m.free(s) and m.words[s.first].low not in tool.described]
        left = unread(tool, m) + len(counts)  # a number means more than other words
        acts = bool(QUESTION.match(verb)) and does(tool) != "read"  # *is the gate sensor ok?* opens no gate
        full.append((found[tool.name] + asked + _VALUE * len(f.values) - _UNREAD * (left + acts) - lacking, tool))
        complete = complete or not f.missing
    if not complete:
        return _reading(tools, message, found) or (first[0] if len(first) == 1 else None)
    return max(full, key=lambda both: both[0])[1]


def _reading(tools: tuple[Tool, ...], message: Message, found: dict[str, float]) -> Tool | None:
    """The tool that reads and needs no further argument, for a question like *any new emails?*, or for a mere name of
    what it reads: *temperature in the attic*."""
    asks = deed(message) == "read"
    orders = first_word(message.text) in SETS["imperatives"] | SETS["verbs"] | DEEDS.keys()
    if orders and not asks:
        return None
    spoken = [t for t in tools if found.get(t.name, 0) >= ENOUGH and does(t) == "read"]
    able = [t for t in spoken if not fill(t, m := Message(message.text)).missing and (asks or not unread(t, m))]
    return max(able, key=lambda t: found[t.name]) if able else None


def _reached(tools: tuple[Tool, ...], message: Message, found: dict[str, float]) -> Tool | None:
    """The only tool that reads by an email address, for a message of one and the words that ask: *look up* a@b.org."""
    spoken = [t for t in tools if found.get(t.name, 0) >= ENOUGH]
    if len(list(emails(message))) != 1 or any("mail" in t.concepts[0] for t in spoken):
        return None
    able = [t for t in spoken if does(t) == "read" and _needing((t,), "email")]
    if len(able) != 1 or fill(able[0], m := Message(message.text)).missing:
        return None
    return able[0] if said_out(able[0], m) else None


def does(tool: Tool) -> str | None:
    """The action of a tool, by its name."""
    return next((DEEDS[w] for w in parts_of(tool.name) if w in DEEDS), None)


def _simple(tools: tuple[Tool, ...], message: Message, found: dict[str, float]) -> Tool | None:
    """The only tool that the message mentions, if each word belongs to it or is a name: *is the server up?*"""
    spoken = [t for t in tools if t.name in found]
    if len(spoken) != 1:
        return None
    tool, m = spoken[0], Message(message.text)
    filled = fill(tool, m)
    quoted = {s.value for s in quotes(message)} | {c for p in tool.parameters for c in p.choices}
    given = [v for value in filled.values.values() for v in (value if isinstance(value, list) else [value])]
    names = all(v in quoted or v[:1].isupper() or v[:1].isdigit() for v in given if isinstance(v, str))
    return tool if not filled.missing and names and (said_out(tool, m) or not tool.parameters) else None


def said_out(tool: Tool, message: Message) -> bool:
    """Whether each word of a message asks for the tool or means nothing, so that none is left for a value."""
    return not unread(tool, message)


def unread(tool: Tool, message: Message) -> int:
    """The number of words that neither ask for the tool nor belong to a value."""
    return sum(not taken and not idle for taken, idle in zip(message.taken, _idle(tool, message), strict=True))


def _idle(tool: Tool, message: Message) -> list[bool]:
    """For each word, whether it asks for the tool or means nothing."""
    idle = (
        STOP
        | STARTERS
        | tool.asking
        | SETS["verbs"]
        | SETS["determiners"]
        | SETS["anyone"]
        | PREPOSITIONS.keys()
        | SETS["mere nouns"]
    )
    idle |= {w for p in tool.parameters for part in parts_of(p.name) for w in (part, stem(part))}
    about = tool.described | tool.nouns
    return [w.low in idle or not w.low[0].isalnum() or stem(w.low) in about for w in message.words]


def _searching(tools: tuple[Tool, ...], message: Message) -> Tool | None:
    """The only tool that searches, for a question about the world."""
    search = [
        t for t in tools if CONCEPTS["search"][0] & t.name_words and any(p.type == "string" for p in t.parameters)
    ]
    search = [t for t in search if t.concepts[0] == ("search",)]
    text = without_lead(message.text)
    words = plain(text).split()
    if len(search) != 1 or not (SETS["personal"] | WRITE - {"explain", "describe"}).isdisjoint(words):
        return None
    if QUESTION.match(text.lower()) and len(message) > 3:
        return search[0]
    verbs = STARTERS | SETS["verbs"] - {"latest"}
    title = len(tools) == 1 and 1 < len(words) < _TITLE and words[0] not in verbs and not any(expressions(message))
    return search[0] if title else None  # *latest iphone price*


def _looking(tools: tuple[Tool, ...], message: Message) -> Tool | None:
    """The only tool that finds something, or tells about people, by one text, for a request to find a name: *look up
    Acme Corp*."""
    about = [t for t in tools if does(t) == "read" and not t.name_words.isdisjoint(SETS["humans"])]
    able = about or [t for t in tools if parts_of(t.name)[:1] and parts_of(t.name)[0] in SETS["finding"]]
    able = [t for t in able if [p.type for p in t.parameters if not p.optional] == ["string"]]
    asks = first_word(message.text) in SETS["finding"] and message.large(len(message) - 1)
    return able[0] if asks and len(able) == 1 else None


def _telling(tools: tuple[Tool, ...], message: Message) -> Tool | None:
    """The only tool that tells about one thing by its name, for a request to tell about things or to compare them:
    *tell me about Norway*, *compare Norway and Peru*."""
    if not _ABOUT.match(message.text):
        return None
    able = [t for t in tools if _informs(t)]
    filled = fill(able[0], m := Message(message.text)) if len(able) == 1 else None
    if filled is None or filled.missing or not said_out(able[0], m):
        return None
    given = [one[p.name] for one in filled.calls() for p in _needed(able[0])]
    compared = has(message.low, "about") or len(given) > 1
    return able[0] if compared and all(" " not in v or not v[0].islower() for v in given) else None


def _informs(tool: Tool) -> bool:
    """Whether a tool tells about one thing of any kind by its name: `country_info`, `get_book`."""
    parts = parts_of(tool.name)
    needed = [p for p in tool.parameters if not p.optional]
    if does(tool) not in ("read", None) or len(needed) != 1 or needed[0].type != "string" or needed[0].choices:
        return False
    about = {*parts, *plain(tool.description).split()}
    itself = parts[1:] and (parts[1:] == parts_of(needed[0].name) or named(needed[0], ("name", "title")))
    return not about.isdisjoint(SETS["information"]) or (does(tool) == "read" and bool(itself))


def _bare(tools: tuple[Tool, ...], message: Message) -> Tool | None:
    """The only tool that needs just one place or symbol, for a message of nothing else: *Paris and Berlin?*"""
    led = _LEADS.fullmatch(message.text)
    message = Message(led[1]) if led else message
    if len(list(symbols(message))) == sum(w.low not in SETS["joins"] | SETS["polite"] for w in message.words):
        return _needing(tools, "symbol")
    spans = bare(message)
    sure = len(spans) > 1 or any(" " in s.value or s.value.lower() in TOWNS for s in spans)
    words = [w for s in spans for w in s.value.split()]
    latin = all(ord(c) < 0x300 for c in message.text)
    small = len(tools) == 1 and len(words) == len(spans) and latin  # *paris and berlin*
    return _needing(tools, "place") if sure and (small or all(w[0].isupper() for w in words)) else None


def _needing(tools: tuple[Tool, ...], kind: str) -> Tool | None:
    """The only tool that needs just one text, of this kind."""
    fits = [t for t in tools if [p.kinds[:1] for p in _needed(t)] == [(kind,)]]
    return fits[0] if len(fits) == 1 else None


def _needed(tool: Tool) -> list[Parameter]:
    """The parameters that a tool requires except its choices; its texts if it requires nothing."""
    required = [p for p in tool.parameters if not p.optional and not p.choices]
    return required or [p for p in tool.parameters if p.type == "string" and not p.choices]
