"""The two halves as vLLM's serving code calls them, without vLLM; `test_vllm_host` runs the real thing."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import unspool
from unspool import Dialect, Stage, ToolCallDelta, ToolsError, ToolStrictLevel
from unspool.plugins import following
from unspool.plugins import vllm as plugin
from unspool.plugins.host import foreign_tokens
from unspool.plugins.reader import CallDelta, ReadPiece
from unspool.tokens import Detokenizer

from ..support import CALLING, named, pieces, present, tools_of
from ..tokenizer import byte_level
from .support import CALL, STRICT, WEATHER, Gathered, Parts, Tokens, mode_of, objects, parts, raws

MARKERS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_start|>", "<|im_end|>"]
FOREIGN = "<|nobody|>"


class HostReasoning:
    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        self._model_config = kwargs.get("model_config")


class HostTools:
    def __init__(self, tokenizer: Any, tools: Any = None) -> None:
        self.prev_tool_call_arr: list[dict[str, Any]] = []
        self.streamed_args_for_tool: list[str] = []
        self.current_tool_id = -1


def halves(name: str, tokenizer: Any, *, thoughts: bool = True, **options: Any) -> tuple[Any, Any]:
    """Both halves, made one after the other, as in vLLM."""

    def message(**fields: Any) -> Any:
        return SimpleNamespace(**{"reasoning": None, "content": None, "tool_calls": [], **fields})

    def as_is(delta: ReadPiece) -> Any:
        return message(reasoning=delta.reasoning or None, content=delta.content or None, tool_calls=delta.calls)

    first: Any = type("First", (plugin.ReasoningHalf, HostReasoning), {"dialect_name": name, "delta_type": message})

    def piece(event: ToolCallDelta) -> Any:
        return message(tool_calls=[CallDelta(event.index, arguments=event.arguments)])

    calls: dict[str, Any] = {"make_delta": as_is, "make_piece": piece, "make_calls": as_is}
    made = {"dialect_name": name, "tag_type": dict, **{name: staticmethod(make) for name, make in calls.items()}}
    second: Any = type("Second", (plugin.ToolHalf, HostTools), made)
    return (first(tokenizer, **options) if thoughts else None), second(tokenizer, None)


def asked(tools: list[dict[str, Any]], choice: Any = "auto", **fields: Any) -> Any:
    return SimpleNamespace(tools=objects(tools), tool_choice=choice, skip_special_tokens=True, **fields)


def through(dialect: Dialect, tokenizer: Any, raw: str, prompt: str, size: int, tools: Any = None) -> Parts:
    """An output through both halves, whole or in pieces, in the order in which vLLM calls them."""
    first, second = halves(dialect.name, tokenizer, thoughts=bool(dialect.reasoning))
    request = asked(tools_of(dialect) if tools is None else tools)
    if first is not None:
        first.set_prompt_token_ids(tokenizer.encode(prompt))
    if not size:
        reasoning, content = first.extract_reasoning(raw, request) if first else ("", raw)
        result = second.extract_tool_calls(content or "", request)
        return reasoning or "", result.content or "", [(c.name, c.arguments) for c in result.tool_calls]
    deltas = []
    for piece in pieces(raw, size):
        text = piece
        if first is not None and not first.has_engine_confirmed_reasoning_end():
            text = first.extract_reasoning_streaming("", piece, piece, [], [], []).content
            assert first.has_engine_confirmed_reasoning_end()
            assert first.finish_streaming() is None
        deltas.append(second.extract_tool_calls_streaming("", text, text, [], [], [], request))
    found = Gathered.of([*deltas, second.finish_streaming()])
    sent = [arguments for _, arguments in found[2]]
    assert second.streamed_args_for_tool == [p["arguments"] for p in second.prev_tool_call_arr] == sent
    return found


@pytest.fixture(scope="module")
def tokens() -> Tokens:
    return Tokens(byte_level(special=[*MARKERS, FOREIGN]), "Qwen/Qwen3-8B")


@pytest.mark.parametrize(**named([d for d in CALLING if d.reasoning]))
def test_both_halves_together_give_what_the_parser_gives(dialect: Dialect, tokens: Tokens) -> None:
    for example, raw in raws(dialect):
        start = "".join(dialect.start[:1])
        opening = dialect.reasoning[0].text.partition("{reasoning}")[0].removeprefix(start)
        prompt = start + (opening if (example.stage or dialect.stage) is Stage.REASONING else "")
        want = parts(unspool.parse(raw, dialect, tools=tools_of(dialect), prompt=prompt))
        assert [through(dialect, tokens, raw, prompt, size) for size in (0, 1, 7)] == [want] * 3


def test_foreign_special_tokens_are_dropped_but_in_calls(tokens: Tokens) -> None:
    raw = f"{FOREIGN}So.</think>\n\nSure.{FOREIGN}\n{CALL.replace('Paris', 'Pa' + FOREIGN)}{FOREIGN}"
    hermes = unspool.get_dialect("hermes")
    for size in (0, len(raw)):
        answer = through(hermes, tokens, raw, "<|im_start|>assistant\n<think>", size, [WEATHER])
        assert answer == ("So.", "Sure.", [("get_weather", '{"city": "Pa%s"}' % FOREIGN)])  # noqa: UP031


def test_without_our_tool_parser_markup_of_calls_is_content_and_the_end_follows_white_space(tokens: Tokens) -> None:
    first, _ = halves("hermes", tokens)
    first.mate = None
    first.set_prompt_token_ids(tokens.encode("<|im_start|>assistant\n<think>"))
    assert first.extract_reasoning(f"plan</think>\n\n{CALL}", asked([WEATHER])) == ("plan", CALL)
    ended = []
    for piece in ("plan", "</think>", "\n", "\n", "Sure"):
        first.extract_reasoning_streaming("", piece, piece, [], [], [])
        ended.append(first.has_engine_confirmed_reasoning_end())
    assert ended == [False, False, False, False, True]
    assert first.finish_streaming() is None


@pytest.mark.parametrize("opening", ["<think>", ""], ids=["opened", "opened by the prompt"])
def test_our_tool_parser_alone_leaves_reasoning_as_written(tokens: Tokens, opening: str) -> None:
    written = f"{opening}plan</think>\n\nSure."
    _, second = halves("hermes", tokens, thoughts=False)
    extracted = second.extract_tool_calls(f"{written}\n{CALL}", asked([WEATHER]))
    assert (extracted.content, len(extracted.tool_calls)) == (written, 1)
    assert second.finish_streaming() is None
    request = asked([WEATHER])
    deltas = [second.extract_tool_calls_streaming("", c, c, [], [], [], request) for c in f"{written}\n{CALL}"]
    assert "".join(d.content or "" for d in deltas if d) == written


def test_halves_of_two_dialects_are_combined(tokens: Tokens) -> None:
    first: Any = type("First", (plugin.ReasoningHalf, HostReasoning), {"dialect_name": "kimi"})(tokens)
    second: Any = type("Second", (plugin.ToolHalf, HostTools), {"dialect_name": "hermes"})(tokens)
    assert (second.mate, second.dialect.reasoning) == (first, first.dialect.reasoning)


@pytest.mark.parametrize(
    ("switch", "reasoning", "content"),
    [({"thinking": True}, "plan", "answer"), ({"enable_thinking": False}, "", "plananswer"), (None, "plan", "answer")],
)
@pytest.mark.parametrize("empty", [False, True])
def test_without_a_prompt_the_thinking_switch_decides(
    tokens: Tokens, switch: Any, reasoning: str, content: str, empty: bool
) -> None:
    first, _ = halves("deepseekv31", tokens, chat_template_kwargs=switch)
    if empty:
        first.set_prompt_token_ids([])
    got = first.extract_reasoning("plan</think>answer", asked([]))
    assert got == (reasoning or None, content)


def test_ids_give_the_end_of_reasoning_its_content_and_its_length(tokens: Tokens) -> None:
    first, _ = halves("hermes", tokens)
    assert (first.reasoning_start_str, first.reasoning_end_str) == ("<think>", "</think>")
    start = "<|im_start|>assistant\n"
    for text, ended in (("<think>so", False), ("<think>so</think>", True), ("", False), (CALL[:30], True)):
        ids = tokens.encode(start + text)
        assert first.is_reasoning_end(ids) == ended, text
        assert first.is_reasoning_end_streaming(ids, ids[-1:]) == ended, text
    first.adjust_initial_state_from_prompt(tokens.encode(start + "<think>"))
    output = tokens.encode("abc</think>def")
    assert first.count_reasoning_tokens(output) == 3
    assert first.extract_content_ids(output) == output  # the other half gets all ids
    first.mate = None
    assert tokens.decode(first.extract_content_ids(output)) == "def"
    assert first.extract_content_ids(output[:3]) == []
    off, _ = halves("hermes", tokens, chat_template_kwargs={"enable_thinking": False})
    assert off.is_reasoning_end([])


def spell(tokens: Tokens, text: str) -> list[int]:
    """The ids that spell a text without special tokens."""
    return [i for character in text for i in tokens.encode(character)]


def test_a_spelled_closing_ends_reasoning_only_if_it_is_no_special_token(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = tokens.encode("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>")
    spelled = spell(tokens, "so </think>\n\n<tool_call>\n{<|im_start|>assistant\n ")

    def ends(output: list[int], name: str = "hermes") -> list[int]:
        """Where the reasoning ends, asked token by token as in the engine. To ask about all ids at once must agree."""
        first, _ = halves(name, tokens)
        assert not first.is_reasoning_end(prompt)
        ids = [*prompt, *output]
        whole = range(len(prompt) + 1, len(ids) + 1)
        found = [n - len(prompt) for n in whole if first.is_reasoning_end_streaming(ids[:n], ids[n - 1 : n])]
        assert found[:1] == [n - len(prompt) for n in whole if halves(name, tokens)[0].is_reasoning_end(ids[:n])][:1]
        return found[:1]

    assert ends(spelled) == []
    assert ends([*spelled, *tokens.encode("</think>"), *spelled]) == [len(spelled) + 1]
    assert ends(spell(tokens, "<|im_start|>x") + tokens.encode("</think>\n")) == [14]
    assert halves("hermes", tokens)[0].is_reasoning_end([*tokens.encode("<|im_start|>assistant\n"), *spelled]) is False
    first, _ = halves("hermes", tokens)
    first.set_prompt_token_ids(prompt)
    output = [*spelled, *tokens.encode("</think>"), *spell(tokens, "Yes.")]
    assert first.count_reasoning_tokens(output) == len(spelled)
    first.mate = None
    assert tokens.decode(first.extract_content_ids(output)) == "Yes."
    # The tokenizer has no token for this dialect's closing, which is text, however it is cut.
    prompt = tokens.encode("<|im_start|>assistant\n<seed:think>")
    for closing in (tokens.encode("</seed:think>"), spell(tokens, "</seed:think>")):
        assert ends([*tokens.encode("so"), *closing], "seed-oss") == [2 + len(closing)]
    monkeypatch.setenv("UNSPOOL_POLICY", "text_markers=accept")
    prompt = tokens.encode("<|im_start|>assistant\n<think>")
    assert ends(spelled) == [len("so </think>")]


def test_many_openings_in_a_thought_are_each_read_once(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    pushed = 0

    class Counting(Detokenizer):
        def push(self, token: int) -> tuple[str, str]:
            nonlocal pushed
            pushed += 1
            return super().push(token)

    monkeypatch.setattr(following, "Detokenizer", Counting)
    first, _ = halves("hermes", tokens)
    ids = tokens.encode("<|im_start|>assistant\n<think>" + "so <think>, again " * 300)
    begin = ids.index(tokens.encode("<think>")[0])
    assert not any(first.is_reasoning_end_streaming(ids[:n], ids[n - 1 : n]) for n in range(begin + 1, len(ids) + 1))
    assert len(ids) - begin <= pushed <= len(ids)


def test_ids_distinguish_a_call_from_text_that_spells_one(tokens: Tokens) -> None:
    spelled = spell(tokens, CALL)
    ids = [*spelled, *tokens.encode(f"</think>{CALL}")]
    text = tokens.decode(ids, skip_special_tokens=False)
    want = (CALL, "", ["get_weather"])
    for thoughts in (True, False):
        for size in (1, 4, len(ids)):
            first, second = halves("hermes", tokens, thoughts=thoughts)
            actual = []
            for at in range(0, len(ids), size):
                new = ids[at : at + size]
                piece = tokens.decode(new, skip_special_tokens=False)
                actual.append(second.extract_tool_calls_streaming("", piece, piece, [], new, new, asked([WEATHER])))
            reasoning, content, calls = Gathered.of([*actual, second.finish_streaming()])
            wanted = want if first is not None else ("", CALL + "</think>", want[2])
            assert (reasoning, content, [name for name, _ in calls]) == wanted
        first, second = halves("hermes", tokens, thoughts=thoughts)
        (first or second).output_ids = ids
        request = asked([WEATHER])
        reasoning, content = first.extract_reasoning(text, request) if first else ("", text)
        result = second.extract_tool_calls(content or "", request)
        assert [c.name for c in result.tool_calls] == want[2]
        if first is not None:
            assert reasoning == CALL


def test_requests_have_markers_written_out_and_wrong_tools_refused(tokens: Tokens) -> None:
    first, second = halves("hermes", tokens)
    assert first.adjust_request(asked([])).skip_special_tokens is False
    assert second.adjust_request(asked([WEATHER])).skip_special_tokens is False
    assert second.adjust_request(asked([])).skip_special_tokens is True
    with pytest.raises(ToolsError, match="get_weather"):
        second.adjust_request(asked([WEATHER, WEATHER]))


@pytest.mark.parametrize("reasoning", [False, True])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("choice", ["auto", "strict", "level", "required", "named", "none"])
def test_the_tag_is_the_constraint_after_the_reasoning(
    tokens: Tokens, choice: str, single: bool, reasoning: bool
) -> None:
    _, second = halves("hermes", tokens)
    tool, mode = STRICT if choice == "strict" else WEATHER, mode_of(choice)
    level = int(choice == "level")
    least = max(level, int(single))
    stage = None if reasoning else Stage.CONTENT
    own = unspool.constrain("hermes", [tool], mode, not single, stage=stage, strict_level=ToolStrictLevel(least))
    assert (own is None) == (choice == "none" or (choice == "auto" and not single)), "the case is what it says"
    request = asked([tool], mode, parallel_tool_calls=not single)
    tag = second.get_structural_tag(request, reasoning=reasoning, strict_level=level)
    assert tag == (own and own.structural_tag)


def test_the_dialect_is_found_by_the_model(tokens: Tokens) -> None:
    model = SimpleNamespace(model="moonshotai/Kimi-K2-Instruct")
    first, second = halves("auto", tokens, model_config=model)
    assert (first.dialect.name, second.dialect.name) == ("kimi_k2", "kimi_k2")
    assert halves("auto", tokens, thoughts=False)[1].dialect.name == unspool.detect_dialect("Qwen3-8B")[0].dialect


def test_a_dialect_without_calls_is_refused(tokens: Tokens) -> None:
    with pytest.raises(ValueError, match="'think' has no calls"):
        halves("think", tokens)


def test_the_module_for_the_flags_registers_when_it_is_imported_and_the_others_import_no_engine() -> None:
    code = (
        "import sys, unspool.plugins.vllm, unspool.plugins.sglang, unspool.plugins.fastdeploy\n"
        "assert not {'vllm', 'sglang', 'fastdeploy', 'torch'} & set(sys.modules)\n"
        "import unspool.plugins.vllm_plugin\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert "nothing is registered with vllm" in done.stderr


def test_tools_of_the_constructor_are_used_if_a_request_has_none(tokens: Tokens) -> None:
    _, second = halves("hermes", tokens, thoughts=False)
    raw = CALL.replace("get_weather", "anything")
    assert second.extract_tool_calls(raw, None).tool_calls[0].name == "anything"
    assert second.extract_tool_calls(raw, SimpleNamespace(tools=None, tool_choice="none")).content == raw
    known = type(second)(tokens, [WEATHER])
    assert known.extract_tool_calls(CALL, None).tool_calls[0].name == "get_weather"


def test_a_tokenizer_that_cannot_be_cached_is_asked_each_time(tokens: Tokens) -> None:
    class Slotted:
        __slots__ = ("added_tokens_decoder", "decode")

    slotted: Any = Slotted()
    slotted.added_tokens_decoder = tokens.added_tokens_decoder
    slotted.decode = tokens.decode
    assert present(foreign_tokens(unspool.get_dialect("hermes"), slotted)).search(FOREIGN)
