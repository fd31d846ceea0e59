"""An agent's run is recorded token by token, whatever it does with its history."""

import json
from typing import Any

import pytest

from unspool.engines import Request

from ..server.support import CHAT, HELLO, WEATHER, Live, live
from ..server.test_continuation import template
from .support import Model, ask, check, made, trajectory, tree

CALL = '<think>\nWhich city?\n</think>\n\n<tool_call>\n{"name":  "get_weather", "arguments": {"city":"Paris"}}\n</tool_call>'



def answers(*outputs: str) -> Model:
    found: Model
    waiting = list(outputs)

    def write(request: Request) -> str:
        return waiting.pop(0)

    found = Model(write)
    return found


def chat(server: Live, session: dict[str, Any], messages: list[Any], **options: Any) -> dict[str, Any]:
    answer = ask(session, server, CHAT, messages=messages, **options)
    assert answer.status_code == 200, answer.text
    message: dict[str, Any] = answer.json()["choices"][0]["message"]
    return message


def test_a_tool_loop_is_one_row_of_the_very_tokens() -> None:
    model = answers(CALL, "<think>\nWarm.\n</think>\n\n20 degrees.", "Bye.")
    with live(model, "hermes", prompts=template(), sessions=True) as server:
        session = made(server, metadata={"task": 7})
        history: list[Any] = [*HELLO]
        first = chat(server, session, history, tools=[WEATHER])
        call = first["tool_calls"][0]
        # The client writes the arguments in its own way, and drops the reasoning.
        call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), indent=1)
        history += [{"role": "assistant", "content": None, "tool_calls": [call], "refusal": None, "annotations": []}]
        history += [{"role": "tool", "tool_call_id": call["id"], "content": "20 C"}]
        second = chat(server, session, history, tools=[WEATHER])
        history += [{"role": "assistant", "content": second["content"]}, {"role": "user", "content": "Thanks"}]
        chat(server, session, history, tools=[WEATHER])
        found = trajectory(server, session)
    check(found, model.record)
    assert tree(found) == [(None, None), (0, None), (1, None)]
    (row,) = found["rows"]
    assert row["role"] == "agent"
    text = model.tokenizer.decode(row["input_ids"], skip_special_tokens=False)
    assert "Which city?" in text
    assert '{"name":  "get_weather"' in text
    assert found["metadata"] == {"task": 7}
    assert [c["logprobs_kind"] for c in found["calls"]] == ["raw"] * 3
