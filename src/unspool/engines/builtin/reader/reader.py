"""What a conversation asks for: calls, where its words say which and with what; words, where it asks for none."""

import re
from typing import Any, Final, NamedTuple

from .fill import Filled, fill
from .prompt import Prompt, Tool, Turn
from .spans import MOST, Message
from .words import ABLE, ABOUT, AGAIN, BACK, CONCEPTS, FOLLOW, GENERIC, STARTERS, STOP, TALK, WRITE, parts_of, stem

Call = tuple[str, dict[str, Any]]

ENOUGH: Final = 2.0
"""From this score on a tool is meant."""
SELF: Final = "I am unspool's small built-in model"

_QUESTION: Final = re.compile(r"^(?:who|what|when|where|why|which|how|is|are|does|did|do|was|were)\b")


class Answer(NamedTuple):
    """What is to be answered: calls, or words; and what is thought before."""

    calls: list[Call]
    words: str = ""
    why: str = ""

    @property
    def thought(self) -> str:
        """The thinking before the answer."""
        if not self.calls:
            return self.why or "This is small talk. No tool is needed."
        names = list(dict.fromkeys(name for name, _ in self.calls))
        return f"I use {_listed(names)}."


def read(prompt: Prompt) -> Answer | None:
    """What a conversation asks for; ``None`` where its words do not say it clearly."""
    if not prompt.turns or prompt.turns[-1].role != "user" or not (text := prompt.turns[-1].text) or len(text) > MOST:
        return None
    tools = list(prompt.tools)
    plain = " ".join(re.findall(r"[\w']+", text.lower().replace("’", "'")))
    if plain in TALK or (not plain and len(text) < 8):
        return Answer([], TALK.get(plain, TALK["ok"]))
    if words := _talk(plain, prompt):
        return Answer([], words)
    if any(_spoken(p, plain) for p in ABOUT) and len(plain.split()) <= 9:
        return Answer([], f"{SELF}. I can call tools and answer from their results.", "This is about me.")
    if any(_spoken(p, plain) for p in ABLE) and len(plain.split()) <= 8 and not _scores(tools, Message(text)):
        return Answer([], _able(tools), "This is about what I can do.")
    answer = _follow_up(prompt, text) or _calls(tools, text, _earlier(prompt))
    if answer is not None:
        return answer
    return _refused(tools, plain, text)


def arguments(prompt: Prompt, name: str) -> dict[str, Any] | None:
    """The arguments of a tool that has to be called; ``None`` where one is not said."""
    tool = next((t for t in prompt.tools if t.name == name), None)
    last = next((t.text for t in reversed(prompt.turns) if t.role == "user"), "")
    if tool is None or not last or len(last) > MOST:
        return None
    filled = fill(tool, Message(last))
    return None if filled.missing else filled.calls()[0]


def _spoken(phrase: str, plain: str) -> bool:
    return f" {phrase} " in f" {plain} " if len(phrase.split()) > 1 else phrase == plain


def _talk(plain: str, prompt: Prompt) -> str:
    """Small talk of several phrases: *ok, thanks*, *great, thank you so much*."""
    words = plain.split()
    answer = ""
    i = 0
    while i < len(words):
        for j in range(min(len(words), i + 6), i, -1):
            part = " ".join(words[i:j])
            if part in TALK:
                answer = TALK[part] if not answer or "welcome" in TALK[part] or "Goodbye" in TALK[part] else answer
                i = j
                break
        else:
            if words[i] not in ("so", "very", "much", "a", "lot", "unspool", "everyone", "friend", "for", "your", "help", "the", "that", "all", "man", "dude", "mate", "buddy", "then", "and", "was", "is", "it", "this", "really", "just", "again", "today", "i", "my", "to", "bot", "there", "you", "quick", "answer", "info", "now", "sir", "oh", "ah"):
                return ""
            i += 1
    return answer


