"""References to what was called and answered before: *the second one*, *the invoice one*, *cancel it*, *plus 8*."""

import itertools
import math
import re
from collections.abc import Iterator
from typing import Any, Final

from .fill import fill
from .filling import Filled, named, own_parts
from .message import Message, Span, identifies
from .prompt import NUMERIC, Parameter, Prompt, Tool, Turn, parameter
from .results import MARKS, Entry, entries, results
from .reworded import measure
from .scores import ENOUGH, best, deed, does, scores
from .spans import FORMS, dates, numbers, quotes
from .words import (
    EXTREMES,
    NEAR,
    ORDINALS,
    QUESTION,
    SETS,
    SQL,
    STOP,
    UNITS,
    WANTED,
    derived,
    first_word,
    parts_of,
    plain,
    stem,
    without_lead,
)

Call = tuple[str, dict[str, Any]]
_ANSWER: Final = 300
"""The most characters of an answer."""
_MOST_WORDS: Final = 40
"""The most words of a message that points to an entry."""
_TRIED: Final = 4
"""The most words of a message that are tried as pointing to an entry."""
_LONGEST: Final = 2000
"""The most characters of a result that are read."""
_BETWEEN: Final = 4
"""The most words between an article and *one*."""
_DEED: Final = 1.5
"""For a tool that does what the message's verb says."""
_WORDS: Final = re.compile(r"[^\W_]+|[\w-]+")
_HOW_MANY: Final = re.compile(r"(?i)\W*how (?:many|much) (\w+)")
_SAYS: Final = re.compile(r"(?i)\s+(?:i|we|it|he|she|they|you|there)\b")
"""The beginning of what somebody is told."""
_FORMED: Final = dict(FORMS)


# -- entries -----------------------------------------------------------------------------------------------------------


def picked(prompt: Prompt, before: list[Turn], text: str) -> list[Call] | None:
    """The calls for the entries of the last results to which a message points; ``None`` if it points to none."""
    listed = entries(prompt, before)
    message = Message(text)
    if not before or len(listed) < 2 or len(message) > _MOST_WORDS or SQL.search(text):
        return None
    fields = {stem(w) for entry in listed for name in entry.fields for w in parts_of(name)}
    if (counts := _HOW_MANY.match(text)) and stem(counts[1].lower()) in fields:
        return None  # *how many restarts does indexer-0 have?*
    for span, chosen, sure in itertools.islice(_pointers(message, listed, _choices(prompt)), _TRIED):
        switched = message.has(span.first - 2, SETS["turning"])  # *switch on* the hall one
        first = span.first - (not switched and message.has(span.first - 1, SETS["before an entry"]))
        head, tail = (message.words[i - 1].end if i else 0 for i in (first, span.last))
        rest = f"{text[:head]} {text[tail:]}"
        if (found := _called(prompt, before, chosen, rest, sure=sure)) is not None:
            return found
    return None


def changed(prompt: Prompt, before: list[Turn], text: str) -> list[Call] | None:
    """The call that changes what the last call read: *set it to 20*."""
    actions = {t.name: does(t) for t in prompt.tools}
    words = plain(without_lead(text)).split()
    orders = words[:1] and words[0] in SETS["imperatives"] and not SETS["it"].isdisjoint(words[1:2])
    if not before or actions.get(before[-1].text) != "read" or not orders:
        return None
    calls = referred(prompt, before, text)
    return calls if calls and all(actions[name] != "read" for name, _ in calls) else None


def referred(prompt: Prompt, before: list[Turn], text: str) -> list[Call] | None:
    """The call for the only thing that was called for or given back, if a pronoun means it: *cancel it*."""
    listed = entries(prompt, before)
    text = without_lead(text)
    rest = _unreferring(Message(text))
    if not before or len(listed) > 1 or rest == text or len(text.split()) > _MOST_WORDS:
        return None
    if _says_code(prompt.tools, rest):
        return None
    if calls := _of_number(prompt, before[-1], rest):
        return calls
    [entry] = listed or [Entry("", {}, frozenset())]
    given = {k: v for k, v in before[-1].arguments.items() if isinstance(v, (str, int, float))}
    return _called(prompt, before, [entry._replace(fields=given | entry.fields)], rest, sure=True, alone=True)


