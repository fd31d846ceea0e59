"""What models write beside their format, and how it is read: alike in every dialect, however the text is cut."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from unspool import Dialect, DialectError, Message, Parser, Policy, get_dialect, parse, render
from unspool.check.promises import literals
from unspool.dialect.compiling import compile_plan
from unspool.dialect.markers import CallOpening, literals_of, tags
from unspool.dialect.template import Template, unstarted

from ..same_events import tokenizer
from ..support import (
    CALLING,
    DIALECTS,
    PYTHON,
    QUOTED,
    THINKING,
    VERBATIM,
    XML,
    alike,
    calling,
    dialect_of,
    function_call,
    is_marked,
    many_cuts,
    named,
    notices,
    pieces,
    presumed,
    run,
    said,
    splits,
    statuses,
    tool,
    values,
)
from ..writing import call_forms, fill, write_arguments, write_call, write_calls, write_content, write_reasoning
from .test_tokens import feed

WEATHER = tool("get_weather", city="string")
BASH = tool("bash", cmd="string")
TOOLS = [WEATHER, BASH]


def read(text: str, dialect: Dialect | str, finish_reason: str = "stop", **options: Any) -> Message:
    """The message, which is the same for the whole text, for characters and for all pairs of pieces."""
    options = {"tools": TOOLS, "finish_reason": finish_reason, **options}
    return alike(dialect, text, [list(text), *splits(text)], **options)


WAYS: list[dict[str, Any]] = [{}, {"tools": None}, {"tools": []}, {"tool_choice": "none"}]
"""Calls are read, of any tool, or not at all."""


# -- messages that have begun --------------------------------------------------------------------------------------


def words_of_headers(dialect: Dialect) -> Iterator[str]:
    """With what a message may begin only because the prompt contains a part of its header: a word, not a token."""
    for template in (*dialect.reasoning, *dialect.content, *dialect.preamble, *dialect.calls, *dialect.call):
        opening = template.opening
        rest = unstarted(opening, dialect.start)
        if rest != opening and rest.strip()[:1] not in ("", "<", "{"):
            yield rest.partition("{")[0].partition("<")[0]
    yield from (s for s in dialect.start if s.strip() and "<" not in s)


HEADED = [d for d in DIALECTS if d.framed and d.name != "functionary-v3.2" and any(words_of_headers(d))]


@pytest.mark.parametrize(**named(HEADED))
@pytest.mark.parametrize("ended", [False, True])
def test_in_a_message_that_has_begun_only_a_tag_opens_a_header(dialect: Dialect, ended: bool) -> None:
    for words in dict.fromkeys(words_of_headers(dialect)):
        text = f"Call f(au{words}True) and then{words}get_weather, and so {words}"
        begun = write_content(dialect, text + "x").partition(text)[0]
        raw = begun.removeprefix(dialect.start[0]) + text + dialect.end[0] * ended
        for way in WAYS:
            message = read(raw, dialect, **way)
            assert (message.content.rstrip(), message.tool_calls) == (text.rstrip(), []), raw


@pytest.mark.parametrize("way", [{}, {"tools": None}])
def test_where_calls_are_messages_a_tag_opens_none_in_a_message_with_a_header(way: dict[str, Any]) -> None:
    muse = presumed("muse")
    call = write_calls(muse, [("bash", {"cmd": "ls"})]).removesuffix(muse.end[0])
    block = call.partition("<|message|>")[2]
    answer = read(f" to=user<|message|>Write it so:\n{block}{muse.end[0]}", muse, **way)
    assert (answer.content, answer.tool_calls) == (f"Write it so:\n{block}", [])
    assert parse(render(answer, muse, tools=TOOLS), muse, tools=TOOLS).content == answer.content
    thought = read(f" to=self<|message|>I could {block} so<|eom|>{muse.start[0]} to=user<|message|>Hi.", muse, **way)
    assert (thought.reasoning, thought.content, thought.tool_calls) == (f"I could {block} so", "Hi.", [])
    for raw in (
        f"Sure.\n{block}",
        f" to=user<|message|>Sure.\n<|message|>{block}",
        f" to=user<|message|>Sure.\n{call}",
    ):
        message = read(raw, muse, **way)
        assert (message.content.rstrip(), values(message)) == ("Sure.", [("bash", {"cmd": "ls"})]), raw


@pytest.mark.parametrize("dialect", ["harmony", "llm-jp-4"])
def test_where_an_engine_stripped_special_tokens_nothing_vanishes(dialect: str) -> None:
    for raw in (
        'analysisWe list files.assistantcommentary to=functions.bash json{"cmd": "ls"}',
        "analysisWe list files.assistantfinalDone.",
        "to=functions.bash and then more",
    ):
        for way in WAYS:
            assert read(raw, dialect, **way).content == raw


CUT = [d for d in CALLING if compile_plan(d).calls.blocks[0].marked or compile_plan(d).calls.forms[0].marked]


@pytest.mark.sampled(10)
@pytest.mark.parametrize(**named(CUT))
@pytest.mark.parametrize("finish_reason", ["stop", "length"])
def test_the_output_s_end_cuts_openings_that_look_like_one_and_no_prose(dialect: Dialect, finish_reason: str) -> None:
    prose = "x of (it), then\nmore is said"
    for form in call_forms(dialect, "NAME", "ARGUMENTS"):
        head = unstarted(form, dialect.start).partition("NAME")[0]
        if not head.strip():
            continue
        message = read(head + prose, dialect, finish_reason)
        said_somewhere = [message.reasoning, message.content, *(c.name + c.arguments for c in message.tool_calls)]
        assert any(prose[1:] in text for text in said_somewhere), head


# -- openings in prose ---------------------------------------------------------------------------------------------


def spelled_openings(dialect: Dialect, name: str, *, drifts: bool = False) -> Iterator[tuple[str, str, str]]:
    """Openings of calls with a marker after the name, which prose may quote; what closes them, and their block's;
    ``drifts``: in the spellings that are only read, too."""
    plan = compile_plan(dialect)
    for call in dialect.call:
        if (
            call.object is None
            and (drifts or call.spelled is None)
            and call.body == "arguments"
            and (dialect.argument or "<" not in call.opening[:1])
        ):
            head = fill(call.opening, name=name, index="0", number="1", id="id0000000", any="x")
            tail = fill(call.closing, name=name, any="x")
            head = head.strip()
            form = next((f for f in plan.calls.forms if f.opening.match(head, 0, {}) == len(head)), None)
            if form is None or not form.marked or dialect.framed:
                continue
            if form.opening.first and form.opening.after_name:
                yield head, tail.strip(), fill(dialect.calls[0].opening).strip()


PROSE = [d for d in CALLING if any(spelled_openings(d, "f"))]


@pytest.mark.parametrize(**named(PROSE))
@pytest.mark.parametrize("name", ["get_weather", "unheard_of"])
def test_an_opening_that_prose_follows_is_text_unless_a_closing_comes(dialect: Dialect, name: str) -> None:
    for head, tail, block in spelled_openings(dialect, name):
        for opening in (head, block + head):
            raw = f"First write {opening} and then its arguments.\nThat is all."
            for way in WAYS:
                message = read(raw, dialect, **way)
                assert (message.content, message.tool_calls) == (raw, []), raw
            kinds = {*notices(read(raw, dialect))}
            assert kinds == {"opening_as_text"} or (block and opening == head and not kinds), raw
        closed = read(f"{block}{head} and then {tail}", dialect)
        assert [(c.name, c.status) for c in closed.tool_calls] == [(name, "invalid")]
        for rest in ("", write_arguments(dialect, {"city": "Paris"})):
            message = read(block + head + rest, dialect, "length")
            assert [c.name for c in message.tool_calls] == [name], rest


@pytest.mark.parametrize(**named([d for d in PROSE if d.argument and d.calls[0].opening.strip()]))
def test_an_opening_outside_its_block_that_is_text_keeps_its_closing(dialect: Dialect) -> None:
    for head, tail, _ in spelled_openings(dialect, "get_weather", drifts=True):
        raw = f"First write {head} and then {tail} behind it."
        for way in WAYS:
            message = read(raw, dialect, **way)
            assert (message.content, message.tool_calls) == (raw, []), raw


def test_a_call_that_is_never_closed_is_held_up_to_the_cap() -> None:
    for dialect, opening in (("qwen3-coder", "<tool_call><function=bash>"), ("minicpm5", '<function name="bash">')):
        for size in (1, 1000, 100_000):
            text = f"Use {opening} so " + "word " * 20_000
            message, _ = run(dialect, pieces(text, size), tools=TOOLS)
            assert (message.content, message.tool_calls) == (text, [])
            assert notices(message)[0] == "hold_overflow"


def test_text_after_an_opening_that_was_given_back_is_read() -> None:
    raw = 'First <function name="bash"> so. <think>\nplan\n</think>\n\nThen\n'
    call = '<function name="bash"><param name="cmd">ls</param></function>'
    message = read(raw + call, "minicpm5")
    assert (message.content, message.reasoning) == ('First <function name="bash"> so. Then', "plan")
    assert [c.arguments for c in message.tool_calls] == ['{"cmd": "ls"}']


# -- calls in the syntax of other formats --------------------------------------------------------------------------

PARIS = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
BACKWARDS = '{"parameters": {"cmd": "ls"}, "name": "bash"}'


def blocks_for_objects(dialect: Dialect) -> list[tuple[str, str]]:
    """What is written around JSON objects where the dialect writes calls otherwise."""
    plan = compile_plan(dialect)
    found = [o for o in plan.reading.edge if isinstance(o, CallOpening) and o.form.other]
    blocks = [o.block for o in found if o.block is not None]
    return [(literals_of(b.opening), literals_of(b.closing)) for b in blocks if "[" not in literals_of(b.opening)[-1:]]


OBJECTS = [d for d in CALLING if blocks_for_objects(d)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(**named(OBJECTS))
def test_in_a_block_of_calls_an_object_that_names_a_declared_tool_is_a_call(dialect: Dialect) -> None:
    def texts(raw: str) -> tuple[str, str]:
        """The content, without the end of the turn if that closes the block, too."""
        return raw, raw.removesuffix(end) if end in dialect.end else raw

    for begin, end in blocks_for_objects(dialect):
        for inside in (f"{PARIS}\n{BACKWARDS}", f"[{PARIS}, {BACKWARDS}]"):
            raw = f"{begin}\n{inside}\n{end}"
            message = read(raw, dialect)
            calls = [(c.name, c.arguments, c.status) for c in message.tool_calls]
            assert calls == [("get_weather", '{"city": "Paris"}', "ok"), ("bash", '{"cmd": "ls"}', "ok")], raw
            assert (message.content, notices(message)) == ("", ["other_syntax"] * 2), raw
            for way in WAYS[1:]:
                assert read(raw, dialect, **way).content in texts(raw), raw
        for other in ('{"name": "unheard_of", "arguments": {}}', '{"name": "bash"}', '{"city": "Paris"}'):
            raw = f"{begin}{other}{end}"
            message = read(raw, dialect)
            assert message.content in texts(raw)
            assert message.tool_calls == []
        (bad,) = read(f'{begin}{{"name": "bash", "arguments": {{"cmd": ls}}}}{end}', dialect).tool_calls
        assert (bad.arguments, bad.status) == ('{"cmd": ls}', "invalid")


def test_an_object_in_an_argument_is_data() -> None:
    for inside in (PARIS, f"[{PARIS}, {BACKWARDS}]", f"<tool_call>{PARIS}</tool_call>"):
        raw = f"<tool_call><function=bash><parameter=cmd>{inside}</parameter></function></tool_call>"
        assert values(read(raw, "qwen3-coder")) == [("bash", {"cmd": inside})]


def test_an_object_whose_name_comes_late_is_held_up_to_the_cap() -> None:
    for size in (1, 900, 100_000):
        raw = f'<tool_call>{{"arguments": {{"cmd": "{"ls " * 22_000}"}}, "name": "bash"}}</tool_call>'
        message, _ = run("qwen3-coder", pieces(raw, size), tools=TOOLS)
        assert (message.content, message.tool_calls) == (raw, [])
        assert "hold_overflow" in notices(message)


MARKUP = [d for d in PROSE if d.argument and d.calls[0].opening]


@pytest.mark.parametrize(**named(MARKUP))
def test_bare_text_in_a_closed_call_is_the_only_required_string(dialect: Dialect) -> None:
    tools = [WEATHER, tool("patch", input="string", note="string"), tool("now")]
    tools[1]["function"]["parameters"]["required"] = ["input"]
    patch = '*** Begin "Patch"\n+ls {a} <b>\n*** End Patch'
    stray = fill(dialect.argument[0].closing, key="input").strip()
    for head, tail, block in spelled_openings(dialect, "patch"):
        end = dialect.calls[0].closing
        for written in (patch, f"\n{patch}\n", f"{patch}\n{stray}\n", f"\n<input>\n{patch}\n</input>\n"):
            message = read(f"{block}{head}{written}{tail}{end}", dialect, tools=tools)
            assert values(message) == [("patch", {"input": patch})]
            assert notices(message) == ["other_syntax"]
        for way in ({"tools": None}, {"tools": [tool("patch", a="string", b="string")]}):
            (call,) = read(f"{block}{head}{patch}{tail}{end}", dialect, **way).tool_calls
            assert (call.arguments.strip(), call.status) == (patch, "invalid")
        unclosed = f"{block}{head}{patch}"
        assert read(unclosed, dialect, tools=tools).content == unclosed
        begun = head.partition("patch")[0]
        another = read(f"{block}{head}\n{begun} x{tail}{end}", dialect, tools=tools)
        assert begun not in "".join(c.arguments_dict().get("input", "") for c in another.tool_calls if c.status == "ok")


@pytest.mark.parametrize("dialect", ["minimax-m2", "seed-oss", "deepseekv32"])
def test_the_only_required_string_may_be_in_a_tag_without_its_name(dialect: str) -> None:
    d = get_dialect(dialect)
    tag = d.argument[0].closing.strip()
    raw = write_calls(d, [("now", {"city": "Dallas"})])
    begin, end = raw.index(tag.replace("</", "<").rstrip(">")), raw.index(tag) + len(tag)
    raw = f"{raw[:begin]}{tag.replace('</', '<')}\nDallas\n{tag}{raw[end:]}"
    tools = [tool("now", city="string")]
    tools[0]["function"]["parameters"]["required"] = ["city"]
    message = alike(d, raw, many_cuts(raw), tools=tools)
    assert values(message) == [("now", {"city": "Dallas"})]


# -- answers that end in open reasoning ----------------------------------------------------------------------------


def closings_of_answers(dialect: Dialect) -> list[str]:
    """The closings of frames of content that close nothing else."""
    others = {*dialect.end, *(t.closing.strip() for t in dialect.reasoning)}
    found = [t.closing.strip() for t in (*dialect.content, *dialect.preamble)]
    return [c for c in dict.fromkeys(found) if c[:1] == "<" and c not in others]


ANSWERED = [d for d in THINKING if closings_of_answers(d)]


@pytest.mark.parametrize(**named(ANSWERED))
def test_the_closing_of_an_answer_ends_open_reasoning_and_is_never_text(dialect: Dialect) -> None:
    assert len(ANSWERED) >= 4
    content = Policy(unclosed_reasoning="content")
    for closing in closings_of_answers(dialect):
        for after in ("", "more", dialect.end[0]):
            raw = f"The answer is 4.{closing}{after}"
            rest = after if after == "more" else ""
            for way in WAYS:
                message = read(raw, dialect, stage="reasoning", **way)
                assert (message.reasoning, message.content) == ("The answer is 4.", rest), raw
                message = read(raw, dialect, stage="reasoning", policy=content, **way)
                assert (message.reasoning, message.content) == ("", "The answer is 4." + rest), raw
                assert notices(message) == ["answer_closed_in_reasoning"]
        with pytest.raises(DialectError, match="reasoning"):
            render({"role": "assistant", "reasoning": f"a{closing}b", "content": "c"}, dialect)


# -- names with the id around them ---------------------------------------------------------------------------------

HEADER = "<|tool_calls_section_begin|><|tool_call_begin|>{}<|tool_call_argument_begin|>{}<|tool_call_end|>{}"
END = "<|tool_calls_section_end|>"


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("functionsexec5", "exec"),
        ("functions.exec5", "exec"),
        ("functions_exec:5", "exec"),
        ("functions:exec_5", "exec"),
        ("functionsexec55", "exec5"),
        ("functions.exec_run2", "exec_run"),
    ],
)
def test_a_declared_name_with_the_id_written_wrongly_around_it_is_that_name(header: str, name: str) -> None:
    declared = [tool(n, cmd="string") for n in ("exec", "exec5" if name == "exec5" else "execute", "exec_run")]
    raw = HEADER.format(header, '{"cmd": "ls"}', END)
    message = read(raw, "kimi_k2", tools=declared)
    assert [(c.name, c.id, c.known, c.status) for c in message.tool_calls] == [(name, header, True, "ok")]
    assert notices(message) == ["mended_name"]
    (call,) = read(raw, "kimi_k2", tools=None).tool_calls
    assert call.name in header
    assert call.name != name


@pytest.mark.parametrize("name", ["google:mcp:list-files", "list-files:list-files", "mcp.files:list-files"])
@pytest.mark.parametrize("dialect", ["gemma4", "functiongemma"])
def test_where_a_colon_is_before_a_name_so_is_a_namespace(dialect: str, name: str) -> None:
    raw = write_call(presumed(dialect), 0, "NAME", "{n:1}").replace("NAME", name)
    declared = [tool("list-files", n="integer"), tool("files", n="integer")]
    message = read(raw, dialect, tools=declared)
    assert [(c.name, c.known, c.status) for c in message.tool_calls] == [("list-files", True, "ok")]
    assert notices(message) == ["mended_name"]
    for tools in (None, [tool("files")], [*declared, tool(name, n="integer")]):
        assert [c.name for c in read(raw, dialect, tools=tools).tool_calls] == [name]


@pytest.mark.parametrize("header", ["functionexec", "functionsexecx", "myexec", "exec_", "functions.run5"])
def test_any_other_name_stays_as_written(header: str) -> None:
    (call,) = read(HEADER.format(header, "{}", END), "kimi_k2", tools=[tool("exec"), tool("other")]).tool_calls
    assert (call.name, call.known) == (header.removeprefix("functions."), False)


def test_an_exact_name_is_never_mended_and_prefixes_are_those_of_the_dialect() -> None:
    declared = [tool("exec", cmd="string"), tool("exec5", cmd="string")]
    raw = HEADER.format("functions.exec5:0", '{"cmd": "ls"}', END)
    assert [(c.name, c.id) for c in read(raw, "kimi_k2", tools=declared).tool_calls] == [("exec5", "functions.exec5:0")]
    raw = '<|channel|>commentary to=functions_exec <|constrain|>json<|message|>{"cmd": "ls"}<|call|>'
    message = read(raw, "harmony", tools=declared)
    assert ([c.name for c in message.tool_calls], notices(message)) == (["exec"], ["mended_name"])


def test_a_word_of_the_header_that_is_glued_to_a_declared_name_is_no_part_of_it() -> None:
    for name, mended in (("execjson", ["mended_name"]), ("json", [])):  # a tool may have the word's name
        raw = f'<|channel|>commentary to=functions.{name}<|message|>{{"cmd": "ls"}}<|call|>'
        message = read(raw, "harmony", tools=[tool("exec", cmd="string"), tool("json", cmd="string")])
        called = "exec" if mended else name
        assert ([c.name for c in message.tool_calls], notices(message)) == ([called], mended)


@pytest.mark.parametrize(**named([d for d in CALLING if d.framed]))
def test_messages_to_tools_are_content_while_calls_are_not_read(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("get_weather", {"city": "Paris"})] * 2)
    for way in WAYS[2:]:
        message = read(raw, dialect, **way)
        assert (message.reasoning, message.content.count("Paris"), message.tool_calls) == ("", 2, []), raw


# -- tools that are quoted -----------------------------------------------------------------------------------------


def quoted_tools() -> list[str]:
    """Texts with the definitions of declared tools, as a model writes them that is asked for its tools."""
    told: dict[str, Any] = {**WEATHER["function"], "description": "the weather"}
    full = {"type": "function", "function": dict(sorted(told.items()))}
    input_schema = {"name": "bash", "description": "runs", "input_schema": BASH["function"]["parameters"]}
    turned = {"name": "bash", "parameters": dict(reversed(BASH["function"]["parameters"].items()))}
    short = {"name": "bash", "description": "runs", "parameters": {"cmd": {"type": "string"}}}
    each = [full, WEATHER, WEATHER["function"], told, input_schema, turned, short]
    texts = [
        *map(json.dumps, each),
        *(json.dumps(one, indent=indent) for one in each for indent in (4, 40)),
        repr(told),
        repr(WEATHER["function"]),
    ]
    lists = [json.dumps([full, BASH]), json.dumps([WEATHER, full], indent=2)]
    return [*texts, *lists, f"Tools:\n{texts[0]}\n{texts[1]}", *(f"```json\n{one}\n```" for one in (*lists, texts[0]))]


@pytest.mark.parametrize(**named(CALLING))
def test_a_tool_s_definition_that_is_quoted_is_no_call_of_it(dialect: Dialect) -> None:
    for text in quoted_tools():
        for message in (read(text, dialect, stage="content", **way) for way in WAYS[:2]):
            assert not message.tool_calls, text
            assert message.reasoning + message.content == text


@pytest.mark.parametrize("name", ["json", "llama3", "openai-generic"])
def test_arguments_that_a_tool_declares_or_may_have_are_no_definition(name: str) -> None:
    declaring, free = tool("make", type="string"), tool("free")
    free["function"]["parameters"] = {"type": "object"}
    for called, declared in (("make", declaring), ("free", free)):
        message = read(f'{{"name": "{called}", "parameters": {{"type": "object"}}}}', name, tools=[declared])
        assert values(message) == [(called, {"type": "object"})]


@pytest.mark.parametrize(
    ("name", "frame"), [("hermes", "<tool_call>\n{}\n</tool_call>"), ("json", "{}"), ("llama3", "{}")]
)
def test_a_call_may_describe_itself(name: str, frame: str) -> None:
    raw = frame.replace("{}", '{"name": "bash", "description": "list", "arguments": {"cmd": "ls"}}')
    assert values(read(raw, name)) == [("bash", {"cmd": "ls"})]


@pytest.mark.parametrize("name", ["json", "llama3"])
@pytest.mark.parametrize(
    "behind",
    ['"arguments": {"cmd": {"x": 1}}', '"arguments": {"parameters": {"cmd": "ls"}}', '"cmd": "ls"'],
    ids=["object", "wrapped", "loose"],
)
def test_a_bare_call_may_describe_itself_whatever_its_arguments_are(name: str, behind: str) -> None:
    bare = f'{{"name": "bash", "description": "list", {behind}}}'
    assert [call.name for call in read(bare, name).tool_calls] == ["bash"]


@pytest.mark.parametrize("name", ["json", "llama3", "openai-generic"])
@pytest.mark.parametrize("end", ["", ",", ', "par'])
def test_a_bare_call_that_the_limit_cuts_behind_its_name_is_incomplete(name: str, end: str) -> None:
    message = read('{"name": "bash"' + end, name)
    assert [(call.name, call.arguments, call.status) for call in message.tool_calls] == [("bash", "", "incomplete")]


@pytest.mark.parametrize("nothing", ["null", "None"])
def test_a_python_dict_may_have_none_as_arguments(nothing: str) -> None:
    raw = f"{{'name': 'now', 'arguments': {nothing}}}"
    assert values(read(raw, "openai-generic", tools=[tool("now")])) == [("now", {})]


@pytest.mark.parametrize("name", ["json", "llama3", "openai-generic", "xlam"])
def test_a_bare_object_that_names_no_tool_is_not_held(name: str) -> None:
    parser = Parser(name, tools=TOOLS)
    for c in "[" * (name == "xlam") + '{"name": "Ada", "bio": "' + "x" * 1000:
        parser.feed(c)
    assert len(parser.message.content) > 1000


def test_kimi_s_section_marker_is_read_in_the_singular() -> None:
    raw = HEADER.format("functions.bash:0", '{"cmd": "ls"}', END)
    assert said(read(raw.replace("calls_section", "call_section"), "kimi_k2")) == said(read(raw, "kimi_k2"))


# -- quotes of other formats, and calls without their first tag ------------------------------------------------------


def openings_of_calls(dialect: Dialect) -> list[CallOpening]:
    """The openings of calls at a boundary."""
    return [o for o in compile_plan(dialect).reading.edge if isinstance(o, CallOpening)]


UNTAGGED = [d for d in CALLING if any(not o.marked and o.pattern.first[:1].isalpha() for o in openings_of_calls(d))]


@pytest.mark.parametrize(**named(QUOTED))
def test_where_a_key_or_value_begins_an_ordinary_quote_opens_a_string(dialect: Dialect) -> None:
    q = dialect.codec.quote
    for written, wanted in (
        ('{data_refs:["ds_1"],opts:{"mode": "fast"}}', {"data_refs": ["ds_1"], "opts": {"mode": "fast"}}),
        ("{'a':'x',\"b\" : 'say \"hi\"',c:[\"\",'']}", {"a": "x", "b": 'say "hi"', "c": ["", ""]}),
        (f'{{"a":{q}x"y\'z{q},b:"<x>}}, \\"\\n\\u00e9\\/"}}', {"a": "x\"y'z", "b": '<x>}, "\n\u00e9/'}),
        (f"{{a='1:2',b = \"y\",c=[{q}z{q}],opts={{n=3}}}}", {"a": "1:2", "b": "y", "c": ["z"], "opts": {"n": 3}}),
        (f"(a:{q}x)y{q}, b='z')", {"a": "x)y", "b": "z"}),
        ("()", {}),
    ):
        raw = write_call(dialect, 0, "run", written)
        for tools in (None, [tool("run", data_refs="array", opts="object", a="string", b="string", c="array")]):
            message = read(raw, dialect, tools=tools)
            assert [(c.name, json.loads(c.arguments), c.status) for c in message.tool_calls] == [("run", wanted, "ok")]
    for value in ({"a": "'x'", "b": '"'}, {"'k": 1, '"': {"\"'": "x"}}, {"a='": 1, "b=true": {"c=": "x"}}):
        text = render(calling(function_call("run", value)), dialect)
        assert values(parse(text, dialect)) == [("run", value)]


@pytest.mark.parametrize(**named(UNTAGGED))
def test_where_content_begins_a_declared_call_may_lack_its_first_tag(dialect: Dialect) -> None:
    whole = write_call(dialect, 0, "bash", {"cmd": "ls"})
    raw = whole[whole.index(">") + 1 :]
    thought = write_reasoning(dialect, "plan") if dialect.reasoning else ""
    for before in ("", thought):
        message = read(before + raw, dialect)
        assert (values(message), message.content) == ([("bash", {"cmd": "ls"})], "")
        for way in ({"tools": None}, {"tools": [WEATHER]}, {"tool_choice": "none"}):
            assert read(raw, dialect, **way).tool_calls == []
    for prose in (f"Sure: {raw}", f"Sure.\n{raw}", raw.partition("bash")[0] + "bash is a shell"):
        assert read(prose, dialect).tool_calls == []
    with pytest.raises(DialectError, match="content"):
        render({"role": "assistant", "content": raw.rpartition("}")[0] + "}"}, dialect, tools=TOOLS)


# -- ends, and blocks of other versions ----------------------------------------------------------------------------


@pytest.mark.parametrize(**named(DIALECTS))
def test_several_ends_in_a_row_are_ends(dialect: Dialect) -> None:
    content = write_content(dialect, "Hello.")
    for first in dialect.end:
        for second in dialect.end:
            for between in ("", "\n"):
                message = read(content + first + between + second, dialect, tools=None)
                assert (message.content.strip(), message.tool_calls) == ("Hello.", []), (first, second)


@pytest.mark.parametrize("name", ["deepseekv32", "deepseekv4", "deepseekv41"])
def test_a_family_s_versions_know_each_other_s_block_markers(name: str) -> None:
    dialect = presumed(name)
    call = write_call(dialect, 0, "bash", {"cmd": "ls"})
    own = dialect.calls[0].text
    for block in ("function_calls", "tool_calls"):
        raw = f"Sure.\n\n<｜DSML｜{block}>\n{call.strip()}\n</｜DSML｜{block}>"
        for tools in (TOOLS, None):
            assert said(read(raw, name, tools=tools)) == said(read("Sure." + fill(own, calls=call), name, tools=tools))
        assert notices(read(raw, name)) == []


@pytest.mark.parametrize(
    "raw",
    [
        '<minimax:tool_call>\n<invoke name="bash">\n<parameter name="cmd">ls</parameter></invoke></minimax:tool_call>',
        '<tool_calls>\n<invoke name="bash">\n<parameter name="cmd">ls</parameter></invoke></tool_calls>',
        '@<tool_call>\n@<invoke name="bash">@<parameter name="cmd">ls@</parameter>@</invoke>\n@</tool_call>',
    ],
)
@pytest.mark.parametrize("name", ["minimax-m2", "minimax-m3"])
def test_minimax_s_versions_read_each_other_s_calls(name: str, raw: str) -> None:
    if raw.startswith({"minimax-m2": "@", "minimax-m3": "<tool_calls>"}[name]):
        return  # M2 does not know M3's token, and M3 not M1's block
    message = read("Sure.\n" + raw.replace("@", "]<]minimax[>["), name)
    assert (values(message), message.content.strip()) == ([("bash", {"cmd": "ls"})], "Sure.")


@pytest.mark.parametrize("name", ["deepseekv32", "deepseekv4", "deepseekv41"])
def test_a_call_in_dsml_may_end_with_a_bare_tag(name: str) -> None:
    dialect = presumed(name)
    for argument, wanted in (("ls", "ls"), ("<a></invoke></a>", "<a></invoke></a>")):
        call = write_call(dialect, 0, "bash", {"cmd": argument}).strip()
        own = call[call.rindex("</") :]
        for calls in (call.replace(own, "</invoke>"), f"{call}\n{call.replace(own, '</invoke>')}"):
            message = read(fill(dialect.calls[0].text, calls=calls), dialect)
            assert values(message) == [("bash", {"cmd": wanted})] * calls.count("bash")
            assert message.content == ""


def tags_with_a_name(dialect: Dialect) -> list[Template]:
    """The calls whose tag ends with their name."""
    return [t for t in dialect.call if re.search(r"""<[^<>]+\{name\}["']?>\s*\{arguments""", t.text)]


