"""The plug-in in vLLM itself: its parser of two halves, and its server without an engine; run by ``make vllm``."""

import importlib
import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

import unspool
from unspool import Dialect, Policy, Stage, ToolStrictLevel

from ..infer import invented
from ..support import CALLING, named, pieces, present, tools_of
from ..tokenizer import byte_level
from .support import CALL, WEATHER, Gathered, Parts, mode_of, parts, raws, read
from .vllm_server import markers

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]
FOREIGN = "<|nobody|>"


@pytest.fixture(scope="module")
def host() -> Any:
    """vLLM's registry, after its own loader has run, and its requests."""
    importlib.import_module("vllm.plugins").load_general_plugins()
    return SimpleNamespace(
        manager=importlib.import_module("vllm.parser").ParserManager,
        request=importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol").ChatCompletionRequest,
    )


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return make_tokenizer([FOREIGN])


def make_tokenizer(special: list[str]) -> Any:
    """A byte-level tokenizer of transformers with special tokens."""
    return importlib.import_module("transformers").PreTrainedTokenizerFast(tokenizer_object=byte_level(special=special))


def parser_of(
    host: Any,
    tokenizer: Any,
    dialect: Dialect,
    tools: Any,
    *,
    thoughts: bool = True,
    level: str | None = None,
    **options: Any,
) -> Any:
    name = f"unspool_{dialect.name}"
    kind = host.manager.get_parser(
        tool_strict_level=level,
        tool_parser_name=name,
        reasoning_parser_name=name if dialect.reasoning and thoughts else None,
        enable_auto_tools=True,
        model_name="tiny",
        tokenizer=tokenizer,
    )
    return kind(tokenizer, tools, **options)


def request_of(host: Any, tools: list[dict[str, Any]], **fields: Any) -> Any:
    known = {"messages": [{"role": "user", "content": "Hi"}], "model": "tiny"}
    return host.request(**known, **({"tools": tools, "tool_choice": "auto", **fields} if tools else fields))


def prompt_of(dialect: Dialect, stage: Stage) -> str:
    """A prompt after which an output is at a stage."""
    start = "".join(dialect.start[:1])
    if stage is not Stage.REASONING:
        return "Hi" + start
    return "Hi" + start + dialect.reasoning[0].text.partition("{reasoning}")[0].removeprefix(start)


def through(host: Any, tokenizer: Any, dialect: Dialect, raw: str, prompt: str, size: int, **fields: Any) -> Parts:
    """An output through vLLM's parser, whole or in pieces."""
    request = request_of(host, tools_of(dialect), **fields)
    parser = parser_of(host, tokenizer, dialect, request.tools)
    ids = tokenizer.encode(prompt)
    if not size:
        parser.set_prompt_token_ids(ids)
        reasoning, content, calls = parser.parse(raw, request, enable_auto_tools=True)
        return reasoning or "", content or "", [(c.name, c.arguments) for c in calls or []]
    cut = pieces(raw, size)
    return gathered(
        parser.parse_delta(piece, tokenizer.encode(piece), request, ids, finished=i == len(cut) - 1)
        for i, piece in enumerate(cut)
    )


def gathered(deltas: Iterable[Any]) -> Parts:
    """What vLLM's messages say together; ``None`` says nothing."""
    found = Gathered()
    for delta in deltas:
        if delta is not None:
            found.say(delta.reasoning, delta.content)
            for call in delta.tool_calls:
                found.call(call.index, call.function.name if call.id is not None else None, call.function.arguments)
    return found.parts


@pytest.mark.parametrize(**named(CALLING))
def test_through_vllm_an_output_says_what_the_parser_says(host: Any, tokenizer: Any, dialect: Dialect) -> None:
    for example, raw in raws(dialect):
        stage = example.stage or dialect.stage
        prompt = prompt_of(dialect, stage)
        want = read(raw, dialect, prompt=prompt)
        if not want[1].strip() and want[2]:
            want = (want[0], "", want[2])  # in vLLM, white space beside calls is no content
        got = [through(host, tokenizer, dialect, raw, prompt, size) for size in (0, 1, 7)]
        if not got[0][1]:
            got = [(r, c if c.strip() else "", calls) for r, c, calls in got]
        assert got == [want] * 3


