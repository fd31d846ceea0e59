"""Claude Code and Codex with the small model in llama.cpp, as `unspool serve` starts it."""

from pathlib import Path

import pytest

import unspool
from unspool.engines import read_recordings

from ..engines.local.test_real import serving
from .test_claude_code import claude
from .test_codex import codex, messages

pytestmark = pytest.mark.clients

ASK = "What is the capital of France?"


def test_claude_code_gets_an_answer_and_its_whole_prompt_too_long_is_an_error(tmp_path: Path) -> None:
    with serving(tmp_path, "--context", "8192", "--slots", "1") as served:
        short = claude(served.url, tmp_path, "--system-prompt", "You are a helper.", "--tools", "", "--", ASK)
        recorded = read_recordings(served.recordings)[-1]  # it asks again where there is no text
        with pytest.raises(AssertionError, match=r"Prompt is too long .* \(limit 8192\)"):
            claude(served.url, tmp_path, "--", ASK)
    assert [e["is_error"] for e in short if e["type"] == "result"] == [False]
    said = unspool.parse(recorded.text, "hermes", prompt=recorded.asked.prompt).content
    assert [e["result"].strip() for e in short if e["type"] == "result"] == [said.strip()]
    assert said


def test_codex_gets_an_answer_to_short_instructions_and_few_tools(tmp_path: Path) -> None:
    instructions = tmp_path / "instructions.md"
    instructions.write_text("You are a helper.")
    few = [f'model_instructions_file="{instructions}"', "features.multi_agent=false", "features.goals=false"]
    with serving(tmp_path, "--context", "8192", "--slots", "1") as served:
        events = codex(served.url, "smollm2-135m", tmp_path, *(w for o in few for w in ("-c", o)), ASK)
        recorded = read_recordings(served.recordings)[-1]  # it may call a tool first
    assert {t["function"]["name"] for t in recorded.asked.tools or []} >= {"exec_command"}
    assert messages(events, "agent_message")[-1]["text"] == recorded.text.removesuffix("<|im_end|>")
