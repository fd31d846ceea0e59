"""Tools that the server runs: in every protocol, streamed and whole, read by the official clients."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pydantic
import pytest

from ..support import function_call
from .support import CHAT, MINIMAL, WEATHER, Live, agui_events, chunks, live
from .support import both as twice
from .test_protocols import claude
from .workshop import Workshop, call, model

ADD = call("add", a=2, b=3)
BETA = ["mcp-client-2025-11-20"]
MCP: Any = {"type": "mcp", "server_label": "workshop"}
MCP_SERVER: Any = {"type": "url", "name": "workshop", "url": "https://workshop.example"}
ANTHROPIC_WEATHER: Any = {"name": "get_weather", "input_schema": {"type": "object", "properties": {}}}
ANSWERS = {
    "add_please": f"Let me add.{ADD}",
    "sum=5": "It is 5.",
    "add_twice": f"{ADD}{call('add', a=4, b=5)}",
    "sum=9": "They are 5 and 9.",
    "mix_please": f"{ADD}{call('get_weather', city='Paris')}",
    "guard_please": f"May I?{call('guarded', a=7)}",
    "guard_and_add": f"{ADD}{call('guarded', a=8)}",
    "guarded=": "It was allowed.",
    "was_not_allowed": "Then not.",
    "code_please": call("python", code="print(42)"),
    "printed=42": "It is 42.",
    "page_please": call("browser.open", id="https://example.org/page"),
    "search_please": call("browser.search", query="pages"),
    "page=text": "The page says text.",
    "unknown_please": call("subtract", a=1),
    "There_is_no_tool": "There is none.",
    "No_more_tools": "No more.",
    "cut_please": '<tool_call>\n{"name": "add", "arguments": {"a": 1',
    "and_now": "Now this.",
}


@pytest.fixture(scope="module")
def workshop() -> Workshop:
    return Workshop()


@pytest.fixture(scope="module", name="live")
def _live(workshop: Workshop) -> Iterator[Live]:
    with live(model(**ANSWERS), "hermes", servers=[workshop]) as running:
        yield running


def asked(text: str) -> Any:
    return [{"role": "user", "content": text}]


# -- chat completions --------------------------------------------------------------------------------------------------


def test_chat_completions_hide_the_servers_calls_and_report_their_results(live: Live, workshop: Workshop) -> None:
    known = len(workshop.calls)
    whole, streamed = twice(live.openai.chat.completions, model="m", messages=asked("add please"))
    for answer in (whole, streamed):
        (choice,) = answer.choices
        assert (choice.message.content, choice.finish_reason) == ("Let me add.It is 5.", "stop")
        assert not choice.message.tool_calls
        (result,) = choice.message.tool_results
        result = result if isinstance(result, dict) else result.model_dump()
        assert (result["name"], result["server"]) == ("add", "workshop")
        assert json.loads(result["arguments"]) == {"a": 2, "b": 3}
        assert (result["content"], result["is_error"]) == ("sum=5", False)
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (22, 14), "each round reads its own prompt"
    assert workshop.calls[known:] == [("add", {"a": 2, "b": 3})] * 2


def test_calls_of_one_round_run_side_by_side_and_a_mixture_ends_with_the_clients(
    live: Live, workshop: Workshop
) -> None:
    workshop.most = 0
    twice = live.post(CHAT, messages=asked("add twice")).json()["choices"][0]["message"]
    assert ([r["content"] for r in twice["tool_results"]], workshop.most) == (["sum=5", "sum=9"], 2)
    assert twice["content"] == "They are 5 and 9."
    mixed = live.post(CHAT, messages=asked("mix please"), tools=[WEATHER]).json()["choices"][0]
    assert mixed["finish_reason"] == "tool_calls"
    (theirs,) = mixed["message"]["tool_calls"]
    assert theirs["function"] == {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    assert [r["content"] for r in mixed["message"]["tool_results"]] == ["sum=5"]
    streamed = chunks(live.post(CHAT, messages=asked("mix please"), tools=[WEATHER], stream=True).text)
    indexes = {c["index"] for chunk in streamed for c in chunk["choices"][0]["delta"].get("tool_calls", ())}
    assert indexes == {0}, "a client counts its own calls alone"


def test_a_request_may_do_without_the_servers_tools_or_choose_among_them(live: Live) -> None:
    for without in ({"server_tools": False}, {"tool_choice": "none"}):
        answer = live.post(CHAT, messages=asked("add please"), **without).json()["choices"][0]["message"]
        assert answer["content"] == f"Let me add.{ADD}"
    for chosen in (["workshop"], ["add"]):
        answer = live.post(CHAT, messages=asked("add please"), server_tools=chosen).json()["choices"][0]["message"]
        assert answer["content"] == "Let me add.It is 5."
    refused = live.post(CHAT, messages=asked("add please"), server_tools=["nothing"])
    assert refused.status_code == 400
    assert 'server_tools[0]: "nothing" is unknown' in refused.json()["error"]["message"]


def test_a_call_of_an_unknown_tool_is_answered_if_the_client_has_no_tools(live: Live) -> None:
    answer = live.post(CHAT, messages=asked("unknown please")).json()["choices"][0]["message"]
    assert answer["content"] == "There is none."
    assert answer["tool_results"][0]["is_error"]
    theirs = live.post(CHAT, messages=asked("unknown please"), tools=[WEATHER]).json()["choices"][0]
    assert theirs["message"]["tool_calls"][0]["function"]["name"] == "subtract"


def test_tools_that_need_approval_are_not_offered_if_nobody_can_approve(live: Live, workshop: Workshop) -> None:
    answer = live.post(CHAT, messages=asked("guard please")).json()["choices"][0]["message"]
    assert "There is no tool 'guarded'" in answer["tool_results"][0]["content"]
    assert "guarded" not in [name for name, _ in workshop.calls]


# -- Responses ---------------------------------------------------------------------------------------------------------


def both(live: Live, **request: Any) -> list[Any]:
    """The answer of Responses, whole and streamed, checked strictly by the client's types."""
    answers = twice(live.openai.responses, model="m", **request)
    for answer in answers:
        openai.types.responses.Response.model_validate(answer.model_dump(warnings=False))
    events: Any = pydantic.TypeAdapter(openai.types.responses.ResponseStreamEvent)
    same = {"Authorization": f"Bearer {live.openai.api_key}"}
    raw = live.http.post("/v1/responses", json={"stream": True, **request}, headers=same)
    assert raw.status_code == 200, raw.text
    for event in chunks(raw.text):
        events.validate_python(event)
    return answers


