"""vLLM's own tests with our parsers instead of vLLM's; run by ``make vllm-tests``.

A test counts if it passes with vLLM's parser, and uses ours after the swap. Tests that then fail are listed in
``vllm_own/differences.toml``, grouped by the reason.
"""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.vllm_tests
HERE = Path(__file__).parent / "vllm_own"
SUITES = ("parser", "tool_parsers", "reasoning")
LEAST = 0.94
"""The share of tests passing with vLLM's parsers that must pass with ours."""
Outcomes = dict[str, dict[str, Any]]


def run(suite: str, out: Path, *more: str) -> Outcomes:
    """One suite of vLLM's tests."""
    source = Path(os.environ["VLLM_SOURCE"]).resolve()
    environment: Mapping[str, str] = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (source, source / "packages", HERE))),
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-P", "-m", "pytest", "-p", "swapped", "--outcomes", str(out), *more]
    command += ["-q", "--tb=line", "--continue-on-collection-errors", "-p", "no:cacheprovider", "-W", "ignore"]
    command += ["-c", os.devnull, "-o", "asyncio_mode=auto", "--rootdir", str(source)]
    command += ["--confcutdir", f"tests/{suite}", f"tests/{suite}"]
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
    assert out.exists(), done.stdout[-4000:] + done.stderr[-4000:]
    outcomes: Outcomes = json.loads(out.read_text(encoding="utf-8"))
    return outcomes


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcomes, Outcomes]:
    """The outcomes with vLLM's parsers and with ours."""
    folder = tmp_path_factory.mktemp("outcomes")

    def both(suite: str) -> tuple[Outcomes, Outcomes]:
        own = folder / f"{suite}.json"
        first = run(suite, own)
        return first, run(suite, folder / f"{suite}-swapped.json", "--swapped", str(own))

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(both, SUITES))
    return {k: v for own, _ in found for k, v in own.items()}, {k: v for _, ours in found for k, v in ours.items()}


@pytest.fixture(scope="session")
def listed() -> list[str]:
    groups = tomllib.loads((HERE / "differences.toml").read_text(encoding="utf-8"))["difference"]
    assert all(group["policy"] and group["tests"] for group in groups)
    return [test for group in groups for test in group["tests"]]


def passed(outcomes: Outcomes) -> set[str]:
    return {test for test, outcome in outcomes.items() if outcome["outcome"] == "passed"}


def lost(outcomes: tuple[Outcomes, Outcomes]) -> set[str]:
    """The tests that pass with vLLM's parsers and fail with ours."""
    own, ours = outcomes
    return (passed(own) & ours.keys()) - passed(ours)


def test_enough_of_vllms_own_tests_pass_with_our_parsers(outcomes: tuple[Outcomes, Outcomes]) -> None:
    own, ours = outcomes
    used, failed = passed(own) & ours.keys(), lost(outcomes)
    print(
        f"{len(passed(own))} pass with vLLM's parsers; {len(used)} of them use one of ours once it is swapped in, "
        f"{len(used) - len(failed)} of those pass: {1 - len(failed) / len(used):.1%}, "
        f"{1 - len(failed) / len(passed(own)):.1%} of all"
    )
    assert len(used) > 1000
    assert len(failed) <= (1 - LEAST) * len(passed(own))


def test_every_failure_of_our_parsers_is_listed(outcomes: tuple[Outcomes, Outcomes], listed: list[str]) -> None:
    assert sorted(lost(outcomes) - set(listed)) == []


def test_no_listed_failure_is_stale(outcomes: tuple[Outcomes, Outcomes], listed: list[str]) -> None:
    assert len(listed) == len(set(listed))
    assert sorted(set(listed) - lost(outcomes)) == []
