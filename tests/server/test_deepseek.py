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
from unspool.engines.capture import Asked, write_recording

from ..support import random_split, tool
from .processes import Process
from .support import PATIENCE, both

V3 = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
    '```json\n{"location": "北京", "unit": "c"}\n```<｜tool▁call▁end｜>'
)
END = "<｜tool▁calls▁end｜><｜end▁of▁sentence｜>"

_FILE = Path(__file__).with_name("deepseek.json")
OUTPUTS: dict[str, dict[str, str]] = json.loads(_FILE.read_text(encoding="utf-8"))
"""The output of each model, by request."""

TOOLS: Any = [
    tool("get_weather", location="string", unit={"type": "string", "enum": ["c", "f"]}),
    {"type": "function", "function": {"name": "now"}},
]


@contextlib.contextmanager
def serving(folder: Path, model: str, port: int = 0) -> Iterator[int]:
    """`unspool serve` with the RFC's arguments, in its own process. Yields the port."""
    for asked, raw in OUTPUTS[model].items():
        pieces = random_split(raw, random.Random(raw))
        write_recording(folder / f"{asked}.jsonl", Asked(match=f"({asked})"), pieces)
    arguments = ["--model", model, "--port", str(port), "--reasoning-parser", "deepseek"]
    with Process(*arguments, "--tool-call-parser", "deepseek", "--engine", f"replay:{folder}") as process:
        assert f"model={model}; dialect=deepseek; " in process.lines[0], process.lines
        yield process.port


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
    write_recording(tmp_path / "example.jsonl", Asked(), [f"I'll check.</think>{V3}{END}"])
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
