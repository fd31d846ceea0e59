"""Conversations to learn from: what the model reads, and what it should write.

An example is a list of pieces of text. Its form is that of the chat
template, which the tests compare; only thinking of earlier turns is kept, so that one prompt teaches several outputs.
"""

import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import jinja2

from .phrases import PHRASES
from .requests import Ask, ask, finished, joined, several
from .results import result, told
from .tools import INTENTS, Param, Tool, tool
from .words import COMMON, made_up, pick, word


class Piece(NamedTuple):
    """A piece of an example.

    Attributes:
        learnt: whether the model learns to write it.
        topic: for the mark before a tool's name, what the tool is for, as a number; see `TOPICS`.
        forced: whether it is to be learnt as it is generated under a constraint that does not let the output end here.
    """

    text: str
    learnt: bool
    topic: int = -1
    forced: bool = False


FOLDER: Final = Path(__file__).parents[2] / "src/unspool/engines/builtin"
"""Where the model's files are."""

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
"""What tools are for."""

_TOPICS: Final = {"weather": "the weather", "time": "the time", "calculation": "a calculation", "search": "a search"}
_TIMES: Final = {2: " twice", 3: " three times", 4: " four times"}
_SYSTEM: Final = (
    "You are a helpful assistant.",
    "You are a friendly assistant. Answer briefly.",
    "Use the tools where they help.",
    "You are the assistant of a small company.",
    "Be polite. Call a tool when you can.",
)

Call = tuple[Tool, dict[str, Any]]


