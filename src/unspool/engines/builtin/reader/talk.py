"""Answers in words: small talk, questions about the model, and requests beyond it."""

import re
from typing import Final

from .fill import fill
from .message import Message
from .prompt import Prompt, Tool
from .remarks import tells
from .scores import ENOUGH, asked_for, best, does, scores
from .spans import dates
from .words import (
    ABLE,
    ABOUT,
    CLOSING,
    GENERIC,
    INTRODUCTION,
    KNOWLEDGE,
    LEAD,
    QUESTION,
    SETS,
    SOMEWHERE,
    STARTERS,
    STOP,
    TALK,
    WRITE,
    first_word,
    parts_of,
    plain,
    small_talk,
    stem,
    without_lead,
)

SELF: Final = "I am unspool's small built-in model"
BEYOND: Final = f"{SELF}, made to call tools: that is beyond me."
NO_TOOLS: Final = f"{SELF}: I can only call tools and answer from their results, and there are no tools here."
ENGLISH: Final = f"{SELF} and understand only English."
NO_FIT: Final = f"{SELF}: I can only call tools and answer from their results, and none of the tools here fits."
_NAME: Final = re.compile(r"\b[a-z]+ (?!I\b)[A-Z]")
"""A capitalized word inside a sentence: in *and to Nice?* it is a name."""
_LONGEST: Final = 8
"""The most words of a phrase of small talk."""
_FEW: Final = 6
"""The words of a short remark, and one more."""
_PARTS: Final = re.compile(r"[.!;,:…]+(?:\s+|$)|\s+(?:and|but|(?<![ms] )so|because|since)\s+|\s+[-–—]\s+")
_EXCLAIMED: Final = re.compile(
    r"\W*(?:what an? |such an? |so |how |never |thank god|(?:\w+ ){0,2}(?:times|again|day)\W*$)"
)
_SIGHED: Final = re.compile(r"\W*(?:(?:what|such) an? |thank god)")
"""An exclamation that asks for nothing: *what a day*."""
_ASKS: Final = re.compile(
    r"\b(?:please|pls|plz|can you|could you|would you|will you|can i|could i|need|wants?|wanna|let's|lets|should"
    r"|you can|how (?:many|much|do)|tell me|show me|give me|remind|i'd|would like|looking for|out of|make sure"
    r"|(?:how|what) about|bored)\b"
)
"""Words with which a statement asks for something."""
_TAG: Final = re.compile(
    r"(?i)(?:,? (?:isn['’]?t|wasn['’]?t) (?:it|that)(?: \w+)?|, (?:right|huh|innit|don['’]?t you think))\W*\?\W*$"
)
"""A question at the end of a statement: *nice weather, isn't it?*"""
_MORE: Final = re.compile(r"[.?!]\s+\w")
_PRAISE: Final = re.compile(
    r"(?:you're|you are|that's|that is|that was) (?:an?|the|my|such|so|very|really|too) (?:\w+ ){0,2}\w+"
)
_APART: Final = re.compile(r"\W*(?!(?i:ok|yes|yeah|no\b|so\b|well))\w+[,.!]+\s+[^A-Z]\S*(?: \S+)?$")
"""A reaction before a word or two: *ugh, typical Norway*."""
_CODE: Final = re.compile(r"[#@/_]|\b(?=\w*\d)(?=\w*[A-Z])[\w-]{4,}|\d{4}")
_MEASURE: Final = re.compile(r"(?i)\W*how (?:many|much|old|tall|big|far|long|high|deep|fast|heavy|hot)\b")
"""A question for a quantity, which no tool answers that shares no word with it."""
_ORDERED: Final = re.compile(r"(?i)(?:order|book|schedule|reserve|request|post) (?:(?:me|us) )?(?:an?|some) ")
"""What is ordered and not yet known, although a tool is named after it: *order me a pizza*."""
_SHOWN: Final = 8
"""The most items of an answer that lists tools."""
_LATIN: Final = "\u02ff"
"""The last letter of Latin script without its rare extensions."""


