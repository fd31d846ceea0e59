"""Files as people write them who only know the guide: what they mean, and what the check says about them."""

import json
from typing import Any

import pytest

from tests.grammar.support import constrained
from unspool import Dialect, DialectError, Policy
from unspool.check import check_dialect, promises
from unspool.dialect.loader import parse_dialect
from unspool.dialect.registry import find_base
from unspool.grammar import ToolStrictLevel

from ..support import chunkings, dialect_of, run, tool
from .test_drawn import loaded

TOOLS = [tool("f", a="string", b="string", n="integer"), tool("now")]


def read(dialect: Dialect, raw: str, **options: Any) -> list[tuple[str, Any]]:
    """The calls of a text, which is read alike however it is cut."""
    found = []
    for chunks in chunkings(raw):
        message, _ = run(dialect, chunks, tools=TOOLS, **options)
        assert not message.content
        found.append([(c.name, c.status, c.arguments) for c in message.tool_calls])
    assert all(calls == found[0] for calls in found)
    return [
        (name, json.loads(arguments) if status in ("ok", "repaired") else status)
        for name, status, arguments in found[0]
    ]


def said(keys: str, examples: str) -> str:
    """All that the check says about a file."""
    problems = check_dialect(parse_dialect(f'name = "mine"\n{keys}\n{examples}', "mine.toml", find_base))
    return "\n".join(line for p in problems for line in (str(p), *p.why))


# -- arguments ---------------------------------------------------------------------------------------------------------

INDENTED = """
call = "tool: {name}\\nargs:\\n{arguments}done."
argument = "  - {key}: {value} <end>\\n"
"""


def test_an_indented_argument_whose_closing_is_missing_ends_where_the_next_one_begins() -> None:
    dialect = dialect_of(INDENTED)
    for end in ("\n", " \n"):
        raw = f"tool: f\nargs:\n  - a: x{end}  - b: y <end>\ndone."
        assert read(dialect, raw) == [("f", {"a": "x", "b": "y"})]
    raw = "tool: f\nargs:\n  - a: see  - b: y <end>\ndone."
    assert read(dialect, raw) == [("f", {"a": "see  - b: y"})]


def test_a_separator_before_an_argument_is_no_part_of_the_value_before_it_whose_closing_is_missing() -> None:
    dialect = dialect_of(
        'call = "<f {name}>{arguments}</f>"\nargument = "[{key}]={value};;"\nseparator.arguments = " "'
    )
    assert read(dialect, "<f f>[a]=x [b]=y;;</f>") == [("f", {"a": "x", "b": "y"})]


def test_what_separates_arguments_is_no_part_of_a_value_however_the_text_is_cut() -> None:
    keys = 'call = "<f {name}>{arguments}</f>"\nargument = "<p {key}>{value}</p>"\nseparator.arguments = "]"'
    assert read(dialect_of(keys), "<f f><p a>x]y]<p b>z</p></f>") == [("f", {"a": "x]y", "b": "z"})]
    lines = keys.replace('"]"', '"\\n] "')
    assert read(dialect_of(lines), "<f f><p a>x\n] <p b>z</p></f>") == [("f", {"a": "x", "b": "z"})]


def test_a_grammar_for_indented_arguments_keeps_the_openings_of_others_out_of_a_value() -> None:
    constraint = constrained(dialect_of(INDENTED), TOOLS, "required", strict_level=ToolStrictLevel.PARAMETER)
    assert promises.refusal(constraint.lark, "tool: f\nargs:\n  - a: x\n  - c <end>\ndone.") == ""
    assert promises.refusal(constraint.lark, "tool: f\nargs:\n  - a: x\n  - b: y <end>\ndone.") != ""


TAGS = """
calls = "<calls>{calls}</calls>"
call = "{number}|{name}|{arguments}<end>"
argument = "<{key}>{value}</{key}>"
"""


def test_a_call_that_begins_with_its_number_is_read_after_one_that_lacks_its_closing() -> None:
    dialect = dialect_of(TAGS)
    for first in ("1|f|", "7|f|"):
        raw = f"<calls>{first}<a>x</a>2|now|<end></calls>"
        assert read(dialect, raw) == [("f", {"a": "x"}), ("now", {})]
    raw = "<calls>1|f|<a>x</a>2|unknown|</a><end></calls>"
    assert read(dialect, raw) == [("f", {"a": "x</a>2|unknown|"})]


def test_an_end_tag_after_an_argument_opens_no_argument_however_the_text_is_cut() -> None:
    assert read(dialect_of(TAGS), "<calls>1|f|<n>3</n></t>") == [("f", "incomplete")]


