"""What the end of the output cuts: headers, openings of calls, closings of blocks; and cuts that must not show."""

import itertools
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.tokenizer import byte_level
from unspool import ContentDelta, Dialect, Event, Markup, Message, Policy, ReasoningDelta, Stage, ToolCallDelta

from ..support import (
    CALLING,
    DIALECTS,
    alike,
    literals,
    many_cuts,
    named,
    notices,
    number,
    pieces,
    presumed,
    readings,
    run,
    said,
    same,
    statuses,
    tool,
    ways,
)
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


def read(dialect: Dialect | str, text: str, reason: str = "length") -> Message:
    """The message, which must be the same however the text, or its token ids, are cut."""
    dialect = presumed(dialect) if isinstance(dialect, str) else dialect
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
    for reason in ("length", "stop"):
        message = read(name, before + cut, reason)
        assert same(message) == same(read(name, before, reason))
        assert {*notices(message)} & {"stray_open", "stray_close"}


@pytest.mark.parametrize(("name", "text"), [("harmony", HARMONY + "<|st"), ("hermes", "Hi.<tool_"), ("glm45", "a <th")])
def test_the_beginning_of_a_tag_stays_text(name: str, text: str) -> None:
    message = read(name, text)
    assert message.content.endswith(text[-3:])
    assert not notices(message)


