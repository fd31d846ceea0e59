"""The search for literals, in any case and at the end of the text."""

import random

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


@pytest.mark.parametrize("seed", range(20))
def test_the_first_literal_or_beginning_of_one_is_found_among_any_others(seed: int) -> None:
    rng = random.Random(seed)
    literals = {"".join(rng.choices("<ab", k=rng.randint(1, 4))) for _ in range(rng.randint(1, 6))}
    any_case = {literal for literal in literals if literal[0] == "<" and rng.random() < 0.5}  # they are tags
    find = Finder(Literals(literals, any_case))
    for _ in range(200):
        text = "".join(rng.choices("<abAB", k=rng.randint(0, 8)))
        ways = [(literal, text) for literal in literals] + [(literal, text.lower()) for literal in any_case]
        ends: dict[int, int] = {}  # the first one's, at each place
        for literal, t in ways:
            for i in range(len(t)):
                if t[i:].startswith(literal) or literal.startswith(t[i:]):
                    ends[i] = min(ends.get(i, len(t)), i + len(literal))
        found = find.search(text)
        assert (found and found.span()) == min(ends.items(), default=None), (literals, any_case, text)


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
