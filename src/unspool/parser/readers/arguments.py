"""Reads arguments that are one literal, by themselves or inside an object."""

from typing import Final

from ...dialect.markers import Form
from ...dialect.patterns import MAX_SPACE, MORE, NO, fence, rest_begins, skip_space
from ...dialect.syntax import Syntax
from ..call import OpenCall
from ..ledger import CAP
from ..lookout import first_of
from ..openings import NULL, Openings
from .literal import DONE, ERROR, STRING, LiteralReader
from .reader import CallReader, Mode, Whole
from .spelling import Root
from .whole import whole_members, whole_object
from .wrapped import UNWRAPPED, Unwrapping, UnwrapReader, unwrapping

_CUT: Final = "a closing marker inside a value"
_NO_OBJECT: Final = "arguments that are not an object"


class ArgumentsReader(CallReader):
    """Reads one literal, and passes it on as arguments."""

    def __init__(
        self,
        call: OpenCall,
        openings: Openings,
        literal: LiteralReader | UnwrapReader | None = None,
        *,
        skip: bool = False,
    ) -> None:
        super().__init__(call, openings)
        self.literal = literal  # reads the literal, once it has begun
        self.skip = skip  # the literal is not arguments, and nothing of it is passed on
        self.skipped: list[str] | None = None  # the JSON of what is skipped, if it may be needed, up to a limit
        self._kept = 0  # how much of what is skipped
        self.shut = False  # a closing marker cut it, and it was repaired
        # After a failure, the open brackets, innermost last; ``None`` if only markers end the call.
        self.track: list[str] | None = None
        self.within = ""  # after a failure, the quote of the string that goes on
        self._looked = False  # whether a wrapper was looked for
        self._unwrapping: Unwrapping | None = None

    def begin(self, c: str, syntax: str) -> None:
        """The literal begins with a character."""
        self.literal = literal_of(self._openings, c, syntax)

    def read(self) -> bool:
        literal = self.literal
        if literal is None:
            tape = self._tape
            i = skip_space(tape.buf, tape.i)
            tape.i = i
            if i == len(tape.buf):
                return False
            c, syntax = tape.buf[i], self._call.form.syntax or Syntax.JSON
            at = fence(tape.buf, i, final=tape.final) if c == "`" and syntax == Syntax.JSON else NO
            if at != NO:
                self._call.fenced = at >= 0
                tape.i = max(at, i)
                return at >= 0
            if c not in ("{(" if syntax == Syntax.QUOTE else '{"'):
                return self._none(i)
            self.begin(c, syntax)
            literal = self.literal
            assert literal is not None
        if self._read_on(literal):
            return True
        if literal.mode == DONE:
            if not self.skip:
                self._complete(literal)
            self.mode = Mode.DONE
            return True
        if literal.mode == ERROR:
            return self._broken(literal)
        return False

    def take(self) -> str | None:
        text = ""
        if self._unwrapping is not None:
            text = self._unwrapping.rest()
            self._unwrapping = None
        if self.literal is not None and not self.skip:
            text += self.literal.rest()
        return text or None

    def in_value(self) -> bool:
        return self.literal is not None and not (self.shut or self.skip)

    def in_string(self) -> bool:
        """Whether the literal is inside a string of the arguments."""
        return self.literal is not None and self.literal.mode == STRING and not self.skip

    def flows(self) -> LiteralReader | None:
        """The literal, if everything is passed on as it is read."""
        literal = self.literal
        if not isinstance(literal, LiteralReader) or self.skip or self._unwrapping is not None:
            return None
        return literal if self._looked and literal.mode < DONE else None

    def _read_on(self, literal: LiteralReader | UnwrapReader) -> bool:
        """Read more of the literal; true if a marker in an open string ended it."""
        tape = self._tape
        openings = self._openings
        scan = self._plan.calls.string_ends
        pos = tape.i
        while True:
            if scan is None or (m := openings.string_end(scan, pos)) is None:
                self._read_to(literal, len(tape.buf))
                return False
            p = m.start()
            self._read_to(literal, p)
            if literal.mode >= DONE:
                return False
            in_escape = self._plan.repairs and tape.i < p and tape.buf[tape.i] == "\\"
            # A string without its opening quote finds its own end.
            if (tape.i == p or in_escape) and literal.mode == STRING and literal.delimiter:
                r = openings.ends_string(scan, p, m)
                if r == MORE:
                    return False
                if r >= 0:
                    tape.i = p  # the beginning of an escape means nothing
                    self.cut()
                    return True
            pos = p + 1

    def _read_to(self, literal: LiteralReader | UnwrapReader, until: int) -> None:
        """Give the literal's reader the text up to ``until``."""
        tape = self._tape
        buf = tape.buf
        i = tape.i
        end = literal.read(buf, i) if until == len(buf) else i + literal.read(buf[i:until], 0)
        tape.i = end
        if literal.notes:
            self._call.late += literal.notes
            literal.notes.clear()
        fragment = literal.take()
        if self.skipped is not None and self._kept <= CAP:
            self.skipped.append(fragment)
            self._kept += len(fragment)
        if not self.skip and (fragment or end > i):
            self._hand_on(fragment, tape.base + end)

    def _hand_on(self, fragment: str, end: int) -> None:
        """Pass on JSON, unless it may be wrapped."""
        call = self._call
        call.inside = end
        if not self._looked:
            self._looked = True
            if call.started and not UNWRAPPED.match(fragment):
                self._unwrapping = unwrapping(call.context.tools.schema(call.name), call.name)
        watch = self._unwrapping
        if watch is not None:
            passed = watch.push(fragment)
            if not watch.over:
                if not fragment:
                    call.put("", end)
                return
            fragment = passed
            self._unwrapping = None
            if watch.overflown:
                call.late.append(("hold_overflow", call.name))
        call.put(fragment, end)

    def _complete(self, literal: LiteralReader | UnwrapReader) -> None:
        call = self._call
        if self._unwrapping is not None:
            text = self._unwrapping.close()
            self._unwrapping = None
            call.put(text, self._tape.here)
        call.complete = True
        if literal.repaired:
            call.status = "repaired" if call.status == "ok" else call.status
            call.notice("repaired", literal.repaired)

    def _none(self, i: int) -> bool:
        """There are no arguments where they should begin: null, nothing, or something else."""
        tape, call = self._tape, self._call
        buf = tape.buf
        if buf.startswith(NULL, i):
            tape.i = i + len(NULL)
            return self._done("{}")
        closing = self._look.closing(i)
        if closing == MORE or rest_begins(NULL, buf, i):
            if tape.final:
                tape.i = len(buf)
            return False
        if closing >= 0 or not call.form.closing:
            return self._done("{}")
        return self._fail(_NO_OBJECT)

    def _broken(self, literal: LiteralReader | UnwrapReader) -> bool:  # each way to be broken has a rule of its own
        """The literal is broken here; perhaps only because a closing marker is here."""
        tape, call = self._tape, self._call
        if self.skip or not call.started:
            text = self.take()
            if text:
                call.put(text, tape.here)
            return self._fail(literal.error, Mode.LOST)
        j = skip_space(tape.buf, tape.i)
        if self._plan.repairs and j - tape.i <= MAX_SPACE:
            closing = MORE if j == len(tape.buf) else self._closes(j)
            if closing == MORE and not tape.final:
                return False
            if closing >= 0 and self._shut():
                return True
        # Other calls may follow in the block, and nothing but brackets shows where this one ends.
        unended = call.block.closing and not (call.form.closing or call.form.marked)
        if call.form.shape is not None:
            self.track = ["{", *literal.stack]
        elif call.form.syntax == Syntax.PYTHON or (literal.stack and unended):
            self.track = [*literal.stack]
        self.within = literal.delimiter[:1]
        return self._fail(literal.error)

    def _closes(self, i: int) -> int:
        """The end of what closes the call at ``i``: a closing, or the next call if this one has none; `NO`; `MORE`."""
        closing = self._look.closing(i)
        if closing >= 0 or self._call.form.closing or not self._call.block.closing:
            return closing
        return first_of((closing, self._openings.goes_on(i)))

    def cut(self) -> None:
        """A closing marker is in an open string: the value and the call end."""
        if self.skip or not self._call.started:
            self._fail(_CUT, Mode.LOST)
        elif not (self._plan.repairs and self._shut()):
            self._fail(_CUT)

    def _shut(self) -> bool:
        """Repair: close the value that a closing marker cut off."""
        tail = "" if self.literal is None else self.literal.close_all()
        if not tail:
            return False
        watch = self._unwrapping
        if watch is not None:
            tail = watch.push(tail)
            tail += "" if watch.over else watch.close()
            self._unwrapping = None
        call = self._call
        self._done(tail)
        call.status = "repaired"
        call.notice("repaired", "unclosed value")
        self.shut = True
        return True


