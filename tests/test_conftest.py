"""A sample of the tests: a few cases of each, spread over all cases, and different for each test."""

from collections import Counter

from hypothesis import settings

from .conftest import sample


def test_a_sample_has_no_case_twice_and_all_where_there_are_few() -> None:
    for count in range(1, 30):
        for seed in (0, 7, 2**31):
            found = sample(list(range(count)), 4, seed)
            assert len(found) == len(set(found)) == min(4, count)


def test_a_sample_has_few_examples_of_each_property() -> None:
    assert settings.get_profile("sample").max_examples < settings.get_profile("unspool").max_examples
    assert settings.get_profile("sample").deadline is None


def test_a_sample_is_spread_over_all_cases() -> None:
    first, second, *_ = sample(list(range(60)), 2, 5)
    assert abs(first - second) == 30


def test_between_them_many_tests_sample_every_case() -> None:
    seen = Counter(case for seed in range(0, 9_000, 7) for case in sample(list(range(60)), 2, seed))
    assert len(seen) == 60
