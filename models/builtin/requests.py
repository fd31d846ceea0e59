"""The requests of the training examples, and the values in them."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from .phrases import PHRASES, filled
from .tools import OPERATIONS, Param, Tool
from .values import value
from .words import COMMON, QUALITIES, VERBS, made_up, number, person, phrase, pick, place, timezone, word

Slots = dict[str, str]

_ASKS: Final = PHRASES["asks"]
_THINGS: Final = PHRASES["things"]
_JOINTS: Final = PHRASES["joints"]
_FRAMES: Final = PHRASES["frames"]
_ASIDES: Final = [text for text in _FRAMES["behind"] if text[:1] in (",", " ") and text[-1] not in ".?!"]


@dataclass(frozen=True)
class Ask:
    """One thing that a request asks for.

    Attributes:
        text: the words, without a capital letter and a full stop.
        intent: one of `INTENTS`, ``other`` for a tool beyond those, or ``chat``.
        slots: values by the kinds of parameters.
        tool: the tool that it was made for, if any.
        reply: for ``chat``, the kind of small talk, which selects a reply in ``phrases``.
    """

    text: str
    intent: str
    slots: Slots = field(default_factory=dict)
    tool: Tool | None = None
    reply: str = ""


def ask(rng: random.Random, intent: str, tool: Tool | None = None) -> Ask:
    """A request of an intent, for a tool if one is given."""
    if intent == "chat":
        return _chat(rng)
    if intent == "other":
        return _other(rng, tool)
    made = {"weather": _weather, "time": _time, "search": _search, "calculation": _calculation}[intent](rng, tool)
    return _extras(rng, made, tool)


def several(rng: random.Random, intent: str, tool: Tool | None, count: int) -> tuple[str, list[Ask]]:
    """One text that asks for the same about several things."""
    asks = [ask(rng, intent, tool) for _ in range(count)]
    if intent in ("weather", "time") and rng.random() < 0.85:
        places = [(a.slots.get("place") or place(rng)).split(",")[0] for a in asks]
        if any("/" in p for p in places):
            places = [timezone(rng) for _ in asks]
        return _of_places(rng, intent, places), [Ask("", intent, _place_slots(p)) for p in places]
    if intent == "calculation" and rng.random() < 0.6:
        return filled(rng, rng.choice(_ASKS["calculation"]), e=" and ".join(a.slots["written"] for a in asks)), asks
    if intent == "search" and rng.random() < 0.6:
        asks = [Ask("", intent, {"query": phrase(rng).replace(" and ", " ")}) for _ in asks]
        joint = rng.choice(_JOINTS["queries"])
        return filled(rng, rng.choice(_ASKS["search"]), q=joint.join(a.slots["query"] for a in asks)), asks
    if intent == "other" and tool is not None and rng.random() < 0.75 and (found := _of_values(rng, tool, count)):
        return found
    return joined(rng, [a.text for a in asks]), asks


_APART: Final = frozenset({"phrase", "list", "said", "body", "text", "task", "none", "sql", "cmd", "question", "doc"})


def _of_values(rng: random.Random, tool: Tool, count: int) -> tuple[str, list[Ask]] | None:
    """A request that names several values of a tool's only parameter."""
    told = [p for p in tool.params if p.kind != "none" and any(f"{{{p.kind}}}" in a for a in tool.asks)]
    told = [p for p in told if p.required] or told
    if len(told) != 1 or told[0].type == "array" or told[0].choices or told[0].kind in _APART:
        return None
    kind = told[0].kind
    if tool.values.get(kind) in _APART:
        return None
    patterns = [re.sub(r"\[[^\]]*\]", "", a) for a in tool.asks]
    patterns = [a for a in patterns if re.findall(r"\{(\w+)\}", a) == [kind] and "=" not in a]
    if not patterns:
        return None
    values = [value(rng, tool.values[kind]).held if tool.values else _value(rng, kind) for _ in range(count)]
    last = pick(rng, " and ", " and ", " and ", ", ", " & ", " or ", " and also ", ", and ")
    said = last.join((", ".join(values[:-1]), values[-1]))
    return rng.choice(patterns).replace(f"{{{kind}}}", said), [Ask("", "other", {kind: v}, tool) for v in values]


