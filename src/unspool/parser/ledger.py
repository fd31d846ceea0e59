"""The text of an output, as far as it was fed, and the events that cover it: those that go out, and those that wait."""

from typing import Any, Final

import msgspec

from ..events import (
    ContentDelta,
    Event,
    Finish,
    Markup,
    Notice,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Status,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from .quoting import Quoting
from .white import common_prefix


class Tape(msgspec.Struct, eq=False):
    """The output, as far as it was fed.

    Reading moves ``i``. Text that was read is dropped when the next piece comes, unless it is kept."""

    buf: str = ""  # ``buf[i:]`` waits
    i: int = 0
    base: int = 0  # the offset of ``buf[0]`` in the output; negative while the end of a prompt is read
    final: bool = False  # no more text will come
    ended: bool = False  # the output ends because the model stopped; it was not cut by length
    # What was read before ``buf`` and is kept, from the offset ``kept_at`` on; ``None``: nothing is.
    kept: list[str] | None = None
    kept_at: int = 0

    @property
    def here(self) -> int:
        """The offset of the waiting text."""
        return self.base + self.i

    @property
    def end(self) -> int:
        """The offset after everything that was fed."""
        return self.base + len(self.buf)

    def drop(self) -> None:
        """Drop what was read, unless it is kept."""
        i = self.i
        if i:
            if self.kept is not None:
                self.kept.append(self.buf[:i])
            self.buf = self.buf[i:]
            self.base += i
            self.i = 0

    def source(self, start: int, end: int) -> str:
        """The output between two offsets; before ``base``, only as far as it is kept."""
        base = self.base
        if start >= base:
            return self.buf[start - base : end - base]
        kept = self.kept
        assert kept is not None
        text = "".join(kept)
        kept[:] = [text]
        whole = text + self.buf[: max(0, end - base)]
        return whole[start - self.kept_at : end - self.kept_at]

    def keep(self) -> None:
        """Keep what is read from now on."""
        if self.kept is None:
            self.kept = []
            self.kept_at = self.base

    def rewind(self, to: int, *, keep: bool) -> None:
        """Go back to an offset whose text is kept; ``keep``: the text before it is still needed."""
        if to < self.base:
            text = self.source(to, self.here)
            self.buf = text + self.buf[self.i :]
            self.kept = [self.source(self.kept_at, to)] if keep else None
            self.base = to
        self.i = to - self.base


CAP: Final = 65_536  # how many characters may be held back before they are released
MAX_DETAIL: Final = 80


class Why:
    """Why events are held back."""

    HEADER: Final = "header"  # the name of a call is not known yet
    BAD_CALL: Final = "bad call"
    """The arguments of a call may turn out wrong, and a policy decides what then becomes of the call."""
    THOUGHT_CALL: Final = "thought call"  # a call in reasoning is not a call if its arguments are wrong
    UNCLOSED_CALL: Final = "unclosed call"  # a call whose opening is followed by text is text if it is never closed
    OPEN_REASONING: Final = "open reasoning"  # reasoning that is never closed is content
    OPENED_REASONING: Final = "opened reasoning"  # reasoning that opened in content and is never closed is content


_THOUGHTS: Final = (Why.OPEN_REASONING, Why.OPENED_REASONING)


class Hold(msgspec.Struct, eq=False):
    """The beginning of events that wait, and the state of the ledger to restore if they are discarded."""

    why: str  # why they wait
    place: Any  # where the machine returns
    before: int  # how many of the ledger's events come before them
    start: int  # the offset at which the span of the events begins
    # thinking, paused, spoken, index: the values of the ledger's attributes.
    thinking: bool
    paused: bool
    spoken: bool
    index: int


class Ledger(msgspec.Struct, eq=False):
    """Collects events: those that go out now, and those that may still change.

    Events tile the output: each begins at ``at``, where the one before it ended. What comes after a hold waits:
    popping the hold sends it after what came before, `discard` forgets it."""

    _tape: Tape
    foreign_spans: list[tuple[int, int]] = []  # spans of special tokens that no template names
    events: list[Event] = []  # those that did not go out yet, held or not
    at: int = 0  # the offset up to which the output is covered by events
    holds: list[Hold] = []  # the open holds, the outermost first
    thinking: bool = False  # text is reasoning now
    paused: bool = False  # a call has interrupted reasoning, which goes on if text follows
    index: int = 0  # the index of the next call
    calls: int = 0  # how many calls have ended
    prose: bool = False  # text came since the beginning, or since the last call
    spoken: bool = False  # text of reasoning or content was emitted
    quoting: Quoting = msgspec.field(default_factory=Quoting)  # follows code in the content

    # -- emitting -----------------------------------------------------------------------------------------------------

    def text(self, end: int) -> None:
        """Emit the text up to an offset, as reasoning or content."""
        foreign = self.foreign_spans
        while foreign and foreign[0][0] < end:
            first, last = foreign.pop(0)
            self.text(first)
            self.markup(last)
        start = self.at
        if end <= start:
            return
        tape = self._tape
        base = tape.base
        text = tape.buf[start - base : end - base] if start >= base else tape.source(start, end)
        self.at = end
        if not self.thinking:
            self.quoting.put(text, start)
        if start < 0:  # the prompt's part of it is already covered
            text = text[-start:]
            start = 0
            if end <= 0:
                return
        if self.thinking:
            self.events.append(ReasoningDelta(text, start, end))
            self.spoken = True
        else:
            self.events.append(ContentDelta(text, start, end))
            if not (self.prose and self.spoken) and not text.isspace():
                self.prose = self.spoken = True

    def markup(self, end: int) -> None:
        """Emit markup up to an offset."""
        start = self.at
        if end <= start:
            return
        tape = self._tape
        base = tape.base
        text = tape.buf[start - base : end - base] if start >= base else tape.source(start, end)
        self.at = end
        if start < 0:
            if end <= 0:
                return
            text = text[-start:]
            start = 0
        self.events.append(Markup(text, start, end))

    def notice(self, kind: str, detail: str = "") -> None:
        """Emit a notice: the output deviates from the format."""
        self.events.append(_notice(kind, detail, self.at))

    def notice_before(self, kind: str, detail: str) -> None:
        """Emit a notice before everything that is held."""
        hold = self.holds[-1]
        self.events.insert(hold.before, _notice(kind, detail, hold.start))
        hold.before += 1

    def open_reasoning(self, end: int) -> None:
        """Reasoning opens; its opening ends at an offset."""
        start, stop = self._span(end)
        self.events.append(ReasoningStart(start, stop))
        self.thinking = True
        self.paused = False

    def edge(self, margin: str, end: int) -> None:
        """Text up to an offset begins at a boundary: what it has of this white space belongs to the format."""
        if margin:
            text = self._tape.source(self.at, min(end, self.at + len(margin)))
            self.markup(self.at + common_prefix(text, margin))

    def end_reasoning(self, end: int, *, pause: bool = False) -> None:
        """Reasoning closes, or pauses for a call; its closing ends at an offset."""
        start, stop = self._span(end)
        self.events.append(ReasoningEnd(start, stop))
        self.thinking = False
        self.paused = pause

    def start_call(self, call_id: str, name: str, end: int, known: bool | None) -> None:
        """The next call starts; its header ends at an offset."""
        start, stop = self._span(end)
        self.events.append(ToolCallStart(self.index, call_id, name, start, stop, known))
        self.index += 1

    def arguments(self, index: int, fragment: str, end: int) -> None:
        """Emit a piece of a call's arguments."""
        start, self.at = self.at, end if end > self.at else self.at
        self.events.append(ToolCallDelta(index, fragment, start if start > 0 else 0, self.at if self.at > 0 else 0))

    def end_call(self, index: int, status: Status, begun: int, end: int) -> None:
        """A call that began at one offset ends at another."""
        start, stop = self._span(end)
        raw = "" if status == "ok" else self._tape.source(max(begun, 0), stop)
        self.events.append(ToolCallEnd(index, status, start, stop, raw))

    def whole_call(
        self,
        call_id: str,
        name: str,
        known: bool | None,
        header: int,
        arguments: str,
        inside: int,
        end: int,
    ) -> None:
        """Emit a call that is complete, and begins here: its header, arguments and itself end at some offsets."""
        at, index = self.at, self.index
        if at < 0:  # it begins in a prompt
            at, header, inside = 0, max(header, 0), max(inside, 0)
        self.events += (
            ToolCallStart(index, call_id, name, at, header, known),
            ToolCallDelta(index, arguments, header, inside),
            ToolCallEnd(index, "ok", inside, max(end, 0)),
        )
        self.at = end
        self.index = index + 1
        self.count_call()

    def count_call(self) -> None:
        """A call has certainly ended; prose is counted from here again."""
        self.calls += 1
        self.prose = False
        if self.quoting.begun:
            self.quoting.restart()

    def finish(self, reason: str) -> None:
        """The output is over."""
        at = max(self.at, 0)
        self.events.append(Finish(reason, at, at))

    def _span(self, end: int) -> tuple[int, int]:
        start = self.at
        if end > start:
            self.at = end
        else:
            end = start
        return start if start > 0 else 0, end if end > 0 else 0

    # -- holding ------------------------------------------------------------------------------------------------------

    def hold(self, why: str, place: Any, margin: int | None = None) -> None:
        """Hold what comes from now on, and the last markup if it begins at an offset (``margin``), until the hold is
        popped, or `discard`."""
        self._tape.keep()
        before, start = len(self.events), self.at
        if self.events and isinstance(self.events[-1], Markup) and self.events[-1].start == margin:
            before, start = before - 1, margin
        self.holds.append(Hold(why, place, before, start, self.thinking, self.paused, self.spoken, self.index))

    def held_for(self, *why: str) -> bool:
        """Whether the innermost hold is for one of these reasons."""
        holds = self.holds
        return bool(holds) and holds[-1].why in why

    @property
    def doubtful(self) -> Hold | None:
        """The hold on a call that is text if it is never closed, if there is one."""
        for hold in self.holds:
            if hold.why == Why.UNCLOSED_CALL:
                return hold
        return None

    def commit_thought(self) -> bool:
        """Commit a hold on reasoning that might have been content, if there is one."""
        held = self.held_for(*_THOUGHTS)
        if held:
            self.holds.pop()
        return held

    def discard(self) -> Hold:
        """Drop the innermost hold and its events: what it spans is not covered any more."""
        hold = self.holds.pop()
        del self.events[hold.before :]
        self.at = hold.start
        self.index = hold.index
        self.thinking = hold.thinking
        self.paused = hold.paused
        self.spoken = hold.spoken
        return hold

    def too_much(self) -> bool:
        """Whether more is held back than the cap allows."""
        tape = self._tape
        return bool(self.holds) and tape.base + tape.i - self.holds[0].start > CAP

    def take(self) -> list[Event]:
        """Take the events that go out."""
        if not self.holds:
            due, self.events = self.events, []
            return due
        count = self.holds[0].before
        due = self.events[:count]
        if due:
            del self.events[:count]
            for hold in self.holds:
                hold.before += -count
        return due

    def as_content(self) -> None:
        """Turn the reasoning in the innermost hold into content: it was never closed."""
        hold = self.holds.pop()
        content = [self._content(event) for event in self.events[hold.before :]]
        self.events[hold.before :] = [event for event in content if event is not None]
        said = (e.text for e in content if isinstance(e, ContentDelta))
        self.spoken = hold.spoken or any(not text.isspace() for text in said)
        self.thinking = False
        if not self.holds:
            self._tape.kept = None

    def _content(self, event: Event) -> Event | None:
        if isinstance(event, ReasoningDelta):
            return ContentDelta(event.text, event.start, event.end)
        if isinstance(event, ReasoningStart):
            if event.end == event.start:
                return None
            return Markup(self._tape.source(event.start, event.end), event.start, event.end)
        return None if isinstance(event, ReasoningEnd) else event

    # -- a prompt -----------------------------------------------------------------------------------------------------

    def replayed(self, call: int) -> str:
        """The prompt was read: forget its events, and return the arguments of the call with this index."""
        if self.held_for(Why.THOUGHT_CALL):
            self.holds.pop()  # a call in the prompt is meant as one
        events, self.events = self.events, []
        for hold in self.holds:
            hold.before = hold.index = 0
            hold.thinking = hold.thinking and hold.why != Why.BAD_CALL  # what the prompt's call ended stays ended
        self.spoken = self.prose = False
        self.calls = self.index = 0
        self.at = min(self.at, self._tape.here)
        return "".join(e.arguments for e in events if isinstance(e, ToolCallDelta) and e.index == call)

    def forget_notices(self) -> None:
        """Forget the notices about a prompt; nothing is held."""
        self.events = [event for event in self.events if not isinstance(event, Notice)]

    def reopen_call(self, call_id: str, name: str, known: bool | None, begun: str) -> None:
        """Start the call that the prompt opened, with the prompt's part of its arguments."""
        self.events.append(ToolCallStart(0, call_id, name, 0, 0, known))
        if begun:
            self.events.append(ToolCallDelta(0, begun, 0, 0))
        self.index = 1

    def reopen_reasoning(self) -> None:
        """Start the reasoning that the prompt opened, before the call that it opened in it."""
        called = next((n for n, hold in enumerate(self.holds) if hold.why == Why.HEADER), len(self.holds))
        self.events.append(ReasoningStart(0, 0))
        for hold in self.holds[called:]:
            hold.before += 1


def _notice(kind: str, detail: str, at: int) -> Notice:
    at = max(at, 0)
    if len(detail) > MAX_DETAIL:
        detail = detail[:MAX_DETAIL] + "…"
    return Notice(kind, detail, at, at)
