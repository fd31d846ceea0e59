"""Calls that are one object: members that are neither the name, the id nor the arguments."""

import json
import re
from typing import Any

import pytest

from tests.support import (
    CALLING,
    calling,
    chunkings,
    function_call,
    is_marked,
    named,
    notices,
    pieces,
    run,
    statuses,
    tool,
    values,
)
from tests.writing import write_calls
from unspool import Dialect, ToolCallStart, get_dialect, render
from unspool.parser.ledger import CAP

TOOLS = [tool("look", x={"type": "integer"})]
SHAPED = [d for d in CALLING if d.call[0].object is not None and not d.call[0].object.name_is_key]


def written(dialect: Dialect, tools: list[Any]) -> tuple[str, str, str]:
    """A call, the quote of its keys, and the key of its arguments between quotes."""
    shape = dialect.call[0].object
    assert shape is not None
    key = f"{shape.quote}{next(key for key, role in shape.keys if role == 'arguments')}{shape.quote}"
    return render(calling(function_call("look", {"x": 7})), dialect, tools=tools), shape.quote, key


@pytest.mark.parametrize(**named(SHAPED))
@pytest.mark.parametrize("given", [False, True])
def test_a_member_that_is_skipped_in_place_of_arguments_is_reported(dialect: Dialect, given: bool) -> None:
    call, q, key = written(dialect, TOOLS)
    assert call.count(key) == 1
    raw = call.replace(key, f"{q}extra{q}: 5, {key}" if given else f"{q}extra{q}")
    for chunks in chunkings(raw):
        message, _ = run(dialect, chunks, tools=TOOLS)
        ((name, arguments),) = values(message)
        assert (name, arguments, message.tool_calls[0].status) == ("look", {"x": 7} if given else {}, "ok")
        found = [n.detail for n in message.notices if n.kind == "skipped_member"]
        assert found == ([] if given else ["extra"])


@pytest.mark.parametrize(**named(SHAPED))
def test_declared_members_beside_the_name_are_the_arguments_if_no_others_come(dialect: Dialect) -> None:
    tools = [tool("look", x="integer", s="string", o="object")]
    call, q, key = written(dialect, tools)
    at = call.index(key)
    given = call[at : call.index("}", at) + 1]
    members = f"{q}s{q}: {q}a{q}, {q}extra{q}: 5, {q}o{q}: {{{q}k{q}: [1]}}"
    for raw, expected in (
        (call.replace(given, members), {"s": "a", "o": {"k": [1]}}),
        (call.replace(given, f"{members}, {given}"), {"x": 7}),
        (call.replace(given, f"{given}, {members}"), {"x": 7}),
    ):
        for chunks in chunkings(raw):
            message, _ = run(dialect, chunks, tools=tools)
            assert values(message) == [("look", expected)]
            assert ("loose_arguments" in notices(message)) == ("s" in expected)
    message, _ = run(dialect, [call.replace(given, members)], tools=None)
    assert all(arguments == {} for _, arguments in values(message)), "without tools nothing says what an argument is"


@pytest.mark.parametrize(**named(SHAPED))
@pytest.mark.parametrize("empty", ["{}", "{ }", "null"])
def test_declared_members_behind_empty_arguments_are_the_arguments(dialect: Dialect, empty: str) -> None:
    tools = [tool("look", x="integer", s="string")]
    call, q, key = written(dialect, tools)
    at = call.index(key)
    given = call[at : call.index("}", at) + 1]
    none = given[: given.index("{")] + (empty if q == '"' or empty != "null" else "None")
    unknown = f"{none}, {q}extra{q}: 5"
    for behind, expected in (
        ("", {}),
        (",", {}),
        (f", {q}s{q}: {q}a{q}", {"s": "a"}),
        (f", {q}s{q}: {q}a{q}, {q}extra{q}: 5, {q}x{q}: 1", {"s": "a", "x": 1}),
        (f", {given}", {"x": 7}),
    ):
        for chunks in chunkings(call.replace(given, none + behind)):
            message, _ = run(dialect, chunks, tools=tools)
            assert values(message) == [("look", expected)]
            assert ("loose_arguments" in notices(message)) == ("s" in expected)
    for options in ({"tools": tools}, {"tools": None}):
        message, _ = run(dialect, [call.replace(given, unknown)], **options)
        assert [arguments for _, arguments in values(message)] in ([{}], []), "an unmarked call needs a declared name"
        assert "skipped_member" not in notices(message), "nothing that is an argument"


