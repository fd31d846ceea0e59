"""Rollouts to read: reasoning, a sentence, two calls."""

from typing import Any, Final

from .texts import PROSE, ever_new

__all__ = ["DIALECT", "TOOLS", "long_answer", "rollout"]

DIALECT: Final = "hermes"
TOOLS: Final[list[dict[str, Any]]] = [
    {
        "type": "function",
        "function": {
            "name": "search",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
                "required": ["query"],
            },
        },
    }
]


def rollout(i: int) -> str:
    """1.1 kB with reasoning and two calls."""
    call = "".join(
        f'\n<tool_call>\n{{"name": "search", "arguments": {{"query": "harbour {i} {k}", "limit": {k}}}}}\n</tool_call>'
        for k in (3, 5)
    )
    thought = ever_new(PROSE, 2_200)[i % 997 : i % 997 + 860]
    return f"<think>\n{thought}\n</think>\n\nI will look it up twice, for {i}.{call}"


def long_answer(size: int) -> str:
    """Reasoning and an answer of about ``size`` characters."""
    return f"<think>\n{ever_new(PROSE, size * 2 // 5)}\n</think>\n\n{ever_new(PROSE, size * 3 // 5)}"
