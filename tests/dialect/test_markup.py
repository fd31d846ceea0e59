"""Arguments in markup: which text may wait between them, and which arguments are complete."""

import json

import pytest

import unspool
from tests.support import pieces, run, tool
from unspool import Dialect, Stage
from unspool.dialect.compiling import compile_plan
from unspool.dialect.patterns import MORE, skip_space

MARKUP = [d for d in unspool.list_dialects() if d.argument]
UNSEPARATED = [d for d in MARKUP if not compile_plan(d).arguments.comma]
NUMBERS = {"days": 3, "ratio": -0.25, "far": 3e20, "sure": True, "zero": 0, "note": "x < y", "last": 12}
KINDS = {int: "integer", float: "number", bool: "boolean", str: "string"}
TOOLS = [tool("plot", **{key: KINDS[type(value)] for key, value in NUMBERS.items()})]


def written(dialect: Dialect) -> str:
    call = {"id": "call00001", "type": "function", "function": {"name": "plot", "arguments": json.dumps(NUMBERS)}}
    return unspool.render({"role": "assistant", "tool_calls": [call]}, dialect, tools=TOOLS, stage=Stage.CONTENT)


def read(dialect: Dialect, text: str, size: int) -> unspool.Message:
    message, _ = run(
        dialect, pieces(text, size), tools=TOOLS, stage=Stage.CONTENT, ids=lambda index, name: f"{name}{index}"
    )
    return message


@pytest.mark.parametrize("dialect", MARKUP, ids=lambda d: d.name)
def test_numbers_are_read_the_same_for_every_chunking(dialect: Dialect) -> None:
    text = written(dialect)
    whole = read(dialect, text, len(text))
    assert json.loads(whole.tool_calls[0].arguments) == NUMBERS
    for size in (1, 4, 7, 40):
        assert read(dialect, text, size) == whole


@pytest.mark.parametrize("dialect", UNSEPARATED, ids=lambda d: d.name)
def test_only_the_beginning_of_a_marker_waits_between_arguments(dialect: Dialect) -> None:
    plan = compile_plan(dialect)
    awaited = plan.arguments.awaited(None, plan.arguments.parameters)
    assert awaited is not None
    patterns = [*(p.opening for p in plan.arguments.parameters), *plan.calls.closings]
    if any(p.whole() is None for p in patterns):
        pytest.skip("a closing repeats the name: the machine reads what is between arguments")
    assert awaited.between is not None
    text = written(dialect)
    begins = text.index("3") + 1
    waits = 0
    for start in range(begins, min(len(text), begins + 60)):
        for end in range(start + 1, min(len(text), start + 40)):
            piece = text[start:end]
            if awaited.between.fullmatch(piece) and not piece.isspace():
                i = skip_space(piece, 0)
                found = [p.match(piece, i, {}) for p in patterns]
                assert max(found) < 0, piece
                assert MORE in found, piece
                waits += 1
    assert waits


ROWS = [{"a": [1, -2.5, None, True], "b": "x < y </ z <", "c": {"d": "<<arg>", "e": "]<] ]<"}}] * 8


@pytest.mark.parametrize("dialect", MARKUP, ids=lambda d: d.name)
def test_a_value_that_waits_for_its_end_reads_alike_in_pieces_of_any_size(dialect: Dialect) -> None:
    """It is longer than what may wait unseen, and contains the beginnings of markers."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"rows": {"type": "array"}}}}}
    call = {"function": {"name": "f", "arguments": json.dumps({"rows": ROWS})}}
    raw = unspool.render({"role": "assistant", "tool_calls": [call]}, dialect, tools=[tool], stage="content")
    for size in (1, 2, 3, 4, 7, 50, 300):
        message, _ = run(dialect, pieces(raw, size), tools=[tool], stage="content")
        assert [(c.status, c.arguments_dict()) for c in message.tool_calls] == [("ok", {"rows": ROWS})], size
