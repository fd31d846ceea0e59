"""Errors of models in marked-up arguments: missing closings, repeated keys, all arguments in one."""

import itertools
import json
import random
from typing import Any

import pytest

from tests.support import (
    UNTYPED,
    VERBATIM,
    XML,
    alike,
    assert_calls,
    calling,
    chunkings,
    dialect_of,
    function_call,
    is_marked,
    many_cuts,
    named,
    notices,
    random_split,
    readings,
    run,
    splits,
    tool,
    values,
)
from tests.writing import fill, write_calls
from unspool import Dialect, Parser, Stage, get_dialect, parse, render
from unspool.dialect.compiling import compile_plan
from unspool.dialect.template import literal

NESTING = [d for d in UNTYPED if d.item]
LIST = {"type": "array", "items": {"type": "string"}}
TOOLS = [
    tool("h", city="string", state="string", n="integer", l=LIST, m={"type": "array", "items": {"type": "integer"}})
]


def argument(dialect: Dialect, key: str, value: str, kind: str = "string") -> str:
    """One argument as text."""
    fields = {"key": key, "value": value, "string": "true" if kind == "string" else "false", "type": kind}
    return fill(dialect.argument[0].text, **fields)


def call(dialect: Dialect, *arguments: tuple[str, str], name: str = "h") -> str:
    """A call with arguments as text."""
    return write_calls(
        dialect, [(name, dialect.separator.arguments.join(argument(dialect, k, v) for k, v in arguments))]
    )


def every_way(dialect: Dialect, raw: str, **options: Any) -> tuple[list[tuple[str, Any]], list[str], list[str]]:
    """Values, statuses and notices."""
    message = alike(dialect, raw, many_cuts(raw), **{"tools": TOOLS, **options})
    return values(message), [c.status for c in message.tool_calls], notices(message)


# -- openings that break off -------------------------------------------------------------------------------------------

BROKEN = [d for d in XML if d.call[0].after and all(p.begun for p in compile_plan(d).arguments.parameters)]


@pytest.mark.parametrize(**named(BROKEN))
def test_an_opening_that_breaks_off_before_the_calls_closing_is_dropped(dialect: Dialect) -> None:
    before = argument(dialect, "state", "\0").partition("\0")[0]
    written = argument(dialect, "city", "Paris").rstrip() + "\n"
    raw = write_calls(dialect, [("h", f"{written}{before.partition('state')[0]}state\n")])
    assert every_way(dialect, raw) == ([("h", {"city": "Paris"})], ["ok"], ["stray_open"])


@pytest.mark.parametrize(**named(BROKEN))
def test_an_opening_that_breaks_off_before_anything_else_is_the_values_text(dialect: Dialect) -> None:
    before, after = argument(dialect, "state", "\0").split("\0")
    text = f"Paris{after.rstrip()}\n{before.partition('state')[0]}state\nFrance"
    assert every_way(dialect, call(dialect, ("city", text))) == ([("h", {"city": text})], ["ok"], [])


@pytest.mark.parametrize("written", ["</parameter/>", "</parameter1>", "</parameter", "</parameterfunction>"])
def test_of_closings_that_begin_alike_the_longest_counts(written: str) -> None:
    dialect = get_dialect("qwen3-coder")
    raw = f"<tool_call>\n<function=h>\n<parameter=city>\nParis\n{written}\n</function>\n</tool_call>"
    assert every_way(dialect, raw) == ([("h", {"city": "Paris"})], ["ok"], [])


def test_an_element_of_a_list_does_not_end_at_a_closing_that_names_a_key() -> None:
    dialect = dialect_of('base = "minimax-m3"\nspellings."]<]minimax[>[</{key}>" = ["</{key}>"]')
    raw = render(calling(function_call("h", {"l": ["</b>", "c"]})), "minimax-m3")
    assert every_way(dialect, raw) == ([("h", {"l": ["</b>", "c"]})], ["ok"], [])


# -- closings that are missing -----------------------------------------------------------------------------------------


