"""Follow-ups that lean on the last call or answer, in words that say everything: *the day after*, *yes, do that*,
*divide that by 6*, *how many miles is that?*"""

import re
from datetime import date, timedelta
from typing import Any, Final

from .choices import canonical
from .message import Message
from .prompt import Prompt, Turn
from .results import entries, results
from .spans import expressions
from .words import CURRENCIES, DAYS, OPERATOR, QUESTION, SETS, UNITS, parts_of, plain, stem, without_lead

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_TWICE: Final = re.compile(r"(\d{4}-\d\d-\d\d)\W+\1")
_SHIFTS: Final[tuple[tuple[re.Pattern[str], int], ...]] = tuple(
    (re.compile(rf"(?i)\b(?:{words})\b(?!\s+(?:of|tomorrow|yesterday)\b)"), days)
    for words, days in (
        (r"(?:the |that )?same (?:day|date)|that (?:same )?(?:day|date)", 0),
        (r"(?:on )?the (?:next|following) day|(?:(?:the|a|one) )?day (?:after(?: that)?|later)", 1),
        (r"(?:on )?the previous day|(?:(?:the|a|one) )?day (?:before(?: that)?|earlier)", -1),
        (r"(?:(?:the|a|one) )?week (?:after(?: that)?|later)", 7),
        (r"(?:(?:the|a|one) )?week (?:before(?: that)?|earlier)", -7),
    )
)
"""Days relative to the one of the last call, and how many days they are away."""
_OF_MONTH: Final = re.compile(r"(?i)\b(?:the )?(\d{1,2})(?:st|nd|rd|th)\b(?!\s+(?:of\b|[a-z]*(?:street|avenue|floor)))")
"""A day of the last call's month: *the 23rd*."""
_MONTHS: Final = re.compile(r"(?i)\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)")
_OFFER: Final = re.compile(
    r"(?i)\b(?:(?:do|would) you (?:want|like)(?: me)? to|(?:shall|should|can|may) i|want me to)\s+([^?.!]{3,160})\?\W*$"
)
"""What the last answer offers to do."""
_YES: Final = re.compile(
    r"(?i)\W*(?:(?:yes|yep|yeah|yup|sure|ok|okay|please|absolutely|definitely|of course|go ahead|go for it"
    r"|do (?:it|that|so)|sounds good|right|exactly|that would be (?:great|nice|good)|thanks|thank you|and|then"
    r"|you can)\b\W*)+"
)
_OF_NUMBERS: Final = frozenset(("currency", "unit", "units"))
_NUMBER: Final = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")
_MEASURED: Final = re.compile(r"(?i)\W*(-?\d{1,15}(?:\.\d{1,15})?)\s*(?:degrees?\s+)?([a-z°]{1,20})\W*")
_THAT: Final = re.compile(r"(?i)\b(?:that|it|this|the (?:result|answer|sum|total))\b")
_REST: Final = re.compile(rf"(?i)^\W*(?:(?:and|then|now|ok|okay|so)\b[\s,]*)*(?=(?:{OPERATOR})(?!\w).*\d)")
_ORDER: Final = re.compile(
    r"(?i)\W*(?:(?:and|then|now|ok|okay|please|can you)\b[\s,]*)*(?P<verb>add|subtract|multiply|divide)"
    r" (?P<a>[\w.]{1,20}) (?:by|with|to|from|and) (?P<b>[\w.]{0,20}\w)(?:,? please)?\W*"
)
_WANTED: Final = re.compile(
    r"(?i)^\W*(?:(?:and|ok|okay|so|hm+|please|(?:can|could) you)\b[\s,]*)*"
    r"(?:(?:how (?:many|much)|what)(?: is| are|'s) (?:that|it) in ([a-z]{1,20})|how many ([a-z]{1,20}) (?:is|are) "
    r"(?:that|it)|(?:convert|turn|change|give(?: me)?|show(?: me)?|tell me|say) (?:that|it) (?:in|into|to) "
    r"([a-z]{1,20}))(?:,? please)?\W*$"
)
"""A question for the last result in another unit."""
_COMPARED: Final = re.compile(
    r"(?i)\W*(?:(?:please|can you|could you)\s+)?"
    r"(?:compare\s+(?P<a>.{1,60}?)\s+(?:to|with|against|and|vs\.?|versus)"
    r"|how do(?:es)? (?P<b>.{1,60}?) compare (?:to|with|against)"
    r"|(?P<c>\w[^\s,]*(?: [^\s,]+){0,2}?),?\s+(?:vs\.?|versus))"
    r"\s+(?P<d>.{1,60}?)\W*"
)
"""Two things to compare."""
_CLOCKS: Final = re.compile(
    r"(?i)^\W*(?:when|if) it(?:'s| is) (\d[\w:.]{0,6}(?: [ap]m)?) in ([\w .'-]{1,40}), "
    r"what(?:'s| is)?(?: the)? time(?: is it)? in ([\w .'-]{1,40})\W*$"
)
"""A question for a time of one place in another."""
_MEASURES: Final = re.compile(r"(?i)(?<!between )(?<!from )\b(\d[\d.]{0,9}) and (\d[\d.]{0,9}) ([a-z]{1,20})\b")
"""Two numbers with one unit."""
_COUNT: Final = re.compile(r"(?i)\b(?:two|2) ([a-z]{3,20}s)\b[,:]?(?: (?:for|of|at|one))*\s*$")
"""How many things there are, before their two numbers."""
_DONE: Final = re.compile(
    r"(?i)\W*(?:(?P<a>[^,.?!]{2,40}?) (?:is|are|got) (?:done|finished|completed)"
    r"|(?:i(?:'m| am|'ve| have)? )?(?:just )?(?:finished|completed|done with) (?P<b>[^,.?!]{2,40}))[.!]*"
)
"""What a list of tasks has no longer: *the laundry is done*."""


