"""Reads arguments that are written one by one, as in XML: text up to a closing marker, typed by a schema.

between arguments ── opening ──► at a value's start ── text ──► in a value ── closing ──► between arguments
                                         └── an element's opening: a container ──► between arguments
"""

import re
from collections import deque
from functools import partial
from typing import Final

from ...dialect.follows import ARGUMENT_END
from ...dialect.loose import MAX_AGAIN, Loose
from ...dialect.markers import BLOCK_END, Form, Parameter
from ...dialect.patterns import MAX_FIELD, MAX_SPACE, MORE, NO, rest_begins, skip_space
from ...dialect.plan import ArgumentPlan
from ...events import Status
from ...regex import Prefix
from ...schema import WRAPPERS, Schema
from ..call import OpenCall
from ..ledger import CAP
from ..lookout import first_ending, first_of
from ..openings import Openings
from ..white import common_prefix, common_suffix, held_suffix
from .containers import Containers, Level
from .pieces import begun_tag
from .reader import CallReader, Mode, Whole
from .value import Value, ValueKind, marked_by, plain_value
from .whole import MAX_DEPTH

_BROKEN_OFF: Final = Prefix(rf"[\"']?[\w.\-]{{0,64}}+\s{{0,{MAX_SPACE}}}+")
"""Matches what may follow the beginning of an opening that breaks off: a name, or nothing."""


def plain_arguments(
    plan: ArgumentPlan, schema: Schema | None, text: str, i: int
) -> tuple[dict[str, str], int]:  # hot: reads most whole calls
    """The complete plain arguments that begin at ``i``, one after the other, as JSON by their keys, and their end.

    The first argument that is not plain ends them. What follows the last one must be looked at.
    """
    found: dict[str, str] = {}
    parameters, begins, quoted = plan.parameters, plan.begins.match, plan.quoted
    while True:
        begun = begins(text, i)
        at = None if begun is None else begun.lastindex
        if begun is None or at is None:
            return found, i
        for parameter in parameters[at - 1 :]:
            m = None if parameter.plain is None else parameter.plain.match(text, i)
            if m is not None:
                break
            if parameter.opening.match(text, begun.start(at), {}) != NO:
                return found, i
        else:
            return found, i
        key, value = m.group("key", "value")
        if value[:2] == "\r\n" and parameter.lead[:1] == "\n":
            parameter = parameter.windows
        lead, trail = parameter.lead, parameter.trail
        start = len(lead) if value.startswith(lead) else common_prefix(value, lead)
        end = len(value)
        end -= len(trail) if value.endswith(trail, start) else common_suffix(value, start, end, trail)
        value = value[start:end]
        if key in found or key in WRAPPERS or (quoted and value[:1] == '"'):
            return found, i
        json = plain_value(None if schema is None else schema.property(key), value, marked_by(m))
        if json is None:
            return found, i
        found[key] = json
        i = m.end()


def whole_markup(openings: Openings, schema: Schema | None, form: Form, name: str, text: str, i: int) -> Whole | None:
    """The call whose arguments begin at ``i``, if all of it is there and plain."""
    plan = openings.look.plan
    if plan.arguments.comma.atoms:
        return None
    found, closed = plain_arguments(plan.arguments, schema, text, i)
    end = skip_space(text, closed)
    if not found or end - closed > MAX_SPACE or end == len(text):
        return None
    if not form.closing.atoms and openings.look.closing(end) < 0:
        return None
    inside = ", ".join([f'"{key}": {value}' for key, value in found.items()])
    return Whole(name, f"{{{inside}}}", i, end, end)


