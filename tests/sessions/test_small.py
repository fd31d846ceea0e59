"""Rows are what the real llama.cpp was sent and sampled, for agents of the official clients and the small model."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from unspool import get_dialect
from unspool.checkpoints.gguf import read_gguf
from unspool.cli.local import SMALL
from unspool.dialect.compiling import compile_plan
from unspool.engines.local import Launch, LlamaProcess, Local
from unspool.request.prompts import Prompts
from unspool.request.tokenizer import gguf_tokenizer

from ..server.support import Live, live
from ..server.test_continuation import of_chat, of_messages, of_responses, theirs
from ..small import TOOL, WEATHER, need_small_model
from .proxy import Proxy
from .support import check, made, trajectory, tree


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


OPTIONS: dict[Any, dict[str, Any]] = {
    of_chat: {"tools": [TOOL], "max_tokens": 60},
    of_responses: {"tools": [{"type": "function", **TOOL["function"], "strict": False}], "max_output_tokens": 60},
    of_messages: {
        "tools": [{"name": "get_weather", "description": "Get the current weather.", "input_schema": WEATHER}],
        "max_tokens": 60,
        "mcp_servers": [],
        "betas": [],
    },
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ask", OPTIONS)
def test_rows_are_what_llama_cpp_was_sent_and_sampled(serving: tuple[Live, Proxy], ask: Any) -> None:
    server, proxy = serving
    session = made(server, sampling={"temperature": 0.7, "seed": 3})
    assert session["exact"], session["problems"]
    proxy.record.clear()
    server.openai = server.openai.with_options(api_key=session["key"])
    history: list[Any] = [{"role": "user", "content": "What is the weather in Paris?"}]
    for _ in range(3):
        said = ask(server, history, stream=True, **OPTIONS[ask])
        history += [*said, *(theirs(ask, said) or [{"role": "user", "content": "And now say hello."}])]
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
