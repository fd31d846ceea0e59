"""The detectors and `FunctionCallParser`, which have SGLang's interface, without SGLang."""

import json
from typing import Any

import pytest

import unspool
from unspool import Dialect, Stage, ToolStrictLevel
from unspool.plugins import sglang as plugin
from unspool.plugins.sglang import FunctionCallParser, ReasoningDetector, ToolCallItem

from ..support import CALLING, calling, function_call, named, pieces, present, tools_of, values
from .support import CALL, NAMED, STRICT, WEATHER, Gathered, Parts, objects, raws, read

SURVEY = [
    "qwen", "qwen25", "qwen3_coder", "deepseekv3", "deepseekv31", "deepseekv32", "llama3", "pythonic", "mistral",
    "hermes", "gemma4", "glm", "glm45", "glm47", "gpt-oss", "kimi_k2", "lfm2", "mimo", "minimax-m2", "step3",
    "step3p5", "trinity", "interns1", "gigachat3",
]  # fmt: skip
TEXT = f"Sure.\n{CALL}"


def chain(dialect: Dialect, raw: str, stage: Stage | None, size: int) -> Parts:
    """An output through both detectors as SGLang calls them: in pieces, or whole."""
    kind: Any = type("Reasoning", (ReasoningDetector,), {"dialect_name": dialect.name})
    force = None if stage in (None, Stage.UNDECIDED) else stage is Stage.REASONING
    thoughts = kind(force_reasoning=force, tool_call_parser_active=True)
    calls: Any = type("Calls", (plugin.ToolDetector,), {"dialect_name": dialect.name, "gathered": 16})()
    tools = objects(tools_of(dialect))
    if not size:
        parted = thoughts.detect_and_parse(raw)
        result = calls.detect_and_parse(parted.normal_text, tools)
        assert [c.tool_index for c in result.calls] == list(range(len(result.calls)))
        return parted.reasoning_text, result.normal_text, [(c.name, c.parameters) for c in result.calls]
    found = Gathered()
    for parted in [*(thoughts.parse_streaming_increment(p) for p in pieces(raw, size)), thoughts.finish(), None]:
        result = calls.parse_streaming_increment(parted.normal_text, tools) if parted else calls.finish(tools)
        found.say(parted.reasoning_text if parted else "", result.normal_text)
        for item in result.calls:
            assert item.name is None or not item.parameters
            found.call(item.tool_index, item.name, item.parameters)
    assert [p["arguments"] for p in calls.prev_tool_call_arr] == calls.streamed_args_for_tool
    return found.parts


@pytest.mark.parametrize(**named(CALLING))
def test_both_detectors_one_after_the_other_say_what_the_parser_says(dialect: Dialect) -> None:
    for example, raw in raws(dialect):
        want = read(raw, dialect, example.stage)
        assert [chain(dialect, raw, example.stage, size) for size in (0, 1, 7)] == [want] * 3


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize(
    ("raw", "both", "alone"),
    [
        ("plan</think>" + TEXT, ("", "planSure."), "plan</think>Sure."),
        ("<think>plan" + TEXT[5:] + "</think>", ("plan", ""), "<think>plan</think>"),
    ],
    ids=["without an opening", "after a call in the thought"],
)
def test_a_closing_of_reasoning_stays_only_if_calls_alone_are_read(
    raw: str, both: tuple[str, str], alone: str, size: int
) -> None:
    assert chain(unspool.get_dialect("hermes"), raw, Stage.CONTENT, size)[:2] == both
    detector = FunctionCallParser([WEATHER], "hermes").detector
    results = [detector.parse_streaming_increment(p, [WEATHER]) for p in pieces(raw, size or len(raw))]
    assert "".join(r.normal_text for r in [*results, detector.finish([WEATHER])]) == alone


@pytest.mark.parametrize(**named(CALLING))
def test_has_tool_call_is_true_only_for_text_with_a_call(dialect: Dialect) -> None:
    detector = FunctionCallParser([WEATHER], dialect.name).detector
    assert all(detector.has_tool_call(raw) for example, raw in raws(dialect) if example.tool_calls)
    assert not detector.has_tool_call("Just words.")


