"""`unspool serve`: what its arguments mean, and the errors when they are wrong."""

import base64
import json
import shlex
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import unspool.server
from unspool import Policy, get_dialect
from unspool.cli import main
from unspool.engines import Capture, Replay, Request, read_recordings
from unspool.engines.capture import Asked, write_recording
from unspool.grammar import ToolStrictLevel
from unspool.request.sealed import Seal
from unspool.store import Store

from ..small import need_small_model

WRONG = tomllib.loads(Path(__file__).with_name("wrong.toml").read_text(encoding="utf-8"))


@pytest.fixture
def recording(tmp_path: Path) -> str:
    file = tmp_path / "r.jsonl"
    file.write_text('{"type": "request"}\n{"type": "chunk", "text": "plan</think>hi"}\n')
    return f"replay:{file}"


@pytest.mark.parametrize(
    ("options", "dialect", "reasoning"),
    [
        (["--dialect", "hermes"], "hermes", "hermes"),
        (["--tool-call-parser", "hermes"], "hermes", "hermes"),
        (["--reasoning-parser", "hermes"], "hermes", "hermes"),
        (["--reasoning-parser", "mistral", "--tool-call-parser", "hermes"], "hermes", "mistral"),
        (["--reasoning-parser", "deepseek", "--tool-call-parser", "deepseek"], "deepseek", "deepseek"),
        (["--model", "Qwen/Qwen3-Coder-30B"], "qwen3-coder", "qwen3-coder"),
    ],
)
def test_the_dialect_is_chosen_by_name_by_both_parsers_or_by_the_model(
    served: list[Any], recording: str, options: list[str], dialect: str, reasoning: str
) -> None:
    assert main(["serve", "--engine", recording, *options]) == 0
    settings, engine, host, port, _ = served[0]
    assert settings.dialect.name == dialect
    assert settings.dialect.reasoning == get_dialect(reasoning).reasoning
    assert settings.model == (options[1] if options[0] == "--model" else dialect)
    assert (host, port, isinstance(engine, Replay)) == ("127.0.0.1", 8192, True)


