"""Several models behind one server: requests choose one, and all reports include every model."""

from typing import Any

import anthropic
import httpx2
import openai
import pytest

from unspool import get_dialect
from unspool.generation.metrics import added
from unspool.server import Settings
from unspool.server.models import Served

from .support import CHAT, HELLO, MINIMAL, PATIENCE, Live, Scripted, chunks, live, replay
from .test_protocols import claude


def two(**options: Any) -> Any:
    """A server with the models ``served`` and ``other``, of different dialects."""
    other = Settings(model="other", dialect=get_dialect("mistral"), **options)
    engine = replay("[THINK]hm[/THINK]second")
    return live(replay("<think>hm</think>first"), others=[Served(other, engine)], **options)


def said(server: Live, **body: Any) -> Any:
    return server.post(**{"messages": HELLO, **body}).json()["choices"][0]["message"]


def test_requests_choose_a_model_and_get_the_first_by_default() -> None:
    with two() as server:
        assert [said(server, **b)["content"] for b in ({}, {"model": "served"}, {"model": "other"})] == [
            *("first", "first", "second")
        ]
        assert said(server, model="other")["reasoning_content"] == "hm"
        large = [{"role": "user", "content": "x" * 40_000}]
        assert server.post(model="other", messages=large).json()["model"] == "other"
        surrogate = [{"role": "user", "content": "\ud800"}]  # one of the two JSON readers refuses it
        assert server.post(model="other", messages=surrogate).json()["model"] == "other"
        streamed = chunks(server.post(model="other", messages=HELLO, stream=True).text)
        assert {c["model"] for c in streamed} == {"other"}
        run = server.post("/ag-ui", **MINIMAL["/ag-ui"], forwardedProps={"model": "other"})
        assert '"model":"other"' in run.text


def test_the_page_asks_the_model_that_it_talks_to() -> None:
    with two() as server:
        assert server.post("/ui/about").json()["models"] == ["served", "other"]
        answer = server.post("/ui/chat", messages=HELLO, model="other").text
        assert '"model":"other","dialect":"mistral"' in answer
        strict = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "object"}}}
        asked = {"messages": HELLO, "tools": [strict], "tool_choice": "required"}
        grammars = [server.post("/ui/prompt", **asked, model=m).json()["grammar"]["lark"] for m in ("served", "other")]
        assert ["[TOOL_CALLS]" in str(grammar) for grammar in grammars] == [False, True]


def test_an_unknown_model_is_each_protocols_own_error() -> None:
    with two() as server:
        with pytest.raises(openai.NotFoundError) as of_openai:
            server.openai.chat.completions.create(model="nobody", messages=HELLO)
        assert (of_openai.value.code, of_openai.value.param) == ("model_not_found", "model")
        assert "'served', 'other'" in str(of_openai.value)
        with pytest.raises(openai.NotFoundError):
            server.openai.responses.create(model="nobody", input="Hello")
        with claude(server.url) as client, pytest.raises(anthropic.NotFoundError) as of_anthropic:
            client.messages.create(model="nobody", max_tokens=9, messages=HELLO)
        assert of_anthropic.value.body["error"]["type"] == "not_found_error"  # type: ignore[index]
        for name in ("m" * 1_000_000, "\ud800", "../other", ""):
            for path, body in MINIMAL.items():
                asked = {"forwardedProps": {"model": name}} if path == "/ag-ui" else {"model": name}
                answer = server.post(path, **body, **asked)
                assert (answer.status_code, len(answer.text) < 1000) == (404, True), (path, answer.text[:200])
        assert server.post(messages=HELLO, model=5).status_code == 400
        assert server.http.post(CHAT, content=b"{").status_code == 400


def test_models_health_and_metrics_report_all_models() -> None:
    with two() as server:
        assert [m.id for m in server.openai.models.list()] == ["served", "other"]
        assert server.openai.models.retrieve("other").id == "other"
        with pytest.raises(openai.NotFoundError, match="another/one"):
            server.openai.models.retrieve("another/one")
        said(server), said(server, model="other"), said(server, model="other")
        metrics = server.http.get("/metrics").text
        labels = 'dialect="mistral",model="other",path="/v1/chat/completions",status="200"'
        assert f"unspool_requests_total{{{labels}}} 2" in metrics
        assert metrics.count("# TYPE unspool_open_streams gauge") == 1
    sick = Scripted(["x"])
    sick.sick = "out of memory"
    with live(sick, others=[Served(Settings(model="other", dialect=get_dialect("hermes")), replay("x"))]) as server:
        health = server.http.get("/health")
        assert (health.status_code, health.json()["status"]) == (200, "degraded")
        assert health.json()["message"] == "served: out of memory"


def test_all_models_drain_and_close() -> None:
    slow = Scripted(["a"], hang_after=1)
    settings = Settings(model="slow", dialect=get_dialect("hermes"))
    with live(replay("x"), others=[Served(settings, slow)], drain=0.0) as server:
        body = {"model": "slow", "messages": HELLO, "stream": True}
        with httpx2.stream("POST", server.url + CHAT, json=body, timeout=PATIENCE, verify=False) as response:
            assert slow.hanging.wait(PATIENCE)
            server.server.should_exit = True
            streamed = "".join(response.iter_text())
    assert "the server is shutting down" in streamed
    assert (slow.cancelled, slow.closed) == (1, True)


def test_counts_are_added_by_name_and_labels() -> None:
    text = "# HELP a A.\n# TYPE a counter\n{}# HELP b B.\n# TYPE b gauge\nb {}\n"
    one = text.format('a{x="1 2"} 1\n', 3)
    two = text.format('a{x="1 2"} 2\na{x="3"} 4\n', 0.5)
    assert added([one, two]) == text.format('a{x="1 2"} 3\na{x="3"} 4\n', 3.5)
    assert added([one]) == one