@pytest.mark.parametrize(**named(d for d in CALLING if tags_with_a_name(d)))
@pytest.mark.parametrize("end", ["/>", " />"])
def test_a_tag_with_a_name_may_close_itself(dialect: Dialect, end: str) -> None:
    for call in tags_with_a_name(dialect):
        opening = fill(call.opening, name="now", any="x").strip().removesuffix(">")
        closed = opening + end + fill(call.closing).partition("</")[2].partition(">")[2]
        block = next((b for b in dialect.calls if b.spelled == call.spelled), dialect.calls[0])
        calls = [closed, write_call(dialect, 1, "bash", {"cmd": "ls"})]
        if "{call}" in block.text:
            raw = "".join(fill(block.text, call=c) for c in calls)
        else:
            raw = fill(block.text, calls=dialect.separator.calls.join(calls))
        for tools in ([*TOOLS, tool("now")], None):
            message = read(raw, dialect, tools=tools)
            assert (values(message), message.content) == ([("now", {}), ("bash", {"cmd": "ls"})], ""), raw
            assert "/>" not in render(message, dialect)


@pytest.mark.parametrize("name", ["deepseekv32", "deepseekv4", "deepseekv41"])
def test_an_argument_in_dsml_may_end_with_other_bars_than_it_began(name: str) -> None:
    dialect = get_dialect(name)
    raw = write_calls(dialect, [("bash", {"cmd": "ls"})])
    written = fill(dialect.argument[0].closing).strip()
    token = written.removeprefix("</").removesuffix("parameter>")
    for other in ("｜｜DSML｜｜", "|DSML|", token):
        mixed = raw.replace(written, f"</{other}parameter>")
        for text in (mixed, mixed.replace(f"<{token}", "<"), mixed.replace(f"<{token}", "<|DSML|")):
            assert (values(read(text, dialect)), read(text, dialect).content) == ([("bash", {"cmd": "ls"})], ""), text
    inside = raw.replace("ls", "a</｜｜DSML｜｜parameter> b</parameter>\n")
    assert values(read(inside, dialect)) == [("bash", {"cmd": "a</｜｜DSML｜｜parameter> b</parameter>\n"})]


