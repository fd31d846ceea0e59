"""The RFC's integration test: its command line, its three models, its client."""

import contextlib
import json
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from unspool import parse

from ..support import random_split
from .support import PATIENCE, both, write_lines
from .test_operating import started

V31 = (
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"location": "北京", "unit": "c"}'
    "<｜tool▁call▁end｜>"
)
V3 = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
    '```json\n{"location": "北京", "unit": "c"}\n```<｜tool▁call▁end｜>'
)
END = "<｜tool▁calls▁end｜><｜end▁of▁sentence｜>"
SECOND = V3.removeprefix("<｜tool▁calls▁begin｜>").replace("北京", "上海")

OUTPUTS: dict[str, dict[str, str]] = {
    "unsloth/DeepSeek-R1-BF16": {
        "answer": "用户问天气。\n</think>\n\n今天晴。<｜end▁of▁sentence｜>",
        "answer, opened": "<think>\n用户问天气。\n</think>\n\n今天晴。",
        "call": f"<think>\n查天气。\n</think>\n\n{V3}{END}",
        "calls": f"查天气。</think>{V3}\n{SECOND}{END}",
    },
    "unsloth/DeepSeek-V3-0324-BF16": {
        "answer": "今天晴。<｜end▁of▁sentence｜>",
        "call": f"{V3}{END}",
        "calls": f"{V3}\n{SECOND}{END}",
        "prose first": f"让我查一下。{V3}{END}",
    },
    "unsloth/DeepSeek-V3.1-BF16": {
        "answer": "今天晴。",
        "answer with thinking": "用户问天气。</think>今天晴。",
        "call": f"{V31}{END}",
        "call with thinking": f"查天气。</think>{V31}{END}",
        "calls": f"</think>{V31}<｜tool▁call▁begin｜>now<｜tool▁sep｜>{{}}<｜tool▁call▁end｜>{END}",
        "broken": f"查天气。</think>{V31.replace('}', '')}{END}",
        "text between": f"{V31}然后{V31.removeprefix('<｜tool▁calls▁begin｜>')}{END}",
    },
}
"""The output of each model, by request."""

TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"location": {"type": "string"}, "unit": {"type": "string", "enum": ["c", "f"]}},
            },
        },
    },
    {"type": "function", "function": {"name": "now"}},
]


@contextlib.contextmanager
def serving(folder: Path, model: str, port: int = 0) -> Iterator[int]:
    """`unspool serve` with the RFC's arguments, in its own process. Yields the port."""
    for asked, raw in OUTPUTS[model].items():
        pieces = [{"type": "chunk", "text": piece} for piece in random_split(raw, random.Random(raw))]
        request, last = {"type": "request", "match": f"({asked})"}, {"type": "chunk", "finish_reason": "stop"}
        write_lines(folder / f"{asked}.jsonl", request, *pieces, last)
    arguments = ["--model", model, "--port", str(port), "--reasoning-parser", "deepseek"]
    with started(*arguments, "--tool-call-parser", "deepseek", "--engine", f"replay:{folder}") as process:
        assert f"model={model}; dialect=deepseek; " in process.lines[0], process.lines
        yield int(process.url.rpartition(":")[2])


@pytest.mark.parametrize("model", OUTPUTS)
def test_each_model_is_served_by_both_parsers_of_the_plain_name(model: str, tmp_path: Path) -> None:
    plain = openai.DefaultHttpxClient(timeout=PATIENCE, verify=False)
    with (
        serving(tmp_path, model) as port,
        openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="EMPTY", http_client=plain) as client,
    ):
        assert [m.id for m in client.models.list()] == [model]
        for asked, raw in OUTPUTS[model].items():
            expected = parse(raw, "deepseek", tools=TOOLS)
            ask: Any = {"model": "deepseek", "messages": [{"role": "user", "content": f"({asked})"}], "tools": TOOLS}
            for choice in (answer.choices[0] for answer in both(client.chat.completions, **ask)):
                message = choice.message
                assert (getattr(message, "reasoning_content", None) or "") == expected.reasoning, asked
                assert (message.content or "") == expected.content, asked
                called = [(c.function.name, c.function.arguments) for c in message.tool_calls or ()]
                assert called == [(c.name, c.arguments) for c in expected.tool_calls], asked
                assert choice.finish_reason == expected.finish_reason, asked


def test_the_example_of_the_rfc_runs_verbatim(tmp_path: Path) -> None:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 8192)) == 0:
            pytest.skip("port 8192 is taken")
    model = "unsloth/DeepSeek-V3-0324-BF16"
    raw = f"I'll check.</think>{V3}{END}"
    chunk = {"type": "chunk", "text": raw, "finish_reason": "stop"}
    write_lines(tmp_path / "example.jsonl", {"type": "request"}, chunk)
    with serving(tmp_path, model, 8192):
        client = openai.OpenAI(api_key="EMPTY", base_url="http://localhost:8192/v1")
        response: Any = client.chat.completions.create(
            model="deepseek", messages=[{"role": "user", "content": "What's the weather in Beijing?"}], tools=TOOLS[:1]
        )
        client.close()
    assert response.choices[0].message.reasoning_content == "I'll check."
    (call,) = response.choices[0].message.tool_calls
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"location": "北京", "unit": "c"}
