"""A template is cut once, into sides and steps; a prompt may contain the beginning of an opening."""

import pytest

from unspool.dialect.template import Template, parse_template, unstarted, written


def cut(kind: str, text: str) -> Template:
    return parse_template(kind, text, "mine.toml: key")


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
