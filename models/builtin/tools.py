"""Tools of the training examples: declarations in OpenAI's form, and which values their parameters take."""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from .phrases import PHRASES, filled
from .words import COMMON, QUALITIES, VERBS, made_up, pick, place

INTENTS: Final = ("weather", "time", "calculation", "search")


@dataclass(frozen=True)
class Param:
    """One parameter.

    Attributes:
        kind: which value of a request it takes; see `models.builtin.requests.Ask`.
        choices: the values of its enumeration, if it has one.
    """

    name: str
    kind: str
    type: str = "string"
    description: str = ""
    required: bool = True
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tool:
    """One tool.

    Attributes:
        intent: one of `INTENTS`, or ``other``.
        asks: if the intent is ``other``, how requests ask for it, with the kinds of its parameters in braces.
        values: for a tool of ``phrases/demos.toml``, the values of its kinds; see `models.builtin.values`.
        covers: other intents, or ``chat``, if some of their requests may be for this tool too.
    """

    name: str
    intent: str
    description: str
    params: tuple[Param, ...]
    asks: tuple[str, ...] = field(default=(), compare=False)
    values: Mapping[str, str] = field(default_factory=dict, compare=False)
    covers: tuple[str, ...] = ()

    def declaration(self) -> dict[str, Any]:
        """The tool as requests declare it."""
        properties: dict[str, Any] = {}
        for p in self.params:
            schema: dict[str, Any] = {"type": p.type}
            if p.type == "array":
                schema["items"] = {"type": "number" if p.kind == "numbers" else "string"}
            if p.choices:
                schema["enum"] = [int(c) for c in p.choices] if p.type == "integer" else list(p.choices)
            if p.description:
                schema["description"] = p.description
            properties[p.name] = schema
        required = [p.name for p in self.params if p.required]
        parameters: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            parameters["required"] = required
        function: dict[str, Any] = {"name": self.name, "parameters": parameters}
        if self.description:
            function["description"] = self.description
        return {"type": "function", "function": function}


def styled(rng: random.Random, words: list[str]) -> str:
    """Words joined to an identifier, in one of the usual styles."""
    words = [w for w in words if w]
    style = rng.random()
    if style < 0.6:
        return "_".join(words)
    if style < 0.8:
        return words[0] + "".join(w.capitalize() for w in words[1:])
    if style < 0.88:
        return "-".join(words)
    if style < 0.94:
        return "".join(w.capitalize() for w in words)
    return "".join(words) if len(words) < 3 else words[0] + "." + "_".join(words[1:])


def identifier(rng: random.Random) -> str:
    """A name without a meaning."""
    some = [made_up(rng, rng.choice((1, 2))) for _ in range(rng.choice((1, 1, 2)))]
    return styled(rng, [w for w in some if w.isascii()] or ["fn"])


def tool(rng: random.Random, intent: str, demos: float = 0.55) -> Tool:
    """A tool for an intent of `INTENTS`, or for another purpose (``other``). ``demos``: the probability of a demo."""
    if intent == "other":
        if rng.random() < demos:
            return _loosened(rng, demo(rng) if rng.random() < 0.8 else _labelled(rng))
        return _loosened(rng, _known(rng) if rng.random() < 0.55 else _made_up(rng))
    return _loosened(rng, _usual(rng, intent))


def _usual(rng: random.Random, intent: str) -> Tool:
    opaque = rng.random() < 0.2
    listed = rng.random() < 0.65
    if listed:
        words = rng.choice(PHRASES["titles"][intent]).split()
    else:
        words = [rng.choice(PHRASES["title"]["lead"]), *rng.choice(PHRASES["nouns"][intent]).split()]
    if rng.random() < 0.12 and not listed:
        words.append(
            pick(rng, "tool", "api", "v2", "now", "info", "service", "for_city" if intent != "search" else "all")
        )
    if rng.random() < 0.1:
        words.insert(0, made_up(rng, 1))
    words = [w for w in words if w.isascii()]
    name = identifier(rng) if opaque else styled(rng, words)
    told = opaque or rng.random() < 0.85
    return Tool(name, intent, _sentence(rng, intent) if told else "", _params(rng, intent))


