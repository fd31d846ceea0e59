"""The state while the arguments of one tool are read from one message."""

import re
from collections.abc import Iterable
from typing import Any, Final

from .formats import written
from .message import ACRONYM, Message, Span, identifies, items
from .prompt import Parameter, Tool
from .words import (
    BOUNDS,
    DEEDS,
    GENERIC,
    KINDS,
    NUMBERS,
    PREPOSITIONS,
    RELATIVE,
    SETS,
    STOP,
    THINGS,
    UNITS,
    parts_of,
    stem,
)

_TEXTS: Final = ("", "string", "any")
"""The types of the members of a list of texts."""

_DEVICES: Final = THINGS | {"device", "appliance", "entity"}
_OPEN: Final = (("body",), ("query",), ("subject",), ("expression",))
"""Kinds of texts that begin with any word."""


_SOUGHT: Final = (("query",), ("pattern",))
"""Kinds of texts that are searched for."""
_MERGED: Final = re.compile(r"\binto\b|\btarget\b")
"""What descriptions say of a base into which something is merged."""
_BOUNDED: Final = frozenset(bound.split()[0] for bound in BOUNDS)
"""Words that begin a bound: *less* than 900."""
_FOLDERS: Final = (("path",), ("directory",))
_CALLED_SO: Final = KINDS["directory"] | KINDS["path"]


class Filled:
    """The arguments that a message has for a tool.

    Attributes:
        values: the arguments, by the names of their parameters.
        several: a parameter with a different value in each of several calls, and these values.
        missing: required parameters without a value.
        said: the values from the message as they were said.
        assumed: required choices that the message does not say.
    """

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.values: dict[str, Any] = {}
        self.several: tuple[str, list[Any]] | None = None
        self.missing: list[Parameter] = []
        self.said: dict[str, Any] = {}
        self.assumed: set[str] = set()

    def calls(self) -> list[dict[str, Any]]:
        """The arguments of each call, in the order of the parameters."""
        name, values = self.several or ("", [None])
        each = [self.values | {name: value} if self.several else self.values for value in values]
        return [_whole(self.tool.parameters, one) for one in each]

    def put(self, p: Parameter, value: Any, *, several: bool) -> None:
        """Give a missing parameter a value, or several, from elsewhere in the conversation."""
        if several:
            self.several = (p.name, [self.formed(p, one) for one in value])
        else:
            self.values[p.name] = self.formed(p, value)
        self.missing.remove(p)

    def formed(self, p: Parameter, value: Any) -> Any:
        """A value, or each of a list, in the form that its parameter's description wants."""
        if isinstance(value, list):
            return [self.formed(p, one) for one in value]
        return written(p, _bare(p, value)) if isinstance(value, str) and not p.choices else value


def _whole(parameters: Iterable[Parameter], values: dict[str, Any]) -> dict[str, Any]:
    """The arguments in order, with those of objects nested. An optional object without a required value is left out,
    and what may be ``null`` is ``null`` without a value."""
    found: dict[str, Any] = {}
    for p in parameters:
        if p.name in values or p.nullable:
            found[p.name] = values.get(p.name)
        if p.type != "object":
            continue
        inner = {q.name: values[joined(p, q)] for q in p.inner if joined(p, q) in values}
        before = found.get(p.name)
        said = (
            dict.fromkeys(q.name for q in p.inner if q.nullable) | (before if isinstance(before, dict) else {}) | inner
        )
        whole = {q.name: said[q.name] for q in p.inner if q.name in said} | said
        lacks = any(not q.optional and q.name not in whole for q in p.inner)
        if (inner and not lacks) or not p.optional:
            found[p.name] = whole
    return found


def joined(p: Parameter, inner: Parameter) -> str:
    """The flat name of an object's parameter."""
    return f"{p.name}.{inner.name}"


def own_parts(p: Parameter) -> list[str]:
    """The words of a parameter's name, without that of the object it is in."""
    return parts_of(p.name.rpartition(".")[2])


def flat(tool: Tool) -> Tool:
    """A tool with the parameters of its objects next to the others."""
    found: list[Parameter] = []
    for p in tool.parameters:
        found += [
            q._replace(name=joined(p, q), optional=p.optional or q.optional) for q in p.inner if p.type == "object"
        ] or [p]
    return tool._replace(parameters=tuple(found))


