"""Claude Code and Codex with the small model in llama.cpp, as `unspool serve` starts it."""

from pathlib import Path

import pytest

from unspool.engines import read_recordings

from ..engines.local.test_real import serving
from .test_claude_code import claude
from .test_codex import codex, messages

pytestmark = pytest.mark.clients

ASK = "What is the capital of France?"


def test_claude_code_gets_an_answer_and_its_whole_prompt_too_long_is_an_error(tmp_path: Path) -> None:
    with serving(tmp_path, "--context", "8192", "--slots", "1") as served:
        short = claude(served.url, tmp_path, "--system-prompt", "You are a helper.", "--tools", "", "--", ASK)
        with pytest.raises(AssertionError, match=r"Prompt is too long .* \(limit 8192\)"):
            claude(served.url, tmp_path, "--", ASK)
    assert [e["is_error"] for e in short if e["type"] == "result"] == [False]
    assert "Paris" in next(e["result"] for e in short if e["type"] == "result")


def test_codex_gets_an_answer_to_shorter_instructions_and_an_error_that_it_knows_to_its_own(tmp_path: Path) -> None:
    instructions = tmp_path / "instructions.md"
    instructions.write_text("You are a helper.")
    with serving(tmp_path, "--context", "8192", "--slots", "1") as served:
        events = codex(served.url, "smollm2-135m", tmp_path, "-c", f'model_instructions_file="{instructions}"', ASK)
        recorded = read_recordings(served.recordings)
        print([(len(r.asked.prompt or ""), r.text[:300], r.error) for r in recorded])
    assert recorded and all(r.error is None and r.text for r in recorded)
    assert {e["type"] for e in events} & {"turn.completed"}
    assert messages(events, "agent_message") or messages(events, "command_execution")
