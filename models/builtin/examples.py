"""Training conversations: what the model reads, and what it should write.

An example is a list of pieces of text. Its form is that of the chat template, as the tests check, except that it keeps
the thinking of earlier turns, so that one prompt teaches several outputs.
"""

import itertools
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import jinja2

from . import natural
from .phrases import PHRASES
from .requests import Ask, again, ask, both, finished, joined, several, varied
from .results import result, told
from .tools import INTENTS, Param, Tool, tool
from .values import value
from .words import COMMON, made_up, pick, word


class Piece(NamedTuple):
    """A piece of an example.

    Attributes:
        learnt: whether the model learns to write it.
        topic: for the marker before a tool's name, the purpose of the tool, as a number; see `TOPICS`.
        forced: whether it is learnt as under a constraint, which does not let the output end here.
    """

    text: str
    learnt: bool
    topic: int = -1
    forced: bool = False


FOLDER: Final = Path(__file__).parents[2] / "src/unspool/engines/builtin"
"""The folder of the model's files."""

BOS: Final = "<｜begin▁of▁sentence｜>"
EOS: Final = "<｜end▁of▁sentence｜>"
USER: Final = "<｜User｜>"
ASSISTANT: Final = "<｜Assistant｜>"
CALLS: Final = "<｜tool▁calls▁begin｜>"
CALLS_END: Final = "<｜tool▁calls▁end｜>"
CALL: Final = "<｜tool▁call▁begin｜>"
CALL_END: Final = "<｜tool▁call▁end｜>"
SEP: Final = "<｜tool▁sep｜>"
OUTPUT: Final = "<｜tool▁output▁begin｜>"
OUTPUT_END: Final = "<｜tool▁output▁end｜>"

TOPICS: Final = (*INTENTS, "other")
"""The purposes of tools."""

_TOPICS: Final = {"weather": "the weather", "time": "the time", "calculation": "a calculation", "search": "a search"}
_TIMES: Final = {2: " twice", 3: " three times", 4: " four times"}
_SYSTEM: Final = (
    "You are a helpful assistant.",
    "You are a friendly assistant. Answer briefly.",
    "Use the tools where they help.",
    "You are the assistant of a small company.",
    "Be polite. Call a tool when you can.",
)

_USERS: Final = re.compile(f"{USER}([^<]*)")

Call = tuple[Tool, dict[str, Any]]


