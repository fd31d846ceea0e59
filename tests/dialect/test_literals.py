"""The search for literals, in any case and at the end of the text."""

import pytest

from unspool.dialect.literals import Finder, Literals, firsts
from unspool.dialect.patterns import closing, pattern


def test_the_finder_finds_the_beginning_of_a_marker_at_the_end_of_the_text() -> None:
    find = Finder(Literals({"<think>", "<tool>"}, {"<think>"}))
    for text in ("<", "<t", "<T", "<to", "<tH", "<THIN"):
        found = find.search("x" + text)
        assert found is not None
        assert (found.start(), found.group()) == (1, text)
    assert find.search("x<To") is None


def test_the_shorter_of_two_literals_that_begin_alike_is_found() -> None:
    found = Finder(frozenset({"<a", "<ab>"})).search("<ab>")
    assert found is not None
    assert found.group() == "<a"


def test_the_pattern_of_a_long_tag_stays_short() -> None:
    tag = "<" + "a" * 200 + ">"
    patterns = [pattern((tag,), any_case=True), closing((tag.replace("<", "</"),), any_case=True)]
    find = Finder(firsts(patterns))
    assert len(find.pattern) < 200_000
    assert find.search("x" + tag.upper()) is not None


@pytest.mark.parametrize("text", ["", "x", "<", "x<T", "<THINK>y", "x" * 300, "x" * 300 + "<tool>", "y<THINK" * 50])
def test_a_new_finder_finds_what_one_in_use_finds(text: str) -> None:
    literals = Literals({"<tool>"}, {"<think>"})
    used = Finder(literals)
    used.search("<")
    for i in (0, 1, len(text)):
        for way in ("search", "match"):
            spans = [m and m.span() for m in (getattr(f, way)(text, i) for f in (used, Finder(literals)))]
            assert spans[0] == spans[1]
