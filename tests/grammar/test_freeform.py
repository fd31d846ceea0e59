"""Grammars of custom tools are enforced inside every dialect's own format."""

import json
import random
import re
import tomllib
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unspool
from tests.support import calling, closed_tool, function_call
from unspool import ConstraintError, Dialect, Stage
from unspool.check.promises import closings
from unspool.grammar import constrain, regular
from unspool.grammar.freeform import MAX_GRAMMAR, Freeform, read_lark
from unspool.grammar.matchers import from_lark

from .support import WITH_CALLS, Grammars, byte_tokenizer, constrained, read

PATCH = r"""
start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?
filename: /(.+)/
add_line: "+" /(.*)/ LF -> line
change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF
%import common.LF
"""
GOOD = (
    '*** Begin Patch\n*** Add File: a "b".py\n+def f():\n+\treturn "\\\\n", \'é\' \n+\n'
    "*** Update File: c.py\n@@ class C:\n"
    "-x = {1: [2]}\n+x = None\n*** Delete File: d\n*** End Patch"
)
BAD = [GOOD.replace("+def", "def"), GOOD.replace("*** End Patch", ""), "cat c.py", GOOD + "\nMore", ""]
TOOL = closed_tool("apply_patch", input="string")
GRAMMARS = {"apply_patch": read_lark(PATCH)}


def good(dialect: Dialect) -> str:
    """`GOOD`, with other line endings if a closing of the dialect begins like one of its line endings.

    A terminal of a tool's grammar cannot end with the beginning of a closing, because the next text could complete it.
    """
    begun = tuple(c[:n] for c in closings(dialect) for n in range(1, len(c)))
    if not any(line.endswith(begun) for line in GOOD.splitlines()):
        return GOOD
    return re.sub(r"(?m)^([-+@ ].*|[*]{3} .* File: .*)$", r"\1·", GOOD)


def written(text: str, dialect: Dialect | str) -> str:
    message = calling(function_call("apply_patch", {"input": text}))
    return unspool.render(message, dialect, tools=[TOOL], stage="content")


@cache
def made(name: str) -> Grammars:
    return Grammars(constrained(name, [TOOL], "required", stage=Stage.CONTENT, grammars=GRAMMARS))


@pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda d: d.name)
def test_a_text_of_the_grammar_is_generated_and_read_back_and_no_other(dialect: Dialect) -> None:
    grammars, text = made(dialect.name), good(dialect)
    raw = written(text, dialect)
    assert grammars.refuses(raw) == ""
    message = read(raw, dialect, random.Random(1), tools=[TOOL], stage="content")
    assert [json.loads(c.arguments) for c in message.tool_calls] == [{"input": text}]
    assert all(grammars.refuses(written(wrong, dialect)) for wrong in BAD)


def test_a_grammar_is_kept_under_auto_without_any_strict_tool() -> None:
    grammars = Grammars(constrained("hermes", [TOOL], grammars=GRAMMARS))
    for text, kept in ((GOOD, True), (BAD[0], False)):
        assert (grammars.refuses(written(text, "hermes")) == "") is kept
    assert grammars.refuses("Just text.") == ""
    assert constrain("hermes", [TOOL], "none", grammars=GRAMMARS) is None


def test_forms_without_lark_are_refused_with_the_reason() -> None:
    constraint = constrained("hermes", [TOOL], grammars=GRAMMARS)
    for form in ("gbnf", "structural_tag"):
        with pytest.raises(ConstraintError, match="is in Lark, which cannot be kept"):
            getattr(constraint, form)


def test_a_closing_marker_inside_the_text_is_kept_out_of_a_raw_value() -> None:
    grammars = made("qwen3-coder")
    raw = written(GOOD, "qwen3-coder")
    for marker in ("</parameter>", "</function>", "</tool_call>"):
        assert grammars.refuses(raw.replace("def f():", f"x {marker} y"))
    assert grammars.refuses(raw.replace("def f():", "x < y and </b> too")) == ""


