"""The parts of a message that each ask for a tool."""

import itertools
import re
from collections.abc import Iterator
from typing import Final

from .amounts import unit_of
from .fill import fill, lacks
from .filling import Filled, flat, is_cased, own_parts
from .fits import LONGEST, clear, fitting
from .message import Message, Span, identifies
from .prompt import NUMERIC, Tool
from .remarks import tells
from .scores import best, said_out
from .spans import codes, dates, expressions, numbers
from .words import (
    KINDS,
    LEAD,
    PREPOSITIONS,
    QUESTION,
    REGIONS,
    SETS,
    SPLIT,
    STARTERS,
    STOP,
    TALK,
    opening,
    parts_of,
    plain,
    stem,
    without_lead,
)

Clause = tuple[Tool, str]
_MOST: Final = 12
"""The most positions at which splitting a message is tried."""
_REFERRED: Final = frozenset(("it", "that", "this", "them"))
"""Words with which an order refers to earlier words."""
_APART: Final = 4
"""The number of words between the parts of a measure, minus one."""
_GREETING: Final = re.compile(r"(?i)^\W*(?:hi|hello|hey|ok|okay|so|well)\b[\s,.!]*")
_FEW: Final = 3
"""The most words of an exclamation."""
_PRONOUN: Final = 4
"""The number of first words among which an order has its pronoun."""
_LACKING: Final = re.compile(
    r"(?i)\b(?:i|we) (?:don't|don’t|dont|do not|can't|can’t|cannot|didn't) (?:remember|know|recall|have|find) "
    r"(?:my |our |the |an? )([^.,;!?]{1,40})(?:[.,;!?]|\bbut\b)"
)
_QUOTED: Final = re.compile(r'"[^"]*"')
_REGION: Final = re.compile(rf"[A-Z][\w'-]*, (?:[A-Z]{{2}}|(?i:{'|'.join(sorted(REGIONS, key=len, reverse=True))}))\b")
"""The end of a town's name, and its region: *San Jose, CA*, *Lyon, France*."""
_GIVEN: Final = re.compile(r"(?i)\W*(?:(?:i|we)(?: have|'ve)(?: got)?|given|suppose|there(?: is| are|'s)|my|our|an?)\b")
"""The beginning of what a question is about."""
_AND_THE: Final = re.compile(
    r"(?i)(.{8,}?),? and (?:also )?(?:(?:the|an?|for|in|of|to|about|what about|how about) ){0,2}"
    r"([^\W\d][\w'-]*(?: [\w'-]+)?)(?: too)?\W*"
)
"""A question, and a name at its end."""
_ANOTHER: Final = re.compile(r"(?i)(?:one|another(?: one)?) (?:of|for|from|to|in|at|with|called|named)\b")
REPEATING: Final = re.compile(
    r"(?i)\W*(?:(?:and|also|then|please|now)\W+)*(?:(?:do|try|repeat|check) )?"
    r"(?:the )?same(?: thing)?(?: again)? (?:for|in|with|to|at|on)\b"
)
"""The beginning of a part that repeats the call before it with another value: *do the same for Lima*."""
_SAME: Final = re.compile(
    r"(?i)\bthe same (?:day|date|time|place|city|room|person|account|order|month|week|year|amount)\b"
)
_TELLING: Final = re.compile(r"(?i)\s*(?:tell|let|inform|ask|remind) (?:her|him|them|everyone)\b")
"""The beginning of a message's text, after its recipient."""
_NEEDING: Final = re.compile(
    r"(?i)\W*(?:because |as |and )?(?:i|we)(?:'d| would)? (?:just |only |really )*(?:need|want|like)\b"
)
"""The beginning of a statement about what somebody needs."""
_REPORTING: Final = re.compile(
    r"(?i)\s*(?:i|we|he|she|they|it)\s+(?!need|want|would|have)(?:\w+ed|was|were|did|had|got|is|am|are)\b"
)
"""The beginning of a statement that asks for nothing: *I ordered it by mistake*."""


