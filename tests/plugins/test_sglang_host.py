"""The plug-in in SGLang itself: its loader, its parsers, its constraints; run by ``make sglang``."""

import importlib
from typing import Any

import pytest

import unspool
from unspool import Dialect, Stage
from unspool.plugins import sglang

from ..support import CALLING, named, pieces, present, tools_of
from .support import STRICT, WEATHER, Gathered, Parts, mode_of, raws, read
from .test_sglang import SURVEY

pytestmark = [pytest.mark.sglang, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def host() -> Any:
    """SGLang's two registries, after its own loader has run."""
    plugins = importlib.import_module("sglang.srt.plugins")
    plugins.load_plugins()
    calls = importlib.import_module("sglang.srt.function_call.function_call_parser")
    thoughts = importlib.import_module("sglang.srt.parser.reasoning_parser")
    tool = importlib.import_module("sglang.srt.entrypoints.openai.protocol").Tool
    return calls.FunctionCallParser, thoughts.ReasoningParser, tool


def through(host: Any, dialect: Dialect, raw: str, stage: Stage | None, size: int) -> Parts:
    """An output through both parsers of SGLang, with our detectors in them."""
    calls, thoughts, tool = host
    name = f"unspool_{dialect.name}"
    force = None if stage in (None, Stage.UNDECIDED) else stage is Stage.REASONING
    front = calls([tool(**t) for t in tools_of(dialect)], name)
    behind = thoughts(name, True, force, tool_call_parser_active=True) if dialect.reasoning else None
    if not size:
        reasoning, text = behind.parse_non_stream(raw) if behind else ("", raw)
        text, found = front.parse_non_stream(text)
        return reasoning, text, [(c.name, c.parameters) for c in found]
    steps: list[tuple[str, str]] = [behind.parse_stream_chunk(p) if behind else ("", p) for p in pieces(raw, size)]
    steps += [behind.parse_stream_end()] if behind else []
    results = [front.parse_stream_chunk(text) for _, text in steps] + [front.parse_stream_end()]
    found = Gathered()
    for thought, _ in steps:
        found.say(thought, "")
    for text, items in results:
        found.say("", text)
        for item in items:
            found.call(item.tool_index, item.name, item.parameters)
    return found.parts


@pytest.mark.parametrize(**named(CALLING))
def test_through_sglang_an_output_says_what_the_parser_says(host: Any, dialect: Dialect) -> None:
    for example, raw in raws(dialect):
        want = read(raw, dialect, example.stage)
        assert [through(host, dialect, raw, example.stage, size) for size in (0, 1, 7)] == [want] * 3


def test_sglangs_command_line_accepts_every_name(host: Any) -> None:
    arguments = importlib.import_module("sglang.srt.server_args")
    calls, thoughts = arguments._tool_call_parser_choices(), arguments._reasoning_parser_choices()
    assert {"unspool_auto"} <= set(calls) & set(thoughts)
    for d in CALLING:
        assert all(f"unspool_{name}" in calls for name in d.names)
        assert all(f"unspool_{name}".lower() in thoughts for name in d.names if d.reasoning)


@pytest.mark.parametrize(**named(CALLING))
@pytest.mark.parametrize("choice", ["required", "auto", "named"])
def test_sglang_constrains_calls_in_their_own_form(host: Any, dialect: Dialect, choice: str) -> None:
    protocol = importlib.import_module("sglang.srt.entrypoints.openai.protocol")
    asked = protocol.ToolChoice(function={"name": "get_weather"}) if choice == "named" else choice
    front = host[0]([host[2](**STRICT)], f"unspool_{dialect.name}")
    form, made = present(front.get_structure_constraint(asked))
    assert form == "structural_tag"
    own = present(unspool.constrain(dialect, [STRICT], mode_of(choice), stage=Stage.CONTENT))
    kind = type(made)
    assert made.model_dump() == kind.model_validate(own.structural_tag).model_dump()
    assert front.owns_tool_format()


WRITTEN_OTHERWISE = {"hunyuan", "muse"}
"""SGLang's detectors whose `structure_info` differs: tags depend on the tokenizer, or the call lacks its frame."""


def test_structure_info_equals_sglangs_own_exactly(host: Any) -> None:
    calls, _, tool = host
    tools = [tool(**WEATHER)]
    otherwise, known = set(), set()
    for name in [n for n in calls.ToolCallParserEnum if not n.startswith("unspool_")]:
        try:
            front = calls(tools, name)
            front.detector.structure_info()("get_weather")
        except (NotImplementedError, ValueError):
            continue
        known.add(name)
        ours = calls(tools, f"unspool_{name}")
        if ours.get_legacy_structural_tag().model_dump() != front.get_legacy_structural_tag().model_dump():
            otherwise.add(name)
    assert otherwise == WRITTEN_OTHERWISE
    assert known - WRITTEN_OTHERWISE == set(sglang._forms())
    assert len(known & {*SURVEY}) == 12, "the other twelve keys have none in SGLang"


def test_every_parser_of_sglang_has_a_dialect_or_is_listed_on_the_migration_page() -> None:
    tools = importlib.import_module("sglang.srt.function_call.function_call_parser").FunctionCallParser
    reasoning = importlib.import_module("sglang.srt.parser.reasoning_parser").ReasoningParser
    ours = {name for dialect in unspool.list_dialects() for name in dialect.names}
    others = {*tools.ToolCallParserEnum, *reasoning.DetectorMap} - ours
    assert {name for name in others if not name.startswith("unspool")} == {"response_template", "minimax-append-think"}
