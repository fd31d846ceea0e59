"""The kinds of tokens, for trainers."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..events import ContentDelta, Event, Markup, Notice, ReasoningDelta, ToolCallDelta, ToolCallEnd, ToolCallStart

SAMPLED: Final = ("reasoning", "content", "calls", "markers")
"""The kinds of tokens that the model wrote; ``markers`` frame the others, and include the ends of turns."""
KINDS: Final = ("prompt", "results", *SAMPLED, "media")
"""All kinds: also ``prompt``, which the template and users wrote, ``results``, which tools wrote, and ``media``, which
an engine put in place of an image or another medium."""
PROMPT: Final = KINDS.index("prompt")
RESULTS: Final = KINDS.index("results")
MEDIA: Final = KINDS.index("media")
_REASONING, _CONTENT, _CALLS, _MARKERS = (KINDS.index(kind) for kind in SAMPLED)
_NAMES: Final = np.array(KINDS)

Codes = NDArray[np.uint8]


def codes_of(events: Sequence[Event], count: int) -> Codes:
    """The codes of the tokens of events; everything inside a call belongs to the call."""
    codes = np.full(count, _MARKERS, np.uint8)
    inside = False
    for event in events:
        start, end = event.token_start, event.token_end
        if isinstance(event, ToolCallStart):
            inside = True
        if isinstance(event, ReasoningDelta):
            codes[start:end] = _REASONING
        elif isinstance(event, ContentDelta):
            codes[start:end] = _CONTENT
        elif isinstance(event, ToolCallStart | ToolCallDelta | ToolCallEnd) or (inside and isinstance(event, Markup)):
            codes[start:end] = _CALLS
        if isinstance(event, ToolCallEnd):
            inside = False
        assert not isinstance(event, Notice) or start == end
    return codes


def names_of(codes: Codes) -> NDArray[np.str_]:
    return _NAMES[codes]


def mask_of(codes: Codes, kinds: Iterable[str]) -> NDArray[np.bool_]:
    """Which tokens are of one of these kinds; see `sampled_kinds`."""
    return np.isin(codes, [KINDS.index(kind) for kind in sampled_kinds(kinds)])


def sampled_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """A kind, or several; a `ValueError` if one is not of `SAMPLED`."""
    wanted = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    for kind in wanted:
        if kind not in SAMPLED:
            raise ValueError(f"kinds: {kind!r} is not one of {', '.join(SAMPLED)}")
    return wanted


def counts_of(events: Sequence[Event], count: int) -> dict[str, int]:
    """How many tokens of an answer are of each kind of `SAMPLED`."""
    found = np.bincount(codes_of(events, count), minlength=len(KINDS))
    return {kind: int(found[KINDS.index(kind)]) for kind in SAMPLED}