def repeats(part: str) -> bool:
    """Whether a part has values of the call before it: *and HAT271 the same day*."""
    return REPEATING.match(part) is not None or _SAME.search(part) is not None


def clauses(tools: tuple[Tool, ...], text: str) -> list[Clause]:
    """The tools that a message asks for, in order, each with the part of the message that does."""
    text = _without_lack(tools, text)
    parts = _parts(tools, text)
    message = Message(text)
    whole = best(tools, message)
    short = len(message) <= LONGEST
    if short and len({t.name for t, _ in parts}) < 2 and (referred := _without_order(tools, text)):
        return [referred]
    whole = whole or (fitting(tools, text) if not parts else None)
    if not parts:
        return [] if whole is None else [(whole, text)]
    if len(parts) == 2 and _wants(*parts[1]) and not lacks(*parts[0]):
        return parts[:1]
    asking = [t for t, part in parts if _recorded(t, part) or not (_tells_only(part) or _exclaims(t, part))]
    if len(parts) > 1 and len(asking) == 1:
        return [(asking[0], text)]  # *the gate is still open, could you shut it?*
    if whole is not None and len(parts) == 2 and whole is not parts[1][0] and _lists(whole, parts[0], text):
        return [(whole, text)]  # *send back SH-22 and SH-31 from order 7*
    if (
        whole is not None
        and len(parts) == 2
        and whole is parts[0][0]
        and _goes_on(parts[1])
        and fill(whole, message).several
    ):
        return [(whole, text)]  # *turn on the fan and the heater*, though a tool sets the heater
    if len(parts) == 2 and _GIVEN.match(text) and lacks(*parts[1]) and not lacks(tool := parts[1][0], text):
        return [(tool, text)]  # *I have a triangle with legs 6 and 8, how long is the hypotenuse?*
    if len(parts) == 2 and (refined := _refined(parts[0], parts[1], text)):
        return [refined]
    if len({tool.name for tool, _ in parts}) > 1:
        return parts
    cased = is_cased(message)
    if short and len(parts) == 1 and len(alike := _alike(*parts[0]) or _elliptical(*parts[0])) > 1:
        return alike
    each = [fill(tool, Message(part), cased=cased) for tool, part in parts]
    if _one_list(parts[0][0], each):
        return [(parts[0][0], text)]  # *merge a.pdf and b.pdf*
    repeated = [repeats(part) for _, part in parts]
    if len(parts) > 1 and all(
        (same or not f.missing) and (f.values or f.several) for same, f in zip(repeated, each, strict=True)
    ):
        return parts
    return [(whole or parts[0][0], _without_talk(text))]


def _refined(first: Clause, second: Clause, text: str) -> Clause | None:
    """A question and what only says how it is to be answered: *Will it rain in Rome? Give me 3 days*."""
    (tool, part), (better, more) = first, second
    akin = better is not tool and not {*tool.concepts[0]}.isdisjoint(better.concepts[0])
    alone = fill(better, Message(more))
    if not akin or not alone.missing:
        return None
    said = text if alone.values else part
    return None if lacks(better, said) else (better, said)


def _tells_only(part: str) -> bool:
    """Whether a part only states a fact, and asks for nothing: *the gate is still open*, *I've just left*."""
    greeted = _GREETING.sub("", part)
    first, comma, rest = greeted.partition(", ")
    return tells(greeted) or (bool(comma) and len(first.split()) <= _FEW and tells(rest) and not _orders(first))


def _lists(tool: Tool, first: Clause, text: str) -> bool:
    """Whether a message has all values of a tool, and its first part, which asks for nothing alone, the first member of
    a list."""
    filled = fill(tool, Message(text))
    several = any(isinstance(v, list) and len(v) > 1 and str(v[0]) in first[1] for v in filled.values.values())
    return several and not filled.missing and lacks(*first)


