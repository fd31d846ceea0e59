"""What users of the training examples ask for, and which values it holds."""

import random
import re
from dataclasses import dataclass, field
from typing import Final

from .phrases import PHRASES, filled
from .tools import Tool
from .words import COMMON, QUALITIES, VERBS, made_up, number, person, phrase, pick, place, timezone, word

Slots = dict[str, str]

_ASKS: Final = PHRASES["asks"]
_THINGS: Final = PHRASES["things"]
_JOINTS: Final = PHRASES["joints"]
_FRAMES: Final = PHRASES["frames"]
_ASIDES: Final = [text for text in _FRAMES["behind"] if text[:1] in (",", " ") and text[-1] not in ".?!"]


@dataclass(frozen=True)
class Ask:
    """One thing that is asked for.

    Attributes:
        text: the words, without capital and full stop.
        intent: one of `INTENTS`, ``other`` for a tool beyond those, ``chat``.
        slots: values by the kinds of parameters.
        tool: the tool it was made for, where it was.
        reply: the answer, for ``chat``.
    """

    text: str
    intent: str
    slots: Slots = field(default_factory=dict)
    tool: Tool | None = None
    reply: str = ""


def ask(rng: random.Random, intent: str, tool: Tool | None = None) -> Ask:
    """A request of an intent, for a tool where there is one."""
    if intent == "chat":
        return _chat(rng)
    if intent == "other":
        return _other(rng, tool)
    made = {"weather": _weather, "time": _time, "search": _search, "calculation": _calculation}[intent](rng, tool)
    return _extras(rng, made, tool)


def several(rng: random.Random, intent: str, tool: Tool | None, count: int) -> tuple[str, list[Ask]]:
    """One text that asks for the same of several things."""
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
    return joined(rng, [a.text for a in asks]), asks


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


def joined(rng: random.Random, texts: list[str]) -> str:
    """Several requests as one."""
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
    """A request as a user writes it: capital or none, something before it, something behind."""
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
    """What stands before the thing that is asked for: any words, at times."""
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
    if tool is not None and not any(p.required for p in tool.params):
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
    if rng.random() < 0.35:
        kind = rng.choice(list(PHRASES["chat"]))
        text = rng.choice(PHRASES["chat"][kind])
        if rng.random() < 0.2:
            text += pick(
                rng, ", my friend", " and " + text, ", " + person(rng), " " + person(rng), ", pleased to meet you"
            )
        return Ask(text, "chat", {}, None, PHRASES["replies"][kind])
    text = filled(rng, rng.choice(_ASKS["other"]), _some(rng))
    if rng.random() < 0.08:
        text = " ".join(word(rng) for _ in range(rng.randint(1, 5)))
    return Ask(text, "chat")


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
    pattern = rng.choice(tool.asks)
    slots = {kind: _value(rng, kind) for kind in re.findall(r"\{(\w+)\}", pattern)}
    some = slots.get("list", "").split("|")
    spoken = " and ".join(filter(None, (", ".join(some[:-1]), some[-1])))
    text = pattern.format_map({**slots, "list": spoken})
    if rng.random() < 0.2:
        text = rng.choice(_FRAMES["polite"]) + text
    return _extras(rng, Ask(text, "other", slots, tool), tool)


def _extras(rng: random.Random, made: Ask, tool: Tool | None) -> Ask:
    """Adds what optional parameters of a tool take."""
    text, slots = made.text, dict(made.slots)
    for p in tool.params if tool is not None else ():
        if p.kind == "unit" and (said := [c for c in p.choices if len(c) > 1 and c in text.lower().split()]):
            slots["unit"] = said[0]
            continue
        if p.kind == "date" and (said := [d for d in ("today", "tomorrow", "tonight") if d in text.split()]):
            slots["date"] = said[0]
            continue
        if p.kind not in ("unit", "days", "date", "count", "mode", "amount") or rng.random() < 0.45:
            continue
        if p.kind in ("unit", "mode"):
            value = rng.choice(p.choices)
        elif p.kind == "date":
            value = pick(rng, "today", "tomorrow", "Monday", "Tuesday", "Saturday", "Sunday")
        else:
            value = str(rng.randint(1, 20 if p.kind != "amount" else 500))
        text += rng.choice(PHRASES["extras"][p.kind]).format(v=value, n=p.name)
        slots[p.kind] = value
    return Ask(text, made.intent, slots, made.tool, made.reply)
