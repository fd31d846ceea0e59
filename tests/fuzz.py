"""A simple random fuzzer: mutated model output must never break the parser's invariants.

    python -m tests.fuzz --seconds 60 [--seed 1] [--dialect NAME]

Prints the seed and, for a failure, the smallest case that was found; the exit code is then 1.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from unspool import Dialect, Message, Policy
from unspool.policy import CHOICES

from .parser.test_tokens import encode, feed, special, ways
from .same_events import NOISE, mutated
from .support import DIALECTS, STAGES, cases, empty, literals, notices, number, random_split, run, same, tool, tools_of

RAWS = {d.name: [c.raw for c in cases([d])] for d in DIALECTS}
READ = ["<city>", "</city>", ".call(", " to=functions.now", '"parameters"', '"tool_arguments"', "{{", "}}", "[{", "\r"]
"""What models write and no template has."""
LITERALS = {d.name: [*literals(d), *READ] for d in DIALECTS}
ALL_LITERALS = sorted({t for found in LITERALS.values() for t in found})


class Attempt(NamedTuple):
    """One input for the machine."""

    dialect: Dialect
    text: str
    options: dict[str, Any]
    ids: bool = False
    """Whether it is fed as token ids, with a tokenizer in which the dialect's markers are special tokens."""

    def __str__(self) -> str:
        fields = {k: v for k, v in self.options.items() if k != "ids"}
        fed = "ids     " if self.ids else "text    "
        return f"dialect {self.dialect.name}\n{fed}{self.text!r}\noptions {fields!r}"


def mutate(text: str, rng: random.Random, dialect: Dialect) -> str:
    """A text with a few random changes."""
    text = mutated(text, rng, RAWS[dialect.name], LITERALS[dialect.name], ALL_LITERALS)
    if rng.random() < 0.2:
        text = overlapped(text, rng, rng.choice(LITERALS[dialect.name] or ALL_LITERALS))
    if rng.random() < 0.15:
        text = broken_off(text, rng, LITERALS[dialect.name] or ALL_LITERALS)
    return long_run(text, rng) if rng.random() < 0.03 else text


def overlapped(text: str, rng: random.Random, literal: str) -> str:
    """A text with a literal put in that begins, or ends, more than once."""
    at, cut = rng.randint(0, len(text)), rng.randint(1, len(literal))
    stray = rng.choice(("", "", *NOISE))
    part = rng.choice((literal[:cut] + stray + literal, literal + stray + literal[cut:], literal[0] * cut + literal))
    return text[:at] + part + text[at:]


def broken_off(text: str, rng: random.Random, literals: list[str]) -> str:
    """A text up to somewhere, and the beginnings of a few literals."""
    begun = [literal[: rng.randint(1, len(literal))] for literal in rng.choices(literals, k=rng.randint(1, 3))]
    return text[: rng.randint(0, len(text))] + rng.choice(("", "", " ", "x")).join(begun)


def long_run(text: str, rng: random.Random) -> str:
    """A text with a run put in that is about as long as a limit of the machine."""
    unit = rng.choice((*NOISE, "a", "1", "_", "a "))
    size = rng.choice((64, 256, 1024, 4096)) + rng.randint(-2, 2)
    at = rng.randint(0, len(text))
    return text[:at] + (unit * size)[:size] + text[at:]


