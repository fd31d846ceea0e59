"""Random outputs under a constraint's mask, and tools that together use every supported keyword of JSON Schema."""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unspool.dialect.compiling import compile_plan
from unspool.dialect.file import Dialect
from unspool.dialect.template import literal
from unspool.grammar.matchers import Matcher, _LlguidanceMatcher
from unspool.policy import Policy

_SCHEMAS = json.loads(Path(__file__).with_name("schemas.json").read_text(encoding="utf-8"))
PLAIN: dict[str, Any] = _SCHEMAS["plain"]
"""The kinds of parameters that most requests declare."""

RICH: dict[str, Any] = _SCHEMAS["rich"]
"""References (one in a circle), combinations, enums, constants, bounds, tuples, other properties."""

JSON_ONLY: dict[str, Any] = _SCHEMAS["json only"]
"""Schemas that only dialects with JSON arguments can enforce."""


def as_tools(schemas: Mapping[str, Any], *, strict: bool = True) -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": name, "parameters": schema, "strict": strict}}
        for name, schema in schemas.items()
    ]


STRICT = as_tools(PLAIN)


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