def _of_number(prompt: Prompt, before: Turn, rest: str) -> list[Call] | None:
    """The call of another tool that lacks just a number, with the only one of the last result: *split it 3 ways*."""
    number, _ = measure(prompt)
    tool = best(prompt.tools, message := Message(rest)) if number else None
    if tool is None or tool.name == before.text:
        return None
    filled = fill(tool, message)
    lacks = filled.missing[0] if len(filled.missing) == 1 and not filled.several else None
    if lacks is None or lacks.type not in NUMERIC or named(lacks, SETS["codes"]):
        return None
    if (value := _as(lacks, float(number) if "." in number else int(number))) is None:
        return None
    filled.put(lacks, value, several=False)
    return [(tool.name, filled.calls()[0])]


def _says_code(tools: tuple[Tool, ...], rest: str) -> bool:
    """Whether a message names what it is about by a code: *open ticket OPS-12, I want to read it*."""
    tool = best(tools, Message(rest))
    if tool is None or (given := fill(tool, Message(rest))).missing:
        return False
    coded = (p for p in tool.parameters if not p.optional and named(p, SETS["codes"]))
    return any(identifies(str(given.values.get(p.name, "")).lower()) for p in coded)


def _unreferring(m: Message) -> str:
    """A message without pronouns: *cancel it*, *details of that user*, *book a table there*."""
    begin, parts = 0, []
    quoted = {i for s in quotes(m) for i in range(s.first, s.last)}
    for i, w in enumerate(m.words):
        if i in quoted:
            continue
        whose = w.low in SETS["whose"] and i + 1 < len(m) and m.words[i + 1].low[0].isalpha()
        if whose or w.low in SETS["it"]:
            parts.append(m.text[begin : w.start])
            one = w.low in SETS["it"] and m.has(i + 1, ("one", "ones"))
            begin = m.words[i + 1].end if one else w.end
            if i == 1 and w.low in SETS["persons"] and _SAYS.match(m.text, begin):
                parts.append("that")  # text her *I'm late*
    return "".join((*parts, m.text[begin:]))


def _choices(prompt: Prompt) -> frozenset[str]:
    """The values that parameters list, which are no names of entries: *high*."""
    return frozenset(str(c).lower() for t in prompt.tools for p in t.parameters for c in p.choices)


def _pointers(m: Message, listed: list[Entry], choices: frozenset[str]) -> Iterator[tuple[Span, list[Entry], bool]]:
    """Words that point to entries, the entries, and whether these words can mean nothing else."""
    yield from ((span, [entry], True) for span, entry in (*_counted(m, listed), *_ones(m, listed)))
    for phrase in SETS["all of these"]:
        if "both" not in phrase or len(listed) == 2:
            yield from ((span, listed, True) for span in m.phrases.get(phrase, ()))
    for span, entry in _names(m, listed):
        if span.value.lower() not in choices:
            yield span, [entry], span.value.lower() in {str(v).lower() for v in entry.fields.values()}


def _counted(m: Message, listed: list[Entry]) -> Iterator[tuple[Span, Entry]]:
    """*The second*, *the last file*, *first one*; not *the last 20 lines*."""
    for i, w in enumerate(m.words):
        at = ORDINALS.get(w.low, len(listed))
        article = int(m.has(i - 1, SETS["determiners"]))
        last = i + 1
        if at < len(listed) and (article or m.has(last, ("one",))) and not _counts(m, last):
            last += last < len(m) and m.words[last].low.isalpha() and m.words[last].low not in STOP - {"one"}
            yield m.span(i - article, last), listed[at]