def talk(text: str, words: list[str]) -> str:
    """The answer to small talk, even in several phrases (*ok, thanks*); empty if a message contains more."""
    if not words:
        return TALK["ok"] if len(text) < 8 else ""
    if (words[0] in SETS["goes on"] and _NAME.search(text)) or '"' in text:
        return ""
    answer = ""
    i = 0
    while i < len(words):
        end = min(len(words), i + _LONGEST)
        j = next((j for j in range(end, i, -1) if small_talk(" ".join(words[i:j]))), None)
        if j is None:
            if answer and _PRAISE.fullmatch(" ".join(words[i:])):
                return answer
            if INTRODUCTION.fullmatch(" ".join(words[i:])) and (answer or words[i] == "my"):
                return answer or TALK["hi"]
            if words[i] not in SETS["talk between"]:
                return ""
            i += 1
            continue
        said = small_talk(" ".join(words[i:j]))
        answer = said if not answer or said in CLOSING else answer
        i = j
    return answer


def remark(tools: tuple[Tool, ...], text: str) -> str:
    """The answer to a message that only tells what happened (*I spent the weekend in bed, never again*); else empty.

    What happened is asked for only by a tool that records it.
    """
    told = _TAG.sub("", text)
    few = len(told.split()) < _FEW and first_word(told) in SETS["reactions"]
    if told != text and (few or _SIGHED.match(told.lower())):
        return TALK["ok"]  # *nice weather, isn't it?*
    low = text.lower().replace("’", "'")
    if "?" in text or '"' in text or _ASKS.search(low) or _CODE.search(text):
        return ""
    if any(not t.parameters and not (t.name_words - GENERIC).isdisjoint(low.split()) for t in tools):
        return ""  # there's a problem with my *billing*
    parts = [part for part in _PARTS.split(low) if plain(part)]
    remarks = list(map(tells, parts))
    small = [
        bool(talk(part, said := plain(part).split())) or {*said} <= SETS["reactions"] or bool(_EXCLAIMED.match(part))
        for part in parts
    ]
    sighed = any(map(_SIGHED.match, parts))
    if not (any(remarks) or sighed) or not all(a or b for a, b in zip(remarks, small, strict=True)):
        return ""
    asked = best(tools, Message(text))
    filled = fill(asked, Message(text)) if asked else None
    given = " ".join(map(str, filled.values.values())) if filled and len(filled.values) > 1 else ""
    clear = any(c.isupper() or c.isdigit() for c in given) or any(dates(Message(given)))
    if filled and not filled.missing and clear:
        return ""  # *I'm sick from Monday to Friday*
    records = asked is not None and parts_of(asked.name)[:1] and parts_of(asked.name)[0] in SETS["records what was"]
    return "" if records else TALK["ok"]


def lives(text: str, words: list[str]) -> bool:
    """Whether a question is about the model's own life: *do you like music yourself?*, *have you ever been there?*"""
    pair = words[1:2] == ["you"] and words[0] in ("do", "did", "have", "are")
    life = words[2:3] and words[2] in SETS["the life of somebody"]
    asked = not {"favourite", "favorite", "opinion", "hobby", "hobbies"}.isdisjoint(words) and "your" in words[:3]
    alone = not _CODE.search(text) and '"' not in text and not _MORE.search(text)
    return bool(((pair and (life or "yourself" in words)) or asked) and alone)


def reaction(tools: tuple[Tool, ...], text: str, words: list[str]) -> str:
    """The answer to a reaction to the previous answer (*oh wow, that's cold*); empty if a message asks for more."""
    asks = SETS["goes on"] | (STARTERS - SETS["mere"])
    large = any(w[0].isupper() and not w.startswith("I") for w in text.split()[1:])
    each = [plain(part).split() for part in _PARTS.split(text)]
    begun = {next((w for w in said if w not in SETS["reactions"]), "") for said in each}
    if begun & SETS["imperatives"] or any(begun & {*parts_of(t.name)[:1]} for t in tools):
        return ""
    if words[0] not in SETS["reactions"] or large or not asks.isdisjoint(words[1:]) or any(map(str.isdigit, text)):
        return ""
    return TALK.get(words[0], TALK["ok"])


def itself(prompt: Prompt, text: str, words: list[str]) -> tuple[str, str] | None:
    """The answer, and the reasoning, to questions about the model."""
    if len(words) <= 9 and any(_spoken(p, words) for p in ABOUT):
        return f"{SELF}. I can call tools and answer from their results.", "This is about me."
    if len(words) <= 8 and any(_spoken(p, words) for p in ABLE) and not scores(prompt.tools, Message(text)):
        if not prompt.tools:
            return NO_TOOLS, "I have no tools."
        names = [t.name for t in prompt.tools]
        if len(names) > _SHOWN:
            names[_SHOWN - 1 :] = [f"{len(names) - _SHOWN + 1} more"]
        return f"{SELF}. I can call these tools: {listed(names)}.", "I name my tools."
    return None