def test_gemma_s_end_of_text_after_the_end_of_a_turn_is_not_shown() -> None:
    for raw in ("Hello<turn|><eos>", "Hello<turn|>\n<eos>", "Hello<eos>"):
        assert read(raw, "gemma4").content == "Hello"


# -- other spellings, headers without their end, tags that are missing or too many -----------------------------------

SPELLED = [d for d in CALLING if d.spellings and not d.framed]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(**named(SPELLED))
def test_other_spellings_of_a_literal_are_read_and_never_written(dialect: Dialect) -> None:
    plain = "Sure." + write_calls(dialect, [("get_weather", {"city": "Paris"})] * 2)
    for literal, others in dialect.spellings:
        own = fill(literal, name="get_weather", key="city", calls="{calls}").split("{calls}")
        for other in others:
            new = fill(other, name="get_weather", key="city", calls="{calls}").split("{calls}")
            raw = plain.replace(own[0], new[0], -1 if len(own) == 1 else 1)
            for behind, instead in zip(own[1:], new[1:], strict=True):
                raw = instead.join(raw.rsplit(behind, 1))
            assert raw != plain
            for tools in (TOOLS, None):
                assert said(read(raw, dialect, tools=tools)) == said(read(plain, dialect, tools=tools)), raw
            assert read(raw, dialect, tool_choice="none").content == raw
            again, wanted = (render(read(text, dialect), dialect, tools=TOOLS) for text in (raw, plain))
            assert again == wanted