def again(rng: random.Random, tool: Tool, slots: Slots) -> tuple[str, list[Ask]] | None:
    """A follow-up after an answer, which asks for the same about something else."""
    told = [p for p in tool.params if p.kind in slots and not p.choices and p.type != "array" and p.kind not in _APART]
    told = [p for p in told if tool.values.get(p.kind) not in _APART]
    if not told or any(p.kind in ("left", "sign") for p in told):
        return None
    p = told[-1] if rng.random() < 0.7 else rng.choice(told)
    count = 2 if rng.random() < 0.15 else 1
    made = [_another(rng, tool, p.kind, slots[p.kind]) for _ in range(count)]
    if made[0] is None:
        return None
    group = "places" if p.kind in ("place", "zone") or tool.values.get(p.kind) in ("place", "d_lang") else "things"
    pattern = rng.choice(PHRASES["again"]["any"] + PHRASES["again"][group])
    text = pattern.format(v=pick(rng, " and ", " and ", " and ", ", ", " & ").join(v for v in made if v))
    if rng.random() < 0.25:
        text = text.lower()
        made = [v.lower() for v in made if v]
    return text, [Ask(text, tool.intent, {**slots, p.kind: v or ""}, tool) for v in made]


def _another(rng: random.Random, tool: Tool, kind: str, old: str) -> str | None:
    if kind == "zone":
        return timezone(rng) if "/" in old else place(rng, 0.4)
    if kind == "place":
        return place(rng, 0.4)
    if kind == "expression":
        return f"{number(rng)}{pick(rng, ' ', '')}{rng.choice('+-*/')}{number(rng)}"
    if kind == "query":
        return phrase(rng)
    if tool.values:
        return value(rng, tool.values[kind]).held if tool.values.get(kind) else None
    return None if kind in ("unit", "days", "date", "count", "mode", "amount") else _value(rng, kind)


def _of_places(rng: random.Random, intent: str, places: list[str]) -> str:
    """A request for the weather or the time of several places."""
    thing = rng.choice(_THINGS[intent])
    roll = rng.random()
    if roll < 0.3 and len(places) == 2:
        return filled(rng, rng.choice(_JOINTS["pairs"]), thing=thing, one=places[0], two=places[1])
    if roll < 0.3 and len(places) == 3:
        slots = dict(zip(("one", "two", "three"), places, strict=True))
        return filled(rng, rng.choice(_JOINTS["repeated"]), slots, thing=thing)
    between = pick(rng, ", ", ", ", ", ", ", ", f", {pick(rng, 'in', 'for', 'at')} ", " and ")
    listed = between.join(places[:-1]) + rng.choice(_JOINTS["places"]) + places[-1]
    if roll < 0.5:
        return str(rng.choice(_JOINTS["compare"])).format(thing, listed)
    return _pattern(rng, intent, listed)


def both(rng: random.Random, intents: Sequence[str]) -> list[Ask]:
    """One text that asks for the weather and the time of one place."""
    where = place(rng)
    things = pick(rng, " and ", " and ", " and the ", " & ", ", ").join(rng.choice(_THINGS[i]) for i in intents)
    lead = f"{_tell(rng)} " if rng.random() < 0.6 else ""
    text = f"{lead}{things} {pick(rng, 'in', 'in', 'in', 'for', 'at', 'of')} {where}"
    return [Ask(text, i, _place_slots(where)) for i in intents]


def joined(rng: random.Random, texts: list[str]) -> str:
    """Join several requests into one."""
    joint = rng.choice(_JOINTS["requests"])
    some = [texts[0]]
    for text in texts[1:]:
        if rng.random() < 0.15:
            some[-1] += rng.choice(_ASIDES)
        if rng.random() < 0.1:
            text = rng.choice(_FRAMES["before"]) + text
        if joint[-2:] in (". ", "? ", "! ") and rng.random() < 0.8:
            text = text[:1].upper() + text[1:]
        some.append(text)
    return str(joint).join(some)


def finished(rng: random.Random, text: str) -> str:
    """A request as a user writes it: with or without a capital letter, and with words before or after it."""
    if rng.random() < 0.6:  # nothing but the request
        text = rng.choice(_FRAMES["usual"]) + text
        text = text[:1].upper() + text[1:] if rng.random() < 0.6 else text
        return text if text[-1] in "?=.!" else text + pick(rng, "?", "?", "", "", ".", " please", "!", ", please")
    if rng.random() < 0.4:
        text = rng.choice(_FRAMES["before"]) + text
    if rng.random() < 0.08:
        text = _aside(rng) + pick(rng, ". ", ". ", ", ", "! ", " - ", ": ") + text
    elif rng.random() < 0.05:
        text += pick(rng, ". ", "? ", ", ", " - ") + _aside(rng)
    if rng.random() < 0.75:
        text = text[:1].upper() + text[1:]
    if text[-1] not in "?=.!":
        text += pick(rng, "?", "?", "?", ".", "", "") if rng.random() < 0.6 else rng.choice(_FRAMES["behind"])
    return text


