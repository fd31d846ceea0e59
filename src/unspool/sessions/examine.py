"""Finds out what an engine reports, before its tokens are called exact."""

import asyncio
import math
import time
from contextlib import aclosing
from typing import Final, NamedTuple

import msgspec

from ..engines import Engine, EngineError, Request, Sampling
from ..request.prompts import Prompts
from ..tokens import encoded
from .capture import OutputCapture, SampledOutput

_PROMPT: Final = "The capital of France is Paris, and the capital of Italy is"
_TOP: Final = 1
_TOKENS: Final = 4
_MOST: Final = 4096  # how many pieces, and characters, an engine may send for so few tokens
_PATIENCE: Final = 30.0  # how long an engine may take to be ready, in seconds
_TICK: Final = 0.2
_SAME: Final = 1e-3
"""How far apart two equal log-probabilities may be: engines compute in batches, and in half precision."""


class Examined(msgspec.Struct, frozen=True):
    """What an engine reports.

    Attributes:
        logprobs: whether log-probabilities are ``raw`` or ``processed``; empty if there are none, or nobody knows.
        problems: what training needs and the engine does not report; empty if it reports everything.
        advice: what is worth changing although nothing is missing.
        failed: whether the engine could not be examined, for the reason that `problems` has.
    """

    logprobs: str = ""
    problems: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    failed: bool = False


async def examine(engine: Engine, prompts: Prompts | None, model: str = "") -> Examined:
    """Generate a few tokens, and look at what is reported; `EngineError` if the engine cannot generate now."""
    if prompts is None:
        return Examined(problems=("there is no chat template, so prompts are the engine's own",))
    tokenizer = engine.tokenizer
    if tokenizer is None:
        return Examined(problems=("the model's tokenizer is not known, so prompts are not exact; see --tokenizer",))
    await _ready(engine)
    ids = await asyncio.to_thread(encoded, tokenizer, _PROMPT)  # llama.cpp encodes over HTTP
    one = await _probe(engine, model, ids, 1.0)
    problems = []
    output = one.output
    if not output.ids:
        problems.append("the engine does not report the tokens that it samples")
    if not output.logprobs or any(map(math.isnan, output.logprobs)):
        problems.append("the engine does not report the log-probabilities of sampled tokens")
    if one.prompt not in (None, len(ids)):
        problems.append(f"the engine reads {one.prompt} tokens where it is sent {len(ids)}: it adds some of its own")
    if output.prompt_ids is not None and list(output.prompt_ids) != ids:
        problems.append("the engine reads other tokens than it is sent")
    if not getattr(engine, "shows_special", True):
        problems.append("the engine hides special tokens, among them those of calls")
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
    """Wait until the engine can generate: it may be loading the model. `EngineError` if it takes too long."""
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


class _ProbeResult(NamedTuple):
    """What a probe found: its tokens, the prompt's length by the engine's count, and the alternatives to the first
    token."""

    output: SampledOutput
    prompt: int | None
    top: dict[str, float]


async def _probe(engine: Engine, model: str, ids: list[int], temperature: float) -> _ProbeResult:
    asked = Request(
        id="examination",
        model=model,
        prompt=_PROMPT,
        prompt_ids=ids,
        sampling=Sampling(temperature=temperature, top_p=1.0, seed=1, logprobs=_TOP),
        max_tokens=_TOKENS,
        capture=True,
        messages=[{"role": "user", "content": _PROMPT}],
    )
    capture, prompt = OutputCapture(), None
    top: dict[str, float] = {}
    left = _MOST
    async with aclosing(engine.generate(asked)) as stream:
        async for delta in stream:
            left -= 1 + len(delta.text)
            if left < 0:
                raise EngineError(f"the engine does not stop after {_TOKENS} tokens", 502)
            capture.take(delta)
            if delta.usage is not None and delta.usage.prompt_tokens:
                prompt = delta.usage.prompt_tokens
            if delta.logprobs and not top:
                top = {entry["token"]: entry["logprob"] for entry in delta.logprobs[0].get("top_logprobs", ())}
    return _ProbeResult(capture.output(engine.tokenizer), prompt, top)


async def _kind(engine: Engine, model: str, ids: list[int], at_one: dict[str, float]) -> str:
    """Whether the likeliest token has the same log-probability at another temperature."""
    other = (await _probe(engine, model, ids, 2.0)).top
    both = at_one.keys() & other.keys()
    if not both:
        return ""
    return "raw" if all(abs(at_one[t] - other[t]) < _SAME for t in both) else "processed"