def _loosened(rng: random.Random, made: Tool) -> Tool:
    """A tool as people declare it: sometimes nothing is required, and sometimes no request mentions a parameter."""
    params = list(made.params)
    if rng.random() < 0.2:
        params = [replace(p, required=False) for p in params]
    for _ in range(rng.choice((0, 0, 0, 0, 1, 1, 2))):
        label, type = rng.choice(PHRASES["unasked"]).split()
        taken = {p.name for p in params} | {p.kind for p in params}
        if not taken & {label, "days", "unit", "date", "count"}:
            told = "" if rng.random() < 0.7 else label.replace("_", " ")
            params.insert(rng.randint(0, len(params)), Param(label, "none", type, told, required=False))
    return replace(made, params=_distinct(params))


OPERATIONS: Final = (
    ("add", "subtract", "multiply", "divide"), ("+", "-", "*", "/"), ("plus", "minus", "times", "divided_by"),
    ("sum", "difference", "product", "quotient"), ("add", "sub", "mul", "div"),
)  # fmt: skip


def demo(rng: random.Random) -> Tool:
    """A tool of ``phrases/demos.toml``, with some of its optional parameters."""
    [made] = rng.choices(PHRASES["demos"], [d.get("weight", 1) for d in PHRASES["demos"]])
    params, values = [], {"none": ""}  # never empty: this distinguishes a demo
    for p in made["params"]:
        kind = p["kind"]
        if p.get("optional") and rng.random() < (0.65 if kind == "none" else 0.45):
            continue
        choices = tuple(p.get("choices", ()))
        if p.get("spoken") == "operation":
            choices = rng.choice(OPERATIONS)
        elif p.get("enumerated") and rng.random() < 0.5:
            choices = tuple(rng.sample(PHRASES["pools"][p["value"]], rng.randint(3, 5)))
        elif choices and p.get("type") != "integer" and rng.random() < 0.12:
            choices = tuple(dict.fromkeys(made_up(rng) for _ in choices))
        label = rng.choice(p["name"])
        told = rng.choice([*p.get("told", ()), "", "", "", "The " + label.replace("_", " ")])
        required = not p.get("optional", False)
        params.append(Param(label, kind, p.get("type", "string"), told, required, choices))
        values[kind] = p.get("value", "")
    if rng.random() < 0.15:
        rng.shuffle(params)
    distinct = _distinct(params)
    if len(distinct) < len(params):
        return demo(rng)
    name = identifier(rng) if rng.random() < 0.05 else rng.choice(made["names"])
    if rng.random() < 0.25:
        name = styled(rng, name.replace(".", "_").split("_"))
    description = rng.choice(made["descriptions"]) + pick(rng, ".", "", "")
    asks = tuple(a for a in made["asks"] if _kinds(re.sub(r"\[[^\]]*\]", "", a)) <= set(values))
    return Tool(name, "other", description.strip("."), distinct, asks, values, tuple(made.get("covers", ())))


_ROLES: Final = {
    "from": (("from", "source", "origin", "start", "from_place"), "place"),
    "to": (("to", "target", "destination", "end", "to_place"), "place"),
    "in": (("in", "place", "location", "city", "where"), "place"),
    "at": (("at", "time", "when", "hour"), "time"),
    "on": (("on", "day", "date", "when"), "date"),
    "for": (("for", "person", "recipient", "customer"), "first"),
    "with": (("with", "item", "tool", "extra"), "word"),
    "by": (("by", "author", "owner", "who"), "fullname"),
    "as": (("as", "name", "label", "alias"), "word"),
}
_LABELLED: Final = ("word", "place", "first", "said", "small", "date", "time", "path", "email", "phrase", "id", "title")
_WHOLE: Final = ("small", "id")


