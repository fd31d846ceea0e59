"""The tools that agents declare: freeform tools, namespaces, a search for tools, and tools that only OpenAI runs."""

import asyncio
import json
import logging
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageCustomToolCall

from unspool.engines import EngineError
from unspool.engines.upstream.kinds import KINDS, body
from unspool.toolset import choice_of

from ..media import part, png, url
from ..request.parts.test_places import SEEING, prompts
from ..support import calling, function_call, pieces, tool
from .support import PATIENCE, Live, Scripted, both, live

LARK = 'start: "*** " LINE+\nLINE: /[^\\n]+\\n/'
PATCH: Any = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": LARK},
}
SPACE: Any = {
    "type": "namespace",
    "name": "crm",
    "description": "Customers.",
    "tools": [
        {"type": "function", "name": "find", "parameters": {"type": "object"}, "strict": False},
        {"type": "custom", "name": "note"},
    ],
}
SEARCH: Any = {"type": "tool_search", "execution": "client", "description": "Finds.", "parameters": {"type": "object"}}
LATER: Any = {"type": "function", "name": "later", "defer_loading": True, "parameters": {"type": "object"}}
TEXT = '*** a "b"\n\té\n'
GO: Any = [{"role": "user", "content": "Go"}]


def hermes(name: str, arguments: Any) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def test_a_custom_tool_is_called_and_answered_by_the_official_client() -> None:
    engine = Scripted(list(hermes("apply_patch", {"input": TEXT})))
    ask: Any = {"model": "m", "tools": [PATCH]}
    with live(engine, "hermes") as server:
        whole: Any = server.openai.responses.create(**ask, input="Go")
        (item,) = whole.output
        assert (item.type, item.name, item.input) == ("custom_tool_call", "apply_patch", TEXT)
        result = {"type": "custom_tool_call_output", "call_id": item.call_id, "output": "Done!"}
        history = [*GO, item.model_dump(exclude_none=True), result]
        server.openai.responses.create(**ask, input=history)
    request = engine.requests[-1]
    assert list(request.messages)[1:] == [
        calling(function_call("apply_patch", {"input": TEXT}, item.call_id), content=None),
        {"role": "tool", "tool_call_id": item.call_id, "content": "Done!"},
    ]
    assert LARK in request.tools[0]["function"]["description"]
    assert request.constraint is not None
    assert "%lark" in request.constraint.lark


CUSTOM_STREAM = (
    f"<think>\nTwo of them.\n</think>\n\nFirst {hermes('apply_patch', {'input': TEXT})} then "
    f"{hermes('crm.note', {'input': ''})}{hermes('apply_patch', {'text': TEXT})}"
    f"{hermes('crm.find', {'id': 1})}{hermes('tool_search', {'query': 'more'})} done."
)


async def streamed(server: Live, **ask: Any) -> tuple[list[Any], Any]:
    """The events and the final response of the official asynchronous client."""
    plain = openai.DefaultAsyncHttpxClient(timeout=PATIENCE, verify=False)
    async with (
        openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="EMPTY", max_retries=0, http_client=plain) as client,
        client.responses.stream(**ask) as stream,
    ):
        events = [event async for event in stream]
        return events, await stream.get_final_response()


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_accumulators_of_the_official_clients_end_with_the_whole_answer_whatever_calls_it_has(size: int) -> None:
    ask: Any = {"model": "m", "tools": [PATCH, SPACE, SEARCH], "input": "Go"}
    with live(Scripted(pieces(CUSTOM_STREAM, size)), "hermes") as server:
        whole = server.openai.responses.create(**ask)
        with server.openai.responses.stream(**ask) as stream:
            actual: list[tuple[list[Any], Any]] = [(list(stream), stream.get_final_response())]
        actual.append(asyncio.run(streamed(server, **ask)))
    inputs = [TEXT, "", json.dumps({"text": TEXT})]
    kinds = ["reasoning", "message", "custom_tool_call", "message", "custom_tool_call", "custom_tool_call"]
    kinds += ["function_call", "tool_search_call", "message"]
    for events, final in actual:
        assert [item.type for item in final.output] == [item.type for item in whole.output] == kinds
        assert [i.input for i in final.output if i.type == "custom_tool_call"] == inputs
        final_ids = {item.id for item in final.output}
        own = {"id", "call_id", "parsed_arguments"}
        said, expected = ([i.model_dump(exclude=own) for i in r.output if i.type != "message"] for r in (final, whole))
        assert said == expected
        deltas: dict[str, str] = {}
        for event in events:
            if event.type == "response.custom_tool_call_input.delta":
                deltas[event.item_id] = deltas.get(event.item_id, "") + event.delta
            elif event.type == "response.custom_tool_call_input.done":
                assert event.input == deltas.get(event.item_id, "")
                assert event.item_id in final_ids
            elif event.type == "response.output_item.added" and event.item.type == "custom_tool_call":
                assert (event.item.input, event.item.status) == ("", "in_progress")
        assert [e.input for e in events if e.type == "response.custom_tool_call_input.done"] == inputs
        assert sum(e.type == "response.custom_tool_call_input.delta" for e in events) > (5 if size < 9 else 0)
        assert [e.sequence_number for e in events] == list(range(len(events)))


