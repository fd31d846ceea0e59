"""Follow-ups: *And in Quito?*"""

import re
from typing import Any, Final

from .fill import fill, lacks
from .filling import Filled, role
from .fits import clear
from .message import Message
from .places import bare
from .prompt import NUMERIC, Prompt, Tool, Turn
from .scores import best, said_out
from .talk import talk
from .words import AGAIN, FOLLOW, PREPOSITIONS, SETS, STOP, TAIL, first_word, opening, plain, stem, without_lead

Call = tuple[str, dict[str, Any]]
_SHORT: Final = 5
"""The most words of a follow-up without a typical beginning."""
_REMEMBERED: Final = 3
"""The messages in which a value is looked for."""
_ALIKE: Final = 10
"""The most words of a follow-up that asks for the same again."""
_SAME: Final = re.compile(r"(?i)\b(?:the )?same(?: thing| message| one)?\b")
_DOES: Final = re.compile(
    r"(?i)^\W*(?:(?:and|now|please|can you|could you|also) )*(?:do|send|tell|say|set|give|make|text|write|email)\b"
)
_INSTEAD: Final = re.compile(r"(?i),? (?:ones|instead|too|as well|also)(?:,? please)?[.?!]*$")
_TRIES: Final = re.compile(r"(?i)^\W*(?:check|try|do|get|show|look up)\s+")
"""A verb that only asks for the same again: *check Berlin as well*."""
_KEPT: Final = re.compile(r"(?i)(?<=\S),?\s+(?:(?:and|with|for|on|at|in)\s+)*(?:the\s+)?same\s+\w+[.?!]*$")
"""Words that keep a value: *what about Prague, same dates*."""
_SIGH: Final = re.compile(
    r"(?i)^\W*(?:(?:h+m+|oh|ah|um|uh|er|well|actually|sorry|ok|okay|alright|yes|yeah|sure)\b[\s,.!]*)+"
)
_CRY: Final = re.compile(r"(?i)^\W*\w+(?: \w+){0,2}!+\s+(?=\w+\s+\w)")
_TOO: Final = re.compile(r"(?i)^\W*(?:h+m+,? |(?:it|that)(?:'s| is) |(?:still|way|a bit) )*too \w+[,.!]+\s+")
"""A few words before a sentence: *wow! set it to 20*, *too cold, set it to 20*."""
_TURNED: Final = re.compile(
    r"(?i)\b(?:(?:the )?(?:way|trip|journey|ride|flight|train|drive|one)? ?back(?: again)?"
    r"|(?:the )?return(?: (?:trip|journey|flight|train|way|ride))?|(?:the )?other (?:way|direction)(?: a?round)?"
    r"|vice versa|(?:in )?reverse|(?:the )?opposite direction)(?=\W|$)"
)
"""Words that exchange the two ends of the call before."""
_REMARK: Final = re.compile(r"\W*([^,.!?;:]{1,30})[,.!;]+\s+")
_ANSWERS: Final = re.compile(
    r"(?i)^\W*(?:(?:yes|sure|ok|okay|well|oh|sorry|please)\b[\s,.!]*)*"
    r"(?:(?:i think |i guess |i believe )?(?:it'?s|it is|that'?s|that is|i meant|for|in|to)\b\s*)?"
)
"""The beginning of an answer to a question."""


def earlier(prompt: Prompt) -> list[Turn]:
    """The calls for the user's last message but one; without any, the last call before it."""
    users = [i for i, t in enumerate(prompt.turns) if t.role == "user"]
    if len(users) < 2:
        return []
    calls = [(i, t) for i, t in enumerate(prompt.turns[: users[-1]]) if t.role == "call"]
    return [t for i, t in calls if i > users[-2]] or [t for _, t in calls[-1:]]


