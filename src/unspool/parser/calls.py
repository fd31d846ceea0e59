"""Steps inside calls, from the opening to the closing, and calls that turn out to be text."""

from typing import Final

from ..dialect.markers import Block, CallOpening, Form
from ..dialect.patterns import MAX_SPACE, MORE, NO, Pattern, rest_begins, skip_space
from ..dialect.syntax import Syntax
from ..dialect.template import ObjectShape
from ..events import Status
from ..regex import Regex
from . import states
from .call import CallContext, CallSink, OpenCall
from .ledger import CAP, Hold, Why
from .lookout import first_of
from .openings import Match
from .parts import Steps
from .readers.arguments import ArgumentsReader, whole_literal
from .readers.broken import BrokenReader
from .readers.literal import LiteralReader
from .readers.markup import MarkupReader, whole_markup
from .readers.object import ObjectReader, whole_object_call
from .readers.reader import CallReader, Mode, Whole
from .readers.spelling import Root
from .readers.strings import json_string
from .readers.text import TextReader
from .readers.wrapped import WRAPPED, defines
from .states import State

_NAMELESS = Regex(
    r"""[^{]*+\{{1,2}+\s{0,64}+(?:["']\w{1,64}+["']\s?:\s{0,64}+(?:["'][\w.\-:/]{0,64}+["']|\w{1,64}+)\s?,\s{0,64}+){0,4}"""
    r"""(?:["'][\w.\-]{0,256}+(?:["']\s?(?::\s{0,64}+(?:["'][\w.\-:/]{0,1024}+["']?)?)?)?)?\s{0,64}+"""
)
"""An object that is cut before its name is complete, with nothing but short values before it."""
_TICKS: Final = "```"
_ID = Regex(r"[\w.\-:/]++")
_PROSE: Final = (states.TEXT, states.REASONING)
_IN_BLOCK: Final = (states.BLOCK, states.BLOCK_TEXT)
_AS_TEXT: Final = {states.EDGE: states.TEXT, states.BLOCK: states.BLOCK_TEXT}  # where text goes on that is given back
_UNOPENED: Final = 4096  # how long a call that lacks its opening may be
_SOON: Final = 256  # so near the end of the text, a call without its closing is not looked at as a whole