def closing(dialect: Dialect, key: str) -> str:
    """The closing of an argument."""
    return fill(dialect.argument[0].text.partition("{value}")[2].strip(), key=key)


@pytest.mark.parametrize(**named([d for d in XML if d.call[0].after]))
def test_a_call_that_lacks_its_own_closing_does_not_swallow_the_next(dialect: Dialect) -> None:
    arguments = argument(dialect, "city", "Dallas")
    raw = write_calls(dialect, [("h", arguments), ("h", arguments)])
    own = fill(dialect.call[0].text.partition("{arguments}")[2].strip(), name="h")
    at = raw.index(own, raw.index(arguments.strip()) + len(arguments.strip()))
    if any(t.opening.strip().startswith(own) for t in (dialect.calls[0], dialect.call[0])):
        pytest.skip("the next call's opening begins with this closing")
    if literal(dialect.call[0].head).strip() == literal(dialect.argument[0].head).strip():
        pytest.skip("the next call's opening is that of an argument")
    broken = raw[:at] + raw[at + len(own) :]
    calls, statuses, kinds = every_way(dialect, broken)
    assert calls == [("h", {"city": "Dallas"})] * 2, broken
    assert statuses == ["ok", "ok"], broken
    assert "missing_close" in kinds, broken


def unclosed(dialect: Dialect, first: str = "Dallas", key: str = "state") -> str:
    """A call whose first argument is not closed."""
    raw = call(dialect, ("city", first), (key, "TX"))
    close = closing(dialect, "city")
    at = raw.index(close, raw.index(first))
    t = dialect.argument[0]
    between = t.trail + dialect.separator.arguments + t.lead
    gap = "\n" if "\n" in t.text and "\n" not in between else ""
    return raw[:at].removesuffix(t.inner_trail) + gap + raw[at + len(close) :]


@pytest.mark.parametrize(**named(XML))
def test_the_next_arguments_opening_makes_up_for_a_missing_closing(dialect: Dialect) -> None:
    calls = every_way(dialect, unclosed(dialect))
    assert calls == ([("h", {"city": "Dallas", "state": "TX"})], ["ok"], ["missing_close"])


@pytest.mark.parametrize(**named(d for d in XML if d.call[0].after))
@pytest.mark.parametrize("tools", [TOOLS, None])
def test_the_calls_closing_makes_up_for_the_last_values(dialect: Dialect, tools: list[dict[str, Any]] | None) -> None:
    raw = call(dialect, ("city", "Dallas"))
    head, own, tail = raw.rpartition(closing(dialect, "city"))
    assert own
    for broken in (head.removesuffix(dialect.argument[0].inner_trail) + tail, head.rstrip() + tail.lstrip()):
        message = alike(dialect, broken, many_cuts(broken), tools=tools, stage=Stage.CONTENT)
        assert (values(message), notices(message)) == ([("h", {"city": "Dallas"})], ["missing_close"]), broken


@pytest.mark.parametrize(**named(XML))
def test_an_opening_of_a_key_that_is_not_declared_or_given_already_is_the_values_text(dialect: Dialect) -> None:
    for key, tools in (("other", TOOLS), ("city", TOOLS), ("state", None), ("state", [tool("h", city="string")])):
        if tools is None and not is_marked(dialect):
            continue
        calls, statuses, _ = every_way(dialect, unclosed(dialect, key=key), tools=tools)
        assert [list(arguments) for _, arguments in calls] == [["city"]], key
        assert calls[0][1]["city"].startswith("Dallas")
        assert "TX" in calls[0][1]["city"]
        assert statuses == ["ok"]


@pytest.mark.parametrize(**named([d for d in XML if "\n" in d.argument[0].text + d.separator.arguments]))
def test_an_opening_within_a_line_is_the_values_text(dialect: Dialect) -> None:
    opening = argument(dialect, "state", "").partition("\n")[0]
    value = f"see {opening} here"
    assert_calls(dialect, call(dialect, ("city", value)), [("h", {"city": value})], tools=TOOLS)


