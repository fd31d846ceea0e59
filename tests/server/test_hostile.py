"""Requests that are wrong in every possible way are refused with the name of the field, or do no harm.

The table is a request that uses every documented field. Its values have the right types; any other type is wrong.
"""

import copy
import json
import re
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from unspool import get_dialect
from unspool.request.fields import Fields, read_object
from unspool.request.prompts import Prompts, Tokenizer
from unspool.request.protocols import AguiProtocol, ResponsesProtocol
from unspool.request.settings import Settings

from .support import CHAT, HELLO, MINIMAL, TALK, WEATHER, Live, Scripted, live

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


class Protocol(NamedTuple):
    """A protocol's table.

    Attributes:
        path: the path of the endpoint.
        request: every documented field, with a right value.
        also: the other types that a field may have.
        unread: fields that are ignored, with everything in them.
        named: fields whose error names another field.
    """

    path: str
    request: dict[str, Any]
    also: dict[str, set[str]]
    unread: tuple[str, ...]
    named: dict[str, str]


WRONG: dict[str, Any] = {"boolean": True, "number": 7, "string": "x", "array": [1], "object": {"a": 1}}
SWITCHES = {name: {"boolean", "object"} for name in ("thinking", "enable_thinking", "reasoning")}

PROTOCOLS = {
    "chat": Protocol(
        CHAT,
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "s", "name": "n"},
                {
                    "role": "assistant",
                    "content": "b",
                    "reasoning": "r",
                    "reasoning_content": "r",
                    "reasoning_details": [{"type": "t", "text": "x"}],
                    "tool_calls": [CALL],
                },
                {"role": "tool", "tool_call_id": "c", "content": "r"},
                {"role": "user", "content": [{"type": "text", "text": "t"}]},
            ],
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": False},
                }
            ],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "parallel_tool_calls": True,
            "stop": ["x"],
            "max_tokens": 5,
            "max_completion_tokens": 5,
            **dict.fromkeys(("n", "temperature", "top_p", "top_k", "repetition_penalty", "seed", "top_logprobs"), 1),
            **dict.fromkeys(("min_p", "presence_penalty", "frequency_penalty"), 0),
            "logprobs": True,
            "stream": False,
            "stream_options": {"include_usage": True},
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
            },
            "thinking": {"type": "enabled", "budget_tokens": 1},
            "enable_thinking": True,
            "reasoning": {"effort": "low"},
            "reasoning_effort": "low",
            "chat_template_kwargs": {"enable_thinking": True, "custom": "x"},
            "continue_final_message": False,
        },
        {
            **SWITCHES,
            "messages[0].content": {"array"},
            "messages[1].content": {"array"},
            "messages[1].tool_calls[0].function.arguments": {"object"},
            "messages[2].content": {"array"},
            "messages[3].content": {"string"},
            "stop": {"string"},
            "chat_template_kwargs.enable_thinking": {"object"},
        },
        (
            "messages[1].reasoning_details[0].",
            "tools[0].function.parameters.",
            "response_format.json_schema.schema.",
            "thinking.budget_tokens",
            "chat_template_kwargs.custom",
        ),
        {"stop[0]": "stop"},
    ),
    "messages": Protocol(
        "/v1/messages",
        {
            "model": "m",
            "max_tokens": 5,
            "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "a"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "t", "signature": "s"},
                        {"type": "redacted_thinking", "data": "x"},
                        {"type": "text", "text": "b"},
                        {"type": "tool_use", "id": "i", "name": "f", "input": {"a": 1}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "i", "content": [{"type": "text", "text": "r"}]}
                    ],
                },
            ],
            "tools": [{"type": "custom", "name": "f", "description": "d", "input_schema": SCHEMA, "strict": False}],
            "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
            "stop_sequences": ["x"],
            "temperature": 1,
            "top_p": 1,
            "top_k": 1,
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "stream": False,
        },
        {
            **SWITCHES,
            "system": {"string"},
            "messages[0].content": {"string"},
            "messages[1].content": {"string"},
            "messages[2].content": {"string"},
            "messages[2].content[0].content": {"string"},
            "stop_sequences": {"string"},
        },
        (
            "system[0].cache_control",
            "messages[1].content[0].signature",
            "messages[1].content[1].data",
            "messages[1].content[3].input.",
            "tools[0].input_schema.",
            "thinking.budget_tokens",
        ),
        {"stop_sequences[0]": "stop_sequences"},
    ),
    "responses": Protocol(
        "/v1/responses",
        {
            "model": "m",
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
                {
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": "s"}],
                    "content": [{"type": "reasoning_text", "text": "s"}],
                },
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "o"},
                {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
            ],
            "instructions": "i",
            "tools": [{"type": "function", "name": "f", "description": "d", "parameters": SCHEMA, "strict": False}],
            "tool_choice": {"type": "function", "name": "f"},
            "parallel_tool_calls": True,
            "max_output_tokens": 5,
            "temperature": 1,
            "top_p": 1,
            "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}},
            "reasoning": {"effort": "low", "summary": "auto"},
            "stream": False,
            "metadata": {},
            "truncation": "disabled",
            "user": "u",
            "background": False,
        },
        {
            **SWITCHES,
            "input": {"string"},
            "input[0].content": {"string"},
            "input[3].output": {"array"},
            "input[4].content": {"string"},
        },
        (
            "input[1].summary[0].type",
            "input[1].content[0].type",
            "tools[0].parameters.",
            "text.format.schema.",
            "reasoning.summary",
        ),
        {},
    ),
    "ag-ui": Protocol(
        "/ag-ui",
        {
            "threadId": "t",
            "runId": "r",
            "parentRunId": "p",
            "state": {},
            "messages": [
                {"id": "1", "role": "user", "content": [{"type": "text", "text": "a"}]},
                {"id": "2", "role": "reasoning", "content": "r"},
                {"id": "3", "role": "assistant", "content": "c", "toolCalls": [CALL]},
                {"id": "4", "role": "tool", "toolCallId": "c", "content": "r"},
                {"id": "5", "role": "activity", "activityType": "a", "content": {}},
            ],
            "tools": [{"name": "f", "description": "d", "parameters": SCHEMA}],
            "context": [{"description": "d", "value": "v"}],
            "forwardedProps": {"temperature": 1, "max_tokens": 5, "tool_choice": "auto", "thinking": True},
        },
        {
            "messages[0].content": {"string"},
            "messages[3].content": {"array"},
            "forwardedProps": set(WRONG),  # anything is allowed
            "forwardedProps.tool_choice": {"object"},
            "forwardedProps.thinking": {"object"},
        },
        (
            "state",
            *(f"messages[{i}].id" for i in range(5)),
            "messages[2].toolCalls[0].type",
            "messages[4].activityType",
            "messages[4].content",
            "tools[0].parameters.",
        ),
        {},
    ),
    "parse": Protocol(
        "/parse",
        {
            "text": "<think>a</think>b",
            "dialect": "hermes",
            "reasoning": "hermes",
            "tools": [WEATHER],
            "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
            "stage": "content",
            "prompt": "p",
            "policy": {"bad_arguments": "raw", "bare_calls": True},
            "finish_reason": "stop",
            "format": "events",
        },
        {"tool_choice": {"string"}},
        ("tools[0].function.parameters.",),
        {},
    ),
}
EXTREME: list[Any] = [-1, 10**30, -(10**30), 1e308, 0.5, "", "\ud800", "x" * 5000, [], {}, [None], [[[]]], {"type": 1}]
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every field, by its full name."""
    if path:
        yield path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from fields(one, f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}".lstrip("."))


def changed(request: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The request with another value at a path."""
    made: Any = copy.deepcopy(request)
    at = made
    *steps, last = (m[1] or int(m[2]) for m in _STEP.finditer(path))
    for step in steps:
        at = at[step]
    at[last] = value
    return dict(made)