def follow_up(prompt: Prompt, text: str) -> list[Call] | None:
    """The earlier calls with the new values of a message; ``None`` if it is not a follow-up."""
    before = earlier(prompt)
    tools = {t.name: t for t in prompt.tools}
    if not before or any(t.text not in tools for t in before):
        return None
    text = _SIGH.sub("", _CRY.sub("", _TOO.sub("", text))) or text
    low = " ".join(re.findall(r"[\w'+*/.-]+", text.lower())).strip(" .")
    if low in AGAIN or TAIL.sub("", low) in AGAIN:
        return [(t.text, t.arguments) for t in before]
    begun = next((f for f in FOLLOW if low == f or low.startswith(f"{f} ")), None)
    last = tools[before[-1].text]
    changes = _INSTEAD.search(text) is not None
    text = _KEPT.sub("", _INSTEAD.sub("", text))
    again = text if begun is None else _behind(begun, text)
    if len(low.split()) <= _ALIKE and (rest := _SAME.sub(" ", again)) != again:
        return _changed(prompt, last, [t for t in before if t.text == last.name], _DOES.sub("", rest))
    same = begun is not None and "same" in begun  # *same for* api-service is no other tool's service
    about = begun is not None and begun.endswith("about")  # *how about London?* is no question for a search
    about = about and stem(opening(again)) not in SETS["imperatives"] | {""}
    names_only = begun is not None and bool(bare(Message(again)))
    own = None if same or names_only else best(prompt.tools, Message(again if about else text))
    if about and "ones" in low.split() and not lacks(last, again):
        own = last  # *what about jazz ones in Oslo*
    if own and own is not last and begun is not None:
        rest = _behind(begun, text)
        free = all(p.optional for p in own.parameters) and not fill(own, Message(rest)).values
        says = free and bool(fill(last, Message(rest)).values)  # and the *lamp*
        own = last if says or _another(last, before[-1], rest) or _fits(last, own, rest) else own
    if own is last and _repeats(last, Message(text)) and not _differs(last, before[-1], text):
        return [(t.text, t.arguments) for t in before if t.text == last.name]
    if changes and begun is None and own in (last, None) and (rest := _TRIES.sub("", without_lead(text))).strip():
        calls = _changed(prompt, last, [t for t in before if t.text == last.name], rest)
        if calls is not None:
            return calls
    if begun is None and own in (last, None) and _formal(last, before[-1], text):
        return _changed(prompt, last, [t for t in before if t.text == last.name], text)
    if begun is None and own in (last, None) and _only_sets(last, before[-1], text):
        return _changed(prompt, last, [t for t in before if t.text == last.name], text)
    if (begun is not None or changes) and _chosen(last, rest := _behind(begun or "", text)):
        return _changed(prompt, last, [t for t in before if t.text == last.name], rest)
    short = begun is not None or (len(low.split()) <= _SHORT and own is None)
    rest = _behind(begun, text) if begun else text
    if not short or not rest.strip() or (own and own is not last):
        return None
    calls = _changed(prompt, last, [t for t in before if t.text == last.name], rest)
    if calls is None:
        calls = _switched(prompt.tools, before[-1], rest)
    return calls if calls is None or begun or own or _says_only(text, calls) else None


def turned(prompt: Prompt, text: str) -> list[Call] | None:
    """The earlier call with its two ends exchanged, and with the other values of a message: *and the way back?*"""
    before = earlier(prompt)
    rest = _TURNED.sub(" ", text)
    tool = next((t for t in prompt.tools if before and t.name == before[-1].text), None)
    if tool is None or rest == text:
        return None
    given = before[-1].arguments
    ends = {role(p): p.name for p in tool.parameters if role(p) is not None and p.name in given}
    if ends.keys() != {"from", "to"}:
        return None
    new = fill(
        tool._replace(parameters=tuple(p for p in tool.parameters if p.name not in ends.values())), Message(rest)
    )
    values = {ends["from"]: given[ends["to"]], ends["to"]: given[ends["from"]]}
    return [(tool.name, given | values | new.values)]


def opened(text: str) -> str:
    """A message without the remarks before its request: *nice, play it*, *oh ok. and in Rome?*"""
    text = _TOO.sub("", text) or text
    while (found := _REMARK.match(text)) and plain(text[found.end() :]):
        words = plain(found[1]).split()
        if not talk(found[1], words) and not {*words} <= SETS["reactions"]:
            break
        text = text[found.end() :]
    return text


def _repeats(tool: Tool, message: Message) -> bool:
    """Whether a message repeats an earlier call without new values: *roll again*."""
    words = [w.low for w in message.words if w.low[0].isalnum()]
    said = {stem(w) for w in words if w not in STOP}
    return "again" in words and said <= tool.nouns | tool.described


