"""The other protocols, read by the official clients, and one output through all of them."""

import json
import re
from itertools import product
from pathlib import Path
from typing import Any, get_args, get_type_hints

import anthropic
import openai
import pytest
from ag_ui.core import RunAgentInput
from anthropic.types.beta import BetaContentBlockParam, BetaToolUnionParam
from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming as MessagesParams
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming as ChatParams
from openai.types.completion_create_params import CompletionCreateParamsNonStreaming as CompletionsParams
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming as ResponsesParams

from unspool.request.server_history import result_text

from ..support import calling, function_call
from .support import CHAT, HELLO, MINIMAL, PATIENCE, Scripted, both, chunks, live, replay, written
from .test_chat import V31

RAW = f"Hm.</think>Let me look.{V31}"
ANTHROPIC_TOOL: Any = {"name": "get_weather", "input_schema": {"type": "object", "properties": {}}}
RESPONSES_TOOL: Any = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}, "strict": False}
AGUI: Any = {
    **MINIMAL["/ag-ui"],
    "messages": [{"id": "1", **HELLO[0]}],
    "tools": [{"name": "get_weather", "description": "", "parameters": {"type": "object"}}],
    "forwardedProps": {"thinking": True},
}
ON: Any = {"type": "enabled", "budget_tokens": 1024}


def claude(url: str, key: str = "any") -> anthropic.Anthropic:
    plain = anthropic.DefaultHttpxClient(timeout=PATIENCE, verify=False)
    return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, http_client=plain)


def heard(path: str, **body: Any) -> list[Any]:
    """The messages of a request as its engine gets them."""
    with live(Scripted(["ok"])) as server:
        server.ok(path, **body)
        return list(server.engine.requests[0].messages)


def test_anthropics_client_reads_streams_and_whole_answers() -> None:
    with live(replay(RAW), "deepseekv31") as server, claude(server.url) as client:
        ask: Any = {"model": "m", "max_tokens": 9, "messages": HELLO, "tools": [ANTHROPIC_TOOL], "thinking": ON}
        answers = both(client.messages, **ask)
    kinds: list[Any] = []
    for message in answers:
        thinking, text, call = message.content
        assert (thinking.type, text.type, call.type) == ("thinking", "text", "tool_use")
        kinds.append((thinking.thinking, text.text, call.name, call.input))
        assert message.stop_reason == "tool_use"
        assert (message.usage.input_tokens, message.usage.output_tokens) == (8, 7)
    assert kinds == [("Hm.", "Let me look.", "get_weather", {"city": "北京"})] * 2


def test_a_stop_sequence_is_sent_to_anthropics_client() -> None:
    with live(replay("one two three"), "hermes") as server, claude(server.url) as client:
        ask: Any = {"model": "m", "max_tokens": 9, "messages": HELLO, "stop_sequences": ["zz", " three"]}
        answers = both(client.messages, **ask)
    for message in answers:
        assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", " three")
        assert message.content[0].text == "one two"


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def result(id: str, content: Any = None, **more: Any) -> dict[str, Any]:
    """A result in messages as chat completions have them."""
    return {"role": "tool", "tool_call_id": id, "content": content, **more}


def test_history_of_anthropics_client_becomes_that_of_chat_completions() -> None:
    use = {"type": "tool_use", "id": "1", "name": "f", "input": {"x": "é"}}
    answer = [{"type": "thinking", "thinking": "th", "signature": ""}, text("c"), use]
    results: list[Any] = [{"content": [text("r")]}, {"content": "no file", "is_error": True}, {"is_error": True}]
    blocks = [{"type": "tool_result", "tool_use_id": str(i), **one} for i, one in enumerate(results, 1)]
    history: Any = [{"role": "user", "content": [text("a"), text("b")]}, {"role": "assistant", "content": answer}]
    history += [{"role": "user", "content": [*blocks, text("d")]}]
    engine = Scripted(["ok"])
    with live(engine) as server, claude(server.url) as client:
        client.messages.create(model="m", max_tokens=1, system=[text("s"), text("t")], messages=history)  # type: ignore[list-item]
    assert list(engine.requests[0].messages) == [
        {"role": "system", "content": "st"},
        {"role": "user", "content": "ab"},
        calling(function_call("f", {"x": "é"}, "1"), content="c", reasoning_content="th"),
        result("1", "r"),
        result("2", "no file"),
        result("3", "Error"),
        {"role": "user", "content": "d"},
    ]
    assert engine.requests[0].max_tokens == 1


