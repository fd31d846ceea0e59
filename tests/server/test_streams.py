"""How streams are cut, counted and kept alive."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.tokenizer import byte_level
from unspool.engines import Delta
from unspool.wire import Usage

from .support import CHAT, HELLO, MINIMAL, WEATHER, Scripted, chunks, live, until

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": [1, 2]}}\n</tool_call>'
THINKING = "<think>One step. Then another one! And the rest</think>"


def deltas(text: str, field: str) -> list[str]:
    found = [c["choices"][0]["delta"].get(field) for c in chunks(text) if c["choices"]]
    return [d for d in found if d]


def arguments(text: str) -> list[str]:
    calls = [c["choices"][0]["delta"].get("tool_calls") for c in chunks(text) if c["choices"]]
    return [a for c in calls if c and (a := c[0]["function"]["arguments"])]


# -- coalescing --------------------------------------------------------------------------------------------------------


def test_coalesced_streams_say_the_same_in_fewer_pieces() -> None:
    raw = THINKING + CALL
    ask: dict[str, Any] = {"messages": HELLO, "tools": [WEATHER], "stream": True}
    with live(Scripted(list(raw)), "hermes") as server:
        plain = server.post(**ask).text
    with live(Scripted(list(raw)), "hermes", coalesce_reasoning=True, coalesce_arguments=True) as server:
        joined = server.post(**ask).text
        whole = server.post(**{**ask, "stream": False}).json()["choices"][0]["message"]
    assert deltas(joined, "reasoning_content") == ["One step. ", "Then another one! ", "And the rest"]
    assert 1 < len(arguments(joined)) < len(arguments(plain)) / 2
    assert "".join(arguments(joined)) == "".join(arguments(plain)) == whole["tool_calls"][0]["function"]["arguments"]
    assert "".join(deltas(plain, "reasoning_content")) == whole["reasoning_content"]


def test_held_text_is_sent_in_time_though_the_engine_is_silent() -> None:
    engine = Scripted(["<think>One. ", "Two", "more. And ", "then"], hang_after=4)
    with live(engine, "hermes", coalesce_reasoning=True, coalesce_delay=1.0) as server:
        connection = server.request(messages=HELLO, stream=True)
        received = b""
        while b"And then" not in received:
            received += connection.recv(65_536)
        assert b'"Twomore. "' in received
        assert engine.running == 1
        connection.close()
        until(lambda: engine.cancelled == 1)


def test_held_text_is_sent_before_the_error_of_a_failing_engine() -> None:
    with live(Scripted(["<think>One. ", "Two"], fail_after=2), "hermes", coalesce_reasoning=True) as server:
        text = server.post(messages=HELLO, stream=True).text
    assert deltas(text.partition('data: {"error"')[0], "reasoning_content") == ["One. ", "Two"]
    assert "the device is lost" in text


# -- silence -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/v1/messages"])
def test_a_silent_stream_is_kept_alive_in_its_protocols_way(path: str) -> None:
    comment = b'event: ping\ndata: {"type":"ping"}\n\n' if path == "/v1/messages" else b": keep-alive\n\n"
    with live(Scripted(["Hi"], hang_after=1), "hermes", silence=1.0) as server:
        connection = server.request(path, **MINIMAL[path], stream=True)
        received = b""
        while comment not in received:
            received += connection.recv(65_536)
        assert b"Hi" in received.split(comment)[0]
        connection.close()
        until(lambda: server.engine.cancelled == 1)


# -- token ids ---------------------------------------------------------------------------------------------------------


def telling(*ids: int) -> Scripted:
    """Reports its output as token ids, one at a time, some of which have the same text as others."""
    tokenizer = byte_level(("<think>", "</think>", "plan", "Ġit", "</", "think", ">", "Ġdone", "x"))
    tokenizer.add_special_tokens(["<think>", "</think>"])
    pieces = [Delta(text=tokenizer.decode([i], skip_special_tokens=False), token_ids=(i,)) for i in ids]
    engine = Scripted(pieces, usage=Usage(prompt_tokens=1, completion_tokens=len(ids)))
    engine.tokenizer = tokenizer
    return engine


@pytest.mark.parametrize("stream", [False, True])
def test_a_marker_that_is_only_spelled_is_text_where_the_engine_tells_its_tokens(stream: bool) -> None:
    with live(telling(0, 2, 3, 1, 2, 7), "hermes") as server:
        ask: dict[str, Any] = {"messages": HELLO, "stream": stream, "stream_options": {"include_usage": True}}
        answer = server.post(**(ask if stream else {"messages": HELLO}))
    sent = chunks(answer.text)[-1] if stream else answer.json()
    assert sent["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    if not stream:
        message = sent["choices"][0]["message"]
        assert (message["reasoning_content"], message["content"]) == ("plan it", "plan done")


# -- long requests -----------------------------------------------------------------------------------------------------


def test_a_request_with_hundreds_of_tools_does_not_hold_up_the_others() -> None:
    names = (f"tool_{i}" for i in range(400))
    tools = [{"type": "function", "function": {**WEATHER["function"], "name": n, "strict": True}} for n in names]
    with live(Scripted(["ok"]), "hermes") as server, ThreadPoolExecutor(1) as pool:
        asking = pool.submit(server.post, messages=HELLO, tools=tools, tool_choice="required")
        answered = 0
        while not asking.done():
            assert server.http.get("/health").status_code == 200
            answered += 1
    assert server.engine.requests[0].constraint is not None
    assert answered > 3
