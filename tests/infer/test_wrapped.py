"""A chat template that writes no tools gets them in its system message, and then calls and results are proven."""

import re
from contextlib import ExitStack
from typing import Any

import pytest

from unspool import get_dialect
from unspool.chat_templates.worker import Worker
from unspool.cli.proof import WITH_TOOLS, report, with_tools, wrapped
from unspool.infer.choosing import ProbedTemplate, choose_dialect
from unspool.request.prompts import Prompts, Tokenizer

from ..cli.test_upstream import TEMPLATE
from ..templates.hostile import asked, call, called, result, tool

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
STRICT = (
    "{% if messages[0].role == 'system' %}{{ messages[0].content + '\n' }}{% set messages = messages[1:] %}{% endif %}"
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}"
    "{% endif %}{{ '<|' + m.role + '|>\n' + m.content + '</s>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
GEMMA = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}"
    "{% endif %}{{ '<start_of_turn>' + m.role + '\n' + m.content | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
SILENT = (
    "{% for m in messages if m.role != 'system' %}{{ '<|' + m.role + '|>\n' + m.content + '</s>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)


def writes_tools(template: str) -> bool:
    with ProbedTemplate(template) as chat:
        return chat.writes_tools()


@pytest.mark.parametrize("template", [CHATML, STRICT])
def test_calls_are_proven_behind_the_wrapper_which_the_report_says(
    template: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not writes_tools(template)
    whole = wrapped(template)
    assert writes_tools(whole)
    choice = choose_dialect(whole, model=WITH_TOOLS)
    report(choice.dialect, choice.proof, whole, table=False)
    assert capsys.readouterr().err.endswith(" cases pass; what it writes of tools is unspool's\n")
    proof = {case.case: case.result for case in choice.proof}
    for case in ("content", "one call", "two calls", "text and call", "the turn after a tool's result"):
        assert proof[case] == "pass", case
    assert "fail" not in proof.values()


@pytest.mark.parametrize(
    ("template", "role"), [(CHATML, "system"), (STRICT, "system"), (GEMMA, "user"), (SILENT, "user")]
)
def test_tools_are_told_in_the_first_message_that_the_template_writes(template: str, role: str) -> None:
    with ExitStack() as within:
        asked_, told = with_tools(template, {}, within)
        whole = asked_.template
    assert told == role
    prompts = Prompts(Tokenizer(whole, whole, {}, ()))
    assert prompts.check(get_dialect(WITH_TOOLS))
    history = [
        {"role": "system", "content": "Zqrule"},
        {"role": "user", "content": "Zqask"},
        called(call({"city": "Zqcity"})),
        result("Zqresult"),
        {"role": "system", "content": "Zqlate"},
        {"role": "user", "content": "Zqmore"},
    ]
    for n in (2, len(history)):
        prompt = prompts.render(asked(history[:n], [tool()]))
        words = [word for message in history[:n] for word in re.findall(r"Zq\w+", str(message))]
        assert [word for word in words if word not in prompt] == []
        assert prompt.count('"name": "get_weather", "description"') == 1


def test_a_template_that_writes_tools_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Worker] = []

    def begin(*given: Any) -> Worker:
        begun.append(Worker(*given))
        return begun[-1]

    monkeypatch.setattr("unspool.infer.rendering.Worker", begin)
    with ExitStack() as within:
        own, role = with_tools(TEMPLATE, {}, within)
        assert (own.template, role) == (TEMPLATE, "")
        assert own.choose().dialect.name == "hermes"
        assert len(begun) == 1  # each costs a newcomer a part of a second


def test_without_tools_the_wrapper_changes_nothing() -> None:
    whole = wrapped(CHATML)
    from unspool.infer.histories import ASKED
    from unspool.infer.rendering import Renderer

    asked = {"messages": ASKED, "tools": None, "add_generation_prompt": True}
    with Renderer(whole) as behind, Renderer(CHATML) as plain:
        assert behind.render([asked]) == plain.render([asked])
