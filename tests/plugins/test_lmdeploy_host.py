"""The plug-in in lmdeploy's own response parser; run by ``make lmdeploy``."""

import importlib
from typing import Any

import pytest

import unspool
from unspool import Dialect, Stage
from unspool.plugins import lmdeploy as plugin

from ..support import CALLING, named, pieces, present, tools_of
from .support import WEATHER, Gathered, Parts, raws, read
from .test_vllm_host import make_tokenizer

pytestmark = [pytest.mark.lmdeploy, pytest.mark.filterwarnings("default")]
FOREIGN = "<|nobody|>"


@pytest.fixture(scope="module")
def host() -> Any:
    """lmdeploy's response parser as its server gets it, after our parsers are registered."""
    plugin.register()
    return importlib.import_module("lmdeploy.serve.parsers").ResponseParserManager.get("default")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return make_tokenizer([FOREIGN, "<think>", "</think>"])


def request_of(tools: list[dict[str, Any]] | None, **fields: Any) -> Any:
    protocol = importlib.import_module("lmdeploy.serve.openai.protocol")
    return protocol.ChatCompletionRequest(
        model="m", messages=[{"role": "user", "content": "Hi"}], tools=tools or None, **fields
    )


def choose(host: Any, tokenizer: Any, dialect: Dialect) -> None:
    """Set only our parsers for a dialect. If a name is ``None``, lmdeploy keeps the parser that was set before."""
    host.reasoning_parser_cls = host.tool_parser_cls = None
    name = f"unspool_{dialect.name}".replace(".", "_")
    host.set_parsers(
        reasoning_parser_name=name if dialect.reasoning else None, tool_parser_name=name, tokenizer=tokenizer
    )
    assert host.tool_parser_cls is not None


def through(kind: Any, raw: str, request: Any, size: int) -> Parts:
    """An output through lmdeploy's parser, whole or in pieces. The last piece is marked."""
    parser = kind(request)
    if not size:
        content, calls, reasoning = parser.parse_complete(raw, [])
        return reasoning or "", content or "", [(c.function.name, c.function.arguments) for c in calls or []]
    cut = pieces(raw, size)
    chunks = [parser.stream_chunk(piece, [1], final=i == len(cut) - 1) for i, piece in enumerate(cut)]
    messages = [message for pairs in chunks for message, _ in pairs]
    assert all(bool(m.tool_calls) == called for pairs in chunks for m, called in pairs)
    found = Gathered()
    for message in messages:
        found.say(message.reasoning_content, message.content)
        for call in message.tool_calls or []:
            found.call(call.index, call.function.name, call.function.arguments)
    return found.parts


@pytest.mark.parametrize(**named(CALLING))
def test_through_lmdeploy_an_output_says_what_the_parser_says(host: Any, tokenizer: Any, dialect: Dialect) -> None:
    choose(host, tokenizer, dialect)
    request = request_of(tools_of(dialect))
    for _, raw in raws(dialect):
        want = read(raw, dialect, Stage.UNDECIDED if dialect.reasoning else Stage.CONTENT)
        assert [through(host, raw, request, size) for size in (0, 1, 7)] == [want] * 3


def test_foreign_special_tokens_are_dropped_and_markers_are_kept(host: Any, tokenizer: Any) -> None:
    choose(host, tokenizer, unspool.get_dialect("hermes"))
    request = request_of([WEATHER])
    raw = f'So.</think>\n\nSure.{FOREIGN}\n<tool_call>\n{{"name": "get_weather", "arguments": {{}}}}\n</tool_call>'
    assert through(host, raw, request, 0) == ("So.", "Sure.", [("get_weather", "{}")])
    assert host(request).request.skip_special_tokens is False


def test_a_required_call_is_constrained_in_the_dialects_own_form(host: Any, tokenizer: Any) -> None:
    choose(host, tokenizer, unspool.get_dialect("hermes"))
    request = request_of([WEATHER], tool_choice="required", chat_template_kwargs={"enable_thinking": False})
    made = present(unspool.constrain("hermes", [WEATHER], "required", stage=Stage.CONTENT))
    assert host(request).request.response_format == made.structural_tag


def test_without_tools_markup_is_content_and_without_thinking_nothing_is_reasoning(host: Any, tokenizer: Any) -> None:
    choose(host, tokenizer, unspool.get_dialect("hermes"))
    call = '<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
    assert through(host, call, request_of(None), 1) == ("", call, [])
    off = request_of(None, chat_template_kwargs={"enable_thinking": False})
    assert through(host, "Sure.", off, 1) == ("", "Sure.", [])


def test_lmdeploys_own_parsers_keep_their_names(host: Any, tokenizer: Any) -> None:
    host.set_parsers(reasoning_parser_name="default", tool_parser_name="qwen3", tokenizer=tokenizer)
    raw = 'So.</think>Sure.<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    reasoning, content, calls = through(host, raw, request_of([WEATHER]), 0)
    assert (reasoning, content) == ("So.", "Sure.")
    assert [name for name, _ in calls] == ["get_weather"]