@cache
def template() -> jinja2.Template:
    """The model's chat template."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda v: json.dumps(v, ensure_ascii=False)
    return environment.from_string((FOLDER / "chat_template.jinja").read_text(encoding="utf-8"))


class Shares(NamedTuple):
    """The shares of kinds of turns and conversations.

    Attributes:
        plain: of all turns, those that no declared tool fits.
        results: of turns with calls, those that continue with results.
        incomplete: of all turns, those that lack a value that their tool needs.
        others: of conversations, not turns: those whose tools mostly have other purposes than the four intents.
        again: of turns after an answered call, those that ask for the same about something else.
        structured: of all turns, those whose answer a schema constrains.
        short: of conversations, those with one or two tools and one or two requests.
        thinking: of all turns, those with thinking.
        demos: of tools for other purposes, those of ``phrases/demos.toml``.
        pairs: of conversations, those with at least two tools; of their requests, those that ask for two things.
    """

    plain: float = 0.22
    results: float = 0.15
    incomplete: float = 0.02
    others: float = 0.0
    again: float = 0.0
    structured: float = 0.0
    short: float = 0.0
    thinking: float = 0.6
    demos: float = 0.55
    pairs: float = 0.0


class Done(NamedTuple):
    """An answered call, to which a later turn may return."""

    tool: Tool
    asked: Ask


USUAL: Final = Shares()


def examples(seed: int, ramp: int = 0, shares: Shares = USUAL) -> Iterator[list[Piece]]:
    """Endless examples, the same ones for the same seed.

    Args:
        ramp: the number of examples after which they stop getting harder; the first ones have one tool and one turn.
        shares: the shares of the kinds of turns.
    """
    rng = random.Random(seed)
    head = template()
    for i in itertools.count():
        made = conversation(rng, head, min(1.0, i / ramp) if ramp else 1.0, shares)
        if not any(natural.plain(text) in natural.asked() for text in _USERS.findall("".join(p.text for p in made))):
            yield made


def conversation(rng: random.Random, head: jinja2.Template, level: float, shares: Shares) -> list[Piece]:
    """One conversation of one or several turns. The level goes from 0 (easy) to 1 (hard)."""
    if rng.random() < shares.short:
        level *= rng.choice((0.0, 0.1, 0.3))
    tools = declared(rng, level, shares)
    messages = [{"role": "system", "content": _system(rng)}] if rng.random() < 0.35 else []
    prompt = head.render(
        messages=messages, tools=[t.declaration() for t in tools] or None, bos_token=BOS, eos_token=EOS,
        add_generation_prompt=False,
    )  # fmt: skip
    pieces = [Piece(prompt, False)]
    for t in tools:
        text, rest = pieces.pop().text.split(f"\n#{t.name}\n", 1)
        pieces += [
            Piece(text + "\n", False),
            Piece("#", False, TOPICS.index(t.intent)),
            Piece(f"{t.name}\n{rest}", False),
        ]
    done: Done | None = None
    turns = 1 + int(rng.random() * (1 + 2 * level))
    while turns > 0:
        found = after(rng, tools, done, shares) if done and rng.random() < shares.again else None
        made, done = found or turn(rng, tools, level, shares)
        pieces += made
        turns -= 1 if not done or rng.random() > shares.again / 2 else 0  # most have a call to return to
    return pieces


def _system(rng: random.Random) -> str:
    if rng.random() < 0.6:
        return rng.choice(_SYSTEM)
    kind = pick(rng, "an assistant", "a helper", "a bot")
    return f"You are {made_up(rng).capitalize()}, {kind} for {rng.choice(COMMON)} and {word(rng)}."


def declared(rng: random.Random, level: float = 1.0, shares: Shares = USUAL) -> list[Tool]:
    """Tools in any order, at most one of each of the four intents."""
    if rng.random() < 0.1:
        return []
    count = 1 + int(rng.random() * (1 + 3.5 * level))
    if shares.pairs and rng.random() < shares.pairs:
        count = max(2, count)
    intents = rng.sample(INTENTS, min(count, rng.choice((1, 2, 2, 3, 3, 4))))
    if count == 1 and rng.random() < 0.25:
        intents = ["other"]
    if shares.others and rng.random() < shares.others:
        count = max(2, count) if level > 0.3 else count
        intents = intents[: rng.choice((0, 0, 1, 1, 2) if level > 0.3 else (0, 0, 0, 0, 1))]
    intents += ["other"] * (count - len(intents))
    made = {t.name: t for t in (tool(rng, intent, shares.demos) for intent in intents)}
    tools = list(made.values())
    rng.shuffle(tools)
    return tools


def turn(rng: random.Random, tools: Sequence[Tool], level: float, shares: Shares) -> tuple[list[Piece], Done | None]:
    """A request and its answer; after calls, often their results and the model's answer to them."""
    thinking = rng.random() < shares.thinking
    if rng.random() < shares.structured:
        return structured(rng, tools, thinking), None
    roll = rng.random()
    absent = missing(tools)
    if not tools or roll < shares.plain:
        asked = _beside(rng, tools, absent)
        text, [asked] = varied(rng, finished(rng, asked.text), [asked])
        if tools and rng.random() < 0.2:
            return forced(rng, tools, text, [asked], thinking=thinking), None
        return [*_opened(text, thinking), *_plain(asked, thinking, tools)], None
    if roll < shares.plain + 0.07:
        chosen = rng.choice(tools)
        asked = ask(rng, chosen.intent, chosen)
        text, [asked] = varied(rng, finished(rng, asked.text), [asked])
        return forced(rng, tools, text, [asked], thinking=thinking, fits=chosen), None
    if roll < shares.plain + 0.07 + shares.incomplete and (found := _incomplete(rng, tools, thinking)):
        return found, None
    asks, text = requested(rng, tools, level, shares)
    text, varying = varied(rng, finished(rng, text), [a for _, a in asks])
    return answered(rng, text, [(t, a) for (t, _), a in zip(asks, varying, strict=True)], tools, thinking, shares)


def missing(tools: Sequence[Tool]) -> list[str]:
    """The intents that no tool serves."""
    return [i for i in INTENTS if all(t.intent != i and i not in t.covers for t in tools)]


def _beside(rng: random.Random, tools: Sequence[Tool], absent: Sequence[str]) -> Ask:
    """A request that no tool fits, or that needs none."""
    intent = rng.choice(absent) if absent and rng.random() < 0.45 else pick(rng, "chat", "chat", "chat", "other")
    if intent == "other":
        known = {frozenset(t.asks) for t in tools}
        made = tool(rng, "other")
        if (any(t.values for t in tools) and made.values) or frozenset(made.asks) in known:
            intent = "chat"
        else:
            return ask(rng, "other", made)
    asked = ask(rng, intent)
    while intent == "chat" and not asked.reply and any("chat" in t.covers for t in tools):
        asked = ask(rng, intent)
    return asked


