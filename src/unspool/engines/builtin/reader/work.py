"""Tools that take a program or an address: a calculation becomes code, an address is opened, and the result is
reported."""

import json
import re
from typing import Final

from .follow import Call
from .message import Message
from .prompt import Parameter, Prompt, Tool
from .spans import expressions, urls
from .words import stem

MOST_WORDS: Final = 28
MOST_CHARACTERS: Final = 180
"""The most characters of a reported result; a longer one is cut."""
_CODE: Final = frozenset(("code", "script", "program", "source"))
_ADDRESS: Final = frozenset(("url", "uri", "link", "address", "id", "page", "href"))
_OPENS: Final = frozenset(("open", "fetch", "visit", "browse", "read", "get"))
_READS: Final = frozenset(
    ("read", "open", "fetch", "visit", "show", "load", "say", "tell", "summarize", "page", "look")
)
_ASSIGNED: Final = re.compile(r"print\((.{1,200})\)", re.DOTALL)
_CALL: Final = re.compile(r"(?!sqrt)\b[a-z_]{3,}\(")
_NUMBER: Final = re.compile(r"-?\d{1,200}(?:\.\d{1,200})?(?:e[+-]?\d{1,3})?")
_LINE: Final = re.compile(r"^L\d+: ?", re.MULTILINE)
_FRAME: Final = re.compile(r"\[\d+\] .{0,300}|\*\*viewing lines .{0,60}\*\*|URL: .{0,300}")


def work(prompt: Prompt, text: str) -> list[Call]:
    """The call that a message asks for, if a tool takes programs or addresses, and no other tool fits."""
    message = Message(text)
    found = _calculation(prompt.tools, message) or _page(prompt.tools, message)
    return [] if found is None else [found]


def _calculation(tools: tuple[Tool, ...], message: Message) -> Call | None:
    given = next((s.value for s in expressions(message)), "")
    if _CALL.search(message.text):  # it is code already
        return None
    if not given or any("math" in t.concepts[0] or _takes(t, "expression") for t in tools):
        return None
    for tool in tools:
        place = _only(tool, _CODE)
        if place is not None and "code" in (*tool.concepts[0], *tool.concepts[1]):
            lead = "from math import sqrt\n" if "sqrt" in given else ""
            return tool.name, {place.name: f"{lead}print({given})"}
    return None


def _page(tools: tuple[Tool, ...], message: Message) -> Call | None:
    found = [s.value for s in urls(message)]
    given = found[0] if len(found) == 1 else ""
    if not given or not _READS & {stem(w.low.strip("?.,!")) for w in message.words} | _READS & message.at.keys():
        return None
    for tool in tools:
        place = _only(tool, _ADDRESS)
        if place is not None and _OPENS & {stem(w) for w in tool.name_words} | _OPENS & tool.name_words:
            return tool.name, {place.name: given}
    return None


def _takes(tool: Tool, kind: str) -> bool:
    return any(kind in p.kinds[:1] and p.name not in _CODE for p in tool.parameters)


def _only(tool: Tool, names: frozenset[str]) -> Parameter | None:
    """The only parameter with one of these names, if no other is required."""
    place = next((p for p in tool.parameters if p.name in names and p.type in ("string", "any")), None)
    needed = [p for p in tool.parameters if not p.optional and p is not place]
    return None if needed else place


def results_text(prompt: Prompt) -> str:
    """The report on the results after the last message, if they come from `work`'s calls; else empty."""
    turns = prompt.turns
    asked = max((i for i, t in enumerate(turns) if t.role == "user"), default=-1)
    calls = [t for t in turns[asked + 1 :] if t.role == "call"]
    results = [t for t in turns[asked + 1 :] if t.role == "result"]
    if asked < 0 or len(calls) != 1 or len(results) != 1:
        return ""
    if [(calls[0].text, calls[0].arguments)] != work(prompt, turns[asked].text):
        return ""
    code = next((str(v) for v in calls[0].arguments.values() if _ASSIGNED.search(str(v))), "")
    result = _brief(results[0].text)
    if not result:
        return "The tool said nothing."
    if not code:
        return f"The page says: {result}"
    written = _ASSIGNED.search(code)
    return f"{written[1]} = {result}" if written and _NUMBER.fullmatch(result) else f"The tool says: {result}"


def _brief(text: str) -> str:
    """The beginning of a result on one line, without its frame."""
    lines = [line for line in _LINE.sub("", _plain(text)).split("\n") if line.strip() and not _FRAME.fullmatch(line)]
    words = " ".join(lines).split()
    said = " ".join(words[:MOST_WORDS])[:MOST_CHARACTERS]
    return said if len(said) == len(" ".join(words)) else f"{said} …"


def _plain(text: str) -> str:
    """The text of a result that is a JSON string."""
    try:
        value = json.loads(text) if text.startswith('"') else text
    except (ValueError, RecursionError):
        return text
    return str(value)