def test_the_front_reads_whole_texts_and_streams_alike() -> None:
    parser = FunctionCallParser([WEATHER], "qwen25")
    text, calls = parser.parse_non_stream(TEXT)
    assert (text, calls) == ("Sure.", [ToolCallItem(0, "get_weather", '{"city": "Paris"}')])
    streamed = [parser.parse_stream_chunk(c) for c in TEXT] + [parser.parse_stream_end()]
    assert "".join(t for t, _ in streamed) == "Sure."
    items = [item for _, found in streamed for item in found]
    assert items[0] == ToolCallItem(0, "get_weather", "")
    assert {(i.tool_index, i.name) for i in items[1:]} == {(0, None)}
    assert json.loads("".join(i.parameters for i in items)) == {"city": "Paris"}


def test_without_a_call_or_without_tools_the_text_comes_back_as_it_was() -> None:
    parser = FunctionCallParser([WEATHER], "hermes")
    assert parser.parse_non_stream("Hello.<|im_end|>") == ("Hello.<|im_end|>", [])
    none = FunctionCallParser([], "hermes")
    assert none.parse_non_stream(TEXT) == (TEXT, [])
    assert none.parse_stream_chunk(TEXT) == (TEXT, [])
    assert none.parse_stream_end() == ("", [])
    assert not none.has_tool_call(TEXT)


def test_held_text_is_returned_at_the_end() -> None:
    parser = FunctionCallParser([WEATHER], "hermes")
    assert parser.parse_stream_chunk("a < b <tool") == ("a < b ", [])
    assert parser.parse_stream_end() == ("<tool", [])


def test_a_call_in_markup_is_sent_in_pieces_of_sixteen_characters_inside_the_host() -> None:
    kind: Any = type("Calls", (plugin.ToolDetector,), {"dialect_name": "qwen3_coder", "gathered": 16})
    raw = "<tool_call>\n<function=get_weather>\n<parameter=city>\n" + "abcd" * 16
    detector = kind()
    steps = [detector.parse_streaming_increment(c, [WEATHER]).calls for c in ["Well <", *pieces(raw[1:], 4)]]
    texts = [item.parameters for calls in steps for item in calls if item.parameters]
    assert {len(text) for text in texts[1:]} == {16}
    whole = kind()
    assert whole.parse_streaming_increment(raw, [WEATHER]).calls
    for piece in ("ab", "\n</para", "meter>\n</fun", "ction>\n</to", "ol_call", ">"):
        last = whole.parse_streaming_increment(piece, [WEATHER]).calls
    assert whole.prev_tool_call_arr[0]["arguments"] == '{"city": "' + "abcd" * 16 + 'ab"}', "the call's end is not held"
    assert last == []
    rest = [item.parameters for _ in range(2) for item in detector.finish([WEATHER]).calls]
    assert "".join(texts + rest) == '{"city": "' + "abcd" * 16
    assert FunctionCallParser([WEATHER], "qwen3_coder").detector.gathered == 0