def test_openais_client_reads_responses() -> None:
    ask: Any = {"model": "m", "input": "Hello", "tools": [RESPONSES_TOOL], "reasoning": {"effort": "high"}}
    with live(replay(RAW), "deepseekv31") as server:
        answers = both(server.openai.responses, **ask)
    for response in answers:
        reasoning, message, call = response.output
        assert reasoning.content[0].text == "Hm."
        assert message.content[0].text == "Let me look."
        assert (call.name, call.arguments) == ("get_weather", '{"city": "北京"}')
        assert response.status == "completed"
        assert response.usage is not None
        assert response.usage.output_tokens_details.reasoning_tokens == 2


def test_input_of_responses_becomes_the_history_of_chat_completions() -> None:
    given: Any = [
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "refusal", "refusal": "!"}]},
        {"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": "th"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{"},
        {"type": "function_call", "call_id": "2", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "r"},
    ]
    calls = function_call("f", "{", "1"), function_call("g", "{}", "2")
    assert heard("/v1/responses", instructions="i", input=given) == [
        {"role": "system", "content": "i"},
        {"role": "user", "content": "a!"},
        calling(*calls, content="b", reasoning_content="th"),
        result("1", "r"),
    ]


def test_messages_of_ag_ui_become_those_of_chat_completions() -> None:
    call = function_call("f", "{", "1")
    messages: list[Any] = [{"role": "user", "content": "a"}, {"role": "reasoning", "content": "th"}]
    messages += [{"role": "assistant", "toolCalls": [call]}, {"role": "tool", "toolCallId": "1", "content": "r"}]
    messages += [{"role": "activity", "activityType": "x", "content": {}}]
    messages += [{"role": "tool", "toolCallId": "1", "content": c, "error": "failed"} for c in ("", "half", "failed")]
    given = [{"id": str(i), **one} for i, one in enumerate(messages)]
    context = [{"description": "page", "value": "home"}]
    assert heard("/ag-ui", **{**AGUI, "messages": given, "context": context}) == [
        {"role": "system", "content": "page: home"},
        {"role": "user", "content": "a"},
        calling(call, content=None, reasoning_content="th"),
        *(result("1", content) for content in ("r", "failed", "half\n\nfailed", "failed")),
    ]


IDLE = {"model", "stream", "betas", "protocolVersion", "forwardedProps", "prompt_cache_options", "stream_options"}
"""Fields of the official clients that are tested elsewhere, or choose nothing, such as headers."""


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (CHAT, get_type_hints(ChatParams)),
        ("/v1/completions", get_type_hints(CompletionsParams)),
        ("/v1/responses", get_type_hints(ResponsesParams)),
        ("/v1/messages", get_type_hints(MessagesParams)),
        ("/ag-ui", [field.alias or name for name, field in RunAgentInput.model_fields.items()]),
    ],
)
def test_each_parameter_of_the_official_clients_is_read_or_refused_or_documented_to_have_no_effect(
    path: str, names: Any
) -> None:
    documented = (Path(__file__).parents[2] / "docs/en/server.md").read_text(encoding="utf-8")
    idle = {*re.findall(r"`(\w+)`", re.findall(r"(?s)\* These fields have no effect(.*?)\n\*", documented)[0]), *IDLE}
    with live(Scripted(["ok"])) as server:
        for name in {*names} - idle:
            answer = server.post(path, **{**MINIMAL[path], name: [[["odd"]]]})
            assert answer.status_code == 400, f"{name} is ignored"
            assert name in answer.text


def test_options_of_chat_completions_that_ag_ui_passes_on_have_their_effect() -> None:
    options = {"stop": ["two"], "max_completion_tokens": 5, "parallel_tool_calls": False}
    with live(Scripted(["one two"])) as server:
        events = chunks(server.ok("/ag-ui", **{**AGUI, "forwardedProps": options}).text)
        assert "".join(e["delta"] for e in events if e["type"] == "TEXT_MESSAGE_CONTENT") == "one "
        assert server.engine.requests[0].max_tokens == 5