QUOTING = ["hermes", "deepseekv31", "kimi_k2", "glm45", "mistral", "gemma4", "harmony", "qwen3-coder", "minimax-m2"]
"""Dialects of different kinds, whose calls begin with a special token."""


class Pipe:
    """A request through vLLM's own detokenizer and its parser of two halves, as in its serving code."""

    def __init__(self, host: Any, dialect: Dialect, tokenizer: Any, prompt: list[int], **fields: Any) -> None:
        self.parser = parser_of(host, tokenizer, dialect, None)
        self.request = request_of(host, tools_of(dialect), **fields)
        self.prompt = prompt
        params = importlib.import_module("vllm.sampling_params").SamplingParams
        kind = importlib.import_module("vllm.v1.engine.detokenizer").FastIncrementalDetokenizer
        sampling = params(stop=self.request.stop or [], skip_special_tokens=self.request.skip_special_tokens)
        asked = SimpleNamespace(request_id="r", sampling_params=sampling, prompt_token_ids=prompt)
        self.detokenizer = kind(tokenizer, asked)

    def whole(self, ids: list[int]) -> Parts:
        """The output at once, as in a whole answer."""
        self.generated(ids)
        text = self.detokenizer.get_next_output_text(True, False)
        self.parser.set_prompt_token_ids(self.prompt)
        reasoning, content, calls = self.parser.parse(
            text, self.request, enable_auto_tools=True, model_output_token_ids=self.detokenizer.output_token_ids
        )
        return reasoning or "", content or "", [(c.name, c.arguments) for c in calls or []]

    def generated(self, ids: list[int]) -> tuple[list[int], bool]:
        """The ids that count, and whether a stop string ended the output."""
        before = len(self.detokenizer.output_token_ids)
        stopped = self.detokenizer.update(ids, False) is not None
        return list(self.detokenizer.output_token_ids[before:]), stopped

    def streamed(self, ids: list[int], size: int) -> Parts:
        """The output a few tokens at a time."""
        deltas = []
        for at in range(0, len(ids), size):
            new, stopped = self.generated(ids[at : at + size])
            over = stopped or at + size >= len(ids)
            text = self.detokenizer.get_next_output_text(over, True)
            deltas.append(self.parser.parse_delta(text, new, self.request, self.prompt, finished=over))
            if over:
                break
        return gathered(deltas)


@pytest.mark.parametrize("name", QUOTING)
def test_ids_make_a_spelled_call_text_and_a_real_one_a_call(host: Any, name: str) -> None:
    dialect = unspool.get_dialect(name)
    tokenizer = make_tokenizer(markers(dialect))
    prompt = tokenizer.encode(prompt_of(dialect, Stage.CONTENT))

    def by_ids(ids: list[int]) -> Parts:
        parser = unspool.Parser(
            dialect, tools=tools_of(dialect), prompt=prompt, tokenizer=tokenizer, policy=Policy(text_markers="ignore")
        )
        parser.feed_tokens(ids)
        parser.close()
        return parts(parser.message)

    # With ids, a marker in its arguments counts as a marker; the plug-in reads it as text.
    read_raws = ((raw, read(raw, dialect, stage=Stage.CONTENT)[2]) for _, raw in raws(dialect))
    call = next(raw for raw, calls in read_raws if calls and by_ids(tokenizer.encode(raw))[2] == calls)
    spelled = [i for character in f"日本: {call}" for i in tokenizer.encode(character)]
    ids = [*spelled, *tokenizer.encode(call)]
    want = by_ids(ids)
    assert want[1].startswith("日本: ")
    assert len(want[2]) == len(read(call, dialect, stage=Stage.CONTENT)[2]), "what is spelled is no call"
    by_text = read(f"日本: {call}{call}", dialect, stage=Stage.CONTENT)
    assert by_text != want, "by its text alone it is one"
    ways: list[dict[str, Any]] = [{}, {"skip_special_tokens": True}, {"stop": ["NEVER", "</never>"]}]
    for way in ways:
        fields = {"skip_special_tokens": False, **way}
        got = [Pipe(host, dialect, tokenizer, prompt, **fields).whole(ids)]
        got += [Pipe(host, dialect, tokenizer, prompt, **fields).streamed(ids, size) for size in (1, 3, len(ids))]
        assert got == [want] * 4, fields