def _able(tools: list[Tool]) -> str:
    if not tools:
        return f"{SELF}: I can only call tools and answer from their results, and there are no tools here."
    return f"{SELF}. I can call these tools: {_listed([t.name for t in tools[:5]])}."


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _refused(tools: list[Tool], plain: str, text: str) -> Answer | None:
    if not tools:
        return Answer([], f"{SELF}: I can only call tools and answer from their results, and there are no tools here.", "I have no tools.")
    if max(_scores(tools, Message(text)).values(), default=0.0) >= ENOUGH:
        return None
    words = plain.split()
    asked = {c for c, (_, asks) in CONCEPTS.items() if any(_has(Message(text).low, a) for a in asks)}
    foreign = not set(words) & STOP and len(words) > 2 or any(ord(c) > 0x2FF for c in text)
    knowledge = bool(re.match(r"(?:who|what is|what's|whats|what are|why|which|explain|how do|how does)\b", plain)) and not re.search(r"\b(?:in|for|at) [A-Z]", text)
    if WRITE & set(words[:4]) or (not asked and (knowledge or not foreign) and not any(t for t in tools if "search" in (*t.concepts[0], *t.concepts[1]))) and not (re.search(r"\b(?:in|for|at) [A-Z]", text) or len(words) < 3):
        return Answer([], f"{SELF}, made to call tools: that is beyond me.", "No tool is for this.")
    if not (foreign or knowledge or asked):
        return None
    return Answer([], f"{SELF}: I can only call tools and answer from their results, and none of the tools here fits.", "No tool fits.")


# -- which tool ------------------------------------------------------------------------------------------------------


def _scores(tools: list[Tool], message: Message) -> dict[str, float]:
    """How much each tool is asked for, if at all."""
    low = message.low
    stems = {stem(w.low) for w in message.words if w.low not in STOP}
    asked = {c for c, (_, asks) in CONCEPTS.items() if any(_has(low, a) for a in asks)}
    expression = next(message.expressions(), None) is not None
    found: dict[str, float] = {}
    for tool in tools:
        name = {stem(w) for w in parts_of(tool.name)} | {tool.name.lower()}
        named, also = tool.concepts
        described = f" {' '.join(re.findall(r'[a-z-]+', tool.description.lower()))} "
        score = 0.0
        for concept in asked:
            if concept in named:
                score += 3
            elif concept in also:
                score += 2 if "search" not in named or concept == "search" else 0.5
        own = stems & (name - GENERIC)
        score += 2.5 * len(own)
        score += 0.7 * len(stems & {stem(w) for w in described.split() if w not in STOP and stem(w) not in GENERIC} - own)
        for p in tool.parameters:
            score += 0.5 * len(stems & ({stem(w) for w in parts_of(p.name)} - GENERIC))
            score += 1.0 * any(str(c).lower() in stems for c in p.choices if len(str(c)) > 2)
        math = any(stem(n) in name or _has(described, n) for n in CONCEPTS["math"][0])
        if expression and math:
            score += 4
        signs = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}
        if expression and not math:
            value = next(message.expressions()).value
            score += 3 * any(s in value and bool(CONCEPTS[c][0] & {*name}) for s, c in signs.items())
        if expression and not math and any("expression" in p.kinds[:1] for p in tool.parameters):
            score += 4
        acts = {"delete", "update"} & {*named} - asked
        score -= 2 * bool(acts)
        if next(message.urls(), None) and any("url" in p.kinds for p in tool.parameters):
            score += 3
        if next(message.paths(), None) and any("path" in p.kinds[:1] or "directory" in p.kinds[:1] for p in tool.parameters):
            score += 1.5
        if next(message.emails(), None) and name & {"email", "mail"}:
            score += 2
        if len([1 for _ in message.currencies()]) > 1 and any("currency" in p.kinds[:2] or "base" in p.name for p in tool.parameters):
            score += 2.5
        if next(message.symbols(), None) and any("symbol" in p.kinds[:1] for p in tool.parameters):
            score += 1.5
        if len([1 for _ in message.units()]) > 1 and next(message.numbers(), None) and any("unit" in p.name for p in tool.parameters):
            score += 2.5
        if score > 0.9:
            found[tool.name] = score
    return found


def _has(low: str, phrase: str) -> bool:
    return f" {phrase} " in low or (len(phrase) > 3 and phrase != "time" and f" {phrase}s " in low)