BEGUN = [("get_weather", "", "incomplete")]
OBJECT = "Ok.\n<tool_call>\n{}\n</tool_call>\nDone."
TOOLS_OF_K3 = (
    "<|open|>think<|sep|>Hm. <|open|>tools<|sep|>"
    '<|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="city" type="string"<|sep|>Par'
)
MEANT: dict[str, list[tuple[str, str, str, str, list[tuple[str, str, str]]]]] = {
    "a word on a line of its own is no call of an undeclared tool without arguments": [
        ("functionary-v3.2", "length", "Sure.\n", "Sure.\n", []),
        ("functionary-v3.2", "length", "now\n", "", [("now", "", "incomplete")]),
    ],
    "a frame after a call is a frame though the end cuts it behind its header": [
        ("functionary-v3.2", "length", '>>>get_weather\n{"city": "Paris"}>>>all\n', "",
         [("get_weather", '{"city": "Paris"}', "ok")]),
    ],
    "the closing of reasoning counts though the block's closing begins alike": [
        ("kimi_k3", "stop", TOOLS_OF_K3 + "<|close|>think<|sep|>It rains.", "It rains.",
         [("get_weather", '{"city": "Par', "incomplete")]),
    ],
    "a closing of a frame that closes nothing is dropped though it may end the turn": [
        ("harmony", "stop", "a<|end|>b", "ab", []),
        ("muse", "stop", "a<|eom|>b", "ab", []),
        ("inkling", "stop", "a<|end_message|>b", "ab", []),
    ],
    "a call whose name is complete is a call though the end cuts its opening": [
        ("harmony", "length", "<|channel|>commentary to=functions.get_weather <|constrain|>js", "", BEGUN),
        ("kimi_k2", "length",
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_arg", "", BEGUN),
        ("glm45", "length", "<tool_call>get_weather\n<ar", "", BEGUN),
    ],
    "the closing of an object that is no call is text": [
        ("hermes", "stop", OBJECT.format(raw), OBJECT.format(raw), [])
        for raw in ('{"function": "later"}', '{"type": "function"}', "now")
    ],
}  # fmt: skip


@pytest.mark.parametrize("what", MEANT)
def test_an_output_is_read_as_it_is_meant(what: str) -> None:
    for dialect, reason, text, content, calls in MEANT[what]:
        message = read(dialect, text, reason)
        assert said(message)[:3] == ("Hm. " if "Hm. " in text else "", content, calls), text


def test_a_nested_opening_that_the_end_cuts_is_not_in_the_value() -> None:
    tag = "]<]minimax[>["
    text = f'{tag}<tool_call>\n{tag}<invoke name="g">{tag}<a>1{tag}</a>{tag}<x>{tag}<y'
    tools = [tool("g", a="integer", x={"type": "object", "properties": {"y": {"type": "string"}}})]
    message, _ = run("minimax-m3", [text], finish_reason="length", tools=tools, stage=Stage.CONTENT)
    assert [c.arguments for c in message.tool_calls] == ['{"a": 1']


def test_notices_of_a_long_value_without_its_closing_have_one_order() -> None:
    head = "<seed:tool_call>\n<function=get_weather>\n<parameter=days>"
    text = head + "1" * 70_000 + "\n<parameter=city>Paris</parameter>\n</function>\n</seed:tool_call>"
    cuts = ([text], pieces(text, 7), [text[:60_000], text[60_000:]])
    kinds = [notices(run("seed-oss", cut, tools=TOOLS)[0]) for cut in cuts]
    assert kinds == kinds[:1] * 3


@pytest.mark.parametrize(**named(d for d in CALLING if re.search(r"\{calls\}\s*\]\s*<[^\]]*\w", d.calls[0].text)))
def test_a_blocks_closing_counts_without_its_bracket(dialect: Dialect) -> None:
    text = write_calls(dialect, [("get_weather", {"city": "Paris", "days": 3})])
    head, _, tail = text.rpartition("]")
    message = read(dialect, f"{head}{tail}Hi.", "stop")
    assert (message.content, [c.status for c in message.tool_calls]) == ("Hi.", ["ok"])
    assert notices(message) == ["missing_close"]


@pytest.mark.parametrize("name", ["deepseekv31", "hermes", "deepseekv3"])
@pytest.mark.parametrize("inner", ["Par", "Pa\nr"])
def test_a_closings_id_ends_an_open_string_also_if_the_string_is_broken(name: str, inner: str) -> None:
    dialect = presumed(name)
    text = write_calls(dialect, [("get_weather", {"city": "Paris"}), ("now", {})])
    tokenizer = byte_level(special={m.group() for m in TAG.finditer(text)})
    message = everywhere(
        dialect, encode(tokenizer, text.replace('Paris"}', inner, 1)), tokenizer, tools=TOOLS, stage=Stage.CONTENT
    )
    assert statuses(message) == [("get_weather", "invalid"), ("now", "ok")]


@pytest.mark.parametrize("name", ["dots", "gigachat35", "kimi_k3"])
def test_a_call_without_its_block_is_text_with_its_closing_where_the_block_is_always_written(name: str) -> None:
    text = f"Use {write_call(presumed(name), 0, 'get_weather', {'city': 'Paris'}).strip()} for that."
    message = read(name, text, "stop")
    assert (message.content, message.tool_calls) == (text, [])


@pytest.mark.parametrize("name", ["lfm2", "olmo3"])
def test_a_word_behind_a_call_whose_block_is_not_closed_is_text_if_it_begins_no_declared_name(name: str) -> None:
    text = write_calls(presumed(name), [("now", {})])
    head = text[: text.index(")") + 1]
    assert read(name, f"{head}\nDone.", "stop").content.strip() == "Done."
    assert read(name, f"{head}\nget_wea").content == ""


def test_the_end_of_the_turn_counts_though_the_blocks_closing_begins_alike() -> None:
    calls = write_calls(presumed("kimi_k3"), [("now", {})])
    message = read("kimi_k3", calls.removesuffix("<|close|>tools<|sep|>") + "<|close|>message<|sep|>", "stop")
    assert (message.content, [c.status for c in message.tool_calls]) == ("", ["ok"])


def test_a_call_with_a_broken_marker_is_text_if_closings_follow_so_that_the_end_did_not_cut_it() -> None:
    head, sep, tail = write_calls(presumed("deepseekv3"), [("now", {}), ("now", {})]).rpartition("sep")
    message = read("deepseekv3", f"{head}sop{tail}", "stop")
    assert sep
    assert statuses(message) == [("now", "ok")]
    assert "sop" in message.content


@pytest.mark.parametrize("tools", [TOOLS, None])
def test_a_word_without_a_header_is_content_even_where_a_header_is_due(tools: list[dict[str, Any]] | None) -> None:
    message, _ = run("inkling", ["<|message_model|>Hello."], tools=tools, stage=Stage.CONTENT)
    assert message.content == "Hello."


@pytest.mark.parametrize("name", ["deepseekv3", "plamo3", "k2_horizon", "minimax-m2", "dots", "gigachat35"])
def test_the_closing_of_a_call_with_a_broken_opening_in_a_block_is_text(name: str) -> None:
    dialect = presumed(name)
    text = write_calls(dialect, [("now", {}), ("now", {})])
    broken = (
        "#".join(text.rsplit("now", 1))
        if dialect.argument
        else "###".join(text.rsplit("sep" if "sep" in text else "msg", 1))
    )
    message = read(dialect, broken, "stop")
    assert statuses(message) == [("now", "ok")]
    closing = fill(dialect.call[0].text.rpartition("}")[2]).strip()
    assert message.content.rstrip().endswith(closing)


WRONG = ("|", '"', " x", "a", "}", "<")


@pytest.mark.parametrize(**named(CALLING))
def test_events_stand_at_the_same_place_at_any_cut(dialect: Dialect) -> None:
    call = write_calls(dialect, [("get_weather", {"city": "x", "days": 3})])
    doubled = call.replace("days", "city")
    texts = [f"Sure. \n{call}", doubled, doubled[: doubled.rindex("3") + 1]]
    texts += [f"x{thought.opening}plan{call}" for thought in dialect.reasoning]
    texts += [call[:at] + WRONG[at % len(WRONG)] + call[at:] for at in range(0, len(call), 2)]
    texts += [call[:at] for at in range(1, len(call), 2)]
    for raw in texts:
        for policy in (Policy(), Policy(text_before_tools="content", bad_arguments="repair")):
            whole, single = (events(dialect, chunks, tools=TOOLS, policy=policy) for chunks in ways(raw))
            assert single == whole, raw


def events(dialect: Dialect | str, chunks: list[str], **options: Any) -> list[Event]:
    """The events of pieces of text, with their adjacent pieces of text and of arguments joined."""
    found: list[Event] = []
    for event in run(dialect, chunks, ids=number, **options)[1]:
        last = found[-1] if found else None
        if isinstance(event, ContentDelta | ReasoningDelta | Markup) and type(last) is type(event):
            found[-1] = msgspec.structs.replace(last, text=last.text + event.text, end=event.end)
        elif isinstance(event, ToolCallDelta) and isinstance(last, ToolCallDelta):
            found[-1] = msgspec.structs.replace(last, arguments=last.arguments + event.arguments, end=event.end)
        else:
            found.append(event)
    return found


PLACES = {
    "a literal's last white space, comma and held key": [
        ("olmo3", "<function_calls>now(a=1, b"),
        ("olmo3", '<function_calls>get_weather(city="x", *'),
        ("gemma4", '<|tool_call>call:now{a:1, }>'),
        ("functiongemma", "<start_function_call>call:now{a:<escape>x<escape>, {b:3}<end_function_call>"),
        ("sarashina", "<|tool_calls|>[{'name': 'now', 'arguments': {'a': [1, 2],  ['b']}}]"),
    ],
    "the quote behind arguments in a string": [
        ("rwkv", '```json\n{"name": "now", "arguments": "{\\"a\\": 3}", "id": "1"}\n```'),
        ("mistral", '[TOOL_CALLS]now[ARGS]"x" {}'),
    ],
    "the header of a call in another syntax": [
        (d.name, write_calls(d, [("now", {})]).split("now")[0].split("<function")[0] + text)
        for d in CALLING if d.argument and d.calls[0].before
        for text in ('{"name": "now", "arguments": {"a": 1}}', '{"name": "now", "arguments": {"a": 1')
    ],
}  # fmt: skip


@pytest.mark.parametrize("what", PLACES)
def test_what_belongs_to_arguments_or_a_header_does_so_at_any_cut(what: str) -> None:
    for name, raw in PLACES[what]:
        whole = events(name, [raw], tools=TOOLS, stage=Stage.CONTENT)
        for cut in many_cuts(raw):
            assert events(name, cut, tools=TOOLS, stage=Stage.CONTENT) == whole, raw


@pytest.mark.parametrize(**named(d for d in CALLING if d.reasoning))
@pytest.mark.parametrize("tools", [TOOLS[:0], TOOLS, None], ids=["none", "declared", "unknown"])
def test_a_call_that_is_given_back_to_the_thought_loses_no_line_break(dialect: Dialect, tools: Any) -> None:
    call = write_calls(dialect, [("get_weather", {"city": "x", "days": 3})])
    for at in range(1, len(call)):
        raw = f"Hm.\n\n{call[:at]}"
        message, _ = run(dialect, [raw], finish_reason="length", tools=tools, stage=Stage.REASONING)
        if not message.tool_calls and {*notices(message)} <= {"unclosed_reasoning"}:
            assert message.reasoning == raw


@pytest.mark.parametrize(**named(CALLING))
def test_the_end_of_reasoning_behind_a_broken_string_ends_its_call_at_any_cut(dialect: Dialect) -> None:
    call = write_calls(dialect, [("get_weather", {"city": "x"})])
    for thought in dialect.reasoning:
        raw = f'Hm {call[: call.rindex("x")]}\n"{thought.closing}The answer.'
        whole, single = readings(dialect, raw, tools=TOOLS, stage=Stage.REASONING, ids=number)
        assert single == whole


def test_an_object_that_is_lost_behind_complete_arguments_is_noticed_alike_at_any_cut() -> None:
    whole, single = readings("json", '{"name": "now", "arguments": "{}" {"a": 1}}', tools=TOOLS, ids=number)
    assert single == whole


def test_a_nested_value_that_two_closings_end_is_noticed_alike_at_any_cut() -> None:
    mark = "]<]minimax[>["
    item = f'{mark}<invoke name="h">{mark}<tags>{mark}<item>>{mark}</tags>'
    whole, single = readings("minimax-m3", item, tools=TOOLS, ids=number)
    assert single == whole
    raw = f'{mark}<invoke name="h">{mark}<a>x{mark}</a>{mark}[{mark}<>{mark}</invoke>'
    for behind in ("", mark, f'{mark}<invoke name="w">', "\n"):
        alike("minimax-m3", raw + behind, [list(raw + behind)])


@pytest.mark.parametrize(**named(d for d in CALLING if d.reasoning))
def test_a_thought_that_is_closed_behind_a_broken_call_is_no_content(dialect: Dialect) -> None:
    call = write_calls(dialect, [("get_weather", {"city": "x", "a": 1})])
    thought = dialect.reasoning[0]
    for at in range(len(call)):
        raw = f'{thought.opening}Hm {call[:at]}{WRONG[at % len(WRONG)]}{call[at:]}\n"\n{thought.closing}'
        own, held = (
            run(dialect, [raw], tools=None, ids=number, stage=Stage.CONTENT, policy=Policy(unclosed_reasoning=policy))[
                0
            ]
            for policy in ("reasoning", "content")
        )
        if "unclosed_reasoning" not in notices(own):
            assert same(held) == same(own), raw


@pytest.mark.parametrize("dialect", CALLING, ids=lambda d: d.name)
def test_the_beginning_of_a_header_behind_white_space_is_noticed_alike_at_any_cut(dialect: Dialect) -> None:
    for header in headers(dialect):
        text = f" {header[: max(len(header) // 2, 1)]}"
        assert kinds(dialect, list(text)) == kinds(dialect, [text])


def kinds(dialect: Dialect, cut: list[str]) -> list[str]:
    return [n.kind for n in run(dialect, cut, finish_reason="length", stage=Stage.CONTENT)[0].notices]


@pytest.mark.parametrize(**named(d for d in CALLING if d.start))
def test_text_between_a_turn_s_beginning_and_a_marker_that_the_end_cuts_stays_text(dialect: Dialect) -> None:
    for start, cut in itertools.product(dialect.start, ("<", "<|", "[", "{")):
        raw = f"{start}to={cut}"
        alike(dialect, raw, many_cuts(raw))


@pytest.mark.parametrize(**named(CALLING))
def test_beginnings_of_markers_in_a_row_at_the_end_are_read_alike_at_any_cut(dialect: Dialect) -> None:
    text = write_calls(dialect, [("get_weather", {"city": "Paris", "days": 3})])
    begun = {literal.strip()[:n] for literal in literals(dialect) for n in (1, 2) if literal.strip()}
    for before in (text[: text.index("Paris") + 2], text[: text.rindex("3") + 1], write_content(dialect, "Sure.")):
        for first, last in itertools.product(sorted(begun), repeat=2):
            alike(dialect, before + first + last, [[before + first, last], [before, *first, *last]], tools=TOOLS)
