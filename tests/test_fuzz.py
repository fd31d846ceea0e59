"""Fuzzing with hypothesis, and a few seconds of the simple fuzzer; `python -m tests.fuzz` runs for any time."""

import os
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import fuzz
from .support import DIALECTS, STAGES, number

SECONDS = float(os.environ.get("UNSPOOL_FUZZ_SECONDS", "4"))  # `.ci/run` fuzzes longer, by `make fuzz`


@settings(max_examples=150)
@given(st.sampled_from(DIALECTS), st.text(max_size=60), st.sampled_from(STAGES))
def test_arbitrary_text_breaks_nothing(dialect: Any, text: str, stage: Any) -> None:
    assert fuzz.failure(fuzz.Attempt(dialect, text, {"stage": stage, "ids": number}), 1) == ""


@pytest.mark.slow
def test_the_plain_fuzz_finds_nothing() -> None:
    tried, case, why = fuzz.search(SECONDS, random.SystemRandom().randrange(2**32), DIALECTS)
    assert case is None, f"{case}\n{why}"
    assert tried > 100