def test_a_closing_is_no_key_where_keys_are_tags() -> None:
    dialect = dialect_of(TAGS.replace("</calls>", "<over>"))
    assert read(dialect, "<calls>1|f|<a>x</a><end><over>") == [("f", {"a": "x"})]
    assert read(dialect, "<calls>1|f|<a>x</a><over>") == [("f", {"a": "x"})]


def test_a_separator_of_calls_may_follow_an_argument_where_its_call_lacks_the_closing() -> None:
    keys = 'calls = "<t>{calls}</t>"\ncall = "<f {name}>{arguments}</f>"\nargument = "<p {key}>{value}</p>"\n'
    for separator in (", ", " | ", "<sep>"):
        dialect = dialect_of(f'{keys}separator.calls = "{separator}"')
        raw = f"<t><f f><p a>x</p>{separator}<f now></f></t>"
        assert read(dialect, raw) == [("f", {"a": "x"}), ("now", {})]


def test_a_declared_call_without_a_marker_of_its_own_is_read_after_one_that_lacks_its_closing() -> None:
    dialect = dialect_of(
        'calls = "<t>{calls}</t>"\ncall = "* {name}: {arguments} */"\nargument = "<p {key}>{value}</p>"'
    )
    assert read(dialect, "<t>* f: <p a>x</p>* now:  */</t>") == [("f", {"a": "x"}), ("now", {})]
    assert read(dialect, "<t>* f: <p a>x</p>* other: </p> */</t>") == [("f", {"a": "x</p>* other: "})]


GUILLEMETS = """
calls = "«calls»{calls}«/calls»"
call = "«call {name}» {arguments} «/call»"
argument = "«{key} = {value}»"
separator.arguments = " "
"""


def test_a_grammar_allows_a_closing_that_begins_as_the_next_argument_does() -> None:
    dialect = loaded(GUILLEMETS)
    assert check_dialect(dialect) == []
    constraint = constrained(dialect, TOOLS, "required", strict_level=ToolStrictLevel.PARAMETER)
    for arguments in ("«a = x»", "«a = x» «b = y»"):
        assert promises.refusal(constraint.lark, f"«calls»«call f» {arguments} «/call»«/calls»") == ""
    assert read(dialect, "«calls»«call f» «a = x» «call now»  «/call»«/calls»") == [("f", {"a": "x"}), ("now", {})]


def test_arguments_may_close_with_two_commas_or_semicolons_but_not_with_one() -> None:
    keys = '\ncall = "<f {name}>{arguments}</f>"\nargument = "@{key} = {value} %%"\n'
    for closing in (";;", ",;"):
        assert check_dialect(loaded(keys.replace("%%", closing))) == []
    for closing in (",", ";"):
        with pytest.raises(DialectError, match="which JSON and texts contain too: write a closing that they do not"):
            dialect_of(keys.replace("%%", closing))


# -- calls -------------------------------------------------------------------------------------------------------------

LINES = """
calls = "\\n~~~tools\\n{calls}\\n~~~"
call = "run {name} {arguments}"
separator.calls = "\\n"
"""


def test_in_a_block_the_next_call_ends_a_broken_one_that_nothing_closes() -> None:
    dialect = dialect_of(LINES)
    raw = '~~~tools\nrun f {"a": @@}\nrun now {}\n~~~'
    assert read(dialect, raw) == [("f", "invalid"), ("now", {})]
    cut = '~~~tools\nrun f {"a": "x"\nrun now {}\n~~~'
    assert read(dialect, cut, policy=Policy(bad_arguments="repair")) == [("f", {"a": "x"}), ("now", {})]


def test_brackets_end_a_broken_call_that_neither_begins_nor_ends_with_a_word() -> None:
    keys = 'calls = "[calls]\\n{calls}\\n[/calls]"\ncall = "{number}. {name}: {arguments}"\n'
    dialect = dialect_of(keys + 'separator.calls = "\\n"')
    raw = '[calls]\n1. f: {"a": @@}\n2. now: {}\n[/calls]'
    assert read(dialect, raw) == [("f", "invalid"), ("now", {})]
    cut = '[calls]\n1. f: {"a": "x"\n2. now: {}\n[/calls]'
    assert read(dialect, cut, policy=Policy(bad_arguments="repair")) == [("f", {"a": "x"}), ("now", {})]
    text = said(
        keys, HELLO + """[[examples]]\nraw = "[calls]\\n1. now: {}\\n[/calls]"\ntool_calls = [{name = "now"}]"""
    )
    assert "write what is between them, as in separator.calls = '\\n'" in text
    comma = said(keys + 'separator.calls = ", "', HELLO + NOW.replace("<do now/>", "[calls]\\n1. now: {}\\n[/calls]"))
    assert "let `call` close with a marker, or begin with a word" in comma