def test_anthropics_client_sends_the_whole_conversation_where_it_would_send_a_thread() -> None:
    @anthropic.beta_tool
    def look(city: str) -> str:
        """Looks.

        Args:
            city: where
        """
        return f"{city}: rain"

    call = '<tool_call>\n{"name": "look", "arguments": {"city": "Oslo"}}\n</tool_call>'
    with written(call, "It rains.") as (server, engine), claude(server.url) as client:
        ask: Any = {"model": "m", "max_tokens": 99, "messages": HELLO, "system": "Be brief.", "tools": [look]}
        answer = client.beta.messages.tool_runner(**ask).until_done()
        assert [block.text for block in answer.content] == ["It rains."]
    heard = engine.requests[-1]
    assert [m["role"] for m in heard.messages] == ["system", "user", "assistant", "tool"]
    assert heard.messages[-1]["content"] == "Oslo: rain"
    assert [tool["function"]["name"] for tool in heard.tools or ()] == ["look"]


@pytest.mark.parametrize("otherwise", ["error", "continue_unthreaded"])
def test_a_thread_of_anthropics_client_loses_no_message(otherwise: Any) -> None:
    with written("One.", "Two.", "Three.") as (server, engine), claude(server.url) as client:
        thread = client.beta.messages.thread(model="m", max_tokens=9, unsupported_request_behavior=otherwise)
        for text in ("1?", "2?", "3?"):
            thread.send({"role": "user", "content": text})
    said = ["1?", "One.", "2?", "Two.", "3?"]
    assert [m["content"] for m in engine.requests[-1].messages] == said


def test_the_official_clients_read_the_list_of_models() -> None:
    with live(Scripted(["ok"]), model="small") as server, claude(server.url) as client:
        (ours,) = server.openai.models.list()
        (theirs,) = client.models.list()
        assert (ours.id, theirs.id, theirs.display_name, theirs.type) == ("small", "small", "small", "model")
        assert theirs.created_at.timestamp() == ours.created
        assert client.models.retrieve("small") == theirs
        with pytest.raises(anthropic.NotFoundError) as caught:
            client.messages.batches.list()
        assert caught.value.type == "not_found_error"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (None, "No."),
        ("", "No."),
        ("Well.", "Well.\n\nNo."),
        ("No.", "No."),
        ("I can not. No.\n", "I can not. No.\n"),
        ("No. 5", "No. 5\n\nNo."),
    ],
)
def test_a_refusal_of_an_earlier_answer_is_in_its_content(content: Any, shown: str) -> None:
    refused = {"role": "assistant", "content": content, "refusal": "No."}
    assert heard("/v1/chat/completions", messages=[*HELLO, refused, *HELLO])[1]["content"] == shown


@pytest.mark.parametrize("role", ["system", "user", "tool", "assistant"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tool_calls", [function_call("f", id="1")]),
        ("tool_results", [{"id": "1", "name": "f", "arguments": "{}", "content": "r"}]),
        ("reasoning_content", "th"),
        ("reasoning", "th"),
        ("reasoning_details", [{"text": "th"}]),
        ("refusal", "No."),
    ],
)
def test_what_only_answers_have_is_refused_elsewhere(role: str, field: str, value: Any) -> None:
    message = {"role": role, "content": "a", "tool_call_id": "1"}
    refused = role != "assistant"
    with live(Scripted(["ok"])) as server:
        for given in (value, None, False, {}, [], *(["", "\n"] if refused else [])):
            asked = [*HELLO, {**message, field: given}]
            reply = server.post("/v1/chat/completions", model="m", messages=asked)
            assert reply.status_code == (400 if given == value and refused else 200), given
            assert given != value or not refused or f'"messages[1].{field}: ' in reply.text


@pytest.mark.parametrize(
    "thought",
    [
        {"type": "thinking", "thinking": "th", "signature": ""},
        {"type": "thinking", "thinking": [{"type": "text", "text": "th"}]},
        {"type": "reasoning", "reasoning": "th"},
    ],
)
def test_thoughts_that_are_parts_of_an_answer_are_its_reasoning(thought: dict[str, Any]) -> None:
    engine = Scripted(["ok"])
    with live(engine) as server:
        answer = {"role": "assistant", "content": [thought, text("a")]}
        server.ok("/v1/chat/completions", messages=[*HELLO, answer, *HELLO], functions=[], function_call=None)
        refused = server.post("/v1/chat/completions", messages=[{"role": "user", "content": [thought]}])
        assert (refused.status_code, "messages[0].content[0].type" in refused.text) == (400, True)
    assert engine.requests[0].messages[1] == {"role": "assistant", "content": "a", "reasoning_content": "th"}