def _labelled(rng: random.Random) -> Tool:
    """A tool whose requests say which value is for which parameter, by its name or by a preposition."""
    verb = made_up(rng) if rng.random() < 0.3 else rng.choice(VERBS)
    noun = made_up(rng) if rng.random() < 0.3 else rng.choice(COMMON)
    params, values, parts = [], {"none": ""}, []
    if rng.random() < 0.5:
        for role in rng.sample(list(_ROLES), rng.choice((2, 2, 3))):
            labels, held = _ROLES[role]
            params.append(Param(rng.choice(labels), role, "string", "", rng.random() < 0.75))
            values[role] = held
            parts.append(f"{role} {{{role}}}")
        between = " "
    else:
        between = pick(rng, ", ", ", ", " and ", "; ")
        equals = pick(rng, " ", " ", ": ", "=", " = ", " is ")
        for i, label in enumerate(rng.sample(COMMON, rng.choice((2, 2, 3)))):
            held = rng.choice(_LABELLED)
            type = "integer" if held in _WHOLE else "string"
            params.append(Param(label, f"k{i}", type, "", rng.random() < 0.75))
            values[f"k{i}"] = held
            parts.append(f"{label}{equals}{{k{i}}}")
    asks = []
    for _ in range(3):
        told = [part if p.required else f"[{part}]" for p, part in zip(params, parts, strict=True)]
        if between == " ":
            rng.shuffle(told)
            told = [t if t[0] != "[" else f"[{t[1:]}" for t in told]
        the = pick(rng, "the ", "a ", "", "my ")
        asks.append(
            f"{verb} {the}{noun}{pick(rng, ' ', ' with ', ': ', ', ') if between != ' ' else ' '}{between.join(told)}"
        )
    if len(_distinct(params)) < len(params):
        return _labelled(rng)
    params = rng.sample(params, len(params))
    name = styled(rng, [w for w in (verb, noun) if w.isascii()] or ["do"])
    description = pick(rng, f"{verb.capitalize()} a {noun}", f"{verb.capitalize()} {noun}s", "")
    return Tool(name, "other", description, _distinct(params), tuple(asks), values)


def _kinds(pattern: str) -> set[str]:
    return set(re.findall(r"\{(\w+)[=}]", pattern))


def _sentence(rng: random.Random, intent: str) -> str:
    text = filled(rng, rng.choice(PHRASES["about"][intent]), noun=rng.choice(PHRASES["nouns"][intent]))
    text = text[0].upper() + text[1:]
    if rng.random() < 0.1:
        text += f" ({made_up(rng)})"
    if rng.random() < 0.15:
        return f"{text}. {_more(rng, intent)}."
    return str(text) + pick(rng, ".", ".", "")


def _more(rng: random.Random, intent: str) -> str:
    """A second sentence of a description."""
    return pick(
        rng,
        "Use it when the user asks about " + rng.choice(PHRASES["nouns"][intent]),
        "Returns JSON",
        "Returns a text",
        "Needs no key",
        f"Provided by {made_up(rng).capitalize()}",
        f"The {rng.choice(COMMON)} is {rng.choice(QUALITIES)}",
        "Call it once for each question",
    )


def _param(
    rng: random.Random, kind: str, type: str = "string", *, required: bool = True, choices: tuple[str, ...] = ()
) -> Param:
    opaque = rng.random() < 0.15
    name = identifier(rng).replace(".", "_") if opaque else rng.choice(PHRASES["names"][kind])
    told = rng.choice(PHRASES["told"][kind]) if opaque or rng.random() < 0.5 else ""
    if kind == "place" and rng.random() < 0.2:
        told = f"{pick(rng, 'The city', 'The city and state', 'The location', 'City name', 'Place')}, e.g. {place(rng)}"
    return Param(name, kind, type, told, required, choices)


def _params(rng: random.Random, intent: str) -> tuple[Param, ...]:
    params: list[Param] = []
    if intent == "weather":
        params.append(_param(rng, "place"))
        if rng.random() < 0.4:
            choices = rng.choice(
                (
                    ("celsius", "fahrenheit"), ("metric", "imperial"), ("C", "F"), ("celsius", "fahrenheit", "kelvin"),
                    ("c", "f"),
                )
            )  # fmt: skip
            params.append(_param(rng, "unit", required=rng.random() < 0.2, choices=choices))
        if rng.random() < 0.3:
            params.append(_param(rng, "days", "integer", required=False))
        elif rng.random() < 0.15:
            params.append(_param(rng, "date", required=False))
    elif intent == "time":
        roll = rng.random()
        if roll > 0.12:
            params.append(_param(rng, "zone" if roll < 0.35 else "place"))
    elif intent == "search":
        params.append(_param(rng, "query"))
        if rng.random() < 0.3:
            params.append(_param(rng, "count", "integer", required=False))
    elif rng.random() < 0.75:
        params.append(_param(rng, "expression"))
    else:
        type = pick(rng, "number", "number", "integer")
        operations = rng.choice((("add", "subtract", "multiply", "divide"), ("+", "-", "*", "/")))
        params += [_param(rng, "left", type), _param(rng, "right", type), _param(rng, "operation", choices=operations)]
        if rng.random() < 0.4:
            params.insert(0, params.pop())
    if rng.random() < 0.08:  # a parameter that no request mentions
        params.append(
            Param(
                identifier(rng).replace(".", "_"), "none", pick(rng, "string", "boolean", "object"), "", required=False
            )
        )
    if rng.random() < 0.2:
        rng.shuffle(params)
    return _distinct(params)


