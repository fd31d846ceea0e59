"""Calls that are one object: members that are neither the name, the id nor the arguments."""

import pytest

from tests.support import CALLING, chunkings, named, run, tool, values
from unspool import Dialect, render
from unspool.dialect.template import ObjectShape

TOOLS = [tool("look", x={"type": "integer"})]
CALL = {"id": "call00000", "type": "function", "function": {"name": "look", "arguments": '{"x": 7}'}}


def shape_of(dialect: Dialect) -> ObjectShape | None:
    shape = dialect.call[0].object
    return None if shape is None or shape.name_is_key else shape


@pytest.mark.parametrize(**named([d for d in CALLING if shape_of(d) is not None]))
@pytest.mark.parametrize("given", [False, True])
def test_a_member_that_is_skipped_in_place_of_arguments_is_reported(dialect: Dialect, given: bool) -> None:
    shape = shape_of(dialect)
    assert shape is not None
    written = render({"role": "assistant", "content": "", "tool_calls": [CALL]}, dialect, tools=TOOLS)
    key = f"{shape.quote}{next(key for key, role in shape.keys if role == 'arguments')}{shape.quote}"
    assert written.count(key) == 1
    other = f"{shape.quote}extra{shape.quote}"
    raw = written.replace(key, f"{other}: 5, {key}" if given else other)
    for chunks in chunkings(raw):
        message, _ = run(dialect, chunks, tools=TOOLS)
        ((name, arguments),) = values(message)
        assert (name, arguments, message.tool_calls[0].status) == ("look", {"x": 7} if given else {}, "ok")
        found = [n.detail for n in message.notices if n.kind == "skipped_member"]
        assert found == ([] if given else ["extra"])
