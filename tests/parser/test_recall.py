"""The memory of JSON changes only the time, whether it is warm, cold or too small, in one thread or in many."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from unspool import Message, Parser
from unspool.parser.readers import recall

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
BODIES = [
    json.dumps({"a": [1, -2.5, 1e20, {"b": None, "c": [True, {}]}], "d": {"e": "x", "f": "\\n\u00e9"}, "g": 0}),
    '{"a": 1, "a": 2, "b": {"a": 1, "c": 2, "c": 3}}',
    '{"a": 1e308, "b": 1e309}',
    '{"a": 12345678901234567890, "b": ' + "9" * 320 + ".5}",
    '{"key": tru, "b": 1}',
    '{"a\\u0062": 1, "ab": 2}',
    '{"a": [1,2 ,3 , 4], "b" : "c" , "d":{"e":{}}}',
]


def answer(body: str, size: int) -> tuple[Message, list[int]]:
    """The message, and how much each piece emitted."""
    text = f'<tool_call>\n{{"name": "f", "arguments": {body}}}\n</tool_call>'
    parser = Parser("hermes", tools=TOOLS, ids=lambda index, name: f"{name}-{index}")
    said = [sum(e.end - e.start for e in parser.feed(text[i : i + size])) for i in range(0, len(text), size)]
    parser.close()
    return parser.message, said


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Empties the memory."""

    def empty(most: int = 20_000) -> None:
        monkeypatch.setattr(recall, "_MOST_STEPS", most)
        recall.memory._forget()

    return empty


@pytest.mark.parametrize("body", BODIES)
def test_a_recalled_piece_gives_the_events_of_a_new_one(body: str, cold: Any) -> None:
    whole = answer(body, 10_000)[0]
    for size in (1, 2, 3, 4, 5, 7, 16):
        cold()
        first = answer(body, size)
        for other in BODIES:
            answer(other, size)
        assert answer(body, size) == first
        assert first[0].tool_calls == whole.tool_calls
        assert [(n.kind, n.detail) for n in first[0].notices] == [(n.kind, n.detail) for n in whole.notices]


def test_a_memory_that_always_forgets_gives_the_same_events(cold: Any) -> None:
    cold()
    expected = [answer(body, size) for body in BODIES for size in (1, 3, 4)]
    cold(most=2)
    assert [answer(body, size) for body in BODIES for size in (1, 3, 4)] == expected


def test_the_memory_of_steps_is_bounded(cold: Any) -> None:
    cold(most=500)
    rng = random.Random(1)
    for _ in range(40):
        nested: Any = rng.random()
        for _ in range(rng.randint(1, 30)):
            nested = [nested] if rng.random() < 0.5 else {str(rng.random()): nested}
        answer(json.dumps({"a": nested}), 3)
        assert sum(map(len, recall.memory._spots.values())) <= 500
        assert len(recall.memory._spots) <= 1_000


def test_threads_share_the_memory_of_steps(cold: Any) -> None:
    cold()
    expected = [answer(body, 4) for body in BODIES]
    cold(most=20)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: [answer(body, 4) for body in BODIES], range(40)):
            assert found == expected
