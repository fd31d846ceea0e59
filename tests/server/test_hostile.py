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

from .support import CHAT, HELLO, WEATHER, Live, Scripted, live

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
            "n": 1,
            "stop": ["x"],
            "max_tokens": 5,
            "max_completion_tokens": 5,
            "temperature": 1,
            "top_p": 1,
            "top_k": 1,
            "min_p": 0,
            "presence_penalty": 0,
            "frequency_penalty": 0,
            "repetition_penalty": 1,
            "seed": 1,
            "logprobs": True,
            "top_logprobs": 1,
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
            "messages[0].id",
            "messages[1].id",
            "messages[2].id",
            "messages[2].toolCalls[0].type",
            "messages[3].id",
            "messages[4].id",
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

TALK: Any = {"max_tokens": 1, "messages": HELLO}
HARMLESS: dict[str, tuple[str, dict[str, Any]]] = {
    "tools: null": (CHAT, {"messages": HELLO, "tools": None}),
    "tool_choice: null": (CHAT, {"messages": HELLO, "tools": [WEATHER], "tool_choice": None}),
    "stop: null": (CHAT, {"messages": HELLO, "stop": None}),
    "n: null": (CHAT, {"messages": HELLO, "n": None}),
    "response_format: text": (CHAT, {"messages": HELLO, "response_format": {"type": "text"}}),
    "stream_options without stream": (CHAT, {"messages": HELLO, "stream_options": {"include_usage": True}}),
    "logprobs without top_logprobs": (CHAT, {"messages": HELLO, "logprobs": True}),
    "top_logprobs of 0": (CHAT, {"messages": HELLO, "logprobs": True, "top_logprobs": 0}),
    "functions: null": (CHAT, {"messages": HELLO, "functions": None, "function_call": None}),
    "a result without an id": (CHAT, {"messages": [*HELLO, {"role": "tool", "content": "r"}]}),
    "a legacy result": (CHAT, {"messages": [*HELLO, {"role": "function", "name": "f", "content": "r"}]}),
    "no content": (CHAT, {"messages": [{"role": "user"}]}),
    "a lone surrogate": (CHAT, {"messages": [{"role": "user", "content": "\ud83d"}]}),
    "an empty text": ("/v1/responses", {"input": ""}),
    "an answer of nothing": ("/v1/messages", {**TALK, "messages": [*HELLO, {"role": "assistant", "content": []}]}),
    "a lone surrogate in a block": (
        "/v1/messages",
        {**TALK, "messages": [{"role": "user", "content": [{"type": "text", "text": "\ud83d"}]}]},
    ),
    "no messages of a run": ("/ag-ui", {"threadId": "t", "runId": "r", "messages": []}),
}


@pytest.mark.parametrize(("path", "ask"), HARMLESS.values(), ids=HARMLESS.keys())
def test_harmless_oddities_are_answered(server: Live, path: str, ask: dict[str, Any]) -> None:
    answer = server.post(path, **ask)
    assert answer.status_code == 200, answer.text


def nested(depth: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


OTHER = {"type": "function", "function": {"name": "other"}}
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "functions": (CHAT, {"messages": HELLO, "functions": [{"name": "f"}]}, "functions: is not supported; use tools"),
    "function_call": (CHAT, {"messages": HELLO, "function_call": "auto"}, "function_call: is not supported; use tool_"),
    "n": (CHAT, {"messages": HELLO, "n": 17}, "n: 17 is not between 1 and 16"),
    "a choice that is not allowed": (
        CHAT,
        {
            "messages": HELLO,
            "tools": [WEATHER],
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [OTHER]}},
        },
        'tool_choice.allowed_tools.tools[0].function.name: "other" is not declared; allowed are get_weather',
    ),
    "responses: a choice that is not declared": (
        "/v1/responses",
        {"input": "x", "tool_choice": {"type": "function", "name": "f"}},
        'tool_choice.name: "f" is not declared; allowed are none: no tools',
    ),
    "messages: a choice that is not declared": (
        "/v1/messages",
        {**TALK, "tool_choice": {"type": "tool", "name": "f"}},
        'tool_choice.name: "f" is not declared; allowed are none: no tools',
    ),
    "ag-ui: a choice that is not declared": (
        "/ag-ui",
        {"threadId": "t", "runId": "r", "messages": [], "forwardedProps": {"tool_choice": "required"}},
        "forwardedProps.tool_choice: 'required' needs tools",
    ),
    "a schema too deep": (
        "/v1/messages",
        {**TALK, "tools": [{"name": "f", "input_schema": nested(100)}]},
        "tools[0]: the schema is nested deeper than 128",
    ),
    "responses: a schema too deep": (
        "/v1/responses",
        {"input": "x", "tools": [{"type": "function", "name": "f", "parameters": nested(100)}]},
        "tools[0]: the schema is nested deeper than 128",
    ),
    "ag-ui: a schema too deep": (
        "/ag-ui",
        {"threadId": "t", "runId": "r", "messages": [], "tools": [{"name": "f", "parameters": nested(100)}]},
        "tools[0]: the schema is nested deeper than 128",
    ),
    "a role of responses": ("/v1/responses", {"input": [{"role": "robot", "content": ""}]}, "input[0].role: "),
    "a role of messages": (
        "/v1/messages",
        {**TALK, "messages": [{"role": "tool", "content": ""}]},
        "messages[0].role: ",
    ),
    "a role of a run": ("/ag-ui", {"threadId": "t", "runId": "r", "messages": [{"role": "x"}]}, "messages[0].role: "),
    "no input": ("/v1/responses", {"input": []}, "input: is empty"),
    "no message": ("/v1/messages", {**TALK, "messages": []}, "messages: is empty"),
    "no blocks": ("/v1/messages", {**TALK, "messages": [{"role": "user", "content": []}]}, "messages[0].content: "),
    "a block of the assistant that there is not": (
        "/v1/messages",
        {**TALK, "messages": [{"role": "assistant", "content": [{"type": "image"}]}]},
        'messages[0].content[0].type: "image" is not one of text, thinking, redacted_thinking, tool_use',
    ),
    "a system prompt that is no text": (
        "/v1/messages",
        {**TALK, "system": [{"type": "image"}]},
        'system[0].type: "image" is not one of text',
    ),
    "a result without its id": (
        "/v1/messages",
        {**TALK, "messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
        "messages[0].content[0].tool_use_id: is required",
    ),
    "an output without its id": (
        "/v1/responses",
        {"input": [{"type": "function_call_output", "output": "x"}]},
        "input[0].call_id: is required",
    ),
}


@pytest.mark.parametrize(("path", "ask", "error"), REFUSED.values(), ids=REFUSED.keys())
def test_unsupported_requests_are_refused_with_what_is_allowed(
    bare: Live, path: str, ask: dict[str, Any], error: str
) -> None:
    answer = bare.post(path, **ask)
    assert answer.status_code == 400
    assert message(answer).startswith(error)


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