def _talk(rng: random.Random) -> Ask:
    while True:
        if (asked := ask(rng, "chat")).reply in ("thanks", "ok", "how", "bye"):
            return asked


def answered(
    rng: random.Random,
    text: str,
    asks: Sequence[tuple[Tool | None, Ask]],
    tools: Sequence[Tool],
    thinking: bool,
    shares: Shares,
) -> tuple[list[Piece], Done | None]:
    """The calls that a request asks for; often their results and the model's answer to them follow."""
    made = [(t, a, arguments(t, a.slots)) for t, a in asks if t is not None]
    calls = [(t, found) for t, _, found in made if found is not None]
    pieces = _opened(text, thinking)
    if not calls:
        return [*pieces, *_plain(asks[0][1], thinking, tools)], None
    if thinking:
        pieces.append(Piece(f"{_about([a for _, a in asks])} {_using([t for t, _ in calls])}</think>", True))
    pieces.append(Piece(written(calls) + EOS, True))
    if rng.random() >= max(shares.results, shares.again * 0.6):
        return pieces, None
    results = [result(rng, t.intent) for t, _ in calls]
    pieces.append(Piece("".join(f"{OUTPUT}{text}{OUTPUT_END}" for text, _ in results), False))
    if rng.random() < shares.results or len(calls) > 1:
        pieces.append(Piece(told([(a, said) for (_, a), (_, said) in zip(calls, results, strict=True)]) + EOS, True))
    else:  # as another model would say it
        first = next((v for v in calls[0][1].values() if isinstance(v, str)), "it")
        pieces.append(
            Piece(rng.choice(PHRASES["again"]["said"]).format(r=results[0][1].rstrip("."), v=first) + EOS, False)
        )
    t, asked, _ = made[-1]
    return pieces, Done(t, asked)


def after(
    rng: random.Random, tools: Sequence[Tool], done: Done, shares: Shares
) -> tuple[list[Piece], Done | None] | None:
    """A turn that can only be understood with the one before it."""
    thinking = rng.random() < shares.thinking
    if rng.random() < 0.2:
        asked = _talk(rng)
        return [*_opened(finished(rng, asked.text), thinking), *_plain(asked, thinking, tools)], done
    others = [t for t in tools if t.intent in ("weather", "time") and t.intent != done.tool.intent]
    there = done.asked.slots.get("place") if done.tool.intent in ("weather", "time") else None
    if others and there and rng.random() < 0.3 and any(p.kind == "place" for p in others[0].params):
        asked = Ask(
            rng.choice(PHRASES["again"][f"{others[0].intent}_there"]), others[0].intent, {"place": there, "zone": there}
        )
        text, chosen, asks = asked.text, others[0], [asked]
    else:
        found = again(rng, done.tool, done.asked.slots)
        if found is None:
            return None
        (text, asks), chosen = found, done.tool
    if rng.random() < 0.5:
        text = text[:1].upper() + text[1:]
    text += pick(rng, "?", "?", "?", "", "", ".") if text[-1] not in "?.!" else ""
    return answered(rng, text, [(chosen, a) for a in asks], tools, thinking, Shares(results=0.3, again=0.5))


_FIELDS: Final = {
    "name": "fullname", "first_name": "first", "city": "place", "age": "age", "email": "email", "date": "iso",
    "amount": "number", "product": "b_product", "items": "groceries", "country": "country", "color": "d_color",
    "year": "year", "tags": "words", "language": "d_lang", "title": "title", "count": "small", "price": "number",
}  # fmt: skip
_WHOLE: Final = ("age", "amount", "year", "count", "price")