def _ones(m: Message, listed: list[Entry]) -> Iterator[tuple[Span, Entry]]:
    """*The invoice one*, *the cheapest one*, *the one from 1995*."""
    for i in m.at.get("one", ()):
        first = next((j for j in range(i - 1, max(i - _BETWEEN, -1), -1) if m.has(j, SETS["determiners"])), i)
        end = i + 1
        if first == i - 1 and m.has(end, SETS["before a mark of one"]):
            end = next((j for j in range(i + 2, len(m)) if not m.words[j].low[0].isalnum()), len(m))
        words = [w.low for w in (m.words[first + 1 : i] or m.words[i + 2 : end])]
        if first < i and (entry := _extreme(words, listed) or _marked(words, listed)) is not None:
            yield m.span(first, end), entry


def _names(m: Message, listed: list[Entry]) -> Iterator[tuple[Span, Entry]]:
    """Words of one entry: *play Skyfall*, *#12*."""
    for i, w in enumerate(m.words):
        known = (i > 0 or m.large(i)) and w.low not in STOP and w.low[0].isalnum()
        if known and (entry := _marked([w.low], listed)) is not None:
            last = i + 1
            while last < len(m) and m.words[last].low not in STOP and m.words[last].low in entry.text.lower():
                last += 1
            yield m.span(i - m.has(i - 1, SETS["determiners"] | {"#"}), last), entry


def _counts(m: Message, i: int) -> bool:
    """Whether a number follows, as in *the last 20 lines*."""
    return i < len(m) and m.words[i].low[0].isdigit()


def _extreme(words: list[str], listed: list[Entry]) -> Entry | None:
    """The entry with the least or the most of what an adjective measures: *the cheapest one*."""
    for word in words:
        for adjective, (sign, *names) in EXTREMES.items():
            if word in adjective.split():
                of = [(v, e) for e in listed for k, v in e.fields.items() if {*parts_of(k)} & {*names}]
                of = [(v, e) for v, e in of if str(v)[:1].isdigit()]
                if len(of) == len(listed) and len({type(v) for v, _ in of}) == 1:
                    return (min if sign == "-" else max)(of, key=lambda both: both[0])[1]
    return None


def _marked(words: list[str], listed: list[Entry]) -> Entry | None:
    """The only entry that has these words."""
    said = [stem(w) for w in words if w not in STOP]
    alone = words[0] if len(words) == 1 else ""
    have = [e for e in listed if said and ({*said} <= e.stems or alone in (str(v).lower() for v in e.fields.values()))]
    return have[0] if len(have) == 1 else None


def _called(
    prompt: Prompt, before: list[Turn], chosen: list[Entry], rest: str, *, sure: bool, alone: bool = False
) -> list[Call] | None:
    """The call of the tool that takes an entry and what else a message says."""
    message = Message(rest)
    verb = deed(message)
    said = scores(prompt.tools, message)
    able: list[tuple[float, Tool, list[dict[str, Any]]]] = []
    for tool in prompt.tools:
        known = {p.name: before[-1].arguments[p.name] for p in tool.parameters if p.name in before[-1].arguments}
        given = [_fitting(tool, entry, known, message, alone=alone) for entry in chosen]
        if not all(given) or tool.name == before[-1].text:
            continue
        if (filled := _filled(tool, given[0], rest)) is None or any(p.name not in known for p in filled.missing):
            continue
        kept = {p.name: known[p.name] for p in filled.missing}
        values = [_ordered(tool, kept | one | filled.values) for one in given]
        akin = {stem(first_word(rest))} & {w for name in parts_of(tool.name)[:1] for w in NEAR.get(stem(name), ())}
        score = said.get(tool.name, 0.0) + _DEED * ((verb is not None and does(tool) == verb) or bool(akin))
        able.append((score, tool, values))
    if alone and verb == "read":
        able = [one for one in able if does(one[1]) in ("read", None)]
    able.sort(key=lambda one: -one[0])
    if not able or (len(able) > 1 and able[0][0] == able[1][0]):
        return None
    score, tool, values = able[0]
    best_said = max((said.get(t.name, 0.0) for t in prompt.tools if t.name != before[-1].text), default=0.0)
    if not sure and score < best_said:
        return None
    only = sure and len(able) == 1 and does(tool) in (verb, None, "read") and score >= best_said
    only = only and not (QUESTION.match(rest.lower()) and does(tool) is None)  # *which port does it use?*
    return [(tool.name, one) for one in values] if score >= ENOUGH or score >= _DEED or only else None


