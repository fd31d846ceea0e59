"""What is open reads on: pieces of text that only continue it, without a step of the machine.

A flow emits what certainly belongs to it, and lets wait what may. At anything else the machine goes on, from where the
flow stands; then what is open flows again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ..dialect.literals import Finder
from ..dialect.markers import Scan
from ..dialect.patterns import MAX_SPACE
from ..events import ContentDelta, Event, ReasoningDelta, ToolCallDelta
from ..message import Fold, OpenSegment
from . import states
from .call import CallSink, OpenCall
from .machine import Machine
from .readers.literal import DONE, LiteralReader
from .readers.markup import MarkupReader
from .readers.memory import NOTHING, Spot, Step, memory
from .readers.pieces import PieceState, StringKind, markup_values
from .readers.strings import SHORT, unescaped
from .white import held_suffix

_WAITING: Final = 256  # how many characters may wait before the machine must look at them
_DROPPED: Final = MAX_SPACE - 4 * SHORT
"""After so many characters that become no JSON, the machine must soon look at them."""

Stretch = tuple[PieceState, str | None, str | None, int, Callable[[str], None], Callable[[str], None] | None]
"""How to emit pieces of a string: the known pieces, and their two characters that no plain piece contains; the index of
the call; the function that adds their JSON to the message; and the function that keeps what was written, if the JSON
cannot be turned back into it."""


class Flow:
    """An open part of the output, and what was read of it since the machine last ran. ``holds``: all of that waits."""

    holds = False

    def __init__(self, machine: Machine) -> None:
        tape, ledger = machine.tape, machine.ledger
        tape.drop()
        self._machine = machine
        self._lag = tape.base - ledger.at  # how many characters were read since, and became no event
        self.at = ledger.at  # the offset up to which events cover the output, as of the last piece that `feed` took
        self.waits = tape.buf  # text that was not read yet
        self.stretch: Stretch | None = None  # how to emit the pieces of a string; ``None`` if each must be fed
        self.taken = False  # the piece that `feed` did not read to its end is part of what waits

    def feed(self, text: str, at: int) -> list[Event] | None:
        """The events of a piece of text, where events cover the output up to an offset; ``None``: the machine must
        read it."""
        raise NotImplementedError

    def joins(self, at: int) -> None:
        """The emitted pieces are joined now."""

    def stop(self, at: int) -> None:
        """Let the machine go on. Events cover the output up to an offset."""
        machine = self._machine
        machine.tape.buf = self.waits
        machine.tape.base = at + self._lag
        machine.tape.i = 0
        machine.ledger.at = at

    def waiting(self, stretch: Stretch | None) -> int:
        """How many characters wait, in a stretch or outside of one."""
        return self._lag + len(self.waits if stretch is None else stretch[0].waits)


class TextFlow(Flow):
    """Running text: reasoning or content."""

    def __init__(self, machine: Machine, segment: OpenSegment, scan: Scan, back: str, back2: str) -> None:
        super().__init__(machine)
        assert segment.text is not None
        self._segment = segment
        self._growing = segment.text
        self._begun = len(segment.text)
        self._event: type[ContentDelta | ReasoningDelta] = ContentDelta if segment.kind == "content" else ReasoningDelta
        self._find, heads = scan.find, scan.heads
        # One of two characters begins everything that may end the text; every text contains the empty string.
        self._stop, self._stop2 = (heads[0], heads[-1]) if 0 < len(heads) <= 2 else ("", "")
        # White space, of two kinds, that may belong to what ends it.
        self._back, self._back2 = back, back2

    def feed(self, text: str, at: int) -> list[Event] | None:
        if self.waits:
            text = self.waits + text
        if (self._stop in text or self._stop2 in text) and self._find.search(text):
            return None
        if text[-1] in self._back:
            end = len(text)
            end -= max(held_suffix(text, 0, end, self._back), held_suffix(text, 0, end, self._back2))
            self.waits = text[end:]
            text = text[:end]
            if not text:
                self.at = at
                return []
        else:
            self.waits = ""
        self.at = end = at + len(text)
        self._growing.append(text)
        return [self._event(text, at, end)]

    def joins(self, at: int) -> None:
        if len(self._growing) > self._begun:
            self._segment.end = at

    def stop(self, at: int) -> None:
        super().stop(at)
        self.joins(at)
        text = self._growing.since(self._begun) if self._segment.kind == "content" else ""
        if text:
            self._machine.ledger.quoting.put(text, at - len(text))


class HeldFlow(Flow):
    """A call in markup, where nothing is decided before it and its first argument, or another one, open or close."""

    holds = True

    def __init__(self, machine: Machine, find: Finder | None, undecided: re.Pattern[str] | None) -> None:
        super().__init__(machine)
        self._find = find
        self._undecided = undecided

    def feed(self, text: str, at: int) -> list[Event] | None:
        text = self.waits + text
        if len(text) > _WAITING:
            return None
        if (self._find is None or self._find.search(text)) and not (
            self._undecided is not None and self._undecided.fullmatch(text)
        ):
            return None
        self.waits = text
        self.at = at
        return []


class CallFlow(Flow):
    """The arguments of a call."""

    def __init__(self, machine: Machine, fold: Fold, call: OpenCall) -> None:
        super().__init__(machine)
        self._call = call.index
        self._growing = fold.arguments(call.index)
        self._begun = len(self._growing)
        self._kept = [] if machine.tape.kept is None else machine.tape.kept

    def _strings(self, strings: StringKind, keep: Callable[[str], None] | None) -> None:
        """Emit the pieces of a string from here on."""
        known = strings.state(self.waits)
        self.stretch = known, known.stop, known.stop2, self._call, self._growing.append, keep

    def _since(self) -> str:
        """The JSON that was emitted and not kept."""
        text = self._growing.since(self._begun)
        self._begun = len(self._growing)
        return text

    def joins(self, at: int) -> None:
        self._keep()
        self._begun = 1

    def stop(self, at: int) -> None:
        super().stop(at)
        self._keep()

    def _keep(self) -> None:
        """Keep what was written for the emitted JSON."""
        raise NotImplementedError


class ValueFlow(CallFlow):
    """An argument in markup that is a string."""

    def __init__(self, machine: Machine, fold: Fold, call: OpenCall, strings: StringKind) -> None:
        super().__init__(machine, fold, call)
        self._strings(strings, None)

    def feed(self, text: str, at: int) -> list[Event] | None:
        return None

    def _keep(self) -> None:
        text = self._since()
        if text:
            self._kept.append(unescaped(text))


class LiteralFlow(CallFlow):
    """Arguments that are one literal."""

    def __init__(
        self, machine: Machine, fold: Fold, call: OpenCall, literal: LiteralReader, guard: Scan | None
    ) -> None:
        super().__init__(machine, fold, call)
        self._literal = literal
        self._guard = guard
        self._read = 0
        self._stands = True  # whether the literal's reader is where this is
        self._all = None if literal.strict() else self._kept.append
        if self._all is not None and self.waits:
            self._all(self.waits)
        self._go(self._here())

    def _here(self) -> Spot | None:
        """The spot of the literal's reader."""
        state = self._literal.state()
        if state is None:
            return None
        found = memory.find(state, self._guard)
        return memory.add(state, self._guard, self._literal.strings()) if found is None else found

    def _go(self, spot: Spot | None) -> None:
        self._spot = spot
        if spot is None or spot.strings is None or self._lag:
            self.stretch = None
        else:
            self._strings(spot.strings, self._all)

    def feed(self, text: str, at: int) -> list[Event] | None:
        whole = self.waits + text if self.waits else text
        spot, size = self._spot, self._lag + len(whole)
        if size > _DROPPED:
            return None
        step = None if spot is None else spot.get(whole)
        if step is not None and (step[3] is None or self._literal.follow(step[3])):
            self._stands = False
        else:
            step = self._learn(whole)
        if self._all is not None and (step is not None or self.taken):
            self._all(text)
        if step is None:
            return None
        fragment, waits, spot, _ = step
        self.waits = waits
        end = at + size - len(waits) if waits else at + size
        if not fragment:
            self._lag = end - at
            self.at = at
            self._go(spot)
            return []
        self._lag = 0
        self.at = end
        if spot is None or spot.strings is not None:
            self._go(spot)
        else:  # outside of a string, as most of a literal that flows
            self._spot = spot
            self.stretch = None
        self._growing.append(fragment)
        return [ToolCallDelta(self._call, fragment, at, end)]

    def _learn(self, text: str) -> Step | None:
        """Read a text; ``None`` if the machine must go on, in or before it."""
        literal, spot = self._literal, self._spot
        if self._guard is not None and self._guard.find.search(text):
            return None
        self._restore()
        marks = literal.marks() if spot is not None and len(text) <= SHORT else None
        repaired = literal.repaired
        end = literal.read(text, 0)
        # Where strict JSON is repaired, what is kept is no longer what was written.
        if literal.mode >= DONE or literal.notes or (self._all is None and literal.repaired != repaired):
            self.waits = text
            self._read = end
            self.taken = True
            return None
        fragment, to = literal.take(), self._here()
        changes = None if marks is None or to is None else literal.changes(marks)
        step = fragment, text[end:], to, None if changes == NOTHING else changes
        if changes is not None and spot is not None:
            memory.note(spot, text, step)
        return step

    def _restore(self) -> None:
        """Bring the literal's reader here."""
        if not self._stands and self._spot is not None:
            self._literal.restore(self._spot.state)
        self._stands = True

    def stop(self, at: int) -> None:
        super().stop(at)
        calls = self._machine.calls
        assert calls.call is not None
        calls.call.inside = at + self._lag + self._read
        self._machine.tape.i = self._read
        self._restore()
        n = len(self.waits) if self._all is not None else 0
        while n:  # what waits is kept once it is read
            last = self._kept.pop()
            if len(last) > n:
                self._kept.append(last[:-n])
            n -= min(n, len(last))

    def _keep(self) -> None:
        text = self._since() if self._all is None else ""
        if text:
            self._kept.append(text)


