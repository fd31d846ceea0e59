"""What xgrammar accepts and samples under the structural tag of a constraint."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest

from tests.grammar.sampling import PLAIN, RICH, Sampler, as_tools, words_of
from tests.grammar.values import random_value
from unspool import ConstraintError, Dialect, DialectError, ToolStrictLevel, constrain, parse, render
from unspool.dialect.examples import example_tools

from ..support import calling, function_call, present
from .generation import EOS
from .support import WITH_CALLS, engine, refuses

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

Schemas = dict[str, Any]

SETS: dict[str, Schemas] = {"plain": PLAIN, "rich": RICH}

_LIKE_A_CALL = "content looks like a call: a structural tag keeps it out of all content, not just of its beginning"
_CLOSING = "a text value holds its own closing marker"

REFUSED = {
    ("deepseek", 4): _LIKE_A_CALL,
    ("llama3", 5): _LIKE_A_CALL,
    ("openai-generic", 4): _LIKE_A_CALL,
    ("pythonic", 0): _LIKE_A_CALL,
    ("xlam", 0): _LIKE_A_CALL,
    ("minicpm5", 4): _CLOSING,
    ("minimax-m2", 4): _CLOSING,
    ("qwen3-coder", 4): _CLOSING,
}
"""Examples (dialect, number) whose first text the structural tag does not allow, and why."""

EXAMPLES = [(d, i) for d in WITH_CALLS for i in range(len(d.examples))]


@pytest.mark.parametrize(("dialect", "number"), EXAMPLES, ids=lambda x: getattr(x, "name", x))
def test_the_first_raw_text_of_every_example_is_accepted_but_for_those_listed(dialect: Dialect, number: int) -> None:
    example = dialect.examples[number]
    tools = example_tools(dialect)
    for choice in ("auto", "required") if example.tool_calls else ("auto",):
        constraint = constrain(dialect, tools, choice, stage=example.stage, strict_level=ToolStrictLevel.PARAMETER)
        refused = refuses(engine("xgrammar").matcher(present(constraint)), example.raw[0])
        known = (dialect.name, number) in REFUSED or (choice == "required" and bool(example.content))
        assert bool(refused) == known, (choice, refused)


def test_every_exception_names_an_example() -> None:
    assert {(d.name, i) for d, i in EXAMPLES} >= set(REFUSED)


# -- output of the renderer ----------------------------------------------------------------------------------------


def kept(dialect: Dialect, schemas: Schemas) -> Schemas:
    """The tools whose schemas the dialect can enforce."""
    found = {}
    for name, schema in schemas.items():
        try:
            constrain(dialect, as_tools({name: schema}))
        except ConstraintError:
            continue
        found[name] = schema
    assert found
    return found


def bounded(schema: Any, root: Any, value: Any, bounds: tuple[str, ...]) -> Iterator[str]:
    """The strings in a value whose schema has one of the bounds."""
    if not isinstance(schema, Mapping):
        return
    if "$ref" in schema:
        yield from bounded(root["$defs"][schema["$ref"].rpartition("/")[2]], root, value, bounds)
    elif isinstance(value, str) and any(b in schema for b in bounds):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from bounded(schema.get("properties", {}).get(key), root, inner, bounds)
    elif isinstance(value, list):
        for inner in value:
            yield from bounded(schema.get("items"), root, inner, bounds)


def kept_out(dialect: Dialect) -> bool:
    """Whether markers are kept out of JSON, beside which xgrammar ignores lengths."""
    tag = present(constrain(dialect, as_tools(PLAIN), "required")).structural_tag
    return any(key == "excludes" for form in json_schemas(tag) for key in form)


def json_schemas(form: Any) -> Iterator[dict[str, Any]]:
    for inner in form.values() if isinstance(form, dict) else form if isinstance(form, list) else ():
        yield from json_schemas(inner)
    if isinstance(form, dict) and form.get("type") == "json_schema":
        yield form


def never(dialect: Dialect) -> tuple[str, tuple[str, ...]]:
    """Characters that strings with one of the bounds cannot contain."""
    if kept_out(dialect):
        return "", ()
    if dialect.argument_format == "json":  # the pattern of a bounded string allows no escapes
        return '"\\\n', ("minLength", "maxLength")
    # Text of some length contains no character with which a marker begins, of any form that is read.
    forms = (*dialect.calls, *dialect.call, *dialect.argument, *dialect.item) if dialect.item else ()
    markers = [dialect.codec.quote] if dialect.argument_format == "quote" else [form.text for form in forms]
    return "".join({marker.lstrip()[:1] for marker in markers} - {"{"}), ("minLength",)


def narrowed(dialect: Dialect, schemas: Schemas, calls: list[tuple[str, Any]]) -> bool:
    """Whether calls are known to be refused."""
    characters, bounds = never(dialect)
    held = (text for name, value in calls for text in bounded(schemas[name], schemas[name], value, bounds))
    return any(c in text for text in held for c in characters)


@pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda d: d.name)
def test_rendered_messages_are_accepted_but_for_characters_listed(dialect: Dialect) -> None:
    rng = random.Random(dialect.name)
    written = 0
    for schemas in (kept(dialect, s) for s in SETS.values()):
        tools = as_tools(schemas)
        for choice in ("auto", "required"):
            constraint = present(constrain(dialect, tools, choice))
            for _ in range(12):
                names = rng.choices(list(schemas), k=rng.choice((1, 1, 2, 3)))
                calls = [(n, random_value(schemas[n], schemas[n], rng)) for n in names]
                thought = rng.choice(("", "Plan.\nThen act.")) if dialect.reasoning else ""
                content = rng.choice(("", "Sure, a < b.")) if dialect.policy.text_before_tools != "content" else ""
                try:
                    turn = calling(
                        *(function_call(*call) for call in calls), reasoning_content=thought, content=content
                    )
                    raw = render(turn, dialect, tools=tools)
                except DialectError:
                    continue  # not every dialect can write everything
                written += 1
                refused = refuses(engine("xgrammar").matcher(constraint), raw)
                known = narrowed(dialect, schemas, calls) or (choice == "required" and bool(content))
                assert bool(refused) == known, (raw, refused)
    assert written > 20


BROKEN: dict[str, tuple[Schemas, str, dict[str, Any]]] = {
    "an undeclared tool": (PLAIN, "elsewhere", {"city": "Paris"}),
    "a missing argument": (PLAIN, "get_weather", {"days": 3}),
    "a wrong type": (PLAIN, "get_weather", {"city": "Paris", "days": "soon"}),
    "a fraction": (PLAIN, "get_weather", {"city": "Paris", "days": 2.5}),
    "an undeclared argument": (PLAIN, "get_weather", {"city": "Paris", "unit": 1}),
    "none of an enum": (RICH, "plan_trip", {"from": {"name": "a"}, "mode": "bus", "fast": True}),
    "another constant": (RICH, "plan_trip", {"from": {"name": "a"}, "mode": "train", "class": 3, "fast": True}),
    "an object for a boolean": (RICH, "plan_trip", {"from": {"name": "a"}, "mode": "train", "fast": {}}),
    "a member missing within": (RICH, "plan_trip", {"from": {"lat": 1.5}, "mode": "train", "fast": True}),
    "too few items": (RICH, "plan_trip", {"from": {"name": "a"}, "stops": [], "mode": "train", "fast": True}),
    "none of the alternatives": (RICH, "set", {"value": "text"}),
}
"""Schemas, and a call that violates them."""


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda d: d.name)
def test_calls_that_break_their_schema_are_rejected_by_both_engines(dialect: Dialect, case: str) -> None:
    schemas, name, arguments = BROKEN[case]
    schemas = kept(dialect, schemas)
    if name not in schemas and case != "an undeclared tool":
        pytest.skip(f"{dialect.name} cannot keep {name}")
    raw = render(calling(function_call(name, arguments)), dialect)
    for choice in ("required", "auto")[: 1 + (case != "an undeclared tool")]:  # whose calls may be text
        constraint = present(constrain(dialect, as_tools(schemas), choice, stage="content"))
        for backend in ("xgrammar", "llguidance"):
            assert refuses(engine(backend).matcher(constraint), raw), (backend, choice, raw)


# -- the closed loop ---------------------------------------------------------------------------------------------------

LOOSER = {
    "cut characters": "free text is bytes, not always UTF-8",
    "lengths": "they are ignored in JSON from which markers are kept out, and count cut characters otherwise",
}
"""Where xgrammar is less strict than the constraint. Such calls are counted apart, and not as valid ones."""


def looser(dialect: Dialect, schemas: Schemas, call: Any) -> str:
    """The known difference that makes a call invalid; ``""`` if it is valid.

    Raises:
        jsonschema.ValidationError: the call is invalid for another reason.
    """
    assert call.status == "ok", call
    try:
        jsonschema.validate(json.loads(call.arguments), schemas[call.name])
    except jsonschema.ValidationError as error:
        ignored = dialect.argument_format == "xml" or kept_out(dialect)
        if error.validator in ("minLength", "maxLength") and (ignored or "\ufffd" in str(error.instance)):
            return "lengths"
        raise
    return ""


def test_samples_parse_into_valid_calls_but_for_those_listed(capsys: pytest.CaptureFixture[str]) -> None:
    found: Counter[str] = Counter()
    for dialect in WITH_CALLS:
        rng = random.Random(dialect.name)
        words = words_of(dialect)
        for schemas in (kept(dialect, s) for s in SETS.values()):
            tools = as_tools(schemas)
            for choice in ("auto", "required"):
                constraint = present(constrain(dialect, tools, choice))
                for _ in range(8):
                    data, done = Sampler(words, rng, EOS).sample(engine("xgrammar").matcher(constraint))
                    found["samples"] += 1
                    if not done:
                        continue
                    found["ended"] += 1
                    text = data.decode(errors="replace")
                    found["cut characters"] += text.encode() != data
                    message = parse(text, dialect, tools=tools, tool_choice=choice)
                    assert message.tool_calls or choice == "auto", (dialect.name, text)
                    for call in message.tool_calls:
                        assert call.known, (dialect.name, text)
                        difference = looser(dialect, schemas, call)
                        found["calls"] += 1
                        found[difference or "valid"] += 1
    with capsys.disabled():
        print(f"\nxgrammar: {', '.join(f'{n} {what}' for what, n in found.items())}")
    assert found["ended"] >= 0.9 * found["samples"]
    assert found["valid"] >= 0.8 * found["calls"]
    assert [name for name in LOOSER if not found[name]] == [], "known differences are no more"