def whole_literal(openings: Openings, form: Form, fields: dict[str, str], text: str, i: int) -> Whole | None:
    """The call whose arguments begin at ``i``, if all of it is there and plain."""
    if form.syntax == Syntax.PYTHON:
        arguments, end = whole_members(text, i, python=True, quote="")
        return Whole(fields["name"], arguments, i, end, end) if arguments else None
    begin = skip_space(text, i)
    if begin - i > MAX_SPACE:
        return None
    if form.syntax == Syntax.JSON:
        end = whole_object(text, begin)
        return Whole(fields["name"], text[begin:end], i, end, end) if end else None
    if not text.startswith("{", begin):
        return None
    quote = openings.look.plan.dialect.codec.quote
    arguments, end = whole_members(text, begin + 1, python=False, quote=quote)
    return Whole(fields["name"], arguments, i, end + 1, end + 1) if arguments else None


def literal_of(openings: Openings, c: str, syntax: str) -> LiteralReader | UnwrapReader:
    """The reader of arguments that begin with a character."""
    plan = openings.look.plan
    repair = plan.repairs
    if c in "'\"" and syntax in (Syntax.JSON, Syntax.PYTHON):
        return UnwrapReader(syntax, repair=repair)
    root = Root.KEYWORDS if syntax == Syntax.PYTHON and c == "(" else Root.OBJECT
    stops = plan.calls.recover.at if repair or syntax == Syntax.QUOTE else None
    return LiteralReader(syntax, root, repair=repair, quote=plan.dialect.codec.quote, stops=stops)