@pytest.mark.parametrize(**named(XML))
def test_a_call_that_lacks_only_its_own_closing_is_complete_when_the_model_stops(dialect: Dialect) -> None:
    raw = call(dialect, ("city", "Dallas"), ("state", "TX"))
    close = closing(dialect, "state")
    cut = raw[: raw.index(close, raw.rindex("TX")) + len(close)]
    for text in (cut, cut + "\n"):
        calls, statuses, notes = every_way(dialect, text)
        assert (calls, statuses) == ([("h", {"city": "Dallas", "state": "TX"})], ["ok"])
        assert notes or not dialect.call[0].after
        for message in readings(dialect, text, finish_reason="length", tools=TOOLS):
            assert [c.status for c in message.tool_calls] == ["incomplete"]
            assert message.finish_reason == "length"


@pytest.mark.parametrize(**named([d for d in XML if d.call[0].after and d.calls[0].after]))
def test_a_blocks_closing_makes_up_for_a_calls_closing_once_the_arguments_are_closed(dialect: Dialect) -> None:
    raw = call(dialect, ("city", "Dallas"))
    close = fill(dialect.call[0].text.partition("{arguments}")[2].strip(), name="h")
    at = raw.rindex(close)
    calls, statuses, notes = every_way(dialect, raw[:at] + raw[at + len(close) :])
    assert (calls, statuses) == ([("h", {"city": "Dallas"})], ["ok"])
    assert "missing_close" in notes


def closes_blocks(dialect: Dialect) -> bool:
    """Whether calls have a closing, and a marker behind their name, and what is around them a closing of its own."""
    behind = dialect.call[0].text.partition("{name}")[2].partition("{arguments}")[0]
    around = dialect.calls[0].closing.strip()
    return bool(dialect.call[0].after and behind.strip() and around and around not in dialect.end)


@pytest.mark.parametrize(**named([d for d in XML if closes_blocks(d)]))
def test_a_blocks_closing_ends_a_call_without_arguments_if_its_tool_requires_none(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("h", "")])
    close = fill(dialect.call[0].text.partition("{arguments}")[2].strip(), name="h")
    at = raw.rindex(close)
    raw = raw[:at] + raw[at + len(close) :]
    needy = tool("h", city="string")
    needy["function"]["parameters"]["required"] = ["city"]
    for tools, status in ((TOOLS, "ok"), ([needy], "incomplete")):
        message = alike(dialect, raw, many_cuts(raw), tools=tools)
        assert [(c.name, c.status) for c in message.tool_calls] == [("h", status)], raw
        assert message.tool_calls[0].arguments == ("{}" if status == "ok" else ""), raw


@pytest.mark.parametrize(**named([d for d in XML if d.call[0].after]))
def test_a_call_without_an_argument_that_lacks_its_closing_is_incomplete(dialect: Dialect) -> None:
    raw = call(dialect, ("city", "Dallas"))
    cut = raw[: raw.index(argument(dialect, "city", "Dallas").partition("Dallas")[0].strip())]
    message, _ = run(dialect, [cut], tools=TOOLS)
    assert {c.status for c in message.tool_calls} <= {"incomplete"}


# -- keys --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named([d for d in XML if d.argument[0].closing]))
def test_an_argument_without_a_key_breaks_its_call(dialect: Dialect) -> None:
    raw = call(dialect, ("city", "Dallas"), ("", "TX"))
    message = alike(dialect, raw, many_cuts(raw), tools=TOOLS)
    assert [(c.name, c.status) for c in message.tool_calls] == [("h", "invalid")], raw
    assert "TX" in message.tool_calls[0].arguments


# -- keys given twice --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(**named(XML))
def test_a_key_given_twice_keeps_the_first_value_with_a_notice(dialect: Dialect) -> None:
    for tools in (TOOLS, None) if is_marked(dialect) else (TOOLS,):
        raw = call(dialect, ("city", "a"), ("state", "b"), ("city", "c" * 40), ("state", "{}"))
        calls, statuses, notes = every_way(dialect, raw, tools=tools)
        assert (calls, statuses) == ([("h", {"city": "a", "state": "b"})], ["ok"])
        assert notes == ["duplicate_arguments"] * 2


