"""Calls that are one object: members that are neither the name, the id nor the arguments."""

import json

import pytest

from tests.support import CALLING, chunkings, named, notices, run, tool, values
from unspool import Dialect, get_dialect, render
from unspool.dialect.template import ObjectShape
from unspool.parser.ledger import CAP

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


@pytest.mark.parametrize(**named([d for d in CALLING if shape_of(d) is not None]))
def test_declared_members_beside_the_name_are_the_arguments_if_no_others_come(dialect: Dialect) -> None:
    shape = shape_of(dialect)
    assert shape is not None
    q = shape.quote
    tools = [tool("look", x="integer", s="string", o="object")]
    written = render({"role": "assistant", "content": "", "tool_calls": [CALL]}, dialect, tools=tools)
    key = f"{q}{next(key for key, role in shape.keys if role == 'arguments')}{q}"
    at = written.index(key)
    given = written[at : written.index("}", at) + 1]
    members = f"{q}s{q}: {q}a{q}, {q}extra{q}: 5, {q}o{q}: {{{q}k{q}: [1]}}"
    for raw, expected in (
        (written.replace(given, members), {"s": "a", "o": {"k": [1]}}),
        (written.replace(given, f"{members}, {given}"), {"x": 7}),
        (written.replace(given, f"{given}, {members}"), {"x": 7}),
    ):
        for chunks in chunkings(raw):
            message, _ = run(dialect, chunks, tools=tools)
            assert values(message) == [("look", expected)]
            assert ("loose_arguments" in notices(message)) == ("s" in expected)
    message, _ = run(dialect, [written.replace(given, members)], tools=None)
    assert all(arguments == {} for _, arguments in values(message)), "without tools nothing says what an argument is"


def test_arguments_beside_the_name_are_kept_up_to_the_cap() -> None:
    for size, kept in ((1000, True), (CAP + 1, False)):
        raw = f'<tool_call>\n{{"name": "look", "x": "{"a" * size}", "y": 1}}\n</tool_call>'
        for chunks in ([raw], [raw[i : i + 999] for i in range(0, len(raw), 999)]):
            message, _ = run(get_dialect("hermes"), chunks, tools=[tool("look", x="string", y="integer")])
            assert json.loads(message.tool_calls[0].arguments) == ({"x": "a" * size, "y": 1} if kept else {})
            assert notices(message) == (["loose_arguments"] if kept else ["hold_overflow", "skipped_member"])
