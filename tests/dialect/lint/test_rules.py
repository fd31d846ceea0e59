"""Every rule about dialect files finds a file that breaks it, and has a row on the page of rules."""

from pathlib import Path

import msgspec
import pytest

from unspool import DialectError, list_dialects
from unspool.check import check_dialect
from unspool.dialect.lint import CHECKING, LOADING, SIZES, SOFT, TEMPLATES, Rules
from unspool.dialect.loader import parse_dialect
from unspool.dialect.registry import find_base

from ...languages import ROOT
from ...support import dialect_of

ALL = {rule.name: rules for rules in (LOADING, CHECKING, SOFT) for rule in rules}


class Broken(msgspec.Struct):
    """The keys of a file that breaks a rule, and what the message says."""

    rule: str
    keys: str
    says: list[str] = []

    @property
    def text(self) -> str:
        example = "" if "[[" in self.keys else '[[examples]]\nraw = "x"\ncontent = "x"\n'
        return f'name = "mine"\n{self.keys}\n{example}'


_FILE = Path(__file__).with_name("broken.toml")
BROKEN = msgspec.toml.decode(_FILE.read_bytes(), type=dict[str, list[Broken]])["broken"]
each = pytest.mark.parametrize("broken", BROKEN, ids=[b.rule for b in BROKEN])


def test_a_text_is_bounded_and_so_is_the_number_of_texts_of_a_key() -> None:
    for line, message in (
        (f'end = "{"x" * 513}"', "mine.toml: end: contains a text of 513 characters; allowed are 512"),
        (f"end = {[f'<{i}>' for i in range(65)]}", "mine.toml: end: contains 65 texts; allowed are 64"),
        (f'tools."{"x" * 513}" = "<f>"', "mine.toml: tools: contains a text of 513 characters"),
    ):
        with pytest.raises(DialectError, match=message):
            dialect_of(f'call = "<c {{name}}>{{arguments}}</c>"\n{line}')


BOUNDED = {"call": "{name} {arguments}", "calls": "{calls}", "reasoning": "{reasoning}", "text": "{a}"}
"""What a text of a key has besides, so that its length alone is wrong."""


@pytest.mark.parametrize("key", [*BOUNDED, "end", "id", "quote", "name", "aliases", "tools"])
def test_a_long_text_is_refused_by_its_key(key: str) -> None:
    text = f"'<{'x' * 600}>{BOUNDED.get(key, '')}</t>'"
    keys = {"name": "'mine'", "reasoning": "'<t>{reasoning}</t>'"}
    keys[key] = f"{{ f = {text} }}" if key in ("text", "tools") else text
    lines = "\n".join(f"{k} = {v}" for k, v in keys.items())
    with pytest.raises(DialectError, match=f"{key}: contains a text of"):
        parse_dialect(f"{lines}\n[[examples]]\nraw = 'x'\ncontent = 'x'\n", "mine.toml", find_base)


def test_every_rule_has_a_file_that_breaks_it() -> None:
    assert ALL.keys() == {broken.rule for broken in BROKEN}


@each
def test_a_rule_finds_a_file_that_breaks_it_and_says_so_in_words(broken: Broken) -> None:
    dialect = parse_dialect(broken.text, "mine.toml", find_base, trusted=True)
    found = [str(f) for f in ALL[broken.rule].findings(dialect) if f.rule.name == broken.rule]
    assert found
    assert all(text.strip() == text and "{}" not in text for text in found)


@each
def test_the_loader_or_the_check_refuses_a_file_that_breaks_a_rule_with_reason_and_proposal(broken: Broken) -> None:
    if ALL[broken.rule] is LOADING:
        with pytest.raises(DialectError, match=r"^mine\.toml: [\w.*]+: ") as caught:
            parse_dialect(broken.text, "mine.toml", find_base)
        said = str(caught.value)
    else:
        problems = check_dialect(parse_dialect(broken.text, "mine.toml", find_base))
        said = " ".join(map(str, problems))
    assert [text for text in broken.says if text not in said] == [], said


READABLE = [
    'call = "<c>{name}{arguments}</c>"',  # an object begins with a brace, which no name contains
    'call = "<c>{name}{arguments}</c>"\nargument = "<{key}>{value}</{key}>"',
    'call = "<c>{name} {arguments}</c>"\narguments = "python"',
    'call = "<c>{name} [{id}] {arguments}</c>"',
    'calls = "<calls>{calls}</calls>"\ncall = "\\n<c {name}>{arguments}</c>"',
    'calls = "<c>{call}</c>"\ncall = "{id}|{name}|{arguments}"\nargument = "<{key}>{value}</{key}>"',
]


@pytest.mark.parametrize("keys", READABLE)
def test_a_file_that_resembles_a_broken_one_but_is_readable_is_accepted(keys: str) -> None:
    assert dialect_of(keys).call


def test_no_shipped_file_breaks_a_rule() -> None:
    found = [str(f) for d in list_dialects() for f in Rules([*LOADING, *CHECKING]).findings(d)]
    assert found == []
    for where, text in (d.file for d in list_dialects() if d.file):
        parse_dialect(text, where, find_base)


def test_the_page_of_rules_has_a_row_for_each() -> None:
    page = (ROOT / "docs/en/rules.md").read_text(encoding="utf-8")
    names = [*ALL, *(rule.name for rule in (*SIZES, *TEMPLATES))]
    missing = [name for name in names if f"\n| {name.replace('-', ' ')} |" not in page]
    assert missing == [], "run `make readme`"
