"""Rollouts with tools for TRL's ``GRPOTrainer``, through its hook ``rollout_func``. Needs TRL.

::

    def get_weather(city: str) -> str:
        '''Get the weather.

        Args:
            city: The city.
        '''

    def reward(completions, conversation, **kwargs):
        return [format_score(c.turns[-1]) for c in conversation]

    trainer = GRPOTrainer(model, reward, rollout_func=rollout_func("hermes", tools=[get_weather]), ...)

TRL's own loop reads calls with the tokenizer's response template, and replaces templates that rewrite earlier text with
special ones for training. This one uses the template that is served, the tokens as sampled, and any dialect.
"""

import asyncio
import inspect
import json
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from ..dialect.file import Dialect
from ..engines.token_kinds import SAMPLED, sampled_kinds
from ..message import ToolCall
from ..policy import Policy
from .conversation import Conversation

_NO_TOOLS: Final = ("reset", "get_reward")


class Generate(Protocol):
    """Samples an answer to each prompt."""

    def __call__(
        self, prompts: list[list[int]], trainer: Any, /
    ) -> tuple[Sequence[Sequence[int]], Sequence[Sequence[float]] | None]:
        """Return the ids of the answers, including their ends, and their log-probabilities if known."""


class _Played(NamedTuple):
    """A running conversation, with its functions by name, their object, if any, and the length of the first prompt."""

    conversation: Conversation
    tools: Mapping[str, Callable[..., Any]]
    environment: Any
    prompt: int


