"""Reasoning that survives a round trip through clients: sealed, signed, summarised, budgeted."""

import os
from typing import Any

import openai
import pytest

from unspool.request.sealed import MAX_SEALED, Seal

from .support import CHAT, HELLO, MINIMAL, Live, Scripted, agui_events, both, chunks, live
from .test_protocols import AGUI, ON, RESPONSES_TOOL, claude
from .writing import template

RAW = "First I look. Then I act.</think>Done."
THOUGHT = "First I look. Then I act."
KEY = os.urandom(32)
SEALED: Any = ["reasoning.encrypted_content"]


def sealed_item(sealed: str | None) -> Any:
    return {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": sealed}


def test_responses_seal_reasoning_where_it_is_asked_for_and_take_it_back_without_its_text() -> None:
    with live(Scripted([RAW]), "deepseek", seal=Seal([KEY]), api_key="k") as server:
        ask: Any = {"model": "m", "store": False, "reasoning": {"effort": "high", "summary": "auto"}}
        for response in both(server.openai.responses, **ask, input="Hello", include=SEALED):
            item: Any = response.output[0]
            assert item.content[0].text == THOUGHT
            assert [s.text for s in item.summary] == ["First I look."]
            back: Any = {"type": "reasoning", "id": item.id, "summary": [], "encrypted_content": item.encrypted_content}
            history = [{"role": "user", "content": "Hello"}, back, response.output[1].model_dump(), HELLO[0]]
            server.openai.responses.create(**ask, input=history)
            assert server.engine.requests[-1].messages[1]["reasoning_content"] == THOUGHT
        plain = server.openai.responses.create(**ask, input="Hello")
        assert "encrypted_content" not in plain.output[0].model_fields_set


def test_without_a_key_nothing_is_sealed_and_what_only_a_key_could_read_is_refused() -> None:
    with live(Scripted([RAW]), "deepseek") as server:
        response = server.openai.responses.create(model="m", input="Hello", include=SEALED)
        assert "encrypted_content" not in response.output[0].model_fields_set
        item: Any = sealed_item("gAAAAA")
        with pytest.raises(openai.BadRequestError, match=r"input\[0\].encrypted_content: cannot be read"):
            server.openai.responses.create(model="m", input=[item, HELLO[0]])
        item["summary"] = [{"type": "summary_text", "text": "s"}]
        server.openai.responses.create(model="m", input=[item, HELLO[0]])


def as_client(server: Live, key: str | None, name: str = "Authorization") -> None:
    """Use only this API key in requests from now on."""
    sent = {} if key is None else {name: f"Bearer {key}" if name == "Authorization" else key}
    server.http.headers = {"Content-Type": "application/json", **sent}


@pytest.mark.parametrize("needed", [None, "k"])
def test_sealed_reasoning_belongs_to_the_clients_api_key_even_if_none_is_required(needed: str | None) -> None:
    seal = Seal([KEY])
    keys = {None, "k", "other"} if needed is None else {needed}
    with live(Scripted([RAW]), "deepseek", seal=seal, api_key=needed) as server:
        made: dict[str | None, list[str]] = {}
        for key in keys:
            as_client(server, key)
            made[key] = sealed_by(server)
        for key, name in ((key, name) for key in keys for name in ("Authorization", "X-Api-Key")):
            as_client(server, key, name)
            for owner, sealed in made.items():
                for one in sealed:
                    if owner == key:
                        item = sealed_item(one)
                        assert server.post("/v1/responses", input=[item, HELLO[0]]).status_code == 200
                    else:
                        refused(server, one)
            for foreign in ("gAAAAABforeign", "é", "\ud800", Seal([os.urandom(32)]).seal(THOUGHT)):
                refused(server, foreign)
            for foreign in (seal.seal(THOUGHT), seal.bound_to(b"else").seal(THOUGHT)):
                if key is not None:
                    refused(server, foreign)
        # A second key beside the right one, from clients that send two kinds of header, changes nothing.
        if needed is not None:
            as_client(server, "other")
            server.http.headers["X-Api-Key"] = needed
            item = sealed_item(made[needed][0])
            assert server.post("/v1/responses", input=[item, HELLO[0]]).status_code == 200


def test_reasoning_that_is_too_long_is_reported_in_full_but_not_sealed() -> None:
    thought = "a" * MAX_SEALED
    with live(Scripted(["<think>", thought, "</think>Done."]), "deepseek", seal=Seal([KEY])) as server:
        (item, _) = server.post("/v1/responses", input="Hello", include=SEALED).json()["output"]
        assert item.get("encrypted_content") is None
        assert item["content"][0]["text"] == thought
        whole = server.post("/v1/messages", max_tokens=4096, messages=HELLO).json()["content"][0]
        assert (whole["signature"], whole["thinking"]) == ("", thought)
        said = "has 2,097,153 characters; allowed are 2,097,152"
        item = sealed_item("A" * (MAX_SEALED + 1))
        refused = server.post("/v1/responses", input=[item, HELLO[0]])
        assert (refused.status_code, said in refused.text) == (400, True)


def refused(server: Live, sealed: str | None) -> None:
    said = "was made by another server or for another API key"
    item: Any = sealed_item(sealed)
    answer = server.post("/v1/responses", input=[item, HELLO[0]])
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input[0].encrypted_content")
    assert said in answer.text
    thinking = {"type": "thinking", "thinking": "x", "signature": sealed}
    for block in (thinking, {"type": "redacted_thinking", "data": sealed}):
        history = [HELLO[0], {"role": "assistant", "content": [block]}, HELLO[0]]
        answer = server.post("/v1/messages", max_tokens=9, messages=history)
        assert answer.status_code == 400
        assert "messages[1].content[0]." in answer.text
        assert said in answer.text
    messages = [{"id": "1", "role": "reasoning", "content": "x", "encryptedValue": sealed}, AGUI["messages"][0]]
    answer = server.post("/ag-ui", **{**AGUI, "messages": messages})
    assert answer.status_code == 400
    assert "messages[0].encryptedValue" in answer.text


@pytest.mark.parametrize("omitted", [False, True])
def test_anthropics_client_gets_signed_thinking_and_its_signature_alone_brings_it_back(omitted: bool) -> None:
    engine = Scripted([RAW])
    thinking: Any = {**ON, "display": "omitted"} if omitted else ON
    with live(engine, "deepseek", seal=Seal([KEY])) as server, claude(server.url) as client:
        ask: Any = {"model": "m", "max_tokens": 9, "messages": HELLO, "thinking": thinking}
        answers = both(client.messages, **ask)
        asked = engine.requests[0].thinking
        assert asked is not None
        assert (asked.budget, asked.opening, asked.closing, asked.inside) == (1024, "<think>", "</think>", True)
        for message in answers:
            block = message.content[0]
            assert (block.type, block.thinking) == ("thinking", "" if omitted else THOUGHT)
            redacted = {"type": "redacted_thinking", "data": block.signature}
            for expected in ({**block.model_dump(), "thinking": ""}, redacted):
                history: Any = [HELLO[0], {"role": "assistant", "content": [expected, message.content[1]]}, HELLO[0]]
                client.messages.create(**{**ask, "messages": history})
                assert engine.requests[-1].messages[1]["reasoning_content"] == THOUGHT


def test_without_a_key_thinking_is_not_omitted_since_it_could_not_come_back() -> None:
    with live(Scripted([RAW]), "deepseek") as server, claude(server.url) as client:
        thinking: Any = {**ON, "display": "omitted"}
        message: Any = client.messages.create(model="m", max_tokens=9, messages=HELLO, thinking=thinking)
    assert (message.content[0].thinking, message.content[0].signature) == (THOUGHT, "")


def test_a_run_of_ag_ui_tells_the_sealed_value_of_its_reasoning_and_its_history_brings_it_back() -> None:
    with live(Scripted([RAW]), "deepseek", seal=Seal([KEY])) as server:
        events = agui_events(server.post("/ag-ui", **AGUI).text)
        kinds = [e["type"] for e in events]
        at = kinds.index("REASONING_ENCRYPTED_VALUE")
        assert (kinds[at - 1], kinds[at + 1]) == ("REASONING_MESSAGE_END", "REASONING_END")
        sealed_event = events[at]
        assert (sealed_event["subtype"], sealed_event["entityId"]) == ("message", events[at - 1]["messageId"])
        sealed = {"id": sealed_event["entityId"], "encryptedValue": sealed_event["encryptedValue"]}
        history = [
            AGUI["messages"][0],
            {"role": "reasoning", "content": "", **sealed},
            {"id": "a", "role": "assistant", "content": "Done."},
            {"id": "u", "role": "user", "content": "More"},
        ]
        assert server.post("/ag-ui", **{**AGUI, "messages": history}).status_code == 200
    said = {"role": "assistant", "content": "Done.", "reasoning_content": THOUGHT}
    assert server.engine.requests[-1].messages[1] == said


def test_a_stream_of_responses_tells_the_summary_as_the_official_client_expects_it() -> None:
    raw = "Look at it.\n\n" + "word " * 100 + "end\n\nAct on it.</think>Ok."
    with live(Scripted(list(raw)), "deepseek") as server:
        ask: Any = {"model": "m", "input": "x", "reasoning": {"summary": "detailed"}, "tools": [RESPONSES_TOOL]}
        with server.openai.responses.stream(**ask) as stream:
            parts = [e for e in stream if e.type == "response.reasoning_summary_text.done"]
            final: Any = stream.get_final_response()
        whole: Any = server.openai.responses.create(**ask)
    texts = [s.text for s in final.output[0].summary]
    assert [(p.summary_index, p.text) for p in parts] == list(enumerate(texts))
    assert (texts[0], texts[-1], len(texts)) == ("Look at it.", "Act on it.", 3)
    assert [s.text for s in whole.output[0].summary] == texts


def test_the_candle_profile_has_a_summary_among_its_extensions_where_it_is_asked_for() -> None:
    with live(Scripted([RAW]), "deepseek", profile="candle") as server:
        ask: Any = {"messages": HELLO, "reasoning": {"summary": "auto"}}
        assert server.post(**ask).json()["extensions"]["reasoning_summary"] == ["First I look."]
        assert "reasoning_summary" not in server.post(messages=HELLO).json()["extensions"]


def sealed_by(server: Live) -> list[str]:
    """The sealed texts that each protocol reports."""
    items = server.post("/v1/responses", input="Hello", include=SEALED).json()["output"]
    thinks = server.post("/v1/messages", max_tokens=9, messages=HELLO, thinking=ON).json()["content"]
    events = chunks(server.post("/ag-ui", **AGUI).text)
    encrypted = next(e["encryptedValue"] for e in events if e["type"] == "REASONING_ENCRYPTED_VALUE")
    return [items[0]["encrypted_content"], thinks[0]["signature"], encrypted]


BUDGETS: list[tuple[str, Any, int | None]] = [
    (CHAT, {"thinking_budget": 9}, 9),
    (CHAT, {"thinking_token_budget": 0}, 0),
    (CHAT, {"chat_template_kwargs": {"thinking_budget": 8}}, 8),
    (CHAT, {"reasoning": {"max_tokens": 7}}, 7),
    (CHAT, {"thinking": {"type": "enabled", "budget_tokens": 6}}, 6),
    (CHAT, {"reasoning_effort": "low"}, 50),
    (CHAT, {"reasoning_effort": "low", "thinking_budget": 9}, 9),
    (CHAT, {"reasoning_effort": "high"}, None),
    ("/v1/responses", {"reasoning": {"effort": "low"}}, 50),
    ("/v1/responses", {"reasoning": {"effort": "low", "max_tokens": 9}}, 9),
    ("/v1/messages", {"thinking": {"type": "enabled", "budget_tokens": 1024}}, 1024),
    ("/v1/messages", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, 50),
    ("/ag-ui", {"forwardedProps": {"thinking_budget": 9}}, 9),
    ("/ag-ui", {"forwardedProps": {"reasoning_effort": "low"}}, 50),
    (CHAT, {"thinking": False, "thinking_budget": 9}, None),
]


def test_every_protocol_has_budgets_and_those_of_efforts() -> None:
    with live(Scripted([RAW]), "deepseek", efforts={"low": 50}) as server:
        for path, options, budget in BUDGETS:
            for stream in (False, True):
                ask = {"/v1/responses": {"input": "Hello"}, "/ag-ui": AGUI}.get(path, {"messages": HELLO})
                more = {"max_tokens": 4096} if path == "/v1/messages" else {}
                server.ok(path, **{**ask, **more, "stream": stream, **options})
                asked = server.engine.requests[-1].thinking
                assert (None if asked is None else asked.budget) == budget, (path, options)


PICKY = """{% if enable_thinking is defined %}{{ raise_exception('no thinking here') }}{% endif -%}
{% if reasoning_effort is defined and reasoning_effort != 'high' %}{{ raise_exception('high or nothing') }}{% endif -%}
{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content or '' }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
REFUSED: Any = [
    (CHAT, {"enable_thinking": True}, "enable_thinking", "no thinking here"),
    (CHAT, {"reasoning_effort": "low"}, "reasoning_effort", ""),
    (CHAT, {"chat_template_kwargs": {"reasoning_effort": "low"}}, "chat_template_kwargs.reasoning_effort", ""),
    ("/v1/responses", {"reasoning": {"effort": "low"}}, "reasoning.effort", ""),
    ("/v1/messages", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, "thinking.type", "no"),
    ("/ag-ui", {"forwardedProps": {"thinking": {"enabled": True}}}, "forwardedProps.thinking.enabled", ""),
]


@pytest.mark.parametrize(("path", "more", "field", "why"), REFUSED)
def test_a_variable_that_the_template_refuses_is_an_error_of_the_field_that_sets_it(
    path: str, more: Any, field: str, why: str
) -> None:
    with live(Scripted(["ok"]), "hermes", prompts=template(PICKY)) as server:
        server.ok(path, **MINIMAL[path])
        answer = server.post(path, **{**MINIMAL[path], **more})
    assert answer.status_code == 400
    assert f'"{field}: the chat template rejected the request: TemplateError: {why}' in answer.text


def test_an_effort_of_messages_that_the_template_refuses_is_an_error_of_output_config() -> None:
    asked: Any = {"messages": HELLO, "max_tokens": 9, "thinking": {"type": "adaptive"}}
    with live(Scripted(["ok"]), "hermes", prompts=template(PICKY.split("\n", 1)[1])) as server:
        server.ok("/v1/messages", **asked, output_config={"effort": "high"})
        answer = server.post("/v1/messages", **asked, output_config={"effort": "low"})
    assert (answer.status_code, "output_config.effort: the chat template rejected" in answer.text) == (400, True)