def test_responses_report_lists_calls_and_outputs_of_mcp(live: Live) -> None:
    for answer in both(live, input="add please", tools=[MCP]):
        listed, said, called, answered = answer.output
        assert "add" in [tool.name for tool in listed.tools]
        assert (called.type, called.name, called.server_label) == ("mcp_call", "add", "workshop")
        assert (json.loads(called.arguments), called.output, called.status) == ({"a": 2, "b": 3}, "sum=5", "completed")
        assert (said.content[0].text, answered.content[0].text) == ("Let me add.", "It is 5.")
        assert answer.status == "completed"


def test_responses_report_what_interpreter_and_browser_do(live: Live) -> None:
    tools: Any = [{"type": "code_interpreter", "container": {"type": "auto"}}, {"type": "web_search"}]
    for answer in both(live, input="code please", tools=tools):
        code, answered = answer.output
        assert (code.type, code.code, code.outputs[0].logs) == ("code_interpreter_call", "print(42)", "printed=42")
        assert answered.content[0].text == "It is 42."
    for answer in both(live, input="page please", tools=tools):
        assert answer.output[0].action.model_dump() == {"type": "open_page", "url": "https://example.org/page"}
    for answer in both(live, input="search please", tools=tools):
        assert (answer.output[0].action.type, answer.output[0].action.query) == ("search", "pages")
    kinds = [e["type"] for e in chunks(live.post("/v1/responses", stream=True, input="code please", tools=tools).text)]
    steps = [k.removeprefix("response.code_interpreter_call") for k in kinds if "code_interpreter" in k]
    assert steps == [".in_progress", "_code.delta", "_code.done", ".interpreting", ".completed"]


