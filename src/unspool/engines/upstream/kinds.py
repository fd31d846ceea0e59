"""The kinds of servers: the endpoint for raw prompts, the names of fields, and the form of answers of each.

Two facts decide which endpoint is used. The text must keep its special tokens. The prompt, which the chat template
already begins with the tokenizer's first token, must not get that token a second time.

* vLLM, FastDeploy: ``/v1/completions`` with ``skip_special_tokens: false`` and ``add_special_tokens: false``.
* SGLang: ``/v1/completions`` too; its native ``/generate`` repeats the whole text in every event. It adds a first token
  to texts and generates 16 tokens by default, so ``/tokenize`` is asked first, and ids are sent.
* llama.cpp: its own ``/completion``, which shows single special tokens (``preserved_tokens``); ids from ``/tokenize``.
* Ollama: ``/api/generate`` with ``raw``: JSON lines, without special tokens, ids and grammars.
* llama-cpp-python, transformers: ``/v1/completions`` is all there is. Neither shows special tokens; see the guide.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from ...errors import ConstraintError
from ...grammar import Constraint
from ..base import EngineError, Request, Sampling, Thinking
from .answers import EventReader, read_completion, read_native, read_ollama
from .sse import Events, Lines

log = logging.getLogger("unspool.engines")

_ALL: Final = MappingProxyType({name: name for name in Sampling.__struct_fields__})
_LLAMA: Final = MappingProxyType({**_ALL, "repetition_penalty": "repeat_penalty"})
_NEUTRAL: Final[dict[str, tuple[float, ...]]] = {
    "top_p": (1,),
    "top_k": (-1, 0),
    "min_p": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
}
"""Values that change nothing, which may be left out if a server does not know the field."""


class ListedModel(msgspec.Struct):
    """The first model that a server reports in ``/v1/models``, and the tokens of prompt and output together."""

    model: str | None = None
    context: int | None = None


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between servers."""

    name: str
    owner: str = ""  # the owner of models in ``/v1/models``; ``""`` if that does not identify the kind
    path: str = ""  # a path in ``/openapi.json`` that no other kind has; ``""`` if it is not needed
    # generate, health: paths.
    generate: str = "/v1/completions"
    health: str = "/health"
    # The path that tokenizes a text, with the names of the text's field and of the option to switch off.
    tokenize: tuple[str, str, str] | None = None
    ids: bool = True
    fields: Mapping[str, str] = _ALL  # the names of `unspool.engines.Sampling`'s fields; others are refused
    seeds: int = 2**63  # seeds are taken modulo this
    length: str = "max_tokens"  # the name of the field for ``max_tokens``
    # Its value by default: a number, the model's ``context``, or what is ``left`` of that; ``None``: the server's own.
    endless: int | str | None = None
    always: Mapping[str, Any] = MappingProxyType({})  # fields of every request
    end: str = ""  # the field that keeps the token that ends the output; ``""`` if there is none
    markers: str = ""  # the field for special tokens to show; ``""`` if there is none
    listed: bool = True  # whether ``/v1/models`` lists what is served, not what could be served
    # Makes the fields of a constraint; ``None`` if constraints are not supported.
    constrain: Callable[[Constraint], dict[str, Any]] | None = None
    # Makes the fields of a budget of reasoning; ``None`` if budgets are not supported.
    budget: Callable[[Thinking], dict[str, Any]] | None = None
    # The field that holds all fields but the prompt, the model and `always`; ``""`` if they stand alone.
    options: str = ""
    within: Mapping[str, Any] = MappingProxyType({})  # further fields in there
    media: tuple[str, ...] = ()  # the kinds of media that it takes; only rows for prompts with media have any
    described: str = ""  # the path that describes the served model; ``""`` if nothing there says what it takes
    # Which kinds the served model takes, by that description; ``None`` if it does not say.
    senses: Callable[[Mapping[str, Any]], Sequence[str] | None] = lambda described: None
    # Makes the fields of a prompt; ``None`` means the field ``prompt`` alone.
    place: Callable[[Request, Any], dict[str, Any]] | None = None
    marks: bool = False  # whether that description says what stands for media in texts
    stream: str = "text/event-stream"  # the type of the stream's content
    events: Callable[[], Events | Lines] = Events  # makes a reader of the stream
    opt_in: bool = False  # whether the server refuses budgets unless it is set up for them
    read: EventReader | type[EventReader] = read_completion  # a class makes a reader for each stream
    echo: bool = False  # whether log-probabilities of prompts are reported
    # Further fields that make it report the tokens as they were sampled; ``None`` if it cannot.
    capture: Mapping[str, Any] | None = None

    @property
    def shows_special(self) -> bool:
        """Whether texts have their special tokens."""
        return bool(self.markers) or "skip_special_tokens" in self.always