def _differs(tool: Tool, before: Turn, text: str) -> bool:
    """Whether a message contains a different value: *unlock it again*."""
    given = fill(tool, Message(text)).values
    return any(before.arguments.get(name, value) != value for name, value in given.items())


def _formal(tool: Tool, before: Turn, text: str) -> bool:
    """Whether a message has another value with a clear form for a required text: *how many are in acme/api?*"""
    given = fill(tool, m := Message(text)).values
    return any(
        p.type == "string"
        and p.name in given
        and given[p.name] != before.arguments.get(p.name)
        and clear(p, given[p.name], m)
        for p in tool.parameters
        if not p.optional and p.kinds[:1] not in (("body",), ("query",), ("subject",))
    )


def _only_sets(tool: Tool, before: Turn, text: str) -> bool:
    """Whether a message only gives numbers and choices besides what the last call has: *for 5 days?*, *in celsius*; or
    asks again without anything: *do I need a coat?*"""
    given = fill(tool, m := Message(text)).values
    options = {p.name for p in tool.parameters if p.type in NUMERIC or p.choices or p.type == "boolean"}
    orders = first_word(text) in SETS["imperatives"] | SETS["verbs"]
    return given.keys() <= options and not before.arguments.keys() <= given.keys() and not orders and said_out(tool, m)


def _another(tool: Tool, before: Turn, text: str) -> bool:
    """Whether a message is only another code in the form of a required argument of the last call: *and P-531?*"""
    said = text.strip(" ?!.,")
    needed = [str(before.arguments.get(p.name, "")) for p in tool.parameters if not p.optional]
    return any(map(str.isdigit, said)) and _form(said) in map(_form, needed)


def _fits(last: Tool, other: Tool, text: str) -> bool:
    """Whether a message has all values that the last tool needs and nothing else, and does not name another tool: *what
    about 40 minutes of cycling?*"""
    filled = fill(last, m := Message(text))
    named = any(stem(w.low) in other.nouns for w in m.words)
    return bool(filled.values) and not (filled.missing or filled.several or named) and said_out(last, m)


def _form(code: str) -> str:
    """A code with its digits as zeros, and its letters as one."""
    return re.sub(r"[^\W\d_]", "x", re.sub(r"\d+", "0", code.lower()))


def _chosen(tool: Tool, text: str) -> bool:
    """Whether a message only names a value that a parameter of the tool lists: *the closed ones*."""
    words = [w for w in plain(text).split() if w not in STOP | {"ones"}]
    return " ".join(words) in {str(c).lower().replace("_", " ") for p in tool.parameters for c in p.choices}


def _switched(tools: tuple[Tool, ...], before: Turn, text: str) -> list[Call] | None:
    """A call of another tool with the new and the earlier values: *How about tomorrow?*"""
    for tool in tools:
        known = {p.name: before.arguments[p.name] for p in tool.parameters if p.name in before.arguments}
        if tool.name == before.text or not known:
            continue
        due = tool._replace(
            parameters=tuple(p._replace(optional=p.optional or p.name in known) for p in tool.parameters)
        )
        new = fill(due, Message(text))
        if new.values and not new.missing and not known.keys() & new.values.keys():
            return [(tool.name, known | given) for given in new.calls()]
    return None


def answered(prompt: Prompt) -> tuple[Tool, Filled] | None:
    """The request before the last message, if that message adds a missing value: *Which order? - order_12*."""
    turns = prompt.turns
    if len(turns) < 3 or [t.role for t in turns[-3:]] != ["user", "assistant", "user"] or not _asks(turns[-2].text):
        return None
    text = turns[-1].text
    tool = best(prompt.tools, Message(turns[-3].text))
    if tool is None or best(prompt.tools, Message(text)) not in (tool, None):
        return None
    filled = fill(tool, Message(turns[-3].text))
    wanted = filled.missing or [p for p in tool.parameters if not p.optional]
    given = fill(tool._replace(parameters=tuple(wanted)), Message(_ANSWERS.sub("", text)))
    if not given.values and given.several is None:
        return None
    filled.values |= given.values
    filled.several = given.several or filled.several
    filled.missing = given.missing
    return tool, filled


def _asks(text: str) -> bool:
    return text.rstrip().endswith("?") or "please" in text.lower()


