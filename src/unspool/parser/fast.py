"""Fast paths: pieces of text that can only be more of the same, read without the machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ..dialect.patterns import MAX_SPACE
from ..events import ContentDelta, Event, ReasoningDelta, ToolCallDelta
from ..message import Fold, Growing, OpenSegment
from . import states
from .call import Sink
from .machine import Machine
from .readers.literal import DONE, LiteralReader
from .readers.markup import MarkupReader
from .readers.pieces import JSON_STRINGS, Pieces, StringKind, guarded_strings, markup_values
from .readers.recall import Spot, Step, memory
from .readers.strings import SHORT
from .white import held_suffix

_IN_CALL: Final = (states.ARGUMENTS, states.OBJECT, states.MARKUP)
_READ: Final = frozenset((*_IN_CALL, states.TEXT, states.REASONING))
_WAITING: Final = 256
"""How many characters may wait before the machine must look at them."""
_DROPPED: Final = MAX_SPACE - SHORT
"""After so many characters of white space that is dropped, the machine must soon look at it."""

Take = Callable[["FastPaths", str, int], "list[Event] | None"]
"""Returns the events of a piece of text at an offset, or ``None`` if the machine must look at it."""

Stretch = tuple[Pieces, str | None, str | None, int, Callable[[str], None], Callable[[str], None] | None]
"""How to emit pieces of a string: the known pieces, and their two characters that no plain piece contains; the index of
the call; the function that adds their JSON to the message; and the function that keeps what was written, if the JSON
cannot be turned back into it."""

Flow = tuple[str, str, str, str, type[ContentDelta | ReasoningDelta]]
"""How to emit reasoning or content: the two characters, one of which begins everything that may end it (if there are
more than two, the empty string, which every text contains); white space, of two kinds, that may belong to what ends it;
and the event."""

AGAIN: Final[list[Event]] = []
"""The text was taken, but the machine must go on from there."""


class FastPaths:
    """Reads in the machine's place, in a string, in reasoning or in content.

    What it reads is emitted, or waits for the next piece. `stop` reports to the machine what was read, before that
    goes on.

    Attributes:
        take: reads the next piece; ``None`` if only the machine can.
        stretch: how to emit the pieces of a string; ``None`` if each must be read.
        at: the offset up to which everything was emitted, as of the last piece that was read.
    """

    __slots__ = (
        "_begun",
        "_buf",
        "_call",
        "_calm",
        "_find",
        "_flow",
        "_fold",
        "_growing",
        "_keep",
        "_literal",
        "_machine",
        "_read",
        "_segment",
        "_spot",
        "_stop",
        "_strings",
        "_then",
        "at",
        "stretch",
        "take",
    )

    _buf: str
    """What waits."""
    _keep: Callable[[str], None]
    """Keeps what was read for the machine, if that needs it again."""
    _call: int
    """The index of the open call."""
    _growing: Growing
    """Its arguments, or the reasoning or content."""
    _begun: int
    """How many of the pieces of that are recorded already."""
    _find: re.Pattern[str]
    """Finds what may end the text."""
    _flow: Flow
    _stop: str
    """The character in everything that may end a waiting value; ``""``: unknown."""
    _calm: str | None
    """The same, if text without it may wait unseen; else ``None``."""
    _strings: StringKind
    """The kind of the open string."""
    _then: Take | None
    """Reads the piece in which that string ends."""
    _literal: LiteralReader
    """Reads everything but the inside of strings."""

    def __init__(self, machine: Machine, fold: Fold) -> None:
        self.take: Take | None = None
        self.stretch: Stretch | None = None
        self.at = 0
        self._machine = machine
        self._fold = fold
        self._segment: OpenSegment | None = None  # the reasoning or content that goes on
        self._spot: Spot | None = None  # where it is, if its steps are remembered
        self._read = 0  # how much of the waiting text it has read, but not emitted

    # -- beginning and end --------------------------------------------------------------------------------------------

    def choose(self) -> bool:
        """Choose how to read the next piece, and return whether it can be read here."""
        machine = self._machine
        ledger, tape = machine.ledger, machine.tape
        state = machine.at.state
        if state not in _READ:
            return False
        at = tape.base + tape.i
        if ledger.holds or at < 0:
            return False
        self._segment = None
        take: Take | None = None
        if ledger.at == at:
            if state in _IN_CALL:
                take = self._in_call()
            elif (state is states.TEXT and ledger.prose) or (state is states.REASONING and ledger.spoken):
                take = self._in_text()
        if take is None and state is states.MARKUP:
            take = self._wait()
        if take is not None:
            self._keep = tape.lend()
            self._buf = tape.buf
            self.at = at
            self._go(take)
            return True
        return False

    def _go(self, take: Take) -> None:
        """Read the next piece with ``take``."""
        self.take = take
        if take is FastPaths._string:
            strings, waits = self._strings, self._buf
            known = strings.state(waits) if waits else strings.empty
            keep = None if strings.reversible else self._keep
            self.stretch = known, known.stop, known.stop2, self._call, self._growing.append, keep
            self._buf = ""  # until `wait`
        else:
            self.stretch = None

    def wait(self, text: str) -> None:
        """The stretch ends, and ``text`` waits."""
        self._buf = text

    def _wait(self) -> Take | None:
        """In arguments in markup: while nothing of them can be emitted, the machine need not look at what comes."""
        machine = self._machine
        call, reader = machine.calls.call, machine.calls.reader
        if call is None or call.sink != Sink.CALL or call.thought or not isinstance(reader, MarkupReader):
            return None
        if machine.look.counted and (machine.look.ignores or machine.look.last_mark >= machine.tape.here):
            return None  # a token's id decides what text alone does not
        waits = reader.waits()
        if waits is None:
            return None
        self._find, self._stop = waits
        self._calm = None
        return FastPaths._waits

    def _in_call(self) -> Take | None:
        machine = self._machine
        call = machine.calls.call
        if call is None or call.sink != Sink.CALL or not call.started:
            return None
        self._call = call.index
        self._growing = self._fold.arguments(call.index)
        self._begun = len(self._growing)
        buf, i = machine.tape.buf, machine.tape.i
        if isinstance(machine.calls.reader, MarkupReader):
            value = None if call.thought else machine.calls.reader.streams()
            if value is None:
                return None
            parameter = value.parameter
            find = parameter.find()
            if find.search(buf, i):
                return None
            self._strings = markup_values(find, parameter.firsts, parameter.triggers, value.margin)
            self._then = None
            return FastPaths._string
        arguments = machine.calls.arguments
        literal = None if arguments is None else arguments.flows()
        if literal is None:
            return None
        self._literal = literal
        ends = machine.openings.look.plan.policy.markers_in_strings == "end"
        guard = machine.openings.string_ends() if ends else None
        if guard is not None:
            self._find = guard.find
            self._strings = guarded_strings(guard.find, guard.heads)
            self._then = FastPaths._guarded_structure
            return None if guard.find.search(buf, i) else self._in_guarded(literal)
        if literal.strict():
            spot: Spot | None = literal.spot()
            self._strings = JSON_STRINGS
            self._then = then = FastPaths._json
        else:
            spot = literal.settle(buf[i:], len(buf) - i)
            self._then = then = FastPaths._translated
        self._spot = spot
        if spot is None or spot.strings is None:
            return then
        self._strings = spot.strings
        return FastPaths._string

    def _in_guarded(self, literal: LiteralReader) -> Take:
        """Choose how to read JSON in whose strings a marker ends the call."""
        plain = literal.simple() and literal.verbatim()
        return FastPaths._string if plain else FastPaths._guarded_structure

    def _in_text(self) -> Take | None:
        machine = self._machine
        region = machine.prose.region()
        segment = self._fold.growing("content" if machine.at.state is states.TEXT else "reasoning")
        if segment is None or segment.text is None or region.scan.find.search(machine.tape.buf, machine.tape.i):
            return None
        inner, margin = region.inner, region.margin
        back, back2 = (margin, inner) if len(margin) > len(inner) else (inner, margin)
        if not set(back2) <= set(back):
            return None
        heads = region.scan.heads
        stop, stop2 = (heads[0], heads[-1]) if 0 < len(heads) <= 2 else ("", "")
        self._flow = stop, stop2, back, back2, ContentDelta if segment.kind == "content" else ReasoningDelta
        self._segment = segment
        self._growing = segment.text
        self._begun = len(segment.text)
        self._find = region.scan.find
        return FastPaths._prose

    def stop(self, at: int) -> None:
        """Hand over to the machine, with everything up to an offset emitted."""
        machine = self._machine
        machine.tape.take_back(self._buf, at)
        if self.take is FastPaths._waits:
            self.take = None
            return
        text = ""
        self._stand()
        self._record()
        self.take = self.stretch = None
        if self._segment is not None and self._segment.kind == "content":
            text = self._growing.since(self._begun)
        if self._read:
            machine.tape.i = self._read
            self._read = 0
        machine.ledger.emitted(at, content=text)

    def read(self, at: int) -> tuple[int, int]:
        """How many characters are emitted and how many wait, if everything up to an offset was read."""
        emitted = self._machine.ledger.at if self.take is FastPaths._waits else at
        return emitted, at + len(self._buf) - emitted

    def joins(self) -> None:
        """Record what was read, because its pieces are joined now."""
        if self.take is FastPaths._waits:
            return
        self._record()
        if self._segment is None:
            self._begun = 1

    def _record(self) -> None:
        """Record what was read."""
        count = len(self._growing)
        if self.take is FastPaths._translated:
            self._begun = count  # recorded as it was read
        if count == self._begun:
            return
        if self._segment is not None:
            self._segment.end = self.at
            return
        if self._strings.reversible:
            self._keep(self._strings.written(self._growing.since(self._begun)))
        self._begun = count

    # -- paths --------------------------------------------------------------------------------------------------------

    def _string(self, text: str, at: int) -> list[Event] | None:
        """A piece in which a string ends or breaks."""
        then = self._then
        if then is None:
            return None
        if then is not FastPaths._json:
            self._record()
        if then is FastPaths._translated:
            text, self._buf = self._buf + text, ""  # what waits is not part of the spot
        self.take = then
        self.stretch = None
        return then(self, text, at)

    def _json(self, text: str, at: int) -> list[Event] | None:
        """In strict JSON, outside of string values."""
        spot = self._spot
        assert spot is not None
        if self._buf:
            text = self._buf + text
        step = spot.get(text)
        if step is None or (step[3] is not None and not self._literal.follow(step[3])):
            step = self._learn(spot, text)
            if step is None:
                return AGAIN
        spot, fragment, self._buf, _ = step
        self._spot = spot
        if spot.strings is not None:
            self._go(FastPaths._string)
        if not fragment:
            return []
        self.at = end = at + len(fragment)
        self._growing.append(fragment)
        return [ToolCallDelta(self._call, fragment, at, end)]

    def _learn(self, spot: Spot, text: str) -> Step | None:
        """Read a piece of JSON that is not remembered; ``None`` if the machine must go on."""
        literal = self._literal
        literal.stand(spot)
        spot = literal.spot()  # as it is remembered by now
        end = literal.read(text, 0)
        if literal.mode >= DONE or literal.notes:
            self._record()
            self._spot = None
            self._buf = text
            self._read = end
            return None
        to = literal.spot()
        fragment, rest = literal.take(), text[end:]
        memory.note(spot, text, fragment, rest, to)
        return to, fragment, rest, None

    def _translated(self, text: str, at: int) -> list[Event] | None:
        """In a literal that is translated, outside of string values."""
        spot = self._spot
        step = None if spot is None else spot.get(text)
        if step is None or (step[3] is not None and not self._literal.follow(step[3])):
            return self._learn_translated(text, at)
        if self._buf:
            text = self._buf + text
        self._spot, fragment, rest, _ = step
        if not fragment:
            self._buf = text
            if len(text) > _DROPPED:
                self._stand()
            return []
        self._buf = rest
        if rest:
            text = text[: -len(rest)]
        self.at = end = at + len(text)
        self._keep(text)
        self._growing.append(fragment)
        self._go_by(self._spot)
        return [ToolCallDelta(self._call, fragment, at, end)]

    def _learn_translated(self, text: str, at: int) -> list[Event] | None:
        """Read a piece that is not remembered."""
        literal = self._literal
        before = self._stand()
        waiting = self._buf[self._read :] if before is None else before.place.waits
        events = self._structure(text, at)
        if events is None or events is AGAIN:
            return events
        if len(self._buf) > _DROPPED:
            return events
        unread = len(self._buf) - self._read
        self._spot = spot = literal.settle(waiting + text, unread)
        if spot is not None:
            if before is not None and not literal.repaired:
                fragment = self._growing.since(len(self._growing) - 1) if events else ""
                memory.note(before, text, fragment, spot.place.waits[-unread:] if unread else "", spot)
            self._read = 0
            if events:
                self._go_by(spot)
        return events

    def _go_by(self, spot: Spot) -> None:
        """Read the next piece as part of a string, if there is one at the spot."""
        if spot.strings is not None:
            self._strings = spot.strings
            self._begun = len(self._growing)
            self._go(FastPaths._string)

    def _stand(self) -> Spot | None:
        """Leave the spot, from which the literal's reader goes on; return it, if there is one."""
        spot, self._spot = self._spot, None
        if spot is not None:
            self._literal.stand(spot)
            if self.take is FastPaths._translated:
                self._literal.read(spot.place.waits, 0)
                self._read = len(self._buf) - spot.place.unread
        return spot

    def _structure(self, text: str, at: int) -> list[Event] | None:
        """In a literal: a piece outside of strings, or in and out of them."""
        literal = self._literal
        whole = self._buf + text if self._buf else text
        if self._read and len(whole) > MAX_SPACE:  # the machine never holds so much
            return None
        read = literal.read(whole, self._read)
        if literal.mode < DONE and not literal.notes:
            fragment = literal.take()
            if not fragment:  # white space, the beginning of a key, a word, an escape
                self._buf = whole
                self._read = read
                return []
            self._buf = whole[read:]
            self._read = 0
            self.at = end = at + read
            self._keep(whole[:read])
            self._growing.append(fragment)
            self._begun = len(self._growing)
            return [ToolCallDelta(self._call, fragment, at, end)]
        # Read, but not emitted: the machine emits it, with all that follows from it.
        self._buf = whole
        self._read = read
        return AGAIN

    def _guarded_structure(self, text: str, at: int) -> list[Event] | None:
        """As `_structure`, where a marker would end a string."""
        if self._find.search(self._buf + text):
            return None
        events = self._structure(text, at)
        literal = self._literal
        if events is not AGAIN and not self._read:
            self._go(self._in_guarded(literal))
        return events

    def _waits(self, text: str, at: int) -> list[Event] | None:
        """In arguments in markup: nothing is decided yet."""
        whole = self._buf + text
        if len(whole) > _WAITING:
            return None
        if self._calm is None or self._calm in text:
            m = self._find.fullmatch(whole)
            if m is None:
                reader = self._machine.calls.reader
                find = reader.waits_on(whole) if isinstance(reader, MarkupReader) else None
                if find is None or not find.fullmatch(whole):
                    return None
                self._find = find
                self._stop = ""
                self._calm = None
            elif self._stop:
                self._calm = self._stop if m.end("text") == len(whole) else None
        self._buf = whole
        return []

    def _prose(self, text: str, at: int) -> list[Event] | None:
        """In running text."""
        if self._buf:
            text = self._buf + text
        stop, stop2, back, back2, event = self._flow
        if (stop in text or stop2 in text) and self._find.search(text):
            return None
        if text[-1] in back:
            end = len(text)
            end -= max(held_suffix(text, 0, end, back), held_suffix(text, 0, end, back2))
            self._buf = text[end:]
            text = text[:end]
            if not text:
                return []
        else:
            self._buf = ""
        self.at = end = at + len(text)
        self._growing.append(text)
        return [event(text, at, end)]
