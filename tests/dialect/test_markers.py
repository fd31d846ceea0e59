"""No marker is passed over where it may be, though few of them are tried."""

import json
import random

import pytest

from unspool import Dialect, Parser, Policy
from unspool.dialect.compiling import compile_plan
from unspool.dialect.markers import Scan
from unspool.dialect.patterns import NO

from ..support import DIALECTS, dialect_of, literals, named


def scans(dialect: Dialect) -> list[Scan]:
    plan = compile_plan(dialect, Policy(markers_in_strings="end"))
    outlines, string_ends = (plan.reading, plan.plain), plan.calls.string_ends
    return [
        plan.calls.recover, plan.calls.block_text, *([string_ends] if string_ends else []), plan.reasoning.ends_in_text,
        *(o.undecided for o in outlines), *(r.scan for o in outlines for r in (o.text, o.frame, o.reasoning)),
    ]  # fmt: skip


@pytest.mark.parametrize(**named(DIALECTS))
def test_what_may_match_anywhere_in_a_text_is_found_and_tried(dialect: Dialect) -> None:
    rng = random.Random(dialect.name)
    words = [*literals(dialect), *"`[]{}<>|\n", " ", "  ", "now", "x"]
    for scan in scans(dialect):
        for _ in range(12):
            parts = (rng.choice(words) for _ in range(rng.randint(1, 5)))
            text = "".join(part.upper() if rng.random() < 0.1 else part for part in parts)
            text = text[: rng.randint(1, len(text))]
            for i in range(len(text)):
                fits = [m for m in scan.markers if m.pattern.match(text, i, {}) != NO]
                tried = scan.markers.at(text, i)
                assert [m for m in scan.markers if m in fits] == [m for m in tried if m in fits], (text, i)
                assert not fits or scan.find.match(text, i), (text, i)


def test_the_openings_of_a_file_with_many_long_ones_are_not_known_to_what_waits() -> None:
    blocks = [f"<t{i}{'x' * 100}>{{calls}}</t{i}>" for i in range(16)]
    calls = [f"<c{i}{'y' * 100}>{{name}}{{arguments}}</c{i}>" for i in range(16)]
    keys = f"calls = {json.dumps(blocks)}\ncall = {json.dumps(calls)}\n"
    dialect = dialect_of(keys + 'argument = ["<a={key}>{value}</a>"]\n')
    assert compile_plan(dialect).undecided_opening is None
    raw = blocks[3].replace("{calls}", calls[5].replace("{name}", "f").replace("{arguments}", "<a=x>y</a>"))
    parser = Parser(dialect, stage="content")
    for c in raw:
        parser.feed(c)
    parser.close()
    assert [(call.name, call.arguments) for call in parser.message.tool_calls] == [("f", '{"x": "y"}')]


def test_text_is_not_searched_where_a_marker_cannot_go_on() -> None:
    find = compile_plan(next(d for d in DIALECTS if d.name == "deepseekv3")).calls.recover.find
    assert find.search("``` `````` ```\n ```x") is None
    for text in ("``", "```", "``` \n", "```<", "```\n<｜tool▁call▁end｜>"):
        found = find.search(f"`` x{text}")
        assert found is not None
        assert found.start() == 4
