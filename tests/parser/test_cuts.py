"""What the end of the output cuts: headers, openings of calls, closings of blocks."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.tokenizer import byte_level
from unspool import Dialect, Message, Stage

from ..support import CALLING, DIALECTS, named, notices, number, run, same, tool
from ..writing import fill, write_call, write_calls, write_content
from .test_tokens import encode, everywhere, special

TOOLS = [tool("get_weather", city="string", days="integer"), tool("now")]
FIELDS = {"name": "get_weather", "index": "0", "number": "1", "id": "id0000000", "any": "x"}
TAG = re.compile(r"<[|｜][^|｜<>]*[|｜]>|</?[a-zA-Z:_]+>|\[[A-Z_]+\]|\]<\]minimax\[>\[")
"""A whole tag or special token."""


def headers(dialect: Dialect) -> Iterator[str]:
    """What is written before reasoning, content and a call's arguments."""
    texts = [t.text for t in (*dialect.reasoning, *dialect.content, *dialect.preamble) if t.spelled is None]
    calls = [t.text for t in dialect.call if t.spelled is None]
    for block in (t.text for t in dialect.calls if calls and t.spelled is None):
        texts += [re.sub(r"\{calls?\}", lambda _, c=call: c, block) for call in calls]  # type: ignore[misc]
    for text in dict.fromkeys(texts):
        header = re.split(r"\{(?:reasoning|content|arguments)\}", text)[0].replace("{name}{any}", "{name} {any}")
        yield fill(header, **FIELDS).lstrip()


def read(dialect: Dialect, text: str, reason: str = "length") -> Message:
    """The message, which must be the same however the text, or its token ids, are cut."""
    options = {"tools": TOOLS, "ids": number, "stage": Stage.CONTENT}
    whole, _ = run(dialect, [text], finish_reason=reason, **options)
    single, _ = run(dialect, list(text), finish_reason=reason, **options)
    assert same(single) == same(whole)
    tokenizer = special(dialect.name)
    message = everywhere(dialect, encode(tokenizer, text), tokenizer, finish_reason=reason, **options)
    assert same(message) == same(whole)
    return whole


@pytest.mark.parametrize(**named(d for d in DIALECTS if d.policy.stray_markers != "text"))
def test_a_header_that_the_end_cuts_shows_no_whole_tag(dialect: Dialect) -> None:
    for header in headers(dialect):
        for before in ("", write_content(dialect, "Sure.")):
            for end in (m.end() + more for m in TAG.finditer(header) for more in (0, 1, 3, 8)):
                if end < len(header):
                    message = read(dialect, before + header[:end])
                    assert not TAG.search(message.content), header[:end]
                    assert not [c for c in message.tool_calls if c.name != "get_weather"]


@pytest.mark.parametrize(**named(d for d in CALLING if d.call[0].after or not d.argument))
def test_the_cut_closing_of_a_block_is_not_shown(dialect: Dialect) -> None:
    text = write_calls(dialect, [("get_weather", {"city": "Paris", "days": 3})])
    closing = fill(dialect.calls[0].text, call="\0", calls="\0").rpartition("\0")[2].rstrip()
    for cut in range(1, len(closing)):
        message = read(dialect, text.rstrip()[:-cut])
        assert message.content == ""
        assert [c.status for c in message.tool_calls] == ["ok"]


HARMONY = "<|channel|>final<|message|>Hi.<|end|>"
CUTS = [
    ("harmony", HARMONY, "<|start|>"),
    ("harmony", HARMONY, "<|start|>assi"),
    ("harmony", HARMONY, "<|start|>assistant to=functions.get_we"),
    ("harmony", HARMONY, "<|start|>assistant<|chan"),
    ("harmony", "<|channel|>analysis<|message|>Hm.", "<|start|>"),
    ("beam", "<|channel|>final<|message|>Hi.<|end|>", "<|start|>assistant t"),
    ("inkling", "<|content_text|>Hi.<|end_message|>", "<|message_model|>get_we"),
    ("kimi_k3", "<|open|>response<|sep|>Hi.", "<|close|>response"),
    ("kimi_k3", "<|open|>think<|sep|>Hm.", "<|close|>th"),
    ("hermes", "Hi.", "\n<tool_call>\n{"),
    ("gigachat3", "Hi.", "function call<|role_sep|>"),
    ("gemma4", "<|channel>thought\nHm.\n<channel|>", "<|channel>thou"),
]


@pytest.mark.parametrize(("name", "before", "cut"), CUTS)
def test_a_marker_that_the_end_cuts_behind_a_tag_is_dropped(name: str, before: str, cut: str) -> None:
    dialect = next(d for d in DIALECTS if d.name == name)
    for reason in ("length", "stop"):
        whole, _ = run(dialect, [before], finish_reason=reason, tools=TOOLS, ids=number, stage=Stage.CONTENT)
        message = read(dialect, before + cut, reason)
        assert same(message) == same(whole)
        assert {*notices(message)} & {"stray_open", "stray_close"}


