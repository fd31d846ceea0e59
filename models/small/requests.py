"""Requests as people write them, as data files; the model is trained on none of them.

Each file contains tools in OpenAI's form, by key, and cases: the keys of the tools, the messages, the right calls and
what the answer must contain; see `Request`.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDER: Final = Path(__file__).parent / "requests"


class Request(NamedTuple):
    """A case.

    Attributes:
        calls: name and arguments of each; ``None`` for any arguments that follow the schema, ``""`` for any name. For
            an argument, ``{"any": [...]}`` lists the right values, and ``{"holds": [...]}`` words that it must contain.
        maybe: arguments that may be given or left out.
        says: what the content must contain.
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


def requests(name: str = "*") -> Iterator[Request]:
    """The requests of the files with such a name, a pattern."""
    for path in sorted(FOLDER.glob(f"{name}.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        for c in told["cases"]:
            yield Request(
                kind=c["kind"],
                tools=[told["tools"][key] for key in c["tools"]],
                messages=c["messages"],
                calls=[(called, arguments) for called, arguments in c["calls"]],
                maybe=c.get("maybe", {}),
                says=c.get("says", []),
                choice=c.get("choice", "auto"),
                format=c.get("format"),
            )


def plain(text: str) -> str:
    """A text's letters and digits in lower case, to compare texts however they are written."""
    return re.sub(r"[\W_]+", " ", text.lower()).strip()


def right(case: Request, calls: list[tuple[str, Any]], content: str) -> bool:
    """Whether calls and content are right for a case. The order of calls and the case of letters do not matter."""
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
    return bool(told) and all(plain(word) in told for word in case.says)


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
