"""Text: reasoning, content, and the boundaries between parts."""

from typing import Any

from ..events import ReasoningEnd, ReasoningStart, Stage
from .call import Sink
from .headers import Ids
from .output import (
    ARGUMENTS,
    BLOCK,
    BLOCK_TEXT,
    CAP,
    CLOSE,
    EDGE,
    FRAME_START,
    HEADER,
    MEMBERS,
    OBJECT,
    OPEN_REASONING,
    OPENED_REASONING,
    REASONING,
    REASONING_START,
    RECOVER,
    RESUMING,
    TEXT,
    THOUGHT_CALL,
    UNDECIDED,
    VALUE,
    VALUE_START,
    common_suffix,
    held_suffix,
)
from .patterns import MAX_SPACE, MORE, NO, skip_space
from .plan import CALL, END, FRAME, FRAME_END, REASONING_END, Opening, Plan, Scan
from .plan import REASONING as THOUGHT
from .strays import Strays


class Text(Strays):
    """The whole machine: `_run` makes steps until more text is needed."""

    __slots__ = ("_closed_at", "_scanned")

    def __init__(self, plan: Plan, names: dict[str, Any] | None, named: str, ids: Ids) -> None:
        super().__init__(plan, names, named, ids)
        self._scanned = 0  # characters of undecided text that were searched
        self._closed_at = self._calls_from  # up to here no closing of a thought stands behind the cursor

    def _run(self) -> None:
        """Consume what can be consumed."""
        while True:
            if self._holds:
                self._overflow()
                call = self._call
                if call is not None and call.status == "invalid" and self._holds[-1].kind == THOUGHT_CALL:
                    self._back_to_thought(self._discard())
            state = self._state
            if self._call is not None and self._call.thought and self._ends_with_thought(state):
                going = self._thought_step()
            else:
                going = self._step(state)
            if not going:
                if self._too_much():
                    continue
                self._release_space()
                return

    def _step(self, state: int) -> bool:
        """One step; false where more text is needed."""
        if state == TEXT:
            return self._text()
        if state == REASONING:
            return self._reasoning()
        if state == ARGUMENTS:
            return self._arguments()
        if state == VALUE:
            return self._value()
        if state == EDGE:
            return self._edge()
        if state == OBJECT:
            return self._object()
        if state == BLOCK:
            return self._block()
        if state == MEMBERS:
            return self._members()
        if state == VALUE_START:
            return self._value_start()
        if state == CLOSE:
            return self._close()
        if state == RECOVER:
            return self._recover()
        if state == REASONING_START:
            return self._reasoning_start()
        if state == RESUMING:
            return self._resuming()
        if state == FRAME_START:
            return self._frame_start()
        if state == BLOCK_TEXT:
            return self._block_text()
        return self._undecided()

    # -- a call in a thought --------------------------------------------------------------------------------------

    def _ends_with_thought(self, state: int) -> bool:
        """Whether the closing of the thought would end the call that is read: it does outside of strings."""
        call = self._call
        assert call is not None
        return state in (MEMBERS, VALUE_START, VALUE) or (state == RECOVER and not call.within)

    def _thought_step(self) -> bool:
        """A step of a call up to the closing of the thought it stands in, or up to what may become that."""
        buf = self._buf
        at, certain = self._thought_closes()
        if at == len(buf) or (self._final and not certain):
            return self._step(self._state)
        rest = buf[at:]
        self._buf = buf[:at]
        going = self._i < at and self._step(self._state)
        if not going and certain and not self._too_much():
            final, ended, call = self._final, self._ended, self._call
            self._final = self._ended = True
            while self._call is call and self._step(self._state):
                pass
            if self._call is call:
                self._cut_call()
            self._final, self._ended = final, ended
            going = True
        self._buf += rest
        return going or self._too_much()

    def _thought_closes(self) -> tuple[int, bool]:
        """Where the closing of the thought stands, or may begin; the text's end where neither is."""
        buf = self._buf
        scan = self._plan.thought_ends
        pos = max(self._i, self._closed_at - self._base)
        while True:
            m = scan.find.search(buf, pos)
            if m is None:
                self._closed_at = self._base + len(buf)
                return len(buf), False
            p = m.start()
            rs = [self._match(o, p, {}) for o in scan.openings]
            if max(rs) >= 0 or MORE in rs:
                self._closed_at = self._base + p
                return p, max(rs) >= 0
            pos = p + 1

    def _release_space(self) -> None:
        """Framing inside a call is not kept waiting without end."""
        call = self._call
        if call is None or not call.started or call.reader is not None or call.hold >= 0 or self._state == VALUE:
            return
        here = self._base + self._i
        if (
            here - self._at > MAX_SPACE
            and call.sink is Sink.CALL
            and (not self._holds or self._holds[-1].kind != HEADER)
        ):
            self._put_markup(here)

    # -- boundaries -----------------------------------------------------------------------------------------------

    def _edge(self) -> bool:
        """At a boundary: white space, then the next part or text."""
        buf = self._buf
        i = self._i
        n = len(buf)
        if i == n:
            return False
        j = skip_space(buf, i)
        if j == n:
            if self._final:
                self._i = n
                if self._seen_part or self._thinking:
                    self._put_markup(self._base + n)
                else:
                    self._put_text(self._base + n)
                return False
            if j - i <= MAX_SPACE:
                return False
            self._notice("hold_overflow", "white space")
        else:
            if self._foreign and self._base + j == self._foreign[0][0]:
                self._i = self._foreign.pop(0)[1] - self._base
                self._put_markup(self._base + self._i)
                return True
            r = self._open_at(self._plan.edge_plain if self._plain else self._plan.edge, j, True)
            if r == NO:
                r = self._drop_at(j)
            if r == MORE:
                return False
            if r >= 0:
                return True
        self._put_edge(self._base + n)
        self._state = TEXT
        self._i = max(i, self._at - self._base)
        if j > self._i:
            # White space in front of text; what stands behind it was looked at already.
            self._put_text(self._base + j)
            self._i = j
        return True

    def _open_at(self, openings: list[Opening], i: int, edge: bool) -> int:
        """Begin the part whose opening stands at ``i``; `NO` or `MORE` where there is none (yet)."""
        buf = self._buf
        c = buf[i]
        weak: tuple[Opening, int, dict[str, str]] | None = None
        maybe: list[str | None] = []  # names in readings that the output's end cuts
        for o in openings:
            first = o.pattern.first
            if first and first[0] != c:
                continue
            fields: dict[str, str] = {}
            if o.kind == CALL:
                r = self._match_call(o, i, edge, fields)
                if r >= 0 and "weak" in fields:
                    weak = weak or (o, r, fields)
                    continue
            else:
                r = self._match(o, i, fields)
                if r >= 0 and o.kind == END:
                    r = self._end_counts(i, r)
            if r >= 0:
                if weak is not None and o.kind != CALL:
                    break  # a call with wrong arguments is more literal than this
                return self._begin(o, i, r, fields)
            if r == MORE:
                if not self._final:
                    return MORE
                maybe.append(fields.get("name"))
        if edge and not self._seen_part and not self._seen_text:
            # A closing of reasoning at the very start closes an empty one.
            for o in self._plan.reasoning_ends:
                r = self._match(o, i, {})
                if r == MORE and not self._final:
                    return MORE
                if r >= 0:
                    self._i = r
                    self._put_markup(self._base + r)
                    self._seen_part = True
                    self._margin = self._plan.reasoning_trail
                    return r
        if weak is not None and all(name == weak[2].get("name") for name in maybe):
            return self._begin(weak[0], i, weak[1], weak[2])
        return NO

    def _begin(self, o: Opening, i: int, end: int, fields: dict[str, str]) -> int:
        if o.kind == CALL:
            if self._refused(i):
                return NO
            self._open_call(o, i, end, fields)
        elif o.kind == THOUGHT:
            self._put_markup(self._base + i)
            self._begin_reasoning(self._base + end, o.template.inner_lead if o.template else "")
            self._i = end
        elif o.kind == FRAME:
            self._begin_frame(o, end)
        else:
            self._put_markup(self._base + end)
            self._ended_turn(end)
            self._skip_others(o)
        return end

    def _begin_frame(self, o: Opening, end: int) -> None:
        """The header of a content frame ends at ``end``."""
        self._put_markup(self._base + end)
        self._ended_turn(end)
        self._framed = True
        self._lead = o.template.inner_lead if o.template else ""
        self._state = FRAME_START

    def _skip_others(self, o: Opening) -> None:
        """Behind the end of a turn a prompt belongs to others."""
        if not self._replay or o.kind != END:
            return
        i = skip_space(self._buf, self._i)
        if i < len(self._buf) and any(e.pattern.match(self._buf, i, {}) != NO for e in self._plan.edge if e.marked):
            return  # an opening, perhaps cut by the prompt's end
        self._i = len(self._buf)
        self._put_markup(self._base + self._i)

    def _ended_turn(self, end: int) -> None:
        self._i = end
        self._state = EDGE
        self._margin = ""
        self._framed = False
        self._resume = False
        self._seen_part = True
        self._quoting.restart()

    # -- reasoning ------------------------------------------------------------------------------------------------

    def _begin_reasoning(self, end: int, lead: str, *, opened: bool = False) -> None:
        """Reasoning opens; ``opened``: in content, where it is none unless it is closed."""
        if opened:
            self._hold(OPENED_REASONING)
        elif self._plan.policy.unclosed_reasoning == "content":
            self._hold(OPEN_REASONING)
        start, stop = self._span(end)
        self._out.append(ReasoningStart(start, stop))
        self._thinking = True
        self._resume = False
        self._framed = False
        self._lead = lead
        self._margin = ""
        self._seen_part = True
        self._state = REASONING_START

    def _take_lead(self) -> bool:
        """Take the white space that belongs to an opening off the text behind it; false while that may grow."""
        lead = self._lead
        buf = self._buf
        i = self._i
        n = len(buf)
        k = 0
        while k < len(lead) and i + k < n and buf[i + k] == lead[k]:
            k += 1
        if k < len(lead) and i + k == n and not self._final:
            return False
        self._i = i + k
        self._put_markup(self._base + i + k)
        return True

    def _reasoning_start(self) -> bool:
        """Reasoning has just opened: its opening may be repeated."""
        buf = self._buf
        i = self._i
        if i == len(buf):
            return False
        j = skip_space(buf, i)
        if j < len(buf):
            for o in self._plan.edge_plain:
                if o.kind != THOUGHT:
                    continue
                r = self._match(o, j, {})
                if r == MORE and not self._final:
                    return False
                if r >= 0:
                    self._i = r
                    self._put_markup(self._base + r)
                    return True
        elif j - i <= MAX_SPACE and not self._final:
            return False
        if self._take_lead():
            self._state = REASONING
            return True
        return False

    def _resuming(self) -> bool:
        """Behind a call in reasoning: the reasoning goes on as soon as text comes."""
        buf = self._buf
        i = self._i
        j = skip_space(buf, i)
        if j == len(buf):
            if self._final:
                self._i = j
                self._put_markup(self._base + j)
                return False
            if j - i <= MAX_SPACE:
                return False
            self._notice("hold_overflow", "white space")
        else:
            more = False
            for o in self._plan.resuming:
                fields: dict[str, str] = {}
                r = self._match_call(o, j, False, fields) if o.kind == CALL else self._match(o, j, fields)
                if r >= 0 and o.kind == END:
                    r = self._end_counts(j, r)
                if r >= 0 and not (o.kind == CALL and ("weak" in fields or self._refused(j))):
                    if o.kind == REASONING_END:
                        self._put_markup(self._base + r)
                        self._ended_turn(r)
                        self._margin = self._plan.reasoning_trail
                    else:
                        self._begin(o, j, r, fields)
                    return True
                more = more or r == MORE
            if more and not self._final:
                return False
        self._begin_reasoning(self._at, self._margin)
        return True

    def _close_reasoning(self, p: int, end: int) -> None:
        """The closing of reasoning stands at ``buf[p:end]``."""
        take = common_suffix(self._buf, self._i, p, self._plan.reasoning_inner)
        self._put_text(self._base + p - take)
        start, stop = self._span(self._base + end)
        self._out.append(ReasoningEnd(start, stop))
        self._reasoning_over()
        self._seen_part = True
        self._i = end
        self._margin = self._plan.reasoning_trail

    def _reasoning_over(self) -> None:
        self._thinking = False
        if self._holds and self._holds[-1].kind in (OPEN_REASONING, OPENED_REASONING):
            self._commit()
            self._let_go()
        self._quoting.restart()
        self._state = EDGE

    # -- running text ---------------------------------------------------------------------------------------------

    def _outline(self) -> tuple[Scan, str, str]:
        """What counts in the text that is read, and the white space before it that may belong to it."""
        plan = self._plan
        plain = self._plain
        if self._state == REASONING:
            calls = not plain and plan.policy.call_in_reasoning != "text"
            scan = plan.reasoning_calls if calls else plan.reasoning
            return scan, plan.reasoning_inner, plan.margin if calls else ""
        margin = plan.margin_plain if plain else plan.margin
        if self._framed:
            return plan.frame_plain if plain else plan.frame, plan.frame_inner, margin
        return plan.text_plain if plain else plan.text, plan.content_trail, margin

    def _text(self) -> bool:
        return self._running(*self._outline())

    def _reasoning(self) -> bool:
        return self._running(*self._outline())

    def _running(self, scan: Scan, inner: str, margin: str) -> bool:
        """Text up to the next opening or closing that counts."""
        buf = self._buf
        n = len(buf)
        pos = self._i
        # What decides behind the cap of a hold comes too late, however the text is cut.
        limit = self._holds[0].start - self._base + CAP if self._holds else n
        while True:
            m = scan.find.search(buf, pos)
            if limit < n and (m is None or m.start() > limit):
                self._release(limit + 1, inner, "")
                self._i = limit + 1
                return True
            if m is None or m.group() not in scan.triggers:
                p = n if m is None else m.start()
                if self._final:
                    self._put_last(n, n)
                    self._i = n
                    return False
                self._release(p, inner, margin)
                return False
            p = m.start()
            r = self._marker_at(scan, p)
            if r == MORE:
                self._release(p, inner, margin)
                return False
            if r >= 0:
                return True
            pos = p + 1

    def _release(self, p: int, inner: str, margin: str) -> None:
        """Text up to ``p`` goes out, but for white space that may belong to a marker."""
        i = self._i
        take = max(held_suffix(self._buf, i, p, inner), held_suffix(self._buf, i, p, margin))
        self._put_text(self._base + p - take)
        self._i = p - take

    def _marker_at(self, scan: Scan, p: int) -> int:
        """Act on the marker that stands at ``p``, or `NO`, or `MORE`."""
        weak: tuple[Opening, int, dict[str, str]] | None = None
        maybe: list[str | None] = []
        cut = False  # the output ends in a call's opening
        for o in scan.openings:
            fields: dict[str, str] = {}
            if o.kind == CALL and self._plain:
                r = self._match(o, p, fields)
                if r >= 0 and o.form and not self._quoted(p):
                    self._spare(p, o.form.suffix or o.block.suffix if o.block else o.form.suffix)
                    return NO
            elif o.kind == CALL:
                r = self._match_call(o, p, False, fields)
                if r >= 0 and "weak" in fields:
                    if not self._thinking:
                        weak = weak or (o, r, fields)
                    continue
            else:
                r = self._match(o, p, fields)
                if r >= 0 and o.kind == END:
                    r = self._end_counts(p, r)
            if r >= 0 and not self._counts(o, p, r):
                continue
            if r >= 0:
                return self._act(o, p, r, fields)
            if r == MORE:
                if not self._final:
                    return MORE
                maybe.append(fields.get("name"))
                first = o.pattern.first
                marked = o.kind == CALL and o.marked and not first.isalnum() and not self._plain
                cut = cut or (marked and self._buf.startswith(first, p))
        if weak is not None and all(name == weak[2].get("name") for name in maybe) and not self._quoted(p):
            return self._act(weak[0], p, weak[1], weak[2])
        if self._thinking:
            return NO
        if cut and self._stray_counts(p) and not self._closed_behind(p):
            return self._drop(p, len(self._buf), "stray_open")
        return self._no_marker(scan, p)

    def _counts(self, o: Opening, p: int, end: int) -> bool:
        """Whether an opening or closing that stands at ``buf[p:end]`` counts there."""
        if self._thinking:
            return True
        if self._quoted(p):
            # What ends a frame or the turn ends an unclosed code span with it, where another part or nothing follows.
            return o.kind in (END, FRAME_END) and (self._certain(p) or self._end_counts(p, end) >= 0)
        if o.kind == THOUGHT and (
            self._plan.policy.reasoning_in_content == "text" or self._base + p < self._thoughts_from
        ):
            self._spare(p, *(e.pattern for e in self._plan.reasoning_ends))
            return False
        return not (self._plain and o.kind in (END, FRAME_END) and self._is_spared(p))

    def _act(self, o: Opening, p: int, end: int, fields: dict[str, str]) -> int:
        if o.kind == CALL:
            return self._begin(o, p, end, fields)
        if o.kind == REASONING_END:
            self._close_reasoning(p, end)
        elif o.kind in (THOUGHT, FRAME):
            self._open_in_text(o, p, end)
        elif o.kind == FRAME_END:
            take = common_suffix(self._buf, self._i, p, self._plan.frame_inner)
            self._put_text(self._base + p - take)
            self._put_markup(self._base + end)
            self._ended_turn(end)
            self._margin = self._plan.frame_trail
        elif self._holds and self._holds[-1].kind == OPENED_REASONING:
            self._i = p
            self._reopen()  # the turn ends and its reasoning was not closed
        else:
            if self._thinking:
                self._cut_thought(p)
            self._put_last(p, end)
            self._put_markup(self._base + end)
            self._ended_turn(end)
            self._skip_others(o)
        return end

    def _put_last(self, p: int, end: int) -> None:
        """The turn's text ends at ``p``, and the turn at ``end``."""
        bare = self._state == TEXT and not self._framed and (self._ended or not self._final)
        take = common_suffix(self._buf, self._i, p, self._plan.content_trail) if bare else 0
        self._put_text(self._base + p - take)
        if take:
            self._put_markup(self._base + end)

    def _cut_thought(self, p: int) -> None:
        """Text ends at ``p``, where something else begins; reasoning that is open has no closing."""
        self._put_text(self._base + p)
        if self._thinking:
            start, stop = self._span(self._base + p)
            self._out.append(ReasoningEnd(start, stop))
            self._notice("missing_close", "reasoning")
            self._reasoning_over()

    def _open_in_text(self, o: Opening, p: int, end: int) -> None:
        """Reasoning or a frame opens in running text at ``buf[p:end]``, and ends the part that is open."""
        inner = self._plan.reasoning_inner if self._thinking else self._plan.frame_inner if self._framed else ""
        lead = o.template.lead if o.template else ""
        take = max(common_suffix(self._buf, self._i, p, white) for white in (inner, lead))
        framed = self._framed
        if o.kind == FRAME:
            self._cut_thought(p - take)
            self._begin_frame(o, end)
        else:
            self._put_text(self._base + p - take)
            self._put_markup(self._base + p)
            held = self._plan.policy.reasoning_in_content == "closed"
            self._begin_reasoning(self._base + end, o.template.inner_lead if o.template else "", opened=held)
            self._i = end
        if framed:
            self._notice("missing_close", "frame")

    def _frame_start(self) -> bool:
        if self._i == len(self._buf) and not self._final:
            return False
        if self._take_lead():
            self._state = TEXT
            return True
        return False

    # -- undecided ------------------------------------------------------------------------------------------------

    def _undecided(self) -> bool:
        """Nobody knows yet whether this is reasoning: hold it until a marker tells."""
        buf = self._buf
        i = self._i
        n = len(buf)
        plan = self._plan
        if self._scanned == 0:
            j = skip_space(buf, i)
            if j == n and j - i <= MAX_SPACE and not self._final:
                return False
            for o in plan.edge_plain:
                if o.kind != THOUGHT or j == n:
                    continue
                r = self._match(o, j, {})
                if r == MORE and not self._final:
                    return False
                if r >= 0:
                    self._state = EDGE
                    return True
        scan = plan.undecided_plain if self._plain else plan.undecided
        pos = i + self._scanned
        while True:
            m = scan.find.search(buf, pos)
            if m is None or m.group() not in scan.triggers:
                if self._final:
                    self._state = EDGE
                    return True
                self._scanned = (n if m is None else m.start()) - i
                return self._too_long()
            p = m.start()
            if p - i > CAP:
                return self._too_long()
            for o in scan.openings:
                if o.kind == CALL:
                    r = self._match_call(o, p, False, {})
                else:
                    r = self._match(o, p, {})
                    if r >= 0 and o.kind == END:
                        r = self._end_counts(p, r)
                if r == MORE and not self._final:
                    self._scanned = p - i
                    return self._too_long()
                if r >= 0 and not (o.kind in (CALL, THOUGHT) and self._quoted(p)):
                    if o.kind == REASONING_END:
                        self._begin_reasoning(self._at, plan.reasoning_lead)
                    else:
                        self._state = EDGE
                    return True
            pos = p + 1

    def _too_long(self) -> bool:
        if len(self._buf) - self._i <= CAP:
            return False
        self._notice("hold_overflow", "undecided text")
        self._state = EDGE
        return True

    # -- where the output stands ----------------------------------------------------------------------------------

    def _stage(self) -> Stage:
        state = self._state
        if self._call is not None or (self._holds and self._holds[-1].kind == HEADER) or state in (BLOCK, BLOCK_TEXT):
            return Stage.TOOL_CALL
        if state == UNDECIDED:
            return Stage.UNDECIDED
        if state == RESUMING:
            return Stage.REASONING
        if self._pending_call():
            return Stage.TOOL_CALL
        return Stage.REASONING if self._thinking else Stage.CONTENT

    def _pending_call(self) -> bool:
        """Whether what waits is the opening of a call, cut behind its first marker."""
        buf = self._buf
        i = skip_space(buf, self._i)
        if i >= len(buf) or self._plain:
            return False
        for o in self._plan.edge:
            block, form = o.block, o.form
            if o.kind != CALL or not o.marked or block is None or form is None:
                continue
            marker = block.prefix if block.prefix and block.marked else form.opening
            if marker.first and buf.startswith(marker.first, i) and o.pattern.match(buf, i, {}) == MORE:
                return True
        return False

    def _force(self, stage: Stage) -> None:
        """An engine says where the output stands."""
        if stage is Stage.UNDECIDED or stage is self._stage():
            return
        self._final = self._ended = True
        self._run()
        self._cut()
        self._final = self._ended = False
        self._put_text(self._base + len(self._buf)) if self._state in (TEXT, REASONING) else self._put_markup(
            self._base + len(self._buf)
        )
        self._i = len(self._buf)
        if self._thinking and stage is not Stage.REASONING:
            start, stop = self._span(self._at)
            self._out.append(ReasoningEnd(start, stop))
            self._reasoning_over()
        if stage is Stage.REASONING:
            if not self._thinking:
                self._begin_reasoning(self._at, self._plan.reasoning_lead)
        elif stage is Stage.TOOL_CALL:
            self._enter_block()
        else:
            self._state = EDGE

    def _enter_block(self) -> None:
        """Just behind the opening of a block; that it is open is known from the first call on."""
        self._within = None
        self._state = BLOCK if self._plan.blocks else EDGE

    def _cut(self) -> None:
        """The output, or an engine's stage, is over: what is still open ends here."""
        while self._call is not None or self._holds:
            if self._holds and self._holds[-1].kind == HEADER:
                call = self._call
                named = call is not None and call.name and call.role != "name" and (call.complete or not call.thought)
                if call is not None and named and self._announce_object(call, self._i):
                    continue
                if self._holds and self._holds[-1].kind == HEADER:
                    self._i = len(self._buf)
                    self._cut_header()
                self._run()
                continue
            if self._call is not None:
                self._cut_call()
                continue
            hold = self._holds[-1]
            if hold.kind == OPEN_REASONING and self._thinking:
                self._put_text(self._base + len(self._buf))
                events = self._as_content(self._out)
                self._holds.pop()
                self._out = hold.events
                self._out.extend(events)
                self._thinking = False
                self._notice("unclosed_reasoning")
            elif hold.kind == OPENED_REASONING and (self._thinking or self._resume):
                self._i = len(self._buf)
                self._reopen()
                self._run()
            else:
                self._commit()
        self._let_go()

    def _cut_header(self) -> None:
        """The output ended in a call before its name: what is there of it holds nothing."""
        hold, call = self._holds[-1], self._call
        marked = call is not None and (call.form.marked or call.block.marked)
        thought = hold.thinking or hold.resume
        if not marked or thought or self._plan.policy.stray_markers != "drop":
            self._abort_header()
            return
        marker = self._source(hold.start, self._base + self._i)
        self._discard()
        self._call = None
        self._state = TEXT if hold.state == EDGE else hold.state
        self._put_markup(self._base + self._i)
        self._notice("stray_open", marker.strip())
        self._let_go()

    def _cut_call(self) -> None:
        call = self._call
        assert call is not None
        end = self._base + len(self._buf)
        if self._state == RECOVER:
            self._raw(call, len(self._buf))
            self._end_call(call.status, end)
        elif call.complete:
            if call.form.suffix or call.form.shape is not None:
                self._notice("missing_close", call.name)
            self._i = len(self._buf)
            self._end_call(call.status, end)
        else:
            self._i = len(self._buf)
            self._end_call("incomplete", end)
