"""Attacks by the server behind: answers without an end, or with more than anybody asked for."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from .upstream import upstream
from .victim import CHAT, TEMPLATE, Victim, attacks, victim

ENDLESS = {"messages": [{"role": "user", "content": "Go on without end."}]}


@pytest.fixture(scope="module")
def server() -> Iterator[Victim]:
    with upstream() as engine:
        engine.start()
        limits = ("--max-output", "1000000", "--engine-first", "3")
        with victim(f"http://127.0.0.1:{engine.port}", *TEMPLATE, *limits) as found:
            yield found


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("more", "most"),
    [({}, 1_000_000), ({"n": 8}, 1_000_000), ({"max_tokens": 100}, 102_400), ({"max_tokens": 5, "n": 3}, 3 * 5120)],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_without_end_is_cut_where_its_tokens_or_the_limit_end(
    server: Victim, more: dict[str, Any], most: int, stream: bool
) -> None:
    for _ in attacks(server):
        began = time.monotonic()
        status, text = server.ask(CHAT, {**ENDLESS, **more, "stream": stream})
        assert (status, text.count('"length"')) == (200, more.get("n", 1)), text[:500]
        assert len(text) < 2 * most + 4096
        assert time.monotonic() - began < 10


@pytest.mark.sampled(1)
@pytest.mark.parametrize("asked", [{}, {"logprobs": True}])
def test_what_is_told_about_tokens_counts_and_is_left_out_unless_it_was_asked_for(
    server: Victim, asked: dict[str, Any]
) -> None:
    body = {"messages": [{"role": "user", "content": "Go on without end about tokens."}], **asked}

    for _ in attacks(server):
        status, text = server.ask(CHAT, body)
        choice = json.loads(text)["choices"][0]
        assert (status, choice["finish_reason"]) == (200, "length")
        entries = (choice.get("logprobs") or {}).get("content") or ()
        assert len(entries) < 200_000
        assert bool(entries) is bool(asked)


@pytest.mark.parametrize(("words", "expected"), [("beyond all bounds", 502), ("forged lines", 400)])
def test_odd_counts_and_errors_harm_neither_the_metrics_nor_the_log(server: Victim, words: str, expected: int) -> None:
    body = {"messages": [{"role": "user", "content": f"Tell of {words}."}]}

    for _ in attacks(server):
        for _ in range(12):
            status, text = server.ask(CHAT, body)
            assert status == expected, text[:500]
        assert server.ask("/metrics")[0] == 200