@pytest.mark.parametrize(**named(UNTYPED))
def test_a_list_given_in_pieces_is_collected(dialect: Dialect) -> None:
    for given, meant in [
        ([("l", "a"), ("l", "b")], {"l": ["a", "b"]}),
        ([("l", "1"), ("l", "2"), ("city", "x")], {"l": ["1", "2"], "city": "x"}),
        ([("city", "x"), ("m", "1"), ("m", "2"), ("m", "3")], {"city": "x", "m": [1, 2, 3]}),
        ([("l", "a"), ("city", "x"), ("l", "b"), ("state", "y")], {"l": ["a", "b"], "city": "x", "state": "y"}),
        ([("l", '["a"]'), ("l", '["b", "c"]'), ("l", "[]")], {"l": ["a", "b", "c"]}),
        ([("l", "[]"), ("l", "b")], {"l": ["b"]}),
    ]:
        assert every_way(dialect, call(dialect, *given)) == ([("h", meant)], ["ok"], []), given


@pytest.mark.parametrize(**named(UNTYPED))
def test_a_single_piece_of_a_list_does_not_fit_its_type(dialect: Dialect) -> None:
    calls = every_way(dialect, call(dialect, ("l", "a"), ("city", "x")))
    assert calls == ([("h", {"l": "a", "city": "x"})], ["ok"], ["value_type"])


@pytest.mark.parametrize(**named(VERBATIM))
def test_json_that_holds_a_key_twice_keeps_its_bytes_and_gets_a_notice(dialect: Dialect) -> None:
    written = '{"a": 1, "\\u0061": {"k": 1, "k": 2}, "b": [{"k": 1}, {"k": 1}]}'
    raw = write_calls(dialect, [("h", written)])
    for message in readings(dialect, raw, tools=[tool("h")]):
        assert [(c.arguments, c.status) for c in message.tool_calls] == [(written, "ok")]
        assert notices(message).count("duplicate_arguments") == 2


@pytest.mark.parametrize(**named(NESTING))
def test_children_of_one_name_without_a_schema_become_a_list(dialect: Dialect) -> None:
    def element(key: str, *inner: str) -> str:
        return argument(dialect, key, "".join(inner))

    twice = element("t", "x") + element("t", "y")
    for inner, meant in [
        (element("tags", twice), {"tags": {"t": ["x", "y"]}}),
        (element("o", element("a", element("b", "1") + element("b", "2")) + element("a", "z")), {
            "o": {"a": [{"b": [1, 2]}, "z"]}
        }),
        (element("o", element("t", "x"), element("u", "y")) + element("city", "c"), {
            "o": {"t": "x", "u": "y"}, "city": "c"
        }),
    ]:  # fmt: skip
        for tools in (None, TOOLS):
            assert every_way(dialect, write_calls(dialect, [("h", inner)]), tools=tools)[:2] == ([("h", meant)], ["ok"])
    # if the schema has a list, the names of its elements do not matter
    assert every_way(dialect, write_calls(dialect, [("h", element("l", twice))]))[0] == [("h", {"l": ["x", "y"]})]


@pytest.mark.parametrize(**named(NESTING))
def test_held_child_elements_are_emitted_at_the_end_or_at_the_cap(dialect: Dialect) -> None:
    head = argument(dialect, "o", "").partition("{value}")[0]
    inner = argument(dialect, "t", "x") + argument(dialect, "u", "y" * 70_000) + argument(dialect, "t", "z")
    raw = write_calls(dialect, [("h", argument(dialect, "o", inner))])
    for chunks in ([raw], random_split(raw, random.Random(1), 400)):
        message, _ = run(dialect, chunks, tools=None)
        assert "hold_overflow" in notices(message)
        assert values(message) == [("h", {"o": {"t": "x", "u": "y" * 70_000}})]
        assert "duplicate_arguments" in notices(message)
    at = raw.index("yyy") + 3
    message, _ = run(dialect, [raw[:at]], "length", tools=None)
    assert message.tool_calls[0].arguments == '{"o": {"t": "x"' or '"yyy' in message.tool_calls[0].arguments
    assert head


