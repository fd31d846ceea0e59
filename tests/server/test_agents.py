"""Requests of agents other than generation: counting tokens, checking that the server runs, and special fields."""

import logging
from typing import Any

import anthropic
import pytest

from unspool.request.edits import CLEARED
from unspool.request.sealed import Seal

from .support import HELLO, Scripted, live, written
from .test_loop import BETA, MCP_SERVER
from .test_protocols import ANTHROPIC_TOOL, claude
from .workshop import Workshop
from .writing import ANSWER, CALL, TOKENIZER, Writing, extends, template


def test_the_count_of_tokens_includes_server_tools_earlier_turns_and_sealed_reasoning() -> None:
    options: Any = {"servers": [Workshop()], "seal": Seal([bytes(32)]), "api_key": "any"}
    with written(CALL, **options) as (server, engine), claude(server.url) as client:
        ask: Any = {"model": "m", "mcp_servers": [MCP_SERVER], "betas": BETA, "tools": [ANTHROPIC_TOOL]}
        ask["system"] = "Be brief."
        first = client.beta.messages.create(**ask, messages=HELLO, max_tokens=99)
        use: Any = first.content[-1]
        result: Any = [{"type": "tool_result", "tool_use_id": use.id, "content": "20"}]
        said: Any = [block.model_dump(exclude_none=True) for block in first.content]
        history: Any = [*HELLO, {"role": "assistant", "content": said}, {"role": "user", "content": result}]
        counted = client.beta.messages.count_tokens(**ask, messages=history).input_tokens
        assert len(engine.requests) == 1
        client.beta.messages.create(**ask, messages=history, max_tokens=99)
        with pytest.raises(anthropic.BadRequestError, match="messages: is empty"):
            client.messages.count_tokens(model="m", messages=[])
    assert extends(engine, 1, CALL)
    assert counted == len(engine.requests[1].prompt_ids or ())
    assert "guarded" not in str(engine.requests[1].tools)
    assert "browser.open" in str(engine.requests[1].tools)


def test_what_ends_in_an_answer_is_counted_whatever_that_spells() -> None:
    with written(CALL) as (server, _), claude(server.url) as client:
        said: Any = {"role": "assistant", "content": "It ends with <|im_end|>."}
        assert client.messages.count_tokens(model="m", messages=[*HELLO, said]).input_tokens > 9
        with pytest.raises(anthropic.BadRequestError, match="messages: the last message spells"):
            client.messages.create(model="m", max_tokens=9, messages=[*HELLO, said])


def test_tokens_cannot_be_counted_without_a_tokenizer() -> None:
    with live(Scripted(["x"])) as server, claude(server.url) as client:
        with pytest.raises(anthropic.APIStatusError, match="has no tokenizer") as error:
            client.messages.count_tokens(model="m", messages=HELLO)
        assert error.value.status_code == 501
        assert server.http.head("/").status_code == 200
        assert server.post("/v1/messages?beta=true", messages=HELLO, max_tokens=9).status_code == 200


def test_claude_codes_fields_are_read_and_its_hosted_tools_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    engine = Writing(ANSWER)
    tools = [ANTHROPIC_TOOL, {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}]
    ask: Any = {"max_tokens": 99, "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}, "tools": tools}
    edits = [{"type": "clear_thinking_20251015", "keep": "all"}, {"type": "clear_tool_uses_20250919"}]
    asking = caplog.at_level(logging.INFO, "unspool.server")
    with asking, live(engine, "hermes", prompts=template(), efforts={"high": 99}) as server:
        history: list[Any] = list(HELLO)
        for keep in (edits, [{"type": "clear_thinking_20251015"}]):
            answer = server.ok("/v1/messages", **ask, messages=history, context_management={"edits": keep})
            assert answer.json()["context_management"] == {"applied_edits": []}
            said = [b for b in answer.json()["content"] if b["type"] == "text"]
            history += [{"role": "assistant", "content": said}, {"role": "user", "content": "More"}]
        server.post("/v1/messages", **ask, messages=history, context_management={"edits": edits})
        assert "web_search_20250305" in caplog.text
    assert [t["function"]["name"] for t in engine.requests[0].tools] == ["get_weather"]
    assert [r.thinking and r.thinking.budget for r in engine.requests] == [99] * 3
    assert not extends(engine, 1, ANSWER)
    assert extends(engine, 2, ANSWER)


CLEAR: Any = {"type": "clear_tool_uses_20250919"}


def test_results_of_tools_are_cleared_out_of_a_long_history_and_the_answer_tells_it() -> None:
    engine = Writing(ANSWER)
    history: list[Any] = list(HELLO)
    for i in range(5):
        use = {"type": "tool_use", "id": f"t{i}", "name": "get_weather", "input": {"city": f"City {i}"}}
        result = {"type": "tool_result", "tool_use_id": f"t{i}", "content": f"Rain {i}. " * 20}
        history += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    betas = ["context-management-2025-06-27"]
    ask: Any = {"model": "m", "messages": history, "tools": [ANTHROPIC_TOOL], "betas": betas}
    edit: Any = {**CLEAR, "trigger": {"type": "tool_uses", "value": 4}, "keep": {"type": "tool_uses", "value": 2}}
    with live(engine, "hermes", prompts=template()) as server, claude(server.url) as client:
        messages = client.beta.messages
        plain = messages.count_tokens(**ask).input_tokens
        counted = messages.count_tokens(**ask, context_management={"edits": [edit]})
        assert messages.count_tokens(**ask, extra_body={"compaction": {"type": "summarize"}}).input_tokens == plain
        whole = messages.create(**ask, max_tokens=9, context_management={"edits": [edit]})
        with messages.stream(**ask, max_tokens=9, context_management={"edits": [edit]}) as stream:
            last = [event for event in stream if event.type == "message_delta"]
        assert whole.context_management is not None
        (applied,) = whole.context_management.applied_edits
        assert (applied.type, applied.cleared_tool_uses) == ("clear_tool_uses_20250919", 3)
        assert applied.cleared_input_tokens == plain - counted.input_tokens > 50
        assert counted.context_management is not None
        assert counted.context_management.original_input_tokens == plain
        assert [event.context_management for event in last] == [whole.context_management]
        untouched = messages.create(**ask, max_tokens=9, context_management={"edits": [CLEAR]})
        assert untouched.context_management is not None
        assert untouched.context_management.applied_edits == []
    prompt = str(engine.requests[0].prompt)
    assert [i for i in range(5) if f"Rain {i}." in prompt] == [3, 4]
    assert all(f"City {i}" in prompt for i in range(5))
    assert prompt.count(CLEARED) == 3
    assert CLEARED not in str(engine.requests[-1].prompt)
    assert len(TOKENIZER.encode(prompt, add_special_tokens=False).ids) == counted.input_tokens


def test_a_schema_of_messages_constrains_the_content() -> None:
    engine = Scripted(["{}"])
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    fields = {"format": {"type": "json_schema", "schema": schema}}
    with live(engine, "hermes") as server:
        server.post("/v1/messages", messages=HELLO, max_tokens=9, output_config=fields)
    assert engine.requests[0].constraint is not None