def _tag(constraint: Constraint) -> dict[str, Any]:
    """A structural tag as ``response_format``. Servers refuse an unknown form; some ignore unknown fields."""
    return {"response_format": constraint.structural_tag}


def _grammar(constraint: Constraint) -> dict[str, Any]:
    return {"grammar": constraint.gbnf}


def _llama_budget(thinking: Thinking) -> dict[str, Any]:
    tags = {"reasoning_budget_start_tag": thinking.opening, "reasoning_budget_end_tags": [thinking.closing]}
    return {"reasoning_budget_tokens": thinking.budget, **tags}


# Counts in every event, since a stop string may end the output before the last one.
_USAGE: Final = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}

_LLAMA_CPP: Final = Kind(
    name="llama.cpp",
    owner="llamacpp",
    generate="/completion",
    tokenize=("/tokenize", "content", "add_special"),
    fields={**_LLAMA, "logprobs": "n_probs"},
    seeds=2**32 - 1,
    length="n_predict",
    endless=-1,
    # Otherwise the last event would contain the whole prompt.
    always={
        "response_fields": ["content", "stop", "stop_type", "tokens_predicted", "tokens_evaluated", "timings"],
        "cache_prompt": True,
    },
    markers="preserved_tokens",
    constrain=_grammar,
    budget=_llama_budget,
    read=read_native,
    capture={"return_tokens": True, "n_probs": 1},
)

KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind(
            name="vllm",
            owner="vllm",
            endless="context",
            always={
                **_USAGE,
                "skip_special_tokens": False,
                "spaces_between_special_tokens": False,
                "add_special_tokens": False,
                "return_token_ids": True,
            },
            end="include_stop_str_in_output",
            constrain=_tag,
            budget=lambda thinking: {"thinking_token_budget": thinking.budget},
            opt_in=True,
            echo=True,
            capture={"logprobs": 0, "return_weight_versions": True},
        ),
        Kind(
            name="sglang",
            owner="sglang",
            tokenize=("/tokenize", "prompt", "add_special_tokens"),
            endless="left",
            always={**_USAGE, "skip_special_tokens": False, "return_token_ids": True},
            end="no_stop_trim",
            constrain=_tag,
            budget=lambda thinking: {"custom_params": {"thinking_budget": thinking.budget}},
            opt_in=True,
            echo=True,
        ),
        _LLAMA_CPP,
        msgspec.structs.replace(
            _LLAMA_CPP,
            name="llama.cpp-llguidance",
            owner="",
            constrain=lambda constraint: {"grammar": constraint.lark_spaced},
        ),
        Kind(
            name="ollama",
            owner="library",
            generate="/api/generate",
            health="/api/version",
            ids=False,
            fields={name: field for name, field in _LLAMA.items() if name != "logprobs"},
            seeds=2**31 - 1,
            length="num_predict",
            endless=-1,
            # Otherwise it would cut a prompt that is too long, without a word, and take reasoning out of the output.
            always={"raw": True, "think": False, "truncate": False, "shift": False},
            options="options",
            stream="application/x-ndjson",
            events=Lines,
            read=read_ollama,
        ),
        Kind(
            name="fastdeploy",
            owner="FastDeploy",
            always={**_USAGE, "skip_special_tokens": False, "add_special_tokens": False},
            end="include_stop_str_in_output",
            constrain=lambda constraint: {"guided_grammar": constraint.gbnf},
            budget=lambda thinking: {"reasoning_max_tokens": thinking.budget},
        ),
        Kind(
            name="llama-cpp-python",
            path="/extras/tokenize",
            health="/v1/models",
            ids=False,
            fields=_LLAMA,
            seeds=2**32 - 1,
            endless=0,
            constrain=_grammar,
        ),
        Kind(
            name="transformers",
            path="/load_model",
            ids=False,
            fields={k: k for k in ("temperature", "top_p", "frequency_penalty", "seed")},
            seeds=2**32,
            listed=False,
        ),
    )
}
"""Every kind, by its name."""

_SPARE: Final = 128  # SGLang reserves a part of the context for draft tokens, and refuses requests that include it


