"""Requests that are wrong in every possible way are refused with the name of the field, or do no harm.

The table is a request that uses every documented field. Its values have the right types; any other type is wrong.
"""

import copy
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from unspool import get_dialect
from unspool.request.fields import Fields, read_object
from unspool.request.prompts import Prompts, Tokenizer
from unspool.request.protocols import AguiProtocol, ResponsesProtocol
from unspool.request.settings import Settings

from ..support import function_call, tool
from .support import CHAT, HELLO, MINIMAL, WEATHER, Live, Scripted, live


class Protocol(msgspec.Struct):
    """A protocol's table.

    Attributes:
        path: the path of the endpoint.
        request: every documented field, with a right value.
        unread: fields that are ignored, with everything in them.
        also: the other types that a field may have.
        named: fields whose error names another field.
    """

    path: str
    request: dict[str, Any]
    unread: list[str]
    also: dict[str, list[str]] = {}
    named: dict[str, str] = {}


_REQUESTS = Path(__file__).with_name("requests.json").read_bytes()
PROTOCOLS = msgspec.json.decode(_REQUESTS, type=dict[str, Protocol])
WRONG: dict[str, Any] = {"boolean": True, "number": 7, "string": "x", "array": [1], "object": {"a": 1}}
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
    server.ok(protocol.path, **protocol.request)


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_a_field_of_a_wrong_type_is_named(bare: Live, protocol: Protocol) -> None:
    seen = 0
    for path, right in fields(protocol.request):
        if path.startswith(tuple(protocol.unread)):
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
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "unread": 1, "sha256": "a"}]}]},
        {"messages": [{"role": "user", "content": "", "tool_calls": [], "audio": None, "function_call": None}]},
        {"messages": [*HELLO, {"role": "tool", "content": "r"}]},
        {"messages": [*HELLO, {"role": "function", "name": "f", "content": "r"}]},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "user", "content": "\ud83d"}]},
    ],
    "/v1/responses": [{"input": ""}],
    "/v1/messages": [
        {"messages": [*HELLO, {"role": "assistant", "content": []}]},
        {
            "messages": [{"role": "user", "content": [{"type": "text", "text": "\ud83d"}]}],
            "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        },
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


class Refused(msgspec.Struct):
    """What a request has besides the least of its protocol, what the error says, and the field if that is not first."""

    path: str
    ask: dict[str, Any]
    says: list[str]
    param: str = ""


OTHER = tool("other")
ALLOWED: Any = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [OTHER]}}
UNKNOWN = 'tool_choice.allowed_tools.tools[0].function.name: "other" is not declared; allowed are get_weather'
LARGE = [
    Refused(CHAT, {"tools": [WEATHER, WEATHER]}, ["tools[1]: ", "is declared twice"]),
    Refused(CHAT, {"tools": [tool(f"f{i}") for i in range(6)]}, ["tools: ", "allowed are 5"]),
    Refused(CHAT, {"tools": [WEATHER], "tool_choice": OTHER}, ["tool_choice.function.name: ", "are get_weather"]),
    Refused(CHAT, {"tools": [WEATHER], "tool_choice": ALLOWED}, [UNKNOWN]),
    Refused("/v1/completions", {"prompt": ["a"] * 9}, ["prompt: 9 outputs of all prompts; allowed are 8"]),
    Refused("/v1/completions", {"prompt": ["a"] * 5, "n": 2}, ["prompt: 10 outputs of all prompts; allowed are 8"]),
    Refused("/v1/completions", {"prompt": "x" * 4_194_305}, ["prompt: 4,194,305 characters", "allowed are 4,194,304"]),
    Refused("/v1/messages", {"tools": [{"name": "f", "input_schema": nested(100)}]}, ["tools[0]: ", "deeper than 128"]),
    Refused("/parse", {"pieces": [""] * 50_001}, ["pieces: ", "allowed are 50,000"]),
    Refused("/parse", {"text": "", "toml": "x" * 40_000}, ["toml: ", "allowed are 32,768"]),
    Refused("/parse", {"text": "", "toml": f"call = {['x'] * 65}"}, ["toml: call: contains 65 texts; allowed are 64"]),
    Refused("/parse", {"text": "", "toml": "name = " + "[" * 5000}, ["toml: "]),
    Refused("/ui/detect", {"model": "x" * 2000}, ["model: ", "allowed are 1,024"]),
]
MANY = 4097
_CALL = function_call("f", id="c")
_USE = {"type": "tool_use", "id": "c", "name": "f"}
_RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "r"}
_SERVED = {"id": "c", "name": "f", "arguments": "{}", "content": "r"}
_TOO_MANY: list[tuple[str, str, dict[str, Any], str]] = [
    (CHAT, "assistant", {"tool_calls": [_CALL] * MANY}, "4,097 calls of tools"),
    (CHAT, "assistant", {"tool_results": [_SERVED] * MANY}, "4,099 messages"),
    ("/v1/messages", "assistant", {"content": [_USE] * MANY}, "4,097 calls of tools"),
    ("/v1/messages", "user", {"content": [_RESULT] * MANY}, "4,097 messages"),
    ("/ag-ui", "assistant", {"toolCalls": [_CALL] * MANY}, "4,097 calls of tools"),
]
LARGE += [
    Refused(path, {"messages": [{"id": "a", "role": role, **said}]}, [f"messages: {told}", "allowed are 4,096"])
    for path, role, said, told in _TOO_MANY
]
CALLS: list[Any] = [[{"id": "c", "function": {"name": "f", "arguments": "{}"}}], [{}], [1], 1, "x"]
OTHERS = [
    Refused(CHAT, {"messages": [{"role": role, "content": "", "tool_calls": calls}]}, ["messages[0].tool_calls: a mes"])
    for role in ("user", "tool", "system", "developer", "function")
    for calls in CALLS
]
_LINES = Path(__file__).with_name("refused.jsonl").read_bytes()
REFUSED = [*msgspec.json.Decoder(Refused).decode_lines(_LINES), *LARGE, *OTHERS]