def kind(value: Any) -> str:
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return kinds[type(value)]


@pytest.fixture(scope="module")
def bare() -> Iterator[Live]:
    """A server without a chat template."""
    with live(Scripted(["ok"]), "hermes") as running:
        yield running


@pytest.fixture(scope="module")
def rendering() -> Iterator[Live]:
    """A server with a chat template."""
    written = "{{ m.role }}: {{ m.content }}{{ (m.tool_calls or []) | tojson }}"
    template = "{% for m in messages %}" + written + "{% endfor %}{{ custom }}"
    with live(Scripted(["ok"]), "hermes", prompts=Prompts(Tokenizer(template, template, {}, ("<s>",)))) as running:
        yield running


@pytest.fixture(params=["bare", "rendering"])
def server(request: pytest.FixtureRequest) -> Live:
    """A server with or without a chat template."""
    found: Live = request.getfixturevalue(request.param)
    return found


def message(answer: Any) -> str:
    reply = answer.json()
    return str(reply["message"] if "message" in reply else reply["error"]["message"])


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_a_request_with_every_field_is_answered(server: Live, protocol: Protocol) -> None:
    answer = server.post(protocol.path, **protocol.request)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_a_field_of_a_wrong_type_is_named(bare: Live, protocol: Protocol) -> None:
    seen = 0
    for path, right in fields(protocol.request):
        if path.startswith(protocol.unread):
            continue
        for name, value in WRONG.items():
            if name == kind(right) or name in protocol.also.get(path, ()):
                continue
            answer = bare.post(protocol.path, **changed(protocol.request, path, value))
            assert answer.status_code == 400, (path, value, answer.text[:200])
            assert message(answer).startswith(protocol.named.get(path, path) + ": "), (path, value, answer.text)
            param = answer.json().get("error", {}).get("param", protocol.named.get(path, path))
            assert param == protocol.named.get(path, path)
            seen += 1
    assert seen > 50


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_no_value_of_any_field_fails_the_server(rendering: Live, protocol: Protocol) -> None:
    statuses = set()
    for i, (path, _) in enumerate(fields(protocol.request)):
        for value in EXTREME[i % 3 :: 3]:  # the fields take turns, because neighbours are read by the same code
            answer = rendering.post(protocol.path, **changed(protocol.request, path, value))
            assert answer.status_code in (200, 400), (path, value, answer.text[:200])
            statuses.add(answer.status_code)
            if answer.status_code == 400:
                assert message(answer)
    assert 400 in statuses


