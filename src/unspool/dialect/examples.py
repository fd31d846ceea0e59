"""Tools made from calls of them, such as those of the examples of a dialect file."""

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, Final

from ..regex import Regex
from .file import Dialect

_INTEGER: Final = Regex(r"-?[0-9]+")
_TYPES: Final[dict[type, str]] = {str: "string", bool: "boolean", NoneType: "null", dict: "object", list: "array"}


def example_tools(dialect: Dialect) -> list[dict[str, Any]]:
    """The tools that a file's examples call, with schemas that fit the arguments of all."""
    return tools_of((call.name, call.arguments) for example in dialect.examples for call in example.tool_calls)


def tools_of(calls: Iterable[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """OpenAI tool dicts that fit these calls (names and arguments)."""
    tools: dict[str, list[Any]] = {}
    for name, arguments in calls:
        tools.setdefault(name, []).append(arguments)
    return [
        {"type": "function", "function": {"name": name, "parameters": _schema(values)}}
        for name, values in tools.items()
    ]


def json_type(value: Any) -> str:
    """The JSON type of a value; anything that is none of the others is a number, and integers are numbers too."""
    return _TYPES.get(type(value), "number")


def _schema(values: list[Any]) -> dict[str, Any]:
    """A schema that fits all of these values, which occur in the same place."""
    root: dict[str, Any] = {}
    todo: list[tuple[Any, dict[str, Any]]] = [(v, root) for v in values]
    for value, node in todo:
        kind = json_type(value)
        integer = kind == "number" and _INTEGER.fullmatch(str(value))
        node.setdefault("type", set()).add("integer" if integer else kind)
        if isinstance(value, dict):
            properties = node.setdefault("properties", {})
            todo += [(child, properties.setdefault(key, {})) for key, child in value.items()]
        elif isinstance(value, list):
            todo += [(child, node.setdefault("items", {})) for child in value]
    for node in {id(node): node for _, node in todo}.values():
        types = node["type"]
        if "string" in types and types - {"string", "null"}:
            node.clear()  # a string could look like one of the others, so the schema stays empty
        else:
            node["type"] = types.pop() if len(types) == 1 else sorted(types)
    return root
