"""Prompts are rendered as transformers renders them, byte for byte, whatever the template does."""

import copy
import json
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import unspool
from unspool.errors import TemplateError
from unspool.request.chat_request import ChatRequest
from unspool.request.fields import BadRequest
from unspool.request.prompts import Prompts, Tokenizer
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


@cache
def _prompts(path: Path) -> Prompts:
    text = path.read_text(encoding="utf-8")
    return Prompts(Tokenizer(text, text, {"bos_token": "<BOS>", "eos_token": "<EOS>"}, ()))


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
    path = templates[source.package] / f"{source.file}.jinja"
    made = _prompts(path)
    with suppress(TemplateError):
        made.check(unspool.get_dialect(source.dialect))  # detects how it takes arguments
    messages, with_tools = (CASES | GOING_ON)[case]
    going_on = case in GOING_ON
    tools = TOOLS if with_tools else []
    try:
        theirs = utils.render_jinja_template(
            [copy.deepcopy(messages) if made._form.objects else _as_text(messages)],
            tools=copy.deepcopy(tools) or None,
            chat_template=path.read_text(encoding="utf-8"),
            add_generation_prompt=not going_on,
            continue_final_message=going_on,
            bos_token="<BOS>",
            eos_token="<EOS>",
            **source.variables,
        )[0][0]
    except Exception:  # whatever it refuses must be refused here too
        with pytest.raises(BadRequest):
            _render(made, source, messages, tools, going_on)
    else:
        assert _render(made, source, messages, tools, going_on) == theirs


def _render(made: Prompts, source: Source, messages: list[Message], tools: list[Any], going_on: bool) -> str:
    asked = ChatRequest(
        messages=_as_text(messages),
        toolset=read_toolset(tools),
        template=dict(source.variables),
        body={"continue_final_message": going_on},
    )
    return made.render(asked)