BACK = "<|end|><|start|>assistant<|channel|>final<|message|>ok<|return|>"


@pytest.mark.parametrize(
    ("raw", "reasoning", "content"),
    [
        ("<|channel|>finalIt is 4.<|return|>", "", "It is 4."),
        ("<|channel|>finalIt is 4.", "", "It is 4."),
        ("<|channel|>analysisI think." + BACK, "I think.", "ok"),
        ("<|channel|>commentary<|channel|>analysis<|message|>plan" + BACK, "plan", "ok"),
        ("<|channel|>analysis<|message|>plan" + BACK.replace("<|start|>", "<|start|><|start|>"), "plan", "ok"),
        ("<|channel|>commentary to=functions.get_w", "", ""),
        ("<|channel|>final<|channel|>It is 4.<|return|>", "", "It is 4."),
        ("<|channel|>final<|channel|>final<|message|>ok<|return|>", "", "ok"),
        ("<|channel|>analysis<|channel|>final<|message|>ok<|return|>", "", "ok"),
        ("<|channel|>??" + BACK, "", "??ok"),
        ("<|channel|>Well,<|end|><|start|>assistant<|channel|>analysis<|message|>plan" + BACK, "plan", "Well,ok"),
    ],
)
def test_a_header_may_lack_its_end_or_have_its_beginning_twice(raw: str, reasoning: str, content: str) -> None:
    for tools in (TOOLS, None):
        message = read(raw, "harmony", tools=tools)
        assert (message.reasoning, message.content, message.tool_calls) == (reasoning, content, [])
    header = '<|channel|>commentary to=functions.bash <|constrain|>json{"cmd": "ls"}<|call|>'
    assert values(read(header, "harmony")) == [("bash", {"cmd": "ls"})]