def _filled(tool: Tool, given: dict[str, Any], rest: str) -> Filled | None:
    """What a message says besides the values of an entry; ``None`` if it has the values of several calls.

    In place of the entry's values it may say others of an unmistakable form, such as a time or a quoted text, but no
    name and no code.
    """
    message = Message(rest)
    quoted = next(quotes(message), None) is not None
    counts = any(numbers(message))
    due = tuple(
        p._replace(optional=p.optional or (p.name in given and not (counts and p.type in NUMERIC)))
        for p in tool.parameters
        if p.name not in given or _is_formal(p) or (quoted and p.kinds[:1] == ("body",))
    )
    filled = fill(tool._replace(parameters=due), message)
    filled.missing = [p for p in filled.missing if p.name not in given]
    return None if filled.several else filled


def _is_formal(p: Parameter) -> bool:
    return (p.type in NUMERIC or not _FORMED.keys().isdisjoint(p.kinds[:1])) and not named(p, SETS["codes"])


def _ordered(tool: Tool, values: dict[str, Any]) -> dict[str, Any]:
    return {p.name: values[p.name] for p in tool.parameters if p.name in values}


def _fitting(tool: Tool, entry: Entry, known: dict[str, Any], message: Message, *, alone: bool) -> dict[str, Any]:
    """The required arguments that an entry gives: by the names of its fields, else its name as the first text that the
    message does not name (*add it to my Road Trip playlist*).

    Args:
        alone: whether the entry is no member of a list, and so need not have a name.
    """
    needed = [p for p in tool.parameters if not p.optional and not p.choices]
    if all(p.optional for p in tool.parameters):
        needed = [p for p in tool.parameters if p.name in entry.fields and p.type == "string" and not p.choices]
    found = {p.name: value for p in needed if (value := _field(p, entry)) is not None}
    if found:
        return found
    label = next((entry.fields[n] for n in ("", "name", "title") if n in entry.fields), None)
    texts = [p for p in needed if p.type == "string" and (p.name not in known or "" in entry.fields)]
    first = next((p for p in texts if not any(w in message.at for w in own_parts(p))), None) or next(iter(texts), None)
    if first is not None and alone and ("" in entry.fields or first.kinds[:1] in (("place",), ("zone",), ("body",))):
        return {}
    return {} if first is None or not isinstance(label, str) or named(first, ("id",)) else {first.name: label}


def _field(p: Parameter, entry: Entry) -> Any:
    """The field of an entry that a parameter means, by its name, or by its kind if no other is of this kind."""
    own = {*own_parts(p)}
    codes = set() if own & {"name", "title"} else {"id", "number"}  # the hotel's name is not its id
    for name, value in entry.fields.items():
        parts = {*parts_of(name)}
        same = bool(parts) and parts <= own | codes and not parts.isdisjoint(own)
        if same and (fits := _as(p, value)) is not None:
            return fits
    if own & SETS["codes"] and (code := _code(own, entry)):
        return _as(p, int(code) if p.type in NUMERIC and code.isdecimal() else code)
    if own & SETS["codes"] or not p.kinds or p.kinds[0] not in {*_FORMED, "place"}:
        return None
    alike = [value for name, value in entry.fields.items() if name and p.kinds[:1] == parameter(name).kinds[:1]]
    return _as(p, alike[0]) if len(alike) == 1 else None