# -- one by one --------------------------------------------------------------------------------------------------------

HARMLESS: dict[str, list[dict[str, Any]]] = {
    CHAT: [
        {"tools": None},
        {"tools": [WEATHER], "tool_choice": None},
        {"stop": None},
        {"n": None},
        {"response_format": {"type": "text"}},
        {"stream_options": {"include_usage": True}},  # without stream
        {"logprobs": True},
        {"logprobs": True, "top_logprobs": 0},
        {"functions": None, "function_call": None},
        {"messages": [*HELLO, {"role": "tool", "content": "r"}]},
        {"messages": [*HELLO, {"role": "function", "name": "f", "content": "r"}]},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "user", "content": "\ud83d"}]},
    ],
    "/v1/responses": [{"input": ""}],
    "/v1/messages": [
        {"messages": [*HELLO, {"role": "assistant", "content": []}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "\ud83d"}]}]},
    ],
    "/ag-ui": [{"messages": []}],
}


@pytest.mark.parametrize("path", HARMLESS)
def test_harmless_oddities_are_answered(server: Live, path: str) -> None:
    for ask in HARMLESS[path]:
        answer = server.post(path, **{**MINIMAL[path], **ask})
        assert answer.status_code == 200, (ask, answer.text)


def nested(depth: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def said(*content: Any, role: str = "user") -> dict[str, Any]:
    return {"messages": [{"role": role, "content": list(content)}]}


def custom(form: Any) -> dict[str, Any]:
    return {"type": "custom", "name": "patch", "format": {"type": "grammar", **form}}


def edit(*edits: Any) -> dict[str, Any]:
    return {"context_management": {"edits": list(edits)}}


OTHER = {"type": "function", "function": {"name": "other"}}
PATCH: Any = {"type": "custom", "name": "patch"}
THINKING: Any = {"type": "enabled", "budget_tokens": 1024}
CLEAR: Any = {"type": "clear_tool_uses_20250919"}
CLEAR_THINKING: Any = {"type": "clear_thinking_20251015"}
ALLOWED: Any = {"type": "allowed_tools", "mode": "auto"}
REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    CHAT: [
        ({"function_call": "auto"}, "function_call: is not supported; use tool_"),
        (
            {
                "tools": [WEATHER],
                "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [OTHER]}},
            },
            'tool_choice.allowed_tools.tools[0].function.name: "other" is not declared; allowed are get_weather',
        ),
        ({"thinking_budget": "many"}, "thinking_budget"),
        ({"reasoning": {"max_tokens": -1}}, "reasoning.max_tokens"),
    ],
    "/v1/completions": [
        ({"prompt": None}, "prompt: is required"),
        ({"prompt": ""}, "prompt: must be a text, a list of token ids, or a list of these; it has an empty one"),
        ({"prompt": []}, "it has an empty one"),
        ({"prompt": ["a", ""]}, "it has an empty one"),
        ({"prompt": [1, True]}, "prompt: must be"),
        ({"prompt": [1, -1]}, "prompt: must be"),
        ({"prompt": {"a": 1}}, "it has an object"),
        ({"prompt": ["a"] * 101}, "prompt: 101 outputs of all prompts; allowed are 100"),
        ({"prompt": ["a"] * 51, "n": 2}, "prompt: 102 outputs of all prompts; allowed are 100"),
        ({"prompt": "x" * 4_194_305}, "prompt: 4,194,305 characters or tokens; allowed are 4,194,304"),
        ({"suffix": "the end"}, "suffix: is not supported; leave it out"),
        ({"best_of": 3}, "best_of: must be equal to n"),
        ({"logprobs": True}, "logprobs: must be an integer"),
        ({"max_tokens": 0}, "max_tokens: 0 is not between 1"),
        ({"messages": HELLO}, "messages: is not supported here; use /v1/chat/completions"),
        ({"response_format": {"type": "json_object"}}, "response_format: is not supported here"),
        ({"skip_special_tokens": True}, "skip_special_tokens: true is not supported"),
        ({"logit_bias": {"1": 2}}, "logit_bias: is not supported"),
        ({"echo": True, "logprobs": 1}, "echo: cannot be combined with logprobs"),
    ],
    "/v1/responses": [
        ({"input": None}, "input: is required"),
        ({"input": []}, "input: is empty"),
        ({"input": [{"role": "robot", "content": ""}]}, "input[0].role: "),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id: is required"),
        ({"input": [{"type": "item_reference"}]}, "input[0].id"),
        ({"input": [{"type": "image_generation_call"}]}, "input[0].type"),
        ({"prompt": {"id": "p"}}, "prompt: is not supported"),
        ({"background": True, "store": False}, "background: true needs store"),
        ({"previous_response_id": 1}, "previous_response_id: must be a string"),
        ({"conversation": {}}, "conversation.id: is required"),
        ({"include": "all"}, "include"),
        ({"include": [1]}, "include[0]"),
        ({"reasoning": {"summary": "long"}}, "reasoning.summary"),
        ({"reasoning": {"context": "some"}}, "reasoning.context"),
        ({"tool_choice": {"type": "function", "name": "f"}}, 'tool_choice.name: "f" is not declared; allowed are none'),
        ({"tools": [{"type": "custom"}]}, "tools[0].name: is required"),
        ({"tools": [{"type": "rocket"}]}, 'tools[0].type: "rocket" is not one of function, custom, namespace'),
        (
            {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "namespace", "name": "m", "tools": []}]}]},
            'tools[0].tools[0].type: "namespace" is not one of function, custom',
        ),
        ({"tools": [PATCH, PATCH]}, "declared twice"),
        ({"tools": [custom({"syntax": "abnf", "definition": ""})]}, "tools[0].format.syntax"),
        ({"tools": [custom({"syntax": "lark", "definition": "x: y"})]}, "format.definition: has no rule named start"),
        ({"tools": [custom({"syntax": "regex", "definition": "(?=a)"})]}, "tools[0].format.definition: only groups"),
        ({"tools": [PATCH], "tool_choice": {"type": "custom", "name": "other"}}, "tool_choice.name"),
        ({"tools": [PATCH], "tool_choice": {**ALLOWED, "tools": [{"type": "web_search"}]}}, "tool_choice.tools"),
    ],
    "/v1/messages": [
        ({"max_tokens": None}, "max_tokens: is required"),
        ({"messages": []}, "messages: is empty"),
        (said(), "messages[0].content: "),
        (said({}), "messages[0].content[0]"),
        (said("x", role="tool"), "messages[0].role: "),
        (
            said({"type": "image"}, role="assistant"),
            'messages[0].content[0].type: "image" is not one of text, thinking, redacted_thinking, tool_use',
        ),
        (said({"type": "tool_result"}), "messages[0].content[0].tool_use_id: is required"),
        ({"system": [{"type": "image"}]}, 'system[0].type: "image" is not one of text'),
        ({"tools": [{"name": "f", "input_schema": nested(100)}]}, "tools[0]: the schema is nested deeper than 128"),
        ({"tools": [{"type": "bash_1", "name": "w"}]}, "tools[0].type"),
        ({"tool_choice": {"type": "tool", "name": "f"}}, 'tool_choice.name: "f" is not declared; allowed are none'),
        ({"tool_choice": {"type": "any"}}, "'any' needs tools"),
        ({"thinking": {**THINKING, "display": "x"}}, "thinking.display"),
        ({"output_config": {"effort": "huge"}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
        (edit({}), "context_management.edits[0].type"),
        ({"thinking": THINKING, **edit({**CLEAR_THINKING, "keep": 1})}, "context_management.edits[0].keep"),
        (edit({"type": "compact_20260112"}), "context_management.edits[0].type"),
        (edit(CLEAR, CLEAR), "context_management.edits[1].type"),
        ({"thinking": THINKING, **edit(CLEAR, CLEAR_THINKING)}, "context_management.edits[1].type"),
        (edit({**CLEAR, "trigger": {"type": "tool_uses"}}), "context_management.edits[0].trigger.value"),
        (edit({**CLEAR, "exclude_tools": [1]}), "context_management.edits[0].exclude_tools[0]"),
    ],
    "/ag-ui": [
        ({"runId": None}, "runId: is required"),
        ({"messages": [{"role": "x"}]}, "messages[0].role: "),
        ({"messages": [{"role": "tool"}]}, "messages[0].toolCallId"),
        ({"forwardedProps": {"tool_choice": "required"}}, "forwardedProps.tool_choice: 'required' needs tools"),
    ],
}


@pytest.mark.parametrize("path", REFUSED)
def test_unsupported_requests_are_refused_with_what_is_allowed(bare: Live, path: str) -> None:
    for ask, error in REFUSED[path]:
        answer = bare.post(path, **{**MINIMAL[path], **ask})
        assert (answer.status_code, error in message(answer)) == (400, True), (error, answer.text[:300])


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses", "/ag-ui"])
def test_deeply_nested_values_are_refused_or_accepted(server: Live, path: str) -> None:
    for depth in (100, 900, 5000, 100_000):
        for deep in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
            for field in (b"unknown", b"messages", b"input", b"tools", b"metadata", b"chat_template_kwargs"):
                body = b'{"max_tokens":1,"threadId":"t","runId":"r",' + b'"%b":%b}' % (field, deep)
                assert server.http.post(path, content=body).status_code == 400
            known = {"messages": HELLO, "input": "x", "max_tokens": 1, "threadId": "t", "runId": "r"}
            part = {"role": "user", "id": "1", "content": [{"type": "image", "source": "DEEP"}]}
            request = json.dumps({**known, "messages": [part], "input": [part]}).encode()
            answer = server.http.post(path, content=request.replace(b'"DEEP"', deep))
            assert answer.status_code in (200, 400), (depth, answer.text[:200])


@pytest.mark.parametrize("value", ["1e999", "-1e999", "{}", "[1]", "[[]]", "null", '"\\ud800"', "1" * 400])
@pytest.mark.parametrize(
    "keyword", ["minLength", "maxItems", "minProperties", "maximum", "format", "pattern", "type", "enum"]
)
def test_keywords_of_a_schema_may_have_any_value(bare: Live, keyword: str, value: str) -> None:
    schema = {"type": "object", "properties": {"a": {keyword: "VALUE"}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    body = json.dumps({"dialect": "hermes", "tools": tools, "tool_choice": "required"}).replace('"VALUE"', value)
    answer = bare.http.post("/ui/grammar", content=body.encode())
    assert answer.status_code in (200, 400), answer.text
    assert answer.status_code == 200 or "tools.f.parameters" in message(answer), answer.text


SILENT: dict[str, Any] = {
    "logit_bias": {"1": 5},
    "chat_template": "{{ x }}",
    "guided_json": {"type": "object"},
    "guided_regex": "a",
    "structured_outputs": {"json": {}},
    "stop_token_ids": [1],
    "min_tokens": 1,
    "ignore_eos": True,
    "echo": True,
    "best_of": 2,
    "prompt_logprobs": 1,
    "modalities": ["text", "audio"],
    "add_generation_prompt": False,
}


def test_options_of_other_servers_are_refused_where_they_would_change_the_answer(bare: Live) -> None:
    for name, value in SILENT.items():
        if name != "add_generation_prompt":  # its other value is the default
            answer = bare.post(messages=HELLO, **{name: value})
            assert (answer.status_code, message(answer).split(":")[0]) == (400, name)
    idle: Any = {
        "logit_bias": {},
        "best_of": 1,
        "echo": False,
        "stop_token_ids": [],
        "modalities": ["text"],
        "store": True,
    }
    assert bare.post(messages=HELLO, add_generation_prompt=True, **idle).status_code == 200
    assert bare.post("/v1/messages", **TALK, mcp_servers=[{}]).status_code == 400
    assert bare.post("/v1/responses", input="x", top_logprobs=3).status_code == 400
    props: Any = {"logit_bias": {"1": 1}}
    assert bare.post("/ag-ui", threadId="t", runId="r", messages=[], forwardedProps=props).status_code == 400


def test_a_history_of_many_long_pieces_is_read_in_the_time_of_its_length() -> None:
    text = "x" * 4000
    settings = Settings(model="m", dialect=get_dialect("hermes"))
    thoughts: Any = [{"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}] * 4000
    said: Any = [{"role": "assistant", "content": text}, {"type": "reasoning", "summary": []}] * 2000
    value: Any = [{"id": "a", "role": "assistant", "content": "x"}]
    value += [{"id": "reasoning-a-1", "role": "reasoning", "content": text}] * 4000
    started = time.process_time()
    for items, field in ((thoughts, "reasoning_content"), (said, "content")):
        (message,) = ResponsesProtocol(settings).read(Fields({"input": items})).messages
        assert len(message[field]) == len(text) * (4000 if items is thoughts else 2000)
    run = AguiProtocol(settings).read(Fields({"threadId": "t", "runId": "r", "messages": value}))
    assert len(run.messages[0]["reasoning_content"]) == len(text) * 4000
    assert time.process_time() - started < 3, "joined piece by piece it took half a minute"


def test_numbers_that_are_slow_to_round_are_read_in_the_time_of_their_length() -> None:
    body = b'{"a":[' + b"1e300," * 300_000 + b"1.5]}"
    started = time.process_time()
    assert read_object(body).raw["a"][-2:] == [1e300, 1.5]
    assert time.process_time() - started < 2, "msgspec took six seconds, and no other thread ran meanwhile"