@pytest.mark.parametrize(**named(QUOTED))
@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("{a:in Paris, France@,n:5}", {"a": "in Paris, France", "n": 5}),
        ("{a:Paris, n:5}", {"a": "Paris", "n": 5}),
        ("{c:[a b , c],o:{b:x y }}", {"c": ["a b", "c"], "o": {"b": "x y"}}),
        ("{a:null-island@,b:/usr/bin <x> [1] $}", {"a": "null-island", "b": "/usr/bin <x> [1] $"}),
        ("{a:@look@n:90 b:true}", {"a": "look", "n": 90, "b": True}),
        ("{a:2026-06-01,t:10:30,v:1.2.3@,n:-5}", {"a": "2026-06-01", "t": "10:30", "v": "1.2.3", "n": -5}),
        ("{a:02139,b:007 ,c:-,d:1.,e:-0.5e3}", {"a": "02139", "b": "007", "c": "-", "d": "1.", "e": -500.0}),
        ("{a:5 apples,b:[1,2 3]}", {"a": "5 apples", "b": [1, "2 3"]}),
        ("{a:true story,b:True,c:None,l:[False , 1]}", {"a": "true story", "b": True, "c": None, "l": [False, 1]}),
        ("{a:f({x: 1, y: 2}) {z} ,b:g { h}", {"a": "f({x: 1, y: 2}) {z}", "b": "g { h"}),
        ("{l:[a[0, 1],b{c]}", {"l": ["a[0, 1]", "b{c"]}),
        ("{a:if (x) { y, b: @z@,n:5}", {"a": "if (x) { y", "b": "z", "n": 5}),
        (f"{{a:{'word' * 20},n:5}}", {"a": "word" * 20, "n": 5}),
    ],
)
def test_a_string_may_lack_its_opening_quote_and_a_comma_may_lack(
    dialect: Dialect, written: str, wanted: dict[str, Any]
) -> None:
    raw = write_call(dialect, 0, "run", written.replace("@", dialect.codec.quote))
    for tools in (None, [tool("run", a="string")]):
        assert values(read(raw + raw, dialect, tools=tools)) == [("run", wanted)] * 2
    cut = write_call(dialect, 0, "run", "{a:Paris").rstrip("}") + write_call(dialect, 1, "run", "{}")
    assert [c.status for c in read(cut, dialect, tools=None).tool_calls] == ["invalid", "ok"]


@pytest.mark.parametrize(**named(QUOTED))
@pytest.mark.parametrize("written", ["{a:'x y'@}", "{a:@x y@@ , n:1}", '{l:["x y"@],o:{a:@x y@@}}'])
def test_a_string_may_be_closed_twice(dialect: Dialect, written: str) -> None:
    raw = write_call(dialect, 0, "run", written.replace("@", dialect.codec.quote))
    plain = write_call(dialect, 0, "run", re.sub("'|\"|@+", "@", written).replace("@", dialect.codec.quote))
    message = read(raw, dialect, tools=None)
    assert values(message) == values(read(plain, dialect, tools=None))
    assert [c.status for c in message.tool_calls] == ["ok"]
    assert "doubled_marker" in notices(message)
    assert "x y" in message.tool_calls[0].arguments


SHAPED = [d for d in CALLING if (s := d.call[0].object) is not None and s.quote == '"' and not s.name_is_key]


@pytest.mark.parametrize(**named(SHAPED))
def test_a_name_may_stand_under_another_key_or_in_an_object_of_its_own(dialect: Dialect) -> None:
    raw = write_calls(dialect, [("bash", {"cmd": "ls"})])
    shape = dialect.call[0].object
    assert shape is not None
    own = next(key for key, role in shape.keys if role == "name")
    begin, end = raw.index("{"), raw.rindex("}") + 1
    wrapped = f'{raw[:begin]}{{"type": "function", "function": {raw[begin:end]}}}{raw[end:]}'
    for other in (wrapped, *(raw.replace(f'"{own}"', f'"{key}"') for key in ("function", "tool", "tool_name", "name"))):
        assert values(read(other, dialect)) == [("bash", {"cmd": "ls"})], other
        for way in WAYS[2:]:
            assert read(other, dialect, **way).tool_calls == []
    if raw.count("bash") == 1:
        assert read(raw.replace(f'"{own}"', '"tool"').replace("bash", "unheard_of"), dialect).tool_calls == []


LOOSE = [d for d in CALLING if any(p.loose and p.head for p in compile_plan(d).arguments.parameters)]


@pytest.mark.parametrize(**named(LOOSE))
@pytest.mark.parametrize("between", ["", " ", "\n"])
def test_the_first_key_may_lack_its_first_tag(dialect: Dialect, between: str) -> None:
    tag = dialect.argument[0].opening.partition("{key}")[0].strip()
    whole = write_calls(dialect, [("get_weather", {"city": "Paris"})])
    raw = whole.replace(tag, between, 1)
    if not between:
        raw = raw.replace("get_weather\ncity", "get_weathercity")
    message = read(raw, dialect)
    assert (values(message), message.content) == ([("get_weather", {"city": "Paris"})], ""), raw
    assert "missing_open" in notices(message)
    for way in WAYS[2:]:
        assert read(raw, dialect, **way).tool_calls == []


@pytest.mark.parametrize("dialect", ["glm45", "glm47"])
@pytest.mark.parametrize("between", ["", "\n"])
def test_a_call_s_tag_may_stand_in_place_of_the_first_key_s(dialect: str, between: str) -> None:
    call = "<tool_call>bash{0}<tool_call>cmd</arg_key>{0}<arg_value>ls <tool_call></arg_value>{0}</tool_call>"
    for tools in (TOOLS, None):
        message = read(call.format(between) * 2, dialect, tools=tools)
        assert (values(message), message.content) == ([("bash", {"cmd": "ls <tool_call>"})] * 2, "")
    message = read("<tool_call>now<tool_call>bash<arg_key>cmd</arg_key><arg_value>ls</arg_value></tool_call>", dialect)
    assert [(c.name, c.status) for c in message.tool_calls] == [("now", "incomplete"), ("bash", "ok")]


def test_a_name_may_lack_the_token_behind_it() -> None:
    tools = [*TOOLS, tool("now")]
    for end in ("</tool_call:opensource>", "</arg_value:opensource>", "</arg_value></tool_call></tool_calls>"):
        message = read(f"<tool_calls:opensource>\n<tool_call:opensource>now{end}", "hunyuan", tools=tools)
        assert (values(message), message.content) == ([("now", {})], ""), end


TAGGED = [d for d in PROSE if d.argument and compile_plan(d).arguments.stray_closings]


@pytest.mark.parametrize(**named(TAGGED))
def test_closings_that_close_nothing_in_a_call_are_dropped(dialect: Dialect) -> None:
    tools = [*TOOLS, tool("now")]
    stray = compile_plan(dialect).arguments.stray_closings[0].first
    argument = write_arguments(dialect, {"city": "Paris"})
    for head, tail, block in spelled_openings(dialect, "get_weather"):
        end = dialect.calls[0].closing
        message = read(f"{block}{head}{stray}{argument}{tail}{end}", dialect, tools=tools)
        assert (values(message), message.content) == ([("get_weather", {"city": "Paris"})], "")
        message = read(f"{block}{head}{stray}{tail}{end}".replace("get_weather", "now"), dialect, tools=tools)
        assert (values(message), notices(message)) == ([("now", {})], ["stray_close"])
        if end.strip():
            for closing in ("</invocation>", stray):
                message = read(f"{block}{head}{argument}{tail}\n{closing}{end}", dialect, tools=tools)
                assert (values(message), message.content) == ([("get_weather", {"city": "Paris"})], "")


CLOSED = [d for d in TAGGED if any(tags(p.closing) for p in compile_plan(d).arguments.parameters)]


@pytest.mark.parametrize(**named(CLOSED))
def test_a_closing_of_an_argument_goes_with_the_closing_behind_it_that_closes_nothing(dialect: Dialect) -> None:
    plan = compile_plan(dialect)
    inner = next(literals_of(tag) for p in plan.arguments.parameters for tag in tags(p.closing))
    for tail in {literals_of(tag) for form in plan.calls.forms for tag in tags(form.closing)}:
        for raw in (f"Done.{inner}{tail}", f"Done.\n{inner}\n{tail}", f"Done.\n{inner}\n{inner}{inner}\n{tail}"):
            assert read(raw, dialect).content.rstrip() == "Done.", raw
            for way in WAYS[2:]:
                assert read(raw, dialect, **way).content == raw
        for raw in (f"Tag {inner} ok", f"Tag {inner}", f"{inner} and {tail}", f"`{inner}` {tail}", f"`{inner}{tail}`"):
            assert inner in read(raw, dialect).content, raw