def template() -> jinja2.Template:
    """The model's chat template."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda v: json.dumps(v, ensure_ascii=False)
    return environment.from_string((FOLDER / "chat_template.jinja").read_text(encoding="utf-8"))


class Shares(NamedTuple):
    """What part of the turns are of a kind.

    Attributes:
        plain: of all, those that no declared tool fits.
        results: of those with calls, those that go on with results.
        incomplete: of all, those that lack what their tool needs.
        others: of conversations, not turns: those whose tools are mostly for something else than the four intents.
    """

    plain: float = 0.22
    results: float = 0.15
    incomplete: float = 0.02
    others: float = 0.0


USUAL: Final = Shares()


def examples(seed: int, ramp: int = 0, shares: Shares = USUAL) -> Iterator[list[Piece]]:
    """Examples without end, the same ones for the same seed.

    Args:
        ramp: after so many examples they are as hard as they get; the first have one tool and one turn.
        shares: of the kinds of turns.
    """
    rng = random.Random(seed)
    head = template()
    for i in itertools.count():
        yield conversation(rng, head, min(1.0, i / ramp) if ramp else 1.0, shares)


def conversation(rng: random.Random, head: jinja2.Template, level: float, shares: Shares) -> list[Piece]:
    """One conversation of one or several turns; the level goes from 0, easy, to 1."""
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
    for _ in range(1 + int(rng.random() * (1 + 2 * level))):
        pieces += turn(rng, tools, level, shares)
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
    intents = rng.sample(INTENTS, min(count, rng.choice((1, 2, 2, 3, 3, 4))))
    if count == 1 and rng.random() < 0.25:
        intents = ["other"]
    if shares.others and rng.random() < shares.others:
        count = max(2, count)
        intents = intents[: rng.choice((0, 0, 1, 1, 2))]
    intents += ["other"] * (count - len(intents))
    made = {t.name: t for t in (tool(rng, intent) for intent in intents)}
    tools = list(made.values())
    rng.shuffle(tools)
    return tools


def turn(rng: random.Random, tools: Sequence[Tool], level: float, shares: Shares) -> list[Piece]:
    """A request and the answer to it; after calls, often their results and what the model makes of them."""
    thinking = rng.random() < 0.6
    roll = rng.random()
    absent = [i for i in INTENTS if all(t.intent != i for t in tools)]
    if not tools or roll < shares.plain:
        intent = rng.choice(absent) if absent and rng.random() < 0.6 else pick(rng, "chat", "chat", "other")
        asked = ask(rng, intent, tool(rng, "other") if intent == "other" else None)
        text = finished(rng, asked.text)
        if tools and rng.random() < 0.2:
            return forced(rng, tools, text, [asked], thinking=thinking)
        return [*_opened(text, thinking), *_plain(asked, thinking, bool(tools))]
    if roll < shares.plain + 0.07:
        chosen = rng.choice(tools)
        asked = ask(rng, chosen.intent, chosen)
        return forced(rng, tools, finished(rng, asked.text), [asked], thinking=thinking, fits=chosen)
    if roll < shares.plain + 0.07 + shares.incomplete and (found := _incomplete(rng, tools, thinking)):
        return found
    asks, text = requested(rng, tools, level, shares)
    calls = [(t, made) for t, a in asks if t is not None and (made := arguments(t, a.slots)) is not None]
    if not calls:
        return [*_opened(finished(rng, text), thinking), *_plain(asks[0][1], thinking, True)]
    pieces = _opened(finished(rng, text), thinking)
    if thinking:
        pieces.append(Piece(f"{_about([a for _, a in asks])} {_using([t for t, _ in calls])}</think>", True))
    pieces.append(Piece(written(calls) + EOS, True))
    if rng.random() < shares.results:
        results = [result(rng, t.intent) for t, _ in calls]
        pieces.append(Piece("".join(f"{OUTPUT}{text}{OUTPUT_END}" for text, _ in results), False))
        pieces.append(Piece(told([(a, said) for (_, a), (_, said) in zip(calls, results, strict=True)]) + EOS, True))
    return pieces


def _opened(text: str, thinking: bool) -> list[Piece]:
    return [Piece(f"{USER}{text}{ASSISTANT}{'<think>' if thinking else '</think>'}", False)]


def requested(
    rng: random.Random, tools: Sequence[Tool], level: float = 1.0, shares: Shares = USUAL
) -> tuple[list[tuple[Tool | None, Ask]], str]:
    """What is asked for, each with the tool that fits, and the text."""
    roll = rng.random()
    # Where the four intents are what matters, tools for them are asked for twice as often as others.
    chosen = rng.choice([t for t in tools for _ in range(2 if t.intent != "other" or shares.others else 1)])
    if roll < 0.2 * level and chosen.params:
        count = rng.choice((2, 2, 2, 3, 3, 4))
        text, asks = several(rng, chosen.intent, chosen, count)
        return [(chosen, a) for a in asks], text
    if 0.2 < roll < 0.2 + 0.2 * level:
        pairs: list[tuple[Tool | None, Ask]] = [
            (t, ask(rng, t.intent, t)) for t in rng.sample(list(tools), min(len(tools), rng.choice((2, 2, 3))))
        ]
        absent = [i for i in INTENTS if all(t.intent != i for t in tools)]
        if (absent and rng.random() < 0.2) or len(pairs) == 1:  # one that no tool fits
            pairs.insert(rng.randrange(len(pairs) + 1), (None, ask(rng, rng.choice(absent or ["chat"]))))
        return pairs, joined(rng, [a.text for _, a in pairs])
    asked = ask(rng, chosen.intent, chosen)
    return [(chosen, asked)], asked.text


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


def _plain(asked: Ask, thinking: bool, tools: bool) -> list[Piece]:
    """An answer without calls."""
    why = "No tool is needed." if asked.reply else "No tool fits." if tools else "I have no tools."
    return [Piece(f"{_about([asked])} {why}</think>" * thinking + _reply(asked) + EOS, True)]


def _reply(asked: Ask) -> str:
    return asked.reply or f"I have no tool for {_TOPICS.get(asked.intent, 'that')}."


def forced(
    rng: random.Random,
    tools: Sequence[Tool],
    text: str,
    asks: Sequence[Ask],
    *,
    thinking: bool,
    fits: Tool | None = None,
) -> list[Piece]:
    """A call that ``tool_choice`` forces, whatever the model thinks of it: it learns the arguments alone."""
    chosen = rng.choice(tools)
    pieces = _opened(text, thinking)
    if thinking:
        why = _using([fits]) if fits else "No tool is needed." if asks[0].reply else "No tool fits."
        pieces.append(Piece(f"{_about(asks)} {why}</think>", True))
    slots = asks[0].slots if chosen.intent == asks[0].intent and chosen in (fits, asks[0].tool) else _shared(asks[0])
    made = arguments(chosen, slots, fallback=text)
    sound = arguments(chosen, slots) is not None
    if not fits and rng.random() < 0.6:  # what it would say, if it need not call
        pieces.append(Piece(_reply(asks[0]), True))
        pieces.append(Piece(CALLS, True, forced=True))
    else:
        pieces.append(Piece(CALLS, False))
    pieces.append(Piece(f"{CALL}{chosen.name}{SEP}", False))
    return [*pieces, Piece(json.dumps(made, ensure_ascii=False) + CALL_END + CALLS_END + EOS, sound)]


def _shared(asked: Ask) -> dict[str, str]:
    """What of a request tools that are made for others can take."""
    return {k: v for k, v in asked.slots.items() if k in ("place", "zone", "expression") and v in asked.text}


def _incomplete(rng: random.Random, tools: Sequence[Tool], thinking: bool) -> list[Piece]:
    """A request that lacks what its tool needs."""
    for t in tools:
        missing = [p for p in t.params if p.required and p.kind in ("place", "zone")]
        if t.intent in ("weather", "time") and missing:
            text = finished(rng, rng.choice(PHRASES["incomplete"][t.intent]))
            why = f"This is about {_TOPICS[t.intent]}. The {missing[0].name} is missing.</think>" * thinking
            return [*_opened(text, thinking), Piece(f"{why}Please tell me the {missing[0].name}.{EOS}", True)]
    return []


def arguments(t: Tool, slots: Mapping[str, str], fallback: str | None = None) -> dict[str, Any] | None:
    """A tool's arguments out of a request's values.

    Args:
        fallback: what required texts hold that the request says nothing of; ``None``: no call can be made.
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
    if p.choices:
        return p.choices[0]
    if p.type not in ("string", "array"):
        return "1"
    if fallback is None:
        return None
    words = fallback.split(" ")
    return " ".join(words[:8])


def _typed(p: Param, value: str) -> Any:
    if p.type == "integer":
        return int(value)
    if p.type == "number":
        return float(value) if "." in value else int(value)
    if p.type == "array":
        return value.split("|")
    if p.type == "boolean":
        return value == "1"
    return {} if p.type == "object" else value


def written(calls: Sequence[Call]) -> str:
    """Calls as the model writes them."""
    made = [f"{CALL}{t.name}{SEP}{json.dumps(a, ensure_ascii=False)}{CALL_END}" for t, a in calls]
    return f"{CALLS}{''.join(made)}{CALLS_END}"