def _code(own: set[str], entry: Entry) -> str:
    """The code that a text is, that begins a line, or that follows the name of what it is for: *job 99121*."""
    said = entry.text.split() if "" in entry.fields else []
    words = [w.strip(MARKS) for w in said] if len(said) > 1 else said
    codes = [i for i, w in enumerate(words) if any(map(str.isdigit, w)) or identifies(w.lower())]
    alone = [i for i in codes if len(words) == 1 or entry.text[0] == "[" or (i and words[i - 1].lower() in own)]
    return words[alone[0]] if len(alone) == 1 or (alone and not alone[0]) else ""


def _as(p: Parameter, value: Any) -> Any:
    """A value as a parameter takes it; ``None`` if it does not."""
    if p.type in NUMERIC:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return value if whole or (p.type == "number" and isinstance(value, float) and math.isfinite(value)) else None
    if p.type not in ("string", "any") or isinstance(value, bool) or value is None:
        return None
    text = str(value)
    form = _FORMED[p.kinds[0]] if p.kinds[:1] in (("email",), ("phone",)) and not named(p, SETS["codes"]) else None
    return text if form is None or any(form(Message(text))) else None


# -- pronouns ----------------------------------------------------------------------------------------------------------


def meant(prompt: Prompt, before: list[Turn], p: Parameter, *, referred: bool) -> Any:
    """The value that a message takes from the last call and its result for a parameter; ``None`` if there is none.

    It is what has the parameter's name, else a text that was given back, else the only text of the call.

    Args:
        referred: whether the message has a word for it; else only what has the parameter's name is taken.
    """
    listed = entries(prompt)
    if p.choices or not before:
        return None
    if not referred:
        [entry] = listed if len(listed) == 1 else [Entry("", {}, frozenset())]
        coded = "" in entry.fields and named(p, SETS["codes"])
        return _field(p, entry) if coded else _as(p, entry.fields.get(p.name))
    if len(listed) == 1 and p.kinds[:1] == ("body",) and "" in listed[0].fields:
        return _as(p, listed[0].fields[""])
    if len(listed) == 1 and "" not in listed[0].fields and (found := _field(p, listed[0])) is not None:
        return found
    tool = next((t for t in prompt.tools if t.name == before[-1].text), None)
    texts = [q for q in tool.parameters if q.type == "string" and not q.optional] if tool is not None else []
    return subject(p, [(q, before[-1].arguments.get(q.name)) for q in texts])


def subject(p: Parameter, given: list[tuple[Parameter, Any]]) -> Any:
    """The only text that was given, if a parameter may mean the same thing."""
    texts = [(q, v) for q, v in given if isinstance(v, str) and not q.choices]
    if len(texts) != 1 or p.type not in ("string", "any") or p.choices:
        return None
    [(q, value)] = texts
    formal = {*p.kinds[:1], *q.kinds[:1]} & {"email", "phone", "date", "time", "language", "unit", "currency"}
    same = p.kinds[:1] == q.kinds[:1] or not ({*p.kinds[:1], *q.kinds[:1]} & {"body", "query", "place"})
    return _as(p, value) if same and (not formal or p.kinds[:1] == q.kinds[:1]) else None


# -- answers -----------------------------------------------------------------------------------------------------------


