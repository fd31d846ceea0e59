"""The command `chat`: turns, calls and their results, with an engine and with a server."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.loopback import answering, sends
from tests.server.support import Scripted, live, replay
from tests.support import pieces, tool
from unspool.cli import main
from unspool.engines import EngineError
from unspool.engines.capture import Asked, write_recording

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


@pytest.fixture
def tools(tmp_path: Path) -> str:
    (tmp_path / "tools.json").write_text(json.dumps([tool("get_weather")]), encoding="utf-8")
    return str(tmp_path / "tools.json")


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """Run the command on lines of input, and return the exit code, the output and the errors."""

    def run(arguments: list[str], *lines: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(line + "\n" for line in lines)))
        code = main(["chat", *arguments])
        return (code, *capfd.readouterr())

    return run


def recorded(tmp_path: Path, *outputs: str) -> str:
    for number, raw in enumerate(outputs):
        write_recording(tmp_path / f"{number}.jsonl", Asked(), pieces(raw, 6))
    return f"replay:{tmp_path}"


def test_an_engine_answers_turn_by_turn_and_gets_the_results_that_are_typed(
    chat: Any, tools: str, tmp_path: Path
) -> None:
    engine = recorded(tmp_path, f"<think>A city.</think>{CALL}", "It is sunny.", "You are welcome.")
    saved = tmp_path / "saved.json"
    lines = ("Weather\\", "in Paris?", '{"sky": "clear"}', "Thanks!", "/save " + str(saved), "/undo", "/messages")
    code, out, err = chat(["--engine", engine, "--dialect", "hermes", "--tools", tools, "--replay-speed", "0"], *lines)
    assert (code, err) == (0, "")
    roles = ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert [m["role"] for m in json.loads(saved.read_text())] == roles
    first, second, third, fourth, *_ = json.loads(saved.read_text())
    assert first["content"] == "Weather\nin Paris?"
    assert (second["reasoning_content"], second["tool_calls"][0]["function"]["name"]) == ("A city.", "get_weather")
    assert (third["content"], third["tool_call_id"]) == ('{"sky": "clear"}', second["tool_calls"][0]["id"])
    assert fourth["content"] == "It is sunny."
    assert json.loads(out[out.index("[\n") :]) == [first, second, third, fourth]


def test_a_server_answers_as_an_engine_does(chat: Any, tools: str) -> None:
    with live(replay(f"<think>A city.</think>{CALL}", "It is sunny."), api_key="secret") as server:
        arguments = [server.url + "/v1", "--api-key", "secret", "--tools", tools, "--system", "Be kind."]
        code, out, err = chat(arguments, "Weather?", "clear", "/messages")
    assert (code, err) == (0, "")
    assert "reasoning  A city." in out
    assert '{"city": "Paris"}' in out
    assert "content    It is sunny." in out
    assert '"content": "clear"' in out


def test_a_turn_that_fails_is_reported_and_forgotten(chat: Any) -> None:
    with live(Scripted(["Hel", "lo"], fail_after=1, error=EngineError("the device is lost"))) as server:
        code, out, err = chat([server.url], "Hi", "/messages", "/nonsense")
        assert code == 1
        assert "unspool chat: the server failed: the device is lost" in err
        assert "there is no command /nonsense" in err
        assert out.endswith("[]\n")
        closed = server.url
    code, _, err = chat([closed], "Hi")
    assert (code, err.count("\n")) == (1, 1)
    assert err == f"unspool chat: {closed}: Connection refused\n"
    assert chat(["ftp://x"], "Hi")[:1] == (2,)
    refused = chat([closed, "--engine", "replay:x"], "Hi")[2]
    assert refused.startswith("unspool chat: --engine: cannot be combined with URL")


def test_a_servers_text_does_not_steer_the_terminal_and_what_is_no_chunk_is_reported(chat: Any, tmp_path: Path) -> None:
    code, out, err = chat(["--engine", recorded(tmp_path, "a\x1b[2Jb"), "--dialect", "hermes"], "Hi")
    assert (code, err) == (0, "")
    assert "a\\x1b[2Jb" in out


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (b"data: [1]\n\n", "object has no attribute"),
        (b"data: {\n\n", "truncated"),
        (b'data: {"error": {"message": "no luck"}}\n\n', "the server failed: no luck"),
        (b'data: {"choices": [{"delta": {"content": "Hel"}}]}\n\n', "the server ended its stream early"),
    ],
)
def test_a_stream_that_cannot_be_read_is_one_line_on_standard_error(chat: Any, frames: bytes, message: str) -> None:
    with answering(sends(frames)) as url:
        code, _, err = chat([url, "--model", "m"], "Hi")
    assert (code, err.count("\n")) == (1, 1)
    assert message in err


@pytest.mark.tools
def test_the_tools_of_an_mcp_server_run_here_once_they_are_allowed(chat: Any, tmp_path: Path) -> None:
    call = '<tool_call>\n{"name": "add", "arguments": {"a": 17, "b": 25}}\n</tool_call>'
    engine = recorded(tmp_path, call, "It is 42.")
    server = {"command": sys.executable, "args": [str(Path(__file__).parents[1] / "tools" / "sdk_server.py"), "stdio"]}
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"calculator": server}}), encoding="utf-8")
    line = ["--engine", engine, "--dialect", "hermes", "--replay-speed", "0", "--mcp-config", str(config)]
    code, out, err = chat([*line, "--yes"], "What is 17 plus 25?")
    assert (code, err) == (0, "")
    assert "result     42\n" in out
    _, out, _ = chat(line, "What is 17 plus 25?")  # nobody can allow it
    assert "result     The user did not allow this call.\n" in out
    config.write_text("{}", encoding="utf-8")
    code, _, err = chat(line, "Hi")
    assert (code, err.count("\n")) == (2, 1)
    assert "--mcp-config: " in err