def test_items_that_a_client_of_responses_sends_back_are_read(live: Live, workshop: Workshop) -> None:
    tools: Any = [MCP, {"type": "code_interpreter", "container": {"type": "auto"}}]
    for text in ("add please", "code please", "search please"):
        first = live.openai.responses.create(model="m", input=text, tools=tools)
        history: Any = [*asked(text), *(i.model_dump(exclude_none=True) for i in first.output), *asked("and now")]
        known = len(workshop.calls)
        again = live.openai.responses.create(model="m", input=history, tools=tools)
        (item,) = again.output
        assert item.type == "message", "the client has the list of the server's tools already"
        assert (again.output_text, len(workshop.calls)) == ("Now this.", known)


def test_an_approval_is_asked_for_and_answered_without_state(live: Live, workshop: Workshop) -> None:
    workshop.calls.clear()
    for first in both(live, input="guard please", tools=[MCP]):
        asks = first.output[-1]
        assert (asks.type, asks.name, json.loads(asks.arguments)) == ("mcp_approval_request", "guarded", {"a": 7})
        assert "guarded" not in [name for name, _ in workshop.calls]
        history = [*asked("guard please"), *(i.model_dump(exclude_none=True) for i in first.output)]
        answer: dict[str, Any] = {"type": "mcp_approval_response", "approval_request_id": asks.id}
        denied: Any = [*history, {**answer, "approve": False, "reason": "no"}]
        assert live.openai.responses.create(model="m", input=denied, tools=[MCP]).output_text == "Then not."
        allowed: Any = [*history, {**answer, "approve": True}]
        for second in both(live, input=allowed, tools=[MCP]):
            called, answered = second.output
            assert (called.type, called.output, called.approval_request_id) == ("mcp_call", "guarded=7", asks.id)
            assert answered.content[0].text == "It was allowed."
        assert workshop.calls.count(("guarded", {"a": 7})) == 3
        later: Any = [*allowed, *(i.model_dump(exclude_none=True) for i in second.output), *asked("and now")]
        assert live.openai.responses.create(model="m", input=later, tools=[MCP]).output_text == "Now this."
        assert workshop.calls.count(("guarded", {"a": 7})) == 3, "what was run is not run again"
        workshop.calls.clear()


def test_a_forged_approval_is_refused(live: Live, workshop: Workshop) -> None:
    workshop.calls.clear()
    first = live.openai.responses.create(model="m", input="guard please", tools=[MCP])
    asks = first.output[-1].model_dump()
    wrong = [{**asks, "arguments": '{"a": 8}'}, {**asks, "id": "mcpr_" + "0" * 48}, {**asks, "name": "add"}]
    for item in wrong:
        answer = {"type": "mcp_approval_response", "approval_request_id": item["id"], "approve": True}
        refused = live.post("/v1/responses", input=[*asked("guard please"), item, answer], tools=[MCP])
        assert refused.status_code == 400
        assert "was not requested by this server" in refused.json()["error"]["message"]
    answer = {"type": "mcp_approval_response", "approval_request_id": asks["id"], "approve": True}
    body = {"input": [asks, answer], "tools": [MCP]}
    other = live.http.post("/v1/responses", json=body, headers={"Authorization": "Bearer another"})
    assert other.status_code == 400, "an approval is bound to the client's key"
    assert "guarded" not in [name for name, _ in workshop.calls]


