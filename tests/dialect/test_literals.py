"""The search for literals, in any case and at the end of the text."""

import itertools

from unspool.dialect.literals import Literals, finder, firsts
from unspool.dialect.patterns import Pattern, closing


def spellings(text: str) -> list[str]:
    return ["".join(cs) for cs in itertools.product(*({c, c.upper()} for c in text))]


def test_the_finder_finds_every_spelling_and_only_of_tags_in_any_case() -> None:
    literals = Literals({"<think>", "<tool>", "<Thing>", "[t]"}, {"<think>"})
    find = finder(literals)
    for text in (*spellings("<think>"), "<tool>", "<Thing>", "[t]"):
        found = find.search(f"a < b {text} c")
        assert found is not None
        assert found.group() == text
        assert text in literals
    for text in ("<Tool>", "<thing>", "[T]", "<thin>", "<thi\u212a>"):
        assert find.search(f"a < b {text} c") is None
        assert text not in literals


def test_the_finder_finds_the_beginning_of_a_marker_at_the_end_of_the_text() -> None:
    find = finder(Literals({"<think>", "<tool>"}, {"<think>"}))
    for text in ("<", "<t", "<T", "<to", "<tH", "<THIN"):
        found = find.search("x" + text)
        assert found is not None
        assert (found.start(), found.group()) == (1, text)
    assert find.search("x<To") is None


def test_the_shorter_of_two_literals_that_begin_alike_is_found() -> None:
    found = finder(frozenset({"<a", "<ab>"})).search("<ab>")
    assert found is not None
    assert found.group() == "<a"


def test_the_pattern_of_a_long_tag_stays_short() -> None:
    tag = "<" + "a" * 200 + ">"
    patterns = [Pattern((tag,), any_case=True), closing((tag.replace("<", "</"),), any_case=True)]
    find = finder(firsts(patterns))
    assert len(find.pattern) < 200_000
    assert find.search("x" + tag.upper()) is not None
