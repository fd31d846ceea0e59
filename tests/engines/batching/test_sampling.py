"""Sampling: which tokens are possible, how often each is chosen, and how penalties and seeds change that."""

from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from unspool.engines import EngineError, Sampling
from unspool.engines.sampling import Sampler, filled, forbidden_at, logprob_entry

from .support import byte_tokenizer

SIZE = 1000
LOGITS: NDArray[np.float32] = (np.random.default_rng(0).normal(size=SIZE) * 3).astype(np.float32)
ORDER = np.argsort(-LOGITS).tolist()
SHARES = np.exp(LOGITS.astype(np.float64)) / np.exp(LOGITS.astype(np.float64)).sum()


def drawn(count: int = 2000, logits: NDArray[np.float32] = LOGITS, mask: Any = None, **options: Any) -> Counter[int]:
    """How often each token is the first one."""
    sampler = Sampler(Sampling(**{"seed": 7, **options}), [], len(logits))
    return Counter(sampler.choose(logits, mask) for _ in range(count))


def test_at_temperature_0_the_likeliest_token_is_taken() -> None:
    assert set(drawn(20, temperature=0)) == {ORDER[0]}
    assert set(drawn(20, temperature=0, top_p=0.1, top_k=3, min_p=0.5)) == {ORDER[0]}
    assert set(drawn(20, logits=np.ones(5, np.float32), temperature=0)) == {0}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_as_often_as_the_model_says(temperature: float) -> None:
    logits = np.log(np.array([1, 2, 3, 4, 10], np.float32))
    shares = np.array([1, 2, 3, 4, 10]) ** (1 / temperature)
    counts = drawn(20_000, logits, temperature=temperature)
    for token, share in enumerate(shares / shares.sum()):
        assert counts[token] / 20_000 == pytest.approx(share, abs=0.02)


