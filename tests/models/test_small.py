"""The conversations that the embedded model learns from, and how they are rendered."""

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from models.small.build import TEMPLATE, Conversation, Renderer, conversations
from models.small.requests import requests

EVERY = list(conversations())
BFCL = sorted(Path(".venv/bfcl").glob("bfcl_eval-*.whl"))


def plain(text: str) -> str:
    """A text's words."""
    return " ".join(re.findall(r"\w+", text.lower()))


def users(c: Conversation) -> list[str]:
    """What the user says."""
    return [m["content"] for m in c.messages if m["role"] == "user"]


def test_every_call_is_one_of_a_declared_tool_and_fits_its_schema() -> None:
    assert len(EVERY) >= 2 * 2793
    for c in EVERY:
        schemas = {t["name"]: t["parameters"] for t in c.tools}
        for call in (call for m in c.messages for call in m.get("tool_calls", ())):
            schema = schemas[call["name"]]
            jsonschema.Draft202012Validator(schema).validate(call["arguments"])
            assert set(call["arguments"]) <= set(schema.get("properties", call["arguments"])), users(c)


def test_what_was_weak_has_a_share() -> None:
    assert sum(len(c.calls) > 2 for c in EVERY) > 600
    assert sum("reasoning" in c.messages[-1] for c in EVERY) > 900
    assert sum(c.single and bool(c.tools) and not c.calls for c in EVERY) > 1000


@pytest.mark.parametrize("thinking", [False, True])
def test_the_server_asks_as_the_rows_do(thinking: bool) -> None:
    renderer = Renderer(TEMPLATE.read_text(encoding="utf-8"))
    for c in EVERY[::50]:
        if thinking and not c.messages[-1].get("reasoning"):
            continue
        pieces = renderer.pieces(c, thinking=thinking)
        before, (answer, learnt) = "".join(text for text, _ in pieces[:-1]), pieces[-1]
        assert learnt
        assert before == renderer.prompt(c.tools, c.messages[:-1], thinking=thinking)
        assert answer.endswith("<|im_end|>")
        assert answer.count("<tool_call>\n") == len(c.calls)
        assert ("</think>" in answer) is thinking


def test_no_request_that_evaluates_the_model_is_learnt() -> None:
    learnt = {plain(text) for c in EVERY if c.calls for text in users(c)}
    asked = [plain(str(r.messages[-1]["content"])) for r in requests() if r.calls]
    shared = [text for text in asked if text in learnt]
    assert len(shared) < len(asked) / 100, shared  # some are what everybody writes, such as "weather in Oslo"


@pytest.mark.skipif(not BFCL, reason="`make bfcl` fetches BFCL's questions")
def test_no_question_of_bfcl_is_learnt() -> None:
    def texts(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [value["content"]] if value.get("role") == "user" else []
        return [text for inner in value for text in texts(inner)] if isinstance(value, list) else []

    learnt = {plain(text) for c in EVERY for text in users(c)}
    with zipfile.ZipFile(BFCL[-1]) as wheel:
        names = [n for n in wheel.namelist() if re.fullmatch(r"bfcl_eval/data/BFCL_v4_[a-z_]+\.json", n)]
        names = [n for n in names if "format_sensitivity" not in n]  # lists other cases
        lines = [line for n in names for line in wheel.read(n).decode().splitlines()]
    questions = {plain(text) for line in lines for text in texts(json.loads(line).get("question", []))}
    assert len(questions) > 4000
    assert not questions & learnt