class Filling:
    """One tool and one message, some of whose words are taken.

    Attributes:
        left: parameters without a value, in order.
        cased: whether names are capitalized in this message.
        told: remarks, whose words are taken though they are no value.
    """

    def __init__(self, tool: Tool, message: Message, *, cased: bool) -> None:
        self.tool = flat(tool)
        self.message = message
        self.cased = cased or is_cased(message)
        self.filled = Filled(tool)
        self.left = list(self.tool.parameters)
        self.told: list[Span] = []

    def texts(self) -> list[Parameter]:
        """The remaining parameters for texts or lists."""
        lists = [p for p in self.left if p.type == "array" and p.members in _TEXTS and not p.choices]
        return [p for p in self.left if p.type in ("string", "any") or p in lists]

    def give(self, p: Parameter, value: Any) -> None:
        """Set the value of a parameter."""
        self.filled.said[p.name] = value
        self.filled.values[p.name] = self.filled.formed(p, value)
        self.left.remove(p)

    def give_span(self, p: Parameter, span: Span) -> None:
        """Set the value of a parameter to these words, and take them. A list gets the words between commas.

        Words that cannot be a value are not given: words that only join others, and, for a parameter of codes, a text
        without a digit or capitals.
        """
        if p.type == "string" and not _is_value(self.message, p, span):
            return
        called = span.value.lower() in self.tool.name_words - GENERIC
        if called and self.message.has(span.first - 1, ("on", "in", "using")):
            return  # look it up on *Wikipedia*
        if span.value == self.message.said(span.first, span.last):
            span = _tidied(self, p, span)
            if all(self.message.has(i, SETS["determiners"]) for i in range(span.first, span.last)):
                return  # search *the* web
        several = _codes(self.message, span) or items(self.message, span.first, span.last)
        short = not p.optional and (p.kinds[:1] not in _OPEN or named(p, SETS["articles sold"]))
        counted = not p.optional and p.kinds[:1] != ("body",) and _counted(self.message, several)
        if p.type == "array" or counted or (short and _apart(self.message, span, several)):
            self.give_all(p, several)
        else:
            behind = span.last < len(self.message)
            owner = behind and (self.message.taken[span.last] or self.message.words[span.last].low.isalpha())
            owner = owner and not named(p, SETS["houses"]) and not self.message.large(span.last)
            value = self.message.take(span)
            self.give(p, value.removesuffix("'s").removesuffix("’s") if owner else value)

    def give_all(self, p: Parameter, spans: list[Span]) -> None:
        """Set a list, a single value, or one value for each of several calls."""
        if p.type == "string" and not all(_is_value(self.message, p, span) for span in spans):
            return
        for span in spans:
            self.message.take(span)
        values = [span.value for span in spans]
        if p.type == "array":
            self.give(p, values)
        elif len(values) > 1 and self.filled.several is None:
            self.give_several(p, values)
        else:
            self.give(p, values[0])

    def give_several(self, p: Parameter, values: list[Any]) -> None:
        """Set the values that a parameter has in several calls."""
        self.filled.said[p.name] = values
        self.filled.several = (p.name, [self.filled.formed(p, value) for value in values])
        self.left.remove(p)

    def miss(self, p: Parameter) -> None:
        """Leave a parameter without a value."""
        self.left.remove(p)
        if not p.optional:
            self.filled.missing.append(p)


def _apart(m: Message, span: Span, several: list[Span]) -> bool:
    """Whether a list has codes, an article before each member, or is compared: *the Chemex and the Aeropress*."""
    whole = span.value == m.said(span.first, span.last) and len(several) > 1
    if whole and m.has(span.first - 1, ("compare",)):
        return True
    coded = whole and several[-1].first >= span.last
    return coded or (whole and all(m.has(s.first - 1, SETS["determiners"]) for s in several))


def _counted(m: Message, several: list[Span]) -> bool:
    """Whether the members of a list are things, of which some are counted: *milk and 2 breads*."""
    counts = [m.words[s.first].low.isdigit() or m.has(s.first, NUMBERS) for s in several if s.last - s.first == 2]
    return len(several) > 1 and any(counts[-1:]) and all(s.last - s.first < 3 for s in several)


def _codes(m: Message, span: Span) -> list[Span]:
    """A code and those that *and* or a comma adds to it: *light.desk and light.hall*; empty if there are none."""
    found = [span]
    while m.has(found[-1].last, SETS["joins"]) and found[-1].last + 1 < len(m):
        found.append(m.span(found[-1].last + 1, found[-1].last + 2))
    coded = all(s.last - s.first == 1 and identifies(s.value.lower()) and m.free(s) for s in found)
    return found if coded and len(found) > 1 else []


