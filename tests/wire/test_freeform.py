"""The text of a custom tool, decoded from its JSON as it streams."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.wire.freeform import Input, input_of


@settings(max_examples=40)
@given(st.text(), st.booleans(), st.lists(st.integers(1, 7), max_size=30))
def test_the_text_equals_the_json_strings_for_every_chunking(text: str, ascii: bool, sizes: list[int]) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii)
    decoder = Input()
    decoded, at = [], 0
    for size in [*sizes, len(arguments)]:
        decoded.append(decoder.feed(arguments[at : at + size]))
        at += size
    decoded.append(decoder.close())
    assert "".join(decoded) == decoder.text == input_of(arguments) == text


def test_a_character_is_written_as_soon_as_it_is_complete() -> None:
    decoder = Input()
    pieces = ['{ "in', 'put" : "', "a", "\\", "n", "\\ud83", "d", "\\ude", "00", '"', "}"]
    assert [decoder.feed(p) for p in pieces] == ["", "", "a", "", "\n", "", "", "", "😀", "", ""]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"other": "x"}', '{"other": "x"}'),
        ('{"other": 1, "input": "x"}', "x"),
        ('{"input": 5}', '{"input": 5}'),
        ("*** Begin", "*** Begin"),
        ('{"input": "cut \\u00', "cut "),
        ('{"input": "\\ud800x\\udc00\\ux123\\q"}', "\ufffdx\ufffd\ufffdq"),
        ('{"input": "\\ud83d\\n"}', "\ufffd\n"),
        ("", ""),
    ],
)
def test_other_arguments_are_written_unchanged(arguments: str, text: str) -> None:
    assert input_of(arguments) == text
    decoder = Input()
    decoded = [decoder.feed(c) for c in arguments] + [decoder.close()]
    assert "".join(decoded) == text