def options(dialect: Dialect, rng: random.Random) -> dict[str, Any]:
    """Random keyword arguments of a parser."""
    tools: Any = rng.choice((None, tools_of(dialect), tools_of(dialect), [tool("other", a="string")], []))
    found: dict[str, Any] = {"tools": tools, "ids": number}
    if rng.random() < 0.4:
        found["stage"] = rng.choice(STAGES)
    if rng.random() < 0.5:
        fields = rng.sample(sorted(CHOICES), rng.randint(1, 3))
        found["policy"] = Policy(**{f: rng.choice(CHOICES[f]) for f in fields})
    if rng.random() < 0.2:
        begin = rng.choice(dialect.start or ("",))
        prefill = mutate(rng.choice(RAWS[dialect.name]), rng, dialect)
        found["prompt"] = f"user: hi\n{begin}{prefill[: rng.randint(0, len(prefill))]}"
    if rng.random() < 0.2:
        # Only a declared function can be named, and none can be required if none is declared.
        names = ["get_weather"] if tools is None else [t["function"]["name"] for t in tools]
        functions = [{"type": "function", "function": {"name": name}} for name in names[:1]]
        found["tool_choice"] = rng.choice(["none", *(["required", *functions] if names else [])])
    return found


def attempt(rng: random.Random, dialects: list[Dialect]) -> Attempt:
    """A random input."""
    dialect = rng.choice(dialects)
    ids = rng.random() < 0.2
    return Attempt(dialect, mutate(rng.choice(RAWS[dialect.name]), rng, dialect), options(dialect, rng), ids)


def failure(case: Attempt, seed: int) -> str:
    """What is wrong with the machine's result; empty if nothing is."""
    whole: Any = case.text
    if case.ids:
        tokenizer = special(case.dialect.name)
        whole = encode(tokenizer, case.text)

    def read(pieces: list[Any]) -> Message:
        if case.ids:
            return feed(case.dialect, pieces, tokenizer, **case.options)[0]
        return run(case.dialect, pieces, **case.options)[0]

    try:
        message = read([whole])
        if case.text.strip() and empty(message) and "empty" not in notices(message):
            return "a silently empty result"
        rng = random.Random(seed)
        for pieces in ways(whole) if case.ids else (list(whole), *(random_split(whole, rng, n) for n in (4, 30))):
            other = read(pieces)
            if same(other) != same(message):
                return f"chunking shows\n  whole {same(message)!r}\n  cut   {same(other)!r} of {pieces!r}"
    except Exception as error:  # any exception is a finding
        return f"{type(error).__name__}: {error}"
    return ""


def minimise(case: Attempt, fails: Callable[[Attempt], bool], seconds: float = 10) -> Attempt:
    """The smallest case found that still fails."""
    until = time.monotonic() + seconds
    for key in list(case.options):
        smaller = case._replace(options={k: v for k, v in case.options.items() if k != key})
        if key != "ids" and fails(smaller):
            case = smaller
    size = max(1, len(case.text) // 2)
    while size and time.monotonic() < until:
        at, found = 0, False
        while at < len(case.text) and time.monotonic() < until:
            smaller = case._replace(text=case.text[:at] + case.text[at + size :])
            if fails(smaller):
                case, found = smaller, True
            else:
                at += size
        if size == 1 and not found:
            break
        size = max(1, size // 2) if not found or size > 1 else 1
    return case


def search(seconds: float, seed: int, dialects: list[Dialect]) -> tuple[int, Attempt | None, str]:
    """Try inputs for some time. Return how many were tried, the smallest case that fails, and its fault."""
    rng = random.Random(seed)
    until = time.monotonic() + seconds
    tried = 0
    while time.monotonic() < until:
        case = attempt(rng, dialects)
        tried += 1
        if failure(case, seed):
            small = minimise(case, lambda c: bool(failure(c, seed)))
            return tried, small, failure(small, seed)
    return tried, None, ""


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Mutate model output and look for what must not be.")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--dialect", default=None, help="only this dialect")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if given.seed is None else given.seed
    dialects = [d for d in DIALECTS if given.dialect in (None, *d.names)]
    if not dialects:
        parser.error(f"there is no dialect {given.dialect!r}")
    print(f"seed {seed}, {len(dialects)} dialects", flush=True)
    tried, case, why = search(given.seconds, seed, dialects)
    print(f"{tried} inputs")
    if case is None:
        return 0
    print(f"FAILED\n{case}\n{why}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
