"""Every example of every dialect through a running server in one protocol, and every dialect in each of them.

`tests/wire` has every example in every protocol, without a server, and the official clients.
"""

import random
from typing import Any

import pytest

from unspool import Dialect, Stage, detect_stage
from unspool.engines import Replay
from unspool.request.prompts import Prompts, Tokenizer

from ..support import Trial, examples, number, parse_case, random_split
from ..wire.readers import (
    Answer,
    agui_stream,
    answer_of,
    chat_stream,
    chat_whole,
    messages_answer,
    messages_stream,
    messages_whole,
    responses_answer,
    responses_stream,
)
from .support import Live, live, recorded

GROUPS: dict[tuple[str, Stage | None], list[Trial]] = {}
for _case in examples():
    GROUPS.setdefault((_case.dialect.name, _case.example.stage), []).append(_case)


def played(group: list[Trial]) -> Replay:
    """An engine that plays the last example whose number is in the prompt, cut at random."""
    cut = [(random_split(case.raw, random.Random(case.raw)), f"#{case.number}#") for case in reversed(group)]
    return Replay([recorded(pieces, words) for pieces, words in cut], speed=0)


def opened(dialect: Dialect, stage: Stage) -> Prompts:
    """A chat template that opens the answer's reasoning, and for content closes it too."""
    opening, closing = (
        "".join(p for p in t if isinstance(p, str)) for t in (dialect.reasoning[0].before, dialect.reasoning[0].after)
    )
    prompt = "".join(dialect.start[:1]) + opening + (closing if stage is Stage.CONTENT else "")
    assert detect_stage(dialect, prompt) == stage
    template = "{% for m in messages %}{{ m.content }}{% endfor %}{% raw %}" + prompt + "{% endraw %}"
    return Prompts(Tokenizer(template, template, {}, ()))


# -- what a client reads from a stream, and from a whole answer --------------------------------------------------------


def by_chat(server: Live, case: Trial, messages: list[Any]) -> list[Answer]:
    ask: Any = {"messages": messages, "tools": case.tools}
    (streamed,), _ = chat_stream(server.post(**ask, stream=True).content)
    return [streamed, *chat_whole(server.post(**ask).content)]


def by_responses(server: Live, case: Trial, messages: list[Any]) -> list[Answer]:
    tools = [{"type": "function", "strict": False, **tool["function"]} for tool in case.tools]
    ask: Any = {"path": "/v1/responses", "input": messages, "tools": tools}
    found = (responses_stream(server.post(**ask, stream=True).content), server.post(**ask).json())
    return list(map(responses_answer, found))


def by_messages(server: Live, case: Trial, messages: list[Any]) -> list[Answer]:
    functions = [tool["function"] for tool in case.tools]
    tools = [{"name": f["name"], "input_schema": f["parameters"]} for f in functions]
    ask: Any = {"path": "/v1/messages", "max_tokens": 9, "messages": messages, "tools": tools}
    found = (messages_stream(server.post(**ask, stream=True).content), messages_whole(server.post(**ask).content))
    return list(map(messages_answer, found))


def by_agui(server: Live, case: Trial, messages: list[Any]) -> list[Answer]:
    ask: Any = {"threadId": "t", "runId": "r", "state": {}, "context": [], "messages": [{"id": "1", **messages[0]}]}
    tools = [{"description": "", **tool["function"]} for tool in case.tools]
    answer, _ = agui_stream(server.post("/ag-ui", **ask, tools=tools).content)
    return [answer]


def without_ids(answer: Answer) -> Any:
    calls: Any = [call[1:] for call in answer.calls]
    return answer._replace(calls=calls)


@pytest.mark.parametrize("group", GROUPS.values(), ids=[f"{name}-{stage}" if stage else name for name, stage in GROUPS])
def test_every_stream_equals_the_whole_answer_and_the_message(group: list[Trial]) -> None:
    dialect, stage = group[0].dialect, group[0].example.stage
    prompts = opened(dialect, stage) if stage else None
    richest = max(group, key=lambda c: (len(c.calls), len(c.raw)))
    protocols = (by_chat, by_responses, by_agui, by_messages)
    with live(played(group), dialect.name, prompts=prompts) as server:
        for i, case in enumerate(group):
            message, _ = parse_case(case, ids=number)
            messages = [{"role": "user", "content": f"#{case.number}#"}]
            takes_all = case is richest or len(group) < 4
            for by in protocols if takes_all else (protocols[i % 4],):
                for answer in by(server, case, messages):
                    assert without_ids(answer) == without_ids(answer_of(message)), (by, case)
