"""Requests as people write them, as data: ``blind.json``, which nothing was tuned to, ``dev.json`` and
``natural.json``, which much was, and the sets in ``fair``, each asked once before the reader was mended with it.

Each file holds tools in OpenAI's form by a key, and cases: the keys of the tools, messages, the calls that are right
and what is said of a case's answer; see `Natural`.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDER: Final = Path(__file__).parent
FAIR: Final = tuple(f"fair/{path.stem}" for path in sorted((FOLDER / "fair").glob("*.json")))
"""Sets whose first scores the model card has."""
TALK: Final = ("small talk", "what it is", "required")
"""Kinds whose texts are too short and common to be kept from the examples: everybody says hi."""


class Natural(NamedTuple):
    """A case.

    Attributes:
        calls: name and arguments of each; ``None`` for any arguments that keep to the schema, ``""`` for any name.
            An argument ``{"any": [...]}`` is right as one of several, ``{"holds": [...]}`` where it has all words.
        maybe: arguments that may be given or left out.
        says: what the content has to hold.
        choice: the request's ``tool_choice``.
        format: the request's ``response_format``.
    """

    kind: str
    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    calls: list[tuple[str, dict[str, Any] | None]]
    maybe: dict[str, Any]
    says: list[str]
    choice: Any
    format: dict[str, Any] | None


def cases(name: str) -> list[Natural]:
    """The cases of ``blind``, ``dev``, ``natural`` or one of `FAIR`; none where there is no such file."""
    if not (FOLDER / f"{name}.json").exists():
        return []
    told = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return [
        Natural(
            kind=c["kind"],
            tools=[told["tools"][key] for key in c["tools"]],
            messages=c["messages"],
            calls=[(called, arguments) for called, arguments in c["calls"]],
            maybe=c.get("maybe", {}),
            says=c.get("says", []),
            choice=c.get("choice", "auto"),
            format=c.get("format"),
        )
        for c in told["cases"]
    ]


def plain(text: str) -> str:
    """A text's letters and digits in lower case: what it says, however it is written."""
    return re.sub(r"[\W_]+", " ", text.lower()).strip()


@cache
def asked() -> frozenset[str]:
    """What the cases of ``blind``, ``natural`` and `FAIR` say, which no example may."""
    some = [c for name in ("blind", "natural", *FAIR) for c in cases(name) if c.kind not in TALK]
    texts = [m["content"] for c in some for m in c.messages if m["role"] == "user"]
    return frozenset(filter(None, map(plain, texts)))


def right(case: Any, calls: list[tuple[str, Any]], content: str) -> bool:
    """Whether these calls and this content are what a case wants; in any order, names and texts in any case."""
    waiting = list(case.calls)
    for called, arguments in calls:
        fits = next((w for w in waiting if w[0] in ("", called) and _as(w[1], arguments, case.maybe)), None)
        if fits is None:
            return False
        waiting.remove(fits)
    if waiting:
        return False
    if calls or case.format is not None:
        return True
    told = plain(content)
    if not content.strip().endswith((".", "!", "?")) or not all(plain(word) in told for word in case.says):
        return False
    return case.kind != "small talk" or not ("none of the tools" in told or "tell me the" in told)


def _as(wanted: dict[str, Any] | None, found: Any, maybe: dict[str, Any]) -> bool:
    if wanted is None:
        return True
    if not isinstance(found, dict) or not set(wanted) <= set(found) <= {*wanted, *maybe}:
        return False
    return all(_same({**maybe, **wanted}[key], value) for key, value in found.items())


def _same(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, dict) and "any" in wanted:
        return any(_same(one, found) for one in wanted["any"])
    if isinstance(wanted, dict) and "holds" in wanted:
        return isinstance(found, str) and all(word.lower() in found.lower() for word in wanted["holds"])
    if isinstance(wanted, dict):
        return (
            isinstance(found, dict)
            and wanted.keys() == found.keys()
            and all(_same(wanted[k], found[k]) for k in wanted)
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and len(wanted) == len(found) and all(map(_same, wanted, found))
    if isinstance(wanted, bool) or not isinstance(wanted, str):
        return type(found) is not bool and found == wanted if not isinstance(wanted, bool) else found is wanted
    return isinstance(found, str) and "".join(found.split()).lower() == "".join(wanted.split()).lower()