@pytest.mark.parametrize(
    ("written", "wanted", "kinds"),
    [
        ("@Paris@</city>@<n>3@</n>", {"city": "Paris", "n": 3}, ["missing_open"]),
        ("@<n>3@</n>@Paris@</city>", {"n": 3, "city": "Paris"}, ["missing_open"]),
        ("@<list>@<item>@<a>1@</a>@<b>@</item>@</list>", {"list": [{"a": 1, "b": []}]}, ["missing_close"]),
        ("@<o>@<a>@<b>x@</o>", {"o": {"a": {"b": "x"}}}, ["missing_close"] * 2),
    ],
)
def test_elements_of_minimax_may_lack_their_first_tag_or_their_closings(
    written: str, wanted: dict[str, Any], kinds: list[str]
) -> None:
    row = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}}},
    }
    inner = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}}
    declared = [tool("f", city="string", n="integer", list={"type": "array", "items": row}, o=inner)]
    raw = f'@<tool_call>\n@<invoke name="f">{written}@</invoke>\n@</tool_call>'.replace("@", "]<]minimax[>[")
    message = read(raw, "minimax-m3", tools=declared)
    assert (values(message), notices(message)) == ([("f", wanted)], kinds)


@pytest.mark.parametrize("dialect", ["kimi_k2", "deepseekv3", "deepseekv31"])
def test_in_a_thought_a_call_behind_its_own_token_needs_no_block(dialect: str) -> None:
    raw = "plan" + write_call(presumed(dialect), 0, "bash", {"cmd": "ls"})
    message = read(raw, dialect, stage="reasoning")
    assert (message.reasoning, values(message)) == ("plan", [("bash", {"cmd": "ls"})])
    assert read(raw.replace('"ls"', "ls"), dialect, stage="reasoning", tools=None).tool_calls == []


@pytest.mark.parametrize(**named(d for d in DIALECTS if not d.framed))
def test_a_word_with_which_no_tools_name_begins_is_not_held(dialect: Dialect) -> None:
    parser = Parser(dialect, tools=TOOLS, stage="content")
    assert [getattr(e, "text", "") for e in parser.feed("世")] == ["世"]


CLOSED = [d for d in CALLING if not d.argument and d.name != "command-r-plus"]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(**named(CLOSED))
@pytest.mark.parametrize("extra", ["}", "}}", "]"])
def test_brackets_that_are_too_many_between_and_behind_calls_are_no_text(dialect: Dialect, extra: str) -> None:
    written = write_calls(dialect, [("bash", {"cmd": "ls"})] * 2)
    bracket = ")" if dialect.codec.name == "python" else "}"
    places = [m.end() for m in re.finditer(rf"[{bracket}]+", written)]
    for place in places if extra != "]" else places[-1:]:
        message = read(written[:place] + extra + written[place:], dialect)
        assert (values(message), message.content) == ([("bash", {"cmd": "ls"})] * 2, ""), written[:place]
    end = written.rstrip()
    if end.endswith(("}", "]")):
        message = read(end + "}", dialect)
        assert (len(message.tool_calls), message.content, notices(message)) == (2, "", ["stray_close"])
        assert read(end + "} and more", dialect).content == "} and more"
        for way in WAYS[2:]:
            assert read(end + "}", dialect, **way).content.endswith("}")


FENCELESS = [d for d in CLOSED if d.codec.name != "python" and not any("```" in t.text for t in (*d.call, *d.calls))]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(**named(FENCELESS))
def test_a_fence_behind_a_call_that_none_opened_is_no_text(dialect: Dialect) -> None:
    written = write_calls(dialect, [("bash", {"cmd": "ls"})])
    at = written.rindex("}") + 1
    for fence in ("\n```", "\n```\n", "```"):
        message = read(written[:at] + fence + written[at:], dialect)
        assert (values(message), message.content) == ([("bash", {"cmd": "ls"})], "")
        assert (message.tool_calls[0].status, {*notices(message)} - {"stray_close"}) == ("ok", set())
    for code in ("`x`", "```py\nx\n```\nDone."):
        assert read(f"{written}\n{code}", dialect).content.strip() == code
    if is_marked(dialect):
        assert read(f"Look:\n```\n{written}\n```", dialect).content.count("```") == 2
        assert read(f"{written[:at]}\n```py\nx\n```{written[at:]}", dialect).content.count("```") == 2
        fenced = f"Look:\n```json\n{written}\n```\n"
        assert read(fenced * 2, dialect).content.count("```") == 4
        assert read(f"{written}`{written}`", dialect).content.count("`") == 2


BLOCKS = [d for d in CALLING if d.calls[0].closing.strip()[-1:] == ">" and d.policy.stray_markers != "text"]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(**named(d for d in BLOCKS if not d.framed))
def test_brackets_that_are_too_many_between_blocks_of_calls_are_no_text(dialect: Dialect) -> None:
    block = write_calls(dialect, [("bash", {"cmd": "ls"})])
    for extra in ("}", "\n}\n", "]}"):
        message = read(block + extra + block, dialect)
        assert (values(message), message.content) == ([("bash", {"cmd": "ls"})] * 2, "")
        assert notices(message)[:1] == ["stray_close"]
    assert read(f"{block}}} and {block}", dialect).content.strip() == "} and"
    assert read(f"{block}}}{block}", dialect, tools=[]).content.count("}") > 0


@pytest.mark.sampled(8)
@pytest.mark.parametrize(**named(d for d in CALLING if d.policy.stray_markers != "text"))
def test_white_space_before_a_marker_that_closes_nothing_goes_with_it(dialect: Dialect) -> None:
    written = write_calls(dialect, [("bash", {"cmd": "ls"})]).rstrip()
    closing = (dialect.calls[0].closing or fill(dialect.call[0].closing, name="bash")).strip()
    if not re.fullmatch(r"<[^<>]+>", closing) or closing in dialect.end:
        return
    for between in ("\n", "\n\n", " \t\n"):
        message = read(f"{written}{between}{closing}", dialect)
        assert (len(message.tool_calls), message.content) == (1, "")
        message = read(f"{written}{between}{closing}More", dialect)
        assert (len(message.tool_calls), message.content) == (1, "More")


def opened_by_tags(dialect: Dialect) -> dict[str, str]:
    """The openings of thoughts, content and calls that begin with a special token after the turn's ``start``."""
    parts = {"thought": dialect.reasoning[0], "content": dialect.content[0], "call": dialect.call[0]}
    found = {key: unstarted(t.opening, dialect.start).strip() for key, t in parts.items()}
    return {key: text for key, text in found.items() if text.startswith("<|") and text != parts[key].opening.strip()}


TAGGED_FRAMES = [d for d in HEADED if "content" in opened_by_tags(d)]


@pytest.mark.parametrize(**named(TAGGED_FRAMES))
def test_in_a_message_that_was_not_ended_a_special_token_opens_the_next(dialect: Dialect) -> None:
    opened = opened_by_tags(dialect)
    for way in WAYS:
        message = read(f"{opened['thought']}plan{opened['content']}It is 4.", dialect, **way)
        assert (message.reasoning.strip(), message.content.strip()) == ("plan", "It is 4.")
        message = read(f"{opened['content']}It is 4.{opened['thought']}plan", dialect, **way)
        assert (message.reasoning.strip(), message.content.strip()) == ("plan", "It is 4.")
    for first in ("thought", "content"):
        call = write_call(dialect, 0, "bash", {"cmd": "ls"})
        raw = opened[first] + "It is 4." + unstarted(call, dialect.start).strip()
        if "call" in opened:
            message = read(raw, dialect)
            assert values(message) == [("bash", {"cmd": "ls"})]
            assert (message.reasoning + message.content).strip() == "It is 4."
    quoted = f"{opened['content']}Write `{opened['content']}`"
    assert read(quoted, dialect).content.strip() == f"Write `{opened['content']}`"


@pytest.mark.parametrize(**named(VERBATIM))
@pytest.mark.parametrize("fence", ["```json\n{}\n```", "```\n{}```", "```json\n{}"])
def test_json_arguments_may_be_in_a_fence_also_inside_a_string(dialect: Dialect, fence: str) -> None:
    plain = json.dumps({"cmd": "ls"})
    call = write_calls(dialect, [("bash", {"cmd": "ls"}), ("bash", {"cmd": "ls"})])
    fenced = fence.replace("{}", plain)
    for given in (fenced, json.dumps(fenced)):
        if given != fenced or (dialect.call[0].object is None and "```" not in call):
            message = alike(dialect, raw := call.replace(plain, given), many_cuts(raw), tools=TOOLS)
            assert (values(message), message.content.strip()) == ([("bash", {"cmd": "ls"})] * 2, "")
            assert {c.status for c in message.tool_calls} == {"ok"}


@pytest.mark.parametrize(**named(PYTHON))
def test_one_dict_may_stand_in_place_of_python_s_keywords(dialect: Dialect) -> None:
    call = write_calls(dialect, [("bash", {"cmd": "ls"})])
    for given in ('{"cmd": "ls"}', "{'cmd': 'ls'}", "{'cmd': 'ls',}"):
        raw = call.replace('cmd="ls"', given).replace("cmd='ls'", given)
        assert given in raw
        message = read(raw, dialect)
        assert (values(message), message.content.strip()) == ([("bash", {"cmd": "ls"})], "")