def test_a_stop_string_cuts_streams_and_whole_outputs_at_the_same_place(host: Any) -> None:
    hermes = unspool.get_dialect("hermes")
    tokenizer = make_tokenizer(markers(hermes))
    prompt = tokenizer.encode("<|im_start|>assistant\n<think>")
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    ids = tokenizer.encode(f"plan</think>\n\n{call}")
    ids += [i for character in f"One {call} more. STOP it" for i in tokenizer.encode(character)]
    fields: dict[str, Any] = {"stop": ["STOP"], "skip_special_tokens": False}
    got = [Pipe(host, hermes, tokenizer, prompt, **fields).streamed(ids, size) for size in (1, 5, len(ids))]
    got.append(Pipe(host, hermes, tokenizer, prompt, **fields).whole(ids))
    assert got == [("plan", f"One {call} more. ", [("now", "{}")])] * 4


@pytest.mark.parametrize(**named(CALLING))
@pytest.mark.parametrize("choice", ["required", "named", "auto", "level", "single"])
def test_requests_carry_our_structural_tag(host: Any, tokenizer: Any, dialect: Dialect, choice: str) -> None:
    tool = {**WEATHER, "function": {**WEATHER["function"], "strict": choice != "level"}}
    mode = mode_of(choice)
    request = request_of(host, [tool], tool_choice=mode, parallel_tool_calls=choice != "single")
    parser = parser_of(host, tokenizer, dialect, request.tools, level="function" if choice == "level" else None)
    adjusted = parser.adjust_request(request)
    level = ToolStrictLevel(int(choice == "level"))
    parallel = choice != "single"
    own = present(unspool.constrain(dialect, [tool], mode, parallel, stage=Stage.CONTENT, strict_level=level))
    kind = importlib.import_module("xgrammar").StructuralTag
    carried = json.loads(adjusted.structured_outputs.structural_tag)
    if choice != "single":  # for "single", vLLM adds its own limit
        assert carried == kind.model_validate(own.structural_tag).model_dump()
    assert "get_weather" in json.dumps(carried)
    assert adjusted.skip_special_tokens is False


def test_vllm_finds_the_dialect_by_the_template(host: Any) -> None:
    tokenizer = make_tokenizer(["<|im_start|>", "<|im_end|>"])
    tokenizer.chat_template = invented.TEMPLATES["known"]
    kind = host.manager.get_parser(
        tool_parser_name="unspool_auto",
        reasoning_parser_name="unspool_auto",
        enable_auto_tools=True,
        model_name="tiny",
        tokenizer=tokenizer,
    )
    _, content, calls = kind(tokenizer, None).parse(
        f"Sure.\n{CALL}", request_of(host, [WEATHER]), enable_auto_tools=True
    )
    assert (content, [(c.name, c.arguments) for c in calls]) == ("Sure.", [("get_weather", '{"city": "Paris"}')])


def test_further_arguments_of_a_call_are_sent_without_unset_fields(host: Any, tokenizer: Any) -> None:
    hermes = unspool.get_dialect("hermes")
    request = request_of(host, [WEATHER])
    parser = parser_of(host, tokenizer, hermes, request.tools, thoughts=False)
    deltas = [
        parser.parse_delta(piece, tokenizer.encode(piece), request, [1], finished=False)
        for piece in ('<tool_call>\n{"name": "get_weather", "arguments": {"city": "', "Oslo")
    ]
    assert deltas[1].model_dump(exclude_unset=True) == {"tool_calls": [{"index": 0, "function": {"arguments": "Oslo"}}]}
    assert [type(deltas[1].tool_calls[0]), type(deltas[1])] == [type(deltas[0].tool_calls[0]), type(deltas[0])]


def test_every_parser_of_vllm_has_a_dialect_or_is_listed_on_the_migration_page() -> None:
    tools = importlib.import_module("vllm.tool_parsers").ToolParserManager
    reasoning = importlib.import_module("vllm.reasoning").ReasoningParserManager
    names = {*tools.list_registered(), *reasoning.list_registered()}
    ours = {name for dialect in unspool.list_dialects() for name in dialect.names}
    others = {name for name in names - ours if not name.startswith("unspool")}
    assert others == {"hf", "minimax_m2_append_think"}
