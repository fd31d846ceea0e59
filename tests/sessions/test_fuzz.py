"""Random agents that rewrite, fork, retry, abort and interleave: every sampled token is in one trained place."""

import concurrent.futures
import contextlib
import json
import random
from typing import Any

import httpx2
import pytest

from unspool.engines import Request

from ..server.support import CHAT, WEATHER, Live, live, until
from ..server.writing import template
from .support import Model, check, made, trajectory

AGENTS = 4
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

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.change()
            message = self.ask()
            if message is None:
                continue
            sent = {k: v for k, v in message.items() if k in ("role", "content", "tool_calls")}
            if self.chance.random() < 0.3 and "reasoning_content" in message:
                sent["reasoning_content"] = message["reasoning_content"]
            self.history.append(sent)
            for call in sent.get("tool_calls") or ():
                arguments = json.loads(call["function"]["arguments"])
                call["function"]["arguments"] = json.dumps(arguments, indent=self.chance.choice([None, 2]))
                self.history.append({"role": "tool", "tool_call_id": call["id"], "content": "20 C"})
            if not sent.get("tool_calls"):
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

    def ask(self) -> dict[str, Any] | None:
        headers = {"Authorization": f"Bearer {self.session['key']}", "x-stainless-retry-count": "0"}
        headers["Idempotency-Key"] = str(self.chance.random())  # another agent may ask the same
        body: dict[str, Any] = {"messages": self.history}
        if self.tools:
            body["tools"] = self.tools
        kind = self.chance.random()
        if kind < 0.15:
            self.abort(body, headers)
            return None
        if kind < 0.3:
            body |= {"n": 2}
        if kind > 0.9:
            body |= {"max_tokens": 3}
        if kind > 0.8:
            body |= {"stop": ["o"]}
        answers = [self.server.http.post(CHAT, json=body, headers=headers)]
        if self.chance.random() < 0.2:
            answers.append(self.server.http.post(CHAT, json=body, headers={**headers, "x-stainless-retry-count": "1"}))
            assert answers[0].text == answers[1].text
        assert answers[0].status_code == 200, answers[0].text
        found: dict[str, Any] = self.chance.choice(answers[0].json()["choices"])["message"]
        return found

    def abort(self, body: dict[str, Any], headers: dict[str, str]) -> None:
        with (
            contextlib.suppress(httpx2.HTTPError),
            self.server.http.stream("POST", CHAT, json={**body, "stream": True}, headers=headers) as answer,
        ):
            for _ in zip(answer.iter_lines(), range(self.chance.randrange(1, 6)), strict=False):
                pass


@pytest.mark.parametrize("seed", range(3))
def test_random_agents_leave_every_sampled_token_in_one_trained_place(seed: int) -> None:
    model = writing(seed)
    with live(model, "hermes", prompts=template(), sessions=True) as server:
        session = made(server)
        with concurrent.futures.ThreadPoolExecutor(AGENTS) as pool:
            agents = [Agent(server, session, 10 * seed + i) for i in range(AGENTS)]
            for done in [pool.submit(agent.run, 12) for agent in agents]:
                done.result()
        until(lambda: not server.http.get(f"/sessions/{session['id']}").json()["in_flight"])
        server.post(f"/sessions/{session['id']}/finish")
        found = trajectory(server, session)
    check(found, model.record)
    assert len(found["calls"]) > 20
    assert {call["fork"] for call in found["calls"]} >= {None, "rewritten"}
    by_id = {call["id"]: call for call in found["calls"]}
    for call in found["calls"]:
        text = model.tokenizer.decode(call["prompt_ids"], skip_special_tokens=False)
        assert text.endswith("<|im_start|>assistant\n")
        parent = by_id.get(call["parent"])
        if parent is not None and call["fork"] in (None, "rewritten"):
            whole = [*parent["prompt_ids"], *parent["output_ids"]]
            assert call["prompt_ids"][: len(whole)] == whole
