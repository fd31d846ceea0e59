"""Prompts are rendered as transformers renders the same messages, byte for byte, whatever the template does."""

import copy
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import jinja2
import pytest

import unspool
from unspool.chat_templates.worker import Rendered
from unspool.errors import TemplateError
from unspool.request.chat_request import ChatRequest
from unspool.request.fields import BadRequest
from unspool.request.prompts import Prompts, Tokenizer
from unspool.request.writing import _SENTINEL
from unspool.toolset import read_toolset

from .table import SOURCES, Source
from .turns import TOOLS

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]

Message = dict[str, Any]


def _called(content: str, *calls: tuple[str, dict[str, Any]], **more: Any) -> Message:
    functions = [{"name": name, "arguments": arguments} for name, arguments in calls]
    tool_calls = [{"id": f"callid{i:03}", "type": "function", "function": f} for i, f in enumerate(functions)]
    return {"role": "assistant", "content": content, "tool_calls": tool_calls, **more}


SYSTEM = {"role": "system", "content": "Be <b>brief</b>."}
ASKED = {"role": "user", "content": "What's é? "}
ANSWERED = {"role": "assistant", "content": "Hello there. "}
THOUGHT = {"role": "assistant", "content": "Hello.", "reasoning_content": "plan it\nwell"}
ONE = _called("", ("get_weather", {"city": 'São <b> "x"', "days": 2}))
TWO = _called("Let me see.", ("get_weather", {"city": "Paris"}), ("now", {}), reasoning_content="hm")
RESULTS = [
    {"role": "tool", "tool_call_id": "callid000", "name": "get_weather", "content": '{"t": "20 °C"}'},
    {"role": "tool", "tool_call_id": "callid001", "name": "now", "content": "12:00"},
]
CASES: dict[str, tuple[list[Message], bool]] = {
    "plain": ([ASKED], False),
    "system": ([SYSTEM, ASKED, ANSWERED, ASKED], False),
    "reasoning": ([ASKED, THOUGHT, ASKED], False),
    "tools": ([SYSTEM, ASKED], True),
    "call": ([ASKED, ONE, RESULTS[0]], True),
    "calls": ([SYSTEM, ASKED, TWO, *RESULTS, ANSWERED, ASKED], True),
}
GOING_ON: dict[str, tuple[list[Message], bool]] = {
    "going on": ([ASKED, ANSWERED], False),
    "going on with what the end holds": ([SYSTEM, ASKED, {"role": "assistant", "content": "i"}], False),
    "going on behind a call": ([ASKED, ONE, RESULTS[0], ANSWERED], True),
}

REFUSED = {
    "llama-cpp-deepseek-r1": "generator is not JSON serializable",
    "Kimi-K2-Instruct": "'append' of 'list' object is unsafe.",
    "Kimi-K2-Thinking": "'append' of 'list' object is unsafe.",
}
"""What transformers says to templates that it refuses with tools; they run here, as in llama.cpp."""


class _Watched(Prompts):
    """Keeps what it rendered: messages in the shapes that the template may write whole, and tools."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.given: list[tuple[list[Message], list[Any], str]] = []
        super().__init__(tokenizer)

    def rendered(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any], **options: Any) -> Rendered:
        found = super().rendered(messages, tools, **options)
        self.given.append((copy.deepcopy([dict(m) for m in messages]), copy.deepcopy(list(tools)), found.text))
        return found


@cache
def _prompts(path: Path) -> _Watched:
    text = path.read_text(encoding="utf-8")
    return _Watched(Tokenizer(text, text, {"bos_token": "<BOS>", "eos_token": "<EOS>"}, ()))


def _as_text(messages: list[Message]) -> list[Message]:
    """The messages, with arguments as in requests."""
    copies = copy.deepcopy(messages)
    for message in copies:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
    return copies


@pytest.mark.parametrize("case", [*CASES, *GOING_ON])
@pytest.mark.parametrize("source", SOURCES, ids=lambda s: f"{s.dialect}-{s.file}")
def test_a_prompt_equals_that_of_transformers(source: Source, case: str, templates: dict[str, Path]) -> None:
    utils = import_module("transformers.utils.chat_template_utils")
    path = source.path(templates)
    made = _prompts(path)
    with suppress(TemplateError):
        made.check(unspool.get_dialect(source.dialect))  # detects how it takes arguments
    messages, with_tools = (CASES | GOING_ON)[case]
    going_on = case in GOING_ON

    def theirs(messages: list[Message], tools: list[Any]) -> str:
        text: str = utils.render_jinja_template(
            [messages],
            tools=tools or made._no_tools,
            chat_template=path.read_text(encoding="utf-8"),
            add_generation_prompt=not going_on,
            continue_final_message=going_on,
            bos_token="<BOS>",
            eos_token="<EOS>",
            **source.variables,
        )[0][0]
        return text

    made.given.clear()
    try:
        ours = _render(made, source, messages, TOOLS if with_tools else [], going_on)
    except BadRequest:
        with pytest.raises((jinja2.TemplateError, TypeError)):
            theirs(copy.deepcopy(messages) if made._form.objects else _as_text(messages), TOOLS if with_tools else [])
        return
    given, tools, _ = next(one for one in made.given if one[2].startswith(ours))
    if going_on:
        given[-1]["content"] = given[-1]["content"].partition(_SENTINEL)[0]
    try:
        found = theirs(given, tools)
    except (jinja2.TemplateError, TypeError) as error:
        found = str(error)
    assert found == ours or found.endswith(REFUSED[source.file])


def _render(made: Prompts, source: Source, messages: list[Message], tools: list[Any], going_on: bool) -> str:
    asked = ChatRequest(
        messages=_as_text(messages),
        toolset=read_toolset(tools),
        template=dict(source.variables),
        begun="messages" if going_on else "",
    )
    return made.render(asked)
