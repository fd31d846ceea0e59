"""Summaries are sentences of the reasoning, the same however it is cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.wire.summary import Detail, ReasoningSummary, summarized

THOUGHT = (
    "**Reading the file**\nIt is long. Much of it is data.\n\nNow the tests. They fail!\n\n"
    + "a " * 300
    + "\n\nSo I mend it. Done"
)


def test_a_detailed_summary_has_a_sentence_of_each_paragraph_and_a_concise_one_fewer() -> None:
    summary = summarized(THOUGHT, "detailed")
    assert summary[:2] == ["**Reading the file**", "Now the tests."]
    assert summary[2] == ("a " * 120).strip()
    assert summary[3] == "So I mend it."
    assert summarized(THOUGHT, "concise") == summarized(THOUGHT, "auto") == [summary[0], summary[3]]
    assert summarized("", "auto") == summarized(" \n\n ", "detailed") == []
    assert summarized("one", "auto") == ["one"]


@settings(max_examples=40)
@given(
    st.lists(st.text(alphabet="ab .!\n\u2028。", max_size=300), max_size=8).map(tuple),
    st.sampled_from(["concise", "detailed"]),
)
@pytest.mark.parametrize("size", [1, 7])
def test_the_summary_is_the_same_for_every_chunking(size: int, pieces: tuple[str, ...], detail: Detail) -> None:
    text = "".join(pieces)
    for cuts in (pieces, [text[i : i + size] for i in range(0, len(text), size)]):
        summary = ReasoningSummary(detail)
        sentences = [s for piece in cuts for s in summary.feed(piece)] + summary.close()
        assert sentences == summarized(text, detail)


def test_an_endless_line_takes_linear_time_and_little_memory() -> None:
    assert len(summarized("x" * 2_000_000, "detailed")) == 1
