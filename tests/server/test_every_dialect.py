"""Every example of every dialect through a running server in one protocol, and every dialect in each of them.

The official clients read it. `tests/wire` has every example in every protocol, without a server.
"""

import json
import random
from collections.abc import Callable
from typing import Any

import anthropic
import pytest

from unspool import Dialect, Message, Stage, detect_stage
from unspool.engines import Delta, Recording, Replay
from unspool.engines.capture import Asked
from unspool.request.prompts import Prompts, Tokenizer

from ..support import Case, examples, number, parse_case, random_split
from ..wire.readers import agui_stream
from .support import USAGE, Live, live
from .test_protocols import claude

GROUPS: dict[tuple[str, Stage | None], list[Case]] = {}
for _case in examples():
    GROUPS.setdefault((_case.dialect.name, _case.example.stage), []).append(_case)

Answer = tuple[str, str, list[tuple[str, Any]], str]
"""Reasoning, content, names and arguments of calls, and the finish reason."""


def recorded(group: list[Case]) -> Replay:
    """An engine that plays the example whose number is in the last message, cut at random."""
    recordings = []
    for case in group:
        deltas = [Delta(text=piece) for piece in random_split(case.raw, random.Random(case.raw))]
        deltas.append(Delta(finish_reason="stop", usage=USAGE))
        recordings.append(Recording(Asked(match=f"#{case.number}#"), tuple((0.0, d) for d in deltas)))
    return Replay(recordings, speed=0)


def opened(dialect: Dialect, stage: Stage) -> Prompts:
    """A chat template that opens the answer's reasoning, and for content closes it too."""
    opening, closing = (
        "".join(p for p in t if isinstance(p, str)) for t in (dialect.reasoning[0].before, dialect.reasoning[0].after)
    )
    prompt = "".join(dialect.start[:1]) + opening + (closing if stage is Stage.CONTENT else "")
    assert detect_stage(dialect, prompt) == stage
    template = "{{ messages[-1].content }}{% raw %}" + prompt + "{% endraw %}"
    return Prompts(Tokenizer(template, template, {}, ()))


# -- a client's result of a stream and of a whole answer -----------------------------------------------------------


def by_chat(server: Live, case: Case, asked: str) -> tuple[Answer, Answer]:
    ask: Any = {"model": "m", "messages": [{"role": "user", "content": asked}], "tools": case.tools}
    whole = server.openai.chat.completions.create(**ask)
    with server.openai.chat.completions.stream(**ask) as stream:
        streamed = stream.get_final_completion()
    return _chat(streamed.choices[0]), _chat(whole.choices[0])


def _chat(choice: Any) -> Answer:
    message = choice.message
    calls = [(c.function.name, c.function.arguments) for c in message.tool_calls or ()]
    reasoning = getattr(
        message, "reasoning_content", None
    )  # if no delta has it, the joined message has no such attribute
    return reasoning or "", message.content or "", calls, choice.finish_reason


def by_responses(server: Live, case: Case, asked: str) -> tuple[Answer, Answer]:
    tools = [{"type": "function", "strict": False, **tool["function"]} for tool in case.tools]
    ask: Any = {"model": "m", "input": asked, "tools": tools}
    whole = server.openai.responses.create(**ask)
    with server.openai.responses.stream(**ask) as stream:
        streamed = stream.get_final_response()
    return _response(streamed), _response(whole)


def _response(response: Any) -> Answer:
    assert response.status == "completed"
    text: dict[str, str] = {"reasoning": "", "message": ""}
    calls: list[tuple[str, Any]] = []
    for item in response.output:
        if item.type == "function_call":
            calls.append((item.name, item.arguments))
        else:
            text[item.type] += "".join(part.text for part in item.content)
    return text["reasoning"], text["message"], calls, "tool_calls" if calls else "stop"


def by_messages(client: anthropic.Anthropic, case: Case, asked: str) -> tuple[Answer, Answer]:
    functions = [tool["function"] for tool in case.tools]
    tools = [{"name": f["name"], "input_schema": f["parameters"]} for f in functions]
    ask: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": asked}], "tools": tools}
    whole = client.messages.create(**ask)
    with client.messages.stream(**ask) as stream:
        streamed = stream.get_final_message()
    return _blocks(streamed), _blocks(whole)


def _blocks(message: Any) -> Answer:
    reasoning = "".join(b.thinking for b in message.content if b.type == "thinking")
    content = "".join(b.text for b in message.content if b.type == "text")
    calls = [(b.name, b.input) for b in message.content if b.type == "tool_use"]
    return reasoning, content, calls, {"end_turn": "stop", "tool_use": "tool_calls"}[message.stop_reason]


def by_agui(server: Live, case: Case, asked: str) -> Answer:
    tools = [{"description": "", **tool["function"]} for tool in case.tools]
    messages = [{"id": "1", "role": "user", "content": asked}]
    answer = server.post("/ag-ui", threadId="t", runId="r", state={}, messages=messages, tools=tools, context=[])
    answered, _ = agui_stream(answer.content)
    return (
        answered.reasoning,
        answered.content,
        [(name, arguments) for _, name, arguments in answered.calls],
        answered.finish,
    )


def expected(message: Message, arguments: Callable[[str], Any] = str) -> Answer:
    calls = [(c.name, arguments(c.arguments)) for c in message.tool_calls]
    return message.reasoning, message.content, calls, message.finish_reason


def as_input(arguments: str) -> dict[str, Any]:
    """Arguments as Anthropic's clients get them."""
    try:
        value = json.loads(arguments)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"INVALID_JSON": arguments}


@pytest.mark.parametrize("group", GROUPS.values(), ids=[f"{name}-{stage}" if stage else name for name, stage in GROUPS])
def test_every_stream_equals_the_whole_answer_and_the_message(group: list[Case]) -> None:
    dialect, stage = group[0].dialect, group[0].example.stage
    prompts = opened(dialect, stage) if stage else None
    richest = max(group, key=lambda c: (len(c.calls), len(c.raw)))
    with live(recorded(group), dialect.name, prompts=prompts) as server, claude(server.url) as client:
        for i, case in enumerate(group):
            asked = f"#{case.number}#"
            message, _ = parse_case(case, ids=number)
            answer = expected(message)
            turn = None if case is richest or len(group) < 4 else i % 4  # the protocols take turns
            if turn in (None, 0):
                assert by_chat(server, case, asked) == (answer, answer), case
            if turn in (None, 1):
                assert by_responses(server, case, asked) == (answer, answer), case
            if turn in (None, 2):
                assert by_agui(server, case, asked) == answer, case
            if turn in (None, 3):
                answer = expected(message, as_input)
                assert by_messages(client, case, asked) == (answer, answer), case
