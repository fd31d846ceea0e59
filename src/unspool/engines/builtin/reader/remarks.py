"""Words that only say more about a request, and hold no value: remarks, *i think the vpn is flaky*, and the beginnings
of relative clauses, recipes *that take* 30 minutes."""

import re
from typing import Final

from .filling import Filling, named
from .message import Message
from .words import IRREGULAR, LEAD, SETS, STARTERS, STOP, plain

_ENDS: Final = (".", "?", "!", ";", "\u2014", ",", "(", ")")
_BEFORE_VERB: Final = re.compile(
    r"\W*(?:(?:sorry|oh|ugh|ah|wow|so|well|hey|yeah|ok)\s+)*"
    r"(?:(i|we|he|she|they|it|you|this|(?:my|our|his|her) [\w-]+(?: [\w-]+)?)\s+)?"
    r"(?:(?:just|finally|also|already|almost|really|totally|still|never|even)\s+)*"
)
"""What stands before the verb of a statement."""
_LIFE: Final = re.compile(
    r"\W*(?:(?:oh|ugh|wow|well|yeah|haha|lol|man|damn)\s+)*"
    r"(?:i've|we've|i have (?:been|just)|it's been|it has been|i was|we were|i am so|i'm so|i'm just|i'm really"
    r"|i (?:really |just |still )?(?:love|hate|like|enjoy|had|did|got|feel|think|guess|hope)\b(?! to\b)"
    r"|(?:my|our) [\w-]+(?: [\w-]+)? (?:is|are|was|were|has|have|had|finally has|just|still|always|never)\b"
    r"|(?:this|that|it|he|she|they) (?:was|were|had|did|has been)\b|(?:this|that|these|those) [\w-]+ (?:was|were)\b"
    r"|(?:i )?can't (?:sleep|wait|believe|stop)\b|(?:it |that |this )?(?:looks|sounds|seems|feels)\b"
    r"|(?:the|this|these|those|\w{3,}ing)(?: [\w'-]+){0,4} "
    r"(?:is|are|was|were) (?:such )?(?:an?|so|really|too|the best|the worst)\b"
    r"|(?:this is|that is|it is|it's|that's) (?:my|the first)\b)"
)
"""The beginning of a statement about somebody's life."""
_TYPED: Final = re.compile(r"\bi(?=(?:m|ve)\b)")
"""The beginning of *im* and *ive*, as people type them."""
_SHORT: Final = 4
"""The letters of words that only end as verbs of the past do: *need*, *feed*."""


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
            f.told.append(m.span(i, i + 2))
            m.take(f.told[-1])
    said = segments(m)
    asking = [s for s in said if asks(m, *s)]
    if not asking or any(m.has(i, SETS["referring"]) and not m.taken[i] for a, b in asking for i in range(a, b)):
        return
    text = any(p.kinds[:1] == ("body",) for p in f.left)
    for first, last in said:
        behind = text and first > asking[0][0] and not m.has(first - 1, (".", "?", "!"))
        if behind or not tells(m.said(first, last)):
            continue
        reason = next((p for p in f.texts() if named(p, ("reason",))), None)
        if reason is not None and first > asking[0][0] and m.free(m.span(first, last)):
            f.give_span(reason, m.span(first, last))  # cancel it, *I found it cheaper*
        else:
            f.told.append(m.span(first, last))
            m.take(f.told[-1])


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
    return at > 0 and not tells(text)


def tells(part: str) -> bool:
    """Whether a part of a message only states something: *it's too dark*, *i think the vpn is flaky*."""
    low = _TYPED.sub("i'", part.lower().replace("’", "'"))
    if _LIFE.match(low) or _happened(low):
        return True
    words = plain(part).split()
    while words and words[0] in SETS["reactions"] | {"and", "but", "because", "cause", "since"}:
        words = words[1:]
    if len(words) > 1 and words[0] in ("just", "only", "finally") and words[1].endswith(("ing", "ed")):
        return True  # *just testing this*
    if len(words) < 2 or LEAD.match(part):
        return False
    if words[0] in SETS["says how it is"] or (words[0] in ("i", "we") and words[1] in SETS["thinks"]):
        return True
    if words[1] in ("have", "got", "need", "want"):
        return False  # *I have* eggs and spinach
    verbs = SETS["states of things"] | SETS["plain verbs"] | SETS["inverting"]
    statement = words[0] in SETS["tells"] or words[0] in SETS["subjects"]
    behind = 1 + (words[0] in SETS["determiners"])  # no verb stands behind an article
    return statement and any(
        w in verbs or w.removesuffix("s") in verbs or _is_past(words[i:])
        for i, w in enumerate(words[:6])
        if i >= behind
    )


def _happened(part: str) -> bool:
    """Whether a part begins with a verb of the past, with its subject or without: *just finished my coffee*."""
    begun = _BEFORE_VERB.match(part)
    words = plain(part[begun.end() if begun else 0 :]).split()
    return _is_past(words, told=bool(begun and begun[1]))


def _is_past(words: list[str], *, told: bool = False) -> bool:
    """Whether words begin with a verb of the past, unlike *shipped orders*.

    Args:
        told: whether its subject precedes it.
    """
    past = words[:1] and (
        words[0] in IRREGULAR or words[0] in SETS["past"] or (words[0].endswith("ed") and len(words[0]) > _SHORT)
    )
    return bool(past) and (told or len(words) == 1 or words[1] in STOP | SETS["anyone"])
