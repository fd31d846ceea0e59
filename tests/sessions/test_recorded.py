"""Recorded runs of Codex and Claude Code give their tree: titles, sub-agents, compaction, new system prompts."""

import json

import pytest

from .recorded import FOLDER, SHAPES, replayed, shape


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_what_a_program_sent_gives_its_tree(name: str) -> None:
    turns = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert shape(replayed(turns)) == SHAPES[name]
