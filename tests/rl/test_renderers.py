"""Conversations have the ids that prime-rl's ``renderers`` make by hand for the models that they support.

The tokenizers and weights of these models are not available here. Both sides encode with one invented tokenizer, whose
tokens include all markers of the template and of the renderer, so everything but the merges is compared. Left out are
renderers whose vocabulary must be downloaded (gpt-oss), renderers whose template is in none of the packages, and
DeepSeek-R1, whose template differs there.
"""

import inspect
import re
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken

import unspool
from unspool.rl import Conversation

from ..templates.table import SOURCES
from ..templates.turns import TOOLS
from ..tokenizer import byte_level
from .test_corpus import _MARKER, AGAIN, ASKED, Message

pytestmark = [pytest.mark.rollouts, pytest.mark.filterwarnings("ignore")]


_THINKING = {"enable_thinking": True}
_BARRED = re.compile("｜[A-Z]+｜")


@dataclass(frozen=True)
class Known:
    """A model that both support.

    Attributes:
        file: the file of its template.
        renderer: the name of its renderer.
        options: options of the renderer that match the template's variables.
        variables: variables of the template that match the renderer's defaults.
        special: its named special tokens.
        tools: whether tools are declared. One model's tokenizer sorts their keys, but its template does not.
        system: the system message, if the two have different defaults.
        end: what ends the model's call, if the renderer counts it as part of the result.
        bridges: whether its bridge equals its own rendering: one leaves out a line break.
    """

    file: str
    renderer: str
    options: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    special: dict[str, str] = field(default_factory=dict)
    tools: bool = True
    system: str = ""
    end: str = ""
    bridges: bool = True


KNOWN = [
    Known("Qwen-Qwen3-0.6B", "qwen3"),
    Known("Qwen3.5-4B", "qwen3.5"),
    Known("GLM-4.6", "glm-4.5", end="<|observation|>"),
    Known("GLM-4.7-Flash", "glm-5", end="<|observation|>"),
    Known("poolside-Laguna-XS.2", "laguna-xs.2", bridges=False),
    Known("poolside-Laguna-S-2.1", "laguna-s-2.1"),
    Known("MiniMax-M2", "minimax-m2", system="Be brief."),
    Known("Kimi-K2-Instruct", "kimi-k2", tools=False),
    Known("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron-3"),
    Known(
        "meta-llama-Llama-3.2-3B-Instruct",
        "llama-3",
        variables={"date_string": "26 Jul 2024"},
        special={"bos_token": "<|begin_of_text|>"},
    ),
    Known("tencent-Hy3", "hy3", {"reasoning_effort": "high"}),
    Known("tool_chat_template_gemma4", "gemma4", _THINKING, _THINKING, {"bos_token": "<bos>"}),
    Known(
        "deepseek-ai-DeepSeek-V4",
        "deepseek-v4",
        _THINKING,
        special={"bos_token": "<｜begin▁of▁sentence｜>"},
        system="Be brief.",
    ),
]


class Words:
    """A tokenizer with the interface of `renderers.Tokenizer`, in which every byte and every marker is a token."""

    def __init__(self, marks: set[str], eos: str) -> None:
        self.backend = made = byte_level(special=sorted(marks))
        self.name_or_path = "here"
        self.unk_token_id = None
        self.eos_token_id = made.token_to_id(eos)
        self.bos_token_id = made.token_to_id("<BOS>")

    def encode(self, text: str, *args: Any, **kwargs: Any) -> list[int]:
        ids: list[int] = self.backend.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, token_ids: Any, *args: Any, **kwargs: Any) -> str:
        text: str = self.backend.decode(list(token_ids), skip_special_tokens=False)
        return text

    def convert_tokens_to_ids(self, tokens: Any) -> Any:
        if not isinstance(tokens, str):
            return [self.convert_tokens_to_ids(t) for t in tokens]
        if self.backend.token_to_id(tokens) is None:  # a new renderer asks for its markers
            self.backend.add_special_tokens([AddedToken(tokens, special=True, normalized=False)])
        return self.backend.token_to_id(tokens)


@cache
def _theirs(file: str, renderer: str, text: str) -> tuple[Any, Words]:
    """The renderer, and a tokenizer with the markers of both sides."""
    known = next(k for k in KNOWN if k.file == file)
    base = import_module("renderers.base")
    base._populate_registry()
    kind = base.RENDERER_REGISTRY[renderer]
    sources = {inspect.getsource(inspect.getmodule(c)) for c in kind.__mro__[:-1]}  # type: ignore[arg-type]
    source = next(s for s in SOURCES if s.file == file)
    ends = {e for e in unspool.get_dialect(source.dialect).end if not e.isspace()}
    marks = (
        {m for s in (text, *sources) for m in (*_MARKER.findall(s), *_BARRED.findall(s))} | ends | {"<BOS>", "<EOS>"}
    )
    words = Words(marks, next(iter(sorted(ends, key=len)), "<EOS>"))
    config = import_module("renderers").config_from_name(renderer)
    return kind(words, config.model_copy(update=known.options)), words


@pytest.mark.parametrize("case", ["tool", "user"])
@pytest.mark.parametrize("known", KNOWN, ids=lambda k: f"{k.renderer}-{k.file}")
def test_ids_equal_those_of_the_package_renderers(known: Known, case: str, templates: dict[str, Path]) -> None:
    source = next(s for s in SOURCES if s.file == known.file)
    text = source.text(templates)
    theirs, words = _theirs(known.file, known.renderer, text)
    tools = TOOLS if known.tools else None
    asked = [{"role": "system", "content": known.system}, ASKED] if known.system else [ASKED]
    conversation = Conversation(
        source.dialect,
        words.backend,
        template=text,
        messages=asked,
        tools=tools,
        variables=source.variables | known.variables,
        special={"bos_token": "<BOS>", "eos_token": "<EOS>"} | known.special,
        on_rewrite="fork",
    )
    prompt = theirs.render_ids(asked, tools=tools, add_generation_prompt=True)

    assert conversation.prompt() == prompt

    answer: Message = {"role": "assistant", "content": "Hello there.", "reasoning_content": "plan it"}
    new: list[Message] = [AGAIN]
    if case == "tool":
        id = "functions.get_weather:0"
        function = {"name": "get_weather", "arguments": {"city": "Paris"}}
        answer |= {"content": "", "tool_calls": [{"id": id, "type": "function", "function": function}]}
        new = [{"role": "tool", "tool_call_id": id, "name": "get_weather", "content": "20 °C"}]
    whole = theirs.render([*asked, answer], tools=tools)
    which = zip(whole.token_ids, whole.sampled_mask, whole.message_indices, strict=True)
    sampled = [token for token, written, message in which if written and message == len(asked)]
    sampled += words.encode(known.end) if case == "tool" else []
    message = conversation.extend(sampled)
    assert [c.name for c in message.tool_calls] == (["get_weather"] if case == "tool" else [])
    conversation.add(new)
    bridged = theirs.bridge_to_next_turn(prompt, sampled, new, tools=tools)
    rendered = theirs.render_ids([*asked, answer, *new], tools=tools, add_generation_prompt=True)
    if bridged is None or not known.bridges:
        assert conversation.prompt() == rendered
    else:
        assert conversation.prompt() == bridged.token_ids
        assert not conversation.rewrites
    if not known.bridges:
        assert bridged.token_ids not in (rendered, prompt)