def _goes_on(second: Clause) -> bool:
    """Whether a part asks for nothing itself, so that it is the second of two things."""
    tool, part = second
    begins = opening(part)
    orders = begins in SETS["imperatives"] | tool.name_words or QUESTION.match(begins)
    return not orders and lacks(tool, part)


def _wants(tool: Tool, part: str) -> bool:
    """Whether a part only says what an answer is needed for: *I need her phone number*."""
    return _NEEDING.match(part) is not None and lacks(tool, part)


def _recorded(tool: Tool, part: str) -> bool:
    """Whether a statement says that what the tool records has happened: *I lent Azul to Marta*."""
    does = {stem(w) for w in plain(part).split()[:_FEW]} & {*parts_of(tool.name)[:1]}
    return bool(does) and not lacks(tool, part)


def _exclaims(tool: Tool, part: str) -> bool:
    """Whether a part is only a few words without a verb or a value: *too cold!*"""
    words = plain(part).split()
    asks = bool(words) and (words[0] in STARTERS | SETS["imperatives"] | tool.name_words or QUESTION.match(words[0]))
    return len(words) <= _FEW and not asks and lacks(tool, part)


def _without_order(tools: tuple[Tool, ...], text: str) -> Clause | None:
    """A message without the part that only says what to do with the rest: *..., put it on my list*."""
    cuts = [cut.span() for cut in SPLIT.finditer(text)][:_MOST]
    starts, ends = [0, *(b for _, b in cuts)], [*(a for a, _ in cuts), len(text)]
    for start, end in zip(starts, ends, strict=True):
        tool = _ordered(tools, text[start:end])
        rest = f"{text[:start]} {text[end:]}".strip(" ,.;")
        if tool is None or not rest or lacks(tool, rest):
            continue
        other = best(tools, Message(rest))
        if other in (None, tool) or not _orders(rest) or lacks(other, rest):
            return tool, rest
    return None


def _orders(part: str) -> bool:
    """Whether a part begins with a verb that asks."""
    return opening(without_lead(part)) in SETS["imperatives"]


def _ordered(tools: tuple[Tool, ...], part: str) -> Tool | None:
    """The tool of a part that has a verb, a pronoun, and otherwise only words that name the tool."""
    m = Message(without_lead(part))
    if not any(0 < i < _PRONOUN for w in _REFERRED & m.at.keys() for i in m.at[w]):
        return None
    tool = best(tools, m)
    if tool is None or not said_out(tool, m):
        return None
    verb = stem(opening(m.text))
    if any(verb in map(stem, own_parts(p)) for p in tool.parameters):
        return None  # *label it bug* is a value
    values = {w for p in tool.parameters for c in p.choices for w in str(c).lower().split("_")}
    return tool if values.isdisjoint(m.at) else None


def _alike(tool: Tool, text: str) -> list[Clause]:
    """The parts of a request that each have all required values of a tool: *multiply 6 by 4 and 12 by 9*."""
    message = Message(text)
    found: list[Clause] = []
    begin = 0
    words = message.words
    whole = [
        (words[s.first].start, words[s.last - 1].end) for s in (*numbers(message), *dates(message), *_measures(message))
    ]
    whole += [found.span() for found in _REGION.finditer(text)]
    if any(p.kinds[:1] == ("expression",) for p in tool.parameters):
        whole += _calculations(text)
    cuts = [cut.span() for cut in SPLIT.finditer(text)]
    cuts = [cut for cut in cuts if not any(a < cut[0] < b for a, b in whole)]
    for start, end in [*cuts[:_MOST], (len(text), len(text))]:
        part = text[begin:start]
        if part.strip(" .!?"):
            found.append((tool, part))
        begin = end
    said = [part for _, part in found]
    led = _led(said)
    found = [(tool, part) for part in led or _tailed(tool, said)] or found
    each = [fill(tool, Message(part)) for _, part in found]
    keys = each[0].values.keys()
    parallel = _parallel(tool, each) or (led and all(keys and not f.missing and f.values.keys() == keys for f in each))
    if not all(_whole(tool, part) for _, part in found) and not parallel:
        return []
    return [] if _one_list(tool, each) or _spread(tool, text, [part for _, part in found]) else found


