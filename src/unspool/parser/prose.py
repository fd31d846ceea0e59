"""Steps outside of calls: in reasoning, in content, and at the boundaries between parts."""

from typing import Final, NamedTuple

from ..dialect.compiling import is_listed
from ..dialect.markers import (
    CALL,
    END,
    FRAME,
    FRAME_END,
    REASONING,
    REASONING_END,
    START,
    Block,
    CallOpening,
    Candidates,
    Form,
    Marker,
    Opening,
    Region,
    Scan,
    is_spelled,
    tag_of,
)
from ..dialect.patterns import LITERAL, MAX_SPACE, MORE, NO, shows, skip_brackets, skip_space, solid, worded
from . import states
from .calls import Calls
from .ledger import CAP, Why
from .openings import Match
from .parts import Steps, lead_of
from .white import held_suffix


class Partial(NamedTuple):
    """What is at a place where no marker matches fully."""

    weak: tuple[Marker, Match] | None = None  # the first weak match of a call
    cut: Marker | None = None  # the first marker that the output's end cuts, if enough of it is there to be a marker
    # The names of those cut markers that may count more than the weak match; ``None`` for other than calls.
    names: tuple[str | None, ...] = ()

    def and_cut(self, o: Marker, match: Match | None) -> "Partial":
        """The same with another marker that the output's end cuts."""
        if self.weak is not None and o.pattern.weight < self.weak[0].pattern.weight:
            return self
        return self._replace(names=(*self.names, None if match is None else match.fields.get("name")))

    def weak_alone(self) -> tuple[Marker, Match] | None:
        """The weak match, if all that may count more is a call of the same name."""
        weak = self.weak
        return weak if weak is not None and all(name == weak[1].fields.get("name") for name in self.names) else None


_NOTHING: Final = Partial()


