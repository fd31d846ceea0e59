"""Limits count from the beginning of what they limit, however the output is cut: lengths around every limit."""

import random
import re
from typing import Any

import pytest

from unspool import Dialect
from unspool.check.promises import literals
from unspool.dialect.patterns import MAX_ANY, MAX_FIELD, MAX_SPACE
from unspool.parser.ledger import CAP
from unspool.parser.quoting import MAX_SPAN

from ..support import CALLING, DIALECTS, named, pieces, run, said, tool

_FIELD = re.compile(r"\{([a-z_]+)\}")
_VALUES = {
    "name": "get_weather",
    "arguments": '{"city": "P"}',
    "index": "0",
    "number": "1",
    "id": "call_1",
    "any": " x",
    "key": "city",
    "string": "true",
    "type": "string",
}
FILLERS = ["x", "word ", "a.b:", "\n", " ", "x\n", "<", "é", '"', "\\n", "\\", "1", "`"]
LIMITS = (64, MAX_ANY, MAX_SPAN, MAX_FIELD, MAX_FIELD, MAX_SPACE, CAP)
TOOLS = [tool("get_weather", city="string"), tool("f", a="string")]
DRAWS = 8


def drawn(dialect: Dialect, limit: int, rng: random.Random) -> str:
    """A text of the dialect in which something is about as long as a limit: a field, or what is between markers."""
    filler = rng.choice(FILLERS)
    size = limit + rng.randint(-24, 6)
    long = rng.choice(("", "`")) + (filler * (size // len(filler) + 1))[:size]
    templates = [t.text for t in (*dialect.reasoning, *dialect.content, *dialect.call, *dialect.argument)]
    if rng.random() < 0.3:
        template = rng.choice(templates)
        fields = _FIELD.findall(template)
        which = rng.choice(fields) if fields else ""
        text = _FIELD.sub(lambda m: long if m[1] == which else _VALUES.get(m[1], "text"), template)
    else:
        text = rng.choice(rng.choice(dialect.examples).raw)
        literals = {p.strip() for t in (*templates, *(c.text for c in dialect.calls)) for p in _FIELD.split(t)[::2]}
        found = (m for literal in sorted(filter(None, literals)) for m in re.finditer(re.escape(literal), text))
        at = rng.choice([i for m in found for i in (m.start(), m.end(), (m.start() + m.end()) // 2)] or [0])
        text = text[:at] + long + text[at:]
    return text[: rng.randint(max(0, len(text) - 60), len(text))] if rng.random() < 0.4 else text


@pytest.mark.parametrize(**named(DIALECTS))
def test_no_limit_depends_on_how_an_output_is_cut(dialect: Dialect) -> None:
    rng = random.Random(dialect.name)
    for _ in range(DRAWS):
        limit = rng.choice(LIMITS)
        text = drawn(dialect, limit, rng)
        options: dict[str, Any] = {"tools": rng.choice((None, TOOLS)), "stage": rng.choice((None, None, "undecided"))}
        sizes = (len(text) or 1, 997, *((1, 7, 97) if limit < CAP else ()), rng.randint(1, len(text) or 1))
        readings = [said(run(dialect, pieces(text, size), **options, finish_reason="stop")[0]) for size in sizes]
        assert readings == readings[:1] * len(readings), (options, text[:3000])


@pytest.mark.parametrize(**named([d for d in CALLING if any("{any}" in t.text for t in d.call)]))
def test_a_field_ends_at_a_marker_that_begins_within_its_limit(dialect: Dialect) -> None:
    """Also if the marker goes on beyond it, and comes in pieces."""
    for template in dialect.call:
        before, _, after = template.text.partition("{any}")
        marker = _FIELD.split(after)[0]
        if "{any}" not in template.text or template.object is not None or not marker.strip():
            continue
        rest = _FIELD.sub(lambda m: _VALUES.get(m[1], "x"), before), _FIELD.sub(lambda m: _VALUES.get(m[1], "x"), after)
        for size in range(MAX_ANY - len(marker) - 2, MAX_ANY + 3):
            text = rest[0].strip() + "a" * size + rest[1]
            cuts = (pieces(text, step) for step in (len(text), 1, 5))
            readings = [said(run(dialect, cut, tools=None, finish_reason="stop")[0]) for cut in cuts]
            assert readings[1:] == readings[:1] * 2, size


@pytest.mark.parametrize(**named(DIALECTS))
def test_a_run_of_a_markers_sign_is_looked_at_once(dialect: Dialect) -> None:
    """Not at each of its characters, with a piece of text and a notice for each."""
    for sign in {c for literal in literals(dialect) for c in literal}:
        _, events = run(dialect, ["a " + sign * 200], tools=TOOLS, stage="content")
        assert len(events) < 10, sign


@pytest.mark.parametrize(
    "text", ["all\nx>>>>>>f\n{}", "all\n>>>>>>>> >", "all\na >> b>>>>all\nc", ">>>>>f\n{}", "all\n>>>>"]
)
def test_a_run_of_a_markers_sign_is_read_alike_however_it_is_cut(text: str) -> None:
    found = [run("functionary-v3.2", pieces(text, size), tools=TOOLS)[0] for size in range(1, len(text) + 1)]
    assert [(said(m), m.notices) for m in found] == [(said(found[0]), found[0].notices)] * len(text)
    assert len(found[0].notices) <= 1
