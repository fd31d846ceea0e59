"""Fast paths: pieces of text that can only be more of the same, without a look at the machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ..events import ContentDelta, Event, ReasoningDelta, ToolCallDelta
from ..message import Fold, OpenSegment
from .call import Sink
from .machine import Machine
from .readers.literal import DONE, STRING, LiteralReader
from .readers.markup import MarkupReader
from .readers.recall import Spot, memory
from .readers.strings import (
    JSON_PARTIAL,
    JSON_RUN,
    SHORT,
    escaped,
    escaped_piece,
    json_piece,
    python_part,
)
from .states import State
from .white import held_suffix

_WAITING: Final = 256
"""How many characters may wait without a look by the machine."""

Take = Callable[["FastPaths", str], "list[Event] | None"]
"""The events of a piece of text; ``None`` where the machine must look at it."""


AGAIN: Final[list[Event]] = []
"""The text is taken, but the machine must go on with it."""


class FastPaths:
    """Reads on in the machine's place, while it is in a string, in reasoning or in content.

    All that is read is said: what a piece leaves waits for the next one. Before the machine goes on, `stop` must report
    what went here.

    Attributes:
        take: how the next piece is read; ``None`` where only the machine can.
    """

    __slots__ = (
        "_at",
        "_begun",
        "_buf",
        "_call",
        "_find",
        "_fold",
        "_hold_back",
        "_hold_back2",
        "_kept",
        "_length",
        "_literal",
        "_machine",
        "_pieces",
        "_read",
        "_segment",
        "_spot",
        "_stop",
        "_stop2",
        "_verbatim",
        "take",
    )

    _at: int
    """The offset up to which all is said."""
    _call: int
    """The index of the call that is read."""
    _begun: int
    """How many pieces were there before."""
    _stop: str
    _stop2: str
    """What must be in a text for a marker, or the string's end, to begin in it."""
    _find: re.Pattern[str]
    """Finds what may end it."""
    _length: int
    """Of the quote that ends it, where nothing else does."""
    _hold_back: str
    _hold_back2: str
    """White space at the end that may belong to what ends it."""

    def __init__(self, machine: Machine, fold: Fold) -> None:
        self.take: Take | None = None
        self._machine = machine
        self._fold = fold
        self._buf = ""  # what waits
        self._pieces: list[str] = []  # the arguments of the call
        self._kept: list[str] = []  # what is read of it, where that may still be asked for
        self._verbatim = False  # the pieces are what was read
        self._segment: OpenSegment | None = None  # the reasoning or content that goes on
        self._literal: LiteralReader | None = None  # reads what is not a string's inside
        self._spot: Spot | None = None  # where it is, if what it does is remembered
        self._read = 0  # what of the text that waits it has read

    # -- beginning and end --------------------------------------------------------------------------------------------

    def choose(self) -> None:
        """Choose how the next piece can be read."""
        machine = self._machine
        ledger, tape = machine.ledger, machine.tape
        at = tape.here
        if ledger.holds or machine.look.counted or at < 0:
            return
        state = machine.at.state
        if ledger.at == at:
            if state is State.ARGUMENTS or state is State.OBJECT or state is State.MARKUP:
                self.take = self._in_call()
            elif (state is State.TEXT and ledger.prose) or (state is State.REASONING and ledger.spoken):
                self.take = self._in_text()
        if self.take is None and state is State.MARKUP:
            self._wait()
        if self.take is not None:
            kept = tape.lend()
            self._kept = [] if kept is None else kept
            self._buf = tape.buf
            self._at = at

    def _wait(self) -> None:
        """In arguments in markup: while nothing of them can be said, the machine need not look at what comes."""
        machine = self._machine
        call, reader = machine.calls.call, machine.calls.reader
        if call is None or call.sink is not Sink.CALL or call.thought or not isinstance(reader, MarkupReader):
            return
        find = reader.waits()
        if find is not None:
            self._find = find
            self._verbatim = False
            self.take = FastPaths._waits

    def _in_call(self) -> Take | None:
        machine = self._machine
        call = machine.calls.call
        if call is None or call.sink is not Sink.CALL or not call.started:
            return None
        self._pieces = self._fold.arguments
        self._begun = len(self._pieces)
        self._call = call.index
        self._segment = None
        self._verbatim = False
        buf, i = machine.tape.buf, machine.tape.i
        if isinstance(machine.calls.reader, MarkupReader):
            value = None if call.thought else machine.calls.reader.streams()
            if value is None or value.parameter.find().search(buf, i):
                return None
            # Where several markers may end it, or spaces be held, each piece is looked at (all hold the empty string).
            firsts = value.parameter.firsts
            self._stop = firsts if len(firsts) == 1 and " " not in value.margin else ""
            self._find = value.parameter.find()
            self._hold_back = value.margin
            return FastPaths._value
        arguments = machine.calls.arguments
        literal = self._literal = None if arguments is None else arguments.flows()
        if literal is None:
            return None
        guard = None if literal.python else machine.openings.string_ends()
        if guard is not None:
            if guard.find.search(buf, i):
                return None
            self._find, heads = guard.find, guard.heads
            # Where more characters may begin a marker, each piece is looked at (all hold the empty string).
            self._stop, self._stop2 = (heads[0], heads[-1]) if len(heads) <= 2 else ("", "")
            return self._in_guarded(literal)
        if literal.strict():
            self._spot = spot = literal.spot()
            self._verbatim = True
            return FastPaths._string if spot.quoted else FastPaths._json
        return self._in_string(literal) if literal.simple() else FastPaths._structure

    def _in_guarded(self, literal: LiteralReader) -> Take:
        """How JSON is read in whose strings a marker ends the call."""
        return FastPaths._guarded if literal.simple() and literal.verbatim() else FastPaths._guarded_structure

    def _in_string(self, literal: LiteralReader) -> Take:
        """How a string is read that no marker ends."""
        if literal.verbatim():
            self._verbatim = True
            self._begun = len(self._pieces)
            return FastPaths._string
        self._stop = literal.delimiter[0]
        scan_quote = literal.quote_scan
        self._length = 0
        if scan_quote is not None:
            self._find = scan_quote
            self._length = len(literal.delimiter)
        return FastPaths._translated

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

    def stop(self) -> None:
        """The machine goes on."""
        machine = self._machine
        at = self._at
        if self.take is FastPaths._waits:
            self.take = None
            machine.tape.take_back(self._buf, at)
            return
        self.take = None
        if self._verbatim:
            self._kept += self._pieces[self._begun :]
        said = ""
        if self._spot is not None:
            assert self._literal is not None
            self._literal.stand(self._spot)
            self._spot = None
        if self._segment is not None and self._segment.kind == "content":
            said = "".join(self._segment.parts[self._begun :])
        machine.tape.take_back(self._buf, at)
        if self._read:
            machine.tape.move(self._read)
            self._read = 0
        machine.ledger.said(at, content=said)

    @property
    def read(self) -> tuple[int, int]:
        """How many characters are said, and how many wait."""
        if self.take is FastPaths._waits:
            said = self._machine.ledger.at
            return said, self._at + len(self._buf) - said
        return self._at, len(self._buf)

    def joins(self) -> None:
        """The message is asked for, which joins the pieces of the arguments to one."""
        if self._verbatim:
            self._kept += self._pieces[self._begun :]
            self._begun = 1

    # -- paths --------------------------------------------------------------------------------------------------------

    def _string(self, text: str) -> list[Event] | None:
        """In a JSON string."""
        if '"' in text or "\\" in text or self._buf or not text.isprintable() or not text:
            whole = self._buf + text
            if len(whole) > SHORT or not json_piece(whole):
                if self._spot is not None and '"' in whole and "\\" not in whole:
                    return self._string_over(text)
                end = JSON_RUN.match(whole).end()
                if end < len(whole) and (whole[end] != "\\" or not JSON_PARTIAL.match(whole, end)):
                    return self._string_over(text)
                self._buf = whole[end:]
                text = whole[:end]
                if not text:
                    return []
            else:
                text = whole
                self._buf = ""
        start = self._at
        self._at = stop = start + len(text)
        self._pieces.append(text)
        return [ToolCallDelta(self._call, text, start, stop)]

    def _guarded(self, text: str) -> list[Event] | None:
        """In a JSON string that a marker would end."""
        stops = self._stop in text or self._stop2 in text
        if stops or '"' in text or "\\" in text or self._buf or not text.isprintable() or not text:
            whole = self._buf + text
            m = self._find.search(whole)
            if not text or (m is not None and m.end() < len(whole)):
                return None
            piece = whole if m is None else whole[: m.start()]
            end = JSON_RUN.match(piece).end()
            if end < len(piece) and (m is not None or piece[end] != "\\" or not JSON_PARTIAL.match(piece, end)):
                if m is not None:
                    return None
                self.take = FastPaths._guarded_structure
                return self._structure(text)
            self._buf = whole[end:]
            if not end:
                return []
            text = piece[:end]
        start = self._at
        self._at = stop = start + len(text)
        self._kept.append(text)
        self._pieces.append(text)
        return [ToolCallDelta(self._call, text, start, stop)]

    def _translated(self, text: str) -> list[Event] | None:
        """In a string of another syntax."""
        fragment = text
        if '"' in text or "\\" in text or self._stop in text or self._buf or not text.isprintable() or not text:
            text = self._buf + text
            if not text:
                return []
            if not self._length:
                part = (
                    python_part(text, self._stop) if len(text) <= SHORT else python_part.__wrapped__(text, self._stop)
                )
            else:
                part = self._quoted(text)
            if part is None:
                return None
            fragment, self._buf = part
            if not fragment:
                return []
            text = text[: len(text) - len(self._buf)]
        start = self._at
        self._at = stop = start + len(text)
        self._kept.append(text)
        self._pieces.append(fragment)
        return [ToolCallDelta(self._call, fragment, start, stop)]

    def _quoted(self, text: str) -> tuple[str, str] | None:
        """A piece of a string that only its quote ends, as JSON, and what may begin the quote; ``None`` if it ends."""
        m = self._find.search(text) if self._stop in text else None
        if m is None:
            return (escaped_piece(text) if len(text) <= SHORT else escaped(text)), ""
        return (
            None
            if m.end() < len(text) or m.end() - m.start() == self._length
            else (escaped(text[: m.start()]), m.group())
        )

    def _json(self, text: str) -> list[Event] | None:
        """In strict JSON, outside of the strings of values."""
        spot, literal = self._spot, self._literal
        assert spot is not None
        assert literal is not None
        whole = self._buf + text if self._buf else text
        step = spot.get(whole)
        if step is not None and (step[3] is None or literal.follow(step[3])):
            spot, fragment, rest, _ = step
        elif text:
            literal.stand(spot)
            spot = literal.spot()  # as it is remembered now
            end = literal.read(whole, 0)
            if literal.mode >= DONE or literal.notes:
                self._spot = None
                self._buf = whole
                self._read = end
                return AGAIN
            fragment, rest = literal.take(), whole[end:]
            before, spot = spot, literal.spot()
            memory.note(before, whole, end, spot)
        else:
            return []
        self._spot = spot
        self._buf = rest
        if spot.quoted:
            self.take = FastPaths._string
        if not fragment:
            return []
        start = self._at
        self._at = stop = start + len(fragment)
        self._pieces.append(fragment)
        return [ToolCallDelta(self._call, fragment, start, stop)]

    def _structure(self, text: str) -> list[Event] | None:
        """In a literal, outside of strings or in and out of them."""
        if not text:
            return []
        literal = self._literal
        assert literal is not None
        whole = self._buf + text if self._buf else text
        end = literal.read(whole, 0)
        if literal.mode < DONE and not literal.notes:
            fragment = literal.take()
            if fragment:
                self._buf = whole[end:]
                start = self._at
                self._at = stop = start + end
                self._kept.append(whole[:end] if self._buf else whole)
                self._pieces.append(fragment)
                if literal.mode == STRING and literal.simple() and self.take is FastPaths._structure:
                    self.take = self._in_string(literal)
                return [ToolCallDelta(self._call, fragment, start, stop)]
            if not end:  # the beginning of a word or an escape
                self._buf = whole
                return []
        # Read, and not said: the machine says it, and what follows from it.
        self._buf = whole
        self._read = end
        return AGAIN

    def _string_over(self, text: str) -> list[Event] | None:
        """Read what waits and a piece in which the string ends, or breaks."""
        if self._spot is not None:
            self.take = FastPaths._json
            return self._json(text)
        self._kept += self._pieces[self._begun :]
        self._verbatim = False
        self.take = FastPaths._structure
        return self._structure(text)

    def _guarded_structure(self, text: str) -> list[Event] | None:
        """The same where a marker would end a string."""
        if self._find.search(self._buf + text):
            return None
        events = self._structure(text)
        literal = self._literal
        assert literal is not None
        if events is not AGAIN:
            self.take = self._in_guarded(literal)
        return events

    def _waits(self, text: str) -> list[Event] | None:
        """In arguments in markup: nothing is decided yet."""
        whole = self._buf + text
        if len(whole) > _WAITING or not text:
            return None
        if not self._find.fullmatch(whole):
            reader = self._machine.calls.reader
            find = reader.waits_on(whole) if isinstance(reader, MarkupReader) else None
            if find is None or not find.fullmatch(whole):
                return None
            self._find = find
        self._buf = whole
        return []

    def _value(self, text: str) -> list[Event] | None:
        """In the text of an argument."""
        fragment = text
        if '"' in text or "\\" in text or self._stop in text or self._buf or not text.isprintable() or not text:
            whole = self._buf + text
            if not text or (self._stop in whole and self._find.search(whole)):
                return None
            text = whole
            if whole[-1] in self._hold_back:
                end = len(whole) - 1
                if len(self._hold_back) > 1:
                    end = len(whole) - held_suffix(whole, 0, len(whole), self._hold_back)
                self._buf = whole[end:]
                if not end:
                    return []
                text = whole[:end]
            elif self._buf:
                self._buf = ""
            fragment = escaped_piece(text) if len(text) <= SHORT else escaped(text)
        start = self._at
        self._at = stop = start + len(text)
        self._kept.append(text)
        self._pieces.append(fragment)
        return [ToolCallDelta(self._call, fragment, start, stop)]

    def _prose(self, text: str) -> list[Event] | None:
        """In running text."""
        whole = self._buf + text
        if not text or self._find.search(whole):
            return None
        end = len(whole)
        if whole[-1] in self._hold_back:
            end -= max(held_suffix(whole, 0, end, self._hold_back), held_suffix(whole, 0, end, self._hold_back2))
        self._buf = whole[end:]
        if not end:
            return []
        piece = whole[:end]
        start = self._at
        self._at = stop = start + end
        segment = self._segment
        assert segment is not None
        segment.grow(piece, stop)
        event = ContentDelta if segment.kind == "content" else ReasoningDelta
        return [event(piece, start, stop)]