def test_a_tools_name_may_spell_the_opening_of_reasoning_where_calls_are_in_a_block() -> None:
    keys = """
reasoning = "<think>{reasoning}</think>"
calls = "<tools>{calls}</tools>"
call = "<{name}>{arguments}</{name}>"
argument = "<{key}>{value}</{key}>"
"""
    assert check_dialect(loaded(keys)) == []
    message, _ = run(dialect_of(keys), ["<tools><think><a>x</a></think></tools>"], tools=[tool("think", a="string")])
    assert [(c.name, c.arguments) for c in message.tool_calls] == [("think", '{"a": "x"}')]
    found = check_dialect(loaded(keys.replace("<tools>{calls}</tools>", "{calls}")))
    assert "contains if a tool is named 'think'" in found[0].what


def test_the_next_call_ends_one_without_arguments_that_nothing_closes() -> None:
    dialect = dialect_of(
        'calls = "<t>{calls}</t>"\ncall = "- tool: {name} with:{arguments}"\nargument = "@{key}: {value} <end>"'
    )
    raw = "<t>- tool: now with:- tool: f with:@a: x <end></t>"
    assert read(dialect, raw) == [("now", {}), ("f", {"a": "x"})]


def test_a_grammar_allows_reasoning_that_begins_with_the_same_sign_as_calls() -> None:
    keys = """
reasoning = "## Thoughts\\n{reasoning}\\n## Answer\\n"
calls = "\\n## Call\\n{calls}\\n## Done"
call = "### call {name}:\\n{arguments}-- end"
argument = "* **{key}**: {value} %\\n"
separator.calls = "\\n"
"""
    assert check_dialect(loaded(keys)) == []


# -- what the check says -----------------------------------------------------------------------------------------------

HELLO = '[[examples]]\nraw = "Hello."\ncontent = "Hello."\n'
NOW = """[[examples]]\nraw = "<do now/>"\ntool_calls = [{ name = "now" }]\n"""


def test_calls_that_never_have_arguments_are_refused_with_a_template_that_has_them() -> None:
    text = said('call = "<do {name}>"', HELLO + NOW.replace("/", ""))
    assert (
        "write first how the model writes arguments, as in call = ['<do {name}>{arguments}</do>', '<do {name}>']"
        in text
    )
    own = "call = ['<do {name}>{arguments}</do>', '<do {name}>']"
    assert said(own, HELLO + NOW.replace('"<do now/>"', '["<do now>{}</do>", "<do now>"]')) == ""


@pytest.mark.parametrize("arguments", ["{name}>{arguments}</do>", "{name} {arguments}/>"])
def test_a_call_that_closes_itself_gets_a_template_of_its_own(arguments: str) -> None:
    text = said(f'call = "<do {arguments}"', HELLO + NOW)
    assert f"add a template for calls without arguments: call = ['<do {arguments}', '<do {{name}}/>']" in text
    text = said(f'call = ["<do {arguments}", "<do {{name}}/>"]', HELLO + NOW)
    assert "list the rendered text first in `raw`" in text


@pytest.mark.parametrize(
    ("keys", "raw", "proposal"), [
        ('call = "<f {name}>\\n{arguments}\\n</f>"\nargument = "[{key}={value}]>"\nseparator.arguments = "\\n"',
         "<f now>\n</f><f f>\n[a=x]>\n[b=y]>\n</f>",
         "write argument = '[{key}={value}]>\\n' and separator.arguments = '' and call = '<f {name}>\\n"
         "{arguments}</f>'"),
        ('calls = "<t>\\n{call}\\n</t>"\ncall = "name: {name}\\n{arguments}"\nargument = "<p {key}>{value}</p>\\n"',
         "<t>\nname: now\n</t>\n<t>\nname: f\n<p a>x</p>\n<p b>y</p>\n</t>",
         "write separator.calls = '\\n' and calls = '<t>\\n{call}</t>'"),
    ],
)  # fmt: skip
def test_white_space_that_differs_comes_with_the_templates_that_write_it(keys: str, raw: str, proposal: str) -> None:
    calls = '[{ name = "now" }, { name = "f", arguments = { a = "x", b = "y" } }]'
    example = f"[[examples]]\nraw = {json.dumps(raw)}\ntool_calls = {calls}\n"
    assert proposal in said(keys, HELLO + example)


def test_a_marker_before_the_arguments_is_proposed_where_the_call_has_one_already() -> None:
    keys = """
calls = "## Call\\n{calls}## Done"
call = "## call {name}\\n{arguments}-- end"
argument = "* **{key}**: {value} %\\n"
"""
    text = "\n".join(map(str, check_dialect(loaded(keys))))
    assert "write a marker before `{arguments}`, as in '## call {name}:\\n{arguments}-- end'" in text
