"""The English that the reader knows, from ``words.json``, and how words are compared."""

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

_DATA: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("words.json").read_text(encoding="utf-8"))
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_JOINED: Final[dict[str, list[str]]] = {name: words.split() for name, words in _DATA["joined"].items()}
"""Names of commands that join several words."""
_DRAWN: Final = re.compile(r"([a-z])\1{2,}")
"""Letters that are drawn out: *heyyy*."""
_ROOT: Final = 4
"""The least letters that words of one family share."""
_OF_A_SHORT_ROOT: Final = ({"e", "ation"}, {"", "ation"})
"""The endings of two words that share a letter less: *cite*, *citation*."""
_ENDINGS: Final = (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("s", ""))


def _any_of(phrases: list[str]) -> str:
    return "|".join(map(re.escape, sorted(phrases, key=len, reverse=True)))


IRREGULAR: Final[dict[str, str]] = {form: base for base, *forms in map(str.split, _DATA["irregular"]) for form in forms}
"""Verbs by their irregular forms: *froze*."""


@lru_cache(maxsize=2**14)
def stem(word: str) -> str:
    """A word without the ending of its plural or participle, so that *emails* and *email* are the same."""
    if word in IRREGULAR:
        return IRREGULAR[word]
    if word != "times" and not word.endswith("ss"):
        for ending, instead in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                base = word[: len(word) - len(ending)] + instead
                doubled = ending in ("ing", "ed") and len(base) > 3 and base[-1] == base[-2] and base[-1] in "bgmnpt"
                return base[:-1] if doubled else base  # shipp
    return word


def parts_of(name: str) -> list[str]:
    """The words of a name: ``getWeather_byCity`` has four."""
    return [word for part in _PART.findall(name) for word in _JOINED.get(part.lower(), (part.lower(),))]


def initials(name: str) -> set[str]:
    """The acronyms of two to four letters of a name: ``list_pull_requests`` has *lpr*, *lp* and *pr*."""
    letters = "".join(part[0] for part in parts_of(name))
    return {letters[i : i + size] for size in (2, 3, 4) for i in range(len(letters) - size + 1)}


SETS: Final[dict[str, frozenset[str]]] = {name: frozenset(words) for name, words in _DATA["sets"].items()}
"""Words by their function."""
THINGS: Final = SETS["things"] - {"room"}
"""Nouns of things that are no place."""
DIMENSIONS: Final[dict[str, frozenset[str]]] = {
    name: frozenset(words.split()) for name, words in _DATA["dimensions"].items()
}
"""The adjectives of dimensions: 3 *wide*."""
DEEDS: Final[dict[str, str]] = {w: deed for deed, words in _DATA["deeds"].items() for w in words.split()}
"""The actions of verbs: ``read``, ``create``, ``delete``, ``update``."""
DERIVED: Final = frozenset(_DATA["derived"])
"""Endings that derive one word from another."""
STOP: Final = frozenset(_DATA["stop"])
"""Words that are not values."""
GENERIC: Final = frozenset(map(stem, _DATA["usual"]))
"""Words in tools' names that say nothing about the purpose."""

CONCEPTS: Final[dict[str, tuple[frozenset[str], tuple[str, ...]]]] = {
    concept: (frozenset([*d["words"], *d.get("names", ())]), tuple(dict.fromkeys([*d["words"], *d["ask"]])))
    for concept, d in _DATA["concepts"].items()
}
"""The purposes of tools (concepts): the words that name each, and those that ask for it."""
ASKING: Final[dict[str, list[tuple[str, str]]]] = {}
"""The phrases that ask for a concept, by their first word."""
for _concept, (_, _asks) in CONCEPTS.items():
    for _phrase in _asks:
        _first = _phrase.split(" ")[0]
        for _word in {_first, f"{_first}s"}:
            ASKING.setdefault(_word, []).append((_phrase, _concept))
MEANT: Final[dict[str, str]] = {concept: d["kind"] for concept, d in _DATA["concepts"].items() if "kind" in d}
"""The kind of a tool's first text, by concept."""
ORDINALS: Final[dict[str, int]] = _DATA["ordinals"]
"""The positions that words such as *second* mean, from 0."""
EXTREMES: Final[dict[str, list[str]]] = _DATA["extremes"]
"""For adjectives that pick one of several things: the least (``-``) or the most (``+``), and what they measure."""
SIDES: Final[dict[str, str]] = _DATA["sides"]
"""The kind of a tool's two sides, such as ``source`` and ``target``, by concept."""
SIGNS: Final[dict[str, str]] = _DATA["signs"]
"""The operator of a calculation, by concept."""
SAME: Final[dict[str, frozenset[str]]] = {
    word: frozenset(w for line in _DATA["same"] if word in line.split() for w in line.split())
    for words in _DATA["same"]
    for word in words.split()
}
"""Words that are synonyms in the context of tools."""
NEAR: Final[dict[str, set[str]]] = {}
"""Words that hint at a tool, by the words of its name: those of the same line, or after its colon."""
for _line in _DATA["near"]:
    for _name in _line.partition(":")[0].split():
        NEAR.setdefault(stem(_name), set()).update(map(stem, _line.replace(":", "").split()))
