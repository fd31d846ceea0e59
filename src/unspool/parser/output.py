"""The machine's ground: the text that waits, the events that go out, and what is held back."""

from typing import Final

from ..dialect.plan import Block, Plan
from ..events import (
    ContentDelta,
    Event,
    Markup,
    Notice,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
)
from .call import Call
from .quoting import Quoting

CAP: Final = 65_536
"""How many characters may be held back before they are released."""
MAX_DETAIL: Final = 80
_ALWAYS: Final = -(1 << 62)

# The machine's states. Text comes first, then what belongs to calls.
(
    EDGE,
    TEXT,
    REASONING_START,
    REASONING,
    UNDECIDED,
    FRAME_START,
    BLOCK,
    BLOCK_TEXT,
    OBJECT,
    ARGUMENTS,
    MEMBERS,
    VALUE_START,
    VALUE,
    CLOSE,
    RECOVER,
    RESUMING,
) = range(16)

# Why something is held back: a call's name is not known; its arguments may be wrong, or, in a thought, make it none;
# reasoning may never be closed, and be content, or, where it opened in content, be none.
HEADER, BAD_CALL, THOUGHT_CALL, OPEN_REASONING, OPENED_REASONING = range(5)


class Hold:
    """Events that wait for a decision, and where to go back to if it falls against them."""

    __slots__ = ("edge", "events", "framed", "index", "kind", "resume", "start", "state", "thinking")

    def __init__(self, kind: int, machine: "Output") -> None:
        self.kind = kind
        self.start = machine._at
        self.state = machine._state
        self.index = machine._index
        self.edge = machine._state == EDGE
        self.thinking = machine._thinking
        self.resume = machine._resume
        self.framed = machine._framed
        self.events = machine._out