def test_searches_at_anthropic_are_calls_with_results_of_the_history() -> None:
    found = [{"type": "web_search_result", "title": "Title", "url": "https://a.example", "encrypted_content": "x"}]
    found += [{"type": "web_search_result", "url": "https://b.example", "encrypted_content": "x"}]
    failed = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    blocks: list[Any] = [text("Let me look.")]
    for id, content in (("s1", found), ("s2", failed)):
        blocks += [{"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": id}}]
        blocks += [{"type": "web_search_tool_result", "tool_use_id": id, "content": content}]
    messages = [*HELLO, {"role": "assistant", "content": [*blocks, text("It is a.")]}, *HELLO]
    _, *history, _ = heard("/v1/messages", max_tokens=9, messages=messages)
    assert [m["content"] for m in history] == [
        "Let me look.", "Title\nhttps://a.example\n\nhttps://b.example", None, "max_uses_exceeded", "It is a.",
    ]  # fmt: skip
    calls = [call["function"] for m in history for call in m.get("tool_calls", ())]
    assert calls == [{"name": "web_search", "arguments": f'{{"query": "{id}"}}'} for id in ("s1", "s2")]


RESULTS = {
    "web_search": ("failed", "failed"),
    "web_fetch": (
        {"type": "web_fetch_result", "url": "U", "content": {"title": "T", "source": {"type": "text", "data": "D"}}},
        "U\nT\nD",
    ),
    "code_execution": ({"stdout": "O", "stderr": "E", "return_code": 0, "content": []}, "O\nE"),
    "bash_code_execution": ({"encrypted_stdout": "x", "stderr": "", "return_code": 0}, ""),
    "text_editor_code_execution": ({"content": "F", "num_lines": 1}, "F"),
    "tool_search": ({"tool_references": [{"type": "tool_reference", "tool_name": "f"}]}, "f"),
    "advisor": ({"type": "advisor_result", "text": "A"}, "A"),
    "some_later": (None, ""),
}
"""Results of tools that ran at Anthropic, and what the model reads of them."""


def test_each_result_that_anthropics_client_knows_has_a_text_however_odd_its_call() -> None:
    types = [str(vars(block).get("__annotations__", {}).get("type")) for block in get_args(BetaContentBlockParam)]
    assert set(re.findall("'(\\w+)_tool_result'", " ".join(types))) - {"mcp"} < RESULTS.keys()
    calls: list[Any] = [{"id": "i", "name": "n", "input": one} for one in ({"q": "1"}, '{"q": "1"}')]
    engine = Scripted(["ok"])
    with live(engine) as server:
        for (kind, (content, shown)), call in product(RESULTS.items(), [*calls, {"input": ""}, {}]):
            of_call = {"tool_use_id": "i"} if "id" in call else {}
            result = {"type": f"{kind}_tool_result", "content": content, **of_call}
            blocks = [{"type": "server_tool_use", **call}, result, {"type": "fallback"}]
            messages = [*HELLO, {"role": "assistant", "content": blocks}, *HELLO]
            reply = server.post("/v1/messages", model="m", max_tokens=9, messages=messages)
            assert reply.status_code == 200, reply.text
            _, said, told, *_ = engine.requests[-1].messages
            given = json.loads(said["tool_calls"][0]["function"]["arguments"])
            assert (given, told["content"]) == ({"q": "1"} if "id" in call else {}, shown)


OTHERS_RUN = ("web_search", "web_fetch", "code_execution", "tool_search_tool", "advisor", "mcp_toolset")
SETS = {"browser_toolset_20260801", "computer_toolset_20260801"}
"""Of tools that Anthropic's client knows without a schema: those that a server runs, and those that are refused."""


def test_each_tool_that_anthropics_client_knows_without_a_schema_is_a_function_of_the_same_name() -> None:
    annotated = " ".join(
        f"{vars(one)['__annotations__']['type']} {vars(one)['__annotations__'].get('name')}\n"
        for one in get_args(BetaToolUnionParam)
    )
    known = dict(re.findall(r"Literal\['(\w+)'.*?Literal\['(\w+)'", annotated))
    theirs = {kind: name for kind, name in known.items() if not kind.startswith(OTHERS_RUN) and kind not in SETS}
    assert {"bash", "str_replace_editor", "str_replace_based_edit_tool", "computer", "memory"} == set(theirs.values())
    engine = Scripted(["ok"])
    with live(engine) as server:
        for kind, name in theirs.items():
            size = {"display_width_px": 1024.0, "display_height_px": 768} if name == "computer" else {}
            choice = {"type": "tool", "name": name}
            asked = {"model": "m", "max_tokens": 9, "messages": HELLO, "tool_choice": choice}
            reply = server.post("/v1/messages", **asked, tools=[{"type": kind, "name": name, "strict": True, **size}])
            assert reply.status_code == 200, reply.text
            (tool,) = engine.requests[-1].tools
            function = tool["function"]
            assert (function["name"], "1024 × 768" in function["description"]) == (name, bool(size))
            assert function["strict"] is True
            assert set(function["parameters"]["required"]) <= function["parameters"]["properties"].keys()
            assert engine.requests[-1].constraint is not None, "its calls are constrained"


