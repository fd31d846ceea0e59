"""Random agents that rewrite, fork, retry, abort and interleave: every sampled token is in one trained place."""

import concurrent.futures
import contextlib
import json
import random
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from unspool import get_dialect
from unspool.engines import Request
from unspool.server import Settings
from unspool.server.models import Served

from ..server.support import CHAT, WEATHER, Live, live, until
from ..server.writing import TEMPLATE, TOKENIZER, template
from ..support import calling, function_call
from ..wire.readers import Answer, agui_stream, chat_whole, messages_answer, messages_whole, responses_answer
from .support import Model, check, made, trajectory

AGENTS = 4
OPENING = "<|im_start|>assistant\n"
SWITCHED = TEMPLATE.replace(OPENING, OPENING + "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}")
LATE = SWITCHED.replace(
    "{{ m.content or '' }}",
    "{{ m.content or '' }}{{ ' /no' if m.role == 'user' and loop.index > 2 and enable_thinking is false }}",
)  # what earlier turns say depends on a switch, except at the beginning
WORDS = ["Yes.", "No, 20 °C.", "<think>\nHm\n</think>\n\nWell", "☀ sunny", " spaced "]


def writing(seed: int) -> Model:
    """A model that thinks, calls tools, or answers, at random."""
    chance = random.Random(seed)

    def write(request: Request) -> str:
        if request.tools and chance.random() < 0.5:
            call = json.dumps({"name": "get_weather", "arguments": {"city": chance.choice(["Rome", "Oslo"])}})
            return f"<think>\nI look.\n</think>\n\n<tool_call>\n{call}\n</tool_call>"
        return chance.choice(WORDS)

    return Model(write)


Asked = tuple[str, dict[str, Any], Callable[[httpx2.Response], Answer]]
"""A path, a request, and what reads its answer."""


