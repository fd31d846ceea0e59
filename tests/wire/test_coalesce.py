"""Deltas are joined, and nothing else changes."""

import random
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import pytest

import unspool
from unspool import ContentDelta, Event, Finish, Markup, ReasoningDelta, ToolCallDelta, ToolCallEnd
from unspool.wire import Coalescer
from unspool.wire.coalesce import MAX_HELD

from ..support import Trial, check, examples, parse_case, same
from .streams import called

MODES: list[dict[str, Any]] = [
    {},
    {"sentences": True},
    {"boundaries": True},
    {"sentences": True, "boundaries": True, "max_delay": 3},
    {"max_delay": 5},
]


def text_of(event: Event) -> str:
    return event.arguments if isinstance(event, ToolCallDelta) else getattr(event, "text", "")


def texts(events: Iterable[Event], kind: type) -> list[str]:
    return [text_of(e) for e in events if isinstance(e, kind)]


def reasoning(*pieces: str) -> list[Event]:
    ends = [0, *accumulate(map(len, pieces))]
    return [ReasoningDelta(*each) for each in zip(pieces, ends, ends[1:], strict=False)]


def arguments(*pieces: str) -> list[Event]:
    return called(0, "c", "f", *pieces)[:-1]


@pytest.mark.parametrize("case", examples(), ids=str)
def test_joined_events_keep_the_message_the_spans_and_the_order(case: Trial) -> None:
    rng = random.Random(case.raw)
    message, events = parse_case(case, list(case.raw))
    for mode in MODES:
        coalescer = Coalescer(**mode)
        emitted: list[Event] = []
        now = at = 0
        while at < len(events):
            size, now = rng.randint(1, 5), now + rng.randint(0, 2)
            emitted += coalescer.feed(events[at : at + size], now)
            at += size
        assert coalescer.flush() == []
        check(emitted, case.raw)
        assert same(unspool.fold(emitted)) == same(message)
        deltas = ReasoningDelta | ContentDelta | ToolCallDelta
        assert [e for e in emitted if not isinstance(e, deltas)] == [e for e in events if not isinstance(e, deltas)]
        assert len(emitted) <= len(events)
        assert mode or emitted == events


THOUGHTS = {
    "First. Then 3.5 is more! “Yes?” she said.\nあれ。それ": [
        "First. ", "Then 3.5 is more! ", "“Yes?” she said.\n", "あれ。", "それ",
    ],
    'He said "no|."| |Then': ['He said "no." ', "Then"],  # a sentence ends between two pieces
}  # fmt: skip
"""Thoughts in characters, or in pieces with bars between them, and their sentences."""


@pytest.mark.parametrize("thought", THOUGHTS)
def test_reasoning_is_sent_by_sentence(thought: str) -> None:
    pieces = thought.split("|") if "|" in thought else thought
    emitted = Coalescer(sentences=True).feed([*reasoning(*pieces), Finish("stop", 0, 0)])
    assert texts(emitted, ReasoningDelta) == THOUGHTS[thought]


def test_a_piece_with_several_sentences_is_cut_after_the_last_whole_one() -> None:
    coalescer = Coalescer(sentences=True)
    assert texts(coalescer.feed(reasoning("One. Two. Thr")), ReasoningDelta) == ["One. Two. "]
    assert coalescer.flush() == [ReasoningDelta("Thr", 10, 13)]


def test_content_and_arguments_are_not_held_for_sentences() -> None:
    coalescer = Coalescer(sentences=True)
    events = [ContentDelta("a", 0, 1), *arguments('{"')]
    assert coalescer.feed(events) == events


CALLS: dict[str, tuple[list[Event], list[str]]] = {
    "in characters": (
        called(0, "c", "f", *'{"city": "Pa\\"r, {is", "n": [1, 23]}'),
        ["{", '"city"', ":", ' "Pa\\"r, {is"', ",", ' "n"', ":", " [", "1,", " 23]", "}"],
    ),
    "an escape between two pieces": (called(0, "c", "f", '{"a\\', '", b', '": 1'), ["{", '"a\\", b":', " 1"]),
    "the next call begins outside a string": (
        [*called(0, "c", "f", '{"cut', status="invalid"), *called(1, "d", "g", "{", "1")],
        ["{", '"cut', "{", "1"],
    ),
    "markup in a call does not forget an open string": (
        [*arguments('{"a, b'), Markup("x", 0, 1), *called(0, "c", "f", ", c")[1:]],
        ["{", '"a, b', ", c"],
    ),
}


@pytest.mark.parametrize(("events", "sent"), CALLS.values(), ids=CALLS)
def test_arguments_are_sent_at_the_boundaries_of_json(events: list[Event], sent: list[str]) -> None:
    assert texts(Coalescer(boundaries=True).feed(events), ToolCallDelta) == sent


def test_nothing_is_held_for_longer_than_the_delay() -> None:
    coalescer = Coalescer(max_delay=10)
    assert coalescer.feed([ContentDelta("a", 0, 1)], 100) == []
    assert coalescer.feed([ContentDelta("b", 1, 2)], 105) == []
    assert coalescer.due == 110
    assert coalescer.tick(109) == []
    assert coalescer.tick(110) == [ContentDelta("ab", 0, 2)]
    assert coalescer.feed([ContentDelta("c", 2, 3)], 200) == []
    assert coalescer.feed([ContentDelta("d", 3, 4)], 300) == [ContentDelta("c", 2, 3)]


def test_nothing_is_due_if_nothing_is_held_or_no_delay_is_set() -> None:
    assert Coalescer(max_delay=10).due is None
    unbounded = Coalescer(sentences=True)
    assert unbounded.feed(reasoning("a")) == []
    assert unbounded.due is None


def test_another_kind_of_event_releases_held_text() -> None:
    coalescer = Coalescer(max_delay=10)
    held: list[Event] = [ReasoningDelta("a", 0, 1), ContentDelta("b", 1, 2), Markup("c", 2, 3)]
    assert coalescer.feed(held) == held


def test_text_without_a_boundary_is_sent_at_the_limit() -> None:
    coalescer = Coalescer(sentences=True, boundaries=True)
    emitted = coalescer.feed(reasoning(*"x" * (2 * MAX_HELD + 1)))
    assert [len(t) for t in texts(emitted, ReasoningDelta)] == [MAX_HELD, MAX_HELD]
    long = coalescer.feed(arguments('{"', *"x" * MAX_HELD))
    assert sum(map(len, texts(long, ToolCallDelta))) == MAX_HELD + 1


def test_tokens_stay_with_the_event_that_they_began() -> None:
    coalescer = Coalescer(sentences=True)
    first, second = ReasoningDelta("One. T", 0, 6, 0, 3), ReasoningDelta("wo. ", 6, 10, 3, 5)
    assert coalescer.feed([first, second]) == [
        ReasoningDelta("One. ", 0, 5, 0, 3),
        ReasoningDelta("Two. ", 5, 10, 3, 5),
    ]


def test_joining_takes_linear_time_in_the_length_of_a_delta() -> None:
    # Hostile cases for a scan: punctuation without white space, unterminated quotes, backslashes.
    for text in ("." * 200_000, "." + '"' * 200_000, "\\" * 200_000, "{" * 200_000):
        coalescer = Coalescer(sentences=True, boundaries=True)
        emitted = coalescer.feed([*reasoning(text), *arguments(text), ToolCallEnd(0, "ok", 0, 0)])
        assert "".join(texts(emitted, ReasoningDelta)) == "".join(texts(emitted, ToolCallDelta)) == text