def flow_of(machine: Machine, fold: Fold) -> Flow | None:  # a line for each state
    """What is open, if pieces of it may be read without the machine."""
    ledger = machine.ledger
    if ledger.holds or ledger.at < 0:
        return None
    state = machine.parts.state
    if state is states.TEXT or state is states.REASONING:
        return _text(machine, fold) or _opening(machine)
    if state is states.EDGE or state is states.BLOCK:
        return _opening(machine)
    call, reader = machine.calls.call, machine.calls.reader
    if call is None or not call.started or call.sink != CallSink.CALL:
        return None
    if state is states.MARKUP:
        return _markup(machine, fold, call, reader) if isinstance(reader, MarkupReader) and not call.thought else None
    return _literal(machine, fold, call) if state is states.ARGUMENTS or state is states.OBJECT else None


def _text(machine: Machine, fold: Fold) -> Flow | None:
    ledger, tape = machine.ledger, machine.tape
    content = machine.parts.state is states.TEXT
    if ledger.at != tape.here or not (ledger.prose if content else ledger.spoken):
        return None
    region = machine.prose.region()
    segment = fold.growing("content" if content else "reasoning")
    if segment is None or segment.text is None or region.scan.find.search(tape.buf, tape.i):
        return None
    back2, back = sorted((region.margin, region.inner), key=len)
    return TextFlow(machine, segment, region.scan, back, back2) if set(back2) <= set(back) else None


