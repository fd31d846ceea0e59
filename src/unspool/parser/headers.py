"""Calls: recognising that one begins, announcing it, ending it."""

import json
import os
from collections.abc import Callable
from typing import Any, Final

from ..dialect.patterns import MAX_SPACE, MORE, NO, Pattern, plain_name, skip_space
from ..dialect.plan import END, Form, Opening, Plan, tags, text
from ..dialect.syntax import Syntax
from ..events import ReasoningEnd, Status, ToolCallDelta, ToolCallEnd, ToolCallStart
from ..regex import Regex
from ..schema import Schema, for_tool
from .call import Call, Level, Sink
from .literals import LiteralReader, Root
from .output import (
    ARGUMENTS,
    BAD_CALL,
    BLOCK,
    CLOSE,
    EDGE,
    HEADER,
    MEMBERS,
    OBJECT,
    OPEN_REASONING,
    OPENED_REASONING,
    REASONING,
    RESUMING,
    TEXT,
    THOUGHT_CALL,
    Output,
    common_suffix,
)
from .wrapped import UnwrapReader

NULL = "null"
ARGUMENT_KEYS = frozenset(("arguments", "parameters", "args", "input"))

_JSON_KEY = Regex(r'\s*+"((?:[^"\\\n]|\\.){0,256}+)"\s*+:')
_JSON_KEY_MAYBE = Regex(r'\s*+(?:"(?:[^"\\\n]|\\.){0,256}+(?:\\|"\s*+)?)?\Z')

_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

Ids = Callable[[int, str], str]