@pytest.mark.parametrize(**named(SHAPED))
def test_empty_arguments_end_as_others_do_where_none_come_beside_them(dialect: Dialect) -> None:
    """Also where the call lacks its bracket, and another follows, or where the output ends."""
    tools = [tool("look", x="integer", s="string"), tool("now")]
    call, q, key = written(dialect, tools)
    at = call.index(key)
    given = call[at : call.index("}", at) + 1]
    whole = call.replace(given, given[: given.index("{")] + "{}")
    head = whole[: whole.index("{}", at) + 2]
    for chunks in chunkings(f"{head}, {q}id{q}: {q}1{q}"):
        message, _ = run(dialect, chunks, tools=tools)
        assert statuses(message) == [("look", "ok")]
        assert values(message) == [("look", {})]


@pytest.mark.parametrize(**named(SHAPED))
def test_a_declared_member_that_comes_too_late_to_be_an_argument_is_reported(dialect: Dialect) -> None:
    tools = [tool("look", x="integer", s="string")]
    call, q, key = written(dialect, tools)
    at = call.index(key)
    given = call[at : call.index("}", at) + 1]
    for chunks in chunkings(call.replace(given, f"{given}, {q}s{q}: {q}a{q}")):
        message, _ = run(dialect, chunks, tools=tools)
        assert values(message) == [("look", {"x": 7})]
        assert "skipped_member" in notices(message)


def test_arguments_beside_the_name_are_kept_up_to_the_cap() -> None:
    for size, kept in ((1000, True), (CAP + 1, False)):
        raw = f'<tool_call>\n{{"name": "look", "x": "{"a" * size}", "y": 1}}\n</tool_call>'
        for chunks in ([raw], pieces(raw, 999)):
            message, _ = run(get_dialect("hermes"), chunks, tools=[tool("look", x="string", y="integer")])
            assert json.loads(message.tool_calls[0].arguments) == ({"x": "a" * size, "y": 1} if kept else {})
            assert notices(message) == (["loose_arguments"] if kept else ["hold_overflow", "skipped_member"])


@pytest.mark.parametrize(**named([d for d in CALLING if d.call[0].object is not None]))
def test_a_call_that_lacks_its_bracket_ends_where_the_next_one_begins(dialect: Dialect) -> None:
    tools = [*TOOLS, tool("now")]
    calls = calling(function_call("look", {"x": 7}), function_call("now", {}), function_call("look", {"x": 8}))
    whole = render(calls, dialect, tools=tools)
    raw = re.sub(r"(7\})\s*\}", r"\1", whole, count=1)
    assert raw != whole
    for given in (tools, None) if is_marked(dialect) else (tools,):
        for chunks in chunkings(raw):
            message, _ = run(dialect, chunks, tools=given)
            assert values(message) == [("look", {"x": 7}), ("now", {}), ("look", {"x": 8})]
            assert "missing_close" in notices(message)
            assert not message.content
    assert not run(dialect, [raw], tools=[])[0].tool_calls
    assert not run(dialect, [raw], tools=tools, tool_choice="none")[0].tool_calls


@pytest.mark.parametrize(**named(SHAPED))
@pytest.mark.parametrize("around", ["look ", " look", "\\nlook\\n"])
def test_white_space_around_a_name_is_no_part_of_it(dialect: Dialect, around: str) -> None:
    call, q, _ = written(dialect, TOOLS)
    raw = call.replace(f"{q}look{q}", f"{q}{around}{q}")
    assert raw != call
    for tools in (TOOLS, None) if is_marked(dialect) else (TOOLS,):
        for chunks in chunkings(raw):
            message, _ = run(dialect, chunks, tools=tools)
            assert values(message) == [("look", {"x": 7})]
            assert "mended_name" in notices(message)
    odd = [tool(json.loads(f'"{around}"'), x="integer")]
    assert [c.name for c in run(dialect, [raw], tools=odd)[0].tool_calls] == [odd[0]["function"]["name"]]