class Calls(Steps):
    """Opens, reads and ends calls, one at a time."""

    _context: CallContext
    call: OpenCall | None = None  # the open call, if any
    reader: CallReader | None = None  # reads the inside of the call; ``broken`` reads the rest of it after an error
    broken: BrokenReader | None = None
    within: Block | None = None  # the open block of calls
    # The block was opened by a call that is text, and none was sent since, so its other markers are text too.
    given_back: bool = False
    _opens_block: bool = False
    _doubted: int = 0  # where the opening of the last doubtful call ends

    def enter(self, block: Block | None) -> None:
        """A block of calls is open; ``None``: the first call decides which one."""
        self.within = block
        self.given_back = False

    def refused(self, i: int) -> bool:
        """Whether a policy makes the call that begins at ``i``, and all calls after it, text."""
        if not self._look.outline.calls:
            return True
        ledger, policy = self._ledger, self._plan.policy
        choice = policy.text_between_tools if ledger.calls else policy.text_before_tools
        if choice != "content":
            return False
        tape = self._tape
        low = max(tape.i, -tape.base)  # a prompt's text is not prose of the output
        waits = self._parts.state is states.TEXT and not ledger.thinking and bool(tape.buf[low:i].strip())
        if not ledger.prose and not waits:
            return False
        self._look.outline = self._plan.plain
        if self._parts.state in _PROSE:
            ledger.text(tape.base + i)
            tape.i = i
        ledger.notice("call_markers_as_text", "prose before a call")
        return True

    def open(self, o: CallOpening, i: int, match: Match) -> None:  # the steps of an opening, in their order
        """Open a call, whose opening is at ``buf[i:match.end]``."""
        tape, ledger, look, parts = self._tape, self._ledger, self._look, self._parts
        state = parts.state
        block, form, end = o.block or self.within or self._plan.calls.blocks[0], o.form, match.end
        base = tape.base
        look.spared.clear()  # a new part begins
        self._opens_block = o.block is not None
        self.given_back &= not self._opens_block
        thought = ledger.thinking or ledger.paused
        whole = None if ledger.holds or thought or look.marks is not None else self._whole(form, block, match)
        if state in _PROSE:
            parts.text_before(i, block.margin, look.outline.reasoning.inner if ledger.thinking else "")
        if whole is not None:
            self._take_whole(whole, form, block, match, ledger.at if state is states.BLOCK else base + i)
            return
        start = max(ledger.at, 0)
        tape.keep()
        place = parts.place()
        if form.shape is not None:
            ledger.hold(Why.HEADER, place)  # until its name is known
        elif match.doubtful and not thought:
            ledger.hold(Why.UNCLOSED_CALL, place)
            self._doubted = base + end
        margin = ledger.at
        if state not in _IN_BLOCK:
            ledger.markup(base + i)
            start = base + i
        name = match.fields.get("name", "")
        call = self.call = OpenCall(self._context, form, block, start, match.fields, place, margin, thought, name)
        self.within = block
        parts.margin, parts.seen = "", True
        if form.shape is None:
            self._begin_arguments(call, end)
        elif form.forced and self._openings.named and self._openings.wrapped(end) == 0:
            self._begin_forced(call, end - 1)
        else:
            self._begin_object(call, form.shape, end)

    def _mend_name(self, call: OpenCall, end: int) -> None:
        """If the undeclared name is a declared one with the id written wrongly around it, it is that one; its header
        ends at an offset, and an id that contains the name stays as written."""
        mended = self._context.mended(call.name)
        if mended:
            self._ledger.notice("mended_name", call.name)
            if "{name}" in self._plan.dialect.id:
                header = self._tape.source(call.start, end)
                call.id = next((m.group() for m in _ID.finditer(header) if call.name in m.group()), call.name)
            call.name = mended

    def _begin_forced(self, call: OpenCall, i: int) -> None:
        """Begin a call that is its arguments alone: the tool choice names the function."""
        tape = self._tape
        call.name = self._openings.named
        call.announce(tape.base + i)
        literal = LiteralReader(Syntax.JSON, Root.OBJECT, repair=self._plan.repairs)
        self.reader = ArgumentsReader(call, self._openings, literal)
        tape.i = i
        self._parts.state = states.ARGUMENTS

    def _begin_object(self, call: OpenCall, shape: ObjectShape, i: int) -> None:
        """Begin a call that is an object, whose keys may have other quotes than they should."""
        tape = self._tape
        j = skip_space(tape.buf, i)
        quote = "'" if j < len(tape.buf) and tape.buf[j] == "'" else shape.quote
        if quote != shape.quote:
            call.status = "repaired"
        self.reader = ObjectReader(call, self._openings, quote)
        tape.i = i
        self._parts.state = states.OBJECT

    def _whole(self, form: Form, block: Block, match: Match) -> Whole | None:  # each condition leaves it to the machine
        """The call whose opening matches, if all of it is there and plain."""
        if not form.arguments or form.forced or form.syntax == Syntax.TEXT:
            return None
        buf, i, policy = self._tape.buf, match.end, self._plan.policy
        last = form.closing.first or "}" * (form.syntax == Syntax.JSON)
        if len(buf) - i < _SOON and buf.find(last, i) < 0:
            return None
        marked = form.marked or block.marked
        whole = self._plain(form, match, buf, bare=not marked)
        if whole is None or not self._names_tool(whole, marked=marked):
            return None
        if form.syntax is not None and self._undecided(whole):
            return None
        end = whole.end
        if form.closing.atoms:
            closing = skip_space(buf, end)
            end = form.closing.match(buf, closing, dict(match.fields)) if closing - end <= MAX_SPACE else NO
        if end < 0 or (end - i > CAP // 2 and policy.bad_arguments in ("drop", "text")):  # it may be beyond the cap
            return None
        whole.end = end
        return whole

    def _names_tool(self, whole: Whole, *, marked: bool) -> bool:
        name, names = whole.name, self._openings.names
        if names is None:
            return marked and name.isprintable() and name == name.strip()
        return name in names and (marked or defines(whole.arguments, 0, self._context.tools.schema(name)) == NO)

    def unopened(self, i: int) -> int:  # each condition leaves it to the text
        """Read the call at ``i`` that lacks its opening, if it names a declared tool, is plain, and is closed soon: its
        end, `NO`, or `MORE` while it may be one. It is read whole, so nothing is given back."""
        tape, ledger, look = self._tape, self._ledger, self._look
        buf, last, found = tape.buf, i + _UNOPENED, NO
        if ledger.holds or ledger.thinking or ledger.paused or not look.outline.calls:
            return NO
        for form in self._plan.calls.unopened:
            match, block = Match(i + 1, {}), self._plan.calls.blocks[0]  # any: the call is in none
            if self._openings.begins_object(form, i + 1) == 0:
                continue
            whole = self._whole(form, block, match) if buf.find(form.closing.first, i, last) >= 0 else None
            if whole is not None and whole.end <= last:
                at = buf.rfind(form.closing.first, i, whole.end)
                cut = any(i < m - tape.base < at for m in look.marks or ())  # a special token may end a string
                if cut or look.stands(form.closing, at) != whole.end or self.refused(i):
                    return NO
                ledger.markup(tape.base + i)
                ledger.notice("missing_open", whole.name)
                self._take_whole(whole, form, block, match, tape.base + i)
                self.within = None
                self._parts.leave_block()  # so what follows counts as after any call that is closed
                return whole.end
            if len(buf) < last and not tape.final:
                found = MORE
        return found

    def _plain(self, form: Form, match: Match, buf: str, *, bare: bool) -> Whole | None:
        """The call's name and arguments, if all of them are in the text, and plain; ``bare``: nothing marks it."""
        i, fields = match.end, match.fields
        if form.shape is not None:
            return whole_object_call(form, buf, i, bare=bare)
        if form.syntax is not None:
            return whole_literal(self._openings, form, fields, buf, i)
        name = fields.get("name", "")
        return whole_markup(self._openings, self._context.tools.schema(name), form, name, buf, i)

    def _undecided(self, whole: Whole) -> bool:
        """Whether arguments that are a literal may be wrapped, or contain a marker that may end a string."""
        if WRAPPED.match(whole.arguments) and self._context.tools.schema(whole.name) is not None:
            return True
        scan = self._plan.calls.string_ends
        return scan is not None and scan.find.search(self._tape.buf, whole.header, whole.inside) is not None

    def _take_whole(self, whole: Whole, form: Form, block: Block, match: Match, start: int) -> None:
        """Read a call that is complete in the text, from an offset on."""
        context, ledger, base, name = self._context, self._ledger, self._tape.base, whole.name
        ledger.markup(start)
        call_id = context.id_of(ledger.index, name, match.fields, whole.call_id)
        header, inside, end = base + whole.header, base + whole.inside, base + whole.end
        known = None if self._openings.names is None else True
        if form.other:
            ledger.notice("other_syntax", name)
        ledger.whole_call(call_id, name, known, header, whole.arguments, inside, end)
        self.given_back = False
        self.within = block
        parts = self._parts
        parts.margin, parts.seen = "", True
        self._tape.i = whole.end
        self._parts.state = states.BLOCK

    def _begin_arguments(self, call: OpenCall, i: int) -> None:
        """Announce a call whose header ends at ``i``, and begin its arguments."""
        tape, form = self._tape, call.form
        if self._context.names and call.name not in self._context.names:
            self._mend_name(call, tape.base + i)
        call.announce(tape.base + i)
        tape.i = i
        if not form.arguments:
            call.put("{}", tape.here)
            call.complete = True
            self._parts.state = states.CLOSE
        elif form.syntax == Syntax.TEXT:
            self.reader = TextReader(call, self._openings)
            self._parts.state = states.MARKUP
        elif form.syntax is None:
            self.reader = MarkupReader(call, self._openings, self._context.tools.schema(call.name))
            self._parts.state = states.MARKUP
        else:
            reader = self.reader = ArgumentsReader(call, self._openings)
            if form.syntax == Syntax.PYTHON:
                reader.begin("(", Syntax.PYTHON)
            self._parts.state = states.ARGUMENTS

    def object(self) -> bool:
        """In a call that is an object."""
        reader = self.reader
        assert isinstance(reader, ObjectReader)
        assert self.call is not None
        ledger, tape = self._ledger, self._tape
        going = reader.read()
        while going and reader.mode == Mode.READING and not (ledger.holds and ledger.too_much()):
            going = reader.read()
        holds = ledger.holds
        if holds and holds[-1].why == Why.HEADER and tape.base + tape.i - holds[0].start > CAP:
            return True  # its name comes too late, however the text is cut
        if reader.mode == Mode.NAMED:
            if self.announce_object(self.call):
                reader.mode = Mode.READING
            return going
        return going if reader.mode == Mode.READING else self._object_settled(self.call, reader, going=going)

    def _object_settled(self, call: OpenCall, reader: ObjectReader, *, going: bool) -> bool:
        """Act on the mode of the object's reader; ``going``: it has taken a step."""
        if reader.mode == Mode.NAME_DUE:
            if not self.announce_object(call):
                return True
            reader.mode = Mode.READING
            going = reader.read()
        if reader.mode == Mode.NONE:
            self._ledger.notice_before("call_without_name", reader.why)
            self._abort_header()
        elif reader.mode != Mode.READING:
            self._after(call, reader.mode)
        return going

    def announce_object(self, call: OpenCall) -> bool:
        """Announce a call that is an object; false if it turns out to be text."""
        if not self._openings.takes_name(call.form, call.block, call.name):
            if call.form.other:
                self._ledger.notice_before("call_without_name", call.name)
            self._abort_header()
            return False
        call.announce(self._tape.here)
        if call.early:
            call.put_early()
        return True

    @property
    def arguments(self) -> ArgumentsReader | None:
        """The reader of the call's literal, if one has begun."""
        reader = self.reader.inner if isinstance(self.reader, ObjectReader) else self.reader
        return reader if isinstance(reader, ArgumentsReader) and reader.literal is not None else None

    def inside(self) -> bool:
        """In arguments that are one literal or written one by one, or in the rest of a broken call."""
        call, reader = self.call, self.broken or self.reader
        assert call is not None
        assert reader is not None
        going = reader.read()
        while going and reader.mode == Mode.READING and not (self._ledger.holds or call.thought):
            going = reader.read()
        if reader.mode != Mode.READING:
            self._after(call, reader.mode)
        return going

    def _after(self, call: OpenCall, mode: str) -> None:
        """A reader has finished."""
        tape = self._tape
        reader = self.reader
        assert reader is not None
        if mode == Mode.DONE:
            self._parts.state = states.CLOSE
        elif mode == Mode.FAILED:
            self._fail(call, reader)
        elif mode == Mode.LOST:
            if call.complete:
                call.notice_at(tape.here, "missing_close", reader.why)
            else:
                call.notice_at(tape.here, "bad_arguments", reader.why)
                call.status = "invalid"
            self.broken = BrokenReader(call, self._openings, track=["{"], quiet=call.complete)
            self._parts.state = states.RECOVER
        elif mode == Mode.JSON:
            arguments = self.reader = ArgumentsReader(call, self._openings)
            arguments.begin("{", Syntax.JSON)
            self._parts.state = states.ARGUMENTS
        elif mode == Mode.OBJECT:
            self.broken = None
            if not isinstance(reader, ObjectReader):
                reader = self.reader = ObjectReader(call, self._openings, "")
            reader.resume()
            self._parts.state = states.OBJECT
        elif mode == Mode.OVER:
            assert isinstance(reader, MarkupReader)
            self._end_call(reader.status, tape.here)

    def _fail(self, call: OpenCall, reader: CallReader) -> None:
        """The arguments are wrong: pass the rest of the call on as it is."""
        self._let_out(call)
        call.status = "invalid"
        call.notice_at(self._tape.here, "bad_arguments", reader.why)
        inner = reader.inner if isinstance(reader, ObjectReader) else reader
        track, within = (inner.track, inner.within) if isinstance(inner, ArgumentsReader) else (None, "")
        self.broken = BrokenReader(call, self._openings, track=track, within=within)
        self._parts.state = states.RECOVER

    def _let_out(self, call: OpenCall) -> None:
        """Emit the held part of the arguments as it is."""
        if self.reader is not None and self.broken is None:
            text = self.reader.take()
            if text is not None:
                call.put(text, self._tape.here)

    def cut_string(self, call: OpenCall, inner: ArgumentsReader) -> None:
        """End the call at a closing marker in a string of its arguments: the token's id says that it is one."""
        if self._plan.repairs:
            self._tape.i = len(self._tape.buf)  # the beginning of an escape means nothing
        inner.cut()
        if isinstance(self.reader, ObjectReader):
            self.reader.settle(inner)
            self._object_settled(call, self.reader, going=True)
        else:
            self._after(call, inner.mode)

    def close(self) -> bool:  # a branch for each thing that may stand there
        """After the arguments: the call's own closing is expected."""
        call = self.call
        assert call is not None
        tape = self._tape
        i = tape.i
        j = skip_space(tape.buf, i)
        if call.fenced and j - i <= MAX_SPACE:
            if rest_begins(_TICKS, tape.buf, j) and not tape.final:
                return False
            call.fenced = False
            if tape.buf.startswith(_TICKS, j):
                tape.i = j + len(_TICKS)
                return True
        if not call.form.closing.atoms:
            self._end_call(call.status, tape.base + i)
            return True
        if j - i > MAX_SPACE:
            self._end_unclosed(call, i)
            return True
        if j == len(tape.buf) and not tape.final:
            return False
        r = self._closes(call, j)
        if r >= 0:
            tape.i = r
            self._end_call(call.status, tape.base + r)
            return True
        cut = r == MORE
        if cut and not tape.final:
            return False
        closings = self._closings(call)
        r = NO if call.status == "invalid" else self._openings.surplus(j, closings)
        if r == MORE:
            return False
        if r >= 0:  # brackets that are too many; the closing follows
            call.notice_surplus(tape.buf[j:r])
            tape.i = r
            return True
        end = len(tape.buf) if cut else max(self._look.progress(p, j) for p in closings)
        self._end_unclosed(call, end if end > j else i)
        return True

    def _closings(self, call: OpenCall) -> list[Pattern]:
        """The call's own closing, and those of other calls, which a model may write instead."""
        own = call.form.closing
        return [own, *(s for s in self._plan.calls.call_closings if s is not own)]

    def _closes(self, call: OpenCall, j: int) -> int:
        """The end of a closing of the call at ``j``, its own first; `NO` or `MORE`."""
        own = call.form.closing
        r = self._look.stands(own, j, dict(call.fields))
        if r >= 0:
            return r
        broken = call.status != "ok" and call.form.shape is not None  # brackets may be missing
        others = [*self._closings(call)[1:], *([own.unbracketed()] if broken else [])]
        return first_of((r, self._look.first(others, j, fields=call.fields)))

    def _end_unclosed(self, call: OpenCall, i: int) -> None:
        """The call ends at ``buf[i]`` without its closing."""
        tape = self._tape
        call.notice_at(tape.here, "missing_close", call.name)
        tape.i = i
        closed = self._look.first(self._plan.calls.closings, skip_space(tape.buf, i)) >= 0
        self._end_call(call.status, tape.here, closed=closed)

    def _end_call(self, status: Status, end: int, *, closed: bool = True) -> None:  # each policy ends a call in its way
        """The call ends at an offset; ``closed``: at a closing of its own, or of its block."""
        call = self.call
        assert call is not None
        ledger = self._ledger
        doubtful = ledger.doubtful if ledger.holds else None
        if doubtful is not None:
            if not closed or end - ledger.holds[0].start > CAP:
                self._back_to_text(doubtful, end)
                return
            if self._take_bare(call, doubtful, end):
                return
            ledger.holds.remove(doubtful)
        if ledger.holds and not ledger.held_for(Why.HEADER):
            self._overflow()  # its end comes too late to decide, however the text is cut
        if not call.complete:
            self._let_out(call)
        self._forget()
        sent = call.sink == CallSink.CALL
        if sent:
            call.cover()
            ledger.end_call(call.index, status, call.start, end)
        else:
            call.pass_by(end)
        for kind, detail in call.late:
            call.notice(kind, detail)
        if not sent:
            self.given_back = self.given_back or (call.sink == CallSink.TEXT and self._opens_block)
        else:
            why = ledger.holds[-1].why if ledger.holds else ""
            if why == Why.THOUGHT_CALL and status not in ("ok", "repaired"):
                self.back_to_thought(self.discard())
                return
            self._settle(call, status, end, why)
        self._parts.state = states.BLOCK
        self.let_go()

    def _settle(self, call: OpenCall, status: Status, end: int, why: str) -> None:
        """A call that was sent has ended: commit what was held because of its arguments (``why``), or discard it."""
        ledger = self._ledger
        if why == Why.BAD_CALL and status == "invalid":
            hold = self.discard()
            if self._plan.policy.bad_arguments == "text":
                ledger.edge(hold.place.margin, end)
                ledger.text(end)
            else:
                ledger.markup(end)
            ledger.notice("bad_arguments", call.name)
            return
        if why in (Why.THOUGHT_CALL, Why.BAD_CALL):
            ledger.holds.pop()
            ledger.commit_thought()
        ledger.count_call()
        self.given_back = False

    def _forget(self) -> None:
        self.call = self.reader = self.broken = None

    def discard(self) -> Hold:
        """Discard what the innermost hold holds."""
        hold = self._ledger.discard()
        self._parts.framed = hold.place.framed
        return hold

    def let_go(self) -> None:
        if self.call is None and not self._ledger.holds:
            self._tape.kept = None

    def _read_again(self, hold: Hold, state: State) -> None:
        """Read what was held again, in a state."""
        self._tape.rewind(hold.start, keep=bool(self._ledger.holds))
        self._ledger.at = hold.start
        self._parts.state = state
        self.let_go()

    def _abort_header(self) -> None:
        """Give back as text an opening without a name; its closings are text, too."""
        hold, call = self.discard(), self.call
        if hold.thinking or hold.paused:
            self.back_to_thought(hold)
            return
        if call is not None and self._opens_block:
            call_closings = (call.form.closing, call.block.closing)
            self._look.spare(hold.start - self._tape.base, *(s for s in call_closings if s))
        here = min(self._tape.here, hold.start + CAP + 1)
        self._tape.rewind(here, keep=True)  # what lies beyond the cap is read again, however the text is cut
        self._forget()
        self._ledger.edge(hold.place.margin, here)
        self._ledger.text(here)
        self._parts.state = _AS_TEXT.get(hold.place.state, hold.place.state)
        self.let_go()

    def back_to_thought(self, hold: Hold) -> None:
        """What began as a call in reasoning was not one: read it again, without calls."""
        self._forget()
        self._openings.text_until = min(self._tape.here, hold.start + CAP)
        self._read_again(hold, states.RESUMING if hold.paused else hold.place.state)

    def _discard_to(self, hold: Hold) -> None:
        """Discard what a hold holds, and forget the call in it."""
        while self._ledger.holds[-1] is not hold:
            self._ledger.holds.pop()
        self.discard()
        self._forget()

    def _take_bare(self, call: OpenCall, hold: Hold, end: int) -> bool:  # each condition leaves it text
        """Read the text in a closed call, which ends at an offset, as its only required string; false if it is none."""
        tape, arguments = self._tape, self._plan.arguments.parameters
        schema = self._context.tools.schema(call.name)
        key = (
            None
            if schema is None or call.form.syntax is not None or call.sink != CallSink.CALL
            else schema.only_string()
        )
        begin = self._doubted
        raw = tape.source(begin, end)
        closings = (_ending(c, raw, dict(call.fields)) for c in (call.form.closing, *self._plan.calls.call_closings))
        at = next((i for i in closings if i >= 0), NO)
        if key is None or at < 0 or not call.block.opening or any(_contains(p.opening, raw[:at]) for p in arguments):
            return False
        if call.form.opening.head().match(raw, skip_space(raw, 0), {}) >= 0:  # it opens another call
            return False
        inside = raw[:at].rstrip()
        strays = ((_ending(p.closing, inside, {"key": key}), p.closing.first) for p in arguments)
        ends, tag = next((stray for stray in strays if stray[0] >= 0), (at, ""))
        value = _unwrapped(raw[:ends])
        # The argument may be in a tag without its name, or in one of its own name.
        for opened, closed in ((tag.replace("</", "<", 1), ""), (f"<{key}>", f"</{key}>")):
            inner = value.removeprefix(opened).removesuffix(closed)
            if len(value) == len(opened + inner + closed) and (closed or tag) not in inner:
                value = _unwrapped(inner)
        self._discard_to(hold)
        ledger = self._ledger
        ledger.markup(call.start)
        ledger.notice("other_syntax", call.name)
        whole = f"{{{json_string(key)}: {json_string(value)}}}"
        ledger.whole_call(call.id, call.name, True, begin, whole, begin + at, end)
        self._parts.state = states.BLOCK
        self.given_back = False
        self.let_go()
        return True

    def _back_to_text(self, hold: Hold, end: int) -> None:
        """What began as a call, which ends at an offset, was not one: read it again, as text."""
        ledger = self._ledger
        limit = ledger.holds[0].start + CAP
        if end > limit:
            ledger.notice_before("hold_overflow", "a call")
            end = limit
        self._discard_to(hold)
        self._parts.margin = hold.place.margin
        self._openings.text_until = end
        self._read_again(hold, hold.place.state)

    def reopen(self) -> None:
        """Read an opening of reasoning in content again, as text."""
        hold = self.discard()
        self._look.thoughts_from = min(self._tape.here, hold.start + CAP)
        self._read_again(hold, states.TEXT)

    def release_holds(self) -> None:
        """Release what was held too long, or cannot be a call any more."""
        self._overflow()
        if self.call is not None and self.call.status == "invalid" and self._ledger.held_for(Why.THOUGHT_CALL):
            self.back_to_thought(self.discard())

    def _overflow(self) -> None:
        """Release holds that have grown beyond the cap."""
        ledger = self._ledger
        while ledger.too_much():
            if ledger.held_for(Why.HEADER):
                ledger.notice_before("hold_overflow", "a call's name")
                self._abort_header()
            elif ledger.held_for(Why.OPENED_REASONING):
                ledger.notice_before("hold_overflow", "reasoning")
                self.reopen()
            elif (doubtful := ledger.doubtful) is not None:
                self._back_to_text(doubtful, self._tape.here)
            else:
                call = ledger.held_for(Why.BAD_CALL, Why.THOUGHT_CALL)
                ledger.holds.pop()
                ledger.notice("hold_overflow", "a call" if call else "reasoning")

    def cut_header(self) -> None:
        """The output ended in a call before its name was complete: drop the opening, which contains nothing."""
        tape, ledger = self._tape, self._ledger
        hold, call = ledger.holds[-1], self.call
        marked = call is not None and (call.form.marked or call.block.marked)
        thought = hold.thinking or hold.paused
        marker = tape.source(hold.start, tape.here)
        begun = _NAMELESS.fullmatch(marker) is not None
        if not marked or thought or not begun or self._plan.policy.stray_markers != "drop":
            self._abort_header()
            return
        self.discard()
        self._forget()
        self._parts.state = states.TEXT if hold.place.state is states.EDGE else hold.place.state
        ledger.markup(tape.here)
        ledger.notice("stray_open", marker.strip())
        self.let_go()

    def cut(self) -> None:
        call, tape = self.call, self._tape
        assert call is not None
        broken = self.broken if self._parts.state is states.RECOVER else None
        if broken is not None:
            broken.finish()
        elif call.complete and (call.form.closing or call.form.shape is not None):
            call.notice_at(tape.here, "missing_close", call.name)
        tape.i = len(tape.buf)
        self._end_call(call.status if broken is not None or call.complete else "incomplete", tape.end, closed=False)

    def release_space(self, call: OpenCall) -> None:
        """Emit markup inside a call, which must not wait without limit."""
        here = self._tape.here
        if self._ledger.held_for(Why.HEADER):
            return
        if call.sink != CallSink.CALL:
            call.pass_by(here)
        elif call.started and not (self.broken is None and self.reader is not None and self.reader.in_value()):
            self._ledger.markup(here)

    def ends_with_thought(self) -> bool:
        """Whether the closing of reasoning would end the open call: it does so outside of strings."""
        if self._parts.state is states.MARKUP:
            return True
        return self._parts.state is states.RECOVER and self.broken is not None and not self.broken.within


def _unwrapped(value: str) -> str:
    """A text without the line breaks around it."""
    return value.removeprefix("\n").removesuffix("\n")


def _ending(closing: Pattern, text: str, fields: dict[str, str]) -> int:
    """Where a closing begins with which a text ends; `NO` if it ends otherwise."""
    at = text.rfind(closing.first) if closing.first else NO
    return at if at >= 0 and closing.match(text, at, fields) == len(text) else NO


def _contains(pattern: Pattern, text: str) -> bool:
    """Whether a pattern matches anywhere in a text."""
    at = text.find(pattern.first)
    while at >= 0 and pattern.match(text, at, {}) < 0:
        at = text.find(pattern.first, at + 1)
    return at >= 0