@pytest.mark.parametrize(**named([*PYTHON, presumed("gemma4")]))
def test_an_empty_dict_may_stand_in_place_of_all_keywords_and_beside_none(dialect: Dialect) -> None:
    python = dialect in PYTHON
    call = write_calls(dialect, [("bash", {"cmd": "ls"})])
    at = call.index("bash") + len("bash")
    end = call.index(")" if python else "}", at) + 1
    for given, ok in (("", True), (" ", True), (" " * 100, False)):
        raw = f"{call[:at]}({{{given}}}){call[end:]}"
        assert [(c.arguments, c.status) for c in read(raw, dialect).tool_calls] == [("{}", "ok")] or not ok
        beside = raw.replace("})", "}, cmd='ls')" if python else "}, cmd:1)")
        assert statuses(read(beside, dialect)) == [("bash", "invalid")]


def test_parentheses_in_a_later_alternative_take_python_s_keywords() -> None:
    json_call = '{"name": "{name}", "arguments": {arguments}}'
    forms = [json_call, "{name}.call({arguments})"]
    dialect = dialect_of(f"calls = ['<run>{{calls}}', '{{calls}}']\ncall = {forms}")
    for given, expected in (('cmd="ls", n=1', {"cmd": "ls", "n": 1}), ("", {}), ('{"cmd": "ls"}', {"cmd": "ls"})):
        for raw in (f"<run>bash.call({given})", f"bash.call({given})"):
            assert values(read(raw, dialect)) == [("bash", expected)]
    for raw in ('other.call(cmd="ls")', "other.call(this)"):  # code, if nothing marks it
        for way in WAYS:
            assert read(raw, dialect, **way).content == raw


ADDRESSED = [d for d in CALLING if any("to={name}" in t.text or "to=functions.{name}" in t.text for t in d.call)]


@pytest.mark.parametrize(**named(ADDRESSED))
def test_where_a_message_to_a_tool_is_no_call_its_header_is_not_shown(dialect: Dialect) -> None:
    headers = {t.opening.format(name="bash", any="analysis") for t in dialect.call if "to=" in t.opening}
    for header in {h.partition("<|message|>")[0].removeprefix("<|start|>assistant") for h in headers}:
        for begins in (header, "<|start|>assistant" + header):
            raw = f"{write_reasoning(dialect, 'plan')}{begins}<|message|>text<|end|>"
            for way in WAYS[2:]:
                message = read(raw.replace("<|end|>", dialect.end[0]), dialect, **way)
                assert (message.reasoning, message.content.strip()) == ("plan", "text"), raw
                lost = "bash" in header or "to=analysis" in header
                assert any(n.kind == "stray_open" for n in message.notices) == lost, raw
    unread = read(f" to=bash<|message|>text{dialect.end[0]}", dialect)  # a tool takes no text
    assert "to=" not in unread.content
    assert unread.tool_calls or "stray_open" in notices(unread)


def test_a_header_that_ends_with_a_word_opens_no_message_in_one_that_was_not_ended() -> None:
    thought = "<|channel|>analysis<|message|>Then `<|channel|>final` comes.<|end|>"
    message = read(thought + "<|start|>assistant<|channel|>final<|message|>4", "harmony")
    assert (message.reasoning, message.content) == ("Then `<|channel|>final` comes.", "4")


@pytest.mark.parametrize("name", ["hermes", "mistral", "qwen3-coder"])
def test_a_bracket_that_prose_opened_is_text_behind_a_call(name: str) -> None:
    call = write_calls(get_dialect(name), [("bash", {"cmd": "ls"})])
    message = read(f"(I call it: {call})", name)
    assert (values(message), message.content[-1]) == ([("bash", {"cmd": "ls"})], ")")


@pytest.mark.parametrize("written", ['({"cmd": "ls"})', '{"cmd": "ls"}', "(ARGUMENT)", "(ARGUMENT\n)\n", "(ARGUMENT"])
def test_glm_s_arguments_may_be_an_object_or_in_parentheses(written: str) -> None:
    argument = write_arguments(get_dialect("glm47"), {"cmd": "ls"})
    raw = f"<tool_call>bash{written.replace('ARGUMENT', argument)}</tool_call>"
    for tools in (TOOLS, None):
        assert values(read(raw * 2, "glm47", tools=tools)) == [("bash", {"cmd": "ls"})] * 2
    assert values(read("<tool_call>now()</tool_call>", "glm47", tools=[tool("now")])) == [("now", {})]
    inside = "<tool_call>bash(<arg_key>cmd</arg_key><arg_value>f</arg_value>) g</arg_value>)</tool_call>"
    assert values(read(inside, "glm47")) == [("bash", {"cmd": "f</arg_value>) g"})]


@pytest.mark.parametrize("written", ["(ARGUMENT", '({"cmd": "ls"}', "("])
@pytest.mark.parametrize(
    ("brackets", "too_many"), [(")", []), (" )\n", []), ("))", [")"]), (")}", ["}"]), (") ]", ["]"])]
)
def test_the_bracket_that_closes_glm_s_own_is_not_one_too_many(
    written: str, brackets: str, too_many: list[str]
) -> None:
    written = written.replace("ARGUMENT", write_arguments(get_dialect("glm47"), {"cmd": "ls"}))
    message = read(f"<tool_call>bash{written}{brackets}</tool_call>" * 2, "glm47")
    assert values(message) == [("bash", {"cmd": "ls"} if written != "(" else {})] * 2
    assert [n.detail for n in message.notices] == too_many * 2


NAME_ENDS = [d for d in CALLING if d.argument and d.call[0].closing and d.call[0].opening.strip()[-1:] == ">"]


@pytest.mark.parametrize(**named(NAME_ENDS))
def test_brackets_between_no_arguments_and_a_closing_are_dropped(dialect: Dialect) -> None:
    closing = fill(dialect.call[0].closing, name="now").strip()
    before, _, after = write_calls(dialect, [("now", {})]).rpartition(closing)
    message = read(f"{before}}}{closing}{after}", dialect, tools=[*TOOLS, tool("now")])
    assert (values(message), message.content, message.tool_calls[0].status) == ([("now", {})], "", "ok")


@pytest.mark.parametrize(**named(d for d in NAME_ENDS if d.argument[0].closing.strip()[-1:] == ">"))
@pytest.mark.parametrize("extra", ["}", "]}", "\n}\n"])
def test_brackets_before_an_argument_or_its_blocks_closing_are_dropped(dialect: Dialect, extra: str) -> None:
    call, argument = write_calls(dialect, [("bash", {"cmd": "ls"})]), write_arguments(dialect, {"cmd": "ls"}).strip()
    before, after = call.split(argument)
    for tools in (TOOLS, None):
        message = read(f"{before.rstrip()}{extra}{argument}{after}", dialect, tools=tools)
        found = values(message), message.tool_calls[0].status, notices(message)
        assert found == ([("bash", {"cmd": "ls"})], "ok", ["stray_close"])
    closing = (dialect.calls[0].closing or dialect.call[0].closing).strip()
    without, message = (read(before.rstrip() + brackets + closing, dialect) for brackets in ("", extra))
    assert said(message)[2] == said(without)[2]
    assert notices(message) == ["stray_close", *notices(without)]


@pytest.mark.parametrize(**named(d for d in XML if d.calls[0].before and d.call[0].after))
def test_a_block_whose_call_has_no_opening_is_text_with_all_its_closings(dialect: Dialect) -> None:
    opening = fill(dialect.call[0].opening, name="bash", number="1").strip()
    raw = write_calls(dialect, [("bash", {"cmd": "ls"})]).replace(opening, "", 1)
    message = read(raw, dialect)
    assert (message.content.strip(), message.tool_calls) == (raw.strip(), [])


# -- token ids -----------------------------------------------------------------------------------------------------

READINGS = [
    ("harmony", "<|channel|>final<|message|>Call f(auto=True) and then proto=tcp."),
    ("qwen3-coder", "First write <function=bash> and then its arguments."),
    ("qwen3-coder", "First write <tool_call><function=bash> and then its arguments."),
    ("qwen3-coder", f"Sure.\n\n<tool_call>\n{PARIS}\n{BACKWARDS}\n</tool_call>"),
    ("qwen3-coder", "<tool_call>\n<function=bash>\nls -la\n</parameter>\n</function>\n</tool_call>"),
    ("hermes", '<tool_call>\n{"name": "bash", "arguments": {"cmd": "ls"}}}\n</tool_call>'),
    ("kimi_k3", "<|open|>think<|sep|>The answer is 4.<|close|>response<|sep|>More"),
    ("kimi_k2", HEADER.format("functionsbash5", '{"cmd": "ls"}', END)),
    ("gemma4", "<|channel>thought\nplan\n<channel|>call:bash{\"cmd\": 'ls'}<tool_call|><turn|><eos>"),
    ("llama3", f"My tools:\n{json.dumps(WEATHER)}\n{json.dumps(BASH, indent=2)}"),
    ("hermes", "<tool_call>\n{'name': 'bash', 'arguments': {'cmd': \"it's\"}}\n</tool_call>"),
    ("deepseekv4", '<｜DSML｜function_calls><｜DSML｜invoke name="now"></｜DSML｜invoke></｜DSML｜function_calls>'),
]