def _bare(p: Parameter, value: str) -> str:
    """A value without the parameter's own name before it, and without a full stop after its only word."""
    first, _, rest = value.partition(" ")
    if not rest:
        return value.rstrip(".,;:!") if value[:1].isalpha() and value[:-1].isalpha() else value
    own = {*own_parts(p), *map(stem, own_parts(p))}
    said = {first, stem(first)} if p.type == "array" else {first}
    coded = p.kinds[:1] not in _OPEN or rest.isdigit()
    named_so = first.islower() and not own.isdisjoint(said) and coded
    return rest.strip() if named_so and rest[:1].isalnum() else value


def _is_value(m: Message, p: Parameter, span: Span) -> bool:
    """Whether words may be a value of a parameter."""
    if not p.kinds and named(p, SETS["codes"]):
        return span.value.isupper() or any(c.isdigit() or c in "-_#./:" for c in span.value)
    if span.last - span.first == 1 and p.kinds[:1] in (("query",), ("body",)) and m.has(span.first, RELATIVE):
        return False  # what's new *today*
    if p.kinds[:1] == ("place",) and UNITS.get(span.value.lower()) in ("celsius", "fahrenheit"):
        return False  # and in *fahrenheit*
    if p.kinds[:1] == ("phone",) and p.name.lower() == "phone" and not any(map(str.isdigit, span.value)):
        return False  # call me *back*
    if named(p, SETS["postal"]) and not any(map(str.isdigit, span.value)):
        return False  # the zip code *Boston*
    if p.kinds[:1] not in _OPEN and m.has(span.first, SETS["all things"]):
        return False  # is *everything* up
    role_only = m.has(span.first - 1, SETS["determiners"]) or m.has(span.first, SETS["determiners"])
    if p.kinds[:1] == ("email",) and "address" in p.description.lower() and role_only and span.value.islower():
        return False  # mail *my boss*
    if p.kinds[:1] == ("path",) and m.has(span.first - 1, ("a", "an")) and span.value.isalpha():
        return False  # *write a haiku* names no file
    if p.optional and span.last - span.first == 1 and m.has(span.first, SETS["particles"]):
        return False  # put that *down*
    spoken = p.kinds[:1] in _OPEN[:1] or span.value != m.said(span.first, span.last)
    return spoken or any(m.large(i) or m.words[i].low not in SETS["function"] for i in range(span.first, span.last))


def _titled(m: Message, i: int) -> bool:
    """Whether a word is the capitalized article of a title, and begins no sentence."""
    return m.words[i].text in ("The", "A", "An") and not m.taken[i] and m.words[i - 1].low not in (".", "!", "?")


