"""Regular expressions that match alike in every Python."""

import itertools
import re

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


def span(match: re.Match[str] | None) -> tuple[int, int] | None:
    return None if match is None else match.span()