KINDS: Final[dict[str, frozenset[str]]] = {k: frozenset(v) for k, v in _DATA["kinds"].items()}
"""Words of parameters' names, by the kind of value that they name."""
FRAMES: Final[dict[str, list[re.Pattern[str]]]] = {
    concept: [re.compile(f"(?is){frame}") for frame in frames] for concept, frames in _DATA["frames"].items()
}
"""The phrasings of requests for texts, by concept. Groups are named after kinds."""
LEAD: Final = re.compile(rf"(?i)(?:{_any_of(_DATA['lead'])})(?:[\s,:!]+)")
"""Polite beginnings of requests, which ask for nothing."""
TAIL: Final = re.compile(rf"(?i),?\s+(?:{_any_of(_DATA['tail'])})$")
"""Polite ends of requests, which ask for nothing."""
PREPOSITIONS: Final[dict[str, frozenset[str]]] = {w: frozenset(ps) for w, ps in _DATA["prepositions"].items()}
"""Words of parameters' names, by the preposition before their values."""
WANTED: Final[dict[str, str]] = _DATA["wanted"]
"""The set of words for the thing that a question asks for."""
CUES: Final[dict[str, list[str]]] = _DATA["cues"]
"""The cues before a text, by its kind."""
LABELS: Final = frozenset(_DATA["labels"])
"""Unambiguous cues."""
BOUNDS: Final[dict[str, str]] = _DATA["bounds"]
"""The words before a number that is a bound: ``min``, ``max``, or for a count, ``most``."""
BEFORE_PLACE: Final[dict[str, int]] = _DATA["before_place"]
"""The words before a place, each with how certain it is."""
CHOICES: Final[dict[str, list[str]]] = {
    choice: phrases for choices, phrases in _DATA["choices"].items() for choice in choices.split("|")
}
"""Synonyms for the values of enumerations."""

NUMBERS: Final[dict[str, float]] = _DATA["numbers"]
OPERATORS: Final[dict[str, str]] = _DATA["operators"]
OPERATOR: Final = _any_of(list(OPERATORS))
UNITS: Final[dict[str, str]] = {word: unit for unit, words in _DATA["units"].items() for word in words}
PERIODS: Final[dict[str, list[str]]] = _DATA["periods"]
"""The units of time that their short forms in choices may mean: *m* is a minute or a month."""
EQUAL: Final = [[(n, unit) for n, unit in same] for same in _DATA["equal"]]
"""Periods that are equal, such as seven days and a week."""
SCALES: Final[dict[str, tuple[str, float]]] = {
    unit: (measure, size) for measure, sizes in _DATA["scales"].items() for unit, size in sizes.items()
}
"""The quantity that each unit measures, and its size relative to other units of that quantity."""
MONEY: Final[dict[str, str]] = _DATA["money"]
COINS: Final[dict[str, list[str]]] = _DATA["currencies"]
"""The names of currencies, their codes among them, by their codes of ISO 4217."""
CURRENCIES: Final[dict[str, str]] = {word: code for code, words in COINS.items() for word in words}
LANGUAGES: Final = frozenset(_DATA["languages"])
TONGUES: Final[dict[str, str]] = _DATA["tongues"]
"""Languages by their codes of ISO 639-1."""
TONGUE_CODES: Final = {language: code for code, language in TONGUES.items()}
CODES: Final[tuple[tuple[str, re.Pattern[str], dict[str, str]], ...]] = tuple(
    (
        table["kind"],
        re.compile(table["asked"]),
        {name: code for code, names in table["codes"].items() for name in names.split(", ")},
    )
    for table in _DATA["codes"]
)
"""The codes of places, companies and the like by their names: the kind, if one is needed, and what a description
says that wants them."""
TOWNS: Final = frozenset(
    name for kind, asked, codes in CODES for name in codes if kind == "zone" or "airport" in asked.pattern
)
"""Towns whose name alone asks for something."""
REGIONS: Final = SETS["lands"] | {
    name for _, asked, codes in CODES for name in codes if asked and re.search("country|state", asked.pattern)
}
"""States and countries, which may follow a town's name after a comma."""
CITIES: Final = (TOWNS - REGIONS) | SETS["city states"]
"""Cities, which are places of their own after a comma."""
COLORS: Final = frozenset(_DATA["colors"])
CUISINES: Final = frozenset(_DATA["cuisines"])
DAYS: Final = frozenset(_DATA["days"])
MONTHS: Final = frozenset(_DATA["months"])
_MONTHS: Final = [name[:3] for name in _DATA["months"][:12]]
RELATIVE: Final = frozenset(_DATA["relative"])
"""Days relative to today."""
OFF: Final = frozenset(_DATA["off"])
SEPARATORS: Final[dict[str, str]] = {
    word: mark for mark, words in _DATA["separators"].items() for word in words.split()
}
"""The marks between the fields of a table, by their names."""
OPPOSITES: Final = {a: b for pair in _DATA["opposites"] for a, b in (pair.split(), pair.split()[::-1])}

