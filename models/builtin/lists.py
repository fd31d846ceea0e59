"""How lists of phrases and declarations of tools are written."""

import re
from typing import Any


def listed(text: str) -> list[str]:
    """Split a text into phrases at semicolons. Line breaks and the spaces after them are dropped."""
    return re.sub(r"\n *", "", text).split(";")


def words_of(text: str) -> list[str]:
    """Split a text into words at white space."""
    return text.split()


def declared(name: str, description: str, /, **properties: Any) -> dict[str, Any]:
    """A tool in OpenAI's form, whose first parameter is required."""
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": [next(iter(properties))]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
