"""A model of transformers generates under the mask, and everything that it writes is a valid call.

The model's weights are random, so only the mask makes its output right.
"""

import json
import random
from functools import cache
from typing import Any, NamedTuple

import jsonschema
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.grammar.sampling import as_tools
from unspool import Constraint, Parser, constrain, list_dialects, parse
from unspool.grammar import Llguidance, Matcher, Xgrammar

from .support import calls_of, some

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]

SPECIAL = (
    *("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
    *(
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁sep｜>",
    ),
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
)
"""Special tokens of DeepSeek's and Qwen's tokenizers."""
ADDED = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
"""Tokens that Qwen's tokenizers add, but not as special tokens."""
ENDS = {
    "deepseekv3": "<｜end▁of▁sentence｜>",
    "deepseekv31": "<｜end▁of▁sentence｜>",
    "hermes": "<|im_end|>",
    "qwen3-coder": "<|im_end|>",
}
"""Each dialect, and the token that ends its turns."""

SCHEMAS: dict[str, dict[str, Any]] = {
    "get_weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 1, "maxLength": 12},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
        },
        "required": ["city"],
        "additionalProperties": False,
    },
    "plan": {
        "type": "object",
        "properties": {
            "stops": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"enum": ["home", "work", "中文"]}, "stay": {"type": "boolean"}},
                    "required": ["name"],
                    "additionalProperties": False,
                },
                "minItems": 1,
                "maxItems": 3,
            },
            "note": {"type": ["string", "null"], "maxLength": 20},
        },
        "required": ["stops"],
        "additionalProperties": False,
    },
    "now": {"type": "object", "properties": {}, "additionalProperties": False},
}
"""All strings are bounded, because a random model would never end them."""
LIMIT = 1500
"""How many tokens a run may generate."""


@cache
def tokenizer() -> Any:
    """A byte-level BPE trained on the examples of all dialects."""
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=3000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    made.train_from_iterator((raw for d in list_dialects() for e in d.examples for raw in e.raw), trainer)
    made.add_special_tokens(list(SPECIAL))
    made.add_tokens([AddedToken(t, special=False, normalized=False) for t in ADDED])
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|endoftext|>")


@cache
def model() -> Any:
    """A small Llama with random weights. Its vocabulary is padded, like real ones."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=-(-len(tokenizer()) // 128) * 128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LIMIT + 64,
        initializer_range=0.2,  # makes some tokens much likelier than others
    )
    return LlamaForCausalLM(config).eval()


@cache
def engine(name: str, eos: int) -> Llguidance | Xgrammar:
    kind = Xgrammar if name == "xgrammar" else Llguidance
    return kind(tokenizer(), eos=eos, vocab_size=model().config.vocab_size)


class Masked:
    """A logits processor that accepts the sampled tokens, and leaves only the tokens that may come next.

    Args:
        matcher: a matcher at the beginning of the output.
        begin: how many tokens the prompt has.
        likelier: values that are added to the logits of some tokens.
    """

    def __init__(self, matcher: Matcher, begin: int, likelier: dict[int, float]) -> None:
        self.matcher = matcher
        self.at = begin
        self.likelier = likelier

    def __call__(self, ids: Any, scores: Any) -> Any:
        import torch

        for token in ids[0, self.at :].tolist():
            assert self.matcher.accept(token), token
        self.at = ids.shape[1]
        for token, more in self.likelier.items():
            scores[0, token] += more
        mask = self.matcher.mask()
        assert mask.any()
        return scores.masked_fill(~torch.from_numpy(mask)[None], float("-inf"))


class Run(NamedTuple):
    """What was generated, without the token that ended it."""

    ids: list[int]
    ended: bool


def generate(
    name: str,
    constraint: Constraint | None,
    seed: int,
    temperature: float = 1.0,
    *,
    backend: str = "llguidance",
    likelier: dict[int, float] | None = None,
) -> Run:
    import torch

    eos = tokenizer().convert_tokens_to_ids(ENDS[name])
    prompt = tokenizer().encode("<｜begin▁of▁sentence｜>How is the weather?", return_tensors="pt")
    matcher = engine(backend, eos).matcher(some(constraint))
    torch.manual_seed(seed)
    out = model().generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=LIMIT,
        do_sample=True,
        temperature=temperature,
        top_k=0,
        logits_processor=[Masked(matcher, prompt.shape[1], likelier or {})],
        eos_token_id=eos,
        pad_token_id=eos,
    )
    ids = out[0, prompt.shape[1] :].tolist()
    return Run(ids[:-1], True) if ids[-1] == eos else Run(ids, False)


def check(name: str, run: Run, seed: int, **request: Any) -> None:
    """Assert that a run consists of valid calls, read as tokens and as text."""
    text = tokenizer().decode(run.ids, skip_special_tokens=False)
    assert run.ended, text
    parser = Parser(name, tokenizer=tokenizer(), **request)
    rng = random.Random(seed)
    at = 0
    while at < len(run.ids):
        size = rng.choice((1, 1, 2, 7))
        parser.feed_tokens(run.ids[at : at + size])
        at += size
    parser.close("stop")
    message = parser.message
    assert message.tool_calls, text
    for call in message.tool_calls:
        assert (call.status, call.known) == ("ok", True), (text, call)
        jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])
    assert calls_of(message) == calls_of(parse(text, name, **request)), text


@pytest.mark.parametrize("temperature", [0.7, 1.5])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ENDS)
def test_a_required_run_ends_in_valid_calls(name: str, seed: int, temperature: float) -> None:
    request: dict[str, Any] = {"tools": as_tools(SCHEMAS), "tool_choice": "required", "stage": "content"}
    constraint = constrain(name, **request, tokenizer=tokenizer())
    check(name, generate(name, constraint, seed, temperature), seed, **request)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ENDS)
def test_a_named_tool_is_called_once(name: str, seed: int) -> None:
    request: dict[str, Any] = {
        "tools": as_tools(SCHEMAS),
        "tool_choice": {"type": "function", "function": {"name": "plan"}},
        "stage": "content",
    }
    constraint = constrain(name, **request, tokenizer=tokenizer())
    run = generate(name, constraint, seed)
    check(name, run, seed, **request)
    calls = parse(tokenizer().decode(run.ids), name, **request).tool_calls
    assert [c.name for c in calls] == ["plan"]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ENDS)
def test_a_required_run_under_xgrammar_ends_in_valid_calls(name: str, seed: int) -> None:
    # Without strings of bounded length, for which xgrammar is less strict.
    stops = SCHEMAS["plan"]["properties"]["stops"]
    plan = {**SCHEMAS["plan"], "properties": {"stops": stops}}
    request: dict[str, Any] = {
        "tools": as_tools({"plan": plan, "now": SCHEMAS["now"]}),
        "tool_choice": "required",
        "stage": "content",
    }
    constraint = constrain(name, **request)
    check(name, generate(name, constraint, seed, backend="xgrammar"), seed, **request)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ENDS)
def test_a_required_run_may_think_and_talk_before_its_calls(name: str, seed: int) -> None:
    # Free text would not end by itself, so the tokens that lead to calls are made likelier.
    likelier = {
        tokenizer().convert_tokens_to_ids(t): 8.0 for t in ("</think>", "<tool_call>", "<｜tool▁calls▁begin｜>")
    }
    request: dict[str, Any] = {"tools": as_tools(SCHEMAS), "tool_choice": "required", "stage": "reasoning"}
    constraint = constrain(name, **request, tokenizer=tokenizer())
    check(name, generate(name, constraint, seed, likelier=likelier), seed, **request)