def structured(rng: random.Random, tools: Sequence[Tool], thinking: bool) -> list[Piece]:
    """An answer that a schema constrains: the keys are given, and the values are learnt."""
    if rng.random() < 0.25:  # any object
        asked = _beside(rng, tools, missing(tools))
        pieces = [*_opened(finished(rng, asked.text), thinking), *_plain(asked, thinking, tools)[:1]]
        why, _, said = pieces.pop().text.removesuffix(EOS).rpartition("</think>")
        text = json.dumps({"answer": said}, ensure_ascii=False)
        return [*pieces, Piece((why + "</think>") * thinking, True), Piece('{"', False), Piece(text[2:] + EOS, True)]
    keys = rng.sample(list(_FIELDS), rng.choice((1, 2, 2, 3)))
    found = {k: value(rng, _FIELDS[k]) for k in keys}
    style = rng.random()
    if style < 0.35:
        text = ", ".join(f"{k.replace('_', ' ')}: {v.said}" for k, v in found.items())
    elif style < 0.7:
        text = " and ".join(
            rng.choice(PHRASES["fields"].get(k, ["the {k} is {v}"])).format(k=k, v=v.said) for k, v in found.items()
        )
    else:
        text = _beside(rng, tools, missing(tools)).text
        found = {}
    if rng.random() < 0.3:
        text = rng.choice(("extract: ", "Extract the data: ", "as JSON: ", "parse this: ", "fill in the form: ")) + text
    pieces = _opened(finished(rng, text) if style >= 0.7 else text, thinking)
    if thinking:
        pieces.append(
            Piece(f"This is about something else. {'No tool fits' if tools else 'I have no tools'}.</think>", True)
        )
    for i, key in enumerate(keys):
        listed = key in ("items", "tags")
        kind = "array" if listed else "number" if key in _WHOLE else "string"
        held = found[key].held if key in found else "" if listed else "0" if kind == "number" else "unknown"
        dumped = json.dumps([] if listed and not held else _typed(Param(key, "", kind), held), ensure_ascii=False)
        shown = key if rng.random() < 0.8 else f"{rng.choice(COMMON)}_{key}"
        pieces.append(Piece(f'{" " if i else "{"}"{shown}":', False))
        pieces.append(Piece(f" {dumped}" + ("," if i < len(keys) - 1 else "}" + EOS), True))
    return pieces


def _opened(text: str, thinking: bool) -> list[Piece]:
    return [Piece(f"{USER}{text}{ASSISTANT}{'<think>' if thinking else '</think>'}", False)]


def requested(
    rng: random.Random, tools: Sequence[Tool], level: float = 1.0, shares: Shares = USUAL
) -> tuple[list[tuple[Tool | None, Ask]], str]:
    """The things that a request asks for, each with the tool that fits, and its text."""
    roll = rng.random()
    level = max(level, 0.9) if shares.short else level
    # If conversations are mostly about the four intents, tools for them are asked for twice as often as others.
    chosen = rng.choice([t for t in tools for _ in range(2 if t.intent != "other" or shares.others else 1)])
    if roll < 0.2 * level and chosen.params:
        count = rng.choice((2, 2, 2, 2, 3, 3, 4))
        text, asks = several(rng, chosen.intent, chosen, count)
        return [(chosen, a) for a in asks], text
    if 0.2 < roll < 0.2 + max(0.2 * level, shares.pairs if len(tools) > 1 else 0.0):
        if found := _shared_place(rng, tools):
            return found
        pairs: list[tuple[Tool | None, Ask]] = [
            (t, ask(rng, t.intent, t)) for t in rng.sample(list(tools), min(len(tools), rng.choice((2, 2, 3))))
        ]
        absent = missing(tools)
        if (absent and rng.random() < 0.2) or len(pairs) == 1:  # something that no tool fits
            pairs.insert(rng.randrange(len(pairs) + 1), (None, ask(rng, rng.choice(absent or ["chat"]))))
        return pairs, joined(rng, [a.text for _, a in pairs])
    asked = ask(rng, chosen.intent, chosen)
    return [(chosen, asked)], asked.text


def _shared_place(rng: random.Random, tools: Sequence[Tool]) -> tuple[list[tuple[Tool | None, Ask]], str] | None:
    """Sometimes the weather and the time of one place, which the text names once."""
    some = [t for t in tools if t.intent in ("weather", "time") and any(p.kind in ("place", "zone") for p in t.params)]
    if len(some) < 2 or rng.random() < 0.6:
        return None
    rng.shuffle(some)
    asks = both(rng, [t.intent for t in some])
    return [(t, a) for t, a in zip(some, asks, strict=True)], asks[0].text


def _about(asks: Sequence[Ask]) -> str:
    if all(a.reply for a in asks):
        return "This is small talk."
    topics = list(dict.fromkeys(_TOPICS.get(a.intent, "something else") for a in asks))
    return f"This is about {_listed(topics)}."


def _using(tools: Sequence[Tool]) -> str:
    names = [t.name for t in tools]
    return f"I use {_listed([n + _TIMES.get(names.count(n), '') for n in dict.fromkeys(names)])}."


