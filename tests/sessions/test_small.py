"""Rows are what the real llama.cpp was sent and sampled, for agents of the official clients and the small model."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import msgspec
import pytest

from unspool import get_dialect
from unspool.cli.local import SMALL
from unspool.dialect.compiling import compile_plan
from unspool.engines.local import Launch, LlamaProcess, Local
from unspool.infer.gguf import read_gguf
from unspool.request.prompts import Prompts
from unspool.request.tokenizer import gguf_tokenizer

from ..server.support import Live, live
from ..small import need_small_model
from .proxy import Proxy
from .support import check, made, trajectory, tree

PATIENCE = 120.0
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Any = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Get the current weather in a city.", "parameters": WEATHER},
}
PARIS = "What is the weather in Paris?"


@contextlib.contextmanager
def started(*adapters: tuple[str, float]) -> Iterator[LlamaProcess]:
    """llama.cpp with the small model."""
    fields = {"n_ctx": 4096, "n_parallel": 2, "kv_unified": False, "verbosity": 1}
    process = LlamaProcess(Launch(model=str(need_small_model()), adapters=adapters, fields=fields), lambda fault: None)
    process.start()
    try:
        yield process
    finally:
        process.close()


@contextlib.contextmanager
def through(llama: LlamaProcess) -> Iterator[tuple[Live, Proxy]]:
    """A server before llama.cpp, with a proxy between them."""
    dialect, gguf = get_dialect("hermes"), read_gguf(str(need_small_model()), vocabulary=True)
    prompts = Prompts(gguf_tokenizer(gguf, (SMALL / "chat_template.jinja").read_text(encoding="utf-8")))
    prompts.check(dialect)
    with Proxy(llama.address.url).running() as proxy:
        address = msgspec.structs.replace(llama.address, url=proxy.url)
        engine = Local(address, gguf, markers=sorted(compile_plan(dialect).literals), ends=dialect.end)
        with live(engine, "hermes", prompts=prompts, sessions=True) as server:
            yield server, proxy


@pytest.fixture(scope="module")
def llama() -> Iterator[LlamaProcess]:
    with started((str(SMALL / "adapter.gguf"), 1.0)) as process:
        yield process


@pytest.fixture
def serving(llama: LlamaProcess) -> Iterator[tuple[Live, Proxy]]:
    with through(llama) as both:
        yield both


def by_chat(server: Live, key: str) -> None:
    client = server.openai.with_options(api_key=key, max_retries=2)
    messages: list[Any] = [{"role": "user", "content": PARIS}]
    for follow in ("Thank you! And now say hello.", None):
        with client.chat.completions.stream(model="m", messages=messages, tools=[TOOL], max_tokens=60) as stream:
            message = stream.get_final_completion().choices[0].message
        messages.append(message.to_dict())
        for call in message.tool_calls or ():
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "18 C, sunny"})
        if not message.tool_calls:
            messages.append({"role": "user", "content": follow})


def by_responses(server: Live, key: str) -> None:
    client = server.openai.with_options(api_key=key)
    tools: Any = [{"type": "function", **TOOL["function"], "strict": False}]
    items: list[Any] = [{"role": "user", "content": PARIS}]
    for _ in range(3):
        with client.responses.stream(model="m", input=items, tools=tools, max_output_tokens=60) as stream:
            response = stream.get_final_response()
        items += [item.to_dict() for item in response.output]
        calls = [item for item in response.output if item.type == "function_call"]
        items += [{"type": "function_call_output", "call_id": call.call_id, "output": "18 C"} for call in calls]
        if not calls:
            items.append({"role": "user", "content": "And now say hello."})


def by_messages(server: Live, key: str) -> None:
    tools: Any = [{"name": "get_weather", "description": "Get the current weather.", "input_schema": WEATHER}]
    messages: list[Any] = [{"role": "user", "content": PARIS}]
    with anthropic.Anthropic(base_url=server.url, api_key=key, timeout=PATIENCE) as client:
        for _ in range(3):
            with client.messages.stream(model="m", max_tokens=60, messages=messages, tools=tools) as stream:
                message = stream.get_final_message()
            messages.append({"role": "assistant", "content": [block.to_dict() for block in message.content]})
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": "18 C"}
                for block in message.content
                if block.type == "tool_use"
            ]
            messages.append({"role": "user", "content": results or "And now say hello."})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("agent", [by_chat, by_responses, by_messages])
def test_rows_are_what_llama_cpp_was_sent_and_sampled(serving: tuple[Live, Proxy], agent: Any) -> None:
    server, proxy = serving
    session = made(server, sampling={"temperature": 0.7, "seed": 3})
    assert session["exact"], session["problems"]
    proxy.record.clear()
    agent(server, session["key"])
    found = trajectory(server, session)
    assert proxy.hidden == 0
    check(found, proxy.record)
    assert len(found["calls"]) >= 2
    assert tree(found)[1:] == [(at, None) for at in range(len(found["calls"]) - 1)]
    assert len(found["rows"]) == 1
    assert {c["logprobs_kind"] for c in found["calls"]} == {"raw"}
    assert {body["temperature"] for body in proxy.bodies[-2:]} == {0.7}


def test_tokens_that_a_schema_forced_are_named(serving: tuple[Live, Proxy]) -> None:
    server, proxy = serving
    session = made(server)
    proxy.record.clear()
    client = server.openai.with_options(api_key=session["key"])
    schema = {
        "type": "object",
        "properties": {"answer": {"enum": ["certainly"]}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    form: Any = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}}
    asked: Any = [{"role": "user", "content": "Is it?"}]
    options: Any = {"response_format": form, "temperature": 0, "max_tokens": 200}
    answer = client.chat.completions.create(model="m", messages=asked, **options)
    assert json.loads(answer.choices[0].message.content or "") == {"answer": "certainly"}
    found = trajectory(server, session)
    check(found, proxy.record)
    (row,) = found["rows"]
    kinds = row["kinds"][row["prompt_length"] :]
    assert kinds.count("constrained") > 2
    assert {"reasoning", "markers"} <= set(kinds)
    assert all(p is not None for p in row["logprobs"][row["prompt_length"] :])
