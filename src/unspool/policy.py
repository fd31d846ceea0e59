"""Choices in which users want opposite things; the same in every dialect, in streams and in whole texts."""

from typing import Any, Literal, get_args, get_origin

import msgspec


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """One frozen set of choices. A field left ``None`` takes the dialect's default, then the library's (`DEFAULTS`).

    Raises:
        ValueError: a field has a value that is not listed for it.
    """

    text_before_tools: Literal["keep", "content"] | None = None
    """Prose before the first call: keep both, or everything after it is content."""
    text_between_tools: Literal["keep", "content"] | None = None
    """Prose between calls: keep it and go on, or everything after it is content."""
    bad_arguments: Literal["raw", "drop", "text", "repair"] | None = None
    """A call whose arguments are wrong: pass them through, drop the call, give it back as text, or repair them."""
    unknown_tool: Literal["forward", "text", "drop"] | None = None
    """A call of a tool that the request does not declare."""
    unclosed_reasoning: Literal["reasoning", "content"] | None = None
    """How reasoning counts that the output never closes."""
    call_in_reasoning: Literal["text", "close", "resume"] | None = None
    """A call inside reasoning: text, the reasoning's end, or an interruption after which it goes on."""
    bare_calls: bool | None = None
    """Read calls without their wrapper also where the dialect does not list that form."""
    text_markers: Literal["accept", "ignore"] | None = None
    """With token ids: whether text that merely spells a special token is a marker."""
    reasoning_in_content: Literal["open", "closed", "text"] | None = None
    """An opening of reasoning in content: reasoning, reasoning only if it is closed, or text."""
    stray_markers: Literal["drop", "text"] | None = None
    """Markers that open or close nothing: dropped with a notice, or text."""
    markers_in_strings: Literal["data", "end"] | None = None
    """A call's closing in an open JSON string that something legal follows: the string's text, or the call's end."""

    def __post_init__(self) -> None:
        for field, allowed in CHOICES.items():
            value = getattr(self, field)
            if value is not None and (type(value) is not type(allowed[0]) or value not in allowed):
                raise ValueError(f"policy {field}: {value!r} is not one of {', '.join(map(repr, allowed))}")

    def over(self, other: "Policy") -> "Policy":
        """This policy, its unset fields taken from ``other``."""
        unset = {f: getattr(other, f) for f in CHOICES if getattr(self, f) is None}
        return msgspec.structs.replace(self, **unset)


def _choices() -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for field, hint in Policy.__annotations__.items():
        literal = next(a for a in get_args(hint) if a is not type(None))
        found[field] = get_args(literal) if get_origin(literal) is Literal else (False, True)
    return found


CHOICES: dict[str, tuple[Any, ...]] = _choices()
"""The fields of `Policy` and the values each may take, the library's default first."""

DEFAULTS = Policy(**{field: allowed[0] for field, allowed in CHOICES.items()})
"""The library's own defaults."""
