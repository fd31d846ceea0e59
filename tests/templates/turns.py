"""The conversations, and the assistant's turns that a template writes for them."""

import copy
import json
from typing import Any

import jinja2

from unspool import Dialect

from .table import Source

Message = dict[str, Any]

ARGUMENTS = {
    "city": "São Paulo & \"Nova\" <b>\n'x' \\ y",
    "days": 3,
    "exact": True,
    "near": [1.5, "a", None],
    "range": {"from": -1, "to": "b"},
}


def _call(number: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"callid{number:03}", "type": "function", "function": {"name": name, "arguments": arguments}}


_WEATHER = _call(0, "get_weather", {"city": "Paris"})

CASES: dict[str, Message] = {
    "content": {"content": "Hello there."},
    "reasoning-content": {"reasoning": "plan it\nwell", "content": "Hello there."},
    "call": {"tool_calls": [_WEATHER]},
    "two-calls": {"tool_calls": [_WEATHER, _call(1, "get_weather", {"city": "Rome", "days": 3})]},
    "empty-call": {"tool_calls": [_call(0, "now", {})]},
    "values": {"tool_calls": [_call(0, "get_weather", ARGUMENTS)]},
    "content-call": {"content": "Let me see.", "tool_calls": [_WEATHER]},
    "reasoning-call": {"reasoning": "plan it", "tool_calls": [_WEATHER]},
    "reasoning-content-call": {"reasoning": "plan it", "content": "Let me see.", "tool_calls": [_WEATHER]},
}
"""The names and the assistant messages. ``reasoning`` is put under the key that a template requires."""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Tells.",
            "parameters": {"type": "object", "properties": properties, "required": []},
        },
    }
    for name, properties in {
        "get_weather": {
            "city": {"type": "string", "description": "c"},
            "days": {"type": "integer", "description": "d"},
            "exact": {"type": "boolean", "description": "e"},
            "near": {"type": "array", "description": "n", "items": {}},
            "range": {"type": "object", "description": "r", "properties": {}},
        },
        "now": {},
    }.items()
]


def _identified(case: Message, dialect: Dialect) -> Message:
    """The message, with ids in the dialect's form if they contain an index."""
    message = copy.deepcopy(case)
    for i, call in enumerate(message.get("tool_calls", ())):
        if "{index}" in dialect.id:
            call["id"] = dialect.id.replace("{index}", str(i)).replace("{name}", call["function"]["name"])
    return message


def openai(case: Message, dialect: Dialect) -> Message:
    """The message in the form that the renderer takes."""
    message = {"role": "assistant", "content": None, **_identified(case, dialect)}
    message["reasoning_content"] = message.pop("reasoning", None)
    return message


def written(source: Source, template: jinja2.Template, dialect: Dialect, case: Message) -> str:
    """What the template writes after the opening of the assistant's turn.

    Raises:
        ValueError: the opening cannot be found.
    """
    question: list[Message] = [{"role": "user", "content": "What?"}]
    shown = {
        "tools": TOOLS,
        "bos_token": "<BOS>",
        "eos_token": dialect.end[0] if dialect.end else "",
        **source.variables,
    }
    before = template.render(messages=copy.deepcopy(question), add_generation_prompt=False, **shown)
    whole = template.render(
        messages=[*copy.deepcopy(question), _message(source, _identified(case, dialect))],
        add_generation_prompt=False,
        **shown,
    )
    same = next(
        (i for i, (a, b) in enumerate(zip(before, whole, strict=False)) if a != b), min(len(before), len(whole))
    )
    # Some templates always end with the opening of the next turn.
    found = max(
        (whole.rfind(start, 0, same + len(start)) + len(start) for start in dialect.start if start in whole), default=0
    )
    if found:
        return whole[found:]
    raise ValueError(f"no opening of a turn in {whole[same:]!r}, after {whole[max(0, same - 40) : same]!r}")


def _message(source: Source, case: Message) -> Message:
    message: Message = {"role": "assistant", **case}
    thought = message.pop("reasoning", None)
    if thought is not None:
        if source.reasoning == "parts":
            parts = [{"type": "thinking", "thinking": thought}]
            if message.get("content"):
                parts.append({"type": "text", "text": message["content"]})
            message["content"] = parts
        else:
            message[source.reasoning] = thought
    message.setdefault("content", "")
    for call in message.get("tool_calls", ()):
        function = call["function"]
        if source.arguments == "text":
            function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
    return message


def ends(dialect: Dialect, rest: str) -> bool:
    """Whether this may follow the last part of a turn: nothing, or an end."""
    return not rest.strip() or rest.startswith(dialect.end)