def test_blocks_of_the_history_change_the_tools_of_messages_and_a_cleared_message_is_not_shown() -> None:
    a, b, c = ({"name": name, "input_schema": {"type": "object", "properties": {}}} for name in "abc")
    added = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": c}}
    again, removed = (
        {"type": kind, "tool": {"type": "tool_reference", "name": name}}
        for kind, name in (("tool_addition", "a"), ("tool_removal", "b"))
    )
    gone = {**removed, "tool": {"type": "tool_reference", "name": "a"}}
    compacted = {"type": "compaction", "content": "Before.", "tool_changes": [gone]}
    system = {"role": "system", "content": [added, removed, text("Mind.")]}
    once = {"role": "system", "content": "Once.", "clear_at": "next_user_message"}
    silent = {"role": "system", "content": [again]}
    messages: list[Any] = [*HELLO, {"role": "assistant", "content": [compacted]}, *HELLO, once, system, *HELLO]
    ask: Any = {"model": "m", "max_tokens": 9, "tools": [a, b]}
    engine = Scripted(["ok"])
    with live(engine) as server:
        for history in (messages, [*messages, silent, once]):
            reply = server.post("/v1/messages", **ask, messages=history)
            assert reply.status_code == 200, reply.text
        failed = {"role": "assistant", "content": [{**compacted, "content": None}]}
        assert server.post("/v1/messages", **ask, messages=[*HELLO, failed, *HELLO]).status_code == 200
        unknown = {**removed, "tool": {"type": "mcp_toolset_reference", "server_name": "s"}}
        reply = server.post("/v1/messages", **ask, messages=[*HELLO, {"role": "system", "content": [unknown]}])
        assert (reply.status_code, "mcp_toolset_reference" in reply.text) == (400, True)
    first, second = engine.requests[:2]
    assert [[t["function"]["name"] for t in one.tools] for one in engine.requests] == [["c"], ["a", "c"], ["a", "b"]]
    assert [m["content"] for m in first.messages] == ["Hello", "Before.", "Hello", "Mind.", "Hello"]
    assert [m["content"] for m in second.messages][5:] == ["Once."]