def test_the_stream_helper_has_no_final_response_of_a_call_that_was_cut_but_its_events_tell_it() -> None:
    cut = CUSTOM_STREAM[: CUSTOM_STREAM.index("*** a") + 9]
    ask: Any = {"model": "m", "tools": [PATCH], "input": "Go"}
    with live(Scripted([cut], reason="length"), "hermes") as server, server.openai.responses.stream(**ask) as stream:
        events: list[Any] = list(stream)
        with pytest.raises(RuntimeError, match=r"Didn't receive a `response.completed` event"):
            stream.get_final_response()
    last = events[-1]
    assert (last.type, last.response.incomplete_details.reason) == ("response.incomplete", "max_output_tokens")
    assert (last.response.output[-1].type, last.response.output[-1].status) == ("custom_tool_call", "incomplete")
    assert TEXT.startswith(last.response.output[-1].input)


FORMAT = {"type": "grammar", "grammar": {"syntax": "lark", "definition": LARK}}
NESTED: Any = {"type": "custom", "custom": {"name": "apply_patch", "description": "Edits files.", "format": FORMAT}}


def test_chat_completions_have_custom_tools_too() -> None:
    engine = Scripted(list(hermes("apply_patch", {"input": TEXT}) + hermes("look", {"at": 1})))
    ask: Any = {"model": "m", "tools": [NESTED, tool("look")]}
    with live(engine, "hermes") as server:
        chat = server.openai.chat.completions
        message = chat.create(**ask, messages=GO).choices[0].message
        assert message.tool_calls is not None
        patch, look = message.tool_calls
        assert isinstance(patch, ChatCompletionMessageCustomToolCall)
        assert (patch.type, patch.custom.name, patch.custom.input) == ("custom", "apply_patch", TEXT)
        assert (look.type, look.function.arguments) == ("function", '{"at": 1}')
        deltas = [c.choices[0].delta for c in chat.create(**ask, messages=GO, stream=True)]
        sent: list[Any] = [call.to_dict() for d in deltas for call in d.tool_calls or ()]
        first, *rest = [call for call in sent if not call["index"]]
        assert (first["type"], first["custom"]) == ("custom", {"name": "apply_patch", "input": ""})
        assert len(rest) > 5
        assert all(piece.keys() == {"index", "custom"} for piece in rest)
        assert "".join(piece["custom"]["input"] for piece in rest) == TEXT
        result: Any = {"role": "tool", "tool_call_id": patch.id, "content": "Done!"}
        history: Any = [*GO, {"role": "assistant", "tool_calls": [patch.to_dict()]}, result]
        chat.create(**ask, messages=history)
        choices: Any = (
            {"type": "custom", "custom": {"name": "apply_patch"}},
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NESTED]}},
        )
        for choice in choices:
            chat.create(**ask, messages=GO, tool_choice=choice)
    expected = function_call("apply_patch", {"input": TEXT}, patch.id)
    assert engine.requests[2].messages[1]["tool_calls"] == [expected]
    named, allowed = engine.requests[3:]
    assert (named.tool_choice, allowed.tool_choice) == (choice_of("apply_patch"), "required")
    for request in (engine.requests[0], named, allowed):
        assert LARK in request.tools[0]["function"]["description"]
        assert request.constraint is not None
        assert "%lark" in request.constraint.lark