@pytest.mark.parametrize(("name", "text"), [("harmony", HARMONY + "<|st"), ("hermes", "Hi.<tool_"), ("glm45", "a <th")])
def test_the_beginning_of_a_tag_stays_text(name: str, text: str) -> None:
    dialect = next(d for d in DIALECTS if d.name == name)
    message = read(dialect, text)
    assert message.content.endswith(text[-3:])
    assert not notices(message)


def test_a_word_on_a_line_of_its_own_is_no_call_of_an_undeclared_tool_without_arguments() -> None:
    dialect = next(d for d in DIALECTS if d.name == "functionary-v3.2")
    assert read(dialect, "Sure.\n").content == "Sure.\n"
    assert [c.name for c in read(dialect, "now\n").tool_calls] == ["now"]


def test_a_frame_after_a_call_is_a_frame_though_the_end_cuts_it_behind_its_header() -> None:
    dialect = next(d for d in DIALECTS if d.name == "functionary-v3.2")
    message = read(dialect, '>>>get_weather\n{"city": "Paris"}>>>all\n')
    assert [(c.name, c.status) for c in message.tool_calls] == [("get_weather", "ok")]


def test_a_nested_opening_that_the_end_cuts_is_not_in_the_value() -> None:
    dialect = next(d for d in DIALECTS if d.name == "minimax-m3")
    tag = "]<]minimax[>["
    text = f'{tag}<tool_call>\n{tag}<invoke name="g">{tag}<a>1{tag}</a>{tag}<x>{tag}<y'
    tools = [tool("g", a="integer", x={"type": "object", "properties": {"y": {"type": "string"}}})]
    message, _ = run(dialect, [text], finish_reason="length", tools=tools, stage=Stage.CONTENT)
    assert [c.arguments for c in message.tool_calls] == ['{"a": 1']


def test_notices_of_a_long_value_without_its_closing_have_one_order() -> None:
    dialect = next(d for d in DIALECTS if d.name == "seed-oss")
    head = "<seed:tool_call>\n<function=get_weather>\n<parameter=days>"
    text = head + "1" * 70_000 + "\n<parameter=city>Paris</parameter>\n</function>\n</seed:tool_call>"
    cuts = ([text], [text[i : i + 7] for i in range(0, len(text), 7)], [text[:60_000], text[60_000:]])
    kinds = [[n.kind for n in run(dialect, cut, tools=TOOLS)[0].notices] for cut in cuts]
    assert kinds[0] == kinds[1] == kinds[2]


@pytest.mark.parametrize(**named(d for d in CALLING if re.search(r"\{calls\}\s*\]\s*<[^\]]*\w", d.calls[0].text)))
def test_a_blocks_closing_counts_without_its_bracket(dialect: Dialect) -> None:
    text = write_calls(dialect, [("get_weather", {"city": "Paris", "days": 3})])
    head, _, tail = text.rpartition("]")
    message = read(dialect, f"{head}{tail}Hi.", "stop")
    assert (message.content, [c.status for c in message.tool_calls]) == ("Hi.", ["ok"])


def test_the_closing_of_reasoning_counts_though_the_blocks_closing_begins_alike() -> None:
    dialect = next(d for d in DIALECTS if d.name == "kimi_k3")
    call = '<|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="city" type="string"<|sep|>Par'
    text = f"<|open|>think<|sep|>Hm. <|open|>tools<|sep|>{call}<|close|>think<|sep|>It rains."
    message = read(dialect, text, "stop")
    assert (message.reasoning, message.content) == ("Hm. ", "It rains.")
    assert [c.status for c in message.tool_calls] == ["incomplete"]


@pytest.mark.parametrize(
    ("name", "text"), [("harmony", "a<|end|>b"), ("muse", "a<|eom|>b"), ("inkling", "a<|end_message|>b")]
)
def test_a_closing_of_a_frame_that_closes_nothing_is_dropped_though_it_may_end_the_turn(name: str, text: str) -> None:
    dialect = next(d for d in DIALECTS if d.name == name)
    assert read(dialect, text, "stop").content == "ab"


@pytest.mark.parametrize("name", ["deepseekv31", "hermes", "deepseekv3"])
@pytest.mark.parametrize("inner", ["Par", "Pa\nr"])
def test_a_closings_id_ends_an_open_string_also_if_the_string_is_broken(name: str, inner: str) -> None:
    dialect = next(d for d in DIALECTS if d.name == name)
    text = write_calls(dialect, [("get_weather", {"city": "Paris"}), ("now", {})])
    tokenizer = byte_level(special={m.group() for m in TAG.finditer(text)})
    message = everywhere(
        dialect, encode(tokenizer, text.replace('Paris"}', inner, 1)), tokenizer, tools=TOOLS, stage=Stage.CONTENT
    )
    assert [(c.name, c.status) for c in message.tool_calls] == [("get_weather", "invalid"), ("now", "ok")]


NAMED = [
    ("harmony", "<|channel|>commentary to=functions.get_weather <|constrain|>js"),
    ("kimi_k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_arg"),
    ("glm45", "<tool_call>get_weather\n<ar"),
]


