"""Finds out what an engine reports, before its tokens are called exact."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ..engines import Engine, EngineError, Request, Sampling
from ..request.prompts import Prompts
from ..tokens import encoded

__all__ = ["Examined", "examine"]

_PROMPT: Final = "The capital of France is Paris, and the capital of Italy is"
_TOP: Final = 1
_PATIENCE: Final = 30.0
"""How long an engine may take to be ready, in seconds."""
_TICK: Final = 0.2
_SAME: Final = 1e-3
"""How far apart two equal log-probabilities may be: engines compute in batches, and in half precision."""


class Examined(msgspec.Struct, frozen=True):
    """What an engine reports.

    Attributes:
        logprobs: whether log-probabilities are ``raw`` or ``processed``; empty if there are none, or nobody knows.
        problems: what training needs and the engine does not report; empty if it reports everything.
        advice: what is worth changing although nothing is missing.
    """

    logprobs: str = ""
    problems: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


async def examine(engine: Engine, prompts: Prompts | None, model: str = "") -> Examined:
    """Generate a few tokens, and look at what is reported.

    Args:
        engine: the engine.
        prompts: the chat template.
        model: the model's name, for the engine.

    Raises:
        EngineError: the engine cannot generate now.
    """
    if prompts is None:
        return Examined(problems=("there is no chat template, so prompts are the engine's own",))
    tokenizer = engine.tokenizer
    if tokenizer is None:
        return Examined(problems=("the model's tokenizer is not known, so prompts are not exact; see --tokenizer",))
    await _ready(engine)
    ids = await asyncio.to_thread(encoded, tokenizer, _PROMPT)  # llama.cpp encodes over HTTP
    one = await _probe(engine, model, ids, 1.0)
    problems = []
    if not one.ids:
        problems.append("the engine does not report the tokens that it samples")
    if not one.logprobs or None in one.logprobs:
        problems.append("the engine does not report the log-probabilities of sampled tokens")
    if one.prompt not in (None, len(ids)):
        problems.append(f"the engine reads {one.prompt} tokens where it is sent {len(ids)}: it adds some of its own")
    if one.read is not None and list(one.read) != ids:
        problems.append("the engine reads other tokens than it is sent")
    kind = ""
    advice: tuple[str, ...] = ()
    if one.top:
        kind = await _kind(engine, model, ids, one.top)
        if kind == "raw":
            advice = (
                "log-probabilities are those of the model itself, before temperature and filters: sample with "
                "temperature 1 and without filters, or let the trainer compute them again "
                "(vLLM: --logprobs-mode processed_logprobs)",
            )
    return Examined(kind, tuple(problems), advice)


async def _ready(engine: Engine) -> None:
    """Wait until the engine can generate: it may be loading the model.

    Raises:
        EngineError: it takes too long.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            await engine.health()
        except EngineError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(_TICK)
        else:
            return


class _Found(msgspec.Struct):
    """What a probe found: the tokens with their log-probabilities, the alternatives to the first, the prompt's length
    by the engine's count, and its tokens."""

    ids: Sequence[int] = ()
    logprobs: Sequence[float | None] = ()
    top: dict[str, float] = {}
    prompt: int | None = None
    read: Sequence[int] | None = None


async def _probe(engine: Engine, model: str, ids: list[int], temperature: float) -> _Found:
    sampling = Sampling(temperature=temperature, top_p=1.0, seed=1, logprobs=_TOP)
    asked = Request(
        id="examination",
        model=model,
        prompt=_PROMPT,
        prompt_ids=ids,
        sampling=sampling,
        max_tokens=4,
        capture=True,
        messages=[{"role": "user", "content": _PROMPT}],
    )
    found = _Found()
    found.ids, found.logprobs = [], []
    async for delta in engine.generate(asked):
        if delta.sampled is not None:
            found.ids = [*found.ids, *delta.sampled.ids]
            found.logprobs = [*found.logprobs, *delta.sampled.logprobs]
            found.read = delta.sampled.prompt_ids or found.read
        elif delta.token_ids:
            known: list[Any] = [entry.get("logprob") for entry in delta.logprobs]
            found.ids = [*found.ids, *delta.token_ids]
            found.logprobs = [*found.logprobs, *(known if len(known) == len(delta.token_ids) else [None])]
        if delta.usage is not None and delta.usage.prompt_tokens:
            found.prompt = delta.usage.prompt_tokens
        if delta.logprobs and not found.top:
            found.top = {entry["token"]: entry["logprob"] for entry in delta.logprobs[0].get("top_logprobs", ())}
    return found


async def _kind(engine: Engine, model: str, ids: list[int], at_one: dict[str, float]) -> str:
    """Whether the likeliest token has the same log-probability at another temperature."""
    other = (await _probe(engine, model, ids, 2.0)).top
    both = at_one.keys() & other.keys()
    if not both:
        return ""
    return "raw" if all(abs(at_one[t] - other[t]) < _SAME for t in both) else "processed"
