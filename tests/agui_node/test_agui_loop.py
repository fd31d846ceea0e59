"""The server's tools, approvals and interrupts, with AG-UI's own client on Node."""

from typing import Any

import pytest

from ..server.support import live, written
from ..server.test_continuation import WORDY, WORDY_ANSWER, WORDY_MIXED
from ..server.workshop import Workshop, call, model
from ..server.writing import extends
from .test_agui_node import converse

pytestmark = pytest.mark.node

ANSWERS = {
    "add please": f"Let me add.{call('add', a=2, b=3)}",
    "sum=5": f"More.{call('add', a=4, b=5)}",
    "sum=9": "It is 9.",
    "mix please": call("add", a=20, b=30) + call("get_weather", city="Paris"),
    "guard please": call("guarded", a=7),
    "guarded=7": "It was allowed.",
    "was not allowed": "Then not.",
    "thanks": "You are welcome.",
}


def user(text: str, id: str = "u") -> dict[str, Any]:
    return {"id": id, "role": "user", "content": text}


def shape(messages: list[dict[str, Any]]) -> list[tuple[str, Any, int]]:
    said = [m for m in messages if m["role"] != "activity"]
    return [(m["role"], m.get("content") or "", len(m.get("toolCalls") or ())) for m in said]


def activities(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    contents = [m["content"] for m in messages if m["role"] == "activity"]
    return [(content["tool"], content["status"]) for content in contents]


def test_the_client_rebuilds_every_round_and_sends_them_back() -> None:
    with live(model(**ANSWERS), "hermes", servers=[Workshop()]) as server:
        runs = converse(server.url, {}, {"append": [user("thanks", "u2")]}, messages=[user("add please")])
    assert all(run.failed is None for run in runs)
    assert all(not run.warnings for run in runs), runs[0].warnings
    assert shape(runs[0].ended["newMessages"]) == [
        ("assistant", "Let me add.", 1),
        ("tool", "sum=5", 0),
        ("assistant", "More.", 1),
        ("tool", "sum=9", 0),
        ("assistant", "It is 9.", 0),
    ]
    assert activities(runs[0].ended["newMessages"]) == [("add", "completed")] * 2
    assert shape(runs[1].ended["newMessages"]) == [("assistant", "You are welcome.", 0)]


def test_text_on_both_sides_of_calls_goes_on_from_what_the_model_wrote() -> None:
    with written(WORDY, WORDY_MIXED, WORDY_ANSWER, WORDY_ANSWER, servers=[Workshop()], context="all") as (
        server,
        engine,
    ):
        (first,) = converse(server.url, {}, messages=[user("Hello")])
        assert first.failed is None
        assert not first.warnings, first.warnings
        calls = [c for m in first.ended["messages"] for c in m.get("toolCalls") or ()]
        theirs = next(c["id"] for c in calls if c["function"]["name"] == "get_weather")
        result = {"id": "t", "role": "tool", "toolCallId": theirs, "content": "20"}
        messages = [*first.ended["messages"], result]
        (_, last) = converse(server.url, {}, {"append": [user("thanks", "u2")]}, messages=messages)
        assert last.failed is None
    raws = [WORDY, WORDY_MIXED, WORDY_ANSWER]
    for at in range(1, 4):
        assert extends(engine, at, raws[at - 1]), at


def test_server_tools_run_and_the_clients_call_stays_pending() -> None:
    with live(model(**ANSWERS), "hermes", servers=[Workshop()]) as server:
        (run,) = converse(server.url, {}, messages=[user("mix please")])
    assert run.failed is None
    calls = [c for m in run.ended["newMessages"] for c in m.get("toolCalls") or ()]
    assert [c["function"]["name"] for c in calls] == ["add", "get_weather"]
    assert run.events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": [calls[1]["id"]]}


@pytest.mark.parametrize(("approved", "text"), [(True, "It was allowed."), (False, "Then not.")])
def test_an_interrupt_is_answered_by_resume(approved: bool, text: str) -> None:
    workshop = Workshop()
    with live(model(**ANSWERS), "hermes", servers=[workshop]) as server:
        (first,) = converse(server.url, {}, messages=[user("guard please")])
        assert first.failed is None
        outcome = first.events[-1]["outcome"]
        assert outcome["type"] == "interrupt"
        (asked,) = outcome["interrupts"]
        assert activities(first.ended["messages"]) == [("guarded", "awaiting_approval")]
        entry = {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": approved}}
        (second,) = converse(server.url, {"runId": "r2", "resume": [entry]}, messages=first.ended["messages"])
    assert second.failed is None
    assert shape(second.ended["newMessages"])[-1] == ("assistant", text, 0)
    assert workshop.calls == [("guarded", {"a": 7})] * approved
    messages = second.ended["messages"]
    assert activities(messages) == [("guarded", "completed" if approved else "failed")]
    calls = [call["id"] for m in messages for call in m.get("toolCalls") or ()]
    assert [m["toolCallId"] for m in messages if m["role"] == "tool"] == calls, "each call has its result"
