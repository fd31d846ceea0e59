"""Files as people write them who only know the guide: what they mean, and what the check says about them."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.grammar.support import constrained
from unspool import Dialect, DialectError, Policy
from unspool.check import check_dialect, promises
from unspool.dialect.loader import parse_dialect
from unspool.dialect.registry import find_base
from unspool.grammar import ToolStrictLevel

from ..support import alike, chunkings, dialect_of, run, tool
from .test_drawn import loaded

TOOLS = [tool("f", a="string", b="string", n="integer"), tool("now")]


def read(dialect: Dialect, raw: str, **options: Any) -> list[tuple[str, Any]]:
    """The calls of a text, which is read alike however it is cut."""
    message = alike(dialect, raw, chunkings(raw), tools=TOOLS, **options)
    assert not message.content
    whole = ("ok", "repaired")
    return [(c.name, json.loads(c.arguments) if c.status in whole else c.status) for c in message.tool_calls]


def said(keys: str, examples: str) -> str:
    """All that the check says about a file."""
    problems = check_dialect(parse_dialect(f'name = "mine"\n{keys}\n{examples}', "mine.toml", find_base))
    return "\n".join(line for p in problems for line in (str(p), *p.why))


class Read(msgspec.Struct):
    """Keys of a file, with outputs and what they mean: the names and arguments of calls, or their status."""

    what: str
    keys: str
    means: list[tuple[str, str]]
    bad_arguments: Any = None


_FILE = Path(__file__).with_name("strangers.toml")
READ = msgspec.toml.decode(_FILE.read_bytes(), type=dict[str, list[Read]])["read"]


@pytest.mark.parametrize("case", READ, ids=[case.what for case in READ])
def test_an_output_is_read_as_it_is_meant_however_it_is_cut(case: Read) -> None:
    policy = Policy(bad_arguments=case.bad_arguments)
    for raw, calls in case.means:
        assert read(dialect_of(case.keys), raw, policy=policy) == [(name, value) for name, value in json.loads(calls)]


# -- arguments ---------------------------------------------------------------------------------------------------------

INDENTED = """
call = "tool: {name}\\nargs:\\n{arguments}done."
argument = "  - {key}: {value} <end>\\n"
"""


def test_a_grammar_for_indented_arguments_keeps_the_openings_of_others_out_of_a_value() -> None:
    constraint = constrained(dialect_of(INDENTED), TOOLS, "required", strict_level=ToolStrictLevel.PARAMETER)
    assert promises.refusal(constraint.lark, "tool: f\nargs:\n  - a: x\n  - c <end>\ndone.") == ""
    assert promises.refusal(constraint.lark, "tool: f\nargs:\n  - a: x\n  - b: y <end>\ndone.") != ""


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


def test_arguments_may_close_with_two_commas_or_semicolons_but_not_with_one() -> None:
    keys = '\ncall = "<f {name}>{arguments}</f>"\nargument = "@{key} = {value} %%"\n'
    for closing in (";;", ",;"):
        assert check_dialect(loaded(keys.replace("%%", closing))) == []
    for closing in (",", ";"):
        with pytest.raises(DialectError, match="which JSON and texts contain too: write a closing that they do not"):
            dialect_of(keys.replace("%%", closing))


# -- calls -------------------------------------------------------------------------------------------------------------


def test_calls_between_brackets_need_a_separator_or_a_marker() -> None:
    keys = 'calls = "[calls]\\n{calls}\\n[/calls]"\ncall = "{number}. {name}: {arguments}"\n'
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
def test_a_call_that_closes_itself_is_read_without_a_template_of_its_own(arguments: str) -> None:
    assert "list the rendered text first in `raw`" in said(f'call = "<do {arguments}"', HELLO + NOW)


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
