"""The grammar of a ``response_format`` for llama.cpp: what its keywords admit, and what is refused by name."""

import json
from typing import Any

import pytest

from unspool import ConstraintError, get_dialect
from unspool.grammar import constrain

from .gbnf_reader import Reader
from .support import constrained

DIALECTS = ("hermes", "json", "deepseekv31", "mistral")


def answered(dialect: str, schema: dict[str, Any]) -> Any:
    return constrained(get_dialect(dialect), None, response_format=schema)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("^[A-Z]{2}-[0-9]+$", ["AB-1", "ZZ-907"], ["ab-1", "AB-", "xAB-1"]),
        ("b.d", ["abcde", "bxd"], ["bd", ""]),
        (r"^(?:yes|no)\s?$", ["yes", "no "], ["maybe", "yes  "]),
        (r'^a"\\b$', ['a"\\b'], ["ab"]),
        ("^<[a-z]+>$", ["<b>"], ["b", "<>"]),
        ("^[^x]$", ["é", "😀", '"', "<", "\n"], ["x", "ab"]),
    ],
)
def test_a_pattern_is_enforced_by_llama_cpp(dialect: str, pattern: str, good: list[str], bad: list[str]) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}, "required": ["a"]}
    reader = Reader(answered(dialect, {**schema, "additionalProperties": False}).gbnf)

    def takes(text: str) -> bool:
        plain = json.dumps({"a": text}, ensure_ascii=False)
        return any(reader.takes(form) for form in (plain, plain.replace("<", "\\u003c")))

    assert [text for text in good if not takes(text)] == []
    assert [text for text in bad if takes(text)] == []


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"type": "string", "pattern": "(?i:a)b"}, "pattern: only groups of the form"),
        ({"type": "string", "pattern": "a", "minLength": 3}, "minLength: is not supported in GBNF beside pattern"),
        ({"type": "object", "patternProperties": {"^a": {}}}, "patternProperties: is not supported in GBNF"),
        ({"type": "object", "minProperties": 2}, "minProperties: is not supported in GBNF"),
        ({"type": "number", "minimum": 0.5}, "minimum: GBNF supports bounds of whole numbers only"),
    ],
)
def test_what_llama_cpp_cannot_enforce_is_named_by_its_keyword(
    dialect: str, schema: dict[str, Any], keyword: str
) -> None:
    found = answered(dialect, {"type": "object", "properties": {"a": schema}, "required": ["a"]})
    with pytest.raises(ConstraintError) as caught:
        found.gbnf  # noqa: B018
    assert keyword in str(caught.value)
    assert "tools" not in str(caught.value)


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("kind", ["objekt", ["string", "objekt"], 3, [], None])
def test_an_unknown_type_of_an_answer_is_refused(kind: Any, *, wrap: bool) -> None:
    schema = {"type": "object", "properties": {"a": {"type": kind}}}
    whole = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}} if wrap else schema
    with pytest.raises(ConstraintError, match=r"\.properties\.a\.type: must be one of string, number, .*not "):
        constrain(get_dialect("hermes"), None, response_format=whole)
