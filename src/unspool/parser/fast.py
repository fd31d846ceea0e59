"""Fast paths: pieces of text that can only be more of the same, without a look at the machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ..dialect.patterns import MAX_SPACE
from ..events import ContentDelta, Event, ReasoningDelta, ToolCallDelta
from ..message import Fold, OpenSegment
from .call import Sink
from .machine import Machine
from .readers.literal import DONE, STRING, LiteralReader
from .readers.markup import MarkupReader
from .readers.pieces import Pieces, guarded_pieces, json_pieces, python_pieces, quoted_pieces, value_pieces
from .readers.recall import Spot, Step, memory
from .states import State
from .white import held_suffix

_WAITING: Final = 256
"""How many characters may wait without a look by the machine."""

Take = Callable[["FastPaths", str, int], "list[Event] | None"]
"""The events of a piece of text that comes at an offset; ``None`` where the machine must look at it."""

Stretch = tuple[Pieces, str | None, str | None, int, list[str], list[str] | None]
"""How pieces of a string are said that are plain or known: those that are known, the two characters that no plain one
holds besides what JSON escapes, the index of their call, the list that their JSON goes to, and the one that they go to
themselves if they are not JSON."""

AGAIN: Final[list[Event]] = []
"""The text is taken, but the machine must go on with it."""


class FastPaths:
    """Reads on in the machine's place, while it is in a string, in reasoning or in content.

    What is read is said, or waits for the next piece. Before the machine goes on, `stop` must report what went here.

    Attributes:
        take: how the next piece is read; ``None`` where only the machine can.
        stretch: how it is said without being read, where it is plain or known; ``None`` where it must be read.
        at: the offset up to which all was said, when a piece was read last.
    """

    __slots__ = (
        "_begun",
        "_buf",
        "_call",
        "_find",
        "_fold",
        "_hold_back",
        "_hold_back2",
        "_kept",
        "_known",
        "_literal",
        "_machine",
        "_pieces",
        "_plain",
        "_read",
        "_segment",
        "_spot",
        "_then",
        "at",
        "stretch",
        "take",
    )

    _call: int
    """The index of the call that is read."""
    _begun: int
    """How many pieces were there before."""
    _find: re.Pattern[str]
    """Finds what may end it."""
    _hold_back: str
    _hold_back2: str
    """White space at the end that may belong to what ends it."""
    _known: Pieces
    """The pieces of the string that is read."""
    _then: Take | None
    """How the piece is read in which that string ends."""
    _literal: LiteralReader
    """Reads what is not a string's inside."""

    def __init__(self, machine: Machine, fold: Fold) -> None:
        self.take: Take | None = None
        self.stretch: Stretch | None = None
        self.at = 0
        self._machine = machine
        self._fold = fold
        self._buf = ""  # what waits
        self._pieces: list[str] = []  # the arguments of the call
        self._kept: list[str] = []  # what is read of it, where that may still be asked for
        self._plain: Stretch | None = None  # the stretch, while nothing waits
        self._segment: OpenSegment | None = None  # the reasoning or content that goes on
        self._spot: Spot | None = None  # where it is, if what it does is remembered
        self._read = 0  # what of the text that waits it has read, and not said

    # -- beginning and end --------------------------------------------------------------------------------------------

    def choose(self) -> None:
        """Choose how the next piece can be read."""
        machine = self._machine
        ledger, tape = machine.ledger, machine.tape
        at = tape.here
        if ledger.holds or machine.look.counted or at < 0:
            return
        state = machine.at.state
        take: Take | None = None
        if ledger.at == at:
            if state is State.ARGUMENTS or state is State.OBJECT or state is State.MARKUP:
                take = self._in_call()
            elif (state is State.TEXT and ledger.prose) or (state is State.REASONING and ledger.spoken):
                take = self._in_text()
        if take is None and state is State.MARKUP:
            take = self._wait()
        if take is not None:
            kept = tape.lend()
            self._kept = [] if kept is None else kept
            self._buf = tape.buf
            self.at = at
            self._go(take)

    def _go(self, take: Take) -> None:
        """The next piece is read so."""
        self.take = take
        if take is FastPaths._string:
            known = self._known
            kept = self._kept if self._spot is None else None
            self._plain = known, known.stop, known.stop2, self._call, self._pieces, kept
            self.stretch = None if self._buf else self._plain
        else:
            self.stretch = None

    def _wait(self) -> Take | None:
        """In arguments in markup: while nothing of them can be said, the machine need not look at what comes."""
        machine = self._machine
        call, reader = machine.calls.call, machine.calls.reader
        if call is None or call.sink is not Sink.CALL or call.thought or not isinstance(reader, MarkupReader):
            return None
        find = reader.waits()
        if find is None:
            return None
        self._find = find
        return FastPaths._waits

    def _in_call(self) -> Take | None:
        machine = self._machine
        call = machine.calls.call
        if call is None or call.sink is not Sink.CALL or not call.started:
            return None
        self._pieces = self._fold.arguments
        self._begun = len(self._pieces)
        self._call = call.index
        self._segment = None
        buf, i = machine.tape.buf, machine.tape.i
        if isinstance(machine.calls.reader, MarkupReader):
            value = None if call.thought else machine.calls.reader.streams()
            if value is None:
                return None
            parameter = value.parameter
            find = parameter.find()
            if find.search(buf, i):
                return None
            self._known = value_pieces(find, parameter.firsts, parameter.triggers, value.margin)
            self._then = None
            return FastPaths._string
        arguments = machine.calls.arguments
        literal = None if arguments is None else arguments.flows()
        if literal is None:
            return None
        self._literal = literal
        guard = None if literal.python else machine.openings.string_ends()
        if guard is not None:
            self._find = guard.find
            self._known = guarded_pieces(guard.find, guard.heads)
            self._then = FastPaths._guarded_structure
            return None if guard.find.search(buf, i) else self._in_guarded(literal)
        if literal.strict():
            self._spot = spot = literal.spot()
            self._known = json_pieces()
            self._then = FastPaths._json
            return FastPaths._string if spot.quoted else FastPaths._json
        return self._in_string(literal)

    def _in_guarded(self, literal: LiteralReader) -> Take:
        """How JSON is read in whose strings a marker ends the call."""
        plain = literal.simple() and literal.verbatim()
        return FastPaths._string if plain else FastPaths._guarded_structure

    def _in_string(self, literal: LiteralReader) -> Take:
        """How a literal is read that no marker ends."""
        if not literal.simple():
            return FastPaths._structure
        scan = literal.quote_scan
        self._then = None
        if literal.verbatim():
            self._known = json_pieces()
            self._then = FastPaths._structure
        elif scan is None:
            self._known = python_pieces(literal.delimiter[0])
        else:
            self._known = quoted_pieces(scan, literal.delimiter)
        return FastPaths._string

    def _in_text(self) -> Take | None:
        machine = self._machine
        region = machine.prose.region()
        segment = self._fold.growing("content" if machine.at.state is State.TEXT else "reasoning")
        if segment is None or region.scan.find.search(machine.tape.buf, machine.tape.i):
            return None
        inner, margin = region.inner, region.margin
        longer = len(margin) > len(inner)
        self._hold_back, self._hold_back2 = (margin, inner) if longer else (inner, margin)
        if not set(self._hold_back2) <= set(self._hold_back):
            return None
        self._segment = segment
        self._begun = len(segment.parts)
        self._find = region.scan.find
        return FastPaths._prose

    def stop(self, at: int) -> None:
        """The machine goes on, after what was said up to an offset."""
        machine = self._machine
        waits = self.take is FastPaths._waits
        self.take = self.stretch = None
        machine.tape.take_back(self._buf, at)
        if waits:
            return
        said = ""
        if self._spot is not None:
            self._literal.stand(self._spot)
            self.joins()
            self._spot = None
        if self._segment is not None and self._segment.kind == "content":
            said = "".join(self._segment.parts[self._begun :])
        if self._read:
            machine.tape.move(self._read)
            self._read = 0
        machine.ledger.said(at, content=said)

    def read(self, at: int) -> tuple[int, int]:
        """How many characters are said, where all up to an offset is read, and how many wait."""
        said = self._machine.ledger.at if self.take is FastPaths._waits else at
        return said, at + len(self._buf) - said

    def joins(self) -> None:
        """The pieces of the arguments will be joined to one, or the machine goes on: what was read is kept."""
        if self._spot is not None:
            self._kept += self._pieces[self._begun :]
            self._begun = 1

    # -- paths --------------------------------------------------------------------------------------------------------

    def _string(self, text: str, at: int) -> list[Event] | None:
        """In a string: a piece that is neither plain nor known, or comes after what waits."""
        known = self._known
        whole = text
        fragment = rest = ""
        if self._buf:
            whole = self._buf + text
            fragment = known[whole]
        if not fragment:
            part = known.part(whole)
            if part is None:
                return self._string_over(text, at)
            fragment, rest = part
        self._buf = rest
        if rest:
            self.stretch = None
            if not fragment:
                return []
            whole = whole[: len(whole) - len(rest)]
        else:
            self.stretch = self._plain
        self.at = end = at + len(whole)
        if self._spot is None:
            self._kept.append(whole)
        self._pieces.append(fragment)
        return [ToolCallDelta(self._call, fragment, at, end)]

    def _string_over(self, text: str, at: int) -> list[Event] | None:
        """A piece in which the string ends, or breaks."""
        then = self._then
        if then is None:
            return None
        self._go(then)
        return then(self, text, at)

    def _json(self, text: str, at: int) -> list[Event] | None:
        """In strict JSON, outside of the strings of values."""
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
        if spot.quoted:
            self._go(FastPaths._string)
        if not fragment:
            return []
        self.at = end = at + len(fragment)
        self._pieces.append(fragment)
        return [ToolCallDelta(self._call, fragment, at, end)]

    def _learn(self, spot: Spot, text: str) -> Step | None:
        """Read a piece of JSON; ``None`` where the machine must go on."""
        literal = self._literal
        literal.stand(spot)
        spot = literal.spot()  # as it is remembered now
        end = literal.read(text, 0)
        if literal.mode >= DONE or literal.notes:
            self.joins()
            self._spot = None
            self._buf = text
            self._read = end
            return None
        to = literal.spot()
        memory.note(spot, text, end, to)
        return to, literal.take(), text[end:], None

    def _structure(self, text: str, at: int) -> list[Event] | None:
        """In a literal, outside of strings or in and out of them."""
        literal = self._literal
        whole = self._buf + text if self._buf else text
        if self._read and len(whole) > MAX_SPACE:  # the machine does not let so much go unsaid
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
            self._kept.append(whole[:read] if self._buf else whole)
            self._pieces.append(fragment)
            if literal.mode == STRING and self.take is FastPaths._structure:
                self._go(self._in_string(literal))
            return [ToolCallDelta(self._call, fragment, at, end)]
        # Read, and not said: the machine says it, and what follows from it.
        self._buf = whole
        self._read = read
        return AGAIN

    def _guarded_structure(self, text: str, at: int) -> list[Event] | None:
        """The same where a marker would end a string."""
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
        if not self._find.fullmatch(whole):
            reader = self._machine.calls.reader
            find = reader.waits_on(whole) if isinstance(reader, MarkupReader) else None
            if find is None or not find.fullmatch(whole):
                return None
            self._find = find
        self._buf = whole
        return []

    def _prose(self, text: str, at: int) -> list[Event] | None:
        """In running text."""
        if self._buf:
            text = self._buf + text
        if self._find.search(text):
            return None
        if text[-1] in self._hold_back:
            end = len(text)
            end -= max(held_suffix(text, 0, end, self._hold_back), held_suffix(text, 0, end, self._hold_back2))
            self._buf = text[end:]
            text = text[:end]
            if not text:
                return []
        else:
            self._buf = ""
        self.at = end = at + len(text)
        segment = self._segment
        assert segment is not None
        segment.grow(text, end)
        event = ContentDelta if segment.kind == "content" else ReasoningDelta
        return [event(text, at, end)]
