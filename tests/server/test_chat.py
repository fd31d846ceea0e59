"""Chat completions of a running server, read by the official client."""

from typing import Any

import pytest

from unspool.engines import Delta

from ..support import function_call
from .support import HELLO, USAGE, WEATHER, Scripted, chunks, live, replay

V31 = (
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "北京"}'
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)


def test_each_choice_is_an_output_of_its_own_and_roles_come_first_in_order() -> None:
    with live(replay("one", "two", "three")) as server:
        whole = server.openai.chat.completions.create(model="m", messages=HELLO, n=3)
        sent = chunks(server.post(messages=HELLO, n=3, stream=True).text)
    assert sorted(c.message.content or "" for c in whole.choices) == ["one", "three", "two"]
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 3 * USAGE.completion_tokens
    assert whole.usage.prompt_tokens == USAGE.prompt_tokens
    assert [c["choices"][0]["index"] for c in sent[:3]] == [0, 1, 2]
    assert all(c["choices"][0]["delta"]["role"] == "assistant" for c in sent[:3])


@pytest.mark.parametrize("ask", [{}, {"tools": []}, {"tools": [WEATHER], "tool_choice": "none"}])
def test_a_request_without_callable_tools_gets_call_markup_as_content(ask: dict[str, Any]) -> None:
    with live(replay(V31), "deepseekv31") as server:
        choice = server.post(messages=HELLO, **ask).json()["choices"][0]
    assert choice["message"]["content"] == V31
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize(("option", "reason"), [("stop", "stop"), ("tool_calls", "tool_calls")])
def test_a_named_choice_finishes_with_stop_or_by_option_with_tool_calls(option: Any, reason: str) -> None:
    choice = {"type": "function", "function": {"name": "get_weather"}}
    with live(replay('{"city": "Paris"}'), named_reason=option) as server:
        answer = server.post(messages=HELLO, tools=[WEATHER], tool_choice=choice).json()["choices"][0]
    assert answer["message"]["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    assert answer["finish_reason"] == reason


def test_allowed_tools_are_a_mode_and_a_part_of_the_tools() -> None:
    other = {"type": "function", "function": {"name": "now"}}
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [other]}}
    with live(Scripted(['{"name": "now", "arguments": {}}'])) as server:
        answer = server.post(messages=HELLO, tools=[WEATHER, other], tool_choice=choice).json()
    assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "now"
    constraint = server.engine.requests[0].constraint
    assert constraint is not None
    assert "get_weather" not in str(constraint.json_schema)


@pytest.mark.parametrize(
    ("ask", "stage"),
    [
        ({"thinking": True}, "reasoning"),
        ({"enable_thinking": False}, "content"),
        ({"reasoning": {"enabled": True}}, "reasoning"),
        ({"thinking": {"type": "disabled"}}, "content"),
        ({"enable_reasoning": True}, "reasoning"),
        ({"reasoning_effort": "high"}, "reasoning"),
        ({"reasoning_effort": "none"}, "content"),
        ({"chat_template_kwargs": {"thinking": True}}, "reasoning"),
        ({"thinking": True, "chat_template_kwargs": {"enable_thinking": False}}, "content"),
        ({}, None),
    ],
)
def test_a_thinking_switch_in_any_spelling_sets_the_stage(ask: dict[str, Any], stage: str | None) -> None:
    with live(Scripted(["Hm</think>Hi"]), "deepseekv31") as server:
        message = server.post(messages=HELLO, **ask).json()["choices"][0]["message"]
    assert server.engine.requests[0].stage == stage
    assert message["content"] == ("Hi" if stage == "reasoning" else "HmHi")


def test_a_thinking_switch_does_not_touch_a_dialect_whose_parts_all_have_markers() -> None:
    with live(replay("<|channel|>final<|message|>Hi<|return|>"), "harmony") as server:
        message = server.post(messages=HELLO, reasoning_effort="high").json()["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("Hi", None)


def test_history_with_reasoning_in_any_spelling_and_with_broken_arguments_is_taken() -> None:
    call = function_call("f", '{"a": ', "c")
    details = [{"type": "reasoning.text", "text": "th"}, {"type": "reasoning.summary", "summary": "ink"}]
    history = [
        *HELLO,
        {"role": "assistant", "content": None, "reasoning_content": "", "reasoning": "a", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
        {"role": "assistant", "content": "x", "reasoning_content": "b"},
        {"role": "assistant", "content": "x\ud83d", "reasoning_details": details},
    ]
    with live(Scripted(["ok"])) as server:
        assert server.post(messages=history).status_code == 200
    thoughts = [m.get("reasoning_content") for m in server.engine.requests[0].messages if m["role"] == "assistant"]
    assert thoughts == ["a", "b", "think"]


def test_log_probabilities_go_with_the_text_they_belong_to() -> None:
    entry = {"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []}
    with live(Scripted([Delta(text="Hi", logprobs=(entry,))])) as server:
        whole = server.post(messages=HELLO, logprobs=True).json()["choices"][0]
        streamed = chunks(server.post(messages=HELLO, logprobs=True, stream=True).text)
        unasked = server.post(messages=HELLO).json()["choices"][0]
    assert whole["logprobs"]["content"] == [entry]
    assert [e for c in streamed for e in (c["choices"][0]["logprobs"] or {"content": []})["content"]] == [entry]
    assert unasked["logprobs"] is None
