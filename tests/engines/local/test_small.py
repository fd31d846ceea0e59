"""The default model's chat template: what it writes is what the model is trained with."""

from typing import Any

import pytest

from unspool import get_dialect
from unspool.cli.local import SMALL
from unspool.infer.choosing import choose_dialect, prove_dialect
from unspool.request.chat_request import ChatRequest
from unspool.request.prompts import Prompts, Tokenizer
from unspool.toolset import read_toolset

TEMPLATE = (SMALL / "chat_template.jinja").read_text(encoding="utf-8")
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "now"}},
]
HEAD = """\
<|im_start|>system
# Tools

Call functions where they help, one <tool_call> each.
<tools>
{"name": "get_weather", "description": "The weather.", "parameters": {"type": "object", "properties": {"city": \
{"type": "string"}}, "required": ["city"]}}
{"name": "now", "parameters": {"type": "object", "properties": {}}}
</tools><|im_end|>
"""


def call(id: str, city: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "get_weather", "arguments": f'{{"city": "{city}"}}'}}


def rendered(messages: list[dict[str, Any]], tools: list[Any] | None = None, **template: Any) -> str:
    special = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    prompts = Prompts(Tokenizer(TEMPLATE, TEMPLATE, special, ("<|im_end|>", "<|im_start|>")))
    assert prompts.check(get_dialect("hermes"))
    return prompts.render(ChatRequest(messages=messages, toolset=read_toolset(tools or []), template=template))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_every_case_of_hermes_is_proven() -> None:
    choice = choose_dialect(TEMPLATE, model="smollm2-135m")
    assert (choice.dialect.name, choice.origin) == ("hermes", "shipped")
    assert {case.result for case in choice.proof} == {"pass"}
    assert {case.result for case in prove_dialect(get_dialect("hermes"), TEMPLATE)} == {"pass"}


def test_tools_calls_and_results_are_written_as_the_model_was_trained() -> None:
    asked = [
        user("Weather in Paris and Rome?"),
        {"role": "assistant", "content": "Sure.", "tool_calls": [call("a", "Paris"), call("b", "Rome")]},
        {"role": "tool", "tool_call_id": "a", "content": "18 C"},
        {"role": "tool", "tool_call_id": "b", "content": "20 C"},
    ]
    assert rendered(asked, TOOLS) == HEAD + (
        "<|im_start|>user\nWeather in Paris and Rome?<|im_end|>\n"
        "<|im_start|>assistant\nSure.\n"
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n18 C\n</tool_response><|im_end|>\n"
        "<|im_start|>user\n<tool_response>\n20 C\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_leading_system_messages_are_one_and_a_later_one_stays_in_place() -> None:
    system, developer = {"role": "system", "content": "Be kind."}, {"role": "developer", "content": "Be brief."}
    assert rendered([system, developer, user("Hi"), {"role": "system", "content": "Now!"}]) == (
        "<|im_start|>system\nBe kind.\n\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>system\nNow!<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("template", "thinks"),
    [
        ({}, False),
        ({"enable_thinking": True}, True),
        ({"enable_thinking": False}, False),
        ({"reasoning_effort": "low"}, True),
        ({"reasoning_effort": "none"}, False),
        ({"reasoning_effort": "high", "enable_thinking": False}, False),
    ],
)
def test_the_prompt_begins_a_thought_only_on_request(template: dict[str, Any], thinks: bool) -> None:
    whole = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n" + ("<think>\n" if thinks else "")
    assert rendered([user("Hi")], **template) == whole


def test_thoughts_are_kept_between_the_results_of_the_current_turn_only() -> None:
    old = {"role": "assistant", "reasoning_content": "old", "content": "Hello."}
    new = {"role": "assistant", "reasoning_content": "new", "content": "", "tool_calls": [call("a", "Paris")]}
    asked = [user("Hi"), old, user("Weather?"), new, {"role": "tool", "tool_call_id": "a", "content": "18 C"}]
    found = rendered(asked, TOOLS)
    assert "old" not in found
    assert "<|im_start|>assistant\n<think>\nnew\n</think>\n\n<tool_call>\n" in found
