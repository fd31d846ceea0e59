"""The tools that the examples of a dialect file call."""

from typing import Any

from .file import Dialect


def example_tools(dialect: Dialect) -> list[dict[str, Any]]:
    """The tools that a file's examples call, with schemas from the types of their arguments."""
    tools: dict[str, dict[str, Any]] = {}
    for example in dialect.examples:
        for call in example.tool_calls:
            properties = tools.setdefault(call.name, {})
            for key, value in call.arguments.items():
                properties[key] = value_schema(value)
    return [
        {"type": "function", "function": {"name": n, "parameters": {"type": "object", "properties": p}}}
        for n, p in tools.items()
    ]


def value_schema(value: Any) -> dict[str, Any]:
    """The schema for the type of an example's value."""
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": "integer"}
    if isinstance(value, float):
        return {"type": "number"}
    if isinstance(value, str):
        return {"type": "string"}
    if isinstance(value, list):
        items = [value_schema(v) for v in value]
        return (
            {"type": "array", "items": items[0]} if items and items.count(items[0]) == len(items) else {"type": "array"}
        )
    return {"type": "object", "properties": {k: value_schema(v) for k, v in value.items()}}
