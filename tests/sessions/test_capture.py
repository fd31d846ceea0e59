"""Outputs are collected as they were sampled; what is not known is told, and nothing is guessed."""

import math
from typing import Any

import pytest

from unspool.engines import Delta, Sampled
from unspool.sessions.capture import OutputCapture, SampledOutput


class Vocabulary:
    """Tokens with these bytes."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces


SMILE = "🙃".encode()
PLAIN = Vocabulary(b"a", SMILE[:2], SMILE[2:3], SMILE[3:], b" " + SMILE[:2])


def output(vocabulary: Any, *pieces: tuple[str, tuple[int, ...], int]) -> SampledOutput:
    """What is found in pieces of text, tokens, and the engine's count of tokens so far."""
    capture = OutputCapture()
    for text, ids, count in pieces:
        capture.take(Delta(text=text, sampled=Sampled(ids=ids, logprobs=(-0.5,) * len(ids), count=count)))
    return capture.output(vocabulary)


def known(found: SampledOutput) -> list[float | None]:
    return [None if math.isnan(p) else p for p in found.logprobs]


def test_hidden_tokens_of_a_character_follow_from_the_vocabulary_and_have_no_log_probability() -> None:
    found = output(PLAIN, ("a", (0,), 1), ("🙃", (3,), 4), ("a", (0,), 5))
    assert found.ids == [0, 1, 2, 3, 0]
    assert known(found) == [-0.5, None, None, -0.5, -0.5]
    assert found.problems == ["2 of 5 tokens have no log-probability"]


def test_text_before_the_character_belongs_to_its_first_token() -> None:
    assert output(PLAIN, (" 🙃", (3,), 3)).ids == [4, 2, 3]


@pytest.mark.parametrize(
    "vocabulary",
    [
        Vocabulary(b"a", SMILE[:2], SMILE[2:3], SMILE[3:], SMILE[:1], SMILE[1:3]),  # two ways to spell it
        Vocabulary(b"a", SMILE[:2], SMILE[2:3], SMILE[3:], SMILE[:2]),  # two tokens with the same bytes
        Vocabulary(b"a", SMILE[:2], b"x", SMILE[3:]),  # no way
        None,
    ],
)
def test_tokens_that_could_be_others_are_not_guessed(vocabulary: Any) -> None:
    found = output(vocabulary, ("a", (0,), 1), ("🙃", (3,), 4))
    assert (found.ids, list(found.logprobs)) == ([], [])
    assert found.problems == ["the engine did not report all tokens of a character"]


def test_an_output_that_ends_inside_a_character_keeps_what_is_known() -> None:
    found = output(PLAIN, ("a", (0,), 1), ("", (), 3))
    assert found.ids == [0]
    assert found.problems == ["the last 2 tokens are not reported"]


@pytest.mark.parametrize("wrong", [0.5, math.nan, -math.inf, -9999.0])
def test_what_is_no_log_probability_is_none(wrong: float) -> None:
    capture = OutputCapture()
    capture.take(Delta(text="ab", sampled=Sampled(ids=(1, 2), logprobs=(-0.5, wrong))))
    found = capture.output(None)
    assert known(found) == [-0.5, None]
    assert found.problems == ["1 log-probabilities are none", "1 of 2 tokens have no log-probability"]


def test_an_engine_that_reports_no_tokens_is_told() -> None:
    capture = OutputCapture()
    capture.take(Delta(text="ab"))
    found = capture.output(None)
    assert (found.text, found.ids, found.problems) == ("ab", [], ["the engine did not report the tokens"])


def test_an_engine_of_ones_own_may_report_tokens_and_entries() -> None:
    capture = OutputCapture()
    capture.take(Delta(text="a", token_ids=(1,), logprobs=({"token": "a", "logprob": -0.25},)))
    capture.take(Delta(finish_reason="stop"))
    found = capture.output(None)
    assert (found.ids, known(found), found.problems) == ([1], [-0.25], [])
