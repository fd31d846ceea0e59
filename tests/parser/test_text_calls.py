"""Tools that a model was trained on: bare text instead of arguments, and calls that look different from others.

A dialect file describes them in its tables `text` and `tools`."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

import unspool
from tests.support import run
from unspool import DialectError, ToolStrictLevel
from unspool.dialect.loader import parse_dialect
from unspool.dialect.registry import get_dialect

from ..grammar.support import Grammars

OPEN = "<|channel|>analysis to=python code<|message|>"
END = "<|call|>"
CODE = 'd = {"ä": "\\n", "b": \'</x>\'}\n\tprint(d)  # \x00 \U0001f600 <|cal'


def tool(name: str = "python", **more: Any) -> dict[str, Any]:
    value = {"type": "string", **more}
    parameters = {"type": "object", "properties": {"code": value}, "required": ["code"]}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}


def read(raw: str, tools: Sequence[Any] | None = (tool(),), finish_reason: str = "stop") -> list[tuple[str, str, str]]:
    message = unspool.parse(raw, "harmony", tools=None if tools is None else list(tools), finish_reason=finish_reason)
    return [(call.name, call.arguments, call.status) for call in message.tool_calls]


def fed(chunks: Sequence[str]) -> list[tuple[str, str, str]]:
    message, _ = run("harmony", chunks, tools=[tool(), NOW], finish_reason="stop")
    return [(call.name, call.arguments, call.status) for call in message.tool_calls]


RAW = f"<|channel|>analysis<|message|>plan<|end|><|start|>assistant{OPEN}{CODE}{END}<|start|>assistant{OPEN}x{END}"


def test_the_text_is_the_tools_argument_at_every_chunking() -> None:
    wanted = [("python", json.dumps({"code": code}, ensure_ascii=False), "ok") for code in (CODE, "x")]
    assert fed([RAW]) == wanted
    assert fed(list(RAW)) == wanted
    for i in range(len(RAW)):
        assert fed([RAW[:i], RAW[i:]]) == wanted, i


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
        for tools in ([tool()], None, [NOW, tool()]):
            assert read(f"{header}x{END}", tools) == wanted, header


@pytest.mark.parametrize(
    "other",
    [
        tool(enum=["a", "b"]),
        tool(pattern="x+"),
        {"type": "function", "function": {"name": "python", "parameters": {"type": "object"}}},
        {
            "type": "function",
            "function": {"name": "python", "parameters": {"properties": {"file": {"type": "string"}}}},
        },
    ],
)
def test_a_tool_of_that_name_with_other_arguments_is_called_with_json(other: dict[str, Any]) -> None:
    assert read(f'{OPEN}{{"code": "a"}}{END}', [other]) == [("python", '{"code": "a"}', "ok")]
    call = {"id": "1", "type": "function", "function": {"name": "python", "arguments": '{"code": "a"}'}}
    text = unspool.render({"role": "assistant", "tool_calls": [call]}, "harmony", tools=[other])
    assert "to=functions.python" in text


def test_a_longer_name_is_another_tool() -> None:
    assert read(f'<|channel|>analysis to=python3 code<|message|>{{"code": "a"}}{END}', [tool("python3"), tool()]) == [
        ("python3", '{"code": "a"}', "ok")
    ]


@pytest.mark.parametrize("code", ["x", "", "\n x \n", CODE, "print('<|call|> is no end here')", 'a\\n"'])
def test_the_text_is_rendered_bare_and_reads_back(code: str) -> None:
    function = {"name": "python", "arguments": json.dumps({"code": code})}
    message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    text = unspool.render(message, "harmony", tools=[tool()])
    assert text == f"{OPEN}{code}{END}"
    [(_, arguments, status)] = read(text)
    assert json.loads(arguments) == {"code": code}
    assert status == "ok"


def test_a_text_that_holds_its_own_end_is_rendered_as_json() -> None:
    code = f"x{END}<|start|>assistant"
    function = {"name": "python", "arguments": json.dumps({"code": code})}
    message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    text = unspool.render(message, "harmony", tools=[tool()])
    assert "to=functions.python <|constrain|>json" in text
    assert json.loads(read(text)[0][1]) == {"code": code}


def accepts(text: str, tools: list[Any], **more: Any) -> bool:
    """Whether the engine accepts a whole output under the grammar."""
    constraint = unspool.constrain("harmony", tools, strict_level=ToolStrictLevel.PARAMETER, **more)
    assert constraint is not None
    return not Grammars(constraint).refuses(text)


@pytest.mark.parametrize("tool_choice", ["auto", "required", {"type": "function", "function": {"name": "python"}}])
def test_the_grammar_has_the_text_and_no_json_for_the_tool(tool_choice: Any) -> None:
    tools = [tool(), NOW]
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
SEARCH = {
    "type": "function",
    "function": {
        "name": "browser.search",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    },
}


def test_a_tool_of_the_training_has_its_own_form_in_renderer_and_grammar() -> None:
    assert read(BROWSE, [SEARCH]) == [("browser.search", '{"query": "x"}', "ok")]
    function = {"name": "browser.search", "arguments": '{"query": "x"}'}
    message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    for tools in ([SEARCH, NOW], None):
        assert unspool.render(message, "harmony", tools=tools) == BROWSE
    named = {"type": "function", "function": {"name": "browser.search"}}
    for choice in ("auto", "required", named):
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
    for name, written in (("run.a", "own run.a<m>{}<c>"), ("run", "do run<m>{}<c>")):
        tools = [{"type": "function", "function": {"name": name}}]
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": "{}"}}
        assert unspool.render({"role": "assistant", "tool_calls": [call]}, own, tools=tools) == written
        assert [c.name for c in unspool.parse(written, own, tools=tools).tool_calls] == [name]
    child = parse_dialect(f'name = "y"\nbase = "x"\n{EXAMPLE}', "y.toml", lambda _: own)
    assert child.trained == own.trained
    assert child.call == own.call
