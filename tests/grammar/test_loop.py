"""The closed loop: whatever is generated under a constraint parses into what the request asked for."""

import itertools
import json
import random
from collections import Counter
from typing import Any

import pytest

from unspool import ConstraintError, Dialect, constrain, get_dialect, parse, render

from ..support import said
from .sampling import JSON_ONLY, PLAIN, RICH, STRICT, Sampler, as_tools, words_of
from .support import WITH_CALLS, Grammars, constrained, eos, read, tool_choice, validate

SETS: dict[str, dict[str, Any]] = {"plain": PLAIN, "rich": RICH, "json": JSON_ONLY}
STAGES = (None, "content", "reasoning", "tool_call", "undecided")


def sets(dialect: Dialect) -> list[str]:
    """The schemas that the dialect's grammar enforces.

    Lark keeps no marker out of JSON strings, which the engine checks. This matters if a marker ends an open string.
    """
    whole = dialect.argument_format == "json" and dialect.policy.markers_in_strings != "end"
    return [name for name in SETS if name != "json" or whole]


@pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda d: d.name)
def test_samples_parse_into_calls_that_match_schema_and_choice(dialect: Dialect) -> None:
    rng = random.Random(dialect.name)
    ended = count = 0
    # Every sixth combination. The dialects take turns with the first six.
    combinations = list(itertools.product(sets(dialect), (True, False), STAGES))
    for name, parallel, stage in combinations[WITH_CALLS.index(dialect) % 6 :: 6]:
        if stage in ("reasoning", "undecided") and not dialect.reasoning:
            continue
        schemas = SETS[name]
        first = next(iter(schemas))
        words = words_of(dialect, schemas)
        for choice in ("auto", "required", tool_choice(first)):
            request: dict[str, Any] = {"tools": as_tools(schemas), "tool_choice": choice, "stage": stage}
            constraint = constrained(dialect, request["tools"], choice, parallel, stage=stage)
            data, done = Sampler(words, rng, eos()).sample(Grammars(constraint).matcher())
            count += 1
            if not done:
                continue
            ended += 1
            text = data.decode()
            message = parse(text, dialect, **request)
            assert said(message)[2] == said(read(text, dialect, rng, **request))[2], text
            if any(n.detail == "a number too large for a float" for n in message.notices):
                continue  # if a schema allows anything, the engine's own JSON has such numbers
            calls = message.tool_calls
            for call in calls:
                assert (call.status, call.known) == ("ok", True), (text, call)
                validate(json.loads(call.arguments), schemas[call.name])
            least = 0 if choice == "auto" else 1
            most = 1 if isinstance(choice, dict) or not parallel else len(calls)
            assert least <= len(calls) <= max(least, most), text
            assert not isinstance(choice, dict) or calls[0].name == first
    assert ended >= 0.75 * count - 2  # the rest was cut off, and proves nothing; few samples vary


ANOTHER = (
    '{"name": "get_weather", "arguments": {"days": "x"}}',
    '{"name": "get_weather", "parameters": {"days": "x"}}',
    "{'name': 'get_weather', 'parameters': {'days': 'x'}}",
    '[{"name": "get_weather", "arguments": {"days": "x"}}]',
    'get_weather{"days": "x"}',
    'get_weather\n{"days": "x"}',
    'get_weather(days="x")',
    "elsewhere {}",
    'elsewhere">',
    "now null",
)
"""Calls with wrong arguments, in the forms that formats without markers have."""


@pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda d: d.name)
def test_text_after_a_call_is_not_read_as_another(dialect: Dialect) -> None:
    for stage, parallel in itertools.product(("content", "tool_call"), (True, False)):
        grammar = Grammars(constrained(dialect, STRICT, "auto", parallel, stage=stage))
        turn = {"tool_calls": [{"function": {"name": "now", "arguments": {}}}]}
        call = render(turn, dialect, tools=STRICT, stage=stage)
        for gap, text in itertools.product(("", " ", "\n", "; ", ",\n", "x "), ANOTHER):
            if not grammar.refuses(call + gap + text):
                found = parse(call + gap + text, dialect, tools=STRICT, stage=stage).tool_calls
                assert len(found) == 1, call + gap + text


@pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda d: d.name)
def test_a_property_is_refused_or_read_back_by_its_name(dialect: Dialect) -> None:
    rng = random.Random(dialect.name)
    for key in ("a>b", "</parameter>", "{x}", " a", '<|"|>', "a b"):
        inner = {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]}
        for schema in (inner, {"type": "object", "properties": {"k": inner}, "required": ["k"]}):
            tools = as_tools({"f": schema})
            try:
                constraint = constrain(dialect, tools, "required", stage="content")
            except ConstraintError as error:
                assert repr(key) in str(error)  # noqa: PT017
                continue
            assert constraint is not None
            for _ in range(3):
                sampler = Sampler(words_of(dialect, {"f": schema}), rng, eos(), 300)
                data, done = sampler.sample(Grammars(constraint).matcher())
                for call in parse(data.decode(), dialect, tools=tools).tool_calls if done else ():
                    assert call.status == "ok", data
                    validate(json.loads(call.arguments), schema)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["hermes", "deepseekv31", "qwen3-coder", "glm47", "pythonic", "gemma4", "minimax-m3"])
def test_every_production_is_generated(name: str) -> None:
    """Counts what samples contain: each optional argument and its absence, each alternative, each part of a turn."""
    dialect = get_dialect(name)
    rng = random.Random(name)
    seen: Counter[str] = Counter()
    tools = as_tools(RICH)
    grammars = {}
    for choice in ("auto", "required"):
        constraint = constrained(dialect, tools, choice)
        grammars[choice] = Grammars(constraint)
    words = words_of(dialect, RICH)
    wanted = {
        *(f"plan_trip.{key}" for key in RICH["plan_trip"]["properties"]),
        *(f"no plan_trip.{key}" for key in ("stops", "class", "budget", "note", "layers")),
        *(f"plan_trip.mode={value}" for value in ("train", "plane", "on foot")),
        *(f"plan_trip.stops:{length}" for length in (1, 2, 3)),
        *("plan_trip.budget=None", "plan_trip.note=None", "plan_trip.fast=True", "plan_trip.fast=False"),
        *("set.value", "set.meta", "set.pair"),
        *("content", "0 calls", "1 calls", "2 calls", *(["reasoning"] if dialect.reasoning else [])),
    }
    for i in range(6000):
        choice = "required" if i % 3 else "auto"
        data, done = Sampler(words, rng, eos()).sample(grammars[choice].matcher())
        if done:
            message = parse(data.decode(), dialect, tools=tools, tool_choice=choice)
            seen["reasoning"] += bool(message.reasoning)
            seen["content"] += bool(message.content)
            seen[f"{min(2, len(message.tool_calls))} calls"] += 1
            for call in message.tool_calls:
                _count(json.loads(call.arguments), call.name, seen)
        if wanted <= {what for what in seen if seen[what]}:
            break
    assert wanted - {what for what in seen if seen[what]} == set()


KEYWORDS = {
    "hermes": {"code", "day", "seats", "price", "no day", "no price", "another"},
    "pythonic": {"a", "no a", "another"},
    "qwen3-coder": {"a", "no a", "another"},
}
"""What samples must contain for tools with patterns, formats and bounds (JSON), and with additional arguments."""


@pytest.mark.parametrize("name", KEYWORDS)
def test_every_keyword_is_generated(name: str) -> None:
    dialect = get_dialect(name)
    open_ = {"f": {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}}}
    schemas = JSON_ONLY if name == "hermes" else open_
    tools = as_tools(schemas, strict=False)
    grammars = Grammars(constrained(dialect, tools, "required", stage="content"))
    rng = random.Random(name)
    seen: set[str] = set()
    for _ in range(1500):
        data, done = Sampler(words_of(dialect, schemas), rng, eos()).sample(grammars.matcher())
        for call in parse(data.decode(), dialect, tools=tools, tool_choice="required").tool_calls if done else ():
            arguments = json.loads(call.arguments)
            validate(arguments, schemas[call.name])
            declared = schemas[call.name]["properties"]
            seen |= {key if key in declared else "another" for key in arguments}
            seen |= {f"no {key}" for key in declared if key not in arguments}
        if seen >= KEYWORDS[name]:
            break
    assert KEYWORDS[name] - seen == set()


def _count(arguments: dict[str, Any], tool: str, seen: Counter[str]) -> None:
    for key in RICH[tool]["properties"]:
        at = f"{tool}.{key}"
        if key not in arguments:
            seen[f"no {at}"] += 1
            continue
        value = arguments[key]
        seen[at] += 1
        if isinstance(value, list):
            seen[f"{at}:{len(value)}"] += 1
        elif not isinstance(value, dict):
            seen[f"{at}={value}"] += 1
