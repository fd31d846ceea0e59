"""Tags of arguments in markup that are written twice, or are missing between a key and its value."""

import json
from typing import Any

import pytest

from tests.parser.readers.test_markup import argument, call, closing, every_way
from tests.support import UNTYPED, XML, alike, calling, function_call, named, notices, splits, tool, values
from tests.writing import write_calls
from unspool import Dialect, DialectError, Message, parse, render
from unspool.dialect.compiling import compile_plan

TOOLS = [tool("h", city="string", n="integer", o="object")]
MARKUP = list({d.name: d for d in (*XML, *UNTYPED)}.values())
PAIRS = [d for d in MARKUP if compile_plan(d).arguments.parameters[-1].loose]
"""Dialects with several tags between a key and its value."""


def written_around(dialect: Dialect, key: str, kind: str = "string") -> tuple[str, str]:
    """The opening and the closing of an argument, without white space around them."""
    before, after = argument(dialect, key, "\0", kind).split("\0")
    return before.strip(), after.strip()


def values_between(dialect: Dialect, texts: dict[str, str], times: int, white: str) -> list[tuple[str, str]]:
    """Arguments whose opening and closing are written so many times: their keys and texts."""
    found = []
    for key, text in texts.items():
        opening, after = written_around(dialect, key)
        head, tail = (dialect.argument[0].inner_lead, dialect.argument[0].inner_trail)
        found.append((key, (white + opening) * (times - 1) + head + text + tail + (after + white) * (times - 1)))
    return found


def read(dialect: Dialect, raw: str, **options: Any) -> Message:
    return alike(dialect, raw, [list(raw), *splits(raw)], **{"tools": TOOLS, **options})


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("white", ["", "\n"])
@pytest.mark.parametrize(**named(MARKUP))
def test_a_tag_that_is_written_twice_is_one(dialect: Dialect, times: int, white: str) -> None:
    texts = {"city": "Paris", "n": "3"}
    raw = call(dialect, *values_between(dialect, texts, times, white))
    message = read(dialect, raw)
    assert values(message) == [("h", {"city": "Paris", "n": 3})]
    assert {*notices(message)} == {"doubled_marker"}
    assert [c.status for c in message.tool_calls] == ["ok"]


@pytest.mark.parametrize("choice", ["none", "auto"])
@pytest.mark.parametrize("tools", [None, []])
@pytest.mark.parametrize(**named([d for d in MARKUP if not d.item]))
def test_it_is_one_whatever_tools_are_declared(dialect: Dialect, tools: list[Any] | None, choice: str) -> None:
    raw = call(dialect, *values_between(dialect, {"city": "Paris"}, 2, ""))
    message = read(dialect, raw, tools=tools, tool_choice=choice)
    if choice == "none" or tools == []:
        assert not message.tool_calls
    else:
        assert values(message) == [("h", {"city": "Paris"})]


@pytest.mark.parametrize(**named([d for d in MARKUP if compile_plan(d).arguments.parameters[-1].last]))
def test_a_key_with_its_tag_twice_is_the_key_unless_that_is_declared(dialect: Dialect) -> None:
    head = argument(dialect, "\0", "x").partition("\0")[0].strip()
    raw = call(dialect, (head + "city", "Paris"))
    assert values(read(dialect, raw)) == [("h", {"city": "Paris"})]
    declared = tool("h", **{head + "city": "string"})
    assert values(read(dialect, raw, tools=[declared])) == [("h", {head + "city": "Paris"})]


@pytest.mark.parametrize(**named(MARKUP))
def test_a_doubled_tag_in_the_middle_of_a_text_is_text(dialect: Dialect) -> None:
    after = closing(dialect, "city")
    text = f"a{after}{after}b"
    assert every_way(dialect, call(dialect, ("city", text)), tools=TOOLS)[0] == [("h", {"city": text})]


@pytest.mark.parametrize(**named([d for d in MARKUP if not d.item]))
def test_a_doubled_tag_in_json_is_text(dialect: Dialect) -> None:
    opening, after = written_around(dialect, "o", "object")
    value = {"k": (opening * 2 + after * 2).replace('"', "'")}
    raw = call(dialect, ("o", json.dumps(value, ensure_ascii=False)))
    found = every_way(dialect, raw, tools=TOOLS)[0]
    assert found == [("h", {"o": value})]