def test_the_last_effort_that_a_system_message_sets_counts() -> None:
    high, low = ({"role": "system", "output_config": {"effort": effort}} for effort in ("high", "low"))
    ask: Any = {"max_tokens": 9, "thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}}
    engine = Scripted(["ok"])
    histories: Any = ([], [high], [high, *HELLO, {**low, "content": "Mind."}], [{**high, "content": []}])
    with live(engine, efforts={"low": 50}) as server:
        for history in histories:
            server.ok("/v1/messages", **ask, messages=[*HELLO, *history, *HELLO])
        odd = {"role": "system", "content": "x", "output_config": {"effort": "odd"}}
        for bad, wrong in ((odd, "output_config.effort"), ({"role": "system", "output_config": {}}, "content")):
            reply = server.post("/v1/messages", **ask, messages=[*HELLO, bad, *HELLO])
            assert (reply.status_code, f"messages[1].{wrong}" in reply.text) == (400, True), reply.text
    assert [one.variables["reasoning_effort"] for one in engine.requests] == ["medium", "high", "low", "high"]
    assert [one.thinking and one.thinking.budget for one in engine.requests] == [None, None, 50, None]
    assert [m["content"] for m in engine.requests[2].messages] == ["Hello", "Hello", "Mind.", "Hello"]


def test_items_that_say_nothing_to_the_model_change_its_settings_or_are_the_clients_own() -> None:
    schema = {"type": "json_schema", "name": "s", "schema": {"type": "object"}}
    high, low = (
        {"type": "configuration_update", "reasoning": {"effort": effort}, **more}
        for effort, more in (("high", {"text": {"format": schema}}), ("none", {}))
    )
    snapshot = {"type": "ghost_snapshot", "ghost_commit": {"id": "a", "parent": None}}
    engine = Scripted(["ok"])
    with live(engine, "hermes") as server:
        ask: Any = {"reasoning": {"effort": "low", "summary": "auto"}}
        for items in ([snapshot], [high], [high, snapshot, low]):
            reply = server.post("/v1/responses", **ask, input=[*HELLO, *items])
            assert (reply.status_code, reply.json().get("reasoning")) == (200, ask["reasoning"]), reply.text
        told = {"type": "configuration_update", "text": {"verbosity": "low"}}
        server.ok("/v1/responses", **ask, input=[*HELLO, told], text={"format": schema})
        later = server.post("/v1/responses", **ask, input="More", previous_response_id=reply.json()["id"])
        assert later.status_code == 200, later.text
        for bad in ({"reasoning": {"effort": "odd"}}, {"text": {"format": {"type": "odd"}}}):
            reply = server.post("/v1/responses", input=[*HELLO, {"type": "configuration_update", **bad}])
            assert (reply.status_code, '"odd\\" is not one of' in reply.text) == (400, True), reply.text
    assert [[m["content"] for m in one.messages] for one in engine.requests[:3]] == [["Hello"]] * 3
    assert [bool(one.constraint) for one in engine.requests] == [False, True, True, True, True]
    efforts = [one.variables.get("reasoning_effort") for one in engine.requests]
    assert efforts == ["low", "high", "none", "low", "none"]


def test_the_lines_of_an_edit_are_told_as_they_are_and_files_only_if_they_are_texts() -> None:
    assert result_text({"lines": ["-a", "", "+b"], "old_start": 1}) == "-a\n\n+b"
    assert result_text({"file_type": "text", "content": "F"}) == "F"
    assert result_text({"file_type": "image", "content": "AAAA"}) == ""


def test_what_anthropics_clients_found_and_summarized_is_text_of_the_history() -> None:
    found = {"type": "search_result", "source": "S", "title": "T", "content": [{"type": "text", "text": "GIF89a"}]}
    tool = {"type": "tool_result", "tool_use_id": "i", "content": [{"type": "tool_reference", "tool_name": "f"}, found]}
    answer = [{"type": "compaction", "content": "Before."}, {"type": "compaction", "content": None}]
    call = {"type": "tool_use", "id": "i", "name": "n", "input": {}}
    said = {"role": "assistant", "content": [*answer, text("Go "), text("on."), call]}
    messages = [*HELLO, said, {"role": "user", "content": [tool, found]}]
    shown = "[T]\nS\n\nGIF89a\n[End of T]\n"
    history = heard("/v1/messages", max_tokens=9, messages=messages)
    assert [m["content"] for m in history] == ["Hello", "Before.\n\nGo on.", f"f{shown}", shown]


def test_reasoning_after_a_message_of_ag_ui_belongs_to_it_and_is_dropped_without_one() -> None:
    history = "user:a reasoning:lost user:b reasoning:1 assistant:c reasoning:2 reasoning:3 user:d reasoning:4"
    pairs = [text.split(":") for text in history.split()]
    messages = [{"id": str(i), "role": role, "content": text} for i, (role, text) in enumerate(pairs)]
    said = heard("/ag-ui", **{**AGUI, "messages": messages})
    assert [(m["content"], m.get("reasoning_content")) for m in said] == [
        *(("a", None), ("b", None), ("c", "123"), ("d", None))
    ]


def test_a_failing_engine_gives_each_protocols_own_error() -> None:
    engine = Scripted(["a", "b"], fail_after=1)
    messages: Any = {"model": "m", "max_tokens": 9, "messages": HELLO}
    with live(engine, "hermes") as server, claude(server.url) as client:
        with (
            pytest.raises(anthropic.APIStatusError, match="the device is lost"),
            client.messages.stream(**messages) as s,
        ):
            s.get_final_message()
        with server.openai.responses.stream(model="m", input="x") as stream:
            kinds = [event.type for event in stream]
        run = chunks(server.post("/ag-ui", **AGUI).text)
        engine.fail_after = 0
        with pytest.raises(anthropic.InternalServerError):
            client.messages.create(**messages)
        with pytest.raises(openai.InternalServerError):
            server.openai.responses.create(model="m", input="x")
        early = server.post("/ag-ui", **AGUI)
    assert kinds[-1] == "response.failed"
    assert run[-1]["type"] == "RUN_ERROR"
    assert (early.status_code, early.json()["type"]) == (500, "RUN_ERROR")