@pytest.fixture(scope="module")
def limited() -> Iterator[Live]:
    """A server with low limits."""
    with live(Scripted(["ok"]), "hermes", tools=5, generations=8) as running:
        yield running


@pytest.mark.parametrize("case", REFUSED, ids=[f"{c.path}-{c.says[0].partition(': ')[0]}" for c in REFUSED])
def test_a_request_is_refused_with_the_field_and_what_is_allowed(limited: Live, case: Refused) -> None:
    answer = limited.post(case.path, **{**MINIMAL.get(case.path, {}), **case.ask})
    said = message(answer)
    assert (answer.status_code, [text for text in case.says if text not in said]) == (400, []), said
    error = answer.json().get("error", {})
    assert error.get("type", "invalid_request_error") == "invalid_request_error"
    if "param" in error:
        assert error["param"] == (case.param or said.partition(": ")[0])


def test_an_error_is_short_whatever_the_request_says(bare: Live) -> None:
    long = "x" * 100_000
    inner = {"type": "string", "pattern": "(?=a)"}
    schemas: list[Any] = [{"$ref": f"#/{long}"}, {"type": "object", "properties": {long: inner}}]
    functions = [{"type": "function", "function": {"name": "f", "parameters": one}} for one in schemas]
    asks: list[Any] = [{"tools": [function], "tool_choice": "required"} for function in functions]
    asks += [{"response_format": {"type": long}}, {"tool_choice": long}]
    for ask in asks:
        answer = bare.post(CHAT, messages=HELLO, **ask)
        assert answer.status_code == 400, ask
        assert len(answer.text) < 6000, answer.text[:200]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses", "/ag-ui"])
def test_deeply_nested_values_are_refused_or_accepted(server: Live, path: str) -> None:
    for depth in (100, 900, 5000, 100_000):
        for deep in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
            for field in (b"unknown", b"messages", b"input", b"tools", b"metadata", b"chat_template_kwargs"):
                body = b'{"max_tokens":1,"threadId":"t","runId":"r",' + b'"%b":%b}' % (field, deep)
                assert server.http.post(path, content=body).status_code == 400
            known = {"messages": HELLO, "input": "x", "max_tokens": 1, "threadId": "t", "runId": "r"}
            said = {"role": "user", "id": "1", "content": "a"}
            call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "DEEP"}}
            use = {"type": "tool_use", "id": "1", "name": "f", "input": {"a": "DEEP"}}
            for more in (
                {**said, "content": [{"type": "image", "source": "DEEP"}]},
                {**said, "extra": "DEEP"},
                {**said, "role": "system", "extra": "DEEP"},
                {**said, "role": "assistant", "tool_calls": [call], "toolCalls": [call]},
                {**said, "role": "assistant", "content": [use]},
                {"type": "function_call", "call_id": "1", **call["function"]},  # type: ignore[dict-item]
            ):
                asked = {**known, "messages": [said, more], "input": [said, more]}
                request = json.dumps({**asked, "chat_template_kwargs": {"custom": "DEEP"}}).encode()
                for value in (deep, json.dumps(f'{{"a": {deep.decode()}}}').encode()):
                    answer = server.http.post(path, content=request.replace(b'"DEEP"', value))
                    assert answer.status_code in (200, 400, 413), (depth, answer.text[:200])


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


def test_options_of_other_servers_are_taken_where_they_change_nothing(bare: Live) -> None:
    idle: Any = {"logit_bias": {}, "best_of": 1, "echo": False, "stop_token_ids": [], "modalities": ["text"]}
    assert bare.post(messages=HELLO, add_generation_prompt=True, store=True, **idle).status_code == 200


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
