"""Plain whole answers, read straight into a message, without events.

A plain answer is what most models write most of the time: reasoning that opens and closes, text, and complete calls,
one after the other. `glance` returns the message that the machine would make of such an answer. For any other it
returns ``None``, and the machine reads it.
"""

from collections.abc import Iterable
from typing import Literal

from ..dialect.markers import CALL, END, REASONING, REASONING_END, Block, Marker, Opening, Region
from ..dialect.patterns import MAX_SPACE, MORE, NO, Pattern, names_call, skip_separators, skip_space
from ..dialect.plan import Plan
from ..events import Stage
from ..message import Message, Segment, ToolCall
from ..toolset import Toolset
from .ids import Ids, MakeId
from .parts import lead_of
from .white import common_prefix, common_suffix
from .whole import Whole, whole_call


class _NotPlain(Exception):
    """The answer needs the machine."""


def glance(text: str, plan: Plan, tools: Toolset, stage: Stage, reason: str, ids: MakeId | None) -> Message | None:
    """Return the message of a whole output if the output is plain, else ``None``.

    Args:
        text: the output.
        plan: its dialect's.
        tools: what may be called.
        stage: how the output begins.
        reason: the engine's finish reason.
        ids: makes the ids of calls that carry none.
    """
    policy = plan.policy
    usual = policy.text_before_tools == policy.text_between_tools == "keep" and policy.unclosed_reasoning != "content"
    if plan.framed or not usual or tools.kind != "auto" or tools.tools == {}:
        return None
    reading = _Glance(text, plan, tools, ended=reason != "length")
    try:
        if stage is Stage.REASONING and plan.reasoning.ends:
            reading.reasoning(0, plan.reasoning.lead)
        elif stage is not Stage.CONTENT:
            return None
        reading.read()
        return reading.message(reason, ids)
    except _NotPlain:
        return None


