"""Fuzzing with hypothesis, and a few seconds of the simple fuzzer; `python -m tests.fuzz` runs for any time."""

import os
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool import Policy
from unspool.policy import CHOICES

from . import fuzz
from .parser.test_tokens import encode, feed, special, ways
from .support import DIALECTS, STAGES, Case, cases, number, same, tools_of

SECONDS = float(os.environ.get("UNSPOOL_FUZZ_SECONDS", "4"))  # `.ci/run` fuzzes longer, by `make fuzz`
CASES = cases()


@st.composite
def attempts(draw: st.DrawFn) -> fuzz.Attempt:
    """An example's raw text with pieces cut out, repeated or put in, under random options."""
    case: Case = draw(st.sampled_from(CASES))
    text = case.raw
    pieces = st.one_of(
        st.sampled_from(fuzz.LITERALS[case.dialect.name] or fuzz.NOISE),
        st.sampled_from(fuzz.NOISE),
        st.sampled_from(fuzz.ALL_LITERALS),
        st.sampled_from(fuzz.RAWS[case.dialect.name]),
        st.text(max_size=6),
    )
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text)))
        to = draw(st.integers(at, min(len(text), at + 40)))
        text = text[:at] + draw(st.one_of(st.just(""), pieces, st.just(text[at:to] * 2))) + text[to:]
    options: dict[str, Any] = {"ids": number, "tools": draw(st.sampled_from((None, tools_of(case.dialect), [])))}
    if draw(st.booleans()):
        options["stage"] = draw(st.sampled_from(STAGES))
    if draw(st.booleans()):
        options["policy"] = Policy(**{f: draw(st.sampled_from((None, *allowed))) for f, allowed in CHOICES.items()})
    return fuzz.Attempt(case.dialect, text, options)


@pytest.mark.slow
@settings(max_examples=400)
@given(attempts())
def test_no_output_breaks_what_always_holds(case: fuzz.Attempt) -> None:
    assert fuzz.failure(case, 1) == "", case


@settings(max_examples=150)
@given(st.sampled_from(DIALECTS), st.text(max_size=60), st.sampled_from(STAGES))
def test_arbitrary_text_breaks_nothing(dialect: Any, text: str, stage: Any) -> None:
    assert fuzz.failure(fuzz.Attempt(dialect, text, {"stage": stage, "ids": number}), 1) == ""


@pytest.mark.slow
@settings(max_examples=150)
@given(attempts())
def test_token_ids_in_any_pieces_tell_one_message(case: fuzz.Attempt) -> None:
    tokenizer = special(case.dialect.name)
    options = {k: v for k, v in case.options.items() if k != "ids"}
    messages = [
        same(feed(case.dialect, pieces, tokenizer, **options)[0]) for pieces in ways(encode(tokenizer, case.text))
    ]
    assert messages == messages[:1] * len(messages), case


@pytest.mark.slow
def test_the_plain_fuzz_finds_nothing() -> None:
    tried, case, why = fuzz.search(SECONDS, random.SystemRandom().randrange(2**32), DIALECTS)
    assert case is None, f"{case}\n{why}"
    assert tried > 100


def test_a_failing_case_is_made_small() -> None:
    text = "some long text with a <needle> in it " * 5
    small = fuzz.minimise(fuzz.Attempt(DIALECTS[0], text, {"ids": number, "tools": []}), lambda c: "<needle>" in c.text)
    assert small.text == "<needle>"
    assert small.options == {"ids": number}
