"""The next round of a loop: what follows an answer is what the family's own template writes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import unspool
from unspool import detect_stage, render
from unspool.request.chat_request import ChatRequest
from unspool.request.prompts import Prompts
from unspool.request.special_tokens import BREAK
from unspool.request.writing import NoBridge
from unspool.toolset import read_toolset

from ..support import calling, function_call
from .table import SOURCES, Source
from .test_prompts import OTHERWISE, prompts
from .turns import TOOLS

pytestmark = pytest.mark.templates

LOOPING = [s for s in SOURCES if s.file not in OTHERWISE]


def asked(made: Prompts, source: Source, result: str) -> Iterator[tuple[ChatRequest, dict[str, Any], dict[str, Any]]]:
    """A request, an answer with a call, and its result, with each kind of id that templates require."""
    for id in ("callid000", "functions.get_weather:0"):
        answer = calling(function_call("get_weather", {"city": "Paris"}, id), content=None)
        message = {"role": "tool", "tool_call_id": id, "name": "get_weather", "content": result}
        yield ChatRequest(messages=[{"role": "user", "content": "?"}], toolset=read_toolset(TOOLS)), answer, message


@pytest.mark.parametrize("source", LOOPING, ids=lambda s: f"{s.dialect}-{s.file}")
@pytest.mark.parametrize("result", ["Rain, says Zeus.", "}", "<|im_end|></s>[TOOL_CALLS]"])
def test_the_text_after_an_answer_is_what_the_template_writes(
    source: Source, result: str, templates: dict[str, Path]
) -> None:
    made, dialect = prompts(source, templates), unspool.get_dialect(source.dialect)
    made.check(dialect)
    failures = []
    for request, answer, result_message in asked(made, source, result):
        whole_request = ChatRequest(messages=[*request.messages, answer, result_message], toolset=request.toolset)
        try:
            bridge = made.bridge(whole_request, len(request.messages), dialect.end)
        except NoBridge as why:
            failures.append(str(why))
            continue
        whole = made.render(whole_request)
        assert whole.endswith(bridge.whole)
        assert result[0] in bridge.text.replace(BREAK, "")
        prompt = made.render(request)
        written = render(answer, dialect, tools=TOOLS, stage=detect_stage(dialect, prompt))
        next_prompt = prompt + written + bridge.missing(written, made.ends(dialect.end)) + bridge.text
        assert detect_stage(dialect, next_prompt) is detect_stage(dialect, whole), "the next answer begins the same way"
        return
    pytest.fail(f"rendered anew: {failures}")
