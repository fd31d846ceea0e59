"""The builtin model through the server, as the openai client sees it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.support import Live, live
from unspool.engines.batching import Batching
from unspool.engines.builtin.bounds import Bounded
from unspool.engines.builtin.model import FOLDER, Model
from unspool.request.prompts import Prompts, read_tokenizer

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "The name of the city."}},
            "required": ["city"],
        },
    },
}
TIME: Any = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "Get the current time in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "The name of the city."}},
            "required": ["city"],
        },
    },
}


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    engine = Batching(Bounded(Model()))
    with live(engine, "deepseekv31", prompts=Prompts(read_tokenizer(FOLDER)), model="builtin") as running:
        yield running


def ask(server: Live, text: str, *more: Any, **options: Any) -> Any:
    messages = [{"role": "user", "content": text}, *more]
    defaults: Any = {"model": "builtin", "temperature": 0, "tools": [WEATHER, TIME], "max_tokens": 300}
    return server.openai.chat.completions.create(messages=messages, **{**defaults, **options})


def calls(message: Any) -> list[tuple[str, Any]]:
    return [(c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or ()]


def test_the_model_thinks_and_calls_the_fitting_tool(server: Live) -> None:
    choice = ask(server, "What is the weather in Paris?").choices[0]
    assert calls(choice.message) == [("get_weather", {"city": "Paris"})]
    assert choice.message.reasoning_content
    assert choice.finish_reason == "tool_calls"


def test_a_stream_has_the_reasoning_first_and_then_the_call(server: Live) -> None:
    kinds: list[str] = []
    name = arguments = reasoning = ""
    for chunk in ask(server, "What time is it in Rome?", stream=True):
        delta = chunk.choices[0].delta
        thought = getattr(delta, "reasoning_content", None)
        if thought:
            kinds.append("reasoning")
            reasoning += thought
        for call in delta.tool_calls or ():
            kinds.append("call")
            name += call.function.name or ""
            arguments += call.function.arguments or ""
    assert kinds == sorted(kinds, reverse=True)
    assert {"reasoning", "call"} <= set(kinds)
    assert (name, json.loads(arguments)) == ("get_time", {"city": "Rome"})


def test_two_cities_in_a_question_are_two_calls(server: Live) -> None:
    choice = ask(server, "What is the weather in Paris and in Rome?").choices[0]
    assert sorted(c["city"] for _, c in calls(choice.message)) == ["Paris", "Rome"]
    assert {name for name, _ in calls(choice.message)} == {"get_weather"}


def test_without_parallel_calls_there_is_one_call(server: Live) -> None:
    options: dict[str, Any] = {"tool_choice": "required", "parallel_tool_calls": False}
    choice = ask(server, "What is the weather in Paris and in Rome?", **options).choices[0]
    assert len(calls(choice.message)) == 1


def test_a_tools_result_is_answered_in_words(server: Live) -> None:
    first = ask(server, "What is the weather in Paris?").choices[0].message
    call = first.tool_calls[0]
    result = {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 21, "condition": "sunny"}'}
    choice = ask(server, "What is the weather in Paris?", first.model_dump(exclude_none=True), result).choices[0]
    assert choice.finish_reason == "stop"
    assert not choice.message.tool_calls
    assert "21" in choice.message.content


def test_without_tools_the_model_answers_in_words(server: Live) -> None:
    answer = server.openai.chat.completions.create(
        model="builtin", messages=[{"role": "user", "content": "Hello!"}], temperature=0, max_tokens=200
    )
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_time"}}])
def test_a_required_call_is_valid_for_any_request_and_sampling(server: Live, choice: Any, seed: int) -> None:
    options: dict[str, Any] = {"tool_choice": choice, "temperature": 1.3, "seed": seed}
    answered = ask(server, "Tell me something about old ships.", **options).choices[0]
    assert answered.finish_reason in ("tool_calls", "stop")  # not length: it ends within 300 tokens
    found = calls(answered.message)
    assert found
    assert all(name in ("get_weather", "get_time") and isinstance(a["city"], str) for name, a in found)
    assert choice == "required" or [name for name, _ in found] == ["get_time"]


def test_thinking_can_be_switched_off(server: Live) -> None:
    message = ask(server, "What is the weather in Paris?", extra_body={"thinking": False}).choices[0].message
    assert message.reasoning_content is None
    assert calls(message) == [("get_weather", {"city": "Paris"})]


def test_the_tokens_of_reasoning_are_counted(server: Live) -> None:
    usage = ask(server, "What is the weather in Paris?").usage
    assert 0 < usage.completion_tokens_details.reasoning_tokens < usage.completion_tokens


def test_the_same_seed_repeats_an_answer(server: Live) -> None:
    said = [ask(server, "Hi there!", temperature=1.5, seed=7).choices[0].message for _ in range(2)]
    assert said[0].content == said[1].content
    assert said[0].reasoning_content == said[1].reasoning_content


def test_a_cut_answer_has_finish_reason_length(server: Live) -> None:
    assert ask(server, "What is the weather in Paris?", max_tokens=5).choices[0].finish_reason == "length"
