"""Parsing options for cases in which users disagree. They mean the same in every dialect, streamed or whole."""

from typing import Any, Literal, get_args

import msgspec


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen set of choices. A field that is ``None`` takes the dialect's default, then the library's (`DEFAULTS`).

    Raises:
        ValueError: a field has a value that is not allowed.
    """

    text_before_tools: Literal["keep", "content"] | None = None
    """Prose before the first call: keep both, or everything after it is content."""
    text_between_tools: Literal["keep", "content"] | None = None
    """Prose between calls: keep it and read on, or everything after it is content."""
    bad_arguments: Literal["raw", "drop", "text", "repair"] | None = None
    """A call whose arguments are wrong: pass them through, drop the call, give it back as text, or repair them."""
    unknown_tool: Literal["forward", "text", "drop"] | None = None
    """A call of a tool that the request does not declare."""
    unclosed_reasoning: Literal["reasoning", "content"] | None = None
    """Reasoning that the output never closes: reasoning, or content."""
    call_in_reasoning: Literal["text", "close", "resume"] | None = None
    """A call inside reasoning: text, the end of the reasoning, or an interruption after which it goes on."""
    bare_calls: bool | None = None
    """Whether calls are also read without the markers of their block, if the dialect does not list that form."""
    text_markers: Literal["accept", "ignore"] | None = None
    """With token ids: whether text that only spells a special token is a marker."""
    reasoning_in_content: Literal["open", "closed", "text"] | None = None
    """An opening of reasoning in content: reasoning, reasoning only if it is closed, or text."""
    stray_markers: Literal["drop", "text"] | None = None
    """Markers that open or close nothing: dropped with a notice, or text."""
    markers_in_strings: Literal["data", "end"] | None = None
    """A call's closing in an open string of a literal, if something legal follows: text, or the call's end."""

    def __post_init__(self) -> None:
        for field, allowed in CHOICES.items():
            value = getattr(self, field)
            if value is not None and (type(value) is not type(allowed[0]) or value not in allowed):
                raise ValueError(f"policy.{field}: {value!r} is not one of {', '.join(map(str, allowed))}")

    def over(self, other: "Policy") -> "Policy":
        """Return this policy with its unset fields taken from ``other``."""
        unset = {f: getattr(other, f) for f in CHOICES if getattr(self, f) is None}
        return msgspec.structs.replace(self, **unset)


CHOICES: dict[str, tuple[Any, ...]] = {
    field: get_args(get_args(hint)[0]) or (False, True) for field, hint in Policy.__annotations__.items()
}
"""The fields of `Policy` and the values each may take, the library's default first."""

DEFAULTS = Policy(**{field: allowed[0] for field, allowed in CHOICES.items()})
"""The library's own defaults."""
