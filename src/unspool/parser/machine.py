"""The machine: takes steps while it can, and handles what comes from outside: a stage, a prompt, the end."""

from typing import Any, Final

from ..dialect.patterns import MAX_SPACE
from ..events import Stage
from . import states
from .blocks import Blocks
from .call import CallContext, CallSink
from .calls import Calls
from .ledger import CAP, Ledger, Tape, Why
from .lookout import ALWAYS, Lookout, first_ending, first_of
from .openings import Openings
from .parts import Parts
from .prose import Prose
from .readers.markup import MarkupReader
from .readers.object import ObjectReader
from .table import TABLE

STEPS: Final = tuple(row.step for row in TABLE.values())  # the function that takes a step, by state
_OWNERS: Final = tuple(("Prose", "Blocks", "Calls").index(step.__qualname__.partition(".")[0]) for step in STEPS)
"""Whose method that is, by state."""

_PIECE: Final = 65_536  # how much text waits at most, beside what is held
# Every parser needs these, and Python 3.11 is slow to find members of enumerations.
_CONTENT: Final = Stage.CONTENT
_REASONING: Final = Stage.REASONING


class Machine:
    """Reads one output: feed the tape, then `run`. The events are the ledger's.

    Attributes:
        tape: the text.
        ledger: the events.
        look: looks for markers.
        openings: recognizes calls.
        parts: the state, and the parts of the output.
        calls: steps inside calls, and the open call.
        prose: steps in reasoning and content.
    """

    def __init__(self, tape: Tape, context: CallContext, openings: Openings) -> None:
        plan = self._plan = context.plan
        ledger: Ledger = context.ledger
        look: Lookout = openings.look
        self.tape = tape
        self.ledger = ledger
        self.look = look
        self.openings = openings
        parts = self.parts = Parts(plan, tape, ledger, look)
        calls = self.calls = Calls(plan, tape, ledger, look, parts, openings, context)
        prose = self.prose = Prose(plan, tape, ledger, look, parts, openings, calls)
        blocks = self._blocks = Blocks(plan, tape, ledger, look, parts, openings, calls)
        self._owners: tuple[Any, ...] = (prose, blocks, calls)
        self._closed_at = ALWAYS  # no closing of reasoning lies between the cursor and here

    def take(self, text: str) -> None:
        """Let more text wait. Of a long one, only the last piece: steps may copy what waits, and take longer then."""
        tape = self.tape
        for at in range(0, len(text), _PIECE):
            if at:
                self.run()
            if tape.i:
                tape.drop()
            tape.buf += text[at : at + _PIECE]

    def run(self) -> None:
        """Take steps until more text is needed."""
        ledger, calls, parts, owners, tape = self.ledger, self.calls, self.parts, self._owners, self.tape
        while True:
            call, holds = calls.call, ledger.holds
            if holds and (tape.base + tape.i - holds[0].start > CAP or (call is not None and call.status == "invalid")):
                calls.release_holds()
                call = calls.call
            if call is not None and call.thought and calls.ends_with_thought():
                going = self._thought_step()
            else:
                state = parts.state
                going = STEPS[state](owners[_OWNERS[state]])
            if going or (ledger.holds and ledger.too_much()):
                continue
            call = calls.call
            if call is not None and tape.base + tape.i - ledger.at > MAX_SPACE:
                calls.release_space(call)
            return

    def _step(self) -> bool:
        state = self.parts.state
        return STEPS[state](self._owners[_OWNERS[state]])

    def _thought_step(self) -> bool:
        """Take a step of a call in reasoning, up to the closing of the reasoning, or to what may become it."""
        tape = self.tape
        end, certain = self._thought_closes()
        if end == len(tape.buf) or (tape.final and not certain):
            return self._step()
        tape.buf, rest = tape.buf[:end], tape.buf[end:]
        going = tape.i < end and self._step()
        if not going and certain and not self.ledger.too_much():
            self._end_call()
            going = True
        tape.buf += rest
        return going or self.ledger.too_much()

    def _end_call(self) -> None:
        """End the open call here, as at the end of the output."""
        tape, calls = self.tape, self.calls
        final, ended, call = tape.final, tape.ended, calls.call
        tape.final = tape.ended = True
        while calls.call is call and self._step():
            pass
        if calls.call is call:
            calls.cut()
        tape.final, tape.ended = final, ended

    def _thought_closes(self) -> tuple[int, bool]:
        """The place of the closing of reasoning, and whether it is certain; else the end of the text."""
        tape = self.tape
        buf = tape.buf
        scan = self._plan.reasoning.ends_in_text
        pos = max(tape.i, self._closed_at - tape.base)
        p, r = first_ending(scan, buf, pos, lambda at: first_of(self.look.stands(o.pattern, at) for o in scan.markers))
        self._closed_at = tape.base + p
        return p, r >= 0

    def stage(self) -> Stage:
        """The stage that the output has reached."""
        state = self.parts.state
        held = self.ledger.held_for(Why.HEADER)
        if self.calls.call is not None or held or state in (states.BLOCK, states.BLOCK_TEXT):
            return Stage.TOOL_CALL
        if state is states.UNDECIDED:
            return Stage.UNDECIDED
        if state is states.RESUMING:
            return Stage.REASONING
        if self.openings.pending():
            return Stage.TOOL_CALL
        return Stage.REASONING if self.ledger.thinking else Stage.CONTENT

    def begin(self, stage: Stage) -> None:
        """Begin the output in this stage."""
        if stage is _CONTENT:
            self.parts.margin = self._plan.content_lead
        elif stage is _REASONING and self._plan.reasoning.closings:
            self.parts.begin_reasoning(0, self._plan.reasoning.lead, seen=False)
        elif stage is Stage.UNDECIDED and self._plan.reasoning.closings:
            self.parts.state = states.UNDECIDED
        elif stage is Stage.TOOL_CALL and self.look.outline.calls:
            self._blocks.enter()
        else:
            self.parts.margin = self._plan.content_lead

    def force(self, stage: Stage) -> None:
        """Go to a stage because an engine says so: what was open ends."""
        if stage is Stage.UNDECIDED or stage is self.stage():
            return
        tape, ledger = self.tape, self.ledger
        tape.final = tape.ended = True
        self.run()
        self._cut()
        if tape.end <= 0:
            ledger.forget_notices()  # nothing but a prompt was read
        tape.final = tape.ended = False
        if self.parts.state in (states.TEXT, states.REASONING):
            ledger.text(tape.end)
        else:
            ledger.markup(tape.end)
        tape.i = len(tape.buf)
        if ledger.thinking and stage is not Stage.REASONING:
            self.parts.end_reasoning(ledger.at)
        if stage is Stage.REASONING:
            if not ledger.thinking:
                self.parts.begin_reasoning(ledger.at, self._plan.reasoning.lead)
        elif stage is Stage.TOOL_CALL:
            self._blocks.enter()
        else:
            self.parts.state = states.EDGE

    def replay(self, tail: str) -> None:
        """Read the end of a prompt: it emits nothing, but decides where the output begins."""
        ledger, tape = self.ledger, self.tape
        ledger.at = tape.base = -len(tail)
        self.look.replay = True
        self.parts.margin = self._plan.content_lead
        self.take(tail)
        self.run()
        self.look.replay = False
        call = self.calls.call
        if call is not None:
            call.late.clear()
        if call is not None and call.started and call.sink == CallSink.CALL:
            call.replayed()
        else:
            ledger.replayed(-1)
            if ledger.thinking:
                ledger.reopen_reasoning()

    def end_string(self, *, turn: bool) -> None:  # each condition leaves the call open
        """A closing marker follows, known by its token's id: it ends the call even inside a string; inside a value in
        markup, only the end of the ``turn`` does."""
        calls = self.calls
        call, inner = calls.call, calls.arguments
        if turn and self.parts.state is states.MARKUP:
            self.run()
            reader, waits = calls.reader, self.tape.i < len(self.tape.buf)
            if calls.call is call and isinstance(reader, MarkupReader) and (waits or reader.value is not None):
                self._end_call()
            return
        if calls.broken is not None and calls.broken.within:
            self.run()
            if calls.broken is not None:
                calls.broken.within = ""
            return
        if call is None or inner is None or self.parts.state not in (states.ARGUMENTS, states.OBJECT):
            return
        self.run()
        if calls.call is call and calls.arguments is inner and not call.complete and inner.in_string():
            calls.cut_string(call, inner)

    def close(self, *, ended: bool) -> None:
        """The output is over; ``ended``: the model ended it."""
        tape, ledger, calls = self.tape, self.ledger, self.calls
        tape.final, tape.ended = True, ended
        over = tape.i == len(tape.buf) and calls.call is None and not ledger.holds
        if not (over and self.parts.state is states.EDGE):
            self.run()
            self._cut()
        if ledger.thinking:
            if ledger.at < tape.end:
                ledger.text(tape.end)
            ledger.thinking = False
            ledger.notice("unclosed_reasoning")
        ledger.markup(tape.end)
        within, state = calls.within, self.parts.state
        if within is not None and within.closing and state in (states.BLOCK, states.BLOCK_TEXT, states.CLOSE):
            ledger.notice("missing_close", within.closing.first)

    def _cut(self) -> None:
        """End what is still open: the output, or a stage that an engine set, is over."""
        tape, ledger, calls = self.tape, self.ledger, self.calls
        while calls.call is not None or ledger.holds:
            if ledger.held_for(Why.HEADER):
                call, reader = calls.call, calls.reader
                named = isinstance(reader, ObjectReader) and reader.named()
                if call is not None and named and calls.announce_object(call):
                    continue
                if ledger.held_for(Why.HEADER):
                    tape.i = len(tape.buf)
                    calls.cut_header()
                self.run()
            elif calls.call is not None:
                calls.cut()
                self.run()  # it may have been given back as text
            elif ledger.held_for(Why.OPEN_REASONING) and ledger.thinking:
                ledger.text(tape.end)
                ledger.as_content()
                ledger.notice("unclosed_reasoning")
            elif ledger.held_for(Why.OPENED_REASONING) and (ledger.thinking or ledger.paused):
                tape.i = len(tape.buf)
                calls.reopen()
                self.run()
            else:
                ledger.holds.pop()
        calls.let_go()
