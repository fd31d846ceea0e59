"""Random outputs under a constraint's mask, and tools that together use every supported keyword of JSON Schema."""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unspool.dialect.compiling import compile_plan
from unspool.dialect.file import Dialect
from unspool.dialect.template import literal
from unspool.grammar.matchers import Matcher, _LlguidanceMatcher
from unspool.policy import Policy

PLAIN: dict[str, Any] = {
    "get_weather": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "now": {"type": "object", "properties": {}, "additionalProperties": False},
}
"""The kinds of parameters that most requests declare."""

RICH: dict[str, Any] = {
    "plan_trip": {
        "type": "object",
        "$defs": {
            "place": {
                "type": "object",
                "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 12}, "lat": {"type": "number"}},
                "required": ["name"],
                "additionalProperties": False,
            },
            "tree": {
                "type": "object",
                "properties": {
                    "label": {"enum": ["a", "b"]},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2},
                },
                "required": ["label"],
                "additionalProperties": False,
            },
        },
        "properties": {
            "from": {"$ref": "#/$defs/place"},
            "stops": {"type": "array", "items": {"$ref": "#/$defs/place"}, "minItems": 1, "maxItems": 3},
            "mode": {"type": "string", "enum": ["train", "plane", "on foot"]},
            "class": {"const": 2},
            "budget": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "note": {"type": ["string", "null"], "maxLength": 20},
            "fast": {"type": "boolean"},
            "layers": {"$ref": "#/$defs/tree"},
        },
        "required": ["from", "mode", "fast"],
        "additionalProperties": False,
    },
    "set": {
        "type": "object",
        "properties": {
            "value": {"oneOf": [{"type": "number"}, {"type": "boolean"}]},
            "meta": {"allOf": [{"type": "object", "properties": {"k": {"type": "string"}}}, {"required": ["k"]}]},
            "pair": {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "boolean"}],
                "minItems": 2,
                "maxItems": 2,
            },
        },
        "required": ["value"],
    },
}
"""References (one in a circle), combinations, enums, constants, bounds, tuples, other properties."""

JSON_ONLY: dict[str, Any] = {
    "book": {
        "type": "object",
        "properties": {
            "code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{3}$"},
            "day": {"type": "string", "format": "date"},
            "seats": {"type": "integer", "minimum": 1, "maximum": 9},
            "price": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
        },
        "patternProperties": {"^x_": {"type": "integer"}},
        "required": ["code", "seats"],
        "additionalProperties": False,
    }
}
"""Schemas that only dialects with JSON arguments can enforce."""


def as_tools(schemas: Mapping[str, Any], *, strict: bool = True) -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": name, "parameters": schema, "strict": strict}}
        for name, schema in schemas.items()
    ]


def words_of(dialect: Dialect, names: Iterable[str] = ()) -> list[str]:
    """Words that move an output forward: the markers of the dialect, and the beginnings of calls."""
    plan = compile_plan(dialect, Policy())
    words = {
        w
        for w in (*plan.literals, *(s.first for s in plan.calls.call_closings), dialect.codec.quote)
        if w and w.strip()
    }
    call, block = dialect.call[0], dialect.calls[0]
    head, end = call.lead + call.opening, call.closing + call.trail
    if dialect.argument:  # a value ends only before something that may follow it
        closing = dialect.argument[0].closing + dialect.argument[0].trail
        opening = literal(dialect.argument[0].head)
        keys = [k for s in names.values() for k in s["properties"]] if isinstance(names, Mapping) else []
        for one in {closing.replace("{key}", key) for key in keys or [""]}:
            words |= {one + end, one + dialect.separator.arguments + opening}
    begin = block.lead + block.opening
    words |= {"null", "None", "true", "True", "false", "False"}
    return sorted(words | {begin + head.replace("{name}", name) for name in names if "{index}" not in head})


def take(matcher: Matcher, word: bytes) -> bytes:
    """As much of a word as a matcher accepts. It must allow the first byte."""
    if isinstance(matcher, _LlguidanceMatcher):  # it needs no mask for each byte
        taken = matcher._matcher.try_consume_tokens(list(word))
        assert taken
        return word[:taken]
    assert matcher.accept(word[0])
    for i, byte in enumerate(word[1:], start=1):
        if not matcher.mask()[byte]:
            return word[:i]
        assert matcher.accept(byte)
    return word


class Sampler:
    """Random texts: in each step a byte that may come next, or as much as is allowed of a word that moves on."""

    def __init__(self, words: Sequence[str], rng: random.Random, eos: int, limit: int = 1500) -> None:
        self.words = [w.encode() for w in words]
        self.rng = rng
        self.eos = eos
        self.limit = limit  # choices

    def sample(self, matcher: Matcher) -> tuple[bytes, bool]:
        """The bytes, and whether the output ended by itself."""
        rng = self.rng
        out = self.out = bytearray()
        for choices in range(1, self.limit + 1):
            mask = matcher.mask()
            if mask[self.eos] and (rng.random() < 0.4 or mask.sum() == 1):
                assert matcher.accept(self.eos)
                return bytes(out), True
            # No comma, which would make the output longer, if something other than digits may come.
            if choices > self.limit // 3 and (mask[:256].sum() > mask[list(b",0123456789.eE+-")].sum()):
                mask[ord(",")] = False
            out += take(matcher, self.choose(mask))
        return bytes(out), False

    def choose(self, mask: Any) -> bytes:
        rng = self.rng
        allowed = mask[:256].nonzero()[0]
        if len(allowed) == 1:
            return bytes([int(allowed[0])])
        roll = rng.random()
        if roll < 0.45:
            word = rng.choice(self.words)
            if mask[word[0]]:
                return word
        if roll < 0.75:
            ending = [b for b in b"\"']})>,;=" if mask[b]]
            if ending:
                return bytes([ending[0] if rng.random() < 0.4 else rng.choice(ending)])
        if roll < 0.9:
            plain = [b for b in b'abcdefghijklmnopqrstuvwxyz XYZ019-\n\t\\{}[]":,.<|/&' if mask[b]]
            if plain:
                return bytes([rng.choice(plain)])
        return bytes([int(rng.choice(allowed))])
