"""Every rule about dialect files finds a file that breaks it, and has a row on the page of rules."""

from collections.abc import Iterator

import pytest

from unspool import DialectError, list_dialects
from unspool.dialect.lint import CHECKING, LOADING, SOFT, Rules
from unspool.dialect.loader import parse_dialect
from unspool.dialect.registry import find_base

from ...languages import ROOT

ANY = 'call = "<c {name}>{arguments}</c>"\n'
OBJECT = '{"name": "{name}", "arguments": {arguments}}'
FRAMED = 'content = "<s>{content}</s>"\ncall = "<f {name}>{arguments}</f>"\n'
BROKEN = {
    "a-key-without-another": 'reasoning = "<r>{reasoning}</r>"\nargument = "<a {key}>{value}</a>"',
    "nothing-to-read": 'end = "<e>"',
    "trained-tools-in-a-block": ANY + 'text.f = "<x>{code}</x>"',
    "trained-tools-with-other-fields": FRAMED + 'tools."f.*" = "<f {name}>{number}</f>"',
    "text-without-markers": FRAMED + 'text.f = "<x> {code}</x>"',
    "a-quote-where-arguments-are-not-json": ANY + "arguments = 'python'\nquote = '<q>'",
    "two-ways-to-write-arguments": ANY + "arguments = 'python'\nargument = '<a {key}>{value}</a>'",
    "an-opening-of-no-call": ANY + 'anywhere = "<d"',
    "a-stage-of-no-reasoning": ANY + 'stage = "reasoning"',
    "attributes": "call = '<{name}{arguments}/>'\nargument = ' {key}=\"{value}\"'",
    "doubled-braces": 'call = "<c>{name}{{arguments}}</c>"',
    "a-body-before-its-name": 'call = "<c>{arguments}{name}</c>"',
    "members-before-the-name": """call = '{"arguments": {arguments}, "name": "{name}"}'""",
    "a-late-id": 'call = "<c>{name}{arguments}|{id}</c>"',
    "keys-that-nothing-opens": ANY + 'argument = "{key}={value};;"',
    "calls-that-begin-with-their-id": 'call = "{id}|{name}|{arguments}</c>"\nargument = "<{key}>{value}</{key}>"',
    "reasoning-that-nothing-opens": 'reasoning = "{reasoning}</t>"',
    "texts-that-nothing-closes": 'reasoning = "<t>{reasoning}"',
    "texts-that-white-space-closes": 'reasoning = "<t>{reasoning}\\n"',
    "fields-that-nothing-separates": 'call = "<c>{name}{arguments}</c>"\narguments = "python"',
    "a-closing-of-one-character": ANY + 'argument = "<{key}> {value};"',
    "a-quote-of-one-character": ANY + 'quote = "\'"',
    "a-quote-that-ends-as-it-begins": ANY + "quote = \"''\"",
    "an-end-of-one-character": ANY + 'end = "."',
    "an-opening-of-one-character": ANY.replace("<c ", "<") + 'anywhere = "<"',
    "white-space-before-calls": 'call = "\\n<c {name}>{arguments}</c>"',
    "the-same-opening-twice": 'reasoning = "<a>{reasoning}</a>"\ncontent = "<a>{content}</b>"',
    "a-start-that-opens-a-part": 'start = "<s><think>"\nreasoning = "<think>{reasoning}</think>"',
    "an-opening-that-begins-another": 'reasoning = "<r{reasoning}</r>"\ncontent = "<rx{content}</rx>"',
    "a-call-that-begins-like-text": 'content = "<a>{content}"\ncalls = "<c>{calls}</c>"\ncall = "<a>{name}{arguments}"',
    "an-opening-that-a-name-completes": 'reasoning = "<r>{reasoning}</r>"\ncall = "<{name}>{arguments}</c>"',
    "an-opening-that-begins-json": ANY + 'content = "[{content} ;;/"',
    "an-opening-that-json-contains": "call = '[\"{name}\", {arguments}]'\nanywhere = ['[\"']",
    "a-closing-that-begins-an-opening": ANY + 'reasoning = "<r>{reasoning}<c"',
    "a-closing-that-begins-its-own-opening": 'reasoning = "```think\\n{reasoning}\\n```"',
    "a-closing-that-ends-its-own-opening": 'reasoning = "(x {reasoning} x)"',
    "a-closing-that-is-a-name": ANY + 'argument = "[{key}] {value} [/]"',
    "nested-parts-that-close-alike": 'calls = "<a>{calls}</x>"\ncall = "<b>{name}|{arguments}</x>"',
    "a-closing-of-commas": 'calls = "tools:{calls};"\ncall = "<b>{name}|{arguments}</b>"',
    "a-closing-that-begins-like-a-separator": 'calls = "tools:{calls};/"\ncall = "<b>{name}|{arguments}</b>"',
    "a-closing-of-reasoning-in-a-call": 'reasoning = "<r>{reasoning}/#"\ncall = "#f/#{name}({arguments})#e#"',
    "an-end-that-opens-a-part": 'end = ["<r>"]\nreasoning = "<r>\\n{reasoning}</r>"',
    "an-end-that-closes-a-part": 'end = ["@end"]\nreasoning = "<r>{reasoning}@end"',
    "frames-that-white-space-closes": 'content = "## Reply\\n{content}\\n"\ncall = "## Call {name}({arguments}) end"',
    "white-space-after-calls": 'call = "<c {name}>{arguments}</c>\\n"',
    "marked-calls-in-an-unmarked-block": ANY + "calls = '```tools{calls}```'",
    "calls-that-each-open-a-list": f"call = '[{OBJECT} ]'",
    "calls-without-arguments": 'call = "<c>{name}</c>"',
    "a-separator-that-arguments-could-contain": "call = '* {name} {arguments}'\nseparator.calls = ' ; '",
    "calls-that-nothing-separates": 'call = "{name}({arguments}"\nargument = "<{key}>{value}</{key}>"',
    "bare-calls-that-begin-with-their-id": 'call = "{id}<c>{name} {arguments}</c>"',
    "a-closing-glued-to-the-name": 'call = "<f {name}{arguments}/>"',
    "ids-that-no-grammar-generates": 'call = "<c>{name} [{id}] {arguments}</c>"\n[[examples]]\nraw = "x"\n'
    "tool_calls = [{ name = 'f', id = 'c-1' }]",
    "examples-without-calls": ANY,
    "soft-white-space-in-an-opening": 'reasoning = "%% plan {reasoning}%%"',
    "parts-that-begin-alike": 'reasoning = "<tools>a{reasoning}</t>"\ncalls = "<tools>{calls}</x>"\n' + ANY,
    "parts-of-which-one-begins-the-other": 'reasoning = "<t{reasoning}</t>"\ncontent = "<tx{content}</s>"',
    "ends-inside-a-part": 'end = "</t>"\nreasoning = "<t>{reasoning}</t>"',
}
"""Files that break a rule, by its name."""