def test_a_request_may_ask_for_approvals_and_allow_fewer_tools_and_calls(live: Live) -> None:

    def types(**tool: Any) -> list[str]:
        answer = live.post("/v1/responses", input="add please", tools=[{**MCP, **tool}], max_tool_calls=9).json()
        return [item["type"] for item in answer["output"]]

    assert types(require_approval="always")[-1] == "mcp_approval_request"
    assert types(require_approval={"never": {"tool_names": ["add"]}})[-2:] == ["mcp_call", "message"]
    listed = live.post("/v1/responses", input="and now", tools=[{**MCP, "allowed_tools": ["fail"]}]).json()
    assert [tool["name"] for tool in listed["output"][0]["tools"]] == ["fail"]
    none = live.post("/v1/responses", input="add please", tools=[MCP], max_tool_calls=0).json()
    assert "No more tools" in json.dumps([item.get("error") for item in none["output"]])


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ({**MCP, "server_label": "x"}, 'server_label: "x" is not a tool server of this server; allowed are workshop'),
        ({**MCP, "server_label": "x", "server_url": "https://x.example"}, "tools[0].server_url: tool servers of"),
        ({**MCP, "server_label": "x", "connector_id": "connector_gmail"}, "connector_id: is not supported"),
        ({**MCP, "require_approval": "perhaps"}, 'require_approval: must be "always", "never"'),
    ],
)
def test_an_unknown_tool_server_is_refused(live: Live, tool: Any, text: str) -> None:
    refused = live.post("/v1/responses", input="Hello", tools=[tool])
    assert refused.status_code == 400
    assert text in refused.json()["error"]["message"]


def test_tool_choice_may_name_the_servers_tools(live: Live) -> None:
    choice: Any = {"type": "mcp", "server_label": "workshop", "name": "add"}
    answer = live.openai.responses.create(model="m", input="add please", tools=[MCP], tool_choice=choice)
    assert [item.type for item in answer.output][-2:] == ["mcp_call", "message"], "one call is enough"


# -- Messages ----------------------------------------------------------------------------------------------------------


def test_anthropics_beta_client_reads_blocks_of_mcp(live: Live) -> None:
    with claude(live.url) as client:
        ask: Any = {"model": "m", "max_tokens": 99, "mcp_servers": [MCP_SERVER], "betas": BETA}
        whole, streamed = twice(client.beta.messages, messages=asked("add please"), **ask)
        for answer in (whole, streamed):
            said, use, result, answered = answer.content
            anthropic.types.beta.BetaMessage.model_validate(answer.model_dump(warnings=False))
            assert (use.type, use.name, use.server_name) == ("mcp_tool_use", "add", "workshop")
            assert use.input == {"a": 2, "b": 3}
            assert (result.tool_use_id, result.is_error, result.content[0].text) == (use.id, False, "sum=5")
            assert (said.text, answered.text, answer.stop_reason) == ("Let me add.", "It is 5.", "end_turn")
        history: Any = [*asked("add please"), {"role": "assistant", "content": whole.content}, *asked("and now")]
        assert client.beta.messages.create(messages=history, **ask).content[0].text == "Now this."
        mixed: Any = client.beta.messages.create(messages=asked("mix please"), tools=[ANTHROPIC_WEATHER], **ask)
        assert [b.type for b in mixed.content] == ["mcp_tool_use", "tool_use", "mcp_tool_result"]
        assert mixed.stop_reason == "tool_use"


def test_messages_offer_mcp_servers_only_with_the_beta_header(live: Live) -> None:
    body: Any = {"max_tokens": 9, "messages": asked("add please")}
    plain = live.post("/v1/messages", **body).json()
    assert [block["type"] for block in plain["content"]] == ["text"]
    refused = live.post("/v1/messages", mcp_servers=[MCP_SERVER], **body)
    assert refused.status_code == 400
    assert "mcp_servers: needs the header anthropic-beta" in refused.json()["error"]["message"]