@pytest.mark.parametrize("name", ["no-such-parser", "think"])
def test_an_unknown_name_is_a_value_error_that_names_it(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        FunctionCallParser([WEATHER], name)


def body(d: Dialect, call: dict[str, Any]) -> str:
    """The text that the renderer writes between the begin and the end of a call."""
    own = plugin._written(d, call["function"]["name"], call["id"])
    written = unspool.render(calling(call), d, tools=[WEATHER], stage=Stage.CONTENT)
    before, begin, rest = written.partition(own.begin)
    assert (before.strip(), begin) == ("", own.begin)
    for text in (*d.end, own.end):
        rest = rest.removesuffix(text)
    return rest


@pytest.mark.parametrize("name", [*SURVEY, *sorted({d.name for d in CALLING} - {*SURVEY})])
def test_a_call_between_structure_infos_begin_and_end_is_read(name: str) -> None:
    """For the names in `SURVEY` and every other dialect; twice in one text, because a tag may repeat."""
    detector = FunctionCallParser([WEATHER], name).detector
    info = detector.structure_info()("get_weather")
    assert info.begin.startswith(info.trigger)
    assert "get_weather" in info.begin
    (given,) = unspool.parse(info.begin + "{}" + info.end, name, tools=[WEATHER], stage=Stage.CONTENT).tool_calls
    own = body(detector.dialect, function_call("get_weather", {"city": "Paris"}, present(given.id)))
    count = 2 if any(c.isalnum() for c in info.trigger) else 1  # a call without a marker must be the only one
    text = own if info == plugin._written(detector.dialect, "get_weather", given.id) else '{"city": "Paris"}'
    raw = (info.begin + text + info.end) * count
    message = unspool.parse(raw, name, tools=[WEATHER], stage=Stage.CONTENT)
    assert values(message) == [("get_weather", {"city": "Paris"})] * count
    assert {c.status for c in message.tool_calls} == {"ok"}
    assert len({c.id for c in message.tool_calls}) == count


def test_a_name_that_needs_escaping_is_escaped() -> None:
    info = FunctionCallParser([WEATHER], "qwen25").detector.structure_info()('say "hi"')
    assert info.begin == '<tool_call>\n{"name": "say \\"hi\\"", "arguments": '


@pytest.mark.parametrize(("choice", "kind"), [("auto", None), ("required", "json_schema"), ("none", None)])
def test_the_choice_decides_the_constraint(choice: str, kind: str | None) -> None:
    made = FunctionCallParser([WEATHER], "qwen25").get_structure_constraint(choice)
    assert (made and made[0]) == kind


def test_a_strict_tool_or_level_makes_a_structural_tag() -> None:
    level = FunctionCallParser([WEATHER], "qwen25", strict_level=ToolStrictLevel.FUNCTION)
    for parser in (FunctionCallParser([STRICT], "qwen25"), level):
        kind, tag = present(parser.get_structure_constraint("auto"))
        assert (kind, tag["format"]["triggers"]) == ("structural_tag", ["<tool_call>"])
        assert tag == parser.get_structure_tag()


@pytest.mark.parametrize("name", [d.name for d in CALLING])
def test_a_strict_tool_is_enforced_or_the_log_says_why_it_is_not(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING"):
        made = FunctionCallParser([STRICT], name).get_structure_constraint("auto")
    assert (made is None) == bool([r for r in caplog.records if "strict tools" in r.getMessage()])
    assert made is None or made[0] == "structural_tag"
    if unspool.get_dialect(name).argument:
        assert made is not None
    if name == "pythonic":
        assert made is None
        assert not FunctionCallParser([STRICT], name).detector.supports_structural_tag()


def test_a_single_call_is_one_element_of_the_schema() -> None:
    parser = FunctionCallParser([WEATHER], "qwen25")
    for made in (parser.get_structure_constraint("required", False), parser.get_structure_constraint(NAMED)):
        assert present(made)[1]["maxItems"] == 1


@pytest.mark.parametrize(**named(CALLING))
def test_the_native_tag_of_required_calls_begins_with_them(dialect: Dialect) -> None:
    detector = FunctionCallParser([WEATHER], dialect.name).detector
    tag = detector.get_structural_tag([WEATHER], "required")
    assert tag["type"] == "structural_tag"
    assert "get_weather" in json.dumps(tag)


def reasoning(**options: Any) -> Any:
    kind: Any = type("Reasoning", (ReasoningDetector,), {"dialect_name": "hermes"})
    return kind(**options)


def test_reasoning_comes_in_one_piece_where_it_is_not_streamed() -> None:
    detector = reasoning(stream_reasoning=False, force_reasoning=True)
    steps = [detector.parse_streaming_increment(c) for c in "plan</think>\n\nanswer"] + [detector.finish()]
    assert [t.reasoning_text for t in steps if t.reasoning_text] == ["plan"]
    assert "".join(t.normal_text for t in steps) == "answer"
    cut = reasoning(stream_reasoning=False, force_reasoning=True)
    assert cut.parse_streaming_increment("plan").reasoning_text == ""
    assert cut.finish().reasoning_text == "plan"


def test_an_answer_of_reasoning_alone_is_content_if_content_is_required() -> None:
    whole = reasoning(force_reasoning=True, force_nonempty_content=True).detect_and_parse("plan")
    assert (whole.normal_text, whole.reasoning_text) == ("plan", "")
    detector = reasoning(force_reasoning=True, force_nonempty_content=True)
    detector.parse_streaming_increment("pl")
    detector.parse_streaming_increment("an")
    assert detector.finish().normal_text == "plan"


@pytest.mark.parametrize(("before", "thinks"), [("<think>so", True), ("<think>so</think>Well", False)])
def test_an_answer_that_the_prompt_began_continues_in_its_part(before: str, thinks: bool) -> None:
    result = reasoning(continue_final_message=True, previous_content=before).detect_and_parse(" then")
    assert bool(result.reasoning_text) == thinks
    assert result.reasoning_text + result.normal_text == " then"


def test_without_a_detector_of_calls_their_markup_is_text() -> None:
    assert reasoning(force_reasoning=True).detect_and_parse("plan</think>" + TEXT).normal_text == TEXT