def _listed(items: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(items[:-1]), items[-1])))


def _plain(asked: Ask, thinking: bool, tools: Sequence[Tool]) -> list[Piece]:
    """An answer without calls."""
    why = "No tool is needed." if asked.reply else "No tool fits." if tools else "I have no tools."
    return [Piece(f"{_about([asked])} {why}</think>" * thinking + _reply(asked, tools) + EOS, True)]


def _reply(asked: Ask, tools: Sequence[Tool]) -> str:
    replies = PHRASES["replies"]
    if asked.reply == "can":
        told = f"Here I have {_listed([t.name for t in tools[:5]])}." if tools else "There are no tools here."
        return str(replies["can"]) + told
    if asked.reply:
        return str(replies[asked.reply])
    return str(replies["cannot"]) + ("none of the tools here fits." if tools else "there are no tools here.")


def forced(
    rng: random.Random,
    tools: Sequence[Tool],
    text: str,
    asks: Sequence[Ask],
    *,
    thinking: bool,
    fits: Tool | None = None,
) -> list[Piece]:
    """A call that ``tool_choice`` forces, whatever the request says. The model learns only the arguments."""
    chosen = rng.choice(tools)
    pieces = _opened(text, thinking)
    if thinking:
        why = _using([fits]) if fits else "No tool is needed." if asks[0].reply else "No tool fits."
        pieces.append(Piece(f"{_about(asks)} {why}</think>", True))
    slots = asks[0].slots if chosen.intent == asks[0].intent and chosen in (fits, asks[0].tool) else _shared(asks[0])
    pieces.append(Piece(f"{CALLS}{CALL}{chosen.name}{SEP}", False))
    made = arguments(chosen, slots, fallback=text)
    return [*pieces, Piece(json.dumps(made, ensure_ascii=False) + CALL_END + CALLS_END + EOS, True)]


def _shared(asked: Ask) -> dict[str, str]:
    """The values of a request that tools for other requests can take."""
    return {k: v for k, v in asked.slots.items() if k in ("place", "zone", "expression") and v in asked.text}


def _incomplete(rng: random.Random, tools: Sequence[Tool], thinking: bool) -> list[Piece]:
    """A request that lacks a value that its tool needs."""
    for t in tools:
        missing = [p for p in t.params if p.required and p.kind in ("place", "zone")]
        if t.intent in ("weather", "time") and missing:
            text = finished(rng, rng.choice(PHRASES["incomplete"][t.intent]))
            why = f"This is about {_TOPICS[t.intent]}. The {missing[0].name} is missing.</think>" * thinking
            return [*_opened(text, thinking), Piece(f"{why}Please tell me the {missing[0].name}.{EOS}", True)]
    return []


def arguments(t: Tool, slots: Mapping[str, str], fallback: str | None = None) -> dict[str, Any] | None:
    """A tool's arguments from a request's values.

    Args:
        fallback: the value of required texts that the request does not mention; ``None``: no call can be made.
    """
    made: dict[str, Any] = {}
    for p in t.params:
        value = slots.get(p.kind)
        if p.kind == "operation" and "sign" in slots:
            value = slots["sign" if "+" in p.choices else "verb"]
        if value is None:
            if not p.required:
                continue
            value = _default(p, fallback)
            if value is None:
                return None
        made[p.name] = _typed(p, value)
    return made


def _default(p: Param, fallback: str | None) -> str | None:
    """The value of a required parameter that the request does not mention; ``None`` if no call can be made."""
    if fallback is None:
        return None
    if p.choices:
        return p.choices[0]
    if p.kind in ("query", "expression") and p.type == "string":
        return " ".join(fallback.split(" ")[:8])
    return (
        "unknown" if p.type in ("string", "array") and p.kind != "numbers" else "false" if p.type == "boolean" else "1"
    )


def _typed(p: Param, value: str) -> Any:
    if p.type == "integer":
        return int(value.split(".")[0])
    if p.type == "number":
        return float(value) if "." in value else int(value)
    if p.type == "array":
        items = value.split("|")
        return [_typed(Param("", "", "number"), i) for i in items] if p.kind == "numbers" else items
    if p.type == "boolean":
        return value in ("1", "true")
    return {} if p.type == "object" else value


def written(calls: Sequence[Call]) -> str:
    """Calls as the model writes them."""
    made = [f"{CALL}{t.name}{SEP}{json.dumps(a, ensure_ascii=False)}{CALL_END}" for t, a in calls]
    return f"{CALLS}{''.join(made)}{CALLS_END}"
