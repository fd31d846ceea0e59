"""Regular expressions that match alike in every Python."""

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
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
_LOOKS = (ops.ASSERT, ops.ASSERT_NOT)
_SINGLE = (ops.LITERAL, ops.NOT_LITERAL, ops.IN, ops.ANY)


def unsafe(items: Iterable[Any]) -> Iterator[str]:
    """What makes Python before 3.11.5 take too much in a possessive group that fails after it.

    Where the group fails, these Pythons go on from where its last repetition, choice or look-ahead began, or further.
    """
    for op, argument in items:
        if op is ops.POSSESSIVE_REPEAT and not _single(argument[2]):
            yield from _moves(list(argument[2]), moved=False, may_fail=False)
        for inner in _inside(op, argument):
            yield from unsafe(inner)


def _inside(op: Any, argument: Any) -> list[Any]:
    """The sequences in an item."""
    if op in _REPEATS:
        return [argument[2]]
    if op is ops.BRANCH:
        return list(argument[1])
    if op is ops.SUBPATTERN:
        return [argument[3]]
    return [argument[1]] if op in _LOOKS else [argument] if op is ops.ATOMIC_GROUP else []


def _single(body: Iterable[Any]) -> bool:
    """Whether a repetition is one of single characters, which is safe."""
    return [op in _SINGLE for op, _ in body] == [True]


def _may_fail(op: Any, argument: Any) -> bool:
    if op in _REPEATS:
        return bool(argument[0])
    if op is ops.SUBPATTERN or op is ops.BRANCH:
        return all(any(_may_fail(*item) for item in inner) for inner in _inside(op, argument))
    return True


def _moves(items: list[Any], *, moved: bool, may_fail: bool) -> Iterator[str]:
    """The items of a sequence that move the place where these Pythons go on, before a failure.

    Args:
        items: the sequence.
        moved: whether it begins after the beginning of its possessive group.
        may_fail: whether what follows it may fail.
    """
    for n, (op, argument) in enumerate(items):
        fails = may_fail or any(_may_fail(*item) for item in items[n + 1 :])
        if op is ops.SUBPATTERN:
            yield from _moves(list(argument[3]), moved=moved, may_fail=fails)
        elif op is ops.BRANCH and not moved:
            branches = [list(branch) for branch in argument[1]]
            # A branch that does not begin with one character begins at the group's beginning again.
            again = [i for i, branch in enumerate(branches) if branch and branch[0][0] not in _SINGLE]
            for branch in branches[again[-1] if again else 0 :]:
                yield from _moves(branch, moved=False, may_fail=fails)
        elif op in (*_REPEATS, ops.BRANCH, *_LOOKS):
            stays = not moved and op is ops.POSSESSIVE_REPEAT and _single(argument[2])
            if not stays and (fails or (moved and _may_fail(op, argument))):
                yield str(op)
        moved = moved or (op is not ops.AT and op not in _LOOKS)


@pytest.fixture(scope="module")
def expressions() -> list[tuple[str, int]]:
    """Every expression of the library."""
    found: list[tuple[str, int]] = json.loads(
        subprocess.run([sys.executable, "-m", "tests.expressions"], check=True, stdout=subprocess.PIPE).stdout
    )
    return found


def test_no_possessive_group_fails_after_what_older_pythons_forget(expressions: list[tuple[str, int]]) -> None:
    """So the fault of older Pythons shows in every Python."""
    assert len(expressions) > 500
    found = {pattern: list(unsafe(parser.parse(pattern, flags))) for pattern, flags in expressions}
    assert {pattern: why for pattern, why in found.items() if why} == {}


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?:x?a,)*+",
        r"(?:(?:[ab]+|c)e)*+",
        r"(?:(?:a(?:b)?|c)e)*+",
        r"(?:(?=ab)ac)*+",
        r"(?:(?:ab)*+c)*+",
        r"(?:\w+[,;])*+",
        r"(?:[^<]++|(?!<a\s*+>)[<])*+",
        r"a*+(?:b[cd]a*+|bxyy)*+",
    ],
)
def test_what_older_pythons_forget_is_found(pattern: str) -> None:
    """Each takes too much of some text in Python 3.11.2."""
    assert list(unsafe(parser.parse(pattern)))


@pytest.mark.parametrize(
    "pattern", [r"(?:[a-z]*+,)*+", r"(?:(?:ab|cd)e)*+", r"(?:(?!<a\s*+>)[<]|[^<]++)*+", r"a*+(?:bc|bd)*+"]
)
def test_what_older_pythons_read_well_is_not(pattern: str) -> None:
    assert list(unsafe(parser.parse(pattern))) == []


def span(match: re.Match[str] | None) -> tuple[int, int] | None:
    return None if match is None else match.span()