@pytest.mark.parametrize("profile", ["mindie", "candle"])
def test_profiles_without_a_form_for_custom_tools_refuse_them(profile: Any) -> None:
    with live(Scripted(["x"]), "hermes", profile=profile) as server:
        answer = server.post("/v1/chat/completions", messages=GO, tools=[NESTED])
        assert answer.status_code in (400, 422)
        assert 'is not one of function"' in answer.text


def test_a_custom_tool_is_called_with_whatever_the_model_wrote() -> None:
    """A text among other arguments is found, arguments without one are written as they are, and cut ones are kept."""
    for written, text in (('{"input": "a\\u00e9"', "aé"), ('{"x": 1}', '{"x": 1}'), ('"bare"', "bare")):
        raw = '<tool_call>\n{"name": "apply_patch", "arguments": ' + written
        with live(Scripted(list(raw), reason="length"), "hermes") as server:
            ask: Any = {"model": "m", "tools": [NESTED], "messages": GO}
            whole: Any = server.openai.chat.completions.create(**ask).choices[0].message
            chunks = server.openai.chat.completions.create(**ask, stream=True)
            deltas: list[Any] = [c.to_dict() for chunk in chunks for c in chunk.choices[0].delta.tool_calls or ()]
        assert [c.custom.input for c in whole.tool_calls] == [text]
        assert "".join(c["custom"]["input"] for c in deltas) == text


def test_engines_that_take_no_lark_refuse_its_grammar_and_keep_a_regular_expression() -> None:
    engine = Scripted(["x"])
    regex: Any = {**PATCH, "format": {"type": "grammar", "syntax": "regex", "definition": "^[a-z]+|x$"}}
    with live(engine, "hermes") as server:
        for one in (PATCH, regex):
            server.openai.responses.create(model="m", input="Go", tools=[one])
    lark, pattern = engine.requests
    asked: Any = {"prompt": "x", "model": "m", "context": 100}
    for name in ("vllm", "llama.cpp"):
        with pytest.raises(EngineError, match="is in Lark, which cannot be kept in this form"):
            body(KINDS[name], lark, **asked)
    assert body(KINDS["vllm"], pattern, **asked)["response_format"]["type"] == "structural_tag"
    assert "%lark" in body(KINDS["llama.cpp-llguidance"], lark, **asked)["grammar"]
    function = pattern.tools[0]["function"]
    assert function["parameters"]["properties"]["input"]["pattern"] == "^(?:[a-z]+|x)$"
    assert function["strict"] is True


def test_namespaces_have_flat_names_for_the_model_and_their_own_for_the_client() -> None:
    outputs = hermes("crm.find", {"id": 1}) + hermes("crm.note", {"input": "n"})
    with live(Scripted([outputs]), "hermes") as server:
        ask: Any = {"model": "m", "tools": [SPACE]}
        response: Any = server.openai.responses.create(**ask, input="Go")
        find, note = response.output
        assert (find.type, find.name, find.namespace, find.arguments) == ("function_call", "find", "crm", '{"id": 1}')
        assert (note.type, note.name, note.namespace, note.input) == ("custom_tool_call", "note", "crm", "n")
        back = [i.model_dump(exclude_none=True) for i in response.output]
        server.openai.responses.create(**ask, input=[*GO, *back])
        for choice in (
            {"type": "custom", "name": "note", "namespace": "crm"},
            {"type": "function", "name": "find", "namespace": "crm"},
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "namespace", "name": "crm"}]},
        ):
            server.post("/v1/responses", input="Go", tools=[SPACE], tool_choice=choice)
    names = [c["function"]["name"] for c in server.engine.requests[1].messages[1]["tool_calls"]]
    assert names == ["crm.find", "crm.note"]
    first, second = (t["function"] for t in server.engine.requests[0].tools)
    assert first["description"].startswith("crm: Customers.")
    assert "Customers." not in second.get("description", "")
    choices = [r.tool_choice for r in server.engine.requests[2:]]
    assert choices == [choice_of("crm.note"), choice_of("crm.find"), "required"]