def test_blocks_of_the_history_take_tools_of_a_server_away_and_give_them_back(live: Live) -> None:

    def change(kind: str, **tool: Any) -> dict[str, Any]:
        block = {"type": f"tool_{kind}", "tool": {"server_name": "workshop", **tool}}
        return {"role": "system", "content": [block]}

    every: Any = {"type": "mcp_toolset_reference"}
    add: Any = {"type": "mcp_tool_reference", "name": "add"}
    gone, back, added = change("removal", **every), change("addition", **every), change("addition", **add)
    off = {"type": "mcp_toolset", "mcp_server_name": "workshop", "default_config": {"enabled": False}}
    body: Any = {"max_tokens": 99, "mcp_servers": [MCP_SERVER]}
    headers = {"anthropic-beta": BETA[0]}
    for tools, changes, offered in (
        ([], [gone], False),
        ([], [gone, back], True),
        ([], [gone, added], True),
        ([], [back, change("removal", **add)], False),
        ([off], [], False),
        ([off], [added], True),
    ):
        history = [*asked("before"), *changes, *asked("add please")]
        reply = live.http.post("/v1/messages", json={**body, "tools": tools, "messages": history}, headers=headers)
        assert reply.status_code == 200, reply.text
        assert ("sum=5" in reply.text) is offered, (tools, changes)
    unknown, other = change("removal", **every, server_name="other"), change("removal", **every)
    kind = {"type": "bash_DATE", "name": "f"}
    effort: Any = {"role": "system", "output_config": {"effort": "low"}}
    for wrong, error in (
        ({"messages": [*asked("add"), unknown]}, "server_name: is not in mcp_servers"),
        ({"messages": [*asked("add"), other], "mcp_servers": []}, "tool.type"),
        ({"messages": asked("add"), "mcp_servers": [MCP_SERVER, MCP_SERVER]}, "mcp_servers[1].name"),
        ({"messages": asked("add"), "tools": [kind]}, "is not one of custom, bash_DATE, text_editor_DATE"),
        ({"messages": [effort]}, "messages: is empty"),
        ({"messages": [*asked("add"), {**effort, "content": 0}]}, "content: must be a list"),
        ({"messages": [*asked("add"), {**effort, "output_config": {"effort": None}}]}, "content"),
    ):
        reply = live.http.post("/v1/messages", json={**body, **wrong}, headers=headers)
        assert (reply.status_code, error in reply.text) == (400, True), (error, reply.text)


# -- AG-UI -------------------------------------------------------------------------------------------------------------


def run(live: Live, messages: Any, **more: Any) -> list[dict[str, Any]]:
    """The events of a run, checked by the protocol's types."""
    with_ids = [{"id": f"m{i}", **m} for i, m in enumerate(messages)]
    return agui_events(live.ok("/ag-ui", **{**MINIMAL["/ag-ui"], "messages": with_ids, **more}).text)


def rebuilt(events: list[dict[str, Any]], *, reasoning: bool = False) -> list[dict[str, Any]]:
    """The messages that a client builds from a run."""
    made: dict[str, dict[str, Any]] = {}
    for event in events:
        kind = event["type"]
        if kind == "REASONING_MESSAGE_CONTENT" and reasoning:
            made.setdefault(event["messageId"], {"role": "reasoning", "content": ""})["content"] += event["delta"]
        elif kind == "TEXT_MESSAGE_CONTENT":
            message = made.setdefault(event["messageId"], {"role": "assistant", "content": ""})
            message["content"] = (message["content"] or "") + event["delta"]
        elif kind == "TOOL_CALL_START":
            message = made.setdefault(event["parentMessageId"], {"role": "assistant", "content": None})
            call = function_call(event["toolCallName"], "", event["toolCallId"])
            message.setdefault("toolCalls", []).append(call)
        elif kind == "TOOL_CALL_ARGS":
            calls = [c for m in made.values() for c in m.get("toolCalls", ()) if c["id"] == event["toolCallId"]]
            calls[0]["function"]["arguments"] += event["delta"]
        elif kind == "TOOL_CALL_RESULT":
            made[event["messageId"]] = {"role": "tool", "toolCallId": event["toolCallId"], "content": event["content"]}
    return list(made.values())