def rollout_func(
    dialect: str | Dialect,
    *,
    tools: Sequence[Callable[..., Any]] = (),
    environment: Callable[[], Any] | None = None,
    template: str | None = None,
    variables: Mapping[str, Any] | None = None,
    policy: Policy | None = None,
    kinds: Iterable[str] = SAMPLED,
    most_calls: int = 32,
    generate: Generate | None = None,
) -> Callable[[list[Any], Any], dict[str, Any]]:
    """Make a ``rollout_func`` for ``GRPOTrainer``.

    The calls of each answer are run, and the model answers again, until an answer has no calls or the trainer's
    ``max_completion_length`` or ``max_tool_calling_iterations`` is reached. The model reads a tool's exception as the
    result, and likewise an error for a call that is broken or names no tool. Results that no longer fit are left out.

    Besides TRL's own arguments, reward functions get ``conversation``, the `Conversation` of each rollout with its
    turns, calls and kinds, and ``environment`` if there is one.

    Args:
        dialect, template, variables, policy: see `Conversation`.
        tools: functions with type hints and a docstring, as TRL expects them; they may be coroutine functions.
        environment: makes an object for each rollout. Its methods are tools, except ``get_reward``, methods with a
            leading ``_``, and ``reset``, which is called first and may return a text to append to the last message.
        kinds: the kinds of tokens to learn; see `Conversation.mask`. Results and prompts are never learnt.
        most_calls: the most calls of one answer that are run; the results of further calls say that they were not.
        generate: samples answers; by default the trainer does.

    Raises:
        ValueError: a kind is not one of `unspool.rl.SAMPLED`.
        TypeError: the trainer's prompts are not messages. The returned function raises this.
    """
    learnt = sampled_kinds(kinds)
    sample = generate or _by_trainer

    talk = partial(Conversation, dialect, template=template, policy=policy)

    def roll(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        given = variables if variables is not None else getattr(trainer, "chat_template_kwargs", None)
        start = partial(talk, tokenizer=trainer.processing_class, variables=given)
        begun = [_begun(messages, start, tools, environment) for messages in prompts]
        rollouts, scored = _played(begun, trainer, sample, most_calls)
        parts = [(r.conversation.sample, r.prompt) for r in rollouts]
        found: dict[str, Any] = {
            "prompt_ids": [s.ids[:at].tolist() for s, at in parts],
            "completion_ids": [s.ids[at:].tolist() for s, at in parts],
            "env_mask": [s.mask(learnt)[at:].astype(int).tolist() for s, at in parts],
            "logprobs": [np.nan_to_num(s.logprobs[at:], nan=0.0).tolist() for s, at in parts] if scored else None,
            "conversation": [r.conversation for r in rollouts],
        }
        if environment is not None:
            found["environment"] = [r.environment for r in rollouts]
        return found

    return roll


def _begun(
    messages: Any,
    start: Callable[..., Conversation],
    tools: Sequence[Callable[..., Any]],
    environment: Callable[[], Any] | None,
) -> _Played:
    """Begin a rollout; ``start`` makes a conversation from messages and tools."""
    if isinstance(messages, str):
        raise TypeError("prompt: must be a list of messages, not a text")
    made = environment() if environment is not None else None
    opening = [dict(m) for m in messages]
    if made is not None and (observed := made.reset()) is not None:
        opening[-1] = {**opening[-1], "content": f"{opening[-1]['content']}{observed}"}
    functions = {f.__name__: f for f in (*tools, *_methods(made))}
    conversation = start(messages=opening, tools=[_schema(f) for f in functions.values()] or None)
    return _Played(conversation, functions, made, len(conversation.ids))


def _by_trainer(prompts: list[list[int]], trainer: Any) -> tuple[Any, Any]:
    """Sample as the trainer's own loop does, with transformers or vLLM, as configured."""
    found: tuple[Any, Any] = trainer._generate_single_turn(prompts, None, {}, num_generations=1)
    return found


def _played(rollouts: list[_Played], trainer: Any, generate: Generate, most_calls: int) -> tuple[list[_Played], bool]:
    """Answer and run calls until every rollout ends. Returns the rollouts, and whether log-probabilities are known."""
    rollouts = list(rollouts)
    most = trainer.max_completion_length
    ends = frozenset(getattr(trainer, "eos_token_ids", ()))
    rounds = getattr(trainer, "max_tool_calling_iterations", sys.maxsize)
    going, scored = list(range(len(rollouts))), False
    while going:
        answers, logprobs = generate([rollouts[i].conversation.prompt() for i in going], trainer)
        scored = scored or logprobs is not None
        for k, i in enumerate(going):
            conversation = rollouts[i].conversation
            ids = list(answers[k])[: most - (len(conversation.ids) - rollouts[i].prompt)]
            reason = "stop" if ids and (not ends or ids[-1] in ends) else "length"
            conversation.extend(ids, logprobs[k][: len(ids)] if logprobs is not None else None, reason)
        turns = {i: rollouts[i].conversation.turns[-1] for i in going}
        calling = [i for i, turn in turns.items() if turn.tool_calls and turn.finish_reason != "length"]
        if rounds <= 0:
            break
        rounds -= 1
        going = []
        results = _results([rollouts[i] for i in calling], most_calls)
        for i, reply in zip(calling, results, strict=True):
            asked = rollouts[i].conversation.copy()
            asked.add(reply)
            if len(asked.ids) - rollouts[i].prompt < most:
                rollouts[i] = rollouts[i]._replace(conversation=asked)
                going.append(i)
    return rollouts, scored


# -- tools -------------------------------------------------------------------------------------------------------------


def _methods(environment: Any) -> list[Callable[..., Any]]:
    if environment is None:
        return []
    names = (name for name, _ in inspect.getmembers(type(environment), inspect.isfunction))
    return [getattr(environment, name) for name in names if name not in _NO_TOOLS and not name.startswith("_")]


def _schema(function: Callable[..., Any]) -> dict[str, Any]:
    from transformers.utils import get_json_schema

    found: dict[str, Any] = get_json_schema(function)
    return found


def _results(rollouts: Sequence[_Played], most: int) -> list[list[dict[str, Any]]]:
    """The messages that answer the calls of the last turns. Coroutines of all rollouts run concurrently."""
    answers: list[list[dict[str, Any]]] = []
    pending: list[tuple[dict[str, Any], Coroutine[Any, Any, Any]]] = []
    for rollout in rollouts:
        messages: list[dict[str, Any]] = []
        for i, call in enumerate(rollout.conversation.turns[-1].tool_calls):
            content = _called(call, rollout.tools) if i < most else _failed(f"only {most} calls are run at once")
            message = {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": ""}
            if inspect.iscoroutine(content):
                pending.append((message, content))
            else:
                message["content"] = _text(content)
            messages.append(message)
        answers.append(messages)
    if pending:

        async def gathered() -> list[Any]:
            return await asyncio.gather(*(work for _, work in pending), return_exceptions=True)

        with ThreadPoolExecutor(1) as apart:  # in a notebook, this thread has a running loop
            found = apart.submit(asyncio.run, gathered()).result()
        for (message, _), result in zip(pending, found, strict=True):
            message["content"] = _text(_failed(result) if isinstance(result, BaseException) else result)
    return answers


def _called(call: ToolCall, tools: Mapping[str, Callable[..., Any]]) -> Any:
    """The result of a call, or a coroutine that returns it."""
    if call.name not in tools:
        return _failed(f"there is no tool {call.name}; there are {', '.join(tools) or 'none'}")
    try:
        return tools[call.name](**call.arguments_dict())
    except Exception as error:  # whatever goes wrong in a tool, the model reads it as the result
        return _failed(error)


def _failed(error: BaseException | str) -> dict[str, str]:
    return {"error": error if isinstance(error, str) else f"{type(error).__name__}: {error}"}


def _text(result: Any) -> str:
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