def test_tokens_of_a_large_vocabulary_are_drawn_as_often_as_the_model_says() -> None:
    groups = Counter(token * 10 // SIZE for token in drawn(5000).elements())
    for group in range(10):
        share = SHARES[group * SIZE // 10 : (group + 1) * SIZE // 10].sum()
        assert groups[group] / 5000 == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("top_k", [1, 2, 10])
def test_top_k_keeps_the_likeliest_tokens(top_k: int) -> None:
    assert set(drawn(top_k=top_k)) == set(ORDER[:top_k])


@pytest.mark.parametrize("off", [None, 0, -1, SIZE, 10 * SIZE])
def test_top_k_may_be_switched_off(off: int | None) -> None:
    assert drawn(500, top_k=off) == drawn(500)


@pytest.mark.parametrize("top_p", [0.05, 0.3, 0.6])
def test_top_p_keeps_the_fewest_tokens_that_reach_it(top_p: float) -> None:
    sums = SHARES[ORDER].cumsum()
    wanted = set(ORDER[: int(np.searchsorted(sums, top_p)) + 1])
    assert set(drawn(4000, top_p=top_p)) == wanted


def test_top_p_keeps_no_more_equally_likely_tokens_than_it_needs() -> None:
    assert set(drawn(logits=np.zeros(100, np.float32), top_p=0.095)) == set(range(10))
    assert set(drawn(logits=np.zeros(100, np.float32), top_p=0.0)) == {0}
    assert len(drawn(logits=np.zeros(100, np.float32), top_p=1.0)) == 100


def test_min_p_keeps_tokens_near_the_likeliest() -> None:
    wanted = {t for t in range(SIZE) if SHARES[t] >= 0.2 * SHARES.max()}
    assert 1 < len(wanted) < 50
    assert set(drawn(5000, min_p=0.2)) == wanted


def test_top_p_applies_to_what_top_k_keeps() -> None:
    left = SHARES[ORDER[:5]] / SHARES[ORDER[:5]].sum()
    count = int(np.searchsorted(left.cumsum(), 0.5)) + 1
    assert set(drawn(top_k=5, top_p=0.5)) == set(ORDER[:count])


@pytest.mark.parametrize("temperature", [0.0, 1.0, 1e-9])
def test_only_tokens_that_the_mask_allows_are_drawn(temperature: float) -> None:
    mask = np.zeros(SIZE, bool)
    mask[ORDER[5:8]] = True
    found = set(drawn(mask=mask, temperature=temperature))
    assert found == (set(ORDER[5:8]) if temperature == 1 else {ORDER[5]})
    assert set(drawn(mask=mask, top_k=1)) == {ORDER[5]}


@pytest.mark.parametrize(
    ("logits", "mask", "error"),
    [
        (LOGITS, np.zeros(SIZE, bool), "no token is allowed"),
        (np.full(SIZE, np.nan, np.float32), None, "the logits are not numbers"),
        (np.full(SIZE, -np.inf, np.float32), None, "the logits are not numbers"),
        (np.where(np.arange(SIZE) == 3, np.inf, LOGITS), None, "the logits are not numbers"),
    ],
)
def test_unusable_logits_and_masks_are_an_error(logits: Any, mask: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Sampler(Sampling(), [], SIZE).choose(logits, mask)


def test_impossible_tokens_are_never_drawn() -> None:
    logits = np.where(np.arange(SIZE) % 3 == 0, LOGITS, -np.inf).astype(np.float32)
    assert {t % 3 for t in drawn(5000, logits)} == {0}


def test_equal_seeds_repeat_and_others_differ() -> None:
    def first(seed: int | None) -> list[int]:
        sampler = Sampler(Sampling(seed=seed), [], SIZE)
        return [sampler.choose(LOGITS) for _ in range(30)]

    assert first(1) == first(1)
    assert len({tuple(first(s)) for s in (1, 2, -1, 2**63, None, None)}) == 6


def test_presence_and_frequency_penalties_count_the_generated_tokens() -> None:
    logits = np.array([2.0, 1.5, 0.0], np.float32)

    def greedy(**options: Any) -> list[int]:
        sampler = Sampler(Sampling(temperature=0, **options), [0, 0, 1, 1], 3)
        return [sampler.choose(logits) for _ in range(6)]

    assert greedy() == [0] * 6
    assert greedy(presence_penalty=1.0) == [0, 1, 0, 0, 0, 0]
    assert greedy(frequency_penalty=0.4) == [0, 0, 1, 0, 1, 0]
    assert greedy(presence_penalty=-1.0, frequency_penalty=-1.0) == [0] * 6
    assert logits.tolist() == [2.0, 1.5, 0.0]


def test_the_repetition_penalty_counts_the_prompt_too() -> None:
    logits = np.array([2.0, 1.5, -1.0], np.float32)

    def first(prompt: list[int], penalty: float) -> int:
        return Sampler(Sampling(temperature=0, repetition_penalty=penalty), prompt, 3).choose(logits)

    assert first([], 2.0) == 0
    assert first([0, 0], 2.0) == 1
    assert first([0, 1], 2.0) == 0
    assert first([1], 0.5) == 1
    assert Sampler(Sampling(temperature=0, repetition_penalty=9.0), [2], 3).choose(np.array([-8.0, -9, -1])) == 0


def test_unset_options_come_from_the_defaults() -> None:
    defaults = Sampling(temperature=0.6, top_p=0.95)
    assert filled(Sampling(temperature=0.0, seed=3), defaults) == Sampling(temperature=0.0, top_p=0.95, seed=3)


@pytest.mark.parametrize("field", ["temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty"])
@pytest.mark.parametrize("value", [-1000.0, 1000.0, float("nan")])
def test_values_out_of_bounds_are_a_client_error(field: str, value: float) -> None:
    with pytest.raises(EngineError, match=f"{field}: .* is not between") as caught:
        filled(msgspec.structs.replace(Sampling(), **{field: value}), Sampling())
    assert caught.value.status == 400


def test_log_probabilities_are_finite_and_no_more_than_the_vocabulary() -> None:
    logits = np.array([0.0, 0.0, -np.inf], np.float32)
    entry = logprob_entry(byte_tokenizer(), logits, 2, 20)
    assert (entry["logprob"], entry["bytes"]) == (-9999.0, [2])
    assert [t["logprob"] for t in entry["top_logprobs"]] == pytest.approx([-np.log(2)] * 2 + [-9999.0])


def test_forbidden_tokens_are_reported_with_what_the_model_wanted() -> None:
    tokenizer, logits = byte_tokenizer(), np.zeros(4, np.float32)
    logits[2] = 5
    everything = forbidden_at(tokenizer, logits, np.ones(4, bool))
    assert (everything.allowed, everything.of, everything.likeliest) == (4, 4, "")
    less = forbidden_at(tokenizer, logits, np.array([True, True, False, True]))
    assert (less.allowed, less.of) == (3, 4)
    assert less.likeliest
    assert less.probability == pytest.approx(float(np.exp(5) / (np.exp(5) + 3)), abs=1e-3)
