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
    if isinstance(value, dict):
        return {"type": "object", "properties": {k: value_schema(v) for k, v in value.items()}}
    if isinstance(value, list):
        items = [value_schema(v) for v in value]
        alike = items and items.count(items[0]) == len(items)
        return {"type": "array", "items": items[0]} if alike else {"type": "array"}
    return {"type": {bool: "boolean", int: "integer", float: "number", str: "string"}[type(value)]}