def _aside(rng: random.Random) -> str:
    """Words that ask for nothing."""
    return filled(rng, rng.choice(_FRAMES["aside"]), _some(rng))


def _tell(rng: random.Random) -> str:
    """The words before the thing that is asked for, which are sometimes any words."""
    if rng.random() < 0.1:
        return filled(rng, rng.choice(_FRAMES["lost"]), _some(rng))
    return str(rng.choice(_FRAMES["tell"]))


def _pattern(rng: random.Random, intent: str, where: str) -> str:
    """A request for the weather or the time of a place."""
    if rng.random() < 0.25:
        return filled(rng, f"{_tell(rng)} {rng.choice(_THINGS[intent])} {{at}} {{place}}{{when}}", place=where)
    return filled(rng, rng.choice(_ASKS[intent]), place=where)


def _place_slots(where: str) -> Slots:
    return {"place": where, "zone": where}


def _weather(rng: random.Random, tool: Tool | None) -> Ask:
    where = place(rng)
    return Ask(_pattern(rng, "weather", where), "weather", _place_slots(where))


def _time(rng: random.Random, tool: Tool | None) -> Ask:
    placed = tool is not None and any(p.kind in ("place", "zone") for p in tool.params)
    required = tool is None or any(p.required for p in tool.params)
    if (not placed and tool is not None) or (not required and rng.random() < 0.3):
        return Ask(filled(rng, rng.choice(_ASKS["time_here"])), "time")
    zoned = tool is not None and any(p.kind == "zone" for p in tool.params) and rng.random() < 0.5
    where = timezone(rng) if zoned else place(rng)
    return Ask(_pattern(rng, "time", where), "time", _place_slots(where))


def _search(rng: random.Random, tool: Tool | None) -> Ask:
    if rng.random() < 0.15:
        question = filled(rng, rng.choice(_ASKS["question"]), _some(rng))
        return Ask(question, "search", {"query": question})
    query = phrase(rng)
    written = f'"{query}"' if rng.random() < 0.06 else query
    if rng.random() < 0.12:
        thing = rng.choice(_THINGS["search"]).format(q=written)
        return Ask(f"{_tell(rng)} {thing}", "search", {"query": query})
    return Ask(filled(rng, rng.choice(_ASKS["search"]), q=written), "search", {"query": query})


_SIGNS: Final = {
    "+": ("add", "plus"),
    "-": ("subtract", "minus"),
    "*": ("multiply", "times"),
    "/": ("divide", "divided by"),
}


def _calculation(rng: random.Random, tool: Tool | None) -> Ask:
    a, b = number(rng), number(rng)
    sign = rng.choice("+-**/")
    slots = {"left": a, "right": b, "sign": sign, "verb": _SIGNS[sign][0], "expression": f"{a} {sign} {b}"}
    pair = tool is not None and any(p.kind == "left" for p in tool.params)
    if pair and tool is not None and any(p.type == "integer" for p in tool.params):
        a, b = a.split(".")[0], b.split(".")[0]
        slots |= {"left": a, "right": b, "expression": f"{a} {sign} {b}"}
    roll = rng.random()
    if roll < 0.3:  # in words
        written = f"{a} {_SIGNS[sign][1]} {b}"
    elif roll < 0.45:
        return Ask(*_phrased(rng, a, b, sign, slots))
    elif roll < 0.52 and not pair:
        slots["expression"] = f"{a} / 100 * {b}"
        written = pick(rng, f"{a}% of {b}", f"{a} percent of {b}")
    elif roll < 0.75 or pair:
        written = slots["expression"]
        if rng.random() < 0.4:
            written = written.replace(" ", "")
            slots["expression"] = slots["expression"].replace(" ", "")
        elif sign == "*" and rng.random() < 0.4:
            written = written.replace("*", "x")
    else:
        written = slots["expression"] = _expression(rng)
    slots["written"] = written
    if rng.random() < 0.1:
        thing = rng.choice(_THINGS["calculation"]).format(e=written)
        return Ask(f"{_tell(rng)} {thing}", "calculation", slots)
    return Ask(filled(rng, rng.choice(_ASKS["calculation"]), e=written), "calculation", slots)


