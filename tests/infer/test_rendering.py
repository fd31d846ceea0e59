"""Templates are foreign programs: limits and the sandbox contain them, and real ones run."""

import time
from typing import Any

import pytest

import unspool
from unspool import TemplateError
from unspool.infer import Limits
from unspool.infer.rendering import Renderer

LIMITS = Limits(seconds=1, total=60, memory=192 << 20, output=10_000)


def render(template: str, **variables: object) -> str:
    with Renderer(template, {"bos_token": "<s>"}, LIMITS) as renderer:
        (shown,) = renderer.render([{"messages": [], **variables}])
    assert not shown.error
    return shown.text


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "longer than 1 s"),
        ("{% for a in range(9999) %}{{ 'xxxxxxxx' }}{% endfor %}", "more than 10,000 characters"),
        ("{{ 'x' * 20000 }}", "more than 10,000 characters"),
        ("{% set x = 'x' * 999999999 %}{{ x | length }}", "of memory"),
        (
            "{% set n = namespace(x='xxxxxxxx') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
            "memory",
        ),
        ("{{ ''.__class__.__mro__ }}", "sandbox refuses"),
        ("{{ messages.__init__.__globals__ }}", "sandbox refuses"),
        ("{% for %}", "line 1"),
        ("{{ raise_exception }", "line 1"),
    ],
)
def test_a_hostile_or_broken_template_gets_a_clear_error(template: str, why: str) -> None:
    began = time.monotonic()
    with Renderer(template, {}, LIMITS) as renderer, pytest.raises(TemplateError, match="template: ") as caught:
        renderer.render([{"messages": []}])
    assert why in str(caught.value)
    assert time.monotonic() - began < 60


def test_a_template_that_ignores_signals_is_killed_from_outside() -> None:
    limits = Limits(seconds=60, total=1)
    renderer = Renderer("{{ (x ** 499999999) % 3 }}", {}, limits)
    with renderer, pytest.raises(TemplateError, match="is not rendered within 1 s"):
        renderer.render([{"x": 7}])


def test_a_template_that_takes_too_long_to_compile_is_reported() -> None:
    renderer = Renderer("{{ (7 ** 99999999) % 3 }}", {}, LIMITS)
    with renderer, pytest.raises(TemplateError, match=r"cannot be compiled: it takes longer than 1 s"):
        renderer.render([{}])


def test_python_internals_are_hidden_from_templates() -> None:
    assert render("{{ messages.__class__ }}{{ '{0.__class__}'.format(messages) }}") == ""


def test_inference_raises_the_templates_error() -> None:
    with pytest.raises(TemplateError, match="sandbox refuses"):
        unspool.infer_dialect("{% for m in messages %}{{ m.__class__.__mro__ }}{% endfor %}")


def test_a_conversation_that_a_template_refuses_is_reported_and_skipped() -> None:
    with Renderer("{% if bad %}{{ raise_exception('not so') }}{% endif %}fine", {}, LIMITS) as renderer:
        refused, fine = renderer.render([{"bad": True}, {"bad": False}])
    assert "not so" in refused.error
    assert fine.text == "fine"
    assert "bad" in renderer.asked


def test_the_extensions_of_real_templates_are_available() -> None:
    assert render("{% set x = [] %}{% set _ = x.append('a') %}{{ x }}") == "['a']"
    assert render("{% generation %}a{% endgeneration %}{{ bos_token }}") == "a<s>"
    assert render("{{ ('{\"a\": 1}' | from_json).a }}") == "1"


def test_one_rendering_cannot_change_the_input_of_the_next() -> None:
    with Renderer("{% set _ = messages.append('x') %}{{ messages }}", {}, LIMITS) as renderer:
        assert [r.text for r in renderer.render([{"messages": []}] * 2)] == ["['x']"] * 2


@pytest.mark.parametrize(
    ("template", "given", "parts"),
    [
        ("{{ functions + now }}{{ messages[0].content }}", {"functions": "[1]", "now": "[1]"}, False),
        ("{{ functions[0] + 1 }}{{ messages[0].content }}", {"functions": [1]}, False),
        ("{{ functions + messages[0].content[0].text }}", {"functions": "[1]"}, True),
        ("{{ raise_exception('never') }}", {}, False),
    ],
)
def test_a_template_gets_missing_variables_and_content_as_parts_if_it_needs_them(
    template: str, given: dict[str, Any], parts: bool
) -> None:
    request = {"messages": [{"role": "user", "content": "Hi."}], "tools": [1]}
    with Renderer(template, {}, LIMITS) as renderer:
        assert renderer.settle(request, ["Hi."]) is ("Hi." in renderer.render([request])[0].text)
    assert (renderer.given, renderer.parts) == (given, parts)