def test_every_option_reaches_the_settings(served: list[Any], recording: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret\n")
    options = ["--policy", "bad_arguments=drop", "--profile", "mindie", "--full-text", "--timing", "top"]
    options += ["--reasoning-field", "both", "--named-reason", "tool_calls", "--strict-level", "function"]
    options += ["--api-key", f"@{tmp_path / 'key'}", "--max-queue", "7", "--max-stall", "2.5", "--content-chunks"]
    (tmp_path / "keys").write_text(f"{base64.b64encode(bytes(32)).decode()}\n")
    options += ["--reasoning-key", f"@{tmp_path / 'keys'}", "--context-turns", "all", "--turn-memory", "3"]
    options += ["--effort-budget", "low=9", "--effort-budget", "high=99"]
    options += ["--coalesce-reasoning", "--coalesce-arguments", "--coalesce-delay", "0.5"]
    options += ["--allowed-host", "GPU.lan", "--no-ui"]
    options += ["--replay-speed", "0", "--host", "0.0.0.0", "--port", "1", "--model", "m", "--dialect", "hermes"]
    assert main(["serve", "--engine", recording, *options]) == 0
    settings, _, host, port, _ = served[0]
    assert (settings.model, host, port, settings.api_key) == ("m", "0.0.0.0", 1, "secret")
    assert (settings.policy.bad_arguments, settings.profile, settings.full_text) == ("drop", "mindie", True)
    assert (settings.timing, settings.reasoning_field, settings.named_reason) == ("top", "both", "tool_calls")
    assert (settings.hosts, settings.ui) == (("gpu.lan", "0.0.0.0"), False)
    assert (settings.strict_level, settings.content_chunks) == (ToolStrictLevel.FUNCTION, True)
    assert (settings.limits.queue, settings.limits.stall, settings.limits.generations) == (7, 2.5, 100)
    assert (settings.coalesce_reasoning, settings.coalesce_arguments, settings.coalesce_delay) == (True, True, 0.5)
    assert (settings.context, settings.turn_memory, settings.efforts) == ("all", 3 << 20, {"low": 9, "high": 99})
    assert settings.seal.open(Seal([bytes(32)]).seal("thought")) == "thought"
    assert settings.summary() == (
        "model=m; dialect=hermes; stage=content; policy: bad_arguments=drop, call_in_reasoning=resume; profile=mindie; "
        f"engine={recording}"
    )


async def test_a_capture_can_be_parsed_again_with_both_parsers(
    served: list[Any], recording: str, tmp_path: Path
) -> None:
    options = ["--reasoning-parser", "deepseek", "--tool-call-parser", "hermes", "--capture", str(tmp_path / "c")]
    assert main(["serve", "--engine", recording, *options]) == 0
    engine = served[0][1]
    assert isinstance(engine, Capture)
    assert [d.text async for d in engine.generate(Request(stage=unspool.Stage.REASONING))] == ["plan</think>hi"]
    message = read_recordings(tmp_path / "c")[0].parse()
    assert (message.reasoning, message.content) == ("plan", "hi")


@pytest.mark.parametrize(("options", "error"), WRONG.items())
def test_wrong_arguments_are_reported_in_one_line(
    served: list[Any], recording: str, options: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--engine", recording, *shlex.split(options)]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("unspool serve: ")
    assert error in printed
    assert printed.count("\n") == 1
    assert not served


def test_a_file_that_keeps_another_servers_sessions_is_reported_in_one_line(
    recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "store.db"
    other = Store(file)
    other.claim("sessions")
    try:
        options = ["--dialect", "hermes", "--port", "0", "--sessions", "--store", str(file)]
        assert main(["serve", "--engine", recording, *options]) == 2
    finally:
        other.close()
    why = "another process keeps its sessions there; give each its own file"
    assert capsys.readouterr().err == f"unspool serve: --store: {file}: {why}\n"


@pytest.mark.parametrize(
    ("engine", "error"),
    [
        ("replay:", "--engine: 'replay:': allowed are"),
        ("replay:/nowhere", "--engine: /nowhere: No such file"),
        ("http://127.0.0.1:1", "--engine: http://127.0.0.1:1: it cannot be reached (Connection refused);"),
    ],
)
def test_an_unusable_engine_is_reported_in_one_line(
    engine: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--port", "0", "--dialect", "hermes", "--engine", engine]) == 2
    assert error in capsys.readouterr().err


def test_a_dialect_of_another_model_points_to_the_missing_engine(capsys: pytest.CaptureFixture[str]) -> None:
    need_small_model()
    assert main(["serve", "--port", "0", "--tool-call-parser", "mistral"]) == 2
    printed = capsys.readouterr().err
    assert "--engine: is not given, so the default model is served: dialect mistral cannot read" in printed
    assert "--tokenizer" not in printed


def test_neither_the_library_nor_the_command_line_needs_the_servers_packages() -> None:
    code = "import sys, unspool, unspool.cli; print([m for m in sys.modules if m.split('.')[0] in %r])"
    packages = ["starlette", "uvicorn", "uvloop", "httptools", "asyncio", "jinja2"]
    ran = subprocess.run([sys.executable, "-c", code % packages], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout.replace("'", '"')) == []
    extras = "unspool.server", "unspool.request", "unspool.generation", "unspool.engines"
    # A template is rendered in a process of its own, so the server's does without Jinja too.
    server = "import sys, unspool.server.main; print('jinja2' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", server], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
    core = f"import sys, unspool; print([m for m in sys.modules if m.startswith({extras})])"
    ran = subprocess.run([sys.executable, "-c", core], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_a_port_in_use_is_reported_in_one_line_with_exit_code_2(
    recording: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        assert main(["serve", "--engine", recording, "--dialect", "hermes", "--port", str(port)]) == 2
    assert capsys.readouterr().err == f"unspool serve: --port: {port} is in use; --port 0 picks a free one\n"


def test_a_foreign_host_is_reported_as_an_error_of_the_host(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--engine", recording, "--dialect", "hermes", "--host", "192.0.2.1", "--port", "0"]) == 2
    assert capsys.readouterr().err == "unspool serve: --host: 192.0.2.1: Cannot assign requested address\n"


def test_recordings_bring_their_dialect_policy_and_tools(served: list[Any], tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    for name, tools in (("a", [tool]), ("b", [tool, {"name": "g"}])):
        asked = Asked(dialect="hermes", tools=tools, tool_choice="required", policy=Policy(bad_arguments="drop"))
        write_recording(tmp_path / f"{name}.jsonl", asked, ["x"])
    assert main(["serve", "--engine", f"replay:{tmp_path}", "--policy", "unknown_tool=drop"]) == 0
    settings = served[0][0]
    assert settings.dialect is get_dialect("hermes")
    assert settings.policy == Policy(bad_arguments="drop", unknown_tool="drop")
    assert (settings.tools, settings.tool_choice) == ([tool, {"name": "g"}], "required")
