"""References to what was called and answered before: *the second one*, *the invoice one*, *cancel it*, *plus 8*."""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from .fill import fill
from .filling import named, own_parts
from .message import Message, Span
from .prompt import NUMERIC, Parameter, Prompt, Tool, Turn, parameter
from .scores import ENOUGH, best, deed, does, scores
from .spans import FORMS, dates, expressions
from .words import (
    EXTREMES,
    OPERATOR,
    ORDINALS,
    QUESTION,
    SETS,
    STOP,
    UNITS,
    derived,
    parts_of,
    plain,
    stem,
    without_lead,
)

Call = tuple[str, dict[str, Any]]
_MOST: Final = 50
"""The most entries of a result, and the most fields of an entry, that are read."""
_ANSWER: Final = 300
"""The most characters of an answer."""
_TRIED: Final = 4
"""The most words of a message that are tried as pointing to an entry."""
_LONGEST: Final = 2000
"""The most characters of a result that are read."""
_BETWEEN: Final = 4
"""The most words between an article and *one*."""
_DEED: Final = 1.5
"""For a tool that does what the message's verb says."""
_EARLIER: Final = 2.0
"""Against the tool that gave the entries: one is picked in order to do something else with it."""
_NUMBER: Final = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")
_WORDS: Final = re.compile(r"[^\W_]+|[\w-]+")
_THAT: Final = re.compile(r"(?i)\b(?:that|it|this|the (?:result|answer|sum|total))\b")
_REST: Final = re.compile(rf"(?i)^\W*(?:(?:and|then|now|ok|okay|so)\b[\s,]*)*(?=(?:{OPERATOR})(?!\w).*\d)")
_FORMED: Final = dict(FORMS)


class Entry(NamedTuple):
    """One of the things that a result lists: its text, its fields, and the stems of its words.

    A line's first word has the name ``""``.
    """

    text: str
    fields: dict[str, Any]
    stems: frozenset[str]


# -- results -----------------------------------------------------------------------------------------------------------


def results(prompt: Prompt) -> list[str]:
    """The results between the user's last two messages."""
    users = [i for i, t in enumerate(prompt.turns) if t.role == "user"]
    return [t.text for t in prompt.turns[users[-2] : users[-1]] if t.role == "result"] if len(users) > 1 else []


def entries(prompt: Prompt, before: Sequence[Turn] = ()) -> list[Entry]:
    """The items that the last results list, or the values of a single thing; for several calls, their arguments."""
    if len(before) > 1:
        return [_entry(turn.arguments) for turn in before]
    return [entry for text in results(prompt) for entry in _entries(text[:_LONGEST])][:_MOST]


def _entries(text: str) -> list[Entry]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # most tools answer in words
        lines = [line for line in text.split("\n") if line.strip()]
        return [_of(line, {"": line.split()[0] if len(lines) > 1 else line.strip()}) for line in lines]
    if isinstance(value, dict):
        inner = [v for v in value.values() if isinstance(v, list) and v]
        value = inner[0] if len(inner) == 1 else [value]
    return [_entry(one) for one in (value if isinstance(value, list) else [value])]


def _entry(value: Any) -> Entry:
    if isinstance(value, dict):
        fields = {k: v for k, v in [*value.items()][:_MOST] if isinstance(v, (str, int, float))}
        return _of(" ".join(map(str, fields.values())), fields)
    return _of(str(value), {"": value} if isinstance(value, (str, int, float)) else {})


def _of(text: str, fields: dict[str, Any]) -> Entry:
    return Entry(text, fields, frozenset(map(stem, (*_WORDS.findall(text.lower()), *parts_of(text)))))


# -- entries -----------------------------------------------------------------------------------------------------------


def picked(prompt: Prompt, before: list[Turn], text: str) -> list[Call] | None:
    """The calls for the entries of the last results to which a message points; ``None`` if it points to none."""
    listed = entries(prompt, before)
    if len(listed) < 2 or not before:
        return None
    message = Message(text)
    for span, chosen, sure in itertools.islice(_pointers(message, listed), _TRIED):
        switched = message.has(span.first - 2, SETS["turning"])  # *switch on* the hall one
        first = span.first - (not switched and message.has(span.first - 1, SETS["before an entry"]))
        head, tail = (message.words[i - 1].end if i else 0 for i in (first, span.last))
        rest = f"{text[:head]} {text[tail:]}"
        if (found := _called(prompt, before, chosen, rest, sure=sure)) is not None:
            return found
    return None


def _pointers(m: Message, listed: list[Entry]) -> Iterator[tuple[Span, list[Entry], bool]]:
    """Words that point to entries, the entries, and whether these words can mean nothing else."""
    yield from ((span, [entry], True) for span, entry in (*_counted(m, listed), *_ones(m, listed)))
    for phrase in SETS["all of these"]:
        if "both" not in phrase or len(listed) == 2:
            yield from ((span, listed, True) for span in m.phrases.get(phrase, ()))
    for span, entry in _names(m, listed):
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
    have = [e for e in listed if said and {*said} <= e.stems]
    return have[0] if len(have) == 1 else None