def body(
    kind: Kind,
    request: Request,
    prompt: Any,
    *,
    model: str | None,
    context: int | None,
    keep_end: bool = False,
    markers: tuple[str, ...] = (),
    budgets: bool = False,
) -> dict[str, Any]:
    """Write a request in the form of a kind; `EngineError` if the kind does not support a part of it.

    Args:
        prompt: the prompt to send, as text or ids.
        model: the server's name for the model; ``None``: the request names none.
        context: how many tokens prompt and output may have together, if that is known.
        keep_end: whether the server should send the token that ends the output.
        markers: special tokens to show.
        budgets: whether the server is set up for budgets of reasoning.
    """
    asked: dict[str, Any] = {"prompt": prompt} if kind.place is None else kind.place(request, prompt)
    asked |= {"stream": True, **kind.always}
    own = {*asked, "model"}
    asked |= kind.within
    if model is not None:
        asked["model"] = model
    asked |= _sampling(kind, request.sampling)
    if request.capture and kind.capture is not None:
        asked = {**kind.capture, **asked}
    if request.echo:
        asked |= _echo(kind, request.sampling)
    if "add_special_tokens" in asked:
        asked["add_special_tokens"] = request.add_special
    length = _length(kind, request, prompt, context)
    if length is not None:
        asked[kind.length] = length
    if kind.end and keep_end:
        asked[kind.end] = True
    if kind.markers and markers:
        asked[kind.markers] = list(markers)
    if request.thinking is not None and kind.budget is not None and (budgets or not kind.opt_in):
        asked.update(kind.budget(request.thinking))
    if request.constraint is not None:
        asked.update(_constrained(kind, request.constraint))
    if kind.options:
        asked[kind.options] = {name: asked.pop(name) for name in list(asked) if name not in own}
    return asked


def _sampling(kind: Kind, sampling: Sampling) -> dict[str, Any]:
    """The fields that say how tokens are chosen."""
    asked: dict[str, Any] = {}
    for name in sampling.__struct_fields__:
        value = getattr(sampling, name)
        if value is None:
            continue
        if name in kind.fields:
            if kind.fields[name]:  # else it is one of the prompt's fields
                asked[kind.fields[name]] = value
        elif value not in _NEUTRAL.get(name, ()):
            raise EngineError(f"{name}: the engine ({kind.name}) does not support it", 400)
    if sampling.seed is not None:
        asked[kind.fields["seed"]] = sampling.seed % kind.seeds
    if kind.fields.get("logprobs") == "n_probs" and sampling.logprobs == 0:
        asked["n_probs"] = 1  # otherwise none would be reported
    return asked


def _echo(kind: Kind, sampling: Sampling) -> dict[str, Any]:
    """The fields that ask for the log-probabilities of the prompt."""
    if not kind.echo:
        text = f"echo: cannot be combined with logprobs: the engine ({kind.name}) does not report those of prompts"
        raise EngineError(text, 400)
    return {"echo": True, "logprobs": max(1, sampling.logprobs or 0)}  # SGLang takes 0 for none


def _length(kind: Kind, request: Request, prompt: Any, context: int | None) -> int | None:
    """The most tokens of the output, if the engine has to be told."""
    if request.max_tokens is not None:
        return max(1, request.max_tokens)
    if not isinstance(kind.endless, str):
        return kind.endless
    if context is None:
        raise EngineError("max_tokens: is required: the engine does not report the length of its context", 400)
    if kind.endless == "context":
        return context
    # At most one token for each 14 × 14 pixels; an engine that counts more refuses the request.
    size = len(prompt) + sum(m.width * m.height // 196 for m in request.media)
    return max(1, context - size - _SPARE)


def _constrained(kind: Kind, constraint: Constraint) -> dict[str, Any]:
    """The fields of a constraint, or of a less strict one if the kind cannot express it and that is allowed."""
    found: Constraint | None = constraint
    while found is not None:
        try:
            if kind.constrain is not None:
                return kind.constrain(found)
            why = "constraints: no required or named tool_choice, no strict tools, no response_format"
        except ConstraintError as error:
            why = f"this constraint: {error}"
        if found.looser is None:
            raise EngineError(f"the engine ({kind.name}) does not support {why}", 400)
        log.warning("calls are less constrained than by the server's level: %s does not support %s", kind.name, why)
        found = found.looser()
    return {}


def listed(answer: Any, model: str | None) -> dict[str, Any]:
    """The entry of a model in the answer of ``/v1/models``, or else the first one; empty if there is none."""
    found = answer.get("data") if isinstance(answer, dict) else None
    entries = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return next((one for one in entries if one.get("id") == model), entries[0] if entries else {})


def detect(entry: Mapping[str, Any], description: Any = None) -> Kind | None:
    """Detect the kind of a server from a model's entry in ``/v1/models``, and from its ``/openapi.json`` if any."""
    paths = description.get("paths") if isinstance(description, dict) else None
    owner, known = entry.get("owned_by"), paths if isinstance(paths, dict) else ()
    found = [kind for kind in KINDS.values() if kind.owner and kind.owner == owner]
    return next(iter(found + [kind for kind in KINDS.values() if kind.path and kind.path in known]), None)