def _says_only(text: str, calls: list[Call]) -> bool:
    """Whether a message consists only of values of the calls, and asks for nothing itself."""
    if any(w[0].isupper() or w[0].isdigit() for w in text.split()[1:]):
        return True
    values = {w for _, arguments in calls for v in arguments.values() for w in plain(str(v)).split()}
    return {*plain(text).split()} <= values | SETS["loose"] | SETS["switched"]


def _behind(begun: str, text: str) -> str:
    lead = r"[\s,]+".join(map(re.escape, begun.split()))
    rest = re.sub(rf"(?i)^\W*{lead}\b[\s,]*", "", text)
    return re.sub(r"['’]s\W*$", "", rest)  # *and Tom's?*


def _said(prompt: Prompt, tool: Tool, turn: Turn) -> dict[str, Any]:
    """A call's arguments without the optional ones that the user did not say."""
    texts = [t.text for t in prompt.turns if t.role == "user"]
    whole = plain(" ".join(texts))
    given = [fill(tool, Message(text)).values for text in texts[-_REMEMBERED:]]
    needed = {p.name for p in tool.parameters if not p.optional}
    return {
        name: value
        for name, value in turn.arguments.items()
        if name in needed or plain(str(value)) in whole or any(one.get(name) == value for one in given)
    }


def _as_before(prompt: Prompt, tool: Tool, call: Turn, text: str, new: Filled) -> None:
    """Give the only new text to the parameter whose value had the same preposition before: *in src*, *and in tests?*"""
    said = next((Message(t.text) for t in prompt.turns[: prompt.turns.index(call)][::-1] if t.role == "user"), None)
    texts = {p.name for p in tool.parameters if p.type == "string" and not p.choices and not p.optional}
    found = [name for name in new.values if name in texts]
    if said is None or len(found) != 1 or len(new.values) != 1:
        return
    if any(clear(p, new.values[p.name], Message(text)) for p in tool.parameters if p.name in found):
        return
    leads = {name: _led(said, call.arguments.get(name)) for name in texts}
    alike = [
        name for name, lead in leads.items() if lead is not None and lead == _led(Message(text), new.values[found[0]])
    ]
    if len(alike) == 1 and None not in leads.values() and alike != found:
        new.values = {alike[0]: new.values[found[0]]}


def _led(m: Message, value: Any) -> str | None:
    """The preposition before a value in a message; empty without any, ``None`` if the value is not there."""
    words = str(value).lower().split()
    i = next((i for i in range(len(m)) if words and [w.low for w in m.words[i : i + len(words)]] == words), None)
    if i is None:
        return None
    while i > 0 and m.has(i - 1, SETS["determiners"]):
        i -= 1
    return m.words[i - 1].low if m.has(i - 1, PREPOSITIONS) else ""


def _changed(prompt: Prompt, tool: Tool, before: list[Turn], text: str) -> list[Call] | None:
    """A tool's calls with new values: all of them, if they agree in the values that change; else one."""
    given = {name for turn in before for name in turn.arguments}
    due = tool._replace(
        parameters=tuple(
            p._replace(optional=p.optional and (p.name not in given or bool(p.choices))) for p in tool.parameters
        )
    )
    new = fill(due, Message(text))
    for name in [name for name, value in new.values.items() if str(value).lower() in SETS["pronouns"]]:
        del new.values[name]  # *how do you say that in Greek?*
    for p in [p for p in due.parameters if p.type == "string" and str(new.values.get(p.name, "")).isdigit()]:
        counts = [q for q in due.parameters if q.type in NUMERIC and q.name not in new.values]
        if len(counts) == 1 and not any(map(str.isdigit, str(before[-1].arguments.get(p.name)))):
            new.values[counts[0].name] = int(new.values.pop(p.name))  # *and for 2019?*
    _as_before(prompt, due, before[-1], text, new)
    names = {*new.values} | ({new.several[0]} if new.several else set())
    if not names:
        return None
    differ = {p.name for p in tool.parameters if len({repr(t.arguments.get(p.name)) for t in before}) > 1}
    calls: list[Call] = []
    for turn in before[:1] if names & differ else before:
        f = Filled(tool)
        f.values, f.several = _said(prompt, tool, turn) | new.values, new.several
        calls += [(tool.name, arguments) for arguments in f.calls()]
    return calls
