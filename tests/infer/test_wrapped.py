"""A chat template that writes no tools gets them in its system message, and then calls and results are proven."""

import pytest

from unspool.cli.prove import WITH_TOOLS, wrapped
from unspool.infer.choosing import choose_dialect, prove_dialect, writes_tools

from ..cli.test_upstream import TEMPLATE

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


@pytest.mark.parametrize("template", [CHATML, STRICT])
def test_calls_are_proven_behind_the_wrapper(template: str) -> None:
    assert not writes_tools(template)
    whole = wrapped(template)
    assert writes_tools(whole)
    proof = {case.case: case.result for case in choose_dialect(whole, model=WITH_TOOLS).proof}
    for case in ("content", "one call", "two calls", "text and call", "the turn after a tool's result"):
        assert proof[case] == "pass", case
    assert "fail" not in proof.values()


def test_a_template_that_writes_tools_keeps_its_own() -> None:
    assert writes_tools(TEMPLATE)


def test_without_tools_the_wrapper_changes_nothing() -> None:
    whole = wrapped(CHATML)
    from unspool.infer import template_renderer
    from unspool.infer.histories import ASKED

    asked = {"messages": ASKED, "tools": None, "add_generation_prompt": True}
    with template_renderer(whole) as behind, template_renderer(CHATML) as plain:
        assert behind.render([asked]) == plain.render([asked])


def test_the_wrapper_writes_a_shipped_dialect() -> None:
    from unspool import get_dialect

    whole = wrapped(CHATML)
    assert not [c for c in prove_dialect(get_dialect(WITH_TOOLS), whole) if c.result == "fail"]