def reworded(prompt: Prompt, before: list[Turn], text: str) -> str:
    """A message with the offer that it accepts, with dates in place of days relative to that of the last call, and with
    what it compares or says to be done in the words that ask for it."""
    text = _CLOCKS.sub(r"convert \1 from \2 to \3", text) if _converts(prompt) else text
    if (found := _ORDER.fullmatch(text)) and not any(found["verb"].lower() in t.name_words for t in prompt.tools):
        text = _operated(prompt, text) if found["a"][0].isdigit() and found["b"][0].isdigit() else text
    text = _each_measured(prompt, text)
    return _done(prompt, _compared(prompt, before, _dated(before, _in_unit(prompt, _accepted(prompt, text)))))


def _in_unit(prompt: Prompt, text: str) -> str:
    """*In fahrenheit*, for a question for the last result in a unit, if no tool converts and one takes the unit."""
    found = _WANTED.match(text)
    unit = next(filter(None, found.groups()), "").lower() if found else ""
    choices = {canonical(str(c)) for t in prompt.tools for p in t.parameters for c in p.choices}
    takes = UNITS.get(unit) in choices or any(p.kinds[:1] == ("unit",) for t in prompt.tools for p in t.parameters)
    return f"in {unit}" if unit in UNITS and takes and not _converts(prompt) else text


def _converts(prompt: Prompt) -> bool:
    return any("convert" in parts_of(t.name) or "convert" in t.name_words for t in prompt.tools)


def _compared(prompt: Prompt, before: list[Turn], text: str) -> str:
    """*Compare A and B*, for *A versus B*, and for *compare it to B* after a call for A."""
    found = _COMPARED.fullmatch(text)
    compares = any("compare" in t.name_words for t in prompt.tools)
    if not found or (found["c"] and (QUESTION.match(found["c"].lower()) or not compares)):
        return text
    things = [found["a"] or found["b"] or found["c"], found["d"]]
    said = [v for turn in before[-1:] for v in turn.arguments.values() if isinstance(v, str)]
    if len(said) == 1:
        things = [said[0] if thing.lower() in SETS["it"] else thing for thing in things]
    return "compare {} and {}".format(*things)


def _each_measured(prompt: Prompt, text: str) -> str:
    """*Timers for 5 minutes and 10 minutes*, for *two timers, 5 and 10 minutes*."""
    found = _MEASURES.search(text)
    if not found or found[3].lower() not in UNITS:
        return text
    counted = _COUNT.search(text, 0, found.start())
    if counted and any(stem(counted[1].lower()) in t.name_words for t in prompt.tools):
        text = f"{text[: counted.start()]}{counted[1]} for {text[found.start() :]}"
    return _MEASURES.sub(r"\1 \3 and \2 \3", text)


def _done(prompt: Prompt, text: str) -> str:
    found = _DONE.fullmatch(text)
    able = any({"complete", "finish", "done"} & t.name_words for t in prompt.tools)
    return f"mark {found['a'] or found['b']} as done" if found and able else text