TALK: Final[dict[str, str]] = {
    form: d["answer"] for d in _DATA["talk"].values() for w in d["words"] for form in (w, w.replace("'", ""))
}
"""Small talk and its answers."""
_TALKED: Final = [(re.compile("|".join(d["forms"])), d["answer"]) for d in _DATA["talk"].values() if "forms" in d]
"""The usual forms of small talk, and their answers."""
CLOSING: Final = frozenset(_DATA["talk"][kind]["answer"] for kind in ("thanks", "bye"))
"""Answers that take precedence over those to other small talk in the same message."""
ABOUT: Final[tuple[str, ...]] = tuple(_DATA["about"])
"""Questions about the model."""
ABLE: Final[tuple[str, ...]] = tuple(_DATA["able"])
"""Questions about its abilities."""
WRITE: Final = frozenset(_DATA["write"])
"""Requests that need a large model."""
STARTERS: Final = frozenset(_DATA["starters"])
"""The beginnings of requests."""
FOLLOW: Final[tuple[str, ...]] = tuple(sorted(_DATA["follow"], key=len, reverse=True))
"""The beginnings of follow-ups."""
AGAIN: Final = frozenset(_DATA["again"])
BACK: Final = frozenset(_DATA["back"])
"""Words that refer to earlier messages."""
QUESTION: Final = re.compile(_DATA["question"])
KNOWLEDGE: Final = re.compile(_DATA["knowledge"])
SOMEWHERE: Final = re.compile(_DATA["somewhere"])
INTRODUCTION: Final = re.compile(_DATA["introduction"])
SQL: Final = re.compile(_DATA["sql"])
"""The beginnings of SQL statements."""
SPLIT: Final = re.compile(_DATA["split"])
"""The words between two requests."""


@lru_cache(maxsize=2**12)
def small_talk(phrase: str) -> str:
    """The answer to a phrase of small talk; empty if it is none."""
    return TALK.get(phrase) or next((said for forms, said in _TALKED if forms.fullmatch(phrase)), "")


@lru_cache(maxsize=2**14)
def kin(word: str) -> frozenset[str]:
    """The synonyms of a stem, and their stems."""
    found = SAME.get(word, frozenset()) | SAME.get(f"{word}e", frozenset())
    return frozenset(map(stem, found)) | found


@lru_cache(maxsize=2**14)
def derived(word: str, other: str) -> bool:
    """Whether one word is derived from the other: *translate*, *translation*; *deliver*, *delivery*."""
    shared = next((i for i, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other)))
    endings = {word[shared:], other[shared:]}
    short = shared == _ROOT - 1 and endings in _OF_A_SHORT_ROOT
    return short or (shared >= _ROOT and endings <= DERIVED)


def concepts_of(name: str, description: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The concepts of a tool: those in its name, and those only in its description."""
    parts = parts_of(name)
    stems = {*parts, *map(stem, parts), name.lower()}
    whole = f" {' '.join(parts)} "
    described = spaced(re.findall(r"[a-z-]+", description.lower()))
    named = [c for c, (words, _) in CONCEPTS.items() if any(stem(w) in stems or f" {w} " in whole for w in words)]
    also = [c for c, (words, _) in CONCEPTS.items() if c not in named and any(has(described, w) for w in words)]
    return tuple(named), tuple(also)


def month_of(word: str) -> int:
    """The number of a month, from 1; zero if the word is none."""
    return _MONTHS.index(word[:3]) + 1 if word in MONTHS else 0


def spaced(words: list[str]) -> str:
    """Words with a space before and after each."""
    return f" {' '.join(words)} "


def has(text: str, phrase: str) -> bool:
    """Whether a text from `spaced` contains these words, or their plural."""
    return f" {phrase} " in text or f" {phrase}s " in text


def plain(text: str) -> str:
    """The words of a text in lower case, without marks."""
    return " ".join(re.findall(r"[\w']+", _DRAWN.sub(r"\1", text.lower().replace("’", "'"))))


def first_word(text: str) -> str:
    """The first word of a request after its polite beginning, in lower case; empty if there is none."""
    return opening(without_lead(text))


def opening(text: str) -> str:
    """The first word of a text, in lower case; empty if there is none."""
    return next(iter(plain(text).split()), "")


def without_lead(text: str) -> str:
    """A text without a polite beginning such as *could you*."""
    at = len(text) - len(text.lstrip())
    while found := LEAD.match(text, at):
        at = found.end()
    return text[at:]