def activities(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The tools and states of the activities, at each change."""
    shown: dict[str, dict[str, Any]] = {}
    found = []
    for event in (e for e in events if e["type"].startswith("ACTIVITY")):
        assert event["activityType"] == "TOOL_CALL"
        now = shown.setdefault(event["messageId"], {})
        now |= event.get("content") or {p["path"][1:]: p["value"] for p in event["patch"]}
        found.append((now["tool"], now["status"]))
    return found


def test_a_run_of_ag_ui_has_results_and_a_message_for_each_round(live: Live) -> None:
    events = run(live, asked("add please"))
    messages = rebuilt(events)
    assert [m["role"] for m in messages] == ["assistant", "tool", "assistant"]
    assert [m["content"] for m in messages] == ["Let me add.", "sum=5", "It is 5."]
    assert events[-1]["outcome"] == {"type": "success"}
    assert activities(events) == [("add", "in_progress"), ("add", "completed")]
    again = run(live, [*asked("add please"), *messages, *asked("and now")])
    assert rebuilt(again)[0]["content"] == "Now this."


def test_an_interrupt_of_ag_ui_asks_for_approval_and_resume_answers_it(live: Live, workshop: Workshop) -> None:
    workshop.calls.clear()
    events = run(live, asked("guard please"))
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    assert activities(events) == [("guarded", "awaiting_approval")]
    history = [*asked("guard please"), *rebuilt(events)]
    assert interrupt["toolCallId"] == history[1]["toolCalls"][0]["id"]
    for payload, status, text in (
        ({"approved": True}, "resolved", "It was allowed."),
        ({"approved": False, "reason": "no"}, "resolved", "Then not."),
        (None, "cancelled", "Then not."),
    ):
        entry = {"interruptId": interrupt["id"], "status": status, "payload": payload}
        resumed = run(live, history, resume=[entry])
        assert rebuilt(resumed)[-1]["content"] == text
        results = [e for e in resumed if e["type"] == "TOOL_CALL_RESULT"]
        assert [r["toolCallId"] for r in results] == [interrupt["toolCallId"]]
        assert ("not allowed" in results[0]["content"]) == (text == "Then not.")
        status = "completed" if text == "It was allowed." else "failed"
        assert activities(resumed) == [("guarded", "in_progress"), ("guarded", status)]
    forged = {"interruptId": interrupt["id"][:-1] + "!", "status": "resolved", "payload": {"approved": True}}
    body = {"threadId": "t", "runId": "r", "messages": [{"id": str(i), **m} for i, m in enumerate(history)]}
    assert live.post("/ag-ui", **body, resume=[forged]).status_code == 400
    assert [name for name, _ in workshop.calls].count("guarded") == 1


def test_an_interrupt_that_nobody_answers_refuses_the_call_where_the_conversation_goes_on(
    live: Live, workshop: Workshop
) -> None:
    workshop.calls.clear()
    history = [*asked("guard please"), *rebuilt(run(live, asked("guard please")))]
    assert rebuilt(run(live, [*history, *asked("and now")]))[0]["content"] == "Now this."
    assert rebuilt(run(live, history))[-1]["content"] == "Then not.", "the model reads that it was not allowed"
    assert workshop.calls == []


# -- tool servers of the request ---------------------------------------------------------------------------------------


def test_servers_that_a_request_names_are_kept_to_https_and_public_addresses() -> None:
    def asked_for(url: str) -> Any:
        return {"input": "and now", "tools": [{"type": "mcp", "server_label": "mine", "server_url": url}]}

    with live(model(**ANSWERS), "hermes", own_servers=True) as running:
        for url in ("http://example.org/mcp", "ftp://example.org", "https://", "nothing", "https://[::1"):
            refused = running.post("/v1/responses", **asked_for(url))
            assert refused.status_code == 400
            assert "tools[0].server_url: must be the https address" in refused.json()["error"]["message"]
        for host in ("127.0.0.1", "[::1]", "10.0.0.1", "169.254.169.254", "localhost"):
            answer = running.post("/v1/responses", **asked_for(f"https://{host}:1/mcp")).json()
            assert "not a public address" in answer["output"][0]["error"]
            assert answer["output"][1]["content"][0]["text"] == "Now this.", "the others go on"
        secret = {**asked_for("https://127.0.0.1:1/mcp")["tools"][0], "authorization": "secret", "headers": {"X": "y"}}
        reply = running.post("/v1/responses", input="and now", tools=[secret])
        assert "secret" not in reply.text
        again = {"max_tokens": 9, "messages": asked("and now"), "mcp_servers": [{**MCP_SERVER, "url": "http://x.org"}]}
        refused = running.http.post("/v1/messages", json=again, headers={"anthropic-beta": BETA[0]})
        assert refused.status_code == 400
        assert "mcp_servers[0].url: must be the https address" in refused.json()["error"]["message"]
