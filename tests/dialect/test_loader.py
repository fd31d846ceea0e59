"""Loading dialect files: strictly, with errors that name the file, the key and what is allowed."""

import tomllib
from pathlib import Path

import pytest

from unspool import DialectError, get_dialect, list_dialects
from unspool.dialect.file import Dialect
from unspool.dialect.loader import parse_dialect
from unspool.dialect.registry import find_base

GOOD = """
name = "mine"
call = "<c>{name}|{arguments}</c>"
[[examples]]
raw = "hi"
content = "hi"
"""


WRONG = {
    **tomllib.loads(Path(__file__).with_name("wrong.toml").read_text(encoding="utf-8")),
    "a" + ".a" * 15_000 + " = 3": "has more than 200 parts",
    "a = " + "[" * 15_000: "it is nested too deeply",
}


def load(text: str) -> Dialect:
    return parse_dialect(text, "mine.toml", find_base)


@pytest.mark.parametrize(("line", "message"), WRONG.items())
def test_an_error_names_the_file_the_key_and_what_is_allowed(line: str, message: str) -> None:
    head, tail = GOOD.split("call =", 1)
    text = (
        line + "\n" + head.replace('name = "mine"', "") + "call =" + tail
        if line.startswith("name")
        else head + line + "\ncall =" + tail
    )
    with pytest.raises(DialectError) as error:
        load(text)
    assert message in str(error.value)
    assert str(error.value).startswith("mine.toml") or "base" in message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("<c>{arguments}</c>", "needs {name}"),
        ("<c>{{arguments}}</c>", """write '<c>{"name": "{name}", "arguments": {arguments}}</c>'"""),
        ('{"name": "{name}", "x": 3, "a": {arguments}}', "is not a member that the object of a call may have"),
        ('{"arguments": {arguments}}', "needs {name}"),
        ('{"a": "{name}", "b": {{arguments}}}', """write '{"a": "{name}", "b": {arguments}}'"""),
        ("<c>{name}{arguments}{arguments}</c>", "{arguments} may occur only once"),
    ],
)
def test_a_call_needs_a_name_and_one_place_for_arguments(call: str, message: str) -> None:
    with pytest.raises(DialectError) as error:
        load(GOOD.replace("<c>{name}|{arguments}</c>", call.replace('"', '\\"')))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ('mood = "x"', "examples[0].mood: unknown key; allowed are raw, stage"),
        ("raw = 3", "examples[0].raw: must be a string or a list of strings"),
        ('raw = "x"\nstage = "now"', "examples[0].stage: 'now' is not one of"),
        ('raw = "x"\ncontent = 3', "examples[0].content: must be a string"),
        ('raw = "x"\ntool_calls = [{ nam = "f" }]', "examples[0].tool_calls"),
        ('raw = "x"\ntool_calls = [{ name = "f", arguments = { d = 2024-01-01 } }]', "contain a date"),
        ('raw = "x"\ntool_calls = [{ name = "f", arguments = { d = [inf] } }]', "contain a date, a time, inf"),
    ],
)
def test_an_error_in_an_example_names_its_key(example: str, message: str) -> None:
    with pytest.raises(DialectError) as error:
        load(GOOD.split("[[examples]]")[0] + "[[examples]]\n" + example)
    assert message in str(error.value)


def test_a_file_without_examples_or_without_a_name_is_refused() -> None:
    for text, message in [
        (GOOD.split("[[")[0], "examples: at least one example is needed"),
        (GOOD.replace('name = "mine"', ""), "name: is required"),
    ]:
        with pytest.raises(DialectError, match=message):
            load(text)


def test_base_gives_its_keys_but_not_its_names_models_or_examples() -> None:
    mine = load('name = "mine"\nbase = "hermes"\n[[examples]]\nraw = "hi"\ncontent = "hi"\n')
    base = get_dialect("hermes")
    assert (mine.call, mine.reasoning, mine.end) == (base.call, base.reasoning, base.end)
    assert (mine.aliases, mine.models, len(mine.examples)) == ((), (), 1)


def test_every_name_belongs_to_one_file() -> None:
    names = [n.lower() for d in list_dialects() for n in d.names]
    assert len(names) == len(set(names))
    assert all(get_dialect(n).name.lower() == d.name.lower() for d in list_dialects() for n in d.names)


def test_every_shipped_dialect_has_an_example_of_how_a_turn_ends() -> None:
    ending = {d.name for d in list_dialects() if any(r.endswith(d.end) for e in d.examples for r in e.raw)}
    unknown = {"iquest_coder_v2", "sarashina"}  # the parsers they were taken from do not say
    assert {d.name for d in list_dialects()} - ending == {"json", *unknown}, "plain JSON belongs to no model"


def test_reasoning_markers_of_another_dialect_can_be_borrowed() -> None:
    mixed = get_dialect("hermes", reasoning="kimi")
    assert mixed.reasoning == get_dialect("kimi").reasoning
    assert mixed.call == get_dialect("hermes").call
    with pytest.raises(DialectError, match="has no reasoning markers"):
        get_dialect("hermes", reasoning="json")


@pytest.mark.parametrize("dialect", list_dialects(), ids=lambda d: d.name)
def test_shipped_files_load_the_same_whether_or_not_their_examples_are_read_at_once(dialect: Dialect) -> None:
    where, text = dialect.file
    whole = parse_dialect(text, where, get_dialect)
    for field in Dialect.__struct_fields__:
        if field != "compiled":
            assert getattr(whole, field) == getattr(dialect, field), field
    assert whole.examples == dialect.examples