# -- all arguments in one ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["arguments", "parameters", "input"])
@pytest.mark.parametrize(**named(XML))
def test_a_lone_argument_that_holds_all_arguments_is_taken_apart(dialect: Dialect, name: str) -> None:
    inner = '{"city": "x", "n": 12345678901234567890123}'
    meant = {"city": "x", "n": 12345678901234567890123}
    assert every_way(dialect, call(dialect, (name, inner))) == ([("h", meant)], ["ok"], [])
    for arguments, kept in [
        ([(name, '{"city": "x", "other": 1}')], {name: {"city": "x", "other": 1}}),
        ([(name, inner), ("state", "y")], {name: meant, "state": "y"}),
        ([("state", "y"), (name, inner)], {"state": "y", name: meant}),
        ([(name, "hello")], {name: "hello"}),
    ]:
        if dialect in UNTYPED:
            assert every_way(dialect, call(dialect, *arguments))[:2] == ([("h", kept)], ["ok"]), arguments
    for tools in (None, [tool("h", **{name: "string"})])[not is_marked(dialect) :]:
        calls, _, _ = every_way(dialect, call(dialect, (name, inner)), tools=tools)
        assert list(calls[0][1]) == [name]


@pytest.mark.parametrize(**named(NESTING))
def test_a_lone_element_that_holds_all_arguments_is_taken_apart(dialect: Dialect) -> None:
    inner = argument(dialect, "arguments", argument(dialect, "city", "12") + argument(dialect, "n", "12"))
    meant = {"city": "12", "n": 12}
    assert every_way(dialect, write_calls(dialect, [("h", inner)])) == ([("h", meant)], ["ok"], [])
    both = inner + argument(dialect, "state", "y")
    calls, _, _ = every_way(dialect, write_calls(dialect, [("h", both)]))
    assert calls == [("h", {"arguments": meant, "state": "y"})]


@pytest.mark.parametrize("name", ["arguments", "parameters", "input"])
@pytest.mark.parametrize(**named([d for d in VERBATIM if d.call[0].before or d.calls[0].before or d.call[0].object]))
def test_json_arguments_in_one_more_object_are_taken_apart_where_the_schema_tells(dialect: Dialect, name: str) -> None:
    inner = '{ "city": "x}\\"",  "n": 1e2 }'
    for written, arguments, tools in [
        (f'{{"{name}": {inner}}}', inner, TOOLS),
        (f'{{ "{name}" : {inner} }}', inner, TOOLS),
        (f'{{"{name}": {{"input": {{ "arguments": {inner} }}}}}}', inner, TOOLS),
        (f'{{"{name}": {{"other": {inner}}}}}', f'{{"{name}": {{"other": {inner}}}}}', TOOLS),
        (f'{{"{name}": {inner}, "n": 1}}', f'{{"{name}": {inner}, "n": 1}}', TOOLS),
        (f'{{"{name}": {{"other": 1}}}}', f'{{"{name}": {{"other": 1}}}}', TOOLS),
        (f'{{"{name}": 1}}', f'{{"{name}": 1}}', TOOLS),
        (f'{{"{name}": {inner}}}', f'{{"{name}": {inner}}}', [tool("h", **{name: "object", "city": "string"})]),
        (f'{{"{name}": {json.dumps(inner)}}}', inner, TOOLS),
        (f'{{"{name}": "{{\\"other\\": 1}}"}}', f'{{"{name}": "{{\\"other\\": 1}}"}}', TOOLS),
        (f'{{"name": "h", "{name}": {inner}}}', inner, TOOLS),
        (f'{{"name" : "h","{name}":{json.dumps(inner)}}}', inner, TOOLS),
        (f'{{"name": "h2", "{name}": {inner}}}', f'{{"name": "h2", "{name}": {inner}}}', TOOLS),
        (f'{{"name": "h", "{name}": {inner}, "n": 1}}', f'{{"name": "h", "{name}": {inner}, "n": 1}}', TOOLS),
        (f'{{"name": "h", "{name}": {{"name": "h"}}}}', '{"name": "h"}', [tool("h", name="string")]),
        ('{"name": "h", "city": "x"}', '{"name": "h", "city": "x"}', [tool("h", name="string", city="string")]),
    ]:
        raw = write_calls(dialect, [("h", written)])
        for chunks in itertools.islice(chunkings(raw), 0, None, 19):
            message, _ = run(dialect, chunks, tools=tools)
            assert [(c.arguments, c.status) for c in message.tool_calls] == [(arguments, "ok")], written
    message, _ = run(dialect, [write_calls(dialect, [("h", f'{{"{name}": {inner}}}')])], tools=None)
    assert all(c.arguments == f'{{"{name}": {inner}}}' for c in message.tool_calls)


