"""The English that the reader knows, from ``words.json``, and how words are compared."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

_DATA: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("words.json").read_text(encoding="utf-8"))
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@cache
def stem(word: str) -> str:
    """A word without the ending of its plural or participle, so that *emails* and *email* are one."""
    if word == "times":
        return word
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: len(word) - len(ending)] + instead
    return word


def parts_of(name: str) -> list[str]:
    """The words of a name: ``getWeather_byCity`` has four."""
    return [part.lower() for part in _PART.findall(name)]


STOP: Final = frozenset(_DATA["stop"])
GENERIC: Final = frozenset(map(stem, _DATA["generic"]))
CONCEPTS: Final[dict[str, tuple[frozenset[str], tuple[str, ...]]]] = {
    concept: (frozenset([*d["words"], *d.get("names", ())]), tuple(dict.fromkeys([*d["words"], *d["ask"]])))
    for concept, d in _DATA["concepts"].items()
}
"""What tools are for: the words that name it, and those that ask for it."""
MEANT: Final[dict[str, str]] = {concept: d["kind"] for concept, d in _DATA["concepts"].items() if "kind" in d}
"""What the first text of a tool is, by what the tool is for."""
CUISINES: Final = frozenset(_DATA["cuisines"])
SIDES: Final[dict[str, str]] = {
    "convert": "unit", "currency": "currency", "translate": "language", "flight": "place", "train": "place", "directions": "place", "taxi": "place",
}
"""What the two sides of a tool are, such as ``source`` and ``target``."""
FROM: Final = frozenset(("from", "origin", "source", "departure", "start", "src", "base", "begin"))
TO: Final = frozenset(("to", "destination", "target", "arrival", "end", "dst", "quote", "into", "dest", "output"))
FRAMES: Final[dict[str, list[str]]] = _DATA["frames"]
"""How texts are asked for, by what a tool is for: groups are named after kinds."""
KINDS: Final[dict[str, frozenset[str]]] = {k: frozenset(v) for k, v in _DATA["kinds"].items()}
NUMBERS: Final[dict[str, float]] = _DATA["numbers"]
OPERATORS: Final[dict[str, str]] = _DATA["operators"]
UNITS: Final[dict[str, str]] = {word: unit for unit, words in _DATA["units"].items() for word in words}
CURRENCIES: Final[dict[str, str]] = {w: code for code, words in _DATA["currencies"].items() for w in (code.lower(), *words)}
LANGUAGES: Final = frozenset(_DATA["languages"])
DAYS: Final = frozenset(_DATA["days"])
MONTHS: Final = frozenset(_DATA["months"])
RELATIVE: Final = frozenset(_DATA["relative"])
OFF: Final = frozenset(_DATA["off"])
ON: Final = frozenset(_DATA["on"])
TALK: Final[dict[str, str]] = {w: d["answer"] for d in _DATA["talk"].values() for w in d["words"]}
"""Small talk, and what is answered."""
ABOUT: Final[tuple[str, ...]] = tuple(_DATA["about"])
ABLE: Final[tuple[str, ...]] = tuple(_DATA["able"])
WRITE: Final = frozenset(_DATA["write"])
STARTERS: Final = frozenset(_DATA["starters"])
FOLLOW: Final[tuple[str, ...]] = tuple(sorted(_DATA["follow"], key=len, reverse=True))
AGAIN: Final = frozenset(_DATA["again"])
BACK: Final = frozenset(_DATA["back"])


def concepts_of(name: str, description: str) -> tuple[list[str], list[str]]:
    """What a tool is for: by its name, and by its description alone."""
    parts = parts_of(name)
    stems = {*parts, *map(stem, parts), name.lower()}
    whole = f" {' '.join(parts)} "
    described = f" {' '.join(re.findall(r'[a-z-]+', description.lower()))} "
    named = [c for c, (words, _) in CONCEPTS.items() if any(stem(w) in stems or f" {w} " in whole for w in words)]
    also = [c for c, (words, _) in CONCEPTS.items() if c not in named and any(f" {w} " in described or f" {w}s " in described for w in words)]
    return named, also