@pytest.mark.parametrize(("name", "text"), NAMED)
def test_a_call_whose_name_is_complete_is_a_call_though_the_end_cuts_its_opening(name: str, text: str) -> None:
    dialect = next(d for d in DIALECTS if d.name == name)
    message = read(dialect, text)
    assert [(c.name, c.arguments, c.status) for c in message.tool_calls] == [("get_weather", "", "incomplete")]


CLOSING = [d for d in CALLING if re.search(r"\w", "".join(map(str, (*d.calls[0].after, *d.call[0].after))))]


@pytest.mark.parametrize(**named(d for d in CLOSING if d.argument_format == "json"))
def test_brackets_that_are_too_many_before_a_closing_are_dropped(dialect: Dialect) -> None:
    text = write_calls(dialect, [("get_weather", {"city": "Paris"})])
    for extra in ("}", "]", "}}", " ]"):
        broken = text.replace('"Paris"}', f'"Paris"}}{extra}', 1)
        if extra != "}" and text.count("]") + text.count("}") > 1:
            continue  # it may be another bracket's
        message = read(dialect, broken, "stop")
        assert [(c.arguments, c.status) for c in message.tool_calls] == [('{"city": "Paris"}', "ok")]
        assert not message.content.strip()


@pytest.mark.parametrize("raw", ['{"function": "later"}', '{"type": "function"}', "now"])
def test_the_closing_of_an_object_that_is_no_call_is_text(raw: str) -> None:
    dialect = next(d for d in DIALECTS if d.name == "hermes")
    text = f"Ok.\n<tool_call>\n{raw}\n</tool_call>\nDone."
    message = read(dialect, text, "stop")
    assert (message.content, message.tool_calls) == (text, [])


@pytest.mark.parametrize("name", ["dots", "gigachat35", "kimi_k3"])
def test_a_call_without_its_block_is_text_with_its_closing_where_the_block_is_always_written(name: str) -> None:
    dialect = next(d for d in DIALECTS if d.name == name)
    text = f"Use {write_call(dialect, 0, 'get_weather', {'city': 'Paris'}).strip()} for that."
    message = read(dialect, text, "stop")
    assert (message.content, message.tool_calls) == (text, [])


@pytest.mark.parametrize("name", ["lfm2", "olmo3"])
def test_a_word_behind_a_call_whose_block_is_not_closed_is_text_if_it_begins_no_declared_name(name: str) -> None:
    dialect = next(d for d in DIALECTS if d.name == name)
    text = write_calls(dialect, [("now", {})])
    head = text[: text.index(")") + 1]
    assert read(dialect, f"{head}\nDone.", "stop").content.strip() == "Done."
    assert read(dialect, f"{head}\nget_wea").content == ""


def test_the_end_of_the_turn_counts_though_the_blocks_closing_begins_alike() -> None:
    dialect = next(d for d in DIALECTS if d.name == "kimi_k3")
    text = write_calls(dialect, [("now", {})]).removesuffix("<|close|>tools<|sep|>") + "<|close|>message<|sep|>"
    message = read(dialect, text, "stop")
    assert (message.content, [c.status for c in message.tool_calls]) == ("", ["ok"])


def test_a_call_with_a_broken_marker_is_text_if_closings_follow_so_that_the_end_did_not_cut_it() -> None:
    dialect = next(d for d in DIALECTS if d.name == "deepseekv3")
    text = write_calls(dialect, [("now", {}), ("now", {})])
    head, sep, tail = text.rpartition("sep")
    message = read(dialect, f"{head}sop{tail}", "stop")
    assert sep
    assert [(c.name, c.status) for c in message.tool_calls] == [("now", "ok")]
    assert "sop" in message.content


@pytest.mark.parametrize("tools", [TOOLS, None])
def test_a_word_without_a_header_is_content_even_where_a_header_is_due(tools: list[dict[str, Any]] | None) -> None:
    dialect = next(d for d in DIALECTS if d.name == "inkling")
    message, _ = run(dialect, ["<|message_model|>Hello."], tools=tools, stage=Stage.CONTENT)
    assert message.content == "Hello."


@pytest.mark.parametrize("name", ["deepseekv3", "plamo3", "k2_horizon", "minimax-m2", "dots", "gigachat35"])
def test_the_closing_of_a_call_with_a_broken_opening_in_a_block_is_text(name: str) -> None:
    dialect = next(d for d in DIALECTS if d.name == name)
    text = write_calls(dialect, [("now", {}), ("now", {})])
    broken = (
        "#".join(text.rsplit("now", 1))
        if dialect.argument
        else "###".join(text.rsplit("sep" if "sep" in text else "msg", 1))
    )
    message = read(dialect, broken, "stop")
    assert [(c.name, c.status) for c in message.tool_calls] == [("now", "ok")]
    closing = fill(dialect.call[0].text.rpartition("}")[2]).strip()
    assert message.content.rstrip().endswith(closing)