@pytest.mark.parametrize(**named([d for d in SHAPED if is_marked(d)]))
def test_a_declared_name_may_be_the_key_of_its_arguments(dialect: Dialect) -> None:
    call, q, key = written(dialect, TOOLS)
    if call.count("look") > 1:
        pytest.skip("its header has the name")
    begin, end = call.index("{"), call.rindex("}") + 1
    other = f"{call[:begin]}{{{q}look{q}: {{{q}x{q}: 7}}}}{call[end:]}"
    for chunks in chunkings(other):
        message, _ = run(dialect, chunks, tools=TOOLS)
        assert values(message) == [("look", {"x": 7})]
        assert "other_syntax" in notices(message)
    assert not run(dialect, [other], tools=[tool("nope", x="integer")])[0].tool_calls
    assert not run(dialect, [other], tools=None)[0].tool_calls
    second = call.replace(key, f"{key}: {{{q}x{q}: 7}}, {q}now{q}")
    message, _ = run(dialect, [second], tools=[*TOOLS, tool("now")])
    assert [n.detail for n in message.notices if n.kind == "skipped_member"] == ["now"]


@pytest.mark.parametrize(**named([d for d in CALLING if (s := d.call[0].object) is not None and s.name_is_key]))
def test_a_format_whose_keys_are_names_reads_the_usual_keys_of_a_declared_tool(dialect: Dialect) -> None:
    call = render(calling(function_call("look", {"x": 7})), dialect, tools=TOOLS)
    begin, end = call.index("{"), call.rindex("}") + 1
    usual = '{"name": "look", "arguments": {"x": 7}}'
    for body in (usual, f'{{"type": "function", "function": {usual}}}'):
        for chunks in chunkings(call[:begin] + body + call[end:]):
            message, _ = run(dialect, chunks, tools=TOOLS)
            assert values(message) == [("look", {"x": 7})]
            assert "other_syntax" in notices(message)
    own = [tool("name", x="integer")]
    message, _ = run(dialect, [call.replace("look", "name")], tools=own)
    assert values(message) == [("name", {"x": 7})]


@pytest.mark.parametrize(**named([d for d in SHAPED if is_marked(d)]))
@pytest.mark.parametrize("closing", ["", "q"])
def test_the_key_of_arguments_may_lack_quotes(dialect: Dialect, closing: str) -> None:
    call, q, key = written(dialect, TOOLS)
    if not call[: call.index(key)].rstrip().endswith(","):
        pytest.skip("it is the first key")
    raw = call.replace(key, key.strip(q) + q * bool(closing))
    for tools in (TOOLS, None):
        for chunks in chunkings(raw):
            message, _ = run(dialect, chunks, tools=tools)
            assert values(message) == [("look", {"x": 7})]
            assert [c.status for c in message.tool_calls] == ["repaired"]


@pytest.mark.parametrize("dialect", ["hermes", "mistral", "phi4", "jamba", "openai-generic"])
def test_a_name_beside_an_object_with_the_name_again_makes_one_call(dialect: str) -> None:
    tools = [tool("look", x="integer")]
    raw = write_calls(get_dialect(dialect), [("look", {"x": 7})])
    at = raw.index('{"name"')
    end = raw.index("}", raw.index('"x"')) + 2
    twice = f'{raw[:at]}{{"name": "look", "function": {raw[at:end]}}}{raw[end:]}'
    for chunks in chunkings(twice):
        message, events = run(dialect, chunks, tools=tools)
        assert values(message) == [("look", {"x": 7})]
        assert len([e for e in events if isinstance(e, ToolCallStart)]) == 1
