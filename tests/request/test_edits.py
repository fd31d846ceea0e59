"""`context_management` clears history by the rules of Anthropic's protocol."""

from collections.abc import Sequence
from typing import Any

import pytest

from unspool.request.edits import CLEARED, ClearThinking, ClearToolUses, Edit, edited

from ..support import calling, function_call


def turn(number: int, name: str = "look") -> list[dict[str, Any]]:
    """A user's message, and a turn that thinks, calls, thinks again and answers."""
    id = f"c{number}"
    return [
        {"role": "user", "content": "?"},
        calling(function_call(name, {"at": "x"}, id), content=None, reasoning_content="hm " * 10),
        {"role": "tool", "tool_call_id": id, "content": "y" * 100},
        {"role": "assistant", "content": "So.", "reasoning_content": "ah " * 10},
    ]


HISTORY = [*turn(0), *turn(1, "keep"), *turn(2), *turn(3), {"role": "user", "content": "!"}]


def size(messages: Sequence[dict[str, Any]]) -> int:
    return len(str(list(messages)))


def made(
    *edits: Edit, history: Sequence[dict[str, Any]] = HISTORY
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    before = str(history)
    found = edited(history, edits, size)
    assert str(history) == before, "the request's own messages are not changed"
    return found


def thinking(messages: Sequence[dict[str, Any]]) -> list[bool]:
    """Which of the assistant's messages have their thoughts."""
    return [bool(m.get("reasoning_content")) for m in messages if m["role"] == "assistant"]


def results(messages: Sequence[dict[str, Any]]) -> list[bool]:
    """Which results are left."""
    return [m["content"] != CLEARED for m in messages if m["role"] == "tool"]


@pytest.mark.parametrize(("keep", "left"), [(1, 2), (2, 4), (9, 8), (None, 8)])
def test_thinking_is_kept_in_the_last_turns(keep: int | None, left: int) -> None:
    messages, applied = made(ClearThinking(keep))
    assert thinking(messages) == [False] * (8 - left) + [True] * left
    if left == 8:
        assert applied == []
        return
    (edit,) = applied
    assert edit["type"] == "clear_thinking_20251015"
    assert edit["cleared_thinking_turns"] == 4 - left // 2
    assert edit["cleared_input_tokens"] == size(HISTORY) - size(messages)


def test_the_current_turn_keeps_its_thinking() -> None:
    messages, _ = made(ClearThinking(1), history=HISTORY[:-2])
    assert thinking(messages) == [False] * 6 + [True]


@pytest.mark.parametrize(
    ("edit", "left"),
    [
        (ClearToolUses(trigger="tool_uses", beyond=3, keep=1), [False, False, False, True]),
        (ClearToolUses(trigger="tool_uses", beyond=4, keep=1), [True] * 4),
        (ClearToolUses(trigger="tool_uses", beyond=3, keep=0), [False] * 4),
        (ClearToolUses(trigger="tool_uses", beyond=3, keep=9), [True] * 4),
        (ClearToolUses(beyond=size(HISTORY), keep=1), [True] * 4),
        (ClearToolUses(beyond=size(HISTORY) - 1, keep=1), [False, False, False, True]),
        (ClearToolUses(beyond=9, keep=1, excluded=frozenset(["keep"])), [False, True, False, True]),
        (ClearToolUses(beyond=9, keep=1, at_least=100_000), [True] * 4),
        (ClearToolUses(beyond=9, keep=3, at_least=40), [False, True, True, True]),
    ],
)
def test_the_oldest_results_are_cleared_where_the_trigger_is_exceeded(edit: ClearToolUses, left: list[bool]) -> None:
    messages, applied = made(edit)
    assert results(messages) == left
    cleared = left.count(False)
    assert [e["cleared_tool_uses"] for e in applied] == [cleared] * bool(cleared)
    assert sum(e["cleared_input_tokens"] for e in applied) == size(HISTORY) - size(messages)
    assert [m.get("tool_calls") for m in messages] == [m.get("tool_calls") for m in HISTORY]


@pytest.mark.parametrize(("which", "emptied"), [(True, 3), (frozenset(["keep"]), 1), (False, 0)])
def test_arguments_of_cleared_calls_are_cleared_on_request(which: Any, emptied: int) -> None:
    messages, _ = made(ClearToolUses(beyond=9, keep=1, inputs=which))
    arguments = [c["function"]["arguments"] for m in messages for c in m.get("tool_calls", ())]
    assert arguments.count("{}") == emptied
    assert arguments[-1] == '{"at": "x"}'


def test_edits_are_made_one_after_the_other() -> None:
    messages, applied = made(ClearThinking(1), ClearToolUses(beyond=9, keep=1))
    assert [e["type"] for e in applied] == ["clear_thinking_20251015", "clear_tool_uses_20250919"]
    assert sum(e["cleared_input_tokens"] for e in applied) == size(HISTORY) - size(messages)