@pytest.mark.parametrize(("dialect", "raw"), READINGS)
def test_these_readings_are_the_same_with_token_ids(dialect: str, raw: str) -> None:
    d = presumed(dialect)
    made = tokenizer(tuple(sorted(literals(d))))
    ids = made.encode(raw, add_special_tokens=False).ids
    for way in WAYS:
        options: dict[str, Any] = {"tools": TOOLS, **way}
        for size in (1, 3, len(ids)):
            message, _ = feed(d, [ids[at : at + size] for at in range(0, len(ids), size)], made, **options)
            assert said(message) == said(parse(raw, d, **options)), way


def test_a_word_between_a_calls_tags_without_what_marks_its_name_is_a_call_only_if_it_is_declared() -> None:
    for raw in ("<|tool_call>word<tool_call|>", "Write <|tool_call> word <tool_call|> so."):
        message = alike("gemma4", raw, [list(raw)], tools=[tool("now")])
        assert (message.content, message.tool_calls, notices(message)) == (raw, [], ["call_without_name"])
    for raw, tools in (
        ("<|tool_call>now<tool_call|>", [tool("now")]),
        ("<|tool_call>now<tool_call|>", None),
        ("<|tool_call>now{}<tool_call|>", [tool("f")]),
        ("<|tool_call>call:now<tool_call|>", [tool("f")]),
    ):
        assert values(alike("gemma4", raw, [list(raw)], tools=tools)) == [("now", {})], raw


# -- calls without their opening -----------------------------------------------------------------------------------


def unopened(dialect: Dialect) -> Iterator[tuple[str, str]]:
    """Calls of ``bash`` that only their closing marks, and that closing."""
    for form in compile_plan(dialect).calls.unopened:
        closing = literals_of(form.closing)
        for whole in call_forms(dialect, "bash", '{"cmd": "ls"}'):
            raw = whole[whole.find("{") :]
            listed = whole[: whole.find("{")].rstrip().endswith("[")
            if not listed and raw.startswith('{"') and raw.endswith(closing) and raw.count("{") == 2:
                yield raw, closing


UNOPENED = [d for d in CALLING if any(unopened(d))]


@pytest.mark.parametrize(**named(UNOPENED))
def test_where_content_begins_an_object_that_is_closed_may_lack_its_opening(dialect: Dialect) -> None:
    thought = write_reasoning(dialect, "plan") if dialect.reasoning else ""
    for raw, closing in unopened(dialect):
        for before in ("", "\n", thought):
            message = read(before + raw, dialect)
            assert (values(message), message.content) == ([("bash", {"cmd": "ls"})], "")
            assert notices(message)[0] == "missing_open"
        message = read(f"{raw}\n{raw} so.", dialect)
        assert (len(message.tool_calls), message.content.strip()) == (2, "so.")
        for way in ({"tools": None}, {"tools": [WEATHER]}, {"tool_choice": "none"}):
            assert read(raw, dialect, **way).tool_calls == []
        open_call = raw.removesuffix(closing).rstrip()
        for text in (open_call, f"{open_call} so.", open_call[:-1], '{"name": "bash"', raw.replace("ls", "l" * 4096)):
            assert read(text, dialect).tool_calls == []
            assert read(text, dialect).content.startswith(text.removesuffix(closing).rstrip())
        assert read(f"Sure: {raw}", dialect).tool_calls == []
        with pytest.raises(DialectError, match="content"):
            render({"role": "assistant", "content": raw}, dialect, tools=TOOLS)


def test_what_follows_a_call_without_its_opening_is_read_as_behind_any_closed_call() -> None:
    call = '{"name": "bash", "arguments": {"cmd": "ls"}}'
    for behind in ("</tool_call>", f"\n\n{call} so", f"\n{call[:-8]}", '\n{"name": "nope", "arguments": {}} x'):
        bare, opened = (read(f"{opening}{call}\n</tool_call>{behind}", "hermes") for opening in ("", "<tool_call>\n"))
        assert (bare.content, values(bare)) == (opened.content, values(opened))
        assert notices(bare) == ["missing_open", *notices(opened)]


@pytest.mark.parametrize("given", ['{"input": {}}', '{"input": "{}"}', '{"name": "f", "arguments": {}}'])
@pytest.mark.parametrize(
    "schema", [{}, {"additionalProperties": {"type": "string"}}, {"patternProperties": {"^i": {}}}]
)
def test_arguments_are_no_envelope_where_a_tool_names_none(given: str, schema: dict[str, Any]) -> None:
    for properties, arguments in ((None, given), ({}, given if "patternProperties" in schema else "{}")):
        declared = schema if properties is None else {**schema, "properties": properties}
        function = {"name": "f", "parameters": {"type": "object", **declared}}
        message = parse(
            f'<tool_call>\n{{"name": "f", "arguments": {given}}}\n</tool_call>',
            "hermes",
            tools=[{"type": "function", "function": function}],
        )
        assert [call.arguments for call in message.tool_calls] == [arguments]


# -- brackets and quotes that models forget or write twice ---------------------------------------------------------


BRACKETED = [d for d in CALLING if re.search(r"\{[^{}]*ls[^{}]*\}", write_calls(d, [("bash", {"cmd": "ls"})]))]


@pytest.mark.parametrize(**named(BRACKETED))
@pytest.mark.parametrize("closed", ["}", "}}"])
def test_a_doubled_bracket_around_arguments_is_one(dialect: Dialect, closed: str) -> None:
    """Prompts that are made from templates double it."""
    whole = write_calls(dialect, [("bash", {"cmd": "ls"}), ("get_weather", {"city": "Paris"})])
    raw = re.sub(r"\{([^{}]*ls[^{}]*)\}", rf"{{{{\1{closed}", whole, count=1)
    for tools in (TOOLS, None) if is_marked(dialect) else (TOOLS,):
        message = read(raw, dialect, tools=tools)
        assert values(message) == [("bash", {"cmd": "ls"}), ("get_weather", {"city": "Paris"})]
        assert "repaired" in notices(message)
        assert not message.content
    for way in WAYS[2:]:
        assert read(raw, dialect, **way).tool_calls == []


PAGE = '<!DOCTYPE html>\n<meta name="v" content="width=w, scale=1">\n<style>p{margin:0}</style>'


@pytest.mark.parametrize(**named(QUOTED))
@pytest.mark.parametrize("closed", [True, False])
def test_a_string_that_lacks_its_opening_quote_may_begin_with_a_tag_that_is_no_marker(
    dialect: Dialect, closed: bool
) -> None:
    tools = [tool("write", path="string", content="string")]
    quote = dialect.codec.quote
    whole = write_calls(dialect, [("write", {"content": PAGE, "path": "a.html"})])
    raw = whole.replace(f"{quote}{PAGE}{quote}", PAGE + quote * closed)
    assert raw != whole
    message = read(raw, dialect, tools=tools)
    assert values(message) == [("write", {"content": PAGE, "path": "a.html"})]
    assert "missing_open" in notices(message)
    closing = literals_of(compile_plan(dialect).calls.forms[0].closing).strip("}")
    cut = read(raw[: raw.index(PAGE)] + closing, dialect, tools=tools)
    assert [c.status for c in cut.tool_calls] == ["invalid"], "a marker is no value"


NAMEABLE = [d for d in XML if (p := compile_plan(d).arguments.parameters[0]).closing.alone and not d.item]


@pytest.mark.parametrize(**named(NAMEABLE))
@pytest.mark.parametrize("keys", [("content", "path"), ("path", "content")])
def test_a_tag_of_its_keys_name_may_close_a_value(dialect: Dialect, keys: tuple[str, str]) -> None:
    """As 27 of 21,682 calls that somebody kept were written (anthropics/claude-code#83088)."""
    tools = [tool("write", path="string", content="string")]
    texts = {"content": "long <b>text</b>", "path": "a"}
    whole = write_calls(dialect, [("write", {key: texts[key] for key in keys})])
    closings = [literals_of(p.closing) for p in compile_plan(dialect).arguments.parameters]
    closing = next(c for c in closings if c in whole)
    at = whole.index(closing, whole.index(texts["content"]))
    raw = f"{whole[:at]}</content>{whole[at + len(closing) :]}"
    for given in (tools, None):
        message = read(raw, dialect, tools=given)
        assert values(message) == [("write", texts)]
        assert {"missing_close", "stray_close"} <= {*notices(message)}
    kept = read(f"{whole[:at].rstrip()}</content>{whole[len(whole[:at].rstrip()) :]}", dialect, tools=tools)
    assert values(kept) == [("write", texts | {"content": "long <b>text</b></content>"})], "its own closing follows"
    own = {"content": "<content>text</content>"}
    raw = write_calls(dialect, [("write", texts | own)])
    at = raw.index(closing, raw.index(own["content"]))
    message = read(f"{raw[:at]}{raw[at + len(closing) :]}", dialect, tools=tools)
    assert json.loads(message.tool_calls[0].arguments)["content"].strip() == own["content"], "it opened in the value"