def _best(tools: list[Tool], message: Message) -> Tool | None:
    scores = _scores(tools, message)
    if not scores or max(scores.values()) < ENOUGH:
        search = [t for t in tools if CONCEPTS["search"][0] & {*parts_of(t.name)} and any(p.type == "string" for p in t.parameters)]
        question = _QUESTION.match(message.text.lower()) and len(message) > 3
        return search[0] if len(search) == 1 and question and _about_the_world(message) else None
    best = max(scores.values())
    first = [t for t in tools if scores.get(t.name, 0) == best]
    return first[0] if len(first) == 1 else _fitting(first, message)


def _about_the_world(message: Message) -> bool:
    words = {w.low for w in message.words}
    return not words & (WRITE - {"explain", "describe"}) and not words & {"you", "your", "my", "i"}


def _fitting(tools: list[Tool], message: Message) -> Tool | None:
    """Of tools that are asked for alike, the one whose parameters the message has."""
    full = [t for t in tools if not fill(t, Message(message.text)).missing]
    if not full:
        return None
    return max(full, key=lambda t: len(fill(t, Message(message.text)).values))


# -- clauses ---------------------------------------------------------------------------------------------------------

_SPLIT: Final = re.compile(
    r"(?i)\s*(?:[.?!;]\s+(?:and |also |then )*|,?\s+(?:and then|and also|then|and|also|plus|as well as|&)\s+(?:also |then )?|,\s+)"
)


def _clauses(tools: list[Tool], text: str) -> list[tuple[Tool, str]]:
    """The parts of a message that each ask for a tool, in their order."""
    cuts = [(m.start(), m.end()) for m in _SPLIT.finditer(text) if m.start() > 0 and m.end() < len(text)]
    quoted = [(m.start(), m.end()) for m in re.finditer(r'"[^"]*"', text)]
    cuts = [c for c in cuts if not any(a < c[0] < b for a, b in quoted)][:12]
    whole = _best(tools, Message(text))
    parts: list[tuple[Tool, str]] = []
    begin = 0
    head = ""
    for start, end in [*cuts, (len(text), len(text))]:
        part = text[begin:start]
        tool = _best(tools, Message(part)) if part.strip() else None
        if tool is not None and parts and not _opens(tool, part, parts[-1]):
            tool = None
        if tool is None:
            if parts:
                parts[-1] = (parts[-1][0], text[text.rindex(parts[-1][1]) : start] if parts[-1][1] in text else parts[-1][1])
            else:
                head = text[:end]
        else:
            parts.append((tool, head + part if head and not parts else part))
            head = ""
        begin = end
    if not parts:
        return [] if whole is None else [(whole, text)]
    if len({t.name for t, _ in parts}) == 1:
        cased = any(w.text[0].isupper() and w.low not in STOP for w in Message(text).words[1:])
        each = [fill(t, Message(p), cased=cased) for t, p in parts]
        if len(parts) > 1 and not any(f.missing for f in each) and all(f.values or f.several for f in each):
            return parts
        return [(whole or parts[0][0], text)]
    return parts


def _opens(tool: Tool, part: str, before: tuple[Tool, str]) -> bool:
    """Whether a part begins a request of its own: it does not go on with a text of the one before."""
    words = re.findall(r"[\w']+", part.lower())
    starts = bool(words) and (words[0] in STARTERS or any(stem(w) in {stem(x) for x in parts_of(tool.name)} for w in words[:2] if w not in STOP))
    if tool.name == before[0].name:
        return starts
    free = any(set(p.kinds[:1]) & {"body", "query", "subject"} or not p.kinds for p in before[0].parameters if p.type == "string")
    return starts if free else True


# -- calls -----------------------------------------------------------------------------------------------------------


def _earlier(prompt: Prompt) -> list[Turn]:
    """The calls that answered the message before the last."""
    users = [i for i, t in enumerate(prompt.turns) if t.role == "user"]
    if len(users) < 2:
        return []
    calls = [t for t in prompt.turns[: users[-1]] if t.role == "call"]
    last = [t for t in prompt.turns[users[-2] : users[-1]] if t.role == "call"]
    return last or calls[-1:]


