"""``context_management`` of Messages: clears parts of a long history before the model reads it.

The client keeps sending its whole history. Each request makes the edits again, and the answer lists them. See
https://docs.claude.com/en/docs/build-with-claude/context-editing.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from typing import Any, Final, Literal

import msgspec

from ..validation import json_shown
from .fields import REQUIRED, Fields

CLEARED: Final = "[This result was cleared to make room.]"  # the text that replaces a result
_TOOL_USES: Final = "clear_tool_uses_20250919"
_THINKING: Final = "clear_thinking_20251015"

Messages = Sequence[dict[str, Any]]


class ClearToolUses(msgspec.Struct, frozen=True, kw_only=True):
    """Clears results of tools, the oldest first."""

    # trigger, beyond: the unit of the threshold, and the threshold that must be exceeded.
    trigger: Literal["input_tokens", "tool_uses"] = "input_tokens"
    beyond: int = 100_000
    keep: int = 3  # how many of the last results stay
    at_least: int = 0  # the smallest number of tokens to clear; if there are fewer, nothing is cleared
    excluded: frozenset[str] = frozenset()  # tools whose results stay
    # Whether the arguments of the same calls are cleared too: of all tools, or of those named.
    inputs: bool | frozenset[str] = False


class ClearThinking(msgspec.Struct, frozen=True):
    """Clears the thinking of early turns; ``keep`` of the last turns keep theirs, ``None`` means all."""

    keep: int | None = 1


Edit = ClearToolUses | ClearThinking


def read_edits(fields: Fields) -> tuple[Edit, ...]:
    """Read the edits that a request demands, in Anthropic's form."""
    given = fields.object("context_management")
    found: list[Edit] = []
    for one in given.objects("edits", ()):
        kind = one.one_of("type", (_TOOL_USES, _THINKING))
        if any(isinstance(known, ClearThinking) == (kind == _THINKING) for known in found):
            raise one.wrong("type", f"{json_shown(kind)} occurs twice")
        if kind == _THINKING and found:
            raise one.wrong("type", f"{json_shown(kind)} must come first")
        found.append(_thinking(one) if kind == _THINKING else _tool_uses(one))
    return tuple(found)


def _thinking(edit: Fields) -> ClearThinking:
    keep = edit.raw.get("keep", {"type": "thinking_turns", "value": 1})
    if isinstance(keep, dict):
        turns = Fields(keep, edit.path("keep"))
        if turns.one_of("type", ("thinking_turns", "all")) == "all":
            return ClearThinking(None)
        return ClearThinking(turns.integer("value", 1, default=1))
    if keep != "all":
        raise edit.wrong("keep", f"{json_shown(keep)} is not one of all or {{'type': 'thinking_turns', 'value': …}}")
    return ClearThinking(None)


def _tool_uses(edit: Fields) -> ClearToolUses:
    found = ClearToolUses()
    trigger = edit.object("trigger")
    kind = trigger.one_of("type", ("input_tokens", "tool_uses"), found.trigger)
    keep, least = edit.object("keep"), edit.object("clear_at_least")
    keep.one_of("type", ("tool_uses",), None)
    least.one_of("type", ("input_tokens",), None)
    listed = isinstance(edit.raw.get("clear_tool_inputs"), list)
    return ClearToolUses(
        trigger=kind,
        beyond=trigger.integer("value", 1, default=REQUIRED) if trigger.raw else found.beyond,
        keep=keep.integer("value", 0, default=found.keep),
        at_least=least.integer("value", 0, default=0),
        excluded=frozenset(edit.strings("exclude_tools")),
        inputs=frozenset(edit.strings("clear_tool_inputs")) if listed else edit.flag("clear_tool_inputs"),
    )


def edited(
    messages: Messages, edits: Sequence[Edit], tokens: Callable[[Messages], int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Make edits in order, with a count of the tokens of a prompt.

    Returns the new messages, and the edits that changed something in the form for the answer.
    """
    applied: list[dict[str, Any]] = []
    now = list(messages)
    for edit in edits:
        if isinstance(edit, ClearThinking):
            cleared, count = _without_thinking(now, edit)
            kind, field = _THINKING, "cleared_thinking_turns"
        else:
            cleared, count = _without_results(now, edit, tokens)
            kind, field = _TOOL_USES, "cleared_tool_uses"
        if not count:
            continue
        saved = max(0, tokens(now) - tokens(cleared))
        if isinstance(edit, ClearToolUses) and saved < edit.at_least:
            continue
        applied.append({"type": kind, field: count, "cleared_input_tokens": saved})
        now = cleared
    return now, applied


def _without_thinking(messages: Messages, edit: ClearThinking) -> tuple[list[dict[str, Any]], int]:
    """Remove the thinking of early turns, and count these turns. A turn is all between two messages of the user."""
    turns = list(accumulate(m["role"] == "user" for m in messages))
    thinking = sorted({at for m, at in zip(messages, turns, strict=True) if m.get("reasoning_content")})
    # A user message at the end begins the next turn, which has no thinking yet.
    early = set() if edit.keep is None else {at for at in thinking if at not in thinking[-edit.keep :]}
    return [
        {k: v for k, v in m.items() if k != "reasoning_content"} if at in early else m
        for m, at in zip(messages, turns, strict=True)
    ], len(early)


def _without_results(
    messages: Messages, edit: ClearToolUses, tokens: Callable[[Messages], int]
) -> tuple[list[dict[str, Any]], int]:
    """Remove early results, and count them."""
    names = {call["id"]: call["function"]["name"] for m in messages for call in m.get("tool_calls", ())}
    results = [at for at, m in enumerate(messages) if m["role"] == "tool"]
    size = len(results) if edit.trigger == "tool_uses" else tokens(messages)
    if size <= edit.beyond:
        return list(messages), 0
    early = results[: max(0, len(results) - edit.keep)]
    places = {at for at in early if names.get(messages[at].get("tool_call_id")) not in edit.excluded}
    ids = {messages[at].get("tool_call_id") for at in places}
    made = [{**m, "content": CLEARED} if at in places else m for at, m in enumerate(messages)]
    if edit.inputs is not False:
        made = [_without_inputs(m, ids, edit.inputs) for m in made]
    return made, len(places)


def _without_inputs(message: dict[str, Any], ids: Collection[Any], which: bool | frozenset[str]) -> dict[str, Any]:
    """A message in which the calls with these ids have no arguments."""

    def cleared(call: dict[str, Any]) -> dict[str, Any]:
        function = call["function"]
        chosen = which is True or (isinstance(which, frozenset) and function["name"] in which)
        if call["id"] not in ids or not chosen:
            return call
        return {**call, "function": {**function, "arguments": "{}"}}

    calls = message.get("tool_calls")
    return {**message, "tool_calls": [cleared(call) for call in calls]} if calls else message