class Agent:
    """One agent of a session, which does anything with its history."""

    def __init__(self, server: Live, session: dict[str, Any], seed: int) -> None:
        self.server = server
        self.session = session
        self.chance = random.Random(seed)
        self.history: list[Any] = [
            {"role": "system", "content": f"Agent {seed % 2}"},
            {"role": "user", "content": self.chance.choice(["Hi", "Hello"])},
        ]
        self.tools = [WEATHER] if seed % 3 else []
        self.stored, self.kept = "", list[int]()  # the last response, and the messages that it answers

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.change()
            answer = self.ask()
            if answer is None:
                continue
            thought = {"reasoning_content": answer.reasoning} if self.chance.random() < 0.3 and answer.reasoning else {}
            indent = self.chance.choice([None, 2])
            calls = [function_call(name, json.dumps(json.loads(a), indent=indent), id) for id, name, a in answer.calls]
            sent = calling(*calls, content=answer.content, **thought)
            self.history.append(sent if calls else {k: v for k, v in sent.items() if k != "tool_calls"})
            self.history += [{"role": "tool", "tool_call_id": call["id"], "content": "20 C"} for call in calls]
            if not calls:
                self.history.append({"role": "user", "content": self.chance.choice(["And?", "Go on", "Thanks ☀"])})

    def change(self) -> None:
        """Maybe rewrite the history."""
        what = self.chance.random()
        answers = [at for at, m in enumerate(self.history) if m["role"] == "assistant" and not m.get("tool_calls")]
        if what < 0.1 and answers:
            self.history[self.chance.choice(answers)] = {"role": "assistant", "content": "Rewritten."}
        elif what < 0.2 and answers:
            at = self.chance.choice(answers)
            self.history = [
                *self.history[:at],
                {"role": "assistant", "content": "Cut."},
                {"role": "user", "content": "?"},
            ]
        elif what < 0.25:
            self.history[0] = {"role": "system", "content": f"Changed {self.chance.randrange(3)}"}
        elif what < 0.3:
            self.history = [self.history[0], {"role": "user", "content": "Summary of it all."}]
        elif what < 0.33:
            self.tools = [] if self.tools else [WEATHER]

    def ask(self) -> Answer | None:
        headers = {"Authorization": f"Bearer {self.session['key']}", "x-stainless-retry-count": "0"}
        headers["Idempotency-Key"] = str(self.chance.random())  # another agent may ask the same
        path, body, read = self.chance.choice([self.chat, self.responses, self.messages, self.agui])()
        if path != "/ag-ui":
            body["model"] = self.chance.choice(["served", "late"])
        kind = self.chance.random()
        if kind < 0.15:
            self.abort(path, body, headers)
            return None
        if kind < 0.3 and path == CHAT:
            body |= {"n": 2}
        if kind > 0.9 and path in (CHAT, "/v1/messages"):
            body |= {"max_tokens": 3}
        if kind > 0.8 and path == CHAT:
            body |= {"stop": ["o"]}
        answers = [self.server.http.post(path, json=body, headers=headers)]
        if self.chance.random() < 0.2:
            answers.append(self.server.http.post(path, json=body, headers={**headers, "x-stainless-retry-count": "1"}))
            assert answers[0].text == answers[1].text
        assert answers[0].status_code == 200, answers[0].text
        return read(answers[0])

    # -- each protocol ---------------------------------------------------------------------------------------------

    def switch(self) -> dict[str, Any]:
        thinks = self.chance.choice([None, None, True, False])
        return {} if thinks is None else {"enable_thinking": thinks}

    def chat(self) -> Asked:
        body: dict[str, Any] = {"messages": self.history, **self.switch()}
        if self.tools:
            body["tools"] = self.tools
        return CHAT, body, lambda answer: self.chance.choice(chat_whole(answer.content))

    def responses(self) -> Asked:
        items: list[Any] = []
        history, previous = self.history, {}
        before = len(self.kept)
        rewritten = [m["content"] for m in history[before : before + 1]] in (["Rewritten."], ["Cut."])
        if self.kept and [id(m) for m in history[:before]] == self.kept and history[before + 1 :] and not rewritten:
            history, previous = history[before + 1 :], {"previous_response_id": self.stored}
        asked = [id(m) for m in self.history]
        for m in history:
            if m["role"] == "tool":
                items.append({"type": "function_call_output", "call_id": m["tool_call_id"], "output": m["content"]})
            elif m["content"]:
                items.append({"role": m["role"], "content": m["content"]})
            for call in m.get("tool_calls") or ():
                items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
        body = {"input": items, **previous, **self.switch()}
        if self.tools:
            body["tools"] = [{"type": "function", **tool["function"]} for tool in self.tools]
        elif previous:
            body["tools"] = []

        def read(answer: httpx2.Response) -> Answer:
            self.stored, self.kept = answer.json()["id"], asked
            return responses_answer(answer.json())

        return "/v1/responses", body, read

    def messages(self) -> Asked:
        turns: list[Any] = []
        for m in self.history[1:]:
            blocks = [{"type": "text", "text": m["content"]}] if m["content"] and m["role"] != "tool" else []
            for call in m.get("tool_calls") or ():
                named = call["function"]
                use = {"id": call["id"], "name": named["name"], "input": json.loads(named["arguments"])}
                blocks.append({"type": "tool_use", **use})
            if m["role"] == "tool":
                blocks.append({"type": "tool_result", "tool_use_id": m["tool_call_id"], "content": m["content"]})
            if blocks:
                turns.append({"role": "assistant" if m["role"] == "assistant" else "user", "content": blocks})
        body = {"system": self.history[0]["content"], "messages": turns, "max_tokens": 500, **self.switch()}
        if self.tools:
            named = self.tools[0]["function"]
            body["tools"] = [{"name": named["name"], "input_schema": named["parameters"]}]

        return "/v1/messages", body, lambda answer: messages_answer(messages_whole(answer.content))

    def agui(self) -> Asked:
        sent: list[Any] = []
        for at, m in enumerate(self.history):
            one = {"id": str(at), "role": m["role"], "content": m["content"] or ""}
            if m.get("tool_calls"):
                one["toolCalls"] = m["tool_calls"]
            if m["role"] == "tool":
                one["toolCallId"] = m["tool_call_id"]
            sent.append(one)
        tools = [
            {k: v for k, v in tool["function"].items() if k in ("name", "description", "parameters")}
            for tool in self.tools
        ]
        body = {"threadId": "t", "runId": "r", "state": {}, "messages": sent, "tools": tools, "context": []}
        body["forwardedProps"] = {"model": self.chance.choice(["served", "late"])}

        return "/ag-ui", body, lambda answer: agui_stream(answer.content)[0]

    def abort(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> None:
        with (
            contextlib.suppress(httpx2.HTTPError),
            self.server.http.stream("POST", path, json={**body, "stream": True}, headers=headers) as answer,
        ):
            for _ in zip(answer.iter_lines(), range(self.chance.randrange(1, 6)), strict=False):
                pass


@pytest.mark.parametrize("seed", range(3))
def test_random_agents_leave_every_sampled_token_in_one_trained_place(seed: int) -> None:
    model, another = writing(seed), writing(seed + 100)
    settings = Settings(model="late", dialect=get_dialect("hermes"), sessions=True)
    late = Served(settings, another, template(LATE))
    with live(model, "hermes", prompts=template(SWITCHED), sessions=True, others=[late]) as server:
        session = made(server)
        with concurrent.futures.ThreadPoolExecutor(AGENTS) as pool:
            agents = [Agent(server, session, 10 * seed + i) for i in range(AGENTS)]
            for done in [pool.submit(agent.run, 12) for agent in agents]:
                done.result()
        until(lambda: not server.http.get(f"/sessions/{session['id']}").json()["in_flight"])
        server.post(f"/sessions/{session['id']}/finish")
        found = trajectory(server, session)
    check(found, [*model.record, *another.record])
    assert len(found["calls"]) > 20
    assert {call["fork"] for call in found["calls"]} >= {None, "rewritten"}
    by_id = {call["id"]: call for call in found["calls"]}
    for call in found["calls"]:
        text = model.tokenizer.decode(call["prompt_ids"], skip_special_tokens=False)
        assert text.removesuffix("<think>\n\n</think>\n\n").endswith(OPENING)
        parent = by_id.get(call["parent"])
        if parent is not None and call["fork"] in (None, "rewritten"):
            whole = [*parent["prompt_ids"], *parent["output_ids"]]
            assert call["prompt_ids"][: len(whole)] == whole
    for request in (*model.requests, *another.requests):
        check_texts(request)


def check_texts(request: Request) -> None:
    """Check that a prompt says what the history says, as the template writes it with one value of its switch."""
    assert request.prompt_ids is not None
    text = TOKENIZER.decode(list(request.prompt_ids), skip_special_tokens=False)
    turns = [turn.removesuffix("\n").removesuffix("<|im_end|>") for turn in text.split("<|im_start|>")[1:-1]]
    said = [turn.split("\n", 1) for turn in turns]
    assert [role for role, _ in said] == [message["role"] for message in request.messages]
    words = set()
    for at, ((role, written), message) in enumerate(zip(said, request.messages, strict=True)):
        content = message["content"] or ""
        if role == "user" and at > 1:
            words.add(written.endswith(" /no"))
            written = written.removesuffix(" /no")
        assert written == content if role != "assistant" else content.strip() in written
    assert len(words) < 2