def _elliptical(tool: Tool, text: str) -> list[Clause]:
    """A question and the same for another thing: *which family does the oboe belong to, and the marimba?*"""
    found = _AND_THE.fullmatch(text)
    texts = [p for p in tool.parameters if p.type == "string" and not p.choices and not p.optional]
    if found is None or len(texts) != 1 or not QUESTION.match(text.lstrip().lower()):
        return []
    filled = fill(tool, Message(found[1]))
    before, said, behind = found[1].partition(str(filled.values.get(texts[0].name)))
    if filled.missing or not said or not any(map(str.isalnum, behind)):
        return []
    return [(tool, found[1]), (tool, f"{before}{found[2]}{behind}")]


def _parallel(tool: Tool, each: list[Filled]) -> bool:
    """Whether all parts give the same arguments, and each another number or choice: *3 onions and 1 cucumber*."""
    if len(each) < 2 or any(f.missing or f.several for f in each):
        return False
    different = {p.name for p in tool.parameters if p.type in NUMERIC and p.name in each[0].values}
    single = [p for p in tool.parameters if (p.choices and p.type != "array") or p.type == "boolean"]
    different |= {p.name for p in single if len({repr(f.values.get(p.name)) for f in each}) > 1}
    same = all(f.values.keys() == each[0].values.keys() and len(f.values) > 1 for f in each)
    return same and bool(different)


def _led(parts: list[str]) -> list[str]:
    """The parts if all but the first begin with a preposition of the first, each with the words before it: *the
    humidity in the attic* and *in the garage*."""
    begun = set(map(opening, parts[1:]))
    lead = f" {next(iter(begun), '')} "
    at = parts[0].lower().rfind(lead)
    if len(begun) != 1 or not begun <= PREPOSITIONS.keys() or at < 0:
        return []
    return [parts[0], *(f"{parts[0][:at]} {part.lstrip()}" for part in parts[1:])]


def _tailed(tool: Tool, parts: list[str]) -> list[str]:
    """The parts if only the last has an end that all lack: *convert 20 eur* and *30 gbp to usd*."""
    tail = re.search(r"(?i) (?:in)?to [^,]*$", parts[-1])
    some = parts[:-1]
    if tail is None or not all(any(map(str.isdigit, part)) and lacks(tool, part) for part in some):
        return []
    return [*(f"{part}{tail[0]}" for part in some), parts[-1]]


def _one_list(tool: Tool, each: list[Filled]) -> bool:
    """Whether the parts only add members to a list: *vacuum the kitchen and the hallway*."""
    lists = {p.name for p in tool.parameters if p.type == "array"}
    if not each or not all(lists & f.values.keys() for f in each):
        return False
    rest = [{(k, repr(v)) for k, v in f.values.items() if k not in lists} for f in each]
    return len({k for k, _ in set().union(*rest)}) == len(set().union(*rest))


def _spread(tool: Tool, text: str, parts: list[str]) -> bool:
    """Whether each part has a member of one list: *run site.yml on db-1 and db-2*."""
    lists = [v for v in fill(tool, Message(text)).values.values() if isinstance(v, list)]
    return any(all(any(str(one) in part for one in v) for part in parts) for v in lists)


def _measures(m: Message) -> Iterator[Span]:
    """Measures of two parts: *1 hour and 30 minutes*."""
    for a, b in itertools.pairwise(numbers(m)):
        units = {unit_of(m, a), unit_of(m, b)} - {None}
        if len(units) > 1 and b.first - a.last < _APART:
            yield m.span(a.first, b.last)


