"""A contract with FastDeploy's stored interface; the host itself cannot be installed where these tests run.

The stand-in below has the signatures and managers of that interface, and `serve` and `serve_whole` call the parsers as
its serving code does: by position, with the status of the prompt, one reasoning parser for all requests.
"""

import inspect
import logging
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import unspool
from unspool.plugins import fastdeploy as plugin

from .support import WEATHER

SPECIAL = {
    "<｜begin▁of▁sentence｜>": 0,
    "<｜end▁of▁sentence｜>": 1,
    "<think>": 128798,
    "</think>": 128799,
    "<｜User｜>": 128803,
    "<｜Assistant｜>": 128804,
    "<｜tool▁calls▁begin｜>": 128806,
    "<｜tool▁calls▁end｜>": 128807,
    "<｜tool▁call▁begin｜>": 128808,
    "<｜tool▁call▁end｜>": 128809,
    "<｜tool▁sep｜>": 128814,
}
RFC_NAMES = ["deepseek", "deepseek-r1", "deepseek-v3.1", "deepseek-v3-0324"]
V31 = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>%s<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
R1 = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n%s\n```"
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)
ARGUMENTS = '{"city": "北京", "days": 3}'
END = "<｜end▁of▁sentence｜>"


class Tokenizer:
    """DeepSeek's ids of special tokens; other characters are tokens by themselves."""

    eos_token_id = 1
    name_or_path = ""

    def __init__(self) -> None:
        self.added_tokens_decoder = {i: SimpleNamespace(content=t, special=True) for t, i in SPECIAL.items()}

    def get_vocab(self) -> dict[str, int]:
        return dict(SPECIAL)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        while text:
            token = next((t for t in SPECIAL if text.startswith(t)), text[0])
            ids.append(SPECIAL[token] if token in SPECIAL else 200_000 + ord(token))
            text = text[len(token) :]
        return ids

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        literals = {i: t for t, i in SPECIAL.items()}
        return "".join(literals[i] if i in literals else chr(i - 200_000) for i in ids)

    def tokenize(self, text: str) -> list[str]:
        return list(text)


@dataclass
class Function:
    name: str | None = None
    arguments: str | None = None


@dataclass
class Call:
    id: str | None = None
    type: str | None = None
    function: Any = None
    index: int | None = None


@dataclass
class Delta:
    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Call] = field(default_factory=list)


@dataclass
class Extracted:
    tools_called: bool
    tool_calls: list[Call]
    content: str | None = None


class ReasoningParser:
    def __init__(self, tokenizer: Any) -> None:
        self.model_tokenizer = tokenizer

    def is_reasoning_end(self, input_ids: list[int]) -> bool:
        raise NotImplementedError

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        raise NotImplementedError

    def extract_reasoning_content(self, model_output: str, request: Any, model_status: str) -> Any:
        raise NotImplementedError

    def extract_reasoning_content_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        model_status: str,
    ) -> Any:
        raise NotImplementedError

    def get_model_status(self, prompt_token_ids: list[int]) -> str:
        raise NotImplementedError


class ToolParser:
    def __init__(self, tokenizer: Any) -> None:
        self.prev_tool_call_arr: list[dict[str, Any]] = []
        self.current_tool_id = -1
        self.current_tool_name_sent = False
        self.streamed_args_for_tool: list[str] = []
        self.model_tokenizer = tokenizer

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        raise NotImplementedError

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: Any,
    ) -> Any:
        raise NotImplementedError


class Manager:
    """Both managers: registered by any name, looked up with ``-`` for ``_``."""

    def __init__(self, base: type[Any]) -> None:
        self.base = base
        self.parsers: dict[str, type[Any]] = {}

    def register_module(self, name: str, force: bool = True, module: Any = None) -> None:
        if not issubclass(module, self.base):
            raise TypeError(f"module must be subclass of {self.base.__name__}, but got {module}")
        self.parsers[name] = module

    def get(self, name: str) -> type[Any]:
        return self.parsers[name.replace("_", "-")]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stand-in, after the entry points' functions have run."""
    reasoning, tools = Manager(ReasoningParser), Manager(ToolParser)
    modules: dict[str, dict[str, Any]] = {
        "fastdeploy": {},
        "fastdeploy.reasoning": {},
        "fastdeploy.reasoning.abs_reasoning_parsers": {
            "ReasoningParser": ReasoningParser,
            "ReasoningParserManager": reasoning,
        },
        "fastdeploy.entrypoints": {},
        "fastdeploy.entrypoints.openai": {},
        "fastdeploy.entrypoints.openai.protocol": {
            "DeltaMessage": Delta,
            "DeltaToolCall": Call,
            "DeltaFunctionCall": Function,
            "ToolCall": Call,
            "FunctionCall": Function,
            "ExtractedToolCallInformation": Extracted,
        },
        "fastdeploy.entrypoints.openai.tool_parsers": {},
        "fastdeploy.entrypoints.openai.tool_parsers.abstract_tool_parser": {
            "ToolParser": ToolParser,
            "ToolParserManager": tools,
        },
    }
    for name, values in modules.items():
        module = ModuleType(name)
        vars(module).update({**values, "__path__": []})
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    plugin.register_reasoning()
    plugin.register_tools()
    return SimpleNamespace(reasoning=reasoning, tools=tools)


def request(**more: Any) -> Any:
    return SimpleNamespace(tools=[WEATHER], tool_choice="auto", **more)


def serve(
    host: Any, name: str, prompt: str, output: str, size: int, thoughts: Any = None
) -> tuple[str, str, list[Any]]:
    """Stream an output: the tool parser's message takes the other's place where it is none or contains calls."""
    tokenizer = Tokenizer()
    thoughts = thoughts or host.reasoning.get(name)(tokenizer)
    calls = host.tools.get(name)(tokenizer)
    status = thoughts.get_model_status(tokenizer.encode(prompt))
    asked = request(enable_thinking=status == "think_start")
    reasoning, content, found = "", "", []
    ids = tokenizer.encode(output)
    for at in range(0, len(ids), size):
        before, new = ids[:at], ids[at : at + size]
        texts = (tokenizer.decode(before), tokenizer.decode(before + new), tokenizer.decode(new))
        delta = thoughts.extract_reasoning_content_streaming(*texts, before, before + new, new, status)
        called = calls.extract_tool_calls_streaming(*texts, before, before + new, new, asked)
        if called is None or called.tool_calls:
            delta = called
        if delta is None:
            continue
        tokenizer.tokenize(delta.reasoning_content)
        reasoning += delta.reasoning_content
        content += delta.content
        for call in delta.tool_calls:
            if call.function.name is not None:
                found.append([call.function.name, ""])
            found[call.index][1] += call.function.arguments
    return reasoning, content, [tuple(f) for f in found]


def serve_whole(host: Any, name: str, prompt: str, output: str) -> tuple[str, str, list[Any]]:
    """Read a whole output."""
    tokenizer = Tokenizer()
    thoughts = host.reasoning.get(name)(tokenizer)
    status = thoughts.get_model_status(tokenizer.encode(prompt))
    reasoning, content = thoughts.extract_reasoning_content(output, request(), status)
    tokenizer.tokenize(reasoning)
    extracted = host.tools.get(name)(tokenizer).extract_tool_calls(
        output, request(enable_thinking=status == "think_start")
    )
    assert extracted.tools_called == bool(extracted.tool_calls)
    return reasoning, content, [(c.function.name, c.function.arguments) for c in extracted.tool_calls]


CASES = {
    "thought and call": ("<｜Assistant｜><think>", "plan</think>\n\nCALL", ("plan", "", 1)),
    "thought and answer": ("<｜Assistant｜><think>", "plan</think>answer", ("plan", "answer", 0)),
    "thought, prose and call": ("<｜Assistant｜><think>", "plan</think>EFGCALL", ("plan", "EFGCALL", 0)),
    "no thought": ("<｜Assistant｜></think>", "answer", ("", "answer", 0)),
    "call at once": ("<｜Assistant｜></think>", "CALL", ("", "", 1)),
    "thought never closed": ("<｜Assistant｜><think>", "ABCD", ("ABCD", "", 0)),
    "opened in the output": ("<｜Assistant｜>", "<think>plan</think>CALL", ("plan", "", 1)),
    "only a closing": ("<｜Assistant｜>", "plan</think>answer", ("plan", "answer", 0)),
    "no markers": ("<｜Assistant｜>", "answer", ("", "answer", 0)),
}


@pytest.mark.parametrize("name", RFC_NAMES)
@pytest.mark.parametrize("case", CASES)
def test_what_the_rfc_says_holds_whole_and_streamed(host: Any, name: str, case: str) -> None:
    prompt, output, (reasoning, content, calls) = CASES[case]
    form = R1 if name in ("deepseek-r1", "deepseek-v3-0324") else V31
    call = form % ARGUMENTS
    output = output.replace("CALL", call)
    want = (reasoning, content.replace("CALL", call), [("get_weather", ARGUMENTS)] * calls)
    assert serve_whole(host, name, prompt, output) == want
    for size in (1, 3, 1000):
        assert serve(host, name, prompt, output + END, size) == want


def test_the_signatures_are_those_of_the_interface(host: Any) -> None:
    for manager, base in ((host.reasoning, ReasoningParser), (host.tools, ToolParser)):
        kind = manager.get("deepseek")
        for method, function in inspect.getmembers(base, inspect.isfunction):
            asked = list(inspect.signature(function).parameters)
            ours = inspect.signature(getattr(kind, method)).parameters
            assert list(ours)[: len(asked)] == asked
            assert all(p.default is not p.empty for n, p in ours.items() if n not in asked)


def test_names_are_registered_as_the_host_looks_them_up(host: Any) -> None:
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


def test_the_rfcs_keywords_are_taken(host: Any) -> None:
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
def test_the_prompts_ids_tell_the_status(host: Any, prompt: str, status: str, stage: str) -> None:
    tokenizer = Tokenizer()
    for manager in (host.reasoning, host.tools):
        half = manager.get("deepseek")(tokenizer)
        assert half.get_model_status(tokenizer.encode(prompt)) == status
        assert half.detect_output_stage(tokenizer.encode(prompt)) == stage


def test_the_two_think_tokens_bound_the_content(host: Any) -> None:
    tokenizer = Tokenizer()
    half = host.reasoning.get("deepseek")(tokenizer)
    assert (half.think_start_token_id, half.think_end_token_id) == (128798, 128799)
    closed = tokenizer.encode("plan</think>answer</think>")
    assert half.is_reasoning_end(closed)
    assert not half.is_reasoning_end([*closed, 128798])
    assert not half.is_reasoning_end([])
    assert tokenizer.decode(half.extract_content_ids(closed)) == "answer</think>"
    assert half.extract_content_ids(tokenizer.encode("plan")) == []


def test_one_reasoning_parser_reads_many_streams_at_once(host: Any) -> None:
    tokenizer = Tokenizer()
    thoughts = host.reasoning.get("deepseek")(tokenizer)
    outputs = ["plan</think>answer", "plan</think>another", "plan</think>answer"]
    streams = [["", ""] for _ in outputs]
    for at in range(max(map(len, outputs))):
        for output, parts in zip(outputs, streams, strict=True):
            if at < len(output):
                before, new = output[:at], output[at]
                ids = (tokenizer.encode(before), tokenizer.encode(before + new), tokenizer.encode(new))
                delta = thoughts.extract_reasoning_content_streaming(before, before + new, new, *ids, "think_start")
                parts[0] += delta.reasoning_content
                parts[1] += delta.content
    assert streams == [["plan", "answer"], ["plan", "another"], ["plan", "answer"]]


def test_more_streams_than_are_remembered_are_read_again(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "MAX_STREAMS", 1)
    thoughts = host.reasoning.get("deepseek")(Tokenizer())
    for name in "ab":
        thoughts.extract_reasoning_content_streaming("", name, name, [], [2], [2], "think_start")
    delta = thoughts.extract_reasoning_content_streaming(
        "a", "a</think>x", "</think>x", [2], [2, 3], [3], "think_start"
    )
    assert (delta.reasoning_content, delta.content) == ("", "x")


def test_text_passes_the_tool_parser_as_an_empty_message(host: Any) -> None:
    calls = host.tools.get("deepseek")(Tokenizer())
    delta = calls.extract_tool_calls_streaming("", "Hi", "Hi", [], [2], [2], request())
    assert delta == Delta(content="", reasoning_content="")
    assert (calls.current_tool_id, calls.prev_tool_call_arr) == (-1, [])


def test_the_lists_that_the_host_keeps_are_kept(host: Any) -> None:
    calls = host.tools.get("deepseek")(Tokenizer())
    text = V31 % ARGUMENTS
    calls.extract_tool_calls_streaming("", text, text, [], [2], [2], request(enable_thinking=False))
    assert calls.prev_tool_call_arr == [{"name": "get_weather", "arguments": ARGUMENTS}]
    assert calls.streamed_args_for_tool == [ARGUMENTS]
    assert (calls.current_tool_id, calls.current_tool_name_sent) == (0, True)


@pytest.mark.parametrize("name", RFC_NAMES)
def test_the_rfcs_helpers_read_both_forms_of_a_call(host: Any, name: str) -> None:
    calls = host.tools.get(name)(Tokenizer())
    form = R1 if name in ("deepseek-r1", "deepseek-v3-0324") else V31
    helper = calls._parse_v30324_r1_tool_call if form is R1 else calls._parse_v31_tool_call
    assert helper(form % ARGUMENTS) == ("get_weather", ARGUMENTS)
    assert helper("no call") is None
    assert calls._parse_tool_json(ARGUMENTS) == {"city": "北京", "days": 3}
    assert calls._parse_tool_json('{"city": "北京", "days": [1, {"a": 2') == {"city": "北京", "days": [1, {"a": 2}]}
    assert calls._parse_tool_json("nonsense") is None
    assert calls._extract_json_from_codeblock(f"```json\n{ARGUMENTS}\n```") == ARGUMENTS
    assert calls._extract_json_from_codeblock(ARGUMENTS) == ARGUMENTS


def test_the_version_is_known_by_the_models_name_or_else_the_parsers_own(host: Any) -> None:
    tokenizer = Tokenizer()
    calls = host.tools.get("deepseek-r1")(tokenizer)
    assert calls._detect_model_version(tokenizer) == calls.dialect.name
    tokenizer.name_or_path = "deepseek-ai/DeepSeek-V3.1"
    assert calls._detect_model_version(tokenizer) == "deepseekv31"


def test_the_file_for_the_plugin_flag_registers_both_kinds(host: Any) -> None:
    host.tools.parsers.clear()
    host.reasoning.parsers.clear()
    runpy.run_path(str(Path(plugin.__file__).with_name("fastdeploy_plugin.py")))
    assert set(RFC_NAMES) <= set(host.tools.parsers)
    assert set(RFC_NAMES) <= set(host.reasoning.parsers)


def test_a_host_without_these_interfaces_gets_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        plugin.register_tools()
        plugin.register_reasoning()
    assert [r.getMessage().count("\n") for r in caplog.records] == [0, 0]
    assert "nothing is registered with fastdeploy of an unknown version" in caplog.records[0].getMessage()
