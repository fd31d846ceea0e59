"""Reads the turn to render from a `Message` or an OpenAI message, and checks it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import DialectError
from ..message import Message
from .values import read_json


@dataclass(frozen=True, slots=True)
class TurnCall:
    name: str
    id: str
    text: str
    value: dict[str, Any]

    @classmethod
    def read(cls, name: str, id: str, text: str) -> "TurnCall":
        """Make a call from the JSON text of its arguments, which may be empty. `ValueError` if it is not one object."""
        text = text.strip(" \t\n\r") or "{}"
        value = read_json(text)
        if not isinstance(value, dict):
            raise ValueError("not an object")
        return cls(name, id, text, value)


@dataclass(frozen=True, slots=True)
class Turn:
    """An assistant's answer; missing texts are ``""``."""

    reasoning: str
    content: str
    calls: list[TurnCall]


def read_turn(message: Message | Mapping[str, Any]) -> Turn:
    """Read the parts of a message; a `DialectError` names the field that is not in OpenAI's form, or not JSON."""
    if isinstance(message, Message):
        calls = [_call(i, c.name, c.id, c.arguments) for i, c in enumerate(message.tool_calls)]
        return Turn(message.reasoning, message.content, calls)
    if not isinstance(message, Mapping):
        raise TypeError(f"message: must be a Message or an OpenAI assistant message, not {type(message).__name__}")
    if message.get("role", "assistant") != "assistant":
        raise DialectError(f"role: is {message['role']!r}, not 'assistant'")
    if message.get("function_call"):
        raise DialectError("function_call: is deprecated; use tool_calls")
    listed = message.get("tool_calls") or []
    if not isinstance(listed, list | tuple):
        raise DialectError("tool_calls: must be a list")
    return Turn(
        _reasoning(message),
        _text("content", message.get("content")),
        [_openai_call(i, c) for i, c in enumerate(listed)],
    )


def _reasoning(message: Mapping[str, Any]) -> str:
    for field in ("reasoning_content", "reasoning"):
        text = message.get(field)
        if text:
            return _text(field, text)
    details = message.get("reasoning_details") or []
    if not isinstance(details, list):
        raise DialectError("reasoning_details: must be a list")
    texts = [d.get("text") or d.get("summary") or "" for d in details if isinstance(d, Mapping)]
    return "".join(_text("reasoning_details", t) for t in texts)


def _text(field: str, value: object) -> str:
    """Text, or a list of parts that contain text."""
    if value is None or isinstance(value, str):
        return value or ""
    if not isinstance(value, list):
        raise DialectError(f"{field}: must be a string or a list of text parts, not {type(value).__name__}")
    texts = []
    for i, part in enumerate(value):
        text = part.get("text") if isinstance(part, Mapping) else part
        if not isinstance(text, str):
            raise DialectError(f"{field}[{i}]: must be a text part")
        texts.append(text)
    return "".join(texts)


def _openai_call(i: int, call: object) -> TurnCall:
    at = f"tool_calls[{i}]"
    if not isinstance(call, Mapping) or call.get("type", "function") != "function":
        raise DialectError(f"{at}: must be a function call")
    function = call.get("function", call)
    if not isinstance(function, Mapping):
        raise DialectError(f"{at}.function: must be an object")
    return _call(i, function.get("name"), call.get("id"), function.get("arguments"))


def _call(i: int, name: object, id: object, arguments: object) -> TurnCall:
    at = f"tool_calls[{i}]"
    if not isinstance(name, str) or not name:
        raise DialectError(f"{at}.name: must be a non-empty string")
    if id is not None and not isinstance(id, str):
        raise DialectError(f"{at}.id: must be a string")
    try:
        if isinstance(arguments, Mapping):
            arguments = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        elif arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            raise ValueError(f"not an object but {type(arguments).__name__}")
        return TurnCall.read(name, id or "", arguments)
    except (ValueError, TypeError, RecursionError) as error:
        raise DialectError(f"{at}.arguments: not one JSON object: {error}") from None
