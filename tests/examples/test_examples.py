"""Each example runs, and prints what it promises."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import openai
import pytest

from unspool.engines.upstream import Upstream
from unspool.request.prompts import Prompts, read_tokenizer
from unspool.server import create_app

from ..server.support import Live, chunks, live, running
from ..tokenizer import FOLDER
from .support import EXAMPLES, RAW, example, page_with_delay, raw_endpoint

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
ASKED: Any = {
    "messages": [{"role": "user", "content": "How warm is it in Paris?"}],
    "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": CITY}}],
}


@pytest.fixture
def scripted() -> Iterator[Live]:
    """unspool's server in front of the raw endpoint."""
    with raw_endpoint() as (url, _), live(Upstream(url), "hermes", prompts=Prompts(read_tokenizer(FOLDER))) as server:
        yield server


def called(stream: str) -> tuple[str, str, str]:
    """The reasoning, the name and the arguments in a stream of chat completions."""
    thought, name, arguments = "", "", ""
    for chunk in chunks(stream):
        delta = chunk["choices"][0]["delta"]
        thought += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls", ()):
            name += call["function"].get("name", "")
            arguments += call["function"]["arguments"]
    return thought, name, arguments


def test_the_ten_examples_have_twenty_to_sixty_lines_and_are_listed() -> None:
    programs = [path for path in sorted(EXAMPLES.iterdir()) if path.suffix in (".py", ".html")]
    listed = re.findall(r"\]\(([a-z_]+\.(?:py|html))\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == [path.name for path in programs]
    assert len(programs) == 10
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in programs}
    assert {name: length for name, length in lengths.items() if not 20 <= length <= 60} == {}


@pytest.mark.examples
def test_before_vllm_serves_a_raw_endpoint() -> None:
    with raw_endpoint() as (url, asked):
        settings, engine, prompts = example("before_vllm").parts(url, str(FOLDER))
        assert settings.dialect.name == "hermes"
        with running(create_app(settings, engine, prompts)) as here:
            answer = httpx2.post(f"{here}/v1/chat/completions", json={**ASKED, "stream": True}, timeout=20)
    assert called(answer.text) == ("One city.", "get_weather", '{"city": "Paris"}')
    assert "How warm is it in Paris?" in str(asked[0]["prompt"])


def test_fastapi_proxy_answers_in_front_of_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_endpoint() as (url, asked):
        monkeypatch.setenv("ENGINE", url)
        monkeypatch.setenv("MODEL", str(FOLDER))
        monkeypatch.setenv("DIALECT", "hermes")
        with running(example("fastapi_proxy").app) as here:
            answer = httpx2.post(f"{here}/v1/chat/completions", json=ASKED, timeout=20)
            refused = httpx2.post(f"{here}/v1/chat/completions", json={**ASKED, "tools": ["none"]}, timeout=20)
    assert called(answer.text) == ("One city.", "get_weather", '{"city": "Paris"}')
    assert "How warm is it in Paris?" in asked[0]["prompt"]
    assert (refused.status_code, len(asked)) == (400, 1)


