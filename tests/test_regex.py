"""Regular expressions that match alike in every Python."""

import itertools
import re
from collections.abc import Iterator
from re import _constants as ops  # type: ignore[attr-defined]  # it has no stub
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from unspool.dialect.syntax import KEYWORD
from unspool.parser import openings
from unspool.parser.readers import broken, object, strings
from unspool.regex import Regex
from unspool.schema import _NUMBER

POSSESSIVE = {
    "strings of JSON": (strings.JSON_RUN, '"\\u0e9nx\n'),
    "strings of Python": (strings.PYTHON_RUN, "'\\nx0\n"),
    "raw strings of Python": (strings.RAW_RUN, "'\\nx\n"),
    "strings that are broken": (broken._STRING_REST['"'], '"\\nx\n'),
    "strings of an object": (object._STRINGS['"'], '"\\nx\n'),
    "keys": (openings._JSON_KEY, ' "\\\na:'),
    "keys that are cut": (openings._JSON_KEY_MAYBE, ' "\\\na:'),
    "short values": (openings._SHORT, "\"'\\\na1"),
    "numbers": (_NUMBER, "-01.eE+x"),
    "keywords": (KEYWORD, "a. -$("),
}


@pytest.mark.parametrize(("regex", "alphabet"), POSSESSIVE.values(), ids=POSSESSIVE)
def test_a_possessive_group_takes_what_a_greedy_one_takes(regex: Regex, alphabet: str) -> None:
    """Python before 3.11.5 may take more; none of our expressions needs to backtrack there."""
    regex.match("")  # compiles it
    possessive: re.Pattern[str] = regex.match.__self__  # type: ignore[attr-defined]
    greedy = re.compile(re.sub(r"(?<!\\)([*+?}])\+", r"\1", possessive.pattern), possessive.flags)
    assert greedy.pattern != possessive.pattern
    for length in range(6):
        for characters in itertools.product(alphabet, repeat=length):
            text = "".join(characters)
            assert span(possessive.match(text)) == span(greedy.match(text)), text


_REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
_MOVING = (*_REPEATS, ops.BRANCH, ops.ASSERT, ops.ASSERT_NOT)


def unsafe(items: Any) -> Iterator[str]:
    """What Python before 3.11.5 may leave behind in a possessive group, if it fails there after the group's beginning.

    A repetition that may be empty cannot fail.
    """
    for op, argument in items:
        if op is ops.POSSESSIVE_REPEAT:
            for inner, what in list(argument[2])[1:]:
                if inner in _MOVING and not (inner in _REPEATS and what[0] == 0):
                    yield str(inner)
        if op in _REPEATS:
            yield from unsafe(argument[2])
        elif op is ops.BRANCH:
            for branch in argument[1]:
                yield from unsafe(branch)
        elif op is ops.SUBPATTERN:
            yield from unsafe(argument[3])


@pytest.mark.parametrize(("regex", "alphabet"), POSSESSIVE.values(), ids=POSSESSIVE)
def test_a_possessive_group_has_what_may_fail_only_at_its_beginning(regex: Regex, alphabet: str) -> None:
    """So the fault of older Pythons shows in every Python."""
    regex.match("")
    compiled: re.Pattern[str] = regex.match.__self__  # type: ignore[attr-defined]
    assert list(unsafe(parser.parse(compiled.pattern, compiled.flags))) == []


def test_a_common_beginning_of_two_choices_hides_what_may_fail() -> None:
    assert list(unsafe(parser.parse(r"a*+(?:bc|bd)*+"))) == []  # one set of characters
    assert list(unsafe(parser.parse(r"a*+(?:b[cd]a*+|bxyy)*+"))) == ["BRANCH"]


def span(match: re.Match[str] | None) -> tuple[int, int] | None:
    return None if match is None else match.span()
