"""The contents of requests: errors name the wrong field and say what is allowed."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from .support import CHAT, HEAD, HELLO, WEATHER, Live, Scripted, live, replay
from .test_protocols import ANTHROPIC_TOOL, claude


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    with live(Scripted(["ok"]), body=100_000, tools=5, depth=20, generations=8) as running:
        yield running


BODIES = {
    "empty": b"",
    "cut": b'{"messages": [',
    "list": b"[]",
    "NaN": b'{"messages": [], "temperature": NaN}',
    "not UTF-8": b'{"messages": "\xff"}',
    "deep": b'{"messages":' + b"[" * 40_000 + b"]" * 40_000 + b"}",
    "deep and cut": b'{"a":' * 15_000,
    "UTF-16": '{"messages": []}'.encode("utf-16"),
    "a null behind it": b'{"messages": []}\0',
    "a long number": b'{"n": 1' + b"0" * 90_000 + b"}",
    "a long exponent": b'{"temperature": 1e' + b"9" * 90_000 + b"}",
    "keys that repeat": b'{"messages": [], "messages": [{}], "input": 1, "input": [1], "text": 2, "text": 1}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses", "/ag-ui", "/parse"])
def test_a_body_that_is_no_json_object_is_refused_in_the_protocols_shape(server: Live, path: str, body: bytes) -> None:
    answer = server.http.post(path, content=body)
    assert answer.status_code == 400
    assert answer.json()
    assert "sys." not in answer.text, "a client has no Python"


def test_a_body_that_is_too_large_is_refused_before_it_is_read(server: Live) -> None:
    connection = server.connect()
    connection.sendall(f"POST {CHAT} {HEAD}Content-Length: 99999999999\r\n\r\n".encode())
    assert b" 413 " in connection.recv(4096)
    chunked = server.connect()
    chunked.sendall(f"POST {CHAT} {HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
    chunked.sendall(b"1ffff\r\n" + b" " * 0x1FFFF + b"\r\n")
    assert b" 413 " in chunked.recv(4096)


def test_a_request_that_names_another_model_is_answered_all_the_same(server: Live) -> None:
    assert server.post(messages=HELLO, model="another").json()["model"] == "served"


def test_unknown_paths_and_methods_are_reported(server: Live) -> None:
    unknown = server.http.get("/v1/nothing")
    assert (unknown.status_code, "/v1/chat/completions" in unknown.json()["error"]["message"]) == (404, True)
    wrong = server.http.get("/v1/messages")
    assert (wrong.status_code, wrong.json()["type"]) == (405, "error")
    assert wrong.json()["error"]["message"] == "GET /v1/messages: Method Not Allowed; allowed is POST"
    for path, methods in {"/health": "GET, HEAD", "/v1/responses/r": "DELETE, GET, HEAD"}.items():
        assert server.http.patch(path).headers["allow"] == methods


def test_a_compressed_body_is_refused_by_its_header(server: Live) -> None:
    packed = gzip.compress(json.dumps({"messages": HELLO}).encode())
    answer = server.http.post(CHAT, content=packed, headers={"Content-Encoding": "gzip"})
    assert (answer.status_code, 'Content-Encoding: "gzip"' in answer.json()["error"]["message"]) == (415, True)
    assert server.http.post(CHAT, json={"messages": HELLO}, headers={"Content-Encoding": "identity"}).is_success


def test_every_protocol_requires_the_api_key_in_its_own_way() -> None:
    with live(Scripted(["ok"]), api_key="schlüssel") as server:
        assert server.post(messages=HELLO).status_code == 401
        assert [server.http.get(path).status_code for path in ("/v1/models", "/metrics")] == [401, 401]
        assert server.http.post("/parse", json={"text": "x"}).status_code == 401
        assert server.http.get("/health").status_code == 200
        wrong = server.http.post(CHAT, json={"messages": HELLO}, headers={"authorization": "Bearer wrong"})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "invalid_api_key")
        key = {b"authorization": "Bearer schlüssel".encode()}
        assert server.http.post(CHAT, json={"messages": HELLO}, headers=key).status_code == 200
    with live(Scripted(["ok"]), api_key="k") as server, claude(server.url, "k") as client:
        ask: Any = {"model": "m", "max_tokens": 9, "messages": HELLO, "tools": [ANTHROPIC_TOOL]}
        assert client.messages.create(**ask).content[0].text == "ok"


# -- stop strings ------------------------------------------------------------------------------------------------------

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "STOP"}}\n</tool_call>'


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_stop_string_ends_the_content_and_nothing_else(size: int) -> None:
    raw = f"<think>STOP here</think>one STO two{CALL}three STOP four"
    with live(replay(raw, size=size), "hermes") as server:
        ask: Any = {"messages": HELLO, "tools": [WEATHER], "stop": ["never", "STOP"]}
        whole = server.post(**ask).json()["choices"][0]
        stream = server.openai.chat.completions.create(**ask, model="m", stream=True)
        streamed = "".join(c.choices[0].delta.content or "" for c in stream)
    assert whole["message"]["reasoning_content"] == "STOP here"
    assert whole["message"]["content"] == streamed
    assert streamed.endswith("three ")
    assert streamed.startswith("one STO two")
    assert whole["message"]["tool_calls"][0]["function"]["arguments"] == '{"city": "STOP"}'
    assert whole["finish_reason"] == "tool_calls"


def test_a_stop_string_ends_the_engine_too() -> None:
    with live(Scripted(["a", "b"] * 1000), "hermes") as server:
        choice = server.post(messages=HELLO, stop="ba").json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("a", "stop")
    assert server.engine.pulled < 10


# -- /parse ------------------------------------------------------------------------------------------------------------


def test_parse_takes_the_arguments_of_the_function(server: Live) -> None:
    tools = [WEATHER]
    ask: dict[str, Any] = {"text": f"plan</think>{CALL}", "dialect": "hermes", "reasoning": "deepseek"}
    answer = server.post("/parse", **ask, tools=tools, stage="reasoning").json()["message"]
    assert (answer["reasoning"], answer["tool_calls"][0]["known"]) == ("plan", True)
    assert server.post("/parse", **ask).json()["message"]["tool_calls"][0]["known"] is None
    assert server.post("/parse", **ask, tools=[]).json()["message"]["tool_calls"] == []
    assert server.post("/parse", **ask, tools=tools, tool_choice="none").json()["message"]["tool_calls"] == []
    events = server.post("/parse", text="x", format="events", finish_reason="length").json()["events"]
    assert [e["type"] for e in events] == ["content_delta", "finish"]
    kept = server.post("/parse", text="a", dialect="hermes", prompt="<|im_start|>assistant\n<think>\n").json()
    assert kept["message"]["reasoning"] == "a"