def test_streaming_tools_runs_tools_while_the_model_writes(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(example("streaming_tools").main())
    printed = capsys.readouterr().out
    assert "Two cities, at once.I look both up." in printed
    assert printed.endswith("21 degrees in Paris\n21 degrees in Oslo\n")


def test_rl_loop_prints_rewards_and_token_masks(capsys: pytest.CaptureFixture[str]) -> None:
    paris, oslo = (RAW.split("\n\n", 1)[1].replace("Paris", city) for city in ("Paris", "Oslo"))
    outputs = [
        oslo + paris,
        f"<think>\n{'Well. ' * 9}\n</think>\n\n{paris}{oslo}",
        paris,
        paris.replace('"Paris"', "Paris"),
        "No.",
    ]
    with raw_endpoint(*outputs) as (url, asked):
        asyncio.run(example("rl_loop").main(url, str(FOLDER), "hermes", len(outputs)))
    assert len(asked) == len(outputs)
    assert all(isinstance(token, int) for token in asked[0]["prompt"])
    *lines, last = capsys.readouterr().out.splitlines()
    assert all(line.endswith("tokens to learn") for line in lines)
    short, long, one, broken, none = (float(line.split()[1].rstrip(",")) for line in lines)
    assert 1 > short > long > one > none > broken >= 0, "what is better gets more"
    assert sum(float(line.split()[3].rstrip(",")) for line in lines) == pytest.approx(0, abs=0.03)
    assert re.fullmatch(r"ids \(5, \d+\) mask \(5, \d+\)", last)


def test_batch_scores_rows_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    rows = [{"output": good}, {"output": good.replace("}}", "}")}, {"output": good[:-3]}, {"other": 1}]
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    example("batch").main(str(path), "hermes")
    printed = capsys.readouterr().out
    assert printed.startswith("3 outputs, 1 rows that cannot be read\n")
    assert re.search(r"^ +[23] calls of now: ok$", printed, re.M)


def test_own_dialect_checks_and_reads_a_format(capsys: pytest.CaptureFixture[str]) -> None:
    example("own_dialect").main()
    assert 'failures: []\nget_weather {"city": "Oslo", "days": 2}\n' in capsys.readouterr().out


def test_plug_in_prints_events_and_the_trigger(capsys: pytest.CaptureFixture[str]) -> None:
    example("plug_in").main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["call 0 get_weather", "text 'I look it up.'", 'arguments {"city": "Paris"}']
    assert "trigger='<tool_call>'" in lines[3]


def test_constrained_generates_a_valid_call(capsys: pytest.CaptureFixture[str]) -> None:
    constrained = example("constrained")
    for seed in range(3):
        constrained.main(seed)
        assert capsys.readouterr().out.splitlines()[-1].startswith("ok {'unit': '")


def test_agent_calls_its_tool_and_answers(
    scripted: Live, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = example("agent")
    # Nothing is encrypted here, and reading certificates would take longer than the test.
    monkeypatch.setattr(
        agent, "OpenAI", lambda **options: openai.OpenAI(**options, http_client=scripted.openai._client)
    )
    answer = agent.main("What is the weather in Paris?", f"{scripted.url}/v1")
    assert capsys.readouterr().out == '[get_weather {"city": "Paris"}]\n'
    assert "21" in answer
    failed = SimpleNamespace(function=SimpleNamespace(name="unknown", arguments="{}"))
    assert agent.run(failed) == "error: KeyError: 'unknown'"
    with pytest.raises(RuntimeError, match="no answer after 0 turns"):
        agent.main("What is the weather in Paris?", f"{scripted.url}/v1", 0)


@pytest.mark.examples
def test_browser_shows_the_streamed_answer(scripted: Live, tmp_path: Path) -> None:
    browser = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)
    assert browser is not None, "there is no Chromium: apt-get install chromium"
    with running(page_with_delay("browser.html", 5)) as pages:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom"]
        command.append(f"{pages}/browser.html?ask&server={scripted.url}")
        page = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert re.search(r'<p id="reasoning">[^<]+</p>', page), page
    assert '<pre id="calls">get_weather{"city": "Paris"}</pre>' in page
    assert '<p id="state">tool_calls</p>' in page


@pytest.mark.parametrize("missing", ["", "openai", "fastapi"])
@pytest.mark.parametrize("name", ["agent", "batch", "before_vllm", "fastapi_proxy", "rl_loop"])
def test_an_example_without_its_arguments_packages_or_a_server_prints_its_usage(
    name: str, missing: str, tmp_path: Path
) -> None:
    if missing:  # a package that cannot be imported
        (tmp_path / f"{missing}.py").write_text(f"raise ModuleNotFoundError({missing!r})\n", encoding="utf-8")
    nowhere = {"ALL_PROXY": "http://127.0.0.1:9", "NO_PROXY": "", "PYTHONPATH": str(tmp_path)}
    environment = {k: v for k, v in os.environ.items() if k not in ("ENGINE", "MODEL")} | nowhere
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 1
    assert re.search(rf"python examples/{name}.py |uvicorn .* {name}:app", done.stderr)
    assert "Traceback" not in done.stderr