def _distinct(params: list[Param]) -> tuple[Param, ...]:
    return tuple({p.name: p for p in params}.values())


TYPES: Final[Mapping[str, str]] = {"integer": "integer", "list": "array"}


def _known(rng: random.Random) -> Tool:
    family = rng.choice(PHRASES["families"])
    made = []
    for p in family["params"]:
        label, kind = rng.choice(p["name"]), p["kind"]
        described = "" if rng.random() < 0.7 else "The " + label.replace("_", " ")
        if rng.random() < 0.12:
            label = identifier(rng).replace(".", "_")
        made.append(Param(label, kind, TYPES.get(kind, "string"), described))
    opaque = rng.random() < 0.1
    title = identifier(rng) if opaque else styled(rng, rng.choice(family["names"]).split("_"))
    description = rng.choice(family["descriptions"]) + pick(rng, ".", "") if opaque or rng.random() < 0.9 else ""
    return Tool(title, "other", description, _distinct(made), tuple(family["asks"]))


def _made_up(rng: random.Random) -> Tool:
    """A tool that does what its name says, a verb and a noun, which requests contain too."""
    verb = made_up(rng) if rng.random() < 0.5 else rng.choice(VERBS)
    noun = made_up(rng) if rng.random() < 0.5 else rng.choice(COMMON)
    if rng.random() < 0.25:
        noun = f"{made_up(rng) if rng.random() < 0.5 else rng.choice(QUALITIES)} {noun}"
    prep = pick(rng, "of", "for", "in", "with", "from", "to", "by", "at")
    kind = rng.choice(("word", "phrase", "place", "person", "integer", "name", "digits", "file", "list", "none"))
    label = pick(rng, kind, noun.split()[-1], rng.choice(COMMON), "name", "id", "value", "target", "text")
    label = label if label.isascii() else "value"
    params = []
    if kind != "none":
        params.append(
            Param(label, kind, TYPES.get(kind, "string"), "" if rng.random() < 0.6 else f"The {pick(rng, label, kind)}")
        )
        if rng.random() < 0.2:
            choices = tuple(
                dict.fromkeys(made_up(rng) if rng.random() < 0.5 else rng.choice(QUALITIES) for _ in range(3))
            )
            params.append(
                Param(
                    pick(rng, "mode", "level", "kind", "color", "format", "style"),
                    "mode",
                    "string",
                    "",
                    rng.random() < 0.3,
                    choices,
                )
            )
        elif rng.random() < 0.1:
            params.append(
                Param(
                    pick(rng, "options", "dry_run", "force", "flag", made_up(rng, 1)),
                    "none",
                    pick(rng, "boolean", "object"),
                )
            )
        elif rng.random() < 0.2:
            params.append(
                Param(
                    pick(rng, "amount", "count", "size", "number", "priority"),
                    "amount",
                    "integer",
                    "",
                    required=rng.random() < 0.5,
                )
            )
    the = pick(rng, "the ", "a ", "")
    tail = f" {prep} {{{kind}}}" if kind != "none" else ""
    asks = [f"{verb} {the}{noun}{tail}", f"{verb} {pick(rng, 'the', 'my', 'a')} {noun}{tail}"]
    if kind != "none" and rng.random() < 0.5:  # another order of words, for all of its requests
        slot = f"{{{kind}}}"
        asks = rng.choice(
            (
                [f"{verb} {slot}", f"{verb} the {noun} {slot}", f"{verb} {slot} {prep} the {noun}"],
                [f"{verb} the {slot} {noun}", f"{verb} my {slot} {noun}"],
                [f"{verb} {the}{noun} {slot}", f"{verb} {noun} {slot}", f"{verb} {the}{noun} named {slot}"],
            )
        )
    elif rng.random() < 0.5:
        asks.append(f"I need {the}{noun}{tail}")
        asks.append(f"what is the {noun}{tail}")
    words = [verb, *noun.split()]
    words = [w for w in words if w.isascii()] or ["do"]
    opaque = rng.random() < 0.15
    told = opaque or rng.random() < 0.6
    description = f"{verb.capitalize()} {the}{noun}"
    if kind != "none" and rng.random() < 0.5:
        description += f" {prep} a {kind}"
    description += pick(rng, ".", "")
    params = list(_distinct(params))
    return Tool(
        identifier(rng) if opaque else styled(rng, words),
        "other",
        description if told else "",
        tuple(params),
        tuple(asks),
    )