class MarkupReader(CallReader):
    """Reads arguments that are each written by a template."""

    def __init__(self, call: OpenCall, openings: Openings, schema: Schema | None) -> None:
        super().__init__(call, openings)
        self.status: Status = "ok"  # the status of a call that ends here without its closing
        self.containers = Containers(call, schema)  # the arguments, and the containers inside them
        self.value: Value | None = None  # the open argument's; ``None`` between arguments
        self._strayed = False  # a closing closed nothing, and no argument has come since
        self._searched = 0  # the offset up to which no closing names an argument
        self._opened = ""  # the last opening, and ``_closed`` the last closing, as they are written, if they may repeat
        self._closed = ""
        self._refused: deque[int] = deque(maxlen=MAX_AGAIN)  # the last offsets after closings that nothing may follow

    def read(self) -> bool:
        value = self.value
        if value is None:
            return self._between()
        return self._start(value) if value.starting else self._text(value)

    def take(self) -> str | None:
        return self.containers.take()

    def in_value(self) -> bool:
        value = self.value
        inside = value is not None and (not value.starting or value.kind == ValueKind.GUESS)
        return inside or self.containers.holding

    def streams(self) -> Value | None:
        """The value, if its text is passed on piece by piece."""
        value = self.value
        if value is None or not value.begun or value.kind != ValueKind.STRING:
            return None
        return None if self.containers.held_back else value

    def held(self) -> Value | None:
        """The value, if nothing is decided before its end."""
        value = self.value
        if value is None or value.starting:
            return None
        quiet = value.kind != ValueKind.TYPED and self.containers.quiet
        return value if quiet or value.holds() else None

    def undecided(self, value: Value | None) -> re.Pattern[str] | None:
        """Matches text that decides nothing yet, in a value or between arguments; ``None``: unknown."""
        if value is None and self.value is not None:
            return None
        level = self.containers.levels[-1]
        undecided = self._plan.arguments.undecided(level.parameter, level.siblings)
        if undecided is None:
            return None
        return undecided.between if value is None else undecided.inside(value.parameter)

    # -- between arguments --------------------------------------------------------------------------------------------

    def _between(self) -> bool:  # a branch for each thing that may follow an argument
        """Read the next argument's opening, or what closes the innermost container or the call."""
        tape = self._tape
        buf = tape.buf
        i = skip_space(buf, tape.i)
        levels = self.containers.levels
        level = levels[-1]
        j = self._past_comma(i) if level.begun and self._plan.arguments.comma.atoms else i
        if j == MORE or j == len(buf):
            tape.i = i if j == MORE and not tape.final else len(buf)
            return self._over()
        closed = self._closing(level, j, inner=True)
        if closed >= 0:
            return self._close(level, j, closed)
        opened = self._opening(level, j)
        if opened == NO and self._plan.arguments.token:
            opened = self._unnamed(level, j)
        if opened >= 0:
            return True
        around = NO
        if len(levels) > 1 and MORE not in (closed, opened):  # from the inside out
            around = first_of(self._closing(outer, j) for outer in levels[-2::-1])
        if around >= 0:
            self._call.notice("missing_close", level.fields.get("key", ""))
            self.containers.close(tape.base + j)
            tape.i = j
            return True
        if MORE in (closed, opened, around):
            return self._waits(level, j, closed, opened)
        tape.i = j
        return self._astray(level, j)

    def _waits(self, level: Level, j: int, closed: int, opened: int) -> bool:
        """More text must decide what is at ``j``; the output's end cuts it."""
        tape = self._tape
        tape.i = len(tape.buf) if tape.final else j
        self._strayed = closed == MORE and opened == NO and tape.final and len(tape.buf) - j > len("</")
        return closed == MORE and level.parameter is None and tape.final and self._over()

    def _astray(self, level: Level, j: int) -> bool:  # a branch for each thing that may stand there
        """Read what opens and closes nothing at ``j``: a closing that is repeated or of no argument is dropped, an
        object stands for all arguments, and anything else breaks the call."""
        tape, buf = self._tape, self._tape.buf
        if self._closed and self._may_be(self._closed, j):
            return self._again(j, self._closed)
        stray = self._look.first(self._plan.arguments.stray_closings, j)
        if stray == MORE:
            tape.i = len(buf) if tape.final else j
            return tape.final and self._over()
        if stray >= 0:
            self._call.notice("stray_close", buf[j:stray])
            self._strayed = len(self.containers.levels) == 1
            tape.i = stray
            return True
        if buf[j] == "{" and len(self.containers.levels) == 1 and not level.given:
            self.mode = Mode.JSON
            return True
        broken = self._opens_nothing(j) if level.begun else NO
        if broken == MORE and not tape.final:
            return False
        if broken >= 0:
            self._call.notice("stray_open", buf[j:broken].strip())
            tape.i = broken
            return True
        surplus = NO
        if level.parameter is None:
            literal = (opening for opening in level.siblings.openings if opening.first)
            surplus = self._openings.surplus(j, (*self._plan.calls.closings, *literal))
        if surplus >= 0:
            self._call.notice_surplus(buf[j:surplus])
            tape.i = surplus
        return surplus >= 0 or (surplus == NO and self._fails(j))

    def _opens_nothing(self, i: int) -> int:
        """The end of an argument's opening at ``i`` that breaks off before a closing of the call; `NO` or `MORE`."""
        end = self._look.first(self.containers.levels[-1].siblings.begun, i)
        if end < 0:
            return end
        end = _BROKEN_OFF.match(self._tape.buf, end).end()
        if end == len(self._tape.buf):
            return MORE
        closed = self._look.first(self._plan.calls.closings, end)
        return end if closed >= 0 else closed

    def _unnamed(self, level: Level, i: int) -> int:
        """Begin the argument at ``i`` whose opening lacks its tag, and is named by its closing: as `_opening`."""
        tape, buf = self._tape, self._tape.buf
        j = self._begins_unnamed(i)
        if j < 0:
            return j
        for parameter in level.siblings:
            if not parameter.token:
                continue
            m = parameter.names.search(buf, max(j, self._searched - tape.base))
            if m is None or m.start() - j > CAP:
                self._searched = tape.base + max(j, len(buf) - MAX_FIELD)
                return NO if tape.final or len(buf) - j > CAP else MORE
            key = m.group(1)
            if (level.schema is None or level.schema.declares(key)) and key not in level.given:
                self._call.notice("missing_open", parameter.opening.first + key)
                self._begin(parameter, {"key": key}, i, j)
                return j
        return NO

    def _begins_unnamed(self, i: int) -> int:
        """Where the value of an argument begins at ``i`` without the rest of its opening, or `NO`, or `MORE`."""
        tape = self._tape
        token = self._plan.arguments.token
        j = i + len(token)
        if not token or not tape.buf.startswith(token, i) or tape.buf.startswith("<", j):
            return NO
        return j if j < len(tape.buf) else NO if tape.final else MORE

    def _may_be(self, tag: str, j: int) -> bool:
        """Whether a tag, or its beginning, is at ``j``."""
        buf = self._tape.buf
        return buf.startswith(tag, j) or (not self._tape.final and rest_begins(tag, buf, j))

    def _again(self, j: int, tag: str) -> bool:
        """A tag that was read is, or may be, written again at ``j``."""
        if not self._tape.buf.startswith(tag, j):
            return False
        self._call.notice("doubled_marker", tag)
        self._tape.i = j + len(tag)
        return True

    def _past_comma(self, i: int) -> int:
        """The place of the next argument: after the comma that arguments have between them, at ``i``; or `MORE`."""
        buf = self._tape.buf
        r = self._look.stands(self._plan.arguments.comma, i)
        if r >= 0:
            return skip_space(buf, r)
        return MORE if r == MORE and i < len(buf) else i

    def _closing(self, level: Level, i: int, *, inner: bool = False) -> int:
        """The end of what closes a container at ``i``, or for the arguments themselves the call. If a call has no
        closing, and is all that is open (``inner``), that of its block or of the turn closes it."""
        look = self._look
        if level.parameter is not None:
            return look.stands(level.parameter.closing, i, dict(level.fields))
        r = look.first(look.plan.calls.call_closings, i)
        return max(look.closing(i), NO) if inner and r == NO and not self._call.form.closing.atoms else r

    def _close(self, level: Level, i: int, end: int) -> bool:
        """The closing at ``buf[i:end]`` counts."""
        tape = self._tape
        if level.parameter is None:
            tape.i = i
            return self._end()
        self._closed = tape.buf[i:end]
        self.containers.close(tape.base + end)
        tape.i = end
        return True

    def _opening(self, level: Level, i: int) -> int:  # asks each way to write one
        """Begin the argument whose opening is at ``i``: its end, `NO`, or `MORE`."""
        siblings = level.siblings
        for parameter in siblings.at(self._tape.buf, i):
            fields: dict[str, str] = {}
            r = self._opens(parameter, i, fields)
            if r >= 0 and fields.get("key") == "":
                return NO
            loose = parameter.loose
            if loose is not None and (r == MORE or (r >= 0 and loose.begins_in(fields["key"]))):
                # A key without its own closing: the closing of a later one may end it.
                r = NO if self._look.stands(loose, i, {}) >= 0 else r
            if r >= 0:
                self._begin(parameter, fields, i, r)
            if r != NO:
                return r
        if not siblings.loose:
            return NO
        first = not level.begun and level.parameter is None
        return self._loose_opening(siblings.loose + siblings.unopened if first else siblings.loose, i)

    def _loose_opening(self, children: list[tuple[Parameter, Loose]], i: int) -> int:
        """Begin an argument whose opening lacks a tag, or repeats one: the alternative that lacks least is meant."""
        found: list[tuple[list[tuple[str, str]], Parameter, dict[str, str], int]] = []
        for parameter, loose in children:
            fields: dict[str, str] = {}
            r = self._look.stands(loose, i, fields)
            if r == MORE:
                return MORE
            if r >= 0:
                found.append((loose.deviations(self._tape.buf, i), parameter, fields, r))
        if not found:
            return NO
        deviations, parameter, fields, r = min(found, key=lambda each: each[0][:1] > [("missing", "")])
        for kind, tag in deviations:
            self._call.notice(kind, tag)
        self._begin(parameter, fields, i, r)
        return r

    def _opens(self, parameter: Parameter, i: int, fields: dict[str, str]) -> int:
        """The end of an argument's opening at ``i``."""
        opening = parameter.opening
        r = self._look.stands(opening, i, fields)
        if r >= 0 and fields.get("key", "").startswith("</"):  # it breaks off before a closing
            return NO
        if r == NO or not parameter.vague:
            return r
        # Neither a closing nor a call is an argument, though its key could be any text.
        if opening.first[-1:] == "<" and self._tape.buf.startswith("/", i + len(opening.first)):
            return NO
        other = self._look.closing(i)
        if other == NO:
            other = self._openings.opens_next(i, inside=True)
        return r if other == NO else NO if other >= 0 or self._tape.final else MORE

    def _end(self) -> bool:
        return self._done(self.containers.end())

    def _over(self) -> bool:
        """The output ends. If the model stopped and all arguments are closed, only the call's own closing is
        missing."""
        tape = self._tape
        if tape.ended and self._complete():
            self._end()
        return False

    def _fails(self, i: int) -> bool:
        """Something other than an argument is at ``i``."""
        tape = self._tape
        openings = self._openings
        call = self._call
        closing = openings.look.closing(i)
        if closing == MORE:
            if tape.final:
                tape.i = len(tape.buf)
                self._over()
            return False
        ends = closing if closing >= 0 else openings.opens_next(i, inside=True)
        if ends == MORE:
            return False
        alone = len(self.containers.levels) == 1
        if ends >= 0 and not call.form.closing.atoms and alone:
            # If a call has no closing of its own, that of its block or of the turn closes it, or the next call.
            return self._end()
        if ends >= 0:
            # The block or the turn closes, or another call begins: this call lacks its own closing, or was cut.
            call.notice("missing_close", call.name)
            self.status = "incomplete"
            if self._complete() or (self._takes_none() and openings.look.end_here(i) == NO):
                self._end()
                self.status = call.status
            elif self._plan.repairs and alone:
                self._end()
                call.status = "repaired"
                self.status = call.status
            self.mode = Mode.OVER
            return True
        return self._fail("text between arguments")

    def _complete(self) -> bool:
        """Whether only the call's own closing is missing: all arguments are closed, or a stray closing shows that there
        are none."""
        return self.containers.all_closed or self._strayed

    def _takes_none(self) -> bool:
        """Whether there are no arguments, and the tool requires none."""
        level = self.containers.levels[0]
        return not level.begun and level.schema is not None and not level.schema.required()

    def _begin(self, parameter: Parameter, fields: dict[str, str], i: int, end: int) -> None:
        """An argument begins: its opening is at ``buf[i:end]``."""
        tape = self._tape
        tape.i = end
        self._closed = ""
        self._strayed = False
        self._opened = tape.buf[i:end] if parameter.repeats else ""
        level = self.containers.levels[-1]
        above = level.schema
        key = fields.get("key", "")
        head = parameter.head
        while head and head in key and not (above is not None and above.declares(key)):
            valueless, _, rest = key.partition(head)
            if not rest.strip():
                break
            key = fields["key"] = rest.lstrip()
            self._call.notice(*(("skipped_member", valueless.strip()) if valueless else ("doubled_marker", head)))
        schema = None if above is None else above.items() if level.bracket == "[" else above.property(key)
        self.containers.enter(key, schema, tape.base + end)
        self.value = Value(self.containers, parameter, fields, schema)

    # -- at a value's start -------------------------------------------------------------------------------------------

    def _start(self, value: Value) -> bool:  # a branch for each thing that may stand there
        """Remove white space that belongs to the marker, and distinguish a nested value from text."""
        tape = self._tape
        plan = self._plan
        buf = tape.buf
        i = tape.i
        n = len(buf)
        r = self._repeated(value)
        if r != NO:
            return r == 1
        if plan.arguments.items and value.kind not in (ValueKind.STRING, ValueKind.NULLABLE):
            r = self._nested(value)
            if r != NO:
                return r == 1
        lead = value.parameter.lead
        if lead[:1] == "\n" and buf.startswith("\r", i):
            if i + 1 == n and not tape.final:
                return False
            if buf.startswith("\n", i + 1):
                value.parameter = value.parameter.windows
                lead = value.parameter.lead
        k = common_prefix(buf, lead, i)
        own = f"<{value.tag[2:-1]}" if value.tag else ""
        undecided = (i + k == n and (k < len(lead) or plan.arguments.quoted)) or (own and rest_begins(own, buf, i + k))
        if undecided and not tape.final:
            return False
        tape.i = i + k
        value.starts(
            line=k > 0 and buf[i + k - 1] == "\n",
            quoted=plan.arguments.quoted and buf.startswith('"', i + k),
            tagged=bool(own) and buf.startswith(own, i + k),
        )
        return True

    def _repeated(self, value: Value) -> int:  # hot: asked before each value; the first `no` ends it
        """Take the value's opening, or its last tag, written again: 1 if it is here, 0 to wait, or `NO`."""
        tape, tag = self._tape, self._opened
        buf = tape.buf
        j = skip_space(buf, tape.i) if tag else NO
        if j < 0 or j - tape.i > MAX_SPACE:
            return NO
        if self._plan.arguments.items and (value.kinds is None or value.kinds.types & {"array", "object"}):
            return NO
        at = tag.rfind(value.parameter.last, 1) if value.parameter.last else -1
        last = tag[max(at, 0) :]
        if not tape.final and (rest_begins(tag, buf, j) or rest_begins(last, buf, j)):
            return 0
        if buf.startswith(last, j) and last != tag:
            return int(self._again(j, last))
        for parameter in self.containers.levels[-1].siblings if buf.startswith(tag, j) else ():
            fields: dict[str, str] = {}
            r = self._opens(parameter, j, fields)  # another alternative may fit better now
            if r == MORE and not tape.final:
                return 0
            if r >= 0 and parameter.lead == value.parameter.lead:
                self.value = Value(self.containers, parameter, value.fields, value.schema)
                self._opened = buf[j:r] if parameter.repeats else ""
                self._again(j, tag)
                tape.i = r
                return 1
        return NO

    def _nested(self, value: Value) -> int:
        """Open a container if its first element begins here: 1 if opened, 0 to wait, or `NO`."""
        tape = self._tape
        buf = tape.buf
        j = skip_space(buf, tape.i)
        if j - tape.i > MAX_SPACE:
            return NO
        if j == len(buf):
            return NO if tape.final else 0
        look = self._look
        own = look.stands(value.parameter.closing, j, dict(value.fields))
        if own == MORE and not tape.final:
            return 0
        if own >= 0:
            return NO
        for bracket, group in (("[", look.plan.arguments.items), ("{", look.plan.arguments.parameters)):
            for p in group:
                r = self._opens(p, j, {})
                if r == MORE:
                    if tape.final:  # what may begin an element is not emitted
                        tape.i = len(buf)
                    return 0
                if r >= 0:
                    return self._nest(value, bracket, j)
        return NO

    def _nest(self, value: Value, bracket: str, j: int) -> int:
        """A container begins, whose first element is at ``j``."""
        containers = self.containers
        if len(containers.levels) >= MAX_DEPTH:
            self._fail(f"nested deeper than {MAX_DEPTH}")
            return 1
        schema = value.schema
        types = frozenset() if value.kinds is None else value.kinds.types
        named = bracket == "{" and "array" in types and "object" not in types
        within, arguments = containers.wrapped_schema(schema), self._plan.arguments
        inside = arguments.any_items if named else arguments.items if bracket == "[" else arguments.parameters
        level = Level("[" if named else bracket, value.parameter, value.fields, within, inside, children=named)
        containers.open(level, self._tape.base + j)
        self._tape.i = j
        self.value = None
        return 1

    # -- in a value ---------------------------------------------------------------------------------------------------

    def _text(self, value: Value) -> bool:
        """Read the text of a value, up to the closing that counts."""
        tape = self._tape
        buf, i, parameter = tape.buf, tape.i, value.parameter
        p, r = first_ending(parameter, buf, i, partial(self._ends, value))
        if r < 0:
            self._push(value, self._undecided(value, i, p))
            if r == NO and tape.final:  # what may begin a closing is not emitted
                tape.i = len(buf)
            return False
        if r > p:
            self._push(value, p - common_suffix(buf, tape.i, p, parameter.trail))
        else:  # its closing is missing: another opens, or what is around it closes
            end = self._named_closing(value, i, p)
            self._push(value, p - held_suffix(buf, i, p, parameter.gap) if end == NO else end)
            if end != NO:
                self._call.notice("stray_close", value.tag)
        value.done(tape.base + tape.i)
        if r == p:
            self._call.notice_at(tape.here, "missing_close", value.fields.get("key", ""))
        tape.i = r
        self.value = None
        return True

    def _undecided(self, value: Value, i: int, p: int) -> int:
        """Where the text begins that may belong to a closing at ``p``: white space, or a tag of the key's name, which
        the text's end may cut."""
        buf, held, tag = self._tape.buf, value.parameter.held, value.tag
        end = self._named_closing(value, i, p)
        if end == NO:
            end = p - (begun_tag(buf, i, p, tag) if p == len(buf) else 0)
        return end - held_suffix(buf, i, end, held)

    def _named_closing(self, value: Value, i: int, p: int) -> int:
        """Where the text from ``i`` to ``p`` ends if a tag of the key's name closes it; else `NO`."""
        buf, tag, parameter = self._tape.buf, value.tag, value.parameter
        end = p - held_suffix(buf, i, p, parameter.held)
        if not tag or not buf.endswith(tag, i, end):
            return NO
        end -= len(tag)
        return end - common_suffix(buf, i, end, parameter.trail)

    def _push(self, value: Value, end: int) -> None:
        """Pass on text of the value up to ``end``."""
        tape = self._tape
        i = tape.i
        if end > i:
            tape.i = end
            value.push(tape.buf[i:end], tape.base + end)

    def _ends(self, value: Value, p: int) -> int:  # asks for each thing that may end it
        """If the value ends at ``p``: where reading continues, after its closing or at another; else `NO` or `MORE`."""
        look = self._look
        certain = look.certain(p)
        # Only its own closings: another alternative's may be text here (`</param>` in CDATA).
        r = look.first(value.parameter.closings, p, soon=True, fields=value.fields)
        if r >= 0:
            tag = self._tape.buf[p:r] if value.parameter.repeats else ""
            r = r if certain else self._counts(tag, r)
            self._closed = tag if r >= 0 else ""
        if r != NO:
            return r
        call = self._call_closes(p)
        found = call if call >= 0 else first_of((call, self._block_closes(p, certain=certain)))
        if len(self.containers.levels) > 1:
            around = first_of(self._closing(level, p) for level in reversed(self.containers.levels[1:]))
            found = MORE if around == MORE and not self._tape.final else first_of((around, found))
        return p if found >= 0 else self._next_opens(value, p) if found == NO else found

    def _block_closes(self, p: int, *, certain: bool) -> int:
        """``p`` if the closing of a block is there, and counts; else `NO` or `MORE`."""
        tape = self._tape
        found = NO
        for closing in self._plan.calls.block_closings:
            r = self._look.stands(closing, p)
            if r >= 0:
                j = skip_space(tape.buf, r)
                if j - r > MAX_SPACE:
                    continue
                r = (p if tape.ended else MORE) if j == len(tape.buf) else self._openings.behind(BLOCK_END, j)
                if r >= 0 or certain:
                    return p
            found = min(found, r)
        return found

    def _next_opens(self, value: Value, p: int) -> int:
        """``p`` if another argument opens there instead of this one's closing; else `NO` or `MORE`."""
        plan = self._plan
        level = self.containers.levels[-1]
        schema = level.schema
        breaks = plan.arguments.breaks
        named = self._named_closing(value, self._tape.i, p) != NO
        sure = schema is not None and (not breaks or self._starts_line(value, p, breaks))
        if level.bracket == "[" or not (named or sure):
            return NO
        found = NO
        for parameter in plan.arguments.parameters:
            fields: dict[str, str] = {}
            r = self._opens(parameter, p, fields)
            declared = schema is None or schema.declares(fields.get("key", ""))
            if r >= 0 and fields["key"] not in level.given and declared:
                return p
            if r == MORE:
                found = MORE
        return self._look.settled(found)

    def _starts_line(self, value: Value, p: int, breaks: tuple[str, ...]) -> bool:
        """Whether a line begins at ``p``, or before the indentation there."""
        buf, i = self._tape.buf, self._tape.i
        return buf.endswith(breaks, i, p) or (value.line_start and f"\n{buf[i:p]}" in breaks)

    def _counts(self, tag: str, i: int) -> int:  # a repeated closing counts as each of its copies would
        """As `_follows`, after an argument's closing, which may be repeated as it is written (``tag``)."""
        tape = self._tape
        buf, end = tape.buf, i
        for _ in range(MAX_AGAIN):
            j = skip_space(buf, end)
            begins = len(buf) - j < len(tag) and rest_begins(tag, buf, j)
            if begins and j < len(buf) and not tape.final:
                return MORE  # it is asked for each character: what follows is not looked for in the beginning of a tag
            refused = tape.base + end in self._refused
            r = NO if refused else self._follows(end)
            if r != NO or not tag:
                return i if r >= 0 else r
            if not tape.final and not refused:
                self._refused.append(tape.base + end)
            if j - end > MAX_SPACE:
                return NO
            if not buf.startswith(tag, j):
                return NO if not begins else i if tape.ended else MORE
            end = j + len(tag)
        return NO

    def _follows(self, i: int) -> int:  # a branch for each thing that may follow
        """``i`` if the text there may follow an argument: another one, a closing of the call or the block, a call."""
        tape = self._tape
        look = self._look
        plan = look.plan
        level = self.containers.levels[-1]
        j = skip_space(tape.buf, i)
        if j - i <= MAX_SPACE:
            j = self._past_comma(j) if plan.arguments.comma.atoms else j
        if j - i > MAX_SPACE:
            return NO
        if j in (MORE, len(tape.buf)):
            return i if tape.ended else MORE
        if level.parameter is None:
            opens, behind = partial(look.first, level.siblings.openings), partial(self._openings.behind, ARGUMENT_END)
            r = first_of(ask(j) for ask in (opens, self._begins_unnamed, behind, self._opens_nothing))
        else:
            # In a container: another element, its closing, or the turn's end.
            r = look.stands(level.parameter.closing, j, dict(level.fields))
            inner = first_of((look.first(level.siblings.openings, j), self._begins_unnamed(j)))
            r = first_of((r, inner, look.end_here(j)))
        return i if r >= 0 or (r == MORE and tape.ended) else r