class _Glance:
    """Reads one output."""

    __slots__ = ("_at", "_calls", "_ended", "_margin", "_plan", "_seen", "_segments", "_text", "_tools", "_within")

    def __init__(self, text: str, plan: Plan, tools: Toolset, *, ended: bool) -> None:
        self._text = text
        self._plan = plan
        self._tools = tools
        self._ended = ended
        self._segments: list[Segment] = []
        self._calls: list[tuple[Whole, dict[str, str]]] = []  # with the fields of their openings
        self._at = 0  # the output is read up to here
        self._margin = plan.content_lead  # white space that the last part removes from the text after it
        self._seen = False  # a part has begun
        self._within: Block | None = None  # the last block of calls

    def read(self) -> None:
        """Read the parts, one after the other."""
        text = self._text
        n = len(text)
        while True:
            i = skip_space(text, self._at)
            if i - self._at > MAX_SPACE:
                raise _NotPlain
            if i == n:
                if not self._segments:
                    raise _NotPlain
                return
            o, end, fields = self._standing(self._plan.reading.edge.at(text, i), i)
            if o is None:
                self._nothing_else(i)
                self._content(i)
            elif o.kind == REASONING:
                self.reasoning(end, lead_of(o))
            elif o.kind == CALL:
                self._block(o, i, end, fields)
            else:
                self._over(o, end)

    def message(self, reason: str, make: MakeId | None) -> Message:
        """The message that was read."""
        ids = Ids(self._plan.dialect.id, make)
        known = None if self._tools.names is None else True
        calls: list[ToolCall] = []
        for index, (call, fields) in enumerate(self._calls):
            call_id = ids.of(index, call.name, fields)
            if ids.give(call_id, index, call.name) != call_id:
                raise _NotPlain
            calls.append(ToolCall(index, call_id, call.name, call.arguments, "ok", known))
        segments = self._segments
        return Message(
            reasoning="".join([s.text for s in segments if s.kind == "reasoning"]),
            content="".join([s.text for s in segments if s.kind == "content"]),
            tool_calls=calls,
            finish_reason="tool_calls" if reason == "stop" and calls else reason,
            segments=segments,
            notices=[],
        )

    # -- markers ------------------------------------------------------------------------------------------------------

    def _standing(self, markers: Iterable[Marker], i: int) -> tuple[Marker | None, int, dict[str, str]]:
        """The first marker that matches at ``i``, its end, and its fields."""
        text = self._text
        for o in markers:
            fields: dict[str, str] = {}
            end = o.pattern.match(text, i, fields)
            if end >= 0:
                return o, end, fields
            if end != NO:
                raise _NotPlain
        return None, NO, {}

    def _nothing_else(self, i: int) -> None:
        """Make sure that nothing at ``i`` would be dropped."""
        text, plan = self._text, self._plan
        self._none_stands([s.pattern for s in plan.reading.strays.at(text, i)], i)
        if not self._seen:
            self._none_stands([o.pattern for o in plan.reasoning.ends], i)

    def _none_stands(self, patterns: Iterable[Pattern], i: int) -> None:
        for pattern in patterns:
            if pattern.match(self._text, i, {}) != NO:
                raise _NotPlain

    # -- parts --------------------------------------------------------------------------------------------------------

    def reasoning(self, i: int, lead: str) -> None:
        """Read reasoning, whose opening ends at ``i``, up to its closing."""
        text, plan = self._text, self._plan
        j = skip_space(text, i)
        self._none_stands([o.pattern for o in plan.plain.edge.at(text, j) if o.kind == REASONING], j)
        region = plan.reading.reasoning
        begin = i + common_prefix(text, lead, i)
        p, o, end, _ = self._found(region, begin)
        if o is None or o.kind != REASONING_END:
            raise _NotPlain
        self._put("reasoning", begin, p - common_suffix(text, begin, p, region.inner))
        self._leave(end, plan.reasoning.trail)

    def _found(self, region: Region, i: int) -> tuple[int, Marker | None, int, dict[str, str]]:
        """The first marker in a text from ``i`` on: its place, and the rest as in `_standing`."""
        m = region.scan.find.search(self._text, i)
        if m is None:
            return len(self._text), None, NO, {}
        if m.group() not in region.scan.triggers:
            raise _NotPlain
        p = m.start()
        o, end, fields = self._standing(region.scan.markers.at(self._text, p), p)
        if o is None:
            raise _NotPlain
        return p, o, end, fields

    def _content(self, i: int) -> None:
        """Read content, whose first character other than white space is ``text[i]``."""
        text, plan = self._text, self._plan
        begin = self._at + common_prefix(text, self._margin, self._at)
        region = plan.reading.text
        p, o, end, fields = self._found(region, i)
        if o is None:
            self._put("content", begin, p - (common_suffix(text, i, p, region.inner) if self._ended else 0))
            self._leave(p, "")
        elif o.kind == CALL and o.marked and text.find("`", begin, p) < 0:
            margin = self._block_of(o).margin
            self._put("content", begin, p - common_suffix(text, i, p, margin))
            self._block(o, p, end, fields)
        elif o.kind == END and text.find("`", begin, p) < 0:
            self._put("content", begin, p - (common_suffix(text, i, p, region.inner) if self._ended else 0))
            self._over(o, end)
        else:
            raise _NotPlain

    def _over(self, o: Marker, end: int) -> None:
        """The turn ends at ``end``; make sure that nothing follows."""
        n = len(self._text)
        if o.kind != END or skip_space(self._text, end) < n or n - end > MAX_SPACE:
            raise _NotPlain
        self._leave(n, "")

    def _put(self, kind: Literal["reasoning", "content"], start: int, end: int) -> None:
        if end > start:
            text = self._text[start:end]
            if text.isspace():
                raise _NotPlain
            self._segments.append(Segment(kind, start, end, text))

    def _leave(self, i: int, margin: str) -> None:
        self._at = i
        self._margin = margin
        self._seen = True

    # -- calls --------------------------------------------------------------------------------------------------------

    def _block_of(self, o: Marker) -> Block:
        return o.block or self._within or self._plan.calls.blocks[0]

    def _block(self, o: Marker | None, i: int, end: int, fields: dict[str, str]) -> None:
        """Read calls, the first of which opens at ``text[i:end]``, and the closing of their block."""
        text, plan = self._text, self._plan
        while True:
            if o is None:
                raise _NotPlain
            within = self._within = self._block_of(o)
            i = self._call(o, within, i, end, fields)
            j = skip_separators(text, i)
            if plan.calls.separator:
                r = plan.calls.separator.match(text, j, {})
                if r == MORE:
                    raise _NotPlain
                if r >= 0:
                    j = skip_separators(text, r)
            if j - i > MAX_SPACE:
                raise _NotPlain
            if j == len(text):
                if within.closing:
                    raise _NotPlain
                self._leave(j, "")
                return
            closed = self._closes(within, j)
            if closed >= 0:
                self._leave(closed, plan.calls.block_trail)
                return
            o, end, fields = self._standing(
                plan.calls.inner if within.marked else within.inner or plan.calls.inner_bare, j
            )
            if o is None and not within.closing:
                self._none_stands(plan.calls.call_closings, j)
                other, _, _ = self._standing(plan.reading.edge.at(text, j), j)
                self._leave(i if other is None else j, plan.calls.block_trail)
                return
            i = j

    def _closes(self, within: Block, i: int) -> int:
        """The end of the block's closing at ``i``."""
        for block in (within, *self._plan.calls.closed_blocks) if within.closing else self._plan.calls.closed_blocks:
            r = block.closing.match(self._text, i, {})
            if r == MORE:
                raise _NotPlain
            if r >= 0:
                return r
        return NO

    def _call(self, o: Marker, block: Block, i: int, end: int, fields: dict[str, str]) -> int:
        """Read a call that opens at ``text[i:end]``, and return its end."""
        names = self._tools.names
        assert isinstance(o, Opening)
        assert o.form is not None
        if (names is None and not (o.marked and names_call(fields.get("name", "x")))) or o.pattern.splits_name:
            raise _NotPlain
        whole = whole_call(self._plan, self._tools, o.form, block, self._text, end, fields)
        if whole is None:
            raise _NotPlain
        self._segments.append(Segment("tool_call", i, whole.end, "", len(self._calls)))
        self._calls.append((whole, fields))
        return whole.end