def _phrased(rng: random.Random, a: str, b: str, sign: str, slots: Slots) -> tuple[str, str, Slots]:
    text = filled(rng, rng.choice(PHRASES["phrased"][sign]), a=a, b=b)
    if text.startswith("the "):
        text = pick(rng, "what is ", "calculate ", "find ", "give me ", "compute ") + text
    slots["written"] = f"{a} {sign} {b}"
    return text, "calculation", slots


def _expression(rng: random.Random) -> str:
    space = pick(rng, " ", " ", "")
    parts = [number(rng)]
    for _ in range(rng.randint(1, 3)):
        parts += [rng.choice("+-*/*+^"), number(rng)]
    if len(parts) >= 5 and rng.random() < 0.6:
        at = rng.choice((0, 2))
        parts[at], parts[at + 2] = "(" + parts[at], parts[at + 2] + ")"
    return space.join(parts)


def _some(rng: random.Random) -> Slots:
    return {
        "w": word(rng),
        "w2": rng.choice(COMMON),
        "v": rng.choice(VERBS),
        "v2": rng.choice(VERBS),
        "a": rng.choice(QUALITIES),
        "a2": rng.choice(QUALITIES),
        "n": person(rng),
        "p": place(rng),
        "m": made_up(rng),
    }


def _chat(rng: random.Random) -> Ask:
    if rng.random() < 0.6:
        [kind] = rng.choices(list(PHRASES["chat"]), [len(texts) for texts in PHRASES["chat"].values()])
        text = rng.choice(PHRASES["chat"][kind])
        if rng.random() < 0.2:
            text += pick(
                rng, ", my friend", " and " + text, ", " + person(rng), " " + person(rng), ", pleased to meet you"
            )
        return Ask(text, "chat", {}, None, kind)
    if rng.random() < 0.35:
        return Ask(_foreign(rng), "chat")
    text = filled(rng, rng.choice(_ASKS["other"]), _some(rng))
    if rng.random() < 0.08:
        text = " ".join(word(rng) for _ in range(rng.randint(1, 5)))
    return Ask(text, "chat")


_SCRIPTS: Final = ((0x4E00, 0x9FA0), (0x3041, 0x3097), (0x0430, 0x0450), (0x0621, 0x064B), (0xAC00, 0xD7A0))


def _foreign(rng: random.Random) -> str:
    """A message in another language."""
    if rng.random() < 0.75:
        text: str = rng.choice(PHRASES["foreign"])
        return text.replace("{p}", place(rng, 0.6))
    low, high = rng.choice(_SCRIPTS)
    letters = "".join(chr(rng.randrange(low, high)) for _ in range(rng.randint(2, 14)))
    return letters[:5] + pick(rng, "", " ") + letters[5:]


def _value(rng: random.Random, kind: str) -> str:
    pool = PHRASES["pools"].get(kind)
    if pool:
        return rng.choice(pool) if rng.random() < 0.55 else pick(rng, word(rng), word(rng), phrase(rng))
    if kind.startswith("place"):
        return place(rng)
    if kind.startswith("currency"):
        return pick(rng, "euros", "dollars", "USD", "EUR", "yen", made_up(rng, 2), made_up(rng, 1).upper())
    if kind == "integer":
        return str(rng.randint(1, 10 ** rng.randint(1, 4)))
    if kind == "digits":
        return "".join(rng.choice("0123456789") for _ in range(rng.randint(4, 9)))
    if kind == "name":
        return " ".join(made_up(rng).capitalize() for _ in range(rng.randint(1, 2)))
    if kind == "file":
        return f"{word(rng)}{pick(rng, '', '_' + word(rng))}.{pick(rng, 'txt', 'md', 'py', 'csv', 'json', 'pdf')}"
    if kind == "clock":
        return pick(
            rng,
            f"{rng.randint(1, 12)} {pick(rng, 'am', 'pm')}",
            f"{rng.randint(0, 23)}:{rng.randint(0, 59):02d}",
            f"{rng.randint(1, 12)}",
        )
    if kind == "language":
        return pick(rng, "French", "German", "Spanish", "Italian", made_up(rng, 2).capitalize())
    if kind == "symbol":
        return pick(rng, made_up(rng, 1).upper(), made_up(rng).capitalize())
    if kind == "list":
        return "|".join(word(rng) for _ in range(rng.randint(1, 4)))
    if kind == "day":
        return pick(rng, "today", "tomorrow", "Monday", "Friday", "Sunday", f"May {rng.randint(1, 31)}")
    return {"person": person, "word": word, "phrase": phrase}[kind](rng)