def _accepted(prompt: Prompt, text: str) -> str:
    """What the last answer offered to do, if a message only agrees."""
    last = prompt.turns[-2] if len(prompt.turns) > 1 else None
    offer = _OFFER.search(last.text) if last is not None and last.role == "assistant" else None
    return offer[1] if offer and _YES.fullmatch(text) and plain(text) not in ("thanks", "thank you", "right") else text


def _dated(before: list[Turn], text: str) -> str:
    given = {v for turn in before for v in turn.arguments.values() if isinstance(v, str)}
    days = {day for v in given if (day := _day(v)) is not None}
    if len(days) != 1:
        named = [v for v in given if v.lower() in DAYS]
        return _SHIFTS[0][0].sub(named[0], text) if len(named) == 1 and not days else text
    day = days.pop()
    for words, shift in _SHIFTS:
        text = words.sub((day + timedelta(shift)).isoformat(), text)
    text = _TWICE.sub(r"\1", text)
    if _MONTHS.search(text):
        return text

    def numbered(found: re.Match[str]) -> str:
        try:
            return day.replace(day=int(found[1])).isoformat()
        except ValueError:  # no such day in this month
            return found[0]

    return _OF_MONTH.sub(numbered, text)


def _day(value: str) -> date | None:
    try:
        return date.fromisoformat(value) if _DAY.fullmatch(value) else None
    except ValueError:  # 2024-02-31
        return None


# -- calculations ------------------------------------------------------------------------------------------------------


def reckoned(prompt: Prompt, text: str) -> str:
    """A message that continues a calculation with the last result's number: *divide that by 6*, *plus 8*.

    A question for the number in another unit becomes a conversion, if a tool converts.
    """
    number, unit = measure(prompt)
    if not number:
        return text
    wanted = _WANTED.match(text)
    to = next(filter(None, wanted.groups()), "").lower() if wanted else ""
    if _converts(prompt) and any(to in known and unit in known for known in (UNITS, CURRENCIES)):
        return f"convert {number} {unit} to {to}"
    text = _operated(prompt, text)
    begun = _REST.match(text)
    whole = f"{number} {text[begun.end() :]}" if begun else _THAT.sub(number, text, count=1)
    asked = without_lead(whole)
    spoken = plain(asked).split()[:1]
    others = any(map(str.isdigit, text)) or {*spoken} & SETS["reckons alone"]
    sums = any(True for s in expressions(Message(asked)) if number in s.value or s.last) or {*spoken} & SETS["reckons"]
    return whole if whole != text and sums and others else text


def _operated(prompt: Prompt, text: str) -> str:
    """An order to calculate, as a calculation if a tool takes one: *divide that by 9*, *that / 9*."""
    found = _ORDER.fullmatch(text)
    if not found or not any(p.kinds[:1] == ("expression",) for t in prompt.tools for p in t.parameters):
        return text
    sign = {"divide": "/", "multiply": "*", "add": "+", "subtract": "-"}[found["verb"].lower()]
    one, other = (found["a"], found["b"]) if sign in "/*" or " and " in text else (found["b"], found["a"])
    return f"{one} {sign} {other}"


def measure(prompt: Prompt) -> tuple[str, str]:
    """The only number of the last result, and its unit or currency: ``42``, ``573 km``, ``{"distance_km": 573}``; else
    empty."""
    last, listed = results(prompt), entries(prompt)
    if len(last) != 1 or len(listed) != 1:
        return "", ""
    numbers: list[tuple[str, Any]] = [
        (k, v)
        for k, v in listed[0].fields.items()
        if isinstance(v, (int, float)) and not isinstance(v, bool) and SETS["codes"].isdisjoint(parts_of(k))
    ]
    if len(numbers) == 1 and _NUMBER.fullmatch(str(numbers[0][1])):
        [(name, value)] = numbers
        said = (w for w in reversed(parts_of(name)) if w in UNITS or w in CURRENCIES)
        coin = (str(v).lower() for k, v in listed[0].fields.items() if not _OF_NUMBERS.isdisjoint(parts_of(k)))
        return str(value), next(said, next(coin, ""))
    written = last[0].strip().strip('"')
    if _NUMBER.fullmatch(written):
        return written, ""
    measured = _MEASURED.fullmatch(written)
    return (measured[1], measured[2].lower()) if measured else ("", "")
