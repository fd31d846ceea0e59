"""Begins and ends reasoning, frames of content and turns, with the white space between them."""

from typing import Final

import msgspec

from ..dialect.markers import END, FRAME, REASONING, START, Marker, Opening
from ..dialect.patterns import ANY, NO, skip_space
from ..dialect.plan import Plan
from . import states
from .ledger import Ledger, Tape, Why
from .lookout import ALWAYS, Lookout
from .openings import Openings
from .states import State
from .white import common_prefix, common_suffix

# Parsers that begin in reasoning need these, and Python 3.11 is slow to find members of enumerations.
_OPEN: Final = Why.OPEN_REASONING
_START: Final = states.REASONING_START


class Origin(msgspec.Struct, frozen=True, eq=False):
    """The state to return to when something is given back as text."""

    state: State
    framed: bool
    margin: str


class Parts(msgspec.Struct, eq=False):
    """Begins and ends parts."""

    _plan: Plan
    _tape: Tape
    _ledger: Ledger
    _look: Lookout
    state: State = states.EDGE  # see `table.TABLE`
    _lead: str = ""  # white space that the last opening removes from the text after it
    margin: str = ""  # white space that the last part removes from the text after it
    framed: bool = False  # a frame of content is open
    seen: bool = False  # a part has begun
    bracketed: int = ALWAYS  # the offset at which a sign, not a word, closed the last block
    started: int = ALWAYS  # the offset at which the last beginning of a turn in the output ends

    def place(self) -> Origin:
        """The state to return to."""
        return Origin(self.state, self.framed, self.margin)

    def leaves(self, margin: str) -> None:
        """Note that a part has ended, which removes this white space from the text after it."""
        self.margin = margin
        self.seen = True

    def take_lead(self) -> bool:
        """Remove the white space that belongs to an opening from the text after it; false while more may come."""
        tape, lead = self._tape, self._lead
        k = common_prefix(tape.buf, lead, tape.i)
        if k < len(lead) and tape.i + k == len(tape.buf) and not tape.final:
            return False
        tape.i += k
        self._ledger.markup(tape.here)
        return True

    def text_before(self, p: int, *margins: str) -> int:
        """Emit the text before ``p``, without the white space there that belongs to the format, by one of some margins;
        return how much that is."""
        tape, ledger = self._tape, self._ledger
        low = max(tape.i, ledger.at - tape.base)
        take = 0
        for margin in filter(None, margins):
            take = max(take, common_suffix(tape.buf, low, p, margin))
        ledger.text(tape.base + p - take)
        return take

    def put_edge(self, end: int) -> None:
        """Text begins at a boundary: remove the last part's margin from it."""
        self._ledger.edge(self.margin, end)
        self.margin = ""

    def end_turn(self, end: int, o: Marker | None = None) -> None:
        """A turn or a frame ends at ``end``, or another turn begins there."""
        self._tape.i = end
        if o is not None and o.kind == START and not self._look.replay:
            self.started = self._tape.here
        self.state = states.EDGE
        self.margin = ""
        self.framed = False
        self.seen = True
        self._ledger.paused = False
        self._ledger.quoting.restart()

    def begin_frame(self, o: Marker, i: int, end: int) -> None:
        """A frame of content begins, with the header ``buf[i:end]``. What a field of it says is told, as it is lost."""
        self._ledger.markup(self._tape.base + end)
        if any(a.kind == ANY for a in o.pattern.atoms):
            self._ledger.notice("stray_open", self._tape.buf[i:end].strip())
        self.end_turn(end)
        self.framed = True
        self._lead = lead_of(o)
        self.state = states.FRAME_START

    def begin_reasoning(self, end: int, lead: str, *, opened: bool = False, seen: bool = True) -> None:
        """Reasoning begins.

        Args:
            end: the offset at which its opening ends.
            lead: white space that the opening removes from the text after it.
            opened: it opens in content, and counts only if it is closed.
            seen: the output contains its opening.
        """
        if opened:
            self._ledger.hold(Why.OPENED_REASONING, self.place())
        elif self._plan.policy.unclosed_reasoning == "content":
            self._ledger.hold(_OPEN, self.place())
        self._ledger.open_reasoning(end)
        self.framed = False
        self._lead = lead
        self.margin = ""
        self.seen = seen
        self.state = _START

    def begin(self, o: Marker, i: int, end: int) -> int:
        """A part other than a call begins at ``i``, or the turn ends there."""
        tape, ledger = self._tape, self._ledger
        if o.kind == REASONING:
            ledger.markup(tape.base + i)
            self.begin_reasoning(tape.base + end, lead_of(o))
            tape.i = end
        elif o.kind == FRAME:
            self.begin_frame(o, i, end)
        else:
            ledger.markup(tape.base + end)
            self.end_turn(end, o)
            if self._look.replay:
                self.skip_others(o)
        return end

    def skip_others(self, o: Marker) -> None:
        """After the end of a turn, skip what a prompt has of other roles."""
        if not self._look.replay or o.kind != END:
            return
        tape = self._tape
        i = skip_space(tape.buf, tape.i)
        edge = self._plan.reading.edge
        if i < len(tape.buf) and any(e.pattern.match(tape.buf, i, {}) != NO for e in edge if e.marked):
            return  # an opening, which the prompt's end may cut
        tape.i = len(tape.buf)
        self._ledger.markup(tape.here)

    def settle_thought(self) -> None:
        ledger = self._ledger
        if ledger.holds and ledger.commit_thought() and not ledger.holds:
            self._tape.kept = None
        self._ledger.quoting.restart()
        self.state = states.EDGE

    def end_reasoning(self, end: int) -> None:
        """Reasoning ends; its closing ends at an offset."""
        self._ledger.end_reasoning(end)
        self.settle_thought()

    def leave_block(self) -> None:
        self.margin = self._plan.calls.block_trail
        if self._ledger.paused:
            self.state = states.RESUMING
        elif self._ledger.thinking:
            self._lead = self.margin
            self.state = states.REASONING_START
        else:
            self.state = states.EDGE


def lead_of(o: Marker) -> str:
    """White space that an opening removes from the text after it."""
    return o.template.inner_lead if isinstance(o, Opening) and o.template else ""


class Steps(msgspec.Struct, eq=False):
    """The base class of everything that takes steps of the machine, with the fields that these classes share."""

    _plan: Plan
    _tape: Tape
    _ledger: Ledger
    _look: Lookout
    _parts: Parts
    _openings: Openings