def _tidied(f: Filling, p: Parameter, span: Span) -> Span:
    """A value without words that lead to it or on from it: *starting at* Dock Road, Oskar*, but*, curry *recipe*."""
    m = f.message
    span = _identified(f.tool, m, p, span)
    first, last = span.first, span.last
    some = m.has(first, ("any", "some", "enough")) and p.kinds[:1] != ("body",)
    label = first + m.has(first, ("the",))
    named_so = m.has(label - 1, ("the",)) and m.has(label, SETS["words for a text"])
    if p.kinds[:1] in _SOUGHT and named_so and label + 1 < last and not m.has(label + 1, STOP):
        first = label + 1  # the word *error*
    if named(p, KINDS["query"]) and m.large(first) and m.has(first - 1, ("the",)) and not m.taken[first - 1]:
        first -= 1  # *the Treaty of Westphalia*
    elif m.large(first) and first > 1 and _titled(m, first - 1):
        first -= 1  # reserve *The Hobbit*
    short = p.kinds[:1] not in _OPEN
    sought = some or (m.has(first, SETS["articles"]) and (short or named(p, SETS["sought"])) and not m.large(first))
    if first + 1 < last and (sought or (m.has(first, ("my",)) and m.large(first + 1))):
        first += 1
    if p.kinds[:1] in _FOLDERS and last - first > 1 and m.has(last - 1, _CALLED_SO):
        first, last = first + m.has(first, SETS["determiners"]), last - 1  # the docs *folder*
    heads = f.tool.name_words - GENERIC if any(DEEDS.get(w) == "read" for w in parts_of(f.tool.name)) else frozenset()
    while (
        last - first > 1
        and not m.large(last - 1)
        and stem(m.words[last - 1].low) in heads
        and not keeps(p, m.words[last - 1].low)
    ):
        last -= 1
    named_so = m.words[last - 1].low in own_parts(p) and not m.large(last - 1) and p.kinds[:1] != ("body",)
    if last - first > 1 and named_so:
        last -= not keeps(p, m.words[last - 1].low)  # the customers *table*
    name = first + 2 + m.has(first + 2, SETS["determiners"])
    if m.has(0, SETS["asking for somebody"]) and m.has(first + 1, PREPOSITIONS) and name < last and m.large(name):
        first = name if m.words[first].low.endswith("ing") else first  # who's *coming to* the Gala
    if first + 1 < last and m.has(first, SETS["imperatives"]) and own_parts(p):
        told = rf"\b{m.words[first].low} (?:an? |the |your )?{own_parts(p)[-1]}\b"
        first += re.search(told, f.tool.description.lower()) is not None  # remind me to *take* aspirin
    if p.kinds[:1] in _OPEN and not named(p, ("name",)):
        behind = next((i for i in range(last, len(m)) if not m.has(i, SETS["determiners"])), last)
        ends = behind < len(m) and (m.taken[behind] or not m.words[behind].low[0].isalnum())
        leads = SETS["leads on to what is taken"]
        if ends and first + 1 < last and m.has(first, ("which", "what")) and m.words[behind].low in _BOUNDED:
            first, leads = first + 1, leads | SETS["before a bound"]  # *which* laptops *cost* less than 900
        return m.span(first, m.trimmed(first + 1, last, leads) if ends else last)
    verb = m.words[first].low in SETS["imperatives"] or m.words[first].low.endswith("ing")
    behind = next((i for i in range(first + 1, last - 1) if m.has(i, SETS["before a place"])), first)
    if verb and not m.large(first) and behind > first and not any(m.large(i) for i in range(first, behind)):
        first = behind + 1 if m.large(behind + 1) or m.large(behind + 2) else first
    while m.has(first, SETS["leads to a name"]) and any(m.large(i) for i in range(first + 1, last)):
        first += 1
    while first + 1 < last and not m.large(first) and m.large(first + 1):
        if m.words[first].low not in SETS["leads to a name"] and m.words[first].low not in parts_of(p.name):
            break
        first += 1
    if m.large(last - 1) or SETS["particles"].isdisjoint({m.words[last - 1].low}):
        return m.span(first, m.trimmed(first + 1, last, SETS["leads on"]))
    return m.span(first, m.trimmed(first + 1, last, SETS["leads on"] | SETS["particles"]))  # cool *the bedroom* down


def _identified(tool: Tool, m: Message, p: Parameter, span: Span) -> Span:
    """The only identifier among words, which are no part of it: *web-02* keeps crashing, *billing-api* back."""
    if m.has(span.first, SETS["code names"]) and m.has(span.first - 1, own_parts(p)) and span.last - span.first == 2:
        span = m.span(span.first + 1, span.last)  # docket *number* 19-1392
    machine = named(p, SETS["machines"])
    if span.last - span.first < 2 or (p.kinds[:1] in _OPEN and not machine and not named(p, ("name",))):
        return span
    about = {stem(w) for w in (*own_parts(p), *p.description.lower().split())} | tool.nouns | tool.described
    if m.words[span.last - 1].low.isdigit() and all(stem(w.low) in about for w in m.words[span.first : span.last - 1]):
        return m.span(span.last - 1, span.last)  # the field *237*
    words = [i for i in range(span.first, span.last) if identifies(m.words[i].low)]
    if p.kinds[:1] in _OPEN:  # the *Q3 budget* is a topic
        words = [i for i in words if not m.words[i].low.isalnum()]
    if not words and machine:
        words = [i for i in range(span.first, span.last) if "-" in m.words[i].low[1:]]
    return m.span(words[0], words[0] + 1) if len(words) == 1 else span


def keeps(p: Parameter, word: str) -> bool:
    """Whether a value keeps a noun at its end that may belong to the tool: *desk lamp*, *dining room*."""
    return word in SETS["things"] and (named(p, (word,)) or (word != "room" and named(p, _DEVICES)))


def is_cased(message: Message) -> bool:
    """Whether a message capitalizes a word other than its first and acronyms."""
    return any(w.text[0].isupper() and w.low not in STOP and not ACRONYM.fullmatch(w.text) for w in message.words[1:])


def role(p: Parameter) -> str | None:
    """The side of a parameter, ``from`` or ``to``, if it is one of two."""
    words = set(parts_of(p.name)) if p.kinds[:1] != ("time",) else set()
    if "base" in words and _MERGED.search(p.description.lower()):
        return "to"
    return "from" if words & SETS["from"] else "to" if words & SETS["to"] else None


def named(p: Parameter, words: Iterable[str]) -> bool:
    """Whether a parameter's name has one of these words."""
    return not set(words).isdisjoint(own_parts(p))