def broken(name: str, rules: Rules) -> Iterator[str]:
    """What the rules say about the file that breaks one of them, loaded as if it were a shipped one."""
    text = f'name = "mine"\n{BROKEN[name]}\n' + ('[[examples]]\nraw = "x"\n' if "[[" not in BROKEN[name] else "")
    dialect = parse_dialect(text, "mine.toml", find_base, trusted=True)
    return (str(finding) for finding in rules.findings(dialect) if finding.rule.name == name)


def test_a_text_is_bounded_and_so_is_the_number_of_texts_of_a_key() -> None:
    for line, message in (
        (f'end = "{"x" * 513}"', "mine.toml: end: contains a text of 513 characters; allowed are 512"),
        (f"end = {[f'<{i}>' for i in range(65)]}", "mine.toml: end: contains 65 texts; allowed are 64"),
        (f'tools."{"x" * 513}" = "<f>"', "mine.toml: tools: contains a text of 513 characters"),
    ):
        with pytest.raises(DialectError, match=message):
            parse_dialect(f'name = "mine"\n{ANY}{line}\n[[examples]]\nraw = "x"\n', "mine.toml", find_base)


ALL = {rule.name: rules for rules in (LOADING, CHECKING, SOFT) for rule in rules}


def test_every_rule_has_a_file_that_breaks_it() -> None:
    assert ALL.keys() == BROKEN.keys()


@pytest.mark.parametrize("name", BROKEN)
def test_a_rule_finds_a_file_that_breaks_it_and_says_so_in_words(name: str) -> None:
    found = list(broken(name, ALL[name]))
    assert found
    assert all(text.strip() == text and "{}" not in text for text in found)


@pytest.mark.parametrize("name", [rule.name for rule in LOADING])
def test_the_loader_refuses_a_file_that_breaks_a_rule(name: str) -> None:
    with pytest.raises(DialectError, match=r"^mine\.toml: [\w.*]+: "):
        parse_dialect(f'name = "mine"\n{BROKEN[name]}\n[[examples]]\nraw = "x"\n', "mine.toml", find_base)


def test_no_shipped_file_breaks_a_rule() -> None:
    found = [str(f) for d in list_dialects() for f in Rules([*LOADING, *CHECKING]).findings(d)]
    assert found == []


def test_the_page_of_rules_has_a_row_for_each() -> None:
    page = (ROOT / "docs/en/rules.md").read_text(encoding="utf-8")
    missing = [name for name in BROKEN if f"\n| {name.replace('-', ' ')} |" not in page]
    assert missing == [], "run `make readme`"