def _whole(tool: Tool, part: str) -> bool:
    """Whether a part has a value with a clear form for each required parameter of a tool."""
    filled = fill(tool, m := Message(part))
    needed = [p for p in tool.parameters if not p.optional]
    if not needed or not all(p.name in filled.values for p in needed):
        return False
    said = [filled.values[p.name] for p in needed if not clear(p, filled.values[p.name], m)]
    return len(said) < len(needed) and all(isinstance(v, str) and v[:1].isupper() and v.isalpha() for v in said)


def _parts(tools: tuple[Tool, ...], text: str) -> list[Clause]:
    """The tool that each part asks for. A part that asks for none belongs to the previous part, or to the first."""
    quoted = [found.span() for found in _QUOTED.finditer(text)]
    cuts = [found.span() for found in SPLIT.finditer(text) if found.start() > 0 and found.end() < len(text)]
    whole = [*quoted, *_calculations(text)]
    cuts = [cut for cut in cuts if not any(a < cut[0] < b for a, b in whole)][:_MOST]
    found: list[tuple[Tool, int, int]] = []
    begin = first = 0
    ended = True
    bare = False
    for start, end in [*cuts, (len(text), len(text))]:
        part = text[begin:start]
        tool = best(tools, Message(part)) if part.strip() and not _idle(part) else None
        again = _ANOTHER.match(part) or REPEATING.match(part)
        if found and (again or (_SAME.search(part) and tool in (None, found[-1][0]))):
            found.append((found[-1][0], begin, start))
            begin, ended, bare = end, False, False
            continue
        if tool is not None and found and tool is not found[-1][0] and not ended and _names_only(part):
            tool = None  # the time in Tokyo and *London*
        if tool is not None and found and not _opens(tool, part, found[-1][0], ended=ended, bare=bare):
            tool = None
        if tool is not None:
            found.append((tool, begin if found else first, start))
        elif found:
            found[-1] = (*found[-1][:2], start)
        elif plain(part) in TALK:
            first = end
        begin, ended = end, bool(re.match(r"\s*[.?!;]", text[start:end]))
        bare = text[start:end].strip() == ","
    return [(tool, text[a:b]) for tool, a, b in found]


def _names_only(part: str) -> bool:
    """Whether a part is only a capitalized name."""
    words = part.split()
    return 0 < len(words) < _FEW and all(w[0].isupper() and w.strip(".?!").isalpha() for w in words)


def _calculations(text: str) -> list[tuple[int, int]]:
    """The ranges of calculations, since *3 plus 4* must not be split."""
    message = Message(text)
    return [(message.words[s.first].start, message.words[s.last - 1].end) for s in expressions(message) if s.last]


def _idle(part: str) -> bool:
    """Whether a part only asks for the answer: *and tell me what comes up*."""
    at = 0
    while found := LEAD.match(part, at):
        at = found.end()
    return plain(part[at:]).removeprefix("tell me ").removeprefix("show me ") in SETS["idle"]


def _without_lack(tools: tuple[Tool, ...], text: str) -> str:
    """A message without what it says that it lacks: *I don't know my email, my name is Mei Kovacs*."""
    found = _LACKING.search(text)
    rest = f"{text[: found.start()]}{text[found.end() :]}".strip() if found else ""
    names = {w for t in tools for p in t.parameters for w in own_parts(p)}
    return rest if found and rest and not names.isdisjoint(plain(found[1]).split()) else text


def _without_talk(text: str) -> str:
    """A message without small talk before its first sentence: *Morning! ...*"""
    found = re.match(r"[^.?!]{1,30}[.?!]\s+", text)
    return text[found.end() :] if found and plain(found[0]) in TALK else text


