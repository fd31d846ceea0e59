"""A contract with FastDeploy's stored interface; the host itself cannot be installed where these tests run.

`fastdeploy_host` stands in for it: abstract classes, managers, loader, and the serving code that calls parsers, in
three versions. What the RFC for DeepSeek's parsers requires is tested beside what FastDeploy's plug-ins do.
"""

import inspect
import logging
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import unspool
from unspool.plugins import fastdeploy as plugin

from ..support import RFC_NAMES
from .fastdeploy_host import (
    VERSIONS,
    Delta,
    Host,
    ReasoningParser,
    Serving,
    Tokenizer,
    ToolParser,
    installed,
    load_plugins,
)
from .support import WEATHER

V31 = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>%s<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
R1 = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n%s\n```"
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)
ARGUMENTS = '{"city": "北京", "days": 3}'
END = "<｜end▁of▁sentence｜>"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Host:
    """The stand-in, before its own loader has called the entry points."""
    monkeypatch.setenv("FD_PLUGINS", "unspool")
    return installed(monkeypatch.setitem)


@pytest.fixture
def host(started: Host) -> Host:
    """The stand-in, after that."""
    load_plugins()
    return started


def test_the_entry_points_are_loaded_where_they_are_named(started: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    for named, count in (("others", 0), ("others,unspool", 2), (None, 2)):
        monkeypatch.setenv("FD_PLUGINS", named) if named else monkeypatch.delenv("FD_PLUGINS")
        assert len(load_plugins()) == count
        assert ("deepseek" in started.tools.parsers) == ("deepseek" in started.reasoning.parsers) == bool(count)


def test_a_parser_of_the_host_that_is_replaced_is_named_in_the_log(
    started: Host, caplog: pytest.LogCaptureFixture
) -> None:
    own = type("DeepSeekToolParser", (ToolParser,), {})
    started.tools.register_module("deepseek", module=own)
    with caplog.at_level(logging.WARNING):
        load_plugins()
    assert started.tools.get("deepseek") is not own
    assert [r.getMessage() for r in caplog.records if "replaced" in r.getMessage()] == [
        "unspool: the parser that FastDeploy has as 'deepseek' is replaced"
    ]


def request(**more: Any) -> Any:
    return SimpleNamespace(tools=[WEATHER], tool_choice="auto", **more)


CASES = {
    "thought and call": ("<｜Assistant｜><think>", "plan</think>\n\nCALL", ("plan", "", 1)),
    "thought and answer": ("<｜Assistant｜><think>", "plan</think>answer", ("plan", "answer", 0)),
    "thought, prose and call": ("<｜Assistant｜><think>", "plan</think>EFGCALL", ("plan", "EFGCALL", 0)),
    "no thought": ("<｜Assistant｜></think>", "answer", ("", "answer", 0)),
    "call at once": ("<｜Assistant｜></think>", "CALL", ("", "", 1)),
    "two calls": ("<｜Assistant｜></think>", "CALL\nCALL", ("", "", 2)),
    "prose between calls": ("<｜Assistant｜></think>", "CALLandCALL", ("", "andCALL", 1)),
    "thought never closed": ("<｜Assistant｜><think>", "ABCD", ("ABCD", "", 0)),
    "closed twice": ("<｜Assistant｜><think>", "plan</think>an</think>swer", ("plan", "an</think>swer", 0)),
    "opened in the output": ("<｜Assistant｜>", "<think>plan</think>CALL", ("plan", "", 1)),
    "no markers": ("<｜Assistant｜>", "answer", ("", "answer", 0)),
    "only closed, after an open beginning": ("<｜Assistant｜>", "plan</think>answer", ("", "plan</think>answer", 0)),
    "call in a thought": ("<｜Assistant｜><think>", "So CALL now.</think>answer", ("So CALL now.", "answer", 0)),
    "after a tool's output": ("CALL<｜tool▁output▁begin｜>9<｜tool▁output▁end｜>", "a 北京", ("", "a 北京", 0)),
    "after earlier turns": (
        "<｜Assistant｜></think>CALL<｜User｜>So?<｜Assistant｜><think>",
        "A</think>B",
        ("A", "B", 0),
    ),
    "what may begin a marker": ("<｜Assistant｜></think>", "1 <", ("", "1 <", 0)),
}


def form_of(name: str) -> str:
    """A call in the format of the model that a name stands for."""
    return (R1 if name in ("deepseek-r1", "deepseek-v3-0324") else V31) % ARGUMENTS


@pytest.mark.parametrize("name", RFC_NAMES)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_rfc_says_holds_whole_and_streamed(host: Host, name: str, version: str) -> None:
    tokenizer = Tokenizer()
    call = form_of(name)
    serving = Serving(host, name, tokenizer, VERSIONS[version])
    for case, (prompt, output, (reasoning, content, calls)) in CASES.items():
        serving.take(case, tokenizer.encode(prompt.replace("CALL", call)), [WEATHER])
        ids = tokenizer.encode(output.replace("CALL", call) + END)
        want = (reasoning.replace("CALL", call), content.replace("CALL", call), [("get_weather", ARGUMENTS)] * calls)
        assert (case, serving.whole(case, ids)) == (case, want)
        if case == "what may begin a marker":
            assert serving.streamed(case, ids, 1) == want
            continue
        for size in (1, 3, len(ids)):
            for sent in (ids, ids[:-1]):  # with the end, and as the host goes on without one
                assert (case, size, serving.streamed(case, sent, size)) == (case, size, want)


def test_choices_of_many_requests_are_read_side_by_side(host: Host) -> None:
    tokenizer = Tokenizer()
    serving = Serving(host, "deepseek", tokenizer, VERSIONS["fields, with the request"])
    serving.take("a", tokenizer.encode("<｜Assistant｜><think>"), [WEATHER], n=3)
    serving.take("b", tokenizer.encode("<｜Assistant｜></think>"), [WEATHER])
    call = form_of("deepseek")
    outputs = {"a_0": "plan</think>answer", "a_1": f"plan</think>{call}", "b": "plan, answer"}
    outputs |= {"a_2": outputs["a_0"]}  # two equal streams are two
    streams = {k: serving.deltas(k, tokenizer.encode(text + END), 1) for k, text in outputs.items()}
    found = dict.fromkeys(outputs, ("", "", 0))
    for deltas in zip_longest(*streams.values()):
        for key, delta in ((key, delta) for key, delta in zip(streams, deltas, strict=True) if delta is not None):
            thoughts, content, calls = found[key]
            named = sum(bool(c.function.name) for c in delta.tool_calls or [])
            found[key] = f"{thoughts}{delta.reasoning_content}", f"{content}{delta.content}", calls + named
    answer = ("plan", "answer", 0)
    assert found == {"a_0": answer, "a_1": ("plan", "", 1), "b": ("", "plan, answer", 0), "a_2": answer}


def test_a_request_without_tools_has_no_calls(host: Host) -> None:
    tokenizer = Tokenizer()
    serving = Serving(host, "deepseek", tokenizer, VERSIONS["a message for a message"])
    serving.take("r", tokenizer.encode("<｜Assistant｜></think>"), [])
    call = form_of("deepseek")
    assert serving.whole("r", tokenizer.encode(call + END)) == ("", call, [])


def test_the_signatures_are_those_of_the_interface(host: Host) -> None:
    for manager, base in ((host.reasoning, ReasoningParser), (host.tools, ToolParser)):
        kind = manager.get("deepseek")
        for method, function in inspect.getmembers(base, inspect.isfunction):
            asked = list(inspect.signature(function).parameters)
            ours = inspect.signature(getattr(kind, method)).parameters
            assert list(ours)[: len(asked)] == asked
            assert all(p.default is not p.empty for n, p in ours.items() if n not in asked)


def test_names_are_registered_as_the_host_looks_them_up(host: Host) -> None:
    for manager in (host.reasoning, host.tools):
        assert not [name for name in manager.parsers if "_" in name]
        assert [name for name in manager.parsers if not name.startswith("unspool-")] == sorted(
            RFC_NAMES, key=list(manager.parsers).index
        )
    for d in unspool.list_dialects():
        for name in d.names:
            assert bool(d.call) == (f"unspool-{name}".replace("_", "-") in host.tools.parsers)
            assert bool(d.reasoning) == (f"unspool-{name}".replace("_", "-") in host.reasoning.parsers)
    assert host.tools.get("unspool_kimi_k2")(Tokenizer()).dialect.name == "kimi_k2"


def test_the_rfcs_keywords_are_taken(host: Host) -> None:
    thoughts = host.reasoning.get("deepseek")(Tokenizer(), model_name="DeepSeek-V3.1")
    assert thoughts.extract_reasoning_content("ABCD", None, output_stage="REASONING_STAGE") == ("ABCD", "")
    assert thoughts.extract_reasoning_content("ABCD", None, output_stage="CONTENT_STAGE") == ("", "ABCD")
    calls = host.tools.get("deepseek")(Tokenizer(), model_name="DeepSeek-V3.1")
    assert calls.extract_tool_calls(V31 % "{}", request(), output_stage="CONTENT_STAGE").tools_called
    with pytest.raises(ValueError, match="model_status: 'somewhere' is not one of think_start"):
        thoughts.extract_reasoning_content("ABCD", None, "somewhere")


@pytest.mark.parametrize(
    ("prompt", "status", "stage"),
    [
        ("<｜User｜>Hi<｜Assistant｜><think>", "think_start", "REASONING_STAGE"),
        ("<｜User｜>Hi<｜Assistant｜></think>", "think_end", "CONTENT_STAGE"),
        (
            "<｜User｜>Hi<｜Assistant｜></think>Hello.<｜User｜>And?<｜Assistant｜><think>",
            "think_start",
            "REASONING_STAGE",
        ),
        ("<｜User｜>Say <think><｜Assistant｜>", "response_start", "CONTENT_STAGE"),
        ("<｜User｜>Hi<｜Assistant｜></think><｜tool▁calls▁begin｜>", "tool_call_start", "TOOL_CALL_STAGE"),
    ],
)
def test_the_prompts_ids_tell_the_status(host: Host, prompt: str, status: str, stage: str) -> None:
    tokenizer = Tokenizer()
    for manager in (host.reasoning, host.tools):
        half = manager.get("deepseek")(tokenizer)
        assert half.get_model_status(tokenizer.encode(prompt)) == status
        assert half.detect_output_stage(tokenizer.encode(prompt)) == stage


def test_the_two_think_tokens_bound_the_content(host: Host) -> None:
    tokenizer = Tokenizer()
    half = host.reasoning.get("deepseek")(tokenizer)
    assert (half.think_start_token_id, half.think_end_token_id) == (128798, 128799)
    closed = tokenizer.encode("plan</think>answer</think>")
    assert half.is_reasoning_end(closed)
    assert not half.is_reasoning_end([*closed, 128798])
    assert not half.is_reasoning_end([])
    assert tokenizer.decode(half.extract_content_ids(closed), skip_special_tokens=False) == "answer</think>"
    assert half.extract_content_ids(tokenizer.encode("plan")) == []


def test_more_streams_than_are_remembered_are_read_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "MAX_STREAMS", 1)
    thoughts = host.reasoning.get("deepseek")(Tokenizer())
    for name in "ab":
        thoughts.extract_reasoning_content_streaming("", name, name, [], [2], [2], "think_start")
    assert len(thoughts._streams) == 1
    delta = thoughts.extract_reasoning_content_streaming(
        "a", "a</think>x", "</think>x", [2], [2, 3], [3], "think_start"
    )
    assert (delta.reasoning_content, delta.content) == ("", "x")


def test_text_passes_the_tool_parser_as_an_empty_message(host: Host) -> None:
    calls = host.tools.get("deepseek")(Tokenizer())
    delta = calls.extract_tool_calls_streaming("", "Hi", "Hi", [], [2], [2], request())
    assert delta == Delta(content="", reasoning_content="")
    assert (calls.current_tool_id, calls.prev_tool_call_arr) == (-1, [])


def test_the_lists_that_the_host_keeps_are_kept(host: Host) -> None:
    calls = host.tools.get("deepseek")(Tokenizer())
    text = V31 % ARGUMENTS
    calls.extract_tool_calls_streaming("", text, text, [], [2], [2], request(enable_thinking=False))
    assert calls.prev_tool_call_arr == [{"name": "get_weather", "arguments": ARGUMENTS}]
    assert calls.streamed_args_for_tool == [ARGUMENTS]
    assert (calls.current_tool_id, calls.current_tool_name_sent) == (0, True)


@pytest.mark.parametrize("name", RFC_NAMES)
def test_the_rfcs_helpers_read_both_forms_of_a_call(host: Host, name: str) -> None:
    calls = host.tools.get(name)(Tokenizer())
    form = R1 if name in ("deepseek-r1", "deepseek-v3-0324") else V31
    helper = calls._parse_v30324_r1_tool_call if form is R1 else calls._parse_v31_tool_call
    assert helper(form % ARGUMENTS) == ("get_weather", ARGUMENTS)
    assert helper((form % ARGUMENTS).replace("function<", "retrieval<")) == ("get_weather", ARGUMENTS)
    assert helper("no call") is None
    assert calls._parse_tool_json(ARGUMENTS) == {"city": "北京", "days": 3}
    assert calls._parse_tool_json('{"city": "北京", "days": [1, {"a": 2') == {"city": "北京", "days": [1, {"a": 2}]}
    assert calls._parse_tool_json('{"city": "北京", "da') == {"city": "北京"}
    assert calls._parse_tool_json('{"city": "北京", "days": tr') == {"city": "北京", "days": True}
    assert calls._parse_tool_json("nonsense") is None
    assert calls._extract_json_from_codeblock(f"```json\n{ARGUMENTS}\n```") == ARGUMENTS
    assert calls._extract_json_from_codeblock(ARGUMENTS) == ARGUMENTS


def test_the_version_comes_from_the_models_name_or_else_the_parsers(host: Host) -> None:
    tokenizer = Tokenizer()
    calls = host.tools.get("deepseek-r1")(tokenizer)
    assert calls._detect_model_version(tokenizer) == calls.dialect.name
    tokenizer.name_or_path = "deepseek-ai/DeepSeek-V3.1"
    assert calls._detect_model_version(tokenizer) == "deepseekv31"


def test_the_file_for_the_plugin_flag_registers_both_kinds(host: Host) -> None:
    host.tools.parsers.clear()
    host.reasoning.parsers.clear()
    host.tools.import_tool_parser(str(Path(plugin.__file__).with_name("fastdeploy_plugin.py")))
    assert set(RFC_NAMES) <= set(host.tools.parsers)
    assert set(RFC_NAMES) <= set(host.reasoning.parsers)