def test_a_client_that_searches_for_tools_has_them_declared_once_they_are_found() -> None:
    with live(Scripted([hermes("tool_search", {"query": "late"})]), "hermes") as server:
        ask: Any = {"model": "m", "tools": [SEARCH, LATER]}
        for response in both(server.openai.responses, **ask, input="Go"):
            (call,) = response.output
            assert (call.type, call.execution, call.arguments) == ("tool_search_call", "client", {"query": "late"})
        found = {"type": "tool_search_output", "call_id": call.call_id, "execution": "client", "tools": [LATER, SPACE]}
        added = {"type": "additional_tools", "role": "developer", "tools": [PATCH]}
        history = [*GO, call.model_dump(exclude_none=True), found, added]
        assert server.post("/v1/responses", **{**ask, "input": history}).status_code == 200
    names = [[t["function"]["name"] for t in r.tools] for r in server.engine.requests]
    assert names == [["tool_search"]] * 2 + [["tool_search", "later", "crm.find", "crm.note", "apply_patch"]]
    messages = server.engine.requests[-1].messages
    assert messages[1]["tool_calls"][0]["function"] == {"name": "tool_search", "arguments": '{"query": "late"}'}
    assert json.loads(messages[2]["content"]) == {"tools": ["later", "crm.find", "crm.note"]}


def test_tools_that_only_openai_runs_are_left_out_with_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    engine = Scripted(["ok"])
    hosted: Any = [{"type": "web_search", "external_web_access": False}, {"type": "tool_search"}, LATER]
    few = [{"type": "web_search"}, {"type": "function", "name": "later"}]
    allowed: Any = {"type": "allowed_tools", "mode": "auto", "tools": few}
    with caplog.at_level(logging.INFO, "unspool.server"), live(engine, "hermes") as server:
        answer = server.ok("/v1/responses", input="Go", tools=hosted, tool_choice=allowed)
        contained = {"type": "shell", "environment": {"type": "container_auto"}}
        container = server.post("/v1/responses", input="Go", tools=[contained])
    assert [t["function"]["name"] for t in engine.requests[0].tools] == ["later"]
    assert answer.json()["tools"] == [LATER]  # the response repeats what the model had
    assert (container.status_code, container.json()["error"]["param"]) == (400, "tools[0].environment.type")
    assert "left out: tool_search, web_search" in caplog.text


