"""Words that only say more about a request, and hold no value: remarks, *i think the vpn is flaky*, and the beginnings
of relative clauses, recipes *that take* 30 minutes."""

from typing import Final

from .filling import Filling
from .message import Message
from .words import IRREGULAR, LEAD, SETS, STARTERS, plain

_ENDS: Final = (".", "?", "!", ";", "\u2014", ",", "(", ")")
_SUBJECT: Final = 6
"""The most words of a subject with its verb."""


def remarks(f: Filling) -> None:
    """Take the words of remarks that no value has yet, and of relative clauses before a number or a value."""
    m = f.message
    for i in range(1, len(m) - 2):
        verb = m.words[i + 1].low
        if (
            m.has(i, SETS["relative"])
            and verb.removesuffix("s") in SETS["plain verbs"] | SETS["holds"]
            and (m.taken[i + 2] or m.has(i + 2, SETS["function"]))
        ):
            m.take(m.span(i, i + 2))
            f.remarked = True
    said = segments(m)
    asking = [s for s in said if asks(m, *s)]
    if not asking or any(m.has(i, SETS["referring"]) and not m.taken[i] for a, b in asking for i in range(a, b)):
        return
    text = any(p.kinds[:1] == ("body",) for p in f.left)
    for first, last in said:
        behind = text and first > asking[0][0] and not m.has(first - 1, (".", "?", "!"))
        if not behind and tells(m, first, last):
            m.taken[first:last] = [True] * (last - first)
            f.remarked = True


def segments(m: Message) -> list[tuple[int, int]]:
    """The parts of a message between marks."""
    found: list[tuple[int, int]] = []
    first = 0
    for i in range(len(m) + 1):
        if i == len(m) or (m.words[i].low in _ENDS):
            if i > first:
                found.append((first, i))
            first = i + 1
    return found


def asks(m: Message, first: int, last: int) -> bool:
    """Whether a part begins as requests do."""
    text = m.said(first, last)
    at = 0
    while found := LEAD.match(text, at):
        at = found.end()
    words = plain(text[at:]).split()[:1]
    if words and words[0] in (STARTERS | SETS["imperatives"] | SETS["verbs"]) - SETS["tells"]:
        return True
    return at > 0 and not tells(m, first, last)


def tells(m: Message, first: int, last: int) -> bool:
    """Whether a part only states something: *it's too dark*, *my sister is here*, *i think the vpn is flaky*."""
    words = [w.low for w in m.words[first:last] if w.low[0].isalnum()]
    while words and words[0] in SETS["reactions"] | {"and", "but", "because", "cause", "since"}:
        words = words[1:]
    if len(words) > 1 and words[0] in ("just", "only", "finally") and words[1].endswith(("ing", "ed")):
        return True  # *just testing this*
    if len(words) < 2 or LEAD.match(m.said(first, last)):
        return False
    if words[0] in SETS["says how it is"] or (words[0] in ("i", "we") and words[1] in SETS["thinks"]):
        return True
    if words[1] in ("have", "got", "need", "want"):
        return False  # *I have* eggs and spinach
    verbs = SETS["states of things"] | SETS["plain verbs"] | SETS["inverting"]
    statement = words[0] in SETS["tells"] or words[0] in SETS["subjects"]
    return statement and any(
        w in verbs or w in IRREGULAR or w.removesuffix("s") in verbs or w.endswith("ed") for w in words[1:6]
    )
