"""Rewards for an answer's format, its calls and their arguments, each from 0 to 1."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..message import Message, ToolCall

__all__ = ["calls_match", "format_score", "schema_score"]

MILD: Final = frozenset({"duplicate_id", "repaired", "value_type", "empty"})
"""Notices of deviations that do not change the meaning."""


def format_score(message: Message, *, mild: float = 0.5) -> float:
    """1 if the answer follows its format, 0 if a call failed or markup was wrong.

    Args:
        message: the answer.
        mild: the factor for each notice of a deviation that does not change the meaning.
    """
    if any(c.status in ("invalid", "incomplete") or c.known is False for c in message.tool_calls):
        return 0.0
    if any(n.kind not in MILD for n in message.notices):
        return 0.0
    return float(mild ** len(message.notices))


def calls_match(
    message: Message, expected: Sequence[Mapping[str, Any]], *, ordered: bool = True, partial: bool = False
) -> float:
    """Score whether the answer's calls are the expected ones. Arguments are compared as JSON values, regardless of
    spelling and the order of keys; ``1`` and ``1.0`` are equal, ``1`` and ``true`` are not.

    Args:
        message: the answer.
        expected: ``{"name": …, "arguments": …}`` or OpenAI's calls; arguments as an object or as JSON text.
        ordered: whether the order of the calls matters.
        partial: return the share of matching calls in the longer of both lists, instead of all or nothing.

    Raises:
        ValueError: an expected call has no name, or its arguments are not a JSON object.
    """
    calls = [_comparable(call) for call in message.tool_calls]
    wanted = [_wanted(i, call) for i, call in enumerate(expected)]
    if ordered:
        matching = sum(t == w for t, w in zip(calls, wanted, strict=False))
    else:
        left = list(wanted)
        matching = 0
        for call in calls:
            if call in left:
                left.remove(call)
                matching += 1
    most = max(len(calls), len(wanted))
    if partial:
        return matching / most if most else 1.0
    return float(matching == most)


def schema_score(message: Message, tools: Sequence[Mapping[str, Any]], *, without_calls: float = 1.0) -> float:
    """The share of calls that name a declared tool and have arguments that match its schema.

    Args:
        message: the answer.
        tools: OpenAI tool dicts.
        without_calls: the score of an answer without calls.

    Raises:
        ValueError: a tool's parameters are not a JSON schema.
    """
    if not message.tool_calls:
        return without_calls
    from ..grammar.validity import Validators  # servers, which load this package, lack its package for schemas

    validators = Validators(tools)
    for name, why in validators.unusable.items():
        raise ValueError(f"tools: the parameters of {name} are not a schema that can be checked: {why}")
    return sum(validators.valid(c) is True for c in message.tool_calls) / len(message.tool_calls)


def _comparable(call: ToolCall) -> tuple[str, str] | None:
    if call.status in ("invalid", "incomplete"):
        return None
    try:
        return call.name, _canonical(call.arguments_dict())
    except ValueError:
        return None


def _wanted(index: int, call: Mapping[str, Any]) -> tuple[str, str]:
    function = call.get("function", call)
    name, arguments = function.get("name"), function.get("arguments", {})
    if not isinstance(name, str):
        raise ValueError(f"expected[{index}].name: must be a string")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"expected[{index}].arguments: not JSON: {error}") from None
    if not isinstance(arguments, Mapping):
        raise ValueError(f"expected[{index}].arguments: must be an object")
    return name, _canonical(arguments)


def _canonical(value: Any) -> str:
    return json.dumps(_numbers(value), sort_keys=True)


def _numbers(value: Any) -> Any:
    """A value in which whole floats are integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {k: _numbers(v) for k, v in value.items()}
    return [_numbers(v) for v in value] if isinstance(value, list | tuple) else value