def _other(rng: random.Random, tool: Tool | None) -> Ask:
    if tool is None:
        return _chat(rng)
    if tool.values:
        return _demo(rng, tool)
    pattern = rng.choice(tool.asks)
    slots = {kind: _value(rng, kind) for kind in re.findall(r"\{(\w+)\}", pattern)}
    some = slots.get("list", "").split("|")
    spoken = " and ".join(filter(None, (", ".join(some[:-1]), some[-1])))
    text = pattern.format_map({**slots, "list": spoken})
    if rng.random() < 0.2:
        text = rng.choice(_FRAMES["polite"]) + text
    return _extras(rng, Ask(text, "other", slots, tool), tool)


def _demo(rng: random.Random, tool: Tool, several: int = 1) -> Ask:
    """A request for a tool of the demos, in which optional parts of its pattern may be left out."""
    kinds = {p.kind: p for p in tool.params}

    def part(match: re.Match[str]) -> str:
        told = set(re.findall(r"\{(\w+)[=}]", match[1]))
        return match[1] if told <= set(kinds) and rng.random() < 0.65 else ""

    pattern = re.sub(r"\[([^\]]*)\]", part, rng.choice(tool.asks))
    slots: Slots = {}

    def said(match: re.Match[str]) -> str:
        p = kinds[match[1]]
        if match[2] is not None:
            slots[p.kind] = _operation(p, match[2])
            return ""
        if p.choices:
            slots[p.kind] = rng.choice(p.choices)
            return slots[p.kind]
        made = value(rng, tool.values[p.kind])
        slots[p.kind] = made.held
        return made.said

    text = re.sub(r"\{(\w+)(?:=([^}]*))?\}", said, pattern).strip(" ,;")
    if rng.random() < 0.1:
        text = rng.choice(_FRAMES["polite"]) + text
    return Ask(text, "other", slots, tool)


def _operation(p: Param, named: str) -> str:
    usual = OPERATIONS[0]
    return p.choices[usual.index(named)] if named in usual and p.choices else named


def varied(rng: random.Random, text: str, asks: Sequence[Ask]) -> tuple[str, list[Ask]]:
    """Sometimes write a request in lower case or with a typo. Its values change with it."""
    asks = list(asks)
    if rng.random() < 0.2:
        lower = [replace(a, slots={k: _lowered(a, k, v) for k, v in a.slots.items()}) for a in asks]
        return text.lower(), lower
    if rng.random() < 0.1:
        values = " ".join(v for a in asks for v in a.slots.values())
        spots = [m for m in re.finditer(r"\b[a-z]{4,}\b", text) if m[0] not in values]
        if spots:
            spot = rng.choice(spots)
            at = spot.start() + rng.randrange(1, len(spot[0]) - 1)
            swapped = (
                text[at + 1] + text[at] if rng.random() < 0.5 else pick(rng, text[at], text[at] * 2 + text[at + 1])
            )
            text = text[:at] + swapped + text[at + 2 :]
    return text, asks


def _lowered(asked: Ask, kind: str, held: str) -> str:
    fixed = asked.tool is not None and any(p.kind == kind and p.choices for p in asked.tool.params)
    return held if fixed else held.lower()


def _extras(rng: random.Random, made: Ask, tool: Tool | None) -> Ask:
    """Add values for optional parameters of a tool."""
    text, slots = made.text, dict(made.slots)
    for p in tool.params if tool is not None else ():
        if p.kind == "unit" and (said := [c for c in p.choices if len(c) > 1 and c in text.lower().split()]):
            slots["unit"] = said[0]
            continue
        if p.kind == "date" and (said := [d for d in ("today", "tomorrow", "tonight") if d in text.split()]):
            slots["date"] = said[0]
            continue
        if p.kind not in ("unit", "days", "date", "count", "mode", "amount") or rng.random() < 0.4:
            continue
        if p.kind in ("unit", "mode"):
            held = said_so = rng.choice(p.choices)
            if held.lower() in ("c", "f") and rng.random() < 0.6:
                said_so = {"c": "celsius", "f": "fahrenheit"}[held.lower()]
        elif p.kind == "date":
            held = said_so = pick(rng, "today", "tomorrow", "Monday", "Tuesday", "Saturday", "Sunday")
        else:
            held = said_so = str(rng.randint(1, 20 if p.kind != "amount" else 500))
        if p.kind == "days" and rng.random() < 0.4 and made.intent == "weather":
            text = rng.choice(PHRASES["forecasts"]).format(v=held, place=slots["place"])
        else:
            text += rng.choice(PHRASES["extras"][p.kind]).format(v=said_so, n=p.name)
        slots[p.kind] = held
    return Ask(text, made.intent, slots, made.tool, made.reply)