def _opening(machine: Machine) -> Flow | None:
    tape, look = machine.tape, machine.look
    as_text = machine.ledger.thinking and look.plan.policy.call_in_reasoning == "text"
    if tape.i == len(tape.buf) or not look.outline.calls or as_text or _marked(machine):
        return None
    undecided = look.plan.undecided_opening
    return HeldFlow(machine, None, undecided) if undecided and undecided.fullmatch(tape.buf, tape.i) else None


def _marked(machine: Machine) -> bool:
    """Whether a token's id may decide what the waiting text alone does not."""
    look = machine.look
    return look.counted and (look.ignores or look.last_mark >= machine.tape.here)


def _markup(machine: Machine, fold: Fold, call: OpenCall, reader: MarkupReader) -> Flow | None:
    tape = machine.tape
    if reader.value is not None and reader.value.starting:
        return None
    value = reader.streams()
    closing = value is not None and value.parameter.find.search(tape.buf, tape.i)
    if value is not None and not closing:
        if machine.ledger.at != tape.here:
            return None
        p = value.parameter
        return ValueFlow(machine, fold, call, markup_values(p.find, p.heads, p.triggers, p.held, value.tag))
    if _marked(machine):
        return None
    held = reader.held()
    find = None if held is None or closing else held.parameter.find
    undecided = reader.undecided(value or held)
    return None if find is None and undecided is None else HeldFlow(machine, find, undecided)


def _literal(machine: Machine, fold: Fold, call: OpenCall) -> Flow | None:
    arguments, guard = machine.calls.arguments, machine.look.plan.calls.string_ends
    literal = None if arguments is None else arguments.flows()
    if literal is None or (guard is not None and guard.find.search(machine.tape.buf, machine.tape.i)):
        return None
    return LiteralFlow(machine, fold, call, literal, guard)
