"""Tools that any engine may be required to call, and the check that a call of them is valid."""

import json
from typing import Any

import jsonschema

from unspool import Message

SCHEMAS: dict[str, dict[str, Any]] = {
    "get_weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 1, "maxLength": 8},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
        },
        "required": ["city"],
        "additionalProperties": False,
    },
    "now": {"type": "object", "properties": {}, "additionalProperties": False},
}
"""All strings are bounded, since a random model would never end them."""
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "parameters": schema, "strict": True}}
    for name, schema in SCHEMAS.items()
]


def check_calls(message: Message, text: str) -> None:
    """Assert that there are calls, all of them valid."""
    assert message.tool_calls, text
    for call in message.tool_calls:
        assert (call.status, call.known) == ("ok", True), (text, call)
        jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])