def known_answer(prompt: Prompt, before: list[Turn], text: str) -> str:
    """The answer to a question that the last result already answers, in its words; empty if it is none.

    Such a question refers to the answer, or names it, and has no new value for the tool.
    """
    given = results(prompt)
    core = without_lead(text)
    question = QUESTION.match(core.lower()) or text.rstrip().endswith("?")
    tool = next((t for t in prompt.tools if before and t.name == before[-1].text), None)
    message = Message(core)
    if not given or tool is None or not question or '"' in text or any(dates(message)):
        return ""
    given_text = " ".join(text[:_LONGEST].lower() for text in given)
    names = {*_WORDS.findall(given_text)}
    own = {stem(w) for w in names}
    said = [w.low for w in message.words if w.low not in STOP and w.low[0].isalnum()]
    known = [w for w in said if stem(w) in own or w in given_text or any(derived(stem(w), o) for o in own)]
    listed = entries(prompt)
    if answer := _compared(message, listed):
        return answer
    words = [w for w in plain(core).split() if w not in SETS["function"]]
    if any(_names_only(words, name) for name in (listed[0].fields if len(listed) == 1 else ())):
        return _said(listed, {stem(w) for w in words})
    if not known and not SETS["refers"] & message.at.keys():
        return ""
    other = best(prompt.tools, message)
    asked = _asked_fields(message, listed)
    if asked and other in (tool, None) and not any(message.large(i) for i in range(1, len(message))):
        return _said(listed, {stem(w) for name in asked for w in parts_of(name)})
    if other not in (tool, None) and not (known and QUESTION.match(core.lower()) and does(other) != "read"):
        return ""
    idle = STOP | names | {str(v).lower() for v in before[-1].arguments.values()} | SETS["no value"]
    idle |= SETS["plain verbs"]
    new = fill(tool, Message(core)).values
    measured = {p.name for p in tool.parameters if p.choices or p.kinds[:1] in (("unit",), ("currency",))}
    if any(
        str(v).lower() not in (given_text if isinstance(v, str) else names)
        and not {*plain(str(v)).split()} <= idle | (UNITS.keys() if k not in measured else set())
        for k, v in new.items()
    ):
        return ""
    return _said(entries(prompt), {stem(w) for w in said})


def _compared(m: Message, listed: list[Entry]) -> str:
    """The answer to a question for the entry with the most or the least of something: *which one is cheaper?*"""
    words = [w.low for w in m.words] if m.has(0, ("which", "what", "who")) else []
    if len(listed) == 1:
        name = _most(words, listed[0].fields)
        return f"The result says: {name} {listed[0].fields[name]}."[:_ANSWER] if name else ""
    entry = _extreme(words, listed) if listed else None
    return _said([entry], set()) if entry is not None else ""


def _most(words: list[str], fields: dict[str, Any]) -> str:
    """The name of the least or the largest number of a result that has only numbers; empty if none is asked for."""
    sign = next((sign for some, (sign, *_) in EXTREMES.items() if {*some.split()} & {*words}), None)
    numbers = sign and len(fields) > 1 and all(isinstance(v, (int, float)) for v in fields.values())
    return (min if sign == "-" else max)(fields, key=lambda name: fields[name]) if numbers else ""


def _asked_fields(m: Message, listed: list[Entry]) -> list[str]:
    """The fields of the only entry for which a question word asks: *who wrote it?*, *when does it arrive?*"""
    wanted = frozenset().union(*(SETS[kind] for words, kind in WANTED.items() if f" {words} " in m.low))
    if len(listed) != 1 or not wanted:
        return []
    spoken = [name for name in listed[0].fields if {*parts_of(name)} & (m.at.keys() - STOP)]  # *who is his teacher?*
    return spoken or [name for name in listed[0].fields if wanted & {*parts_of(name)}]


def _names_only(said: list[str], name: str) -> bool:
    """Whether words only name a field: *and the phone number?* for ``phone``."""
    own = {stem(w) for w in parts_of(name)}
    return not own.isdisjoint(map(stem, said)) and {stem(w) for w in said} <= own | {"number", "address"}


def _said(listed: list[Entry], said: set[str]) -> str:
    """The fields of the only entry that a question names, or the texts of the entries that it names; else all."""
    if len(listed) == 1 and "" not in listed[0].fields:
        fields = {" ".join(parts_of(name)) or name: value for name, value in listed[0].fields.items()}
        asked = {name: value for name, value in fields.items() if said & {stem(w) for w in name.split()}} or fields
        return f"The result says: {', '.join(f'{name} {value}' for name, value in asked.items())}."[:_ANSWER]
    some = [entry for entry in listed if said & entry.stems] or listed
    return f"The result says: {'; '.join(entry.text.strip(' .') for entry in some)}."[:_ANSWER]
