"""Tools that a model was trained on: bare text instead of arguments, and calls that look different from others.

A dialect file describes them in its tables `text` and `tools`."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

import unspool
from unspool import DialectError, ToolStrictLevel
from unspool.dialect.loader import parse_dialect
from unspool.dialect.registry import get_dialect

from ..grammar.support import Grammars, constrained, tool_choice
from ..support import alike, calling, closed_tool, function_call, said, splits, tool

OPEN = "<|channel|>analysis to=python code<|message|>"
END = "<|call|>"
CODE = 'd = {"ä": "\\n", "b": \'</x>\'}\n\tprint(d)  # \x00 \U0001f600 <|cal'


def coding(name: str = "python", **more: Any) -> dict[str, Any]:
    """A tool that takes one text."""
    return closed_tool(name, code={"type": "string", **more})


NOW = tool("now")


def read(raw: str, tools: Sequence[Any] | None = (coding(),), finish_reason: str = "stop") -> Any:
    tools = None if tools is None else list(tools)
    return said(unspool.parse(raw, "harmony", tools=tools, finish_reason=finish_reason))[2]


def written(name: str, arguments: Any, tools: list[Any] | None) -> str:
    return unspool.render(calling(function_call(name, arguments)), "harmony", tools=tools)


RAW = f"<|channel|>analysis<|message|>plan<|end|><|start|>assistant{OPEN}{CODE}{END}<|start|>assistant{OPEN}x{END}"


def test_the_text_is_the_tools_argument_at_every_chunking() -> None:
    wanted = [("python", json.dumps({"code": code}, ensure_ascii=False), "ok") for code in (CODE, "x")]
    cuts = [list(RAW), *splits(RAW)]
    assert said(alike("harmony", RAW, cuts, tools=[coding(), NOW], finish_reason="stop"))[2] == wanted


def test_a_cut_text_is_incomplete_and_its_part_is_what_was_written() -> None:
    raw = f"{OPEN}abc def{END}"
    for i in range(len(OPEN), len(raw)):
        [(name, arguments, status)] = read(raw[:i], finish_reason="length")
        assert (name, status) == ("python", "incomplete")
        assert arguments == '{"code": "' + raw[len(OPEN) : i].partition("<")[0]


def test_a_model_that_stops_need_not_close_the_text() -> None:
    wanted = [("python", '{"code": "1 < 2 <|c"}', "ok")]
    assert read(f"{OPEN}1 < 2 <|c") == wanted
    for end in ("<|end|>", "<|return|>", "<|call|>"):
        assert read(f"{OPEN}1 < 2 <|c{end}") == wanted


def test_headers_in_other_orders_and_unknown_tools_are_read_alike() -> None:
    wanted = [("python", '{"code": "x"}', "ok")]
    for header in (
        "<|channel|>analysis to=python<|message|>",
        "<|channel|>commentary to=python <|constrain|>code<|message|>",
        " to=python<|channel|>analysis code<|message|>",
        "<|start|>assistant to=python<|message|>",
    ):
        for tools in ([coding()], None, [NOW, coding()]):
            assert read(f"{header}x{END}", tools) == wanted, header


@pytest.mark.parametrize(
    "other", [coding(enum=["a", "b"]), coding(pattern="x+"), tool("python"), tool("python", file="string")]
)
def test_a_tool_of_that_name_with_other_arguments_is_called_with_json(other: dict[str, Any]) -> None:
    assert read(f'{OPEN}{{"code": "a"}}{END}', [other]) == [("python", '{"code": "a"}', "ok")]
    assert "to=functions.python" in written("python", {"code": "a"}, [other])


def test_a_longer_name_is_another_tool() -> None:
    assert read(
        f'<|channel|>analysis to=python3 code<|message|>{{"code": "a"}}{END}', [coding("python3"), coding()]
    ) == [("python3", '{"code": "a"}', "ok")]


@pytest.mark.parametrize("code", ["x", "", "\n x \n", CODE, "print('<|call|> is no end here')", 'a\\n"'])
def test_the_text_is_rendered_bare_and_reads_back(code: str) -> None:
    text = written("python", {"code": code}, [coding()])
    assert text == f"{OPEN}{code}{END}"
    [(_, arguments, status)] = read(text)
    assert json.loads(arguments) == {"code": code}
    assert status == "ok"


def test_a_text_that_holds_its_own_end_is_rendered_as_json() -> None:
    code = f"x{END}<|start|>assistant"
    text = written("python", {"code": code}, [coding()])
    assert "to=functions.python <|constrain|>json" in text
    assert json.loads(read(text)[0][1]) == {"code": code}


def accepts(text: str, tools: list[Any], **more: Any) -> bool:
    """Whether the engine accepts a whole output under the grammar."""
    return not Grammars(constrained("harmony", tools, strict_level=ToolStrictLevel.PARAMETER, **more)).refuses(text)


@pytest.mark.parametrize("tool_choice", ["auto", "required", tool_choice("python")])
def test_the_grammar_has_the_text_and_no_json_for_the_tool(tool_choice: Any) -> None:
    tools = [coding(), NOW]
    assert accepts(f"{OPEN}d = {{1: '<'}}\nprint(d){END}", tools, tool_choice=tool_choice)
    json_form = '<|channel|>commentary to=functions.python <|constrain|>json<|message|>{"code": "x"}<|call|>'
    assert not accepts(json_form, tools, tool_choice=tool_choice)
    assert not accepts(f"{OPEN}x", tools, tool_choice=tool_choice)
    if tool_choice != "auto":
        return
    mixed = (
        f"{OPEN}x{END}<|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{{}}<|call|>"
    )
    assert accepts(mixed, tools)
    assert accepts(f"<|channel|>analysis<|message|>plan<|end|><|start|>assistant{OPEN}x{END}", tools)


FRAMED = """name = "x"
start = "<s>"
end = ["<e>"]
content = "<s>say<m>{content}<e>"
call = "<s>do {name}<m>{arguments}<c>"
"""
EXAMPLE = "\n[[examples]]\nraw = '<s>say<m>x<e>'\ncontent = 'x'\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("text = 'x'", "text: must be a table from tools to templates"),
        ("[text]\nrun = 7", "text.run: must be a template or a list of templates"),
        ("[text]\nrun = '<s>run<m><c>'", "text.run: must have one field besides"),
        ("[text]\nrun = '<s>{a}<m>{b}<c>'", "text.run: must have one field besides"),
        ("[text]\nrun = '<s>run<m>{code}'", "text.run: must have markers on both sides"),
        ("[text]\nrun = '<s>run<m>\\n{code}<c>'", ""),
        ("[text]\nrun = '<s>run<m> {code}<c>'", "without white space"),
        ("[text]\nrun = '<s>{any}<m>{code}<c>'", "{any} is not allowed in the first alternative"),
        ("tools = 'x'", "tools: must be a table from tools to templates"),
        ("[tools]\nrun = ['<s>own {name}<m>{arguments}<c>']", "tools.run: must be a template, not list"),
        ("[tools]\nrun = '<s>own {any}<m>{arguments}<c>'", "{any} is not allowed in the first alternative"),
        ("[tools]\nrun = '<s>own {name}<c>'", "tools.run: must have the fields that `call` has"),
        ("[tools]\n'run.*' = '<s>own {name}<m>{arguments}<c>'", ""),
    ],
)
def test_a_wrong_table_is_refused_with_what_is_allowed(line: str, message: str) -> None:
    if not message:
        parse_dialect(f"{FRAMED}{line}\n{EXAMPLE}", "x.toml", get_dialect)
        return
    with pytest.raises(DialectError) as error:
        parse_dialect(f"{FRAMED}{line}\n{EXAMPLE}", "x.toml", get_dialect)
    assert message in str(error.value)


def test_calls_of_bare_text_in_a_block_are_refused_with_the_templates_that_would_do() -> None:
    keys = FRAMED.replace("<s>do {name}<m>{arguments}<c>", "do {name}<m>{arguments}<c>")
    keys += 'calls = "<s>{calls}<x>"\n[text]\nrun = "<s>run<m>{code}<c>"\n'
    with pytest.raises(DialectError) as error:
        parse_dialect(keys + EXAMPLE, "x.toml", get_dialect)
    assert "write calls = '{calls}', and its markers" in str(error.value)
    assert "as in call = '<s>do {name}<m>{arguments}<c><x>'" in str(error.value)
    moved = keys.replace("do {name}<m>{arguments}<c>", "<s>do {name}<m>{arguments}<c><x>")
    parse_dialect(moved.replace("<s>{calls}<x>", "{calls}") + EXAMPLE, "x.toml", get_dialect)


def test_the_tables_text_and_tools_need_framed_content() -> None:
    for key, own in (("text", "<r>{code}</r>"), ("tools", "<r>{name}{arguments}</r>")):
        with pytest.raises(DialectError, match=f"{key}: is allowed only where content is framed"):
            parse_dialect(
                f'name = "x"\ncall = "<c>{{name}}{{arguments}}</c>"\n[{key}]\nrun = "{own}"\n{EXAMPLE}',
                "x.toml",
                get_dialect,
            )


BROWSE = '<|channel|>analysis to=browser.search code<|message|>{"query": "x"}<|call|>'
SEARCH = closed_tool("browser.search", query="string")


def test_a_tool_of_the_training_has_its_own_form_in_renderer_and_grammar() -> None:
    assert read(BROWSE, [SEARCH]) == [("browser.search", '{"query": "x"}', "ok")]
    for tools in ([SEARCH, NOW], None):
        assert written("browser.search", {"query": "x"}, tools) == BROWSE
    for choice in ("auto", "required", tool_choice("browser.search")):
        assert accepts(BROWSE, [SEARCH, NOW], tool_choice=choice)
        functions = (
            '<|channel|>commentary to=functions.browser.search <|constrain|>json<|message|>{"query": "x"}<|call|>'
        )
        assert not accepts(functions, [SEARCH, NOW], tool_choice=choice)
        assert not accepts(BROWSE.replace('"x"', "1"), [SEARCH, NOW], tool_choice=choice)
    other = "<|channel|>analysis to=now code<|message|>{}<|call|>"
    assert not accepts(other, [SEARCH, NOW]), "others are called as ever"


def test_a_users_dialect_may_list_tools_with_their_own_form() -> None:
    both = FRAMED.replace(
        'call = "<s>do {name}<m>{arguments}<c>"',
        'call = ["<s>do {name}<m>{arguments}<c>", "<s>own {name}<m>{arguments}<c>"]',
    )
    own = parse_dialect(
        f"{both}[tools]\n'run.*' = '<s>own {{name}}<m>{{arguments}}<c>'\n{EXAMPLE}", "x.toml", get_dialect
    )
    for name, text in (("run.a", "own run.a<m>{}<c>"), ("run", "do run<m>{}<c>")):
        assert unspool.render(calling(function_call(name)), own, tools=[tool(name)]) == text
        assert [c.name for c in unspool.parse(text, own, tools=[tool(name)]).tool_calls] == [name]
    child = parse_dialect(f'name = "y"\nbase = "x"\n{EXAMPLE}', "y.toml", lambda _: own)
    assert child.trained == own.trained
    assert child.call == own.call
