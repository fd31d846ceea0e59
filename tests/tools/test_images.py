"""Images of a real MCP server in a child process reach a model that takes them; otherwise a note stands for them."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.media import base64_of, png
from tests.request.parts.test_places import BLIND, BLIND_RESULTS, SEEING, SPAN
from tests.request.parts.test_reading import image
from tests.server.support import chunks
from tests.server.test_parts import KINDS, OUTPUT, TEXT, body, media_of, prompt_of, serving
from tests.support import function_call
from unspool.request.shapes import MOVED
from unspool.tools import ToolLimits, ToolServer
from unspool.tools.config import read_config

pytestmark = pytest.mark.tools


def painter(folder: Path, approval: str = "never") -> Sequence[ToolServer]:
    """A real tool server in a child process, whose tool ``paint`` answers with text and images."""
    config = folder / "mcp.json"
    script = Path(__file__).with_name("sdk_server.py")
    server = {"command": sys.executable, "args": [str(script), "stdio"], "require_approval": approval}
    config.write_text(json.dumps({"mcpServers": {"painter": server}}))
    return read_config(config, ToolLimits())


PAINT = '<tool_call>\n{"name": "paint", "arguments": {"colors": %s}}\n</tool_call>'


def told(*colors: int) -> str:
    """The text of a result, as clients get it."""
    return "\n".join(f"Shade {c}:\n[image left out: image/png, {len(png(color=c))} bytes]" for c in colors)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("template", [SEEING, BLIND_RESULTS], ids=["held", "moved"])
def test_images_of_the_servers_tools_reach_the_model_as_those_of_a_clients_results(
    kind: str, template: str, tmp_path: Path
) -> None:
    with serving(kind, template, servers=painter(tmp_path)) as (server, scripted):
        scripted.outputs = [PAINT % "[1, 2]", PAINT % "[3]"]
        answer = server.post(**body("chat", TEXT, image("chat", png(color=9))))
        asked = scripted.asked
    assert answer.status_code == 200, answer.text
    message = answer.json()["choices"][0]["message"]
    assert message["content"] == OUTPUT
    assert [r["content"] for r in message["tool_results"]] == [told(1, 2), told(3)]
    given = [9, 1, 2, 3]
    assert [media_of(kind, one) for one in asked] == [
        [base64_of(png(color=color)) for color in given[:count]] for count in (1, 3, 4)
    ]
    last = prompt_of(kind, asked[-1])
    assert last.count(SPAN) == 4
    assert "left out" not in last
    if template == SEEING:
        assert f"tool\nShade 1:\n{SPAN}\nShade 2:\n{SPAN}<|im_end|>" in last
    else:
        assert f"user\n{MOVED}\n[image 1]{SPAN}[image 2]{SPAN}<|im_end|>" in last


@pytest.mark.parametrize("kind", ["vllm", "llama.cpp"])
def test_a_result_in_ag_ui_has_the_images_that_the_model_gets_and_is_understood_when_it_comes_back(
    kind: str, tmp_path: Path
) -> None:
    with serving(kind, servers=painter(tmp_path)) as (server, scripted):
        scripted.outputs = [PAINT % "[1, 2]"]
        asked = body("ag-ui", TEXT)
        events = chunks(server.post("/ag-ui", **asked).text)
        (result,) = [e for e in events if e["type"] == "TOOL_CALL_RESULT"]
        calls = [function_call("paint", '{"colors": [1, 2]}', result["toolCallId"])]
        back = [
            {"id": "a", "role": "assistant", "content": "", "toolCalls": calls},
            {"id": "r", "role": "tool", "toolCallId": result["toolCallId"], "content": result["content"]},
            {"id": "b", "role": "assistant", "content": OUTPUT},
            {"id": "u", "role": "user", "content": "And?"},
        ]
        again = server.post("/ag-ui", **{**asked, "messages": [*asked["messages"], *back]})
        assert "RUN_FINISHED" in again.text, again.text
        _, before, now = scripted.asked
    assert result["content"] == [
        {"type": "text", "text": "Shade 1:\n"},
        image("ag-ui", png(color=1)),
        {"type": "text", "text": "\nShade 2:\n"},
        image("ag-ui", png(color=2)),
    ]
    assert media_of(kind, before) == media_of(kind, now) == [base64_of(png(color=color)) for color in (1, 2)]
    assert prompt_of(kind, now).startswith(prompt_of(kind, before) + OUTPUT)
    blind: Any = {"modalities": {"vision": False}, "capabilities": []}
    with serving("llama.cpp", servers=painter(tmp_path), props=blind) as (server, scripted):
        again = server.post("/ag-ui", **{**asked, "messages": [*asked["messages"], *back]})
        assert "RUN_FINISHED" in again.text, again.text
        assert "Shade 1:\n[image left out]\nShade 2" in "".join(map(chr, scripted.asked[0]["prompt"]))
        own = [function_call("draw", '{"colors": [1, 2]}', result["toolCallId"])]
        messages = [*asked["messages"], {**back[0], "toolCalls": own}, back[1]]
        refused = server.post("/ag-ui", **{**asked, "messages": messages})
        assert "takes text only" in refused.text, "what the client's own tools return is its own fault"


def test_an_image_of_a_call_that_a_person_allows_reaches_the_model(tmp_path: Path) -> None:
    tools = [{"type": "mcp", "server_label": "painter"}]
    history: list[dict[str, Any]] = [{"role": "user", "content": "Paint."}]
    with serving("sglang", servers=painter(tmp_path, "always")) as (server, scripted):
        scripted.outputs = [PAINT % "[1]"]
        *_, asks = server.post("/v1/responses", input=history, tools=tools).json()["output"]
        assert asks["type"] == "mcp_approval_request"
        allowed = {"type": "mcp_approval_response", "approval_request_id": asks["id"], "approve": True}
        *_, answer = server.post("/v1/responses", input=[*history, asks, allowed], tools=tools).json()["output"]
        asked = scripted.asked[-1]
    assert answer["content"][0]["text"] == OUTPUT
    assert media_of("sglang", asked) == [base64_of(png(color=1))]
    assert f"tool\nShade 1:\n{SPAN}<|im_end|>" in prompt_of("sglang", asked)


@pytest.mark.parametrize("why", ["template", "engine", "role", "bytes"])
def test_images_of_the_servers_tools_that_cannot_be_taken_are_left_out_with_a_note(why: str, tmp_path: Path) -> None:
    """The template writes none, the engine's model sees none, vLLM takes none in results, or the image is none."""
    kind = {"engine": "llama.cpp", "role": "vllm"}.get(why, "sglang")
    options: dict[str, Any] = {"props": {"modalities": {"vision": False}}} if why == "engine" else {}
    options |= {"closed": True} if why == "role" else {}
    template = BLIND if why == "template" else SEEING
    with serving(kind, template, servers=painter(tmp_path), **options) as (server, scripted):
        scripted.outputs = [PAINT % ("[-1]" if why == "bytes" else "[1]")]
        answer = server.post(messages=[{"role": "user", "content": "Paint."}], max_tokens=50)
        asked = scripted.asked
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == OUTPUT
    prompt = asked[-1]["prompt"]
    prompt = prompt if isinstance(prompt, str) else "".join(map(chr, prompt))
    note = told(1) if why != "bytes" else "Shade -1:\n[image left out: image/png, 8 bytes]"
    assert f"\n{note}<|im_end|>" in prompt
    assert SPAN not in prompt
    assert prompt.count("<|im_start|>assistant") == 2