class Headers(Output):
    """How a call begins and ends."""

    __slots__ = ("_added", "_given", "_ids", "_named", "_names", "_spared", "_spared_at")

    def __init__(self, plan: Plan, names: dict[str, Any] | None, named: str, ids: Ids) -> None:
        super().__init__(plan)
        self._names = names  # declared name -> tool; None: unknown
        self._named = named  # the function that tool_choice names
        self._ids = ids
        self._added: dict[str, int] | None = None  # the tokenizer's added tokens, when ids are fed
        self._spared: dict[str, int] = {}  # closings of openings that are text, and how many: they are text too
        self._spared_at = self._calls_from  # the last marker that was spared
        self._given: dict[str, int] = {}  # ids of calls, and the index of the call that has each

    # -- markers --------------------------------------------------------------------------------------------------

    def _certain(self, i: int) -> bool:
        """Whether a special token stands here, known by its id."""
        return self._marks is not None and self._base + i in self._marks

    def _spelled(self, first: str, i: int) -> bool:
        """Whether text here only spells a special token where that does not count."""
        return (
            self._marks is not None
            and self._plan.policy.text_markers == "ignore"
            and self._base + i not in self._marks
            and self._spells(first, i)
        )

    def _spells(self, literal: str, i: int) -> bool:
        """Whether the text at ``i``, where a marker's literal stands, is that of a token of its own."""
        buf = self._buf
        return any(
            text and (literal.startswith(text) or (text.startswith(literal) and buf.startswith(text, i)))
            for text in self._added or ()
        )

    def _match(self, opening: Opening, i: int, fields: dict[str, str]) -> int:
        return self._marker(opening.pattern, i, fields)

    def _marker(self, pattern: Pattern, i: int, fields: dict[str, str]) -> int:
        """Where a pattern that begins at ``i`` ends, `NO`, or `MORE`; a special token only spelled may not count."""
        r = pattern.match(self._buf, i, fields)
        return NO if r != NO and self._spelled(pattern.first, i) else r

    def _quoted(self, p: int) -> bool:
        """Whether a marker at ``p`` stands in a code span of the content."""
        here = self._base + p
        start = min(max(self._at, self._quoting.upto), here)
        return not self._thinking and self._quoting.quotes(self._source(start, here), start)

    def _spare(self, p: int, *closings: Pattern) -> None:
        """The opening at ``p`` stays text: so will what closes it."""
        if not closings or self._spared_at == self._base + p:  # it was looked at before
            return
        self._spared_at = self._base + p
        for literal in {text(t) for c in closings for t in (tags(c) or [c]) if t}:
            self._spared[literal] = self._spared.get(literal, 0) + 1

    def _is_spared(self, p: int) -> bool:
        """Whether the closing at ``p`` belongs to an opening that is text."""
        if self._spared_at == self._base + p:
            return True
        for literal, times in self._spared.items():
            if times and self._buf.startswith(literal, p):
                self._spared[literal] = times - 1
                self._spared_at = self._base + p
                return True
        return False

    def _end_here(self, i: int) -> int:
        """Where an ``end`` or ``start`` that stands at ``i`` ends, or `NO`, or `MORE`."""
        more = False
        for o in self._plan.ends:
            r = self._match(o, i, {})
            if r >= 0 and o.kind == END:
                r = self._end_counts(i, r)
            if r >= 0:
                return r
            more = more or r == MORE
        return MORE if more and not self._final else NO

    def _end_counts(self, i: int, end: int) -> int:
        """An ``end`` spelled as text counts only where nothing but white space follows it, or an end, or an opening."""
        if self._replay or self._certain(i):
            return end
        buf = self._buf
        j = skip_space(buf, end)
        if j == len(buf):
            if self._final:
                return end
            return MORE if j - end <= MAX_SPACE else NO
        more = False
        for o in self._plan.edge_plain if self._plain else self._plan.edge:
            if not o.marked or not o.pattern.first:
                continue
            r = o.pattern.match(buf, j, {})
            if r >= 0:
                return end
            more = more or r == MORE
        if more:
            return end if self._final else MORE
        return NO

    # -- openings -------------------------------------------------------------------------------------------------

    def _match_call(self, o: Opening, i: int, edge: bool, fields: dict[str, str]) -> int:
        """Where the opening of a call that begins at ``i`` ends.

        ``fields`` also gets ``weak`` where the arguments do not begin as they should, or the output ends before them:
        such a reading counts where no other one is possible.
        """
        buf = self._buf
        form = o.form
        assert form is not None
        if self._base + i < self._calls_from:
            return NO
        if not o.marked and (self._names is None or not (edge or self._stands_apart(o, i))):
            return NO
        r = self._match(o, i, fields)
        if r == NO:
            return NO
        if r == MORE:
            # A header that the output's end cuts is a call once its name is complete.
            if self._final and "named" in fields and form.shape is None and self._declared(o, fields):
                fields["weak"] = "cut"
                return len(buf)
            return r
        if form.shape is None:
            if not self._declared(o, fields):
                return NO
            peek = self._arguments_begin(form, r)
            if peek == NO:
                if not form.opening.after_name:
                    return NO
                fields["weak"] = "weak"
            elif peek == MORE:
                if not self._final:
                    return MORE
                fields["weak"] = "cut"
            return r
        return self._object_begins(o, form, r)

    def _stands_apart(self, o: Opening, i: int) -> bool:
        """Whether an unmarked opening may count at ``i``: where a line begins, or behind a space; not in code."""
        if i > self._i and not self._buf[i - 1].isspace():
            return False
        if self._quoted(i) or self._quoting.fenced:
            return False
        return self._quoting.blank() or (o.spaced and i > self._i and self._buf[i - 1] == " ")

    def _declared(self, o: Opening, fields: dict[str, str]) -> bool:
        """Whether the name may be a call's: unmarked or of odd characters, only if it is declared.

        A longer name that is declared is not taken apart (`{name}.{name}`, `{name}:{index}`).
        """
        names = self._names
        name = fields.get("name", "")
        if names is not None and fields.get("whole") in names:
            return False
        return (o.marked and plain_name(name)) or (names is not None and name in names)

    def _object_begins(self, o: Opening, form: Form, i: int) -> int:
        buf = self._buf
        j = skip_space(buf, i)
        if j - i > MAX_SPACE:
            return NO
        if j == len(buf):
            return NO if self._final else MORE
        assert form.shape is not None
        if form.forced and self._named:
            # Any object is the arguments, unless it is the call that was asked for.
            return MORE if self._wrapped(i) == MORE else i
        quote = buf[j]
        if quote != form.shape.quote and not (
            quote == "'"
            and self._plan.policy.bad_arguments == "repair"
            and form.shape.quote == '"'
            and not self._has_form("'")
        ):
            return NO
        if o.marked or quote == "'":
            return i
        # An object that is not a call is let go at its first key.
        m = _JSON_KEY.match(buf, i)
        if m is None:
            return MORE if _JSON_KEY_MAYBE.match(buf, i) and not self._final else NO
        key = m.group(1)
        keys = form.shape.keys
        known = form.shape.name_is_key or key == "type" or key in ARGUMENT_KEYS or any(k == key for k, _ in keys)
        return i if known else NO

    def _has_form(self, quote: str) -> bool:
        return any(f.shape is not None and f.shape.quote == quote for f in self._plan.forms)

    def _arguments_begin(self, form: Form, i: int) -> int:
        """Whether arguments, or the call's closing, begin here."""
        if not form.arguments or form.syntax is Syntax.PYTHON:
            return i
        buf = self._buf
        j = skip_space(buf, i)
        if j - i > MAX_SPACE:
            return NO
        if j == len(buf):
            return MORE
        more = False
        if form.syntax is None:
            for p in self._plan.parameters:
                r = p.opening.match(buf, j, {})
                if r >= 0:
                    return i
                more = more or r == MORE
            if buf[j] == "{":
                return i
        elif buf[j] == "{" or (form.syntax is Syntax.JSON and buf[j] == '"'):
            return i
        elif form.syntax is Syntax.JSON and NULL.startswith(buf[j : j + len(NULL)]):
            if buf.startswith(NULL, j):
                return i
            more = True
        for suffix in self._plan.suffixes:
            r = suffix.match(buf, j, {})
            if r >= 0:
                return i
            more = more or r == MORE
        return MORE if more else NO

    def _refused(self, i: int) -> bool:
        """Whether a policy makes a call that begins at ``i``, and all that follow, text."""
        if self._plain:
            return True
        policy = self._plan.policy
        choice = policy.text_between_tools if self._calls else policy.text_before_tools
        if choice != "content":
            return False
        low = max(self._i, -self._base)  # a prompt's text is no prose of the output
        waits = self._state == TEXT and not self._thinking and bool(self._buf[low:i].strip())
        if not self._prose and not waits:
            return False
        self._plain = True
        self._notice("call_markers_as_text", "prose stood before a call")
        return True

    def _open_call(self, o: Opening, i: int, end: int, fields: dict[str, str]) -> None:
        """The opening of a call stands at ``buf[i:end]``."""
        block, form = o.block or self._within or self._plan.blocks[0], o.form
        assert form is not None
        buf, base = self._buf, self._base
        thought = self._thinking or self._resume
        self._spared.clear()
        if self._state in (TEXT, REASONING):
            low = max(self._i, self._at - base)
            take = common_suffix(buf, low, i, block.margin)
            if self._thinking:
                take = max(take, common_suffix(buf, low, i, self._plan.reasoning_inner))
            self._put_text(base + i - take)
        self._keep()
        start = max(self._at, 0)
        if form.shape is not None:
            self._hold(HEADER)
        if self._state in (EDGE, TEXT, REASONING, RESUMING):
            self._put_markup(base + i)
            start = base + i
        call = Call(form, block, start, fields)
        call.thought = thought
        self._call = call
        self._within = block
        self._margin = ""
        self._seen_part = True
        if form.shape is None:
            self._announce(call, base + end)
            self._begin_arguments(call, end)
        elif form.forced and self._named and self._wrapped(end) == 0:
            call.name = self._named
            self._announce(call, base + end - 1)
            call.reader = LiteralReader(Syntax.JSON, Root.OBJECT, repair=self._repairing())
            self._i = end - 1
            self._state = ARGUMENTS
        else:
            call.quote = form.shape.quote
            j = skip_space(buf, end)
            if j < len(buf) and buf[j] == "'":
                call.quote = "'"
            if call.quote != form.shape.quote:
                call.status = "repaired"
            self._i = end
            self._state = OBJECT

    def _wrapped(self, i: int) -> int:
        """Under a named choice: whether the object is a call (name, then arguments), not arguments: 1, 0, `MORE`."""
        buf = self._buf
        for expected in (
            ('"name"',),
            (":",),
            (json.dumps(self._named),),
            (",",),
            ('"arguments"', '"parameters"'),
            (":",),
        ):
            i = skip_space(buf, i)
            found = next((e for e in expected if buf.startswith(e, i)), None)
            if found is None:
                cut = any(e.startswith(buf[i:]) for e in expected) and not self._final
                return MORE if cut else 0
            i += len(found)
        return 1

    def _repairing(self) -> bool:
        return self._plan.policy.bad_arguments == "repair"

    # -- announcing -----------------------------------------------------------------------------------------------

    def _announce(self, call: Call, end: int) -> None:
        """The name is known: the call is sent, or goes where policy says."""
        policy = self._plan.policy
        names = self._names
        call.known = None if names is None else call.name in names
        call.started = True
        unknown = call.known is False and policy.unknown_tool != "forward"
        header = bool(self._holds) and self._holds[-1].kind == HEADER
        if unknown:
            call.sink = Sink.TEXT if policy.unknown_tool == "text" else Sink.DROP
            if header:
                self._discard()
            self._notice("undeclared_tool", call.name)
            self._sink(call, end)
            return
        # In a thought, a call of an unknown tool is none before its arguments are complete.
        unsure = call.thought and not call.known
        if unsure or policy.bad_arguments in ("drop", "text"):
            kind = THOUGHT_CALL if unsure else BAD_CALL
            if header:
                self._holds[-1].kind = kind
            else:
                self._hold(kind)
        else:
            if header:
                self._commit()
            self._thought_stands()
        if call.known is False:
            self._notice("undeclared_tool", call.name)
        call.index = self._index
        self._index += 1
        self._identify(call)
        if self._thinking:
            at = max(self._at, 0)
            self._out.append(ReasoningEnd(at, at))
            self._thinking = False
            self._resume = policy.call_in_reasoning == "resume"
        start, stop = self._span(end)
        self._out.append(ToolCallStart(call.index, call.id, call.name, start, stop, call.known))

    def _thought_stands(self) -> None:
        """A call in it settles that the reasoning that is open is reasoning."""
        if self._holds and self._holds[-1].kind in (OPEN_REASONING, OPENED_REASONING):
            self._commit()

    def _identify(self, call: Call) -> None:
        """Give the call its id; no two calls have the same."""
        if not call.id:
            call.id = self._id(call)
        given = self._given
        if given.get(call.id, call.index) < call.index:
            self._notice("duplicate_id", call.id)
            number = call.index
            made = self._new_id(number, call.name, call.id)
            while given.get(made, call.index) < call.index:
                number += 1
                another = self._new_id(number, call.name, call.id)
                made = another if another != made else f"{call.id}-{number}"
            call.id = made
        given[call.id] = call.index

    def _new_id(self, index: int, name: str, instead: str = "") -> str:
        """An id in the dialect's form; random, or always the same ``instead`` of the same one."""
        template = fill_id(self._plan.dialect.id, name, str(index))
        if "?" not in template:
            return template
        size = len(template)
        number = int.from_bytes(_digest(f"{index}:{instead}", size) if instead else os.urandom(size))
        made: list[str] = []
        for c in template:
            if c == "?":
                number, digit = divmod(number, len(_ALPHABET))
                c = _ALPHABET[digit]
            made.append(c)
        return "".join(made)

    def _id(self, call: Call) -> str:
        """The call's own id, or one made for it."""
        fields = call.fields
        if fields.get("id"):
            return fields["id"]
        template = self._plan.dialect.id
        index = fields.get("index")
        if "number" in fields:
            index = str(int(fields["number"]) - 1)
        if index is not None and "{index}" in template:
            return fill_id(template, call.name, index)
        return self._ids(call.index, call.name)

    def _sink(self, call: Call, end: int) -> None:
        """What was read of a call that is not sent."""
        if call.sink is Sink.TEXT:
            self._put_text(end)
        else:
            self._put_markup(end)

    def _put_arguments(self, call: Call, fragment: str, end: int) -> None:
        """Arguments read up to an offset."""
        if call.sink is not Sink.CALL:
            self._sink(call, end)
        elif not call.started:
            if call.early is None:
                call.early = []
            call.early.append(fragment)
        elif fragment:
            start, stop = self._span(end)
            self._out.append(ToolCallDelta(call.index, fragment, start, stop))
        elif end - self._at > MAX_SPACE:
            self._put_markup(end)  # a long stretch of dropped white space

    def _put_early(self, call: Call) -> None:
        if call.early is not None and call.started and call.sink is Sink.CALL:
            fragment = "".join(call.early)
            if fragment:
                at = max(self._at, 0)
                self._out.append(ToolCallDelta(call.index, fragment, at, at))
        call.early = None

    # -- arguments begin ------------------------------------------------------------------------------------------

    def _begin_arguments(self, call: Call, i: int) -> None:
        form = call.form
        self._i = i
        if not form.arguments:
            self._put_arguments(call, "{}", self._base + i)
            call.complete = True
            self._state = CLOSE
            return
        if form.syntax is None:
            self._begin_members(call)
            return
        if form.syntax is Syntax.PYTHON:
            call.reader = self._reader(call, "(", Syntax.PYTHON)
            call.track = ["("]
        self._state = ARGUMENTS

    def _begin_members(self, call: Call) -> None:
        call.schema = self._schema(call.name)
        call.levels.append(Level("{", None, {}, call.schema))
        self._state = MEMBERS

    def _schema(self, name: str) -> Schema | None:
        tool = None if self._names is None else self._names.get(name)
        return None if tool is None else for_tool(tool)

    def _reader(self, call: Call, c: str, syntax: Syntax) -> LiteralReader:
        """The reader for arguments that begin with a character."""
        if c == '"' and syntax is Syntax.JSON:
            return UnwrapReader(repair=self._repairing())
        root = Root.KEYWORDS if c == "(" else Root.OBJECT
        stops = self._plan.recover.at if self._repairing() else None
        return LiteralReader(syntax, root, repair=self._repairing(), quote=self._plan.dialect.quote, stops=stops)

    # -- ending ---------------------------------------------------------------------------------------------------

    def _end_call(self, status: Status, end: int) -> None:
        """The call is over at an offset."""
        call = self._call
        assert call is not None
        self._call = None
        self._state = BLOCK
        if call.sink is not Sink.CALL:
            self._sink(call, end)
        else:
            self._put_early(call)
            start, stop = self._span(end)
            raw = "" if status == "ok" else self._source(max(call.start, 0), stop)
            self._out.append(ToolCallEnd(call.index, status, start, stop, raw))
            if self._holds and self._holds[-1].kind == THOUGHT_CALL:
                if status not in ("ok", "repaired"):
                    self._back_to_thought(self._discard())
                    return
                self._commit()
                self._thought_stands()
            elif self._holds and self._holds[-1].kind == BAD_CALL:
                if status == "invalid":
                    self._discard()
                    if self._plan.policy.bad_arguments == "text":
                        self._put_text(end)
                    else:
                        self._put_markup(end)
                    self._notice("bad_arguments", call.name)
                    self._let_go()
                    return
                self._commit()
                self._thought_stands()
            self._calls += 1
            self._prose = False
            self._quoting.restart()
        self._let_go()


def _digest(text: str, size: int) -> bytes:
    from hashlib import shake_128  # rarely needed

    return shake_128(text.encode("utf-8", "surrogatepass")).digest(size)


def fill_id(template: str, name: str, index: str) -> str:
    """An id by a dialect's template; ``?`` stays for the caller."""
    number = str(int(index) + 1) if "{number}" in template else ""
    return template.replace("{name}", name).replace("{index}", index).replace("{number}", number)