class Prose(Steps):
    """Reads text, and recognizes the markers in it."""

    _calls: Calls
    _scanned: int = 0  # how many characters of undecided text were searched

    def edge(self) -> bool:  # a line for each thing that may begin
        """At a boundary: read white space, then the next part or text."""
        tape, ledger = self._tape, self._ledger
        buf = tape.buf
        i = j = tape.i
        n = len(buf)
        if i == n:
            return False
        if not " " < buf[i] < "\x7f":
            j = skip_space(buf, i)
        if j - i > MAX_SPACE:
            ledger.notice("hold_overflow", "white space")
            j = i + MAX_SPACE
        elif j == n:
            if tape.final:
                tape.i = n
                if self._parts.seen or ledger.thinking:
                    ledger.markup(tape.here)
                else:
                    ledger.text(tape.here)
            return False
        else:
            foreign = ledger.foreign_spans
            if foreign and foreign[0][0] == tape.base + j:
                tape.i = foreign.pop(0)[1] - tape.base
                ledger.markup(tape.here)
                return True
            r = self._marker_at(self._look.outline.edge, j, edge=True)
            if r == NO:
                r = self._drop_at(j)
            if r == NO and ledger.at == self._parts.bracketed:
                r = self._drop_brackets(j)
            if r == NO and buf.startswith("{", j):
                r = self._calls.unopened(j)
            if r >= 0:
                return True
            if r == MORE:
                return False
            self._note_header(j)
        self._parts.put_edge(tape.end)
        self._parts.state = states.TEXT
        tape.i = max(i, ledger.at - tape.base)
        if j > tape.i:
            # White space before text; what follows it was looked at already.
            tape.i = j
            ledger.text(tape.here)
        return True

    def _note_header(self, i: int) -> None:
        """Emit a notice if text begins at ``i`` with the marker of a call that counts only where a message begins."""
        outline = self._look.outline
        if not (outline.calls and self._plan.framed):
            return
        markers = outline.edge.near(self._tape.buf, i)
        begun = self._begun_calls([o for o in markers if o.pattern.first not in outline.text.scan.triggers], i)
        if begun:
            self._ledger.notice("call_without_name", begun[0].pattern.first)

    def _empty_reasoning(self, i: int) -> int:
        """Take a closing of reasoning at ``i``, if nothing came before it: the reasoning was empty."""
        ledger, tape = self._ledger, self._tape
        if self._parts.seen or ledger.spoken:
            return NO
        r = self._look.soonest(self._plan.reasoning.closings, i)
        if r >= 0:
            tape.i = r
            ledger.markup(tape.here)
            self._parts.leaves(self._plan.reasoning.trail)
        return r

    def reasoning_start(self) -> bool:
        """After an opening of reasoning, which may be repeated."""
        tape = self._tape
        i = tape.i
        if i == len(tape.buf):
            return False
        j = skip_space(tape.buf, i)
        if j - i <= MAX_SPACE:
            if j == len(tape.buf) and not tape.final:
                return False
            begun = self._plan.plain.edge.at(tape.buf, j)
            whole = [o.pattern for o in begun if o.kind == REASONING and o.marked and not is_spelled(o)]
            r = self._look.soonest(whole, j) if whole else NO
            if r == MORE:
                return False
            if r > i:  # an opening that takes no text is not repeated
                tape.i = r
                self._ledger.markup(tape.here)
                return True
        if not self._parts.take_lead():
            return False
        self._parts.state = states.REASONING
        return True

    def resuming(self) -> bool:
        """After a call in reasoning, which goes on as soon as text comes."""
        tape, ledger = self._tape, self._ledger
        i = tape.i
        j = skip_space(tape.buf, i)
        if j - i > MAX_SPACE:
            ledger.notice("hold_overflow", "white space")
        elif j == len(tape.buf):
            if tape.final:
                tape.i = j
                ledger.markup(tape.here)
            return False
        else:
            for o in self._plan.reasoning.resuming:
                r, match = self._openings.marker(o, j)
                if match is None:
                    if r >= 0:
                        self._resume_with(o, j, r)
                        return True
                elif r >= 0 and not match.weak and isinstance(o, CallOpening) and not self._calls.refused(j):
                    self._calls.open(o, j, match)
                    return True
                if r == MORE and not tape.final:
                    return False
        self._parts.begin_reasoning(ledger.at, self._parts.margin)
        return True

    def _resume_with(self, o: Marker, i: int, end: int) -> None:
        """After a call in reasoning, which closes, or another part begins."""
        if o.kind == REASONING_END:
            self._ledger.markup(self._tape.base + end)
            self._parts.end_turn(end)
            self._parts.leaves(self._plan.reasoning.trail)
        else:
            self._parts.begin(o, i, end)

    def _close_reasoning(self, p: int, end: int) -> None:
        """The closing of reasoning is at ``buf[p:end]``."""
        self._parts.text_before(p, self._look.outline.reasoning.inner)
        self._parts.end_reasoning(self._tape.base + end)
        self._tape.i = end
        self._parts.leaves(self._plan.reasoning.trail)

    def _close_answer(self, p: int, end: int) -> None:
        """The closing of an answer is at ``buf[p:end]``, in open reasoning: that was the answer, or stays reasoning."""
        tape, ledger = self._tape, self._ledger
        if ledger.held_for(Why.OPENED_REASONING):
            tape.i = p
            self._calls.reopen()  # it was not closed
            return
        self._parts.text_before(p, self._look.outline.frame.inner)
        if ledger.held_for(Why.OPEN_REASONING):
            ledger.as_content()
            ledger.markup(tape.base + end)
            self._parts.settle_thought()
        else:
            self._parts.end_reasoning(tape.base + end)
        ledger.notice("answer_closed_in_reasoning", tape.buf[p:end])
        self._parts.end_turn(end)
        self._parts.leaves(self._plan.frame_trail)

    def region(self) -> Region:
        """The markers that count in the current text."""
        outline = self._look.outline
        if self._parts.state is states.REASONING:
            return outline.reasoning
        return outline.frame if self._parts.framed else outline.text

    def text(self) -> bool:
        """In text: read up to the next marker that counts."""
        tape = self._tape
        region = self.region()
        scan = region.scan
        buf = tape.buf
        n = len(buf)
        pos = tape.i
        # A decision beyond the cap of a hold comes too late, however the text is cut.
        holds = self._ledger.holds
        limit = holds[0].start - tape.base + CAP if holds else n
        while True:
            m = scan.find.search(buf, pos)
            if limit < n and (m is None or m.start() > limit):
                self._release(limit + 1, region.inner, "")
                tape.i = limit + 1
                return True
            if m is None or (m.end() == n and m.group() not in scan.triggers):
                if not tape.final:
                    self._release(n if m is None else m.start(), region.inner, region.margin)
                elif m is None or self._cut_at(scan.markers, m.start()) == NO:
                    self._last_text(n, n)
                    tape.i = n
                return False
            p = m.start()
            r = self._marker_at(scan.markers, p, edge=False)
            if r == MORE:
                self._release(p, region.inner, region.margin)
                return False
            if r >= 0:
                return True
            pos = p + 1
            region = self.region()  # a different one, if a policy makes all that follows text
            scan = region.scan

    def _release(self, p: int, inner: str, margin: str) -> None:
        """Emit text up to ``p``, except for white space that may belong to a marker."""
        tape = self._tape
        take = max(held_suffix(tape.buf, tape.i, p, inner), held_suffix(tape.buf, tape.i, p, margin))
        self._ledger.text(tape.base + p - take)
        tape.i = p - take

    def _marker_at(self, markers: Candidates[Marker], i: int, *, edge: bool) -> int:  # hot: asked wherever one may be
        """Act on the marker at ``i``, at a boundary (``edge``) or in text; `NO` or `MORE` if there is none (yet)."""
        partial, buf = _NOTHING, self._tape.buf
        for o in markers.near(buf, i):
            if not o.pattern.begins(buf, i):
                continue
            r, match = self._match(o, i, edge=edge)
            if r >= 0 and match is not None and match.weak:
                if edge or not self._ledger.thinking:
                    partial = partial._replace(weak=partial.weak or (o, match))
            elif r >= 0:
                # At a boundary, a call with wrong arguments counts more than later parts; in text, any part does.
                if edge and match is None and partial.weak is not None:
                    break
                cut = partial.cut
                if cut is not None and self._goes_on(cut, o, i, r) and self._drop_cut(cut, i) >= 0:
                    return r
                return self._take(o, i, r, match, edge=edge)
            elif r == MORE:
                if not self._tape.final:
                    return MORE
                partial = partial.and_cut(o, match)
                if partial.cut is None and self._is_cut_marker(o, i):
                    partial = partial._replace(cut=o)
        return self._no_marker(markers, partial, i, edge=edge)

    def _match(self, o: Marker, i: int, *, edge: bool) -> tuple[int, Match | None]:
        """The end of a marker at ``i``, if it counts, and how it matches if it opens a call."""
        look = self._look
        match: Match | None = None
        if isinstance(o, CallOpening) and (edge or look.outline.calls):
            match = self._openings.match(o, i, edge=edge)
            r = match.end
        else:
            r = look.marker(o, i) if o.kind == END else look.stands(o.pattern, i)
            if edge and not o.marked and not self._may_open_untagged(i):
                r = NO
        if r < 0 or edge or self._ledger.thinking or (match is not None and match.weak):
            return r, match
        return self._counted(o, i, r), match

    def _may_open_untagged(self, i: int) -> bool:
        """Whether reasoning without its tag may open at ``i``: it comes first, and is not known to be text."""
        first = not (self._parts.seen or self._ledger.spoken) and self._tape.base + i >= self._look.thoughts_from
        return first and self._plan.policy.reasoning_in_content != "text"

    def _take(self, o: Marker, i: int, end: int, match: Match | None, *, edge: bool) -> int:
        """Act on the marker ``buf[i:end]``, which counts."""
        if isinstance(o, CallOpening):
            if match is None or self._calls.refused(i):  # calls are text, with their closings
                self._spare(o, i)
                return NO
            self._calls.open(o, i, match)
            return match.end
        if edge and o.kind == REASONING and not o.marked:  # text, unless the next marker closes it
            self._look.thoughts_from = self._tape.base + i + 1
            self._scanned = 0
            self._parts.state = states.UNDECIDED
            return i
        if edge:
            if not o.pattern.first:  # a blank opening: text begins here
                self._note_header(i)
            return self._parts.begin(o, i, end)
        return self._act(o, i, end)

    def _no_marker(self, markers: Candidates[Marker], partial: Partial, i: int, *, edge: bool) -> int:
        """Act on what is at ``i``, where no marker matches fully: its end, or `NO`."""
        r = self._empty_reasoning(i) if edge else NO
        if r != NO:
            return r
        if partial is not _NOTHING:
            weak = partial.weak_alone()
            if weak is not None and (edge or not self._look.quoted(i)):
                return self._take(weak[0], i, weak[1].end, weak[1], edge=edge)
            r = NO if partial.cut is None else self._drop_cut(partial.cut, i)
        if r >= 0 or edge or self._ledger.thinking:
            return r
        r = self._drop_at(i)
        return self._no_call(markers, i) if r == NO and self._look.outline.calls else r

    def _counted(self, o: Marker, p: int, end: int) -> int:
        """``end`` if the marker at ``buf[p:end]`` counts there; else `NO` or `MORE`."""
        look = self._look
        if look.quoted(p):
            # The end of a frame or of the turn ends an unclosed code span, if another part or nothing follows.
            return look.end_counts(p, end) if o.kind in (END, FRAME_END) else NO
        if o.kind == REASONING:
            text = self._plan.policy.reasoning_in_content == "text"
            if text or self._tape.base + p < look.thoughts_from:
                look.spare(p, *self._plan.reasoning.closings)
                return NO
        counts = look.outline.calls or o.kind not in (END, FRAME_END) or not look.is_spared(p)
        return end if counts else NO

    def _act(self, o: Marker, p: int, end: int) -> int:
        """End the text at the marker ``buf[p:end]``, which opens no call."""
        tape, ledger = self._tape, self._ledger
        if o.kind == REASONING_END:
            self._close_reasoning(p, end)
        elif o.kind in (REASONING, FRAME):
            self._open_in_text(o, p, end)
        elif o.kind == FRAME_END and ledger.thinking:
            self._close_answer(p, end)
        elif o.kind == FRAME_END:
            self._parts.text_before(p, self._look.outline.frame.inner)
            ledger.markup(tape.base + end)
            self._parts.end_turn(end)
            self._parts.leaves(self._plan.frame_trail)
        elif ledger.held_for(Why.OPENED_REASONING):
            tape.i = p
            self._calls.reopen()  # the turn ends and its reasoning was not closed
        else:
            if ledger.thinking and o.kind == END:
                self._end_unclosed(p)
            elif ledger.thinking:
                self._cut_thought(p)
            self._last_text(p, end)
            ledger.markup(tape.base + end)
            self._parts.end_turn(end, o)
            self._parts.skip_others(o)
        return end

    def _last_text(self, p: int, end: int) -> None:
        """The turn's text ends at ``p``, the turn at ``end``: remove the format's white space from the text."""
        tape, ledger = self._tape, self._ledger
        bare = self._parts.state is states.TEXT and not self._parts.framed and (tape.ended or not tape.final)
        take = self._parts.text_before(p, self._look.outline.text.inner if bare else "")
        if take:
            ledger.markup(tape.base + end)

    def _cut_thought(self, p: int) -> None:
        """End the text at ``p``, where something else begins. Reasoning that is still open lacks its closing."""
        ledger = self._ledger
        ledger.text(self._tape.base + p)
        if ledger.thinking:
            ledger.end_reasoning(self._tape.base + p)
            ledger.notice("missing_close", "reasoning")
            self._parts.settle_thought()

    def _end_unclosed(self, p: int) -> None:
        """The turn ends at ``p``, in reasoning that is not closed, as it does with the output."""
        ledger, here = self._ledger, self._tape.base + p
        ledger.text(here)
        if ledger.held_for(Why.OPEN_REASONING):
            ledger.as_content()
        else:
            ledger.end_reasoning(here)
        ledger.notice("unclosed_reasoning")
        self._parts.settle_thought()

    def _open_in_text(self, o: Marker, p: int, end: int) -> None:
        """Open reasoning or a frame in running text, at ``buf[p:end]``, which ends the open part."""
        tape, ledger = self._tape, self._ledger
        outline = self._look.outline
        inner = outline.reasoning.inner if ledger.thinking else outline.frame.inner if self._parts.framed else ""
        lead = o.template.lead if isinstance(o, Opening) and o.template else ""
        take = self._parts.text_before(p, inner, lead)
        framed = self._parts.framed
        if o.kind == FRAME:
            self._cut_thought(p - take)
            self._parts.begin_frame(o, p, end)
        else:
            held = self._plan.policy.reasoning_in_content == "closed"
            if not held:  # otherwise its margin is given back with it
                ledger.markup(tape.base + p)
            self._parts.begin_reasoning(tape.base + end, lead_of(o), opened=held)
            tape.i = end
        if framed:
            ledger.notice("missing_close", "frame")

    def frame_start(self) -> bool:
        """After the header of a frame: remove the white space that belongs to it."""
        tape = self._tape
        if (tape.i == len(tape.buf) and not tape.final) or not self._parts.take_lead():
            return False
        self._parts.state = states.TEXT
        return True

    def _is_begun_marker(self, o: CallOpening, p: int) -> bool:
        """Whether enough of an opening is at ``p`` to be a marker, although it does not match.

        A word alone (``function``) and the beginning of a longer word (``<call`` in ``<caller>``) are text. So is a
        sign (``[``), unless the file says that it counts anywhere.
        """
        buf, pattern = self._tape.buf, o.pattern
        if not buf.startswith(pattern.first, p):
            return False
        if shows(pattern.first):
            return True
        here = buf[p : pattern.progress(buf, p, whole=True)]
        return not solid(here).isalnum() and (worded(here) or is_listed(here, self._plan.dialect.anywhere))

    def _is_cut_marker(self, o: Marker, p: int) -> bool:
        """Whether enough of a marker is at ``p``, where the output's end cuts it: a whole tag or special token, or what
        `_is_begun_marker` asks of a call's opening."""
        if not o.marked or (o.kind == CALL and (self._ledger.thinking or not self._look.outline.calls)):
            return False
        if not self._openings.begun(o.pattern, p):
            return False
        started = self._parts.started - self._tape.base
        if (
            isinstance(o, Opening)
            and self._plan.headed
            and 0 <= started <= p
            and skip_space(self._tape.buf, started) == p
        ):
            # A header must follow; a mere word begins one only if it may be a tool's name.
            return bool(o.pattern.first) or (self._openings.names is not None and self._openings.may_name(p))
        if isinstance(o, CallOpening) and self._is_begun_marker(o, p):
            return True
        tag = tag_of(o.pattern)
        return bool(tag) and self._tape.buf.startswith(tag, p)

    def _goes_on(self, cut: Marker, o: Marker, i: int, end: int) -> bool:
        """Whether ``o``, at ``buf[i:end]``, is only the beginning of a marker that the output's end cuts."""
        if is_spelled(o):
            rest = self._tape.buf[end:].strip()
            begun = any(a.kind == LITERAL and a.text.startswith(rest) for a in cut.pattern.atoms)
            return begun or len(cut.pattern.cut(self._tape.buf, i)) < len(rest)
        return end < len(self._tape.buf) and (o.kind in (END, START, FRAME) or o.kind == cut.kind == REASONING)

    def _cut_at(self, markers: Candidates[Marker], p: int) -> int:
        """Drop the beginning of a marker's first literal, which is at ``p`` and ends the output, if that is no text."""
        cut = (o for o in markers if self._look.stands(o.pattern, p) == MORE and self._is_cut_marker(o, p))
        o = next(cut, None)
        return NO if o is None else self._drop_cut(o, p)

    def _drop_cut(self, o: Marker, p: int) -> int:
        """Drop the beginning of a marker at ``p``, with which the output ends, and the white space before it."""
        tape, look = self._tape, self._look
        if not look.stray_counts(p) or look.closed_behind(p):
            return NO
        if self._parts.state is not states.EDGE:
            region = self.region()
            margin = o.block.margin if o.block is not None else region.margin
            self._parts.text_before(p, region.inner, margin)
            self._ledger.markup(tape.base + p)
        return self._drop(p, len(tape.buf), "stray_open" if isinstance(o, Opening) else "stray_close")

    def _drop_at(self, p: int) -> int:
        """Drop a marker at ``p`` that opens or closes nothing: its end, `NO` or `MORE`."""
        end, opens = self._look.stray(p)
        return self._drop(p, end, "stray_open" if opens else "stray_close") if end >= 0 else end

    def _drop_brackets(self, p: int) -> int:
        """Drop surplus brackets at ``p``, after a block, if the turn ends there, or another call opens: their end,
        `NO` or `MORE`."""
        buf = self._tape.buf
        if buf.startswith(")", p):  # prose may have opened it
            return NO
        end = self._openings.surplus(p, ())
        for k in range(p + 1, skip_brackets(buf, p) + 1):  # as few as possible: a call may begin with others
            if end != NO:
                break
            j = skip_space(buf, k)
            if j - k <= MAX_SPACE:
                end = min(self._openings.opens_next(j), k)
        return self._drop(p, end, "stray_close") if end >= 0 else end

    def _drop(self, p: int, end: int, kind: str) -> int:
        tape, ledger = self._tape, self._ledger
        if self._parts.state is states.EDGE:  # there is only white space before it, which goes with it
            ledger.markup(tape.base + p)
        else:
            ledger.text(tape.base + p)
        marker = tape.buf[p:end]
        ledger.markup(tape.base + end)
        tape.i = end
        ledger.notice(kind, marker.strip())
        return end

    def _no_call(self, markers: Candidates[Marker], p: int) -> int:
        """Read text at ``p`` that opens no call; if it is a call's marker, a notice says so."""
        look, buf = self._look, self._tape.buf
        begun, strays = self._begun_calls(markers.near(buf, p), p), look.stray_closings(p)
        if not (begun or strays) or look.quoted(p):
            return NO
        pairs = [(o.block, o.form) for o in begun if o.block is not None]
        look.spare(p, *(closing for b, f in pairs for closing in (b.closing, f.closing)), *strays)
        if not begun:
            return NO
        self._ledger.text(self._tape.base + p)
        self._tape.i = p
        whole = any(self._openings.as_text(o, p) for o in begun if o.pattern.head().match(buf, p, {}) != NO)
        self._ledger.notice("opening_as_text" if whole else "call_without_name", begun[0].pattern.first)
        return self._enter_nameless(pairs, p)

    def _begun_calls(self, markers: list[Marker], p: int) -> list[CallOpening]:  # each condition excludes other text
        """The openings of calls of which enough is at ``p`` to be markers, although they do not match."""
        look = self._look
        calls = [o for o in markers if isinstance(o, CallOpening) and o.marked]
        # Text may begin like another spelling, so all of its opening must be there.
        found = [o for o in calls if not is_spelled(o) and self._is_begun_marker(o, p)]
        found += [o for o in calls if is_spelled(o) and self._openings.as_text(o, p)]
        if not found:
            return found
        # Another part's marker, which is text here, may begin like a call's and go on.
        text = max([look.stands(o.pattern, p) for o in markers if o.kind != CALL], default=NO)
        if text >= 0:
            found = [o for o in found if o.pattern.progress(self._tape.buf, p) >= text]
        return [o for o in found if not look.only_spelled(o.pattern.first, p, p + len(o.pattern.first))]

    def _enter_nameless(self, pairs: list[tuple[Block, Form]], p: int) -> int:  # each condition leaves it text
        """If the markers of a block and of a call without a name are at ``p``, open the block: later calls count."""
        tape = self._tape
        buf = tape.buf
        for block in dict.fromkeys(block for block, _ in pairs if block.marked and block.opening.atoms):
            end = block.opening.match(buf, p, {})
            if end < 0:
                continue
            i = skip_space(buf, end)
            forms = [f for b, f in pairs if b is block and worded(f.opening.first)]
            forms = [f for f in forms if buf.startswith(f.opening.first, i)]
            if not forms or i - end > MAX_SPACE or self._calls.refused(p):
                continue
            if tape.base + p < self._openings.text_until:
                break
            # A call that closes itself has no closing to spare.
            form = next((f for f in forms if f.closing.atoms), forms[0])
            self._look.spare(i, form.closing)
            tape.i = i + len(form.opening.first)
            self._ledger.text(tape.here)
            self._calls.enter(block)
            self._parts.state = states.BLOCK_TEXT
            return tape.i
        return NO

    def undecided(self) -> bool:
        """In text that is reasoning or content: hold it until a marker decides."""
        tape = self._tape
        buf = tape.buf
        i = tape.i
        if self._scanned == 0:
            r = self._begins_decided(i)
            if r == MORE:
                return False
            if r >= 0:
                self._parts.state = states.EDGE
                return True
        scan = self._look.outline.undecided
        pos = i + self._scanned
        while True:
            m = scan.find.search(buf, pos)
            if m is None or m.group() not in scan.triggers:
                if tape.final:
                    self._parts.state = states.EDGE
                    return True
                self._scanned = (len(buf) if m is None else m.start()) - i
                return self._too_long()
            p = m.start()
            if p - i > CAP:
                return self._too_long()
            r = self._decides(scan, p)
            if r == MORE:
                self._scanned = p - i
                return self._too_long()
            if r >= 0:
                return True
            pos = p + 1

    def _begins_decided(self, i: int) -> int:
        """The end of an opening of reasoning or of a marked call that is the first thing after white space at ``i``."""
        tape = self._tape
        j = skip_space(tape.buf, i)
        if j - i > MAX_SPACE:
            return NO
        if j == len(tape.buf):
            return NO if tape.final else MORE
        for o in self._look.outline.edge.at(tape.buf, j):
            if isinstance(o, CallOpening) and o.marked:
                r = self._openings.match(o, j, edge=True).end
            else:
                r = self._look.stands(o.pattern, j) if o.kind == REASONING and o.marked else NO
            if r >= 0 or (r == MORE and not tape.final):
                return r
        return NO

    def _decides(self, scan: Scan, p: int) -> int:
        """If a marker at ``p`` decides what the text before it is, change the state: its end, `NO`, or `MORE`."""
        look = self._look
        for o in scan.markers.at(self._tape.buf, p):
            r, _ = self._openings.marker(o, p)
            if r == MORE and not self._tape.final:
                return MORE
            if r >= 0 and not (o.kind in (CALL, REASONING) and look.quoted(p)):
                if o.kind == REASONING_END:
                    self._begin_decided()
                else:
                    self._parts.state = states.EDGE
                return r
        return NO

    def _begin_decided(self) -> None:
        """Begin the reasoning that a closing decides, after its opening without the tag if that is there."""
        tape, buf = self._tape, self._tape.buf
        j = skip_space(buf, tape.i)
        untagged = [o.pattern for o in self._plan.plain.edge.at(buf, j) if o.kind == REASONING and not o.marked]
        end = self._look.first(untagged, j)
        if end >= 0:
            tape.i = end
            self._parts.begin_reasoning(tape.here, "")
        else:
            self._parts.begin_reasoning(self._ledger.at, self._plan.reasoning.lead)

    def _too_long(self) -> bool:
        if len(self._tape.buf) - self._tape.i <= CAP:
            return False
        self._ledger.notice("hold_overflow", "undecided text")
        self._parts.state = states.EDGE
        return True

    def _spare(self, o: CallOpening, i: int) -> None:
        """Leave the call that opens at ``i`` as text, with its closing and its block's."""
        closings = (o.form.closing, o.block and o.block.closing)
        self._look.spare(i, *(c for c in closings if c))