def test_a_wrapper_that_is_too_long_is_passed_on() -> None:
    for size, beginning in ((60_000, '{"city": "'), (70_000, '{"input": {"city": "')):
        raw = write_calls(get_dialect("hermes"), [("h", {"input": {"city": "x" * size}})])
        for chunks in ([raw], random_split(raw, random.Random(0), 300)):
            message, _ = run("hermes", chunks, tools=TOOLS)
            assert message.tool_calls[0].arguments.startswith(beginning)
            assert ("hold_overflow" in notices(message)) == (size > 65_536)
            assert len(message.tool_calls[0].arguments) > size


# -- streaming ---------------------------------------------------------------------------------------------------------


def test_quotes_tell_a_string_from_json_where_the_dialect_says_so() -> None:
    muse = get_dialect("muse")
    either = {"type": ["string", "null"]}
    for tools in (None, [tool("h", x="string")], [tool("h", x=either)]):
        for written, meant in [
            ('"1"', "1"), ('"null"', "null"), ('"true"', "true"), ('"[1]"', "[1]"), ('" 1 "', " 1 "),
            ('"quoted"', '"quoted"'), ('"1', '"1'), ('"1" x', '"1" x'), ('""', '""'), ('"[1"', '"[1"'),
            ('""1""', '""1""'), ('"', '"'), ("abc", "abc"),
        ]:  # fmt: skip
            raw = write_calls(muse, [("h", argument(muse, "x", written))])
            calls = every_way(muse, raw, tools=tools)
            assert calls == ([("h", {"x": meant})], ["ok"], []), written


@pytest.mark.parametrize(**named(XML))
def test_lines_that_end_as_on_windows_around_a_value_are_not_its_own(dialect: Dialect) -> None:
    values = {"city": "one\ntwo", "state": "TX"}
    raw = write_calls(dialect, [("h", values)]).replace("\n", "\r\n")
    tools = [tool("h", city="string", state="string")]
    message = alike(dialect, raw, [list(raw), *splits(raw)], tools=tools)
    assert json.loads(message.tool_calls[0].arguments) == {"city": "one\r\ntwo", "state": "TX"}
    exact = {"city": "\r\none\r", "state": "\r"}
    (found,) = parse(write_calls(dialect, [("h", exact)]), dialect, tools=tools).tool_calls
    assert json.loads(found.arguments) == exact


@pytest.mark.parametrize(**named(XML))
def test_white_space_after_an_argument_is_not_held_without_limit(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("h", {"n": 37, "city": "a"})])
    for end in range(raw.index("37") + 2, raw.index("city")):
        parser = Parser(dialect, tools=TOOLS, stage="content")
        covered = 0
        for piece in (raw[:end], *[" " * 2000] * 36):
            events = parser.feed(piece)
            covered = events[-1].end if events else covered
        assert end + 72_000 - covered <= 66_000