def _called(prompt: Prompt, before: list[Turn], chosen: list[Entry], rest: str, *, sure: bool) -> list[Call] | None:
    """The call of the tool that takes an entry and what else a message says."""
    message = Message(rest)
    verb = deed(message)
    said = scores(prompt.tools, message)
    able: list[tuple[float, Tool, list[dict[str, Any]]]] = []
    for tool in prompt.tools:
        known = {p.name: before[-1].arguments[p.name] for p in tool.parameters if p.name in before[-1].arguments}
        given = [_fitting(tool, entry, known) for entry in chosen]
        if not all(given) or tool.name == before[-1].text:
            continue
        due = tool._replace(parameters=tuple(p for p in tool.parameters if p.name not in given[0]))
        filled = fill(due, Message(rest))
        if any(p.name not in known for p in filled.missing) or filled.several:
            continue
        kept = {p.name: known[p.name] for p in filled.missing}
        values = [_ordered(tool, kept | filled.values | one) for one in given]
        score = said.get(tool.name, 0.0) + _DEED * (verb is not None and does(tool) == verb)
        able.append((score, tool, values))
    able.sort(key=lambda one: -one[0])
    if not able or (len(able) > 1 and able[0][0] == able[1][0]):
        return None
    score, tool, values = able[0]
    best_said = max((said.get(t.name, 0.0) for t in prompt.tools if t.name != before[-1].text), default=0.0)
    if not sure and score < best_said:
        return None
    only = sure and len(able) == 1 and does(tool) in (verb, None, "read") and score >= best_said
    return [(tool.name, one) for one in values] if score >= ENOUGH or score >= _DEED or only else None


def _ordered(tool: Tool, values: dict[str, Any]) -> dict[str, Any]:
    return {p.name: values[p.name] for p in tool.parameters if p.name in values}


def _fitting(tool: Tool, entry: Entry, known: dict[str, Any]) -> dict[str, Any]:
    """The required arguments that an entry gives: by the names of its fields, else its name as the first text."""
    needed = [p for p in tool.parameters if not p.optional and not p.choices]
    found = {p.name: value for p in needed if (value := _field(p, entry)) is not None}
    if found:
        return found
    label = next((entry.fields[n] for n in ("", "name", "title") if n in entry.fields), None)
    first = next((p for p in needed if p.type == "string" and (p.name not in known or "" in entry.fields)), None)
    return {} if first is None or not isinstance(label, str) or named(first, ("id",)) else {first.name: label}


def _field(p: Parameter, entry: Entry) -> Any:
    """The field of an entry that a parameter means, by its name, or by its kind if no other is of this kind."""
    own = {*own_parts(p)}
    for name, value in entry.fields.items():
        parts = {*parts_of(name)}
        code = bool(parts) and parts <= own | {"id", "number"} and not parts.isdisjoint(own)
        if code and (fits := _as(p, value)) is not None:
            return fits
    alike = [value for name, value in entry.fields.items() if name and p.kinds[:1] == parameter(name).kinds[:1] != ()]
    return _as(p, alike[0]) if len(alike) == 1 and not own & SETS["codes"] else None


def _as(p: Parameter, value: Any) -> Any:
    """A value as a parameter takes it; ``None`` if it does not."""
    if p.type in NUMERIC:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return value if whole or (p.type == "number" and isinstance(value, float)) else None
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
        return _as(p, listed[0].fields.get(p.name)) if len(listed) == 1 else None
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
    if not known and not SETS["refers"] & message.at.keys():
        return ""
    other = best(prompt.tools, message)
    if other not in (tool, None) and not (known and QUESTION.match(core.lower()) and does(other) != "read"):
        return ""
    idle = STOP | names | {str(v).lower() for v in before[-1].arguments.values()} | SETS["no value"]
    idle |= SETS["plain verbs"]
    new = fill(tool, Message(core)).values
    measured = {p.name for p in tool.parameters if p.choices or p.kinds[:1] in (("unit",), ("currency",))}
    if any(
        not {*plain(str(v)).split()} <= idle | (UNITS.keys() if k not in measured else set()) for k, v in new.items()
    ):
        return ""
    return _said(entries(prompt), {stem(w) for w in said})


def _asking(p: Parameter, m: Message) -> bool:
    """Whether a search would be for a question that only a result makes clear: *who did they beat?*"""
    return p.kinds[:1] == ("query",) and not SETS["he or she"].isdisjoint(m.at)


def _said(listed: list[Entry], said: set[str]) -> str:
    """The fields of the only entry that a question names, or all of them; or the texts of the entries."""
    if len(listed) == 1 and "" not in listed[0].fields:
        fields = {" ".join(parts_of(name)) or name: value for name, value in listed[0].fields.items()}
        asked = {name: value for name, value in fields.items() if said & {stem(w) for w in name.split()}} or fields
        return f"The result says: {', '.join(f'{name} {value}' for name, value in asked.items())}."[:_ANSWER]
    return f"The result says: {'; '.join(entry.text.strip(' .') for entry in listed)}."[:_ANSWER]


# -- calculations ------------------------------------------------------------------------------------------------------


def reckoned(prompt: Prompt, text: str) -> str:
    """A message that continues a calculation with the last result's number: *divide that by 6*, *plus 8*."""
    last = results(prompt)
    number = last[0].strip() if len(last) == 1 else ""
    if not _NUMBER.fullmatch(number):
        return text
    begun = _REST.match(text)
    whole = f"{number} {text[begun.end() :]}" if begun else _THAT.sub(number, text, count=1)
    asked = without_lead(whole)
    spoken = plain(asked).split()[:1]
    sums = any(True for s in expressions(Message(asked)) if number in s.value or s.last) or {*spoken} & SETS["reckons"]
    return whole if whole != text and sums else text
