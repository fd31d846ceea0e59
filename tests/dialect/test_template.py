"""A template is cut once, into sides and steps; a prompt may contain the beginning of an opening."""

import pytest

from unspool import Dialect, list_dialects
from unspool.dialect.template import Template, parse_template, unstarted, written


def cut(kind: str, text: str) -> Template:
    return parse_template(kind, text, "mine.toml: key", first=True)


def test_quotes_in_a_json_object_are_not_escaped_as_attributes() -> None:
    t = cut("call", '{"name": "{name}", "arguments": {arguments}}')
    assert written(t.head, {"name": 'a"b'}) == '{"name": "a"b", "arguments": '
    assert written(t.tail, {}) == "}"


@pytest.mark.parametrize(
    ("opening", "rest"), [("<|bot|>\n<x>", "<x>"), ("<|bot|><x>", "<x>"), ("<x>", "<x>"), ("", "")]
)
def test_the_longest_start_is_removed_from_an_opening(opening: str, rest: str) -> None:
    assert unstarted(opening, ("<|bot|>", "<|bot|>\n")) == rest


@pytest.mark.parametrize(
    ("start", "opening", "rest"),
    [
        ("<bot>", ">>{name}", ">>{name}"),
        ("<bot>\n>>>", ">>>all\n", "all\n"),
        ("<bot>@@@", "@@@think", "think"),
        ("<bot> say", "say ", " "),
    ],
)
def test_equal_signs_at_the_end_of_a_start_are_not_divided(start: str, opening: str, rest: str) -> None:
    assert unstarted(opening, (start,)) == rest


@pytest.mark.parametrize("dialect", list_dialects(), ids=lambda d: d.name)
def test_the_sides_and_the_body_make_up_the_template(dialect: Dialect) -> None:
    for key in ("reasoning", "content", "preamble", "calls", "call", "argument", "item"):
        for t in getattr(dialect, key):
            body = f"{{{t.body}}}" if t.body else ""
            assert t.lead + t.opening + body + t.closing + t.trail == t.text or not t.body
            assert len(t.head) + len(t.tail) + bool(t.body) == len(t.steps)