@pytest.mark.parametrize(**named(MARKUP))
def test_a_value_that_begins_or_ends_with_its_tag_is_refused(dialect: Dialect) -> None:
    opening, after = written_around(dialect, "city")
    for text in (f"Paris{after}", f"Paris\n{after}\n", f"{opening}Paris", f"\n{opening}\nParis", f"{opening}\n{after}"):
        message = calling(function_call("h", {"city": text}))
        try:
            raw = render(message, dialect, tools=TOOLS)
        except DialectError:
            continue
        assert values(parse(raw, dialect, tools=TOOLS)) == [("h", {"city": text})]
        assert len(dialect.argument) > 1  # another alternative writes it otherwise
    if len(dialect.argument) == 1:
        with pytest.raises(DialectError, match=r"city|tool_calls"):
            render(message, dialect, tools=TOOLS)


def tags_between(dialect: Dialect) -> list[str]:
    """The tags between the key and the value of an argument."""
    between = argument(dialect, "city", "\0").partition("city")[2].partition("\0")[0]
    return [t + ">" for t in between.split(">") if t.strip()]


@pytest.mark.parametrize("second", ["", "n"])
@pytest.mark.parametrize(**named(PAIRS))
def test_one_missing_tag_between_a_key_and_its_value_is_made_up_for(dialect: Dialect, second: str) -> None:
    tags = tags_between(dialect)
    assert len(tags) == 2
    # White space of the format is no part of a value whose own tag is missing, whether it is missing too.
    for i, gone in [(i, gone) for i, tag in enumerate(tags) for gone in dict.fromkeys((tag, tag.strip()))]:
        arguments = [argument(dialect, "city", "how many days left").replace(gone, "", 1)]
        arguments += [argument(dialect, "n", "3", "number").replace(gone, "", 1)] if second else []
        raw = written(dialect, arguments)
        message = read(dialect, raw)
        assert values(message) == [("h", {"city": "how many days left"} | ({"n": 3} if second else {}))], gone
        assert notices(message) == ["missing_open"] * len(arguments), i
        assert values(read(dialect, raw, tools=None)) == values(message)


@pytest.mark.parametrize(**named(PAIRS))
def test_the_closing_of_a_value_may_stand_in_place_of_the_closing_of_a_key(dialect: Dialect) -> None:
    """As pruned models of Hunyuan Hy3 write it."""
    tag, wrong = tags_between(dialect)[0].strip(), written_around(dialect, "city")[1]
    both = [argument(dialect, "city", "Paris"), argument(dialect, "n", "3", "number")]
    for deviating in (1, 2):
        raw = written(dialect, [a.replace(tag, wrong, 1) if i < deviating else a for i, a in enumerate(both)])
        for tools in (TOOLS, None):
            message = read(dialect, raw, tools=tools)
            assert values(message) == [("h", {"city": "Paris", "n": 3})]
            assert notices(message) == ["missing_open"] * deviating


@pytest.mark.parametrize(**named(PAIRS))
def test_a_key_without_a_value_is_skipped(dialect: Dialect) -> None:
    tag, wrong = tags_between(dialect)[0].strip(), written_around(dialect, "city")[1]
    first, second = argument(dialect, "city", "Paris"), argument(dialect, "n", "3", "number")
    key = first[: first.index(tag)]
    for after in ("", wrong):
        raw = written(dialect, [key + after + second])
        for tools in (TOOLS, None):
            message = read(dialect, raw, tools=tools)
            assert values(message) == [("h", {"n": 3})]
            assert [n.detail for n in message.notices if n.kind == "skipped_member"] == ["city" + after]


def written(dialect: Dialect, arguments: list[str]) -> str:
    """A call with arguments as they are written."""
    return write_calls(dialect, [("h", dialect.separator.arguments.join(arguments))])


@pytest.mark.parametrize(**named(PAIRS))
def test_a_tag_between_a_key_and_its_value_may_be_written_twice(dialect: Dialect) -> None:
    for tag in tags_between(dialect):
        raw = written(dialect, [argument(dialect, "city", "Paris").replace(tag, tag.strip() * 2, 1)])
        message = read(dialect, raw)
        assert (values(message), notices(message)) == ([("h", {"city": "Paris"})], ["doubled_marker"]), tag


@pytest.mark.parametrize(**named(PAIRS))
def test_a_call_whose_argument_lacks_both_tags_is_no_call(dialect: Dialect) -> None:
    text = argument(dialect, "city", "Paris")
    for tag in tags_between(dialect):
        text = text.replace(tag, "", 1)
    assert not [c for c in read(dialect, written(dialect, [text])).tool_calls if c.status == "ok"]