def _calls(tools: list[Tool], text: str, earlier: list[Turn]) -> Answer | None:
    clauses = _clauses(tools, text)
    if not clauses:
        return None
    cased = any(w.text[0].isupper() and w.low not in STOP for w in Message(text).words[1:])
    filled = [(tool, fill(tool, Message(part), cased=cased)) for tool, part in clauses]
    known: dict[str, Any] = {}
    for turn in earlier:
        known.update({_kind(p): turn.arguments[p.name] for t in tools if t.name == turn.text for p in t.parameters if p.name in turn.arguments})
    here: dict[str, tuple[Any, bool]] = {}
    for tool, f in filled:
        for p in tool.parameters:
            if f.several and f.several[0] == p.name:
                here[_kind(p)] = (f.several[1], True)
            elif p.name in f.values:
                here[_kind(p)] = (f.values[p.name], False)
    calls: list[Call] = []
    back = bool(BACK & {w.low for w in Message(text).words})
    for tool, f in filled:
        for p in list(f.missing):
            if len(filled) > 1 and _kind(p) in here and _kind(p) in ("place", "symbol", "zone", "path", "date"):
                value, several = here[_kind(p)]
                _put(tool, f, p, value, several)
            elif _kind(p) in known and (back or len(filled) == 1):
                _put(tool, f, p, known[_kind(p)], False)
        if f.missing:
            if len(filled) == 1 and all(p.kinds[:1] == ("place",) for p in f.missing) and not earlier:
                return Answer([], f"Please say for which {_spaced(f.missing[0].name)}.", f"The {_spaced(f.missing[0].name)} is missing.")
            return None
        calls += [(tool.name, arguments) for arguments in f.calls()]
    unique = [c for i, c in enumerate(calls) if c not in calls[:i]]
    return Answer(unique) if len(unique) <= 8 else None


def _put(tool: Tool, f: Filled, p: Any, value: Any, several: bool) -> None:
    if several:
        f.several = (p.name, value)
    else:
        f.values[p.name] = value
        f.values = {q.name: f.values[q.name] for q in tool.parameters if q.name in f.values}
    f.missing.remove(p)


def _kind(p: Any) -> str:
    kind = str(p.kinds[0]) if p.kinds else str(p.name)
    return "place" if kind == "zone" else kind


def _spaced(name: str) -> str:
    return " ".join(parts_of(name))


# -- follow-ups ------------------------------------------------------------------------------------------------------


def _follow_up(prompt: Prompt, text: str) -> Answer | None:
    """*And in Quito?*: the calls before, with what is new in them."""
    earlier = _earlier(prompt)
    tools = {t.name: t for t in prompt.tools}
    if not earlier or any(t.text not in tools for t in earlier):
        return None
    low = " ".join(re.findall(r"[\w'+*/.-]+", text.lower())).strip(" .")
    if low in AGAIN:
        return Answer([(t.text, t.arguments) for t in earlier])
    begun = next((f for f in FOLLOW if low == f or low.startswith(f"{f} ")), None)
    own = _best(list(prompt.tools), Message(text))
    if begun is None and (len(low.split()) > 5 or own is not None):
        return None
    if own is not None and own.name != earlier[-1].text:
        return None
    tool = tools[earlier[-1].text]
    lead = r"[\s,]+".join(map(re.escape, begun.split())) if begun else ""
    rest = re.sub(rf"(?i)^\W*{lead}\b[\s,]*", "", text) if begun else text
    if begun == "and what about" or not rest.strip():
        return None
    given = {name for turn in earlier if turn.text == tool.name for name in turn.arguments}
    due = tool._replace(parameters=tuple(p._replace(optional=p.optional and p.name not in given) for p in tool.parameters))
    new = fill(due, Message(rest))
    changed = dict(new.values)
    base = [turn for turn in earlier if turn.text == tool.name]
    if not changed and new.several is None:
        return None
    bases = base if not (set(changed) | ({new.several[0]} if new.several else set())) & _main(tool, base) else base[:1]
    calls: list[Call] = []
    for turn in bases:
        kept = {k: v for k, v in turn.arguments.items()}
        merged = {**kept, **changed}
        f = Filled([p.name for p in tool.parameters])
        f.values, f.several = merged, new.several
        for arguments in f.calls():
            calls.append((tool.name, {p.name: arguments[p.name] for p in tool.parameters if p.name in arguments}))
    return Answer(calls)


def _main(tool: Tool, base: list[Turn]) -> set[str]:
    """The parameters in which several calls differ."""
    return {p.name for p in tool.parameters if len({repr(t.arguments.get(p.name)) for t in base}) > 1}