OWN: Any = [
    ({"type": "shell", "environment": {"type": "local"}}, {"commands": ["ls", "pwd"], "timeout_ms": 9}),
    ({"type": "local_shell"}, {"command": ["ls", "-l"], "working_directory": "/tmp"}),
    ({"type": "apply_patch"}, {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b\n"}),
    ({"type": "computer"}, {"actions": [{"type": "click", "x": 1, "y": 2, "button": "left"}, {"type": "screenshot"}]}),
    ({"type": "computer_use_preview", "display_width": 80, "display_height": 60}, {"type": "wait"}),
]  # fmt: skip
OUTPUTS: Any = {
    "shell_call": (
        [{"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 3}}, {"outcome": {"type": "timeout"}}],
        "a\nb\nexit code 3\n\ntimeout",
    ),
    "local_shell_call": ("a b", "a b"),
    "apply_patch_call": ("no such file", "failed: no such file"),
    "computer_call": ({"type": "computer_screenshot", "image_url": url(png())}, [part(png())]),
}


@pytest.mark.parametrize(("own", "arguments"), OWN, ids=lambda one: str(one.get("type")))
def test_a_tool_that_openai_defines_and_clients_run_is_called_and_answered_in_its_own_items(
    own: Any, arguments: Any
) -> None:
    name = {"computer_use_preview": "computer_use"}.get(own["type"], own["type"])
    engine = Scripted(list(hermes(name, arguments) * 2))
    engine.media = frozenset({"image"})  # type: ignore[attr-defined]
    with live(engine, "hermes", prompts=prompts(SEEING), stores=True) as server:
        create = server.openai.responses.create
        ask: Any = {"model": "m", "tools": [own]}
        choice: Any = {"type": "computer" if "computer" in name else name}  # its names mean one another
        choice = "required" if name == "local_shell" else choice  # the protocol has no choice of that one
        for response in both(server.openai.responses, **ask, input="Go", tool_choice=choice):
            items: Any = [item.to_dict() for item in response.output]
            for item in items:
                assert item["status"] == "completed"
                sent = {**item, **(item.get("action") or item.get("operation") or {})}
                assert {k: v for k, v in sent.items() if k in arguments} == arguments
        kind = items[0]["type"]
        output, told = OUTPUTS[kind]
        answer = {"type": f"{kind}_output", "output": output, "status": "failed"}
        answers: Any = [{**answer, "call_id": item["call_id"]} for item in items]
        create(**ask, input=[*GO, *items, *answers])
        create(model="m", input=answers, previous_response_id=response.id)
        with pytest.raises(openai.BadRequestError, match="No tool output found"):
            create(model="m", previous_response_id=response.id)
    assert engine.requests[0].tool_choice in ("required", choice_of(name))
    for request in engine.requests[2:]:
        _, said, *results = request.messages
        assert [json.loads(c["function"]["arguments"]) for c in said["tool_calls"]] == [arguments] * 2
        assert [c["function"]["name"] for c in said["tool_calls"]] == [name] * 2
        assert [r["content"] for r in results] == [told] * 2
        assert [t["function"]["name"] for t in request.tools] == [name]


def test_what_a_model_writes_besides_the_arguments_of_such_a_tool_stays_in_their_field() -> None:
    written = [{"type": "x", "call_id": "y", "commands": ["ls"]}, {}, "ls"]
    with live(Scripted(["".join(hermes("shell", one) for one in written)]), "hermes") as server:
        for response in both(server.openai.responses, model="m", tools=[{"type": "shell"}], input="Go"):
            items = [item.to_dict() for item in response.output]
            assert [i["type"] for i in items] == ["shell_call"] * 3
            actions = [i["action"] for i in items]
            assert actions[:2] == [written[0], {"commands": []}]
            assert "ls" in str(actions[2])
            assert all(i["call_id"].startswith("call_") for i in items)


@pytest.mark.parametrize("written", [{"type": "wait"}, {"actions": {"type": "wait"}}, {"actions": [{"type": "wait"}]}])
def test_one_action_is_a_list_of_one(written: Any) -> None:
    with live(Scripted(list(hermes("computer", written))), "hermes") as server:
        answer = server.ok("/v1/responses", input="Go", tools=[{"type": "computer"}]).json()
    assert answer["output"][0]["actions"] == [{"type": "wait"}]


def test_such_a_tool_gives_way_to_a_function_of_its_name_and_may_be_declared_twice() -> None:
    own: Any = {"type": "shell"}
    engine = Scripted(list("Hello."))
    with live(engine, "hermes") as server:
        for tools in ([own, SHELL], [SHELL, own], [own, own]):
            answer = server.ok("/v1/responses", input="Go", tools=tools).json()
            assert answer["tools"] == ([SHELL] if SHELL in tools else tools)
    assert [len(request.tools) for request in engine.requests] == [1, 1, 1]
    properties = [set(r.tools[0]["function"]["parameters"]["properties"]) for r in engine.requests[1:]]
    assert properties == [{"command"}, {"commands", "timeout_ms", "max_output_length"}]


SHELL: Any = {"type": "function", **tool("shell", command="string")["function"]}
SILENT: Any = {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
ANSWERED: Any = [
    (
        {"type": "shell_call", "call_id": "a", "action": {"commands": ["mkdir x"]}},
        {"type": "shell_call_output", "call_id": "a", "output": [SILENT, {**SILENT, "stdout": "b"}]},
        "exit code 0\n\nb",
    ),
    (
        {"type": "local_shell_call", "id": "l", "call_id": None, "action": {"type": "exec", "command": ["cp"]}},
        {"type": "local_shell_call_output", "id": "l", "output": ""},
        "",
    ),
]


@pytest.mark.parametrize(
    ("call", "output", "told"), ANSWERED, ids=lambda one: one["type"] if isinstance(one, dict) else ""
)
def test_a_command_that_says_nothing_is_known_to_have_ended(call: Any, output: Any, told: str) -> None:
    engine = Scripted(list("Hello."))
    own: Any = {"type": call["type"].removesuffix("_call")}
    with live(engine, "hermes") as server:
        server.ok("/v1/responses", input=[*GO, call, output], tools=[own])
    assert engine.requests[0].messages[-1]["content"] == told


def test_a_text_model_goes_on_with_a_history_of_screenshots() -> None:
    call: Any = {"type": "computer_call", "call_id": "a", "actions": [{"type": "screenshot"}]}
    output: Any = {"type": "computer_call_output", "call_id": "a", "output": OUTPUTS["computer_call"][0]}
    with live(Scripted(list("Hello.")), "hermes") as server:
        server.ok("/v1/responses", input=[*GO, call, output])