def _opens(tool: Tool, part: str, before: Tool, *, ended: bool, bare: bool) -> bool:
    """Whether a part begins its own request, instead of continuing a text of the previous part.

    Args:
        ended: whether a sentence ends before it.
        bare: whether only a comma precedes it.
    """
    at = 0
    while found := LEAD.match(part, at):
        at = found.end()
    said = plain(part).split()
    if not ended and tool is before and said and any(said[0] in (*own_parts(p), *p.choices) for p in tool.parameters):
        return False  # *..., message see you soon*, with read and *write scopes*
    if _tells(before, part) or _REPORTING.match(part) or _labels(before, part):
        return False
    if _TELLING.match(part) and any(p.kinds[:1] == ("body",) for p in before.parameters):
        return False
    if tool is not before and not ended and _adds(before, part[at:]):
        return False  # delete tmp.log and *old.log*
    verb = opening(part[at:])
    refers = (said[1:2] in (["it"], ["them"]) and not QUESTION.match(said[0])) or any(
        verb in own_parts(p) for p in before.parameters
    )
    missing = fill(tool, Message(part)).missing if refers and tool is not before else []
    known = [parts_of(p.name) for p in before.parameters] if verb in parts_of(tool.name)[:1] else []
    if any(parts_of(p.name) not in known for p in missing):
        return False  # *..., log it as food*, *..., start at 11 pm*
    if tool is before and any(p.type == "array" for p in tool.parameters) and not ended:
        return verb in STARTERS | SETS["imperatives"] and verb != "the"
    for begin in {0, at}:
        words = plain(part[begin:]).split()[:2]
        if words and (words[0] in STARTERS or any(stem(w) in tool.name_words for w in words if w not in STOP)):
            return True
    if tool.name == before.name:
        return False
    long = any(not {"body", "query", "subject"}.isdisjoint(p.kinds[:1]) for p in before.parameters if not p.choices)
    if not long and verb in SETS["imperatives"]:
        return True
    texts = [p for p in before.parameters if p.type == "string" and not p.choices]
    open_ = any({*p.kinds[:1]} & {"body", "query", "subject"} or not p.kinds for p in texts)
    body = any(p.kinds[:1] == ("body",) for p in texts)
    return not bare and (not open_ or (ended and not body))


def _adds(tool: Tool, part: str) -> bool:
    """Whether a part consists of just one more value for a tool."""
    filled = fill(tool, m := Message(part))
    return len(filled.values) == 1 and all(m.taken) and len(m) == 1 and identifies(m.words[0].low.replace(".", "_"))


def _labels(tool: Tool, part: str) -> bool:
    """Whether a part begins with a parameter's name and its value: *text "See you"*, *max_depth = 6*, *priority high*,
    or is a choice and the name: *high priority*."""
    m = Message(part)
    said = [w.low for w in m.words if w.low not in SETS["polite"]]
    for p in flat(tool).parameters:
        parts, choices = own_parts(p), {str(c).lower() for c in p.choices}
        end = len(parts)
        if not parts:
            continue
        if said[:end] == parts:
            counts = p.type in NUMERIC and any(map(str.isdigit, "".join(said[end : end + 1])))
            if counts or m.has(end, SETS["before a labelled value"] | choices):
                return True
        if said[:1] and said[0] in choices and said[1:] == parts:
            return True
    return False


def _tells(tool: Tool, part: str) -> bool:
    """Whether a sentence states a value for a tool: *The ticker is TSLA*."""
    words = [w for w in plain(part).split() if w not in SETS["before a label"]][:3]
    link = next((i for i, w in enumerate(words) if w in SETS["equals"]), 0)
    names = SETS["code names"]
    kinds = [
        (
            *own_parts(p),
            *(() if names.isdisjoint(own_parts(p)) else names),
            *KINDS.get(p.kinds[0] if p.kinds else "", ()),
        )
        for p in tool.parameters
    ]
    coded = not {s.value for s in codes(Message(part))}.isdisjoint(map(str, fill(tool, Message(part)).values.values()))
    named = {stem(w) for p in tool.parameters for w in own_parts(p)}
    about = coded and {stem(w) for w in words[:link]} <= tool.described | tool.nouns | named  # my *booking* is RZ81KD
    return link > 0 and (about or any({*words[:link]} <= {*some} for some in kinds))