def _spoken(phrase: str, words: list[str]) -> bool:
    said = " ".join(words)
    return f" {phrase} " in f" {said} " if " " in phrase else phrase == said


def listed(names: list[str]) -> str:
    """Names with commas and an *and*."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def refused(tools: tuple[Tool, ...], text: str, words: list[str]) -> tuple[str, str] | None:
    """The answer, and the reasoning, if no tool fits; ``None`` if one may."""
    if not tools or not words:
        return None if tools else (NO_TOOLS, "I have no tools.")
    start = 0
    while lead := LEAD.match(text, start):
        start = lead.end()
    core = plain(text[start:]).split() or words
    found = scores(tools, Message(text))
    if max(found.values(), default=0.0) >= ENOUGH:
        return None
    named_so = core == words[-1:] and core[0] not in SETS["imperatives"] | STARTERS
    if named_so and talk(text, words[:-1]) == TALK["hi"]:
        return TALK["hi"], "This is small talk. No tool is needed."  # *hello house*
    if _foreign(words):
        return ENGLISH, "This is not English."
    if not WRITE.isdisjoint(core[:5]):
        return BEYOND, "No tool is for this."
    if words[0] in SETS["reactions"] and _APART.match(text) and not QUESTION.match(core[0]) and not _is_task(core):
        return TALK["ok"], "This is small talk. No tool is needed."
    order = core[0] in SETS["imperatives"] | SETS["changes"] and not QUESTION.match(core[0])
    able = [t for t in tools if t.name in found and not unable(t, text)]
    if not able and order:
        return NO_FIT, "No tool fits."
    asked = asked_for(Message(text))
    searches = any("search" in (*t.concepts[0], *t.concepts[1]) and {*t.concepts[0]} <= {"search"} for t in tools)
    strange = len(words) > 2 and STOP.isdisjoint(words)
    somewhere = SOMEWHERE.search(text) is not None
    knowledge = bool(KNOWLEDGE.match(" ".join(words))) and not somewhere
    task = _is_task(core)
    personal = bool(QUESTION.match(core[0])) and not {"you", "your", "yourself"}.isdisjoint(core)
    chat = words[0] in SETS["chat"] or personal
    vague = not asked and not searches and len(words) > 2 and not somewhere and not strange
    unknown = knowledge and not searches and (asked <= SETS["knowing"] or words[0] in SETS["wondering"])
    unknown |= not found and not searches and bool(_MEASURE.match(text)) and SETS["personal"].isdisjoint(words)
    others = bool(asked) and not any(_shares(t, words) or asked & {*t.concepts[0], *t.concepts[1]} for t in tools)
    if others and not (searches or unknown or chat) and (order or QUESTION.match(core[0])):
        return NO_FIT, "No tool fits."
    if any(not any(t.concepts) for t in tools) and not (chat or unknown) and WRITE.isdisjoint(words[:4]):
        return None  # the purpose of a tool is unknown, and may be this
    if not WRITE.isdisjoint(words[:4]) or ((chat or vague) and not task) or unknown:
        return BEYOND, "No tool is for this."
    return (NO_FIT, "No tool fits.") if strange or knowledge or asked or vague else None


def _foreign(words: list[str]) -> bool:
    """Whether more words belong to another language or script than to common English."""
    english = sum(w in STOP for w in words)
    return sum(w in SETS["not English"] or any(c.isalpha() and c > _LATIN for c in w) for w in words) > english


def _shares(tool: Tool, words: list[str]) -> bool:
    """Whether a word of a message names or describes a tool or a parameter."""
    own = tool.name_words | tool.described | {stem(w) for p in tool.parameters for w in parts_of(p.name)}
    return any(stem(w) in own - GENERIC for w in words if w not in STOP)


def unable(tool: Tool, text: str) -> bool:
    """Whether a tool only reads what a message wants changed: *delete user 17*, *buy 10 shares*."""
    verb = first_word(text)
    known = tool.name_words | tool.described | {w for p in tool.parameters for c in p.choices for w in parts_of(str(c))}
    unknown = " me " not in f"{text[:20]} " and stem(verb) not in known and verb not in known
    changes = verb in SETS["changes"] and (unknown or _ORDERED.match(without_lead(text)))
    return bool(changes) and does(tool) == "read"


def _is_task(words: list[str]) -> bool:
    """Whether words ask to do something: they begin with a verb instead of a question word."""
    return words[0] in STARTERS and not QUESTION.match(words[0])