class Output:
    """Waiting text, outgoing events, holds.

    ``_buf[_i:]`` waits; ``_base`` is the offset of ``_buf[0]`` in the output, negative while a prompt's tail is read.
    Events tile: each begins at ``_at``, where the one before it ended.
    """

    __slots__ = (
        "_at",
        "_base",
        "_buf",
        "_call",
        "_calls",
        "_calls_from",
        "_ended",
        "_final",
        "_foreign",
        "_framed",
        "_holds",
        "_i",
        "_index",
        "_kept",
        "_kept_at",
        "_lead",
        "_margin",
        "_marks",
        "_out",
        "_plain",
        "_plan",
        "_prose",
        "_quoting",
        "_replay",
        "_resume",
        "_seen_part",
        "_seen_text",
        "_state",
        "_thinking",
        "_thoughts_from",
        "_within",
    )

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._buf = ""
        self._i = 0
        self._base = 0
        self._at = 0
        self._state = EDGE
        self._out: list[Event] = []
        self._holds: list[Hold] = []
        self._kept: list[str] | None = None  # what was consumed and may still be asked for
        self._kept_at = 0
        self._call: Call | None = None
        self._index = 0  # of the next call
        self._calls = 0  # calls that ended
        self._within: Block | None = None  # the block that is open
        self._lead = ""  # white space that the latest opening takes from the text behind it
        self._margin = ""  # white space that the last part takes from text behind it
        self._prose = False  # text since the beginning or the last call
        self._plain = False  # calls are text
        self._framed = False  # inside a content frame
        self._thinking = False  # inside reasoning (a call may interrupt it)
        self._resume = False  # reasoning goes on after the call, if text follows
        self._calls_from = self._thoughts_from = _ALWAYS  # what would open before these offsets is text
        self._quoting = Quoting()
        self._seen_part = False
        self._seen_text = False
        self._final = False  # no more text comes
        self._ended = False  # the model ended it; it was not cut at its length
        self._replay = False  # reading a prompt
        self._marks: set[int] | None = None  # offsets of special tokens that are markers, when ids are fed
        self._foreign: list[tuple[int, int]] = []  # spans of special tokens that no template names

    # -- source ---------------------------------------------------------------------------------------------------

    def _source(self, start: int, end: int) -> str:
        """The output between two offsets that are not long gone."""
        base = self._base
        if start >= base:
            return self._buf[start - base : end - base]
        kept = self._kept
        assert kept is not None
        text = "".join(kept)
        kept[:] = [text]
        whole = text + self._buf[: max(0, end - base)]
        return whole[start - self._kept_at : end - self._kept_at]

    def _keep(self) -> None:
        """From here on, keep what is consumed."""
        if self._kept is None:
            self._kept = []
            self._kept_at = self._base

    def _let_go(self) -> None:
        if self._call is None and not self._holds:
            self._kept = None

    # -- events ---------------------------------------------------------------------------------------------------

    def _put_text(self, end: int) -> None:
        """Text up to an offset goes out, as reasoning or content."""
        while self._foreign and self._foreign[0][0] < end:
            first, last = self._foreign.pop(0)
            self._put_text(first)
            self._put_markup(last)
        start = self._at
        if end <= start:
            return
        text = self._source(start, end)
        self._at = end
        if not self._thinking:
            self._quoting.put(text, start)
        if start < 0:  # the prompt's part of it has been said
            text = text[-start:]
            start = 0
            if end <= 0:
                return
        if self._thinking:
            self._out.append(ReasoningDelta(text, start, end))
            self._seen_text = True
        else:
            self._out.append(ContentDelta(text, start, end))
            if not (self._prose and self._seen_text) and not text.isspace():
                self._prose = self._seen_text = True

    def _put_markup(self, end: int) -> None:
        start = self._at
        if end <= start:
            return
        text = self._source(start, end)
        self._at = end
        if start < 0:
            if end <= 0:
                return
            text = text[-start:]
            start = 0
        self._out.append(Markup(text, start, end))

    def _span(self, end: int) -> tuple[int, int]:
        start, self._at = self._at, max(end, self._at)
        return max(start, 0), max(self._at, 0)

    def _notice(self, kind: str, detail: str = "") -> None:
        at = max(self._at, 0)
        if len(detail) > MAX_DETAIL:
            detail = detail[:MAX_DETAIL] + "…"
        self._out.append(Notice(kind, detail, at, at))

    # -- holds ----------------------------------------------------------------------------------------------------

    def _hold(self, kind: int) -> None:
        """What comes now waits for `_commit` or `_discard`."""
        self._keep()
        self._holds.append(Hold(kind, self))
        self._out = []

    def _commit(self) -> None:
        hold = self._holds.pop()
        hold.events.extend(self._out)
        self._out = hold.events

    def _discard(self) -> Hold:
        """Forget the events of the innermost hold; what it spans has not been said."""
        hold = self._holds.pop()
        self._out = hold.events
        self._at = hold.start
        self._index = hold.index
        self._thinking = hold.thinking
        self._resume = hold.resume
        self._framed = hold.framed
        return hold

    def _rewind(self, to: int) -> None:
        """Go back to an offset whose text is kept, and read from there again."""
        here = self._base + self._i
        if to < self._base:
            text = self._source(to, here)
            self._buf = text + self._buf[self._i :]
            self._kept = [self._source(self._kept_at, to)] if self._holds else None
            self._base = to
        self._i = to - self._base
        self._at = to

    def _too_much(self) -> bool:
        """Whether more is held back than the cap allows."""
        return bool(self._holds) and self._base + self._i - self._holds[0].start > CAP

    def _overflow(self) -> None:
        """Holds that have grown beyond their cap are released."""
        while self._too_much():
            kind = self._holds[-1].kind
            if kind == HEADER:
                self._notice_outside("hold_overflow", "a call's name")
                self._abort_header()
            elif kind == OPENED_REASONING:
                self._notice_outside("hold_overflow", "reasoning")
                self._reopen()
            else:
                self._commit()
                self._notice("hold_overflow", "a call" if kind in (BAD_CALL, THOUGHT_CALL) else "reasoning")

    def _notice_outside(self, kind: str, detail: str) -> None:
        out, self._out = self._out, self._holds[-1].events
        at, self._at = self._at, self._holds[-1].start
        self._notice(kind, detail)
        self._out, self._at = out, at

    def _abort_header(self) -> None:
        """What opened a call holds no name: it comes back as text."""
        hold = self._discard()
        if hold.thinking or hold.resume:
            self._back_to_thought(hold)
            return
        here = self._base + self._i
        self._call = None
        self._state = hold.state
        if hold.state == BLOCK:
            self._put_text(here)
            self._state = BLOCK_TEXT
        elif hold.state in (EDGE, TEXT):
            if hold.edge:
                self._put_edge(here)
            self._state = TEXT
            self._put_text(here)
        else:
            self._put_text(here)
        self._let_go()

    def _back_to_thought(self, hold: Hold) -> None:
        """What began as a call in a thought was none: it is read again, and no call begins in it."""
        self._call = None
        self._calls_from = min(self._base + self._i, hold.start + CAP)
        self._rewind(hold.start)
        self._state = RESUMING if hold.resume else hold.state
        self._let_go()

    def _reopen(self) -> None:
        """What opened reasoning in content was text: it is read again, and nothing opens reasoning in it."""
        hold = self._discard()
        self._thoughts_from = min(self._base + self._i, hold.start + CAP)
        self._rewind(hold.start)
        self._state = TEXT
        self._let_go()

    def _put_edge(self, end: int) -> None:
        """At a boundary text begins: the last part's margin is taken off it."""
        margin = self._margin
        if margin:
            text = self._source(self._at, min(end, self._at + len(margin)))
            k = 0
            while k < len(text) and text[k] == margin[k]:
                k += 1
            self._put_markup(self._at + k)
            self._margin = ""

    def _as_content(self, events: list[Event]) -> list[Event]:
        """Reasoning that nobody closed, told as content."""
        told: list[Event] = []
        for event in events:
            if isinstance(event, ReasoningDelta):
                told.append(ContentDelta(event.text, event.start, event.end))
            elif isinstance(event, ReasoningStart):
                if event.end > event.start:
                    told.append(Markup(self._source(event.start, event.end), event.start, event.end))
            elif not isinstance(event, ReasoningEnd):
                told.append(event)
        return told


def common_suffix(text: str, start: int, end: int, margin: str) -> int:
    """How many characters before ``end`` are a suffix of the margin."""
    for k in range(min(len(margin), end - start), 0, -1):
        if text.endswith(margin[-k:], start, end):
            return k
    return 0


def held_suffix(text: str, start: int, end: int, margin: str) -> int:
    """How many characters before ``end`` may become a suffix of the margin."""
    for k in range(min(len(margin), end - start), 0, -1):
        if text[end - k : end] in margin:
            return k
    return 0