def accepts(grammar: str, text: str, *, json_string: bool) -> bool:
    """Whether the grammar accepts a text, bare or in a JSON string."""
    inner = Freeform(grammar).written('"' if json_string else "")
    quote = r"\"" if json_string else "|"
    matcher = from_lark(byte_tokenizer(), f'%llguidance {{}}\nstart: "{quote}" f "{quote}"\nf: %lark {{\n{inner}}}\n')
    assert not matcher.is_error(), matcher.get_error()
    data = (json.dumps(text, ensure_ascii=False) if json_string else f"|{text}|").encode()
    return bool(matcher.try_consume_tokens(list(data)) == len(data) and matcher.is_accepting())


FORMS: list[tuple[str, list[str], list[str]]] = [
    ('start: (NUMBER | "(" start ")") ("+" start)?\n%import common.NUMBER\n%ignore / +/', ["1+(2.5 + 3)"], ["1+", "x"]),
    ('start: "Ab"i "c".."e"~2..3', ["abcd", "AbEE".lower(), "aBcde"], ["abc", "abcdec", "abcf"]),
    ('start: A\nA: "x" B* | [C] "y"\nB: /[^"\\\\|]/\nC: "\\\\" "\\""', ["xabc", '\\"y', "y"], ['xa"', "z", '\\"x']),
    ("start: NEWLINE WORD WS\n%import common (NEWLINE, WORD, WS)", ["\r\n\nabc \t\n "], ["abc", "\na"]),
    ('start: "}" "{" /[{}]{2}/ a?\n?a.2: "%" // a comment\n | "#"', ["}{}}%", "}{{}#"], ["}{", "}{}}%%"]),
    ("start: X\n%import common.INT -> X", ["12"], ["x"]),
    (r"start: /\u00e9\x41[\w-]\.\/[^\n]$/", ["éA-./x"], ["éA-./\n", "éA+./x"]),
    (r"start: /a.c/s /\S/i", ["a\ncx"], ["a\nc "]),
]


@pytest.mark.parametrize(("grammar", "good", "bad"), FORMS)
@pytest.mark.parametrize("json_string", [False, True])
def test_every_feature_of_lark_holds_for_bare_text_and_in_a_json_string(
    grammar: str, good: list[str], bad: list[str], json_string: bool
) -> None:
    assert [accepts(grammar, text, json_string=json_string) for text in good] == [True] * len(good)
    assert [accepts(grammar, text, json_string=json_string) for text in bad] == [False] * len(bad)


_RULES = [f"{a}: {b} {b}" for a, b in pairwise("ABCDEFGHIJKLMNOPQRSTU")]
WRONG = {
    **tomllib.loads(Path(__file__).with_name("wrong.toml").read_text(encoding="utf-8")),
    "start: " + "(" * 200 + "/a/" + ")" * 200: "nest deeper",
    "start: /" + "(" * 200 + "a" + ")" * 200 + "/": "nests deeper",
    "start: /a/" + " " * MAX_GRAMMAR: "allowed are 65,536",
    "\n".join(["start: A", *_RULES, "U: /a/"]): "have more than",
    "start: A0\n" + "\n".join(f"A{i}: A{i + 1}" for i in range(2000)) + "\nA2000: /a/": "is nested too deeply",
}


@pytest.mark.parametrize(("grammar", "said"), WRONG.items())
def test_wrong_and_unsupported_grammars_are_refused_by_name(grammar: str, said: str) -> None:
    with pytest.raises(ConstraintError, match=said):
        read_lark(grammar)


@given(st.text(max_size=60))
def test_any_text_as_a_grammar_is_read_or_refused(text: str) -> None:
    for grammar in (text, f"start: /{text}/", f'start: "{text}"', f"start: A\nA: {text}"):
        with suppress(ConstraintError):
            read_lark(grammar)
    with suppress(ValueError):
        regular.rule(regular.parse(text), '"')


def test_reading_a_grammar_takes_linear_time() -> None:
    read_lark("start: " + " | ".join(f'"{i}"' for i in range(5000)))
    read_lark("start: /" + "a?" * 5000 + "/")
    with pytest.raises(ConstraintError):
        read_lark('start: "' + "\\\\" * 20_000)
