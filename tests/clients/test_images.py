"""Codex and Claude Code look at an image with a tool of theirs: it reaches the engine once, in the tool's result."""

import base64
from pathlib import Path
from typing import Any

import pytest

from ..media import png
from ..request.parts.test_places import SPAN
from ..server.test_parts import media_of, prompt_of, serving
from .support import call, say
from .test_claude_code import claude
from .test_codex import codex, messages

pytestmark = pytest.mark.clients


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "picture.png"
    file.write_bytes(png(40, 30))
    return file


def judge(asked: list[Any]) -> None:
    """Check that only one of the prompts has an image, behind the call."""
    (seen,) = [one for one in asked if "image_data" in one]
    assert len(asked) > 1
    prompt = prompt_of("sglang", seen)
    assert prompt.count(SPAN) == 1
    assert SPAN in prompt.rpartition("<tool_call>")[2]
    (sent,) = media_of("sglang", seen)
    assert base64.b64decode(sent) == png(40, 30)
    assert sent[:40] not in prompt


def test_claude_code_reads_an_image(picture: Path, tmp_path: Path) -> None:
    with serving("sglang") as (server, scripted):
        scripted.outputs += [call("Read", {"file_path": str(picture)}), say("A cat.")]
        events = claude(server.url, tmp_path, "--", "What is in picture.png?")
        judge(scripted.asked)
    assert [e["result"] for e in events if e["type"] == "result"] == ["A cat."]


def test_codex_views_an_image(picture: Path, tmp_path: Path) -> None:
    with serving("sglang") as (server, scripted):
        scripted.outputs += [call("view_image", {"path": str(picture)}), say("A cat.")]
        events = codex(server.url, "served", tmp_path, "What is in picture.png?")
        judge(scripted.asked)
    assert [m["text"] for m in messages(events, "agent_message")] == ["A cat."]
