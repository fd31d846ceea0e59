"""Follow-ups: *And in Quito?*"""

import re
from typing import Any

from .fill import fill
from .filling import Filled
from .message import Message
from .prompt import Prompt, Tool, Turn
from .scores import best
from .words import AGAIN, FOLLOW, SETS, plain

Call = tuple[str, dict[str, Any]]


def earlier(prompt: Prompt) -> list[Turn]:
    """The calls for the user's message before the last; else the last call before that."""
    users = [i for i, t in enumerate(prompt.turns) if t.role == "user"]
    if len(users) < 2:
        return []
    calls = [(i, t) for i, t in enumerate(prompt.turns[: users[-1]]) if t.role == "call"]
    return [t for i, t in calls if i > users[-2]] or [t for _, t in calls[-1:]]


def follow_up(prompt: Prompt, text: str) -> list[Call] | None:
    """The calls before, with what is new in a message; ``None`` where it is not a follow-up."""
    before = earlier(prompt)
    tools = {t.name: t for t in prompt.tools}
    if not before or any(t.text not in tools for t in before):
        return None
    low = " ".join(re.findall(r"[\w'+*/.-]+", text.lower())).strip(" .")
    if low in AGAIN:
        return [(t.text, t.arguments) for t in before]
    begun = next((f for f in FOLLOW if low == f or low.startswith(f"{f} ")), None)
    own = best(prompt.tools, Message(text))
    short = begun is not None or (len(low.split()) <= 5 and own is None)
    rest = _behind(begun, text) if begun else text
    if not short or not rest.strip() or begun == "and what about" or (own and own.name != before[-1].text):
        return None
    calls = _changed(tools[before[-1].text], [t for t in before if t.text == before[-1].text], rest)
    return calls if calls is None or begun or own or _says_only(text, calls) else None


def _says_only(text: str, calls: list[Call]) -> bool:
    """Whether a message that asks for nothing by its words holds nothing but values of calls."""
    if any(w[0].isupper() or w[0].isdigit() for w in text.split()[1:]):
        return True
    values = {w for _, arguments in calls for v in arguments.values() for w in plain(str(v)).split()}
    return {*plain(text).split()} <= values | SETS["loose"]


def _behind(begun: str, text: str) -> str:
    lead = r"[\s,]+".join(map(re.escape, begun.split()))
    return re.sub(rf"(?i)^\W*{lead}\b[\s,]*", "", text)


def _changed(tool: Tool, before: list[Turn], text: str) -> list[Call] | None:
    """A tool's calls with other values: each of several, if they are alike in what is new; else one."""
    given = {name for turn in before for name in turn.arguments}
    due = tool._replace(
        parameters=tuple(p._replace(optional=p.optional and p.name not in given) for p in tool.parameters)
    )
    new = fill(due, Message(text))
    names = {*new.values} | ({new.several[0]} if new.several else set())
    if not names:
        return None
    differ = {p.name for p in tool.parameters if len({repr(t.arguments.get(p.name)) for t in before}) > 1}
    calls: list[Call] = []
    for turn in before[:1] if names & differ else before:
        f = Filled(tool)
        f.values, f.several = turn.arguments | new.values, new.several
        calls += [(tool.name, arguments) for arguments in f.calls()]
    return calls
