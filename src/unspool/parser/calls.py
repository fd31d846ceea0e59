"""Calls: reading what stands between a call's opening and its end."""

import json
import re

from ..schema import decode
from .call import AFTER, COLON, FIRST, KEY, Call, Level, ValueMode
from .call import VALUE as OBJECT_VALUE
from .headers import ARGUMENT_KEYS, Headers
from .literals import DONE, ERROR, LiteralReader, Root, STRING, Syntax, escaped
from .output import (
    ARGUMENTS,
    BLOCK,
    BLOCK_TEXT,
    CAP,
    CLOSE,
    EDGE,
    MEMBERS,
    OBJECT,
    REASONING,
    RECOVER,
    SPACES,
    VALUE,
    VALUE_START,
    common_suffix,
    held_suffix,
)
from .patterns import MAX_SPACE, MORE, NO, Pattern
from .plan import CALL, END, Opening, Parameter, Scan
from ..events import ReasoningStart

MAX_TOKEN = 1024

_STRINGS = {q: re.compile(rf"{q}[^{q}\\]*+(?:\\.[^{q}\\]*+)*+{q}", re.S) for q in ('"', "'")}
_BRACKETS = re.compile(r"[\"'{}\[\]()\\]")
_SKIP = re.compile(r"[\s,;]*+")
_NULL = "null"


class Calls(Headers):
    """The states of a machine inside blocks and calls."""

    __slots__ = ()

    # -- a call written as an object ------------------------------------------------------------------------------

    def _object(self) -> bool:
        call = self._call
        assert call is not None
        if call.reader is not None:
            return self._object_reading(call)
        buf = self._buf
        i = SPACES.match(buf, self._i).end()  # type: ignore[union-attr]
        self._i = i
        if i == len(buf):
            return False
        c = buf[i]
        expects = call.expects
        if expects == FIRST or expects == KEY:
            if c == "}" and (expects == FIRST or call.quote == "'"):
                return self._object_ends(call, i)
            return self._object_key(call, i)
        if expects == COLON:
            if c != ":":
                return self._object_fails(call, i, f"{c!r} after a key")
            call.expects = OBJECT_VALUE
            self._i = i + 1
            return True
        if expects == OBJECT_VALUE:
            return self._object_value(call, i, c)
        if c == ",":
            call.expects = KEY
            self._i = i + 1
            return True
        if c == "}":
            return self._object_ends(call, i)
        return self._object_fails(call, i, f"{c!r} in a call")

    def _string_at(self, call: Call, i: int) -> tuple[str, int]:
        """A short string that begins at ``i`` and where it ends, else `NO` or `MORE`."""
        buf = self._buf
        quote = buf[i]
        if quote != call.quote and not (quote in "'\"" and call.quote == "'"):
            return "", NO
        m = _STRINGS[quote].match(buf, i, i + MAX_TOKEN)
        if m is None:
            return "", MORE if len(buf) - i < MAX_TOKEN else NO
        if "\\" not in m.group():
            return m.group()[1:-1], m.end()
        reader = LiteralReader(Syntax.PYTHON if call.quote == "'" else Syntax.JSON, Root.ANY)
        text = m.group() + " "
        reader.read(text, 0)
        value = reader.take()
        try:
            return json.loads(value), m.end()
        except ValueError:
            return "", NO

    def _object_key(self, call: Call, i: int) -> bool:
        key, end = self._string_at(call, i)
        if end == MORE:
            return False
        if end == NO:
            return self._object_fails(call, i, "no key")
        shape = call.form.shape
        assert shape is not None
        call.key = key
        if shape.name_is_key:
            call.role = "skip" if call.name else "arguments"
            if not call.name:
                call.name = key
        else:
            call.role = dict(shape.keys).get(key, "")
            if not call.role:
                call.role = "arguments" if key in ARGUMENT_KEYS else "skip"
        if call.role == "arguments" and call.complete:
            self._notice("duplicate_arguments", key)
            call.role = "skip"
        call.expects = COLON
        self._i = end
        return True

    def _object_value(self, call: Call, i: int, c: str) -> bool:
        role = call.role
        if role == "arguments":
            if call.name and not call.started and not self._announce_object(call, i):
                return True
            if c == "n":
                return self._null_arguments(call, i)
            if c != "{" and c != '"':
                return self._object_fails(call, i, "arguments that are no object")
            syntax = Syntax.PYTHON if call.quote == "'" and call.form.shape is not None and call.form.shape.quote == "'" else Syntax.JSON
            call.reader = self._reader(call, c, syntax)
            self._i = i
            return True
        if role in ("name", "id") and c in "'\"" and not call.started:
            value, end = self._string_at(call, i)
            if end == MORE:
                return False
            if end == NO:
                return self._object_fails(call, i, f"a bad {role}")
            if role == "name":
                call.name = value
            else:
                call.id = value
            self._i = end
            call.expects = AFTER
            if role == "name" and value and not self._id_may_come(call):
                self._announce_object(call, end)
            return True
        if role == "name" and not call.started:
            return self._object_fails(call, i, "a name that is no string")
        call.role = "skip"
        call.reader = LiteralReader(Syntax.PYTHON if call.quote == "'" else Syntax.JSON, Root.ANY)
        self._i = i
        return True

    def _id_may_come(self, call: Call) -> bool:
        shape = call.form.shape
        return shape is not None and not call.id and any(role == "id" for _, role in shape.keys)

    def _null_arguments(self, call: Call, i: int) -> bool:
        word = self._buf[i : i + 4]
        if word == _NULL:
            self._put_arguments(call, "{}", self._base + i + 4)
            call.complete = True
            call.expects = AFTER
            self._i = i + 4
            return True
        if _NULL.startswith(word) and not self._final:
            return False
        return self._object_fails(call, i, "arguments that are no object")

    def _announce_object(self, call: Call, i: int) -> bool:
        """Announce an object-shaped call; false where it turned out to be text."""
        if not call.form.marked and not call.block.marked:
            named = call.form.forced and call.name == self._named
            if not named and (self._names is None or call.name not in self._names):
                self._i = i
                self._abort_header()
                return False
        self._announce(call, self._base + i)
        self._put_early(call)
        return True

    def _object_reading(self, call: Call) -> bool:
        reader = call.reader
        assert reader is not None
        skipped = call.role == "skip"
        end = reader.read(self._buf, self._i)
        if end > self._i:
            fragment = reader.take()
            self._i = end
            if not skipped:
                self._put_arguments(call, fragment, self._base + end)
        if reader.mode == DONE:
            call.reader = None
            call.expects = AFTER
            if not skipped:
                call.complete = True
                self._note_repair(call, reader)
            return True
        if reader.mode == ERROR:
            call.reader = None
            if skipped:
                return self._object_fails(call, self._i, reader.error)
            if not call.started:
                return self._object_fails(call, self._i, reader.error)
            fragment = reader.take()
            if fragment:
                self._put_arguments(call, fragment, self._base + self._i)
            call.reader = reader
            return self._arguments_fail(call, reader)
        return False

    def _object_ends(self, call: Call, i: int) -> bool:
        self._i = i + 1
        if not call.started:
            if not call.name:
                self._notice_outside("call_without_name", "")
                self._abort_header()
                return True
            if not self._announce_object(call, i + 1):
                return True
        if not call.complete:
            self._put_arguments(call, "{}", self._base + i + 1)
            call.complete = True
        self._state = CLOSE
        return True

    def _object_fails(self, call: Call, i: int, why: str) -> bool:
        """The call's object is broken outside its arguments."""
        self._i = i
        if not call.started:
            if not call.name or not call.complete:
                self._notice_outside("call_without_name", why)
                self._abort_header()
                return True
            if not self._announce_object(call, i):
                return True
        call.reader = None
        if call.complete:
            call.quiet = True
            self._notice("missing_close", why)
        else:
            self._notice("bad_arguments", why)
            if call.status != "invalid":
                call.status = "invalid"
        call.track = ["{"]
        call.quote = ""
        self._state = RECOVER
        return True

    def _note_repair(self, call: Call, reader: LiteralReader) -> None:
        if reader.repaired and call.status == "ok":
            call.status = "repaired"
        if reader.repaired:
            self._notice("repaired", reader.repaired)

    # -- arguments as one literal ---------------------------------------------------------------------------------

    def _arguments(self) -> bool:
        call = self._call
        assert call is not None
        reader = call.reader
        buf = self._buf
        i = self._i
        if reader is None:
            i = SPACES.match(buf, i).end()  # type: ignore[union-attr]
            self._i = i
            if i == len(buf):
                return False
            c = buf[i]
            if c not in '{"':
                return self._no_arguments(call, i)
            syntax = call.form.syntax
            assert syntax is not None
            reader = call.reader = self._reader(call, c, syntax)
        end = reader.read(buf, i)
        self._i = end
        fragment = reader.take()
        if fragment or end > i:
            self._put_arguments(call, fragment, self._base + end)
        if reader.mode == DONE:
            call.complete = True
            self._note_repair(call, reader)
            self._state = CLOSE
            return True
        if reader.mode == ERROR:
            return self._arguments_fail(call, reader)
        return False

    def _no_arguments(self, call: Call, i: int) -> bool:
        """Where arguments should begin, there are none: null, nothing, or something else."""
        buf = self._buf
        if buf.startswith(_NULL, i):
            self._i = i + 4
            self._put_arguments(call, "{}", self._base + i + 4)
            call.complete = True
            self._state = CLOSE
            return True
        closing = self._closing(i)
        if (closing == MORE or _NULL.startswith(buf[i:])) and not self._final:
            return False
        if closing >= 0 or not call.form.suffix:
            self._put_arguments(call, "{}", self._base + i)
            call.complete = True
            self._state = CLOSE
            return True
        return self._fails(call, "arguments that are no object")

    def _closing(self, i: int) -> int:
        """Whether something that closes a call, a block or the turn stands at ``i``."""
        buf = self._buf
        more = False
        for pattern in self._plan.suffixes:
            r = pattern.match(buf, i, {})
            if r >= 0 and not self._spelled(pattern.first, i):
                return r
            more = more or r == MORE
        for block in self._plan.block_suffixes:
            r = block.suffix.match(buf, i, {})
            if r >= 0 and not self._spelled(block.suffix.first, i):
                return r
            more = more or r == MORE
        r = self._end_here(i)
        if r >= 0:
            return r
        return MORE if more or r == MORE else NO

    def _arguments_fail(self, call: Call, reader: LiteralReader) -> bool:
        """The literal is broken here; a closing marker right here may be all that is wrong with it."""
        i = self._i
        if self._repairing():
            j = SPACES.match(self._buf, i).end()  # type: ignore[union-attr]
            closing = MORE if j == len(self._buf) else self._closing(j)
            if closing == MORE and not self._final:
                return False
            if closing >= 0 and self._shut(call, reader):
                return True
        call.track = [*reader.stack] if call.form.shape is not None else call.track
        if call.form.shape is not None and call.track is not None:
            call.track = ["{", *call.track]
        elif call.track is not None:
            call.track = [*reader.stack]
        return self._fails(call, reader.error)

    def _shut(self, call: Call, reader: LiteralReader) -> bool:
        """Repair: close the value that a closing marker cuts."""
        tail = reader.close_all()
        if not tail:
            return False
        self._put_arguments(call, tail, self._base + self._i)
        call.complete = True
        call.reader = None
        call.status = "repaired"
        self._notice("repaired", "unclosed value")
        self._state = CLOSE
        return True

    def _fails(self, call: Call, why: str) -> bool:
        call.reader = None
        call.status = "invalid"
        call.quote = ""
        self._notice("bad_arguments", why)
        self._state = RECOVER
        return True

    # -- a call that went wrong -----------------------------------------------------------------------------------

    def _recover(self) -> bool:
        """Hand on what is left of the call until it ends."""
        call = self._call
        assert call is not None
        buf = self._buf
        i = self._i
        pos = i
        while True:
            m = self._plan.recover.find.search(buf, pos)
            limit = len(buf) if m is None else m.start()
            ended = self._tracked(call, i, limit)
            if ended >= 0:
                self._raw(call, ended)
                call.complete = True
                self._state = CLOSE
                if call.form.shape is not None and call.track and buf[ended] == "}":
                    call.expects = AFTER
                    self._state = OBJECT
                return True
            i = limit
            if m is None:
                break
            if m.group() not in self._plan.recover.triggers:
                if self._final:
                    i = len(buf)
                break
            r = self._recovery_ends(m.start())
            if r == MORE:
                break
            if r != NO:
                self._raw(call, m.start())
                call.complete = True
                self._state = CLOSE
                return True
            pos = m.start() + 1
        self._raw(call, i)
        return False

    def _raw(self, call: Call, end: int) -> None:
        start = self._i
        self._i = end
        if end > start:
            self._put_arguments(call, "" if call.quiet else self._buf[start:end], self._base + end)

    def _tracked(self, call: Call, start: int, limit: int) -> int:
        """Follow the brackets of a call that only they end; where they end it, or `NO`."""
        stack = call.track
        if stack is None:
            return NO
        i = start
        buf = self._buf
        if call.rest and i < limit:  # the character behind a backslash
            call.rest = ""
            i += 1
        while True:
            m = _BRACKETS.search(buf, i, limit)
            if m is None:
                return NO
            c = m.group()
            i = m.end()
            if c == "\\":
                if i >= limit:
                    call.rest = c
                i += 1
            elif c in "\"'":
                if not call.quote:
                    call.quote = c
                elif call.quote == c:
                    call.quote = ""
            elif call.quote:
                continue
            elif c in "{[(":
                stack.append(c)
            else:
                top = stack[-1]
                if len(stack) == 1 and (top, c) in (("(", ")"), ("{", "}")) and call.form.syntax is not Syntax.QUOTE:
                    return m.start()  # the call's own closing
                if (top, c) not in (("{", "}"), ("[", "]"), ("(", ")"), ("t", ")")):
                    return m.start()
                stack.pop()
                if not stack:
                    return m.end()

    def _recovery_ends(self, i: int) -> int:
        """Whether a broken call ends at ``i``."""
        more = False
        for o in self._plan.recover.openings:
            if o.kind == END:
                r = self._match(o, i, {})
                if r >= 0:
                    r = self._end_counts(i, r)
            elif o.kind == CALL and o.form is not None and o.block is not None:
                r = self._match_call(o, i, False, {})
            else:
                r = self._match(o, i, {})
            if r >= 0:
                return r
            more = more or r == MORE
        return MORE if more and not self._final else NO

    # -- arguments that have a template each ----------------------------------------------------------------------

    def _members(self) -> bool:
        call = self._call
        assert call is not None
        buf = self._buf
        i = SPACES.match(buf, self._i).end()  # type: ignore[union-attr]
        plan = self._plan
        level = call.levels[-1]
        if plan.comma and not level.empty:
            r = plan.comma.match(buf, i, {})
            if r >= 0:
                i = SPACES.match(buf, r).end()  # type: ignore[union-attr]
        if i == len(buf):
            self._i = i
            return False
        more = False
        if level.parameter is not None:
            r = level.parameter.closing.match(buf, i, dict(level.fields))
            if r >= 0:
                call.levels.pop()
                self._put_arguments(call, "]" if level.bracket == "[" else "}", self._base + r)
                self._i = r
                return True
            more = r == MORE
        else:
            for suffix in plan.suffixes:
                r = suffix.match(buf, i, {})
                if r >= 0 and not self._spelled(suffix.first, i):
                    self._i = i
                    return self._members_end(call)
                more = more or r == MORE
        for parameter in plan.items if level.bracket == "[" else plan.parameters:
            fields: dict[str, str] = {}
            r = parameter.opening.match(buf, i, fields)
            if r == MORE:
                more = True
                break
            if r >= 0 and not self._spelled(parameter.opening.first, i):
                self._i = r
                self._begin_value(call, parameter, fields)
                return True
        if more and not self._final:
            self._i = i
            return False
        if more:
            self._i = len(buf)
            return False
        self._i = i
        if buf[i] == "{" and len(call.levels) == 1 and level.empty:
            call.levels.clear()
            call.reader = self._reader(call, "{", Syntax.JSON)
            self._state = ARGUMENTS
            return True
        return self._members_fail(call, i)

    def _members_end(self, call: Call) -> bool:
        empty = call.levels[0].empty
        tail = "{}" if empty else "]" if call.levels[-1].bracket == "[" else "}"
        self._put_arguments(call, tail, self._base + self._i)
        call.complete = True
        self._state = CLOSE
        return True

    def _members_fail(self, call: Call, i: int) -> bool:
        closing = self._closing(i)
        if closing == MORE and not self._final:
            return False
        opens = self._opens_next(i)
        if opens == MORE:
            return False
        if closing >= 0 and not call.form.suffix:
            # Where a call has no closing of its own, its block's or the turn's is its closing.
            return self._members_end(call)
        if closing >= 0 or opens:
            # The block or the turn closes, or another call begins: this call was cut.
            self._notice("missing_close", call.name)
            if self._repairing() and len(call.levels) == 1:
                self._members_end(call)
                call.status = "repaired"
                self._end_call("repaired", self._base + i)
            else:
                self._end_call("incomplete", self._base + i)
            return True
        return self._fails(call, "text between arguments")

    def _opens_next(self, i: int) -> int:
        """Whether another call begins at ``i``: 1, 0, or `MORE`."""
        more = False
        for o in self._plan.edge:
            if o.kind == CALL and o.marked and o.pattern.first:
                r = self._match_call(o, i, False, {})
                if r >= 0:
                    return 1
                more = more or r == MORE
        return MORE if more and not self._final else 0

    def _begin_value(self, call: Call, parameter: Parameter, fields: dict[str, str]) -> None:
        level = call.levels[-1]
        call.parameter = parameter
        call.value_fields = fields
        key = fields.get("key", "")
        above = level.schema
        if level.bracket == "[":
            schema = None if above is None else above.items()
        else:
            schema = None if above is None else above.property(key)
        call.schema = schema
        call.begun = False
        call.held = []
        call.held_size = 0
        call.rest = ""
        call.reader = None
        types = None if schema is None else schema.types
        markup = fields.get("string") or fields.get("type")
        if markup is not None:
            text = markup == "true" if "string" in fields else markup == "string"
            call.mode = ValueMode.STRING if text else ValueMode.TYPED
            call.types = frozenset(("number", "integer", "boolean", "null", "object", "array"))
        elif types is None:
            call.mode = ValueMode.GUESS
            call.reader = LiteralReader(Syntax.JSON, Root.ANY)
        elif "string" in types:
            call.mode = ValueMode.NULLABLE if "null" in types else ValueMode.STRING
        else:
            call.mode = ValueMode.TYPED
        if types is not None and markup is None:
            call.types = types
        self._state = VALUE_START

    def _value_start(self) -> bool:
        """White space that belongs to the marker is taken off; a nested value is told from text."""
        call = self._call
        assert call is not None
        assert call.parameter is not None
        buf = self._buf
        i = self._i
        n = len(buf)
        if self._plan.items and call.mode is not ValueMode.STRING:
            r = self._nested(call)
            if r != NO:
                return r == 1
        lead = call.parameter.lead
        k = 0
        while k < len(lead) and i + k < n and buf[i + k] == lead[k]:
            k += 1
        if k < len(lead) and i + k == n and not self._final:
            return False
        self._i = i + k
        self._state = VALUE
        return True

    def _nested(self, call: Call) -> int:
        """Whether a container's element begins here: 1 opened, `MORE` (as 0: wait), or `NO`."""
        buf = self._buf
        j = SPACES.match(buf, self._i).end()  # type: ignore[union-attr]
        if j == len(buf):
            return NO if self._final else 0
        plan = self._plan
        parameter = call.parameter
        assert parameter is not None
        own = parameter.closing.match(buf, j, dict(call.value_fields))
        if own == MORE and not self._final:
            return 0
        if own >= 0:
            return NO
        for bracket, group in (("[", plan.items), ("{", plan.parameters)):
            for p in group:
                r = p.opening.match(buf, j, {})
                if r == MORE and not self._final:
                    return 0
                if r >= 0:
                    if len(call.levels) >= 512:
                        return NO
                    self._put_arguments(call, self._key(call) + bracket, self._base + j)
                    call.levels[-1].empty = False
                    call.levels.append(Level(bracket, parameter, call.value_fields, call.schema))
                    self._i = j
                    self._state = MEMBERS
                    return 1
        return NO

    def _key(self, call: Call) -> str:
        """What stands before a value in the JSON text."""
        level = call.levels[-1]
        first = len(call.levels) == 1 and level.empty
        text = "{" if first else "" if level.empty else ", "
        if level.bracket == "[":
            return text
        return f'{text}"{escaped(call.value_fields.get("key", ""))}": '

    def _value(self) -> bool:
        """The text of an argument, up to the closing that counts."""
        call = self._call
        assert call is not None
        parameter = call.parameter
        assert parameter is not None
        buf = self._buf
        i = self._i
        n = len(buf)
        find = self._plan.values
        trail = parameter.trail
        pos = i
        while True:
            m = find.search(buf, pos)
            if m is None:
                if self._final:
                    break
                end = n - held_suffix(buf, i, n, trail)
                self._value_text(call, end)
                return False
            p = m.start()
            r = MORE if m.end() == n and not self._is_trigger(m.group()) else self._value_ends(call, p)
            if r == NO:
                pos = p + 1
                continue
            if r == MORE:
                end = p - held_suffix(buf, i, p, trail)
                self._value_text(call, end)
                return False
            end = p - common_suffix(buf, i, p, trail)
            self._value_text(call, end)
            self._value_done(call, r)
            return True
        # Cut: what may be the beginning of a closing is not said.
        self._value_text(call, n - held_suffix(buf, i, n, trail))
        self._i = n
        return False

    def _is_trigger(self, text: str) -> bool:
        plan = self._plan
        return (
            any(p.closing.first == text for p in plan.parameters)
            or any(s.first == text for s in plan.suffixes)
            or any(b.suffix.first == text for b in plan.block_suffixes)
        )

    def _value_ends(self, call: Call, p: int) -> int:
        """Where the value goes on being read if it ends at ``p`` (behind its own closing, or at another), `NO`, `MORE`."""
        buf = self._buf
        plan = self._plan
        own = call.parameter
        assert own is not None
        # Only its own closing: another alternative's may be text here (`</param>` in CDATA).
        r = own.closing.match(buf, p, dict(call.value_fields))
        if r >= 0 and not self._spelled(own.closing.first, p):
            r = r if self._certain(p) else self._follows_value(call, r)
            if r >= 0:
                return r
        if r == MORE and not self._final:
            return MORE
        more = False
        for suffix in plan.suffixes:
            r = suffix.match(buf, p, {})
            if r >= 0 and not self._spelled(suffix.first, p):
                f = r if self._certain(p) else self._follows_call(r)
                if f >= 0:
                    return p
                r = f
            more = more or r == MORE
        for block in plan.block_suffixes:
            r = block.suffix.match(buf, p, {})
            if r >= 0 and not self._spelled(block.suffix.first, p):
                j = SPACES.match(buf, r).end()  # type: ignore[union-attr]
                f = (p if self._final else MORE) if j == len(buf) else self._end_here(j)
                if f >= 0 or self._certain(p):
                    return p
                r = f
            more = more or r == MORE
        return MORE if more and not self._final else NO

    def _follows_value(self, call: Call, i: int) -> int:
        """``i`` if what stands there may follow an argument: another one, or what closes the call or the block."""
        buf = self._buf
        plan = self._plan
        j = SPACES.match(buf, i).end()  # type: ignore[union-attr]
        if j - i > MAX_SPACE:
            return NO
        if plan.comma:
            r = plan.comma.match(buf, j, {})
            if r >= 0:
                j = SPACES.match(buf, r).end()  # type: ignore[union-attr]
        if j == len(buf):
            return i if self._final else MORE
        more = False
        candidates: list[tuple[Pattern, dict[str, str]]] = []
        if len(call.levels) > 1:
            level = call.levels[-1]
            assert level.parameter is not None
            candidates.append((level.parameter.closing, dict(level.fields)))
            group = plan.items if level.bracket == "[" else plan.parameters
            candidates.extend((p.opening, {}) for p in group)
        else:
            candidates.extend((p.opening, {}) for p in plan.parameters)
            candidates.extend((s, {}) for s in plan.suffixes)
            candidates.extend((b.suffix, {}) for b in plan.block_suffixes)
        for pattern, fields in candidates:
            r = pattern.match(buf, j, fields)
            if r >= 0:
                return i
            more = more or r == MORE
        r = self._end_here(j)
        if r >= 0 or (self._final and more):
            return i
        return MORE if more or r == MORE else NO

    def _follows_call(self, i: int) -> int:
        """``i`` if what stands there may follow a call: its block's closing, another call, the end."""
        buf = self._buf
        j = _SKIP.match(buf, i).end()  # type: ignore[union-attr]
        if j - i > MAX_SPACE:
            return NO
        if j == len(buf):
            return i if self._final else MORE
        more = False
        for block in self._plan.block_suffixes:
            r = block.suffix.match(buf, j, {})
            if r >= 0:
                return i
            more = more or r == MORE
        for form in self._plan.forms:
            r = form.opening.match(buf, j, {})
            if r >= 0 and form.marked:
                return i
            more = more or r == MORE
        opens = self._opens_next(j)
        if opens == 1:
            return i
        r = self._end_here(j)
        if r >= 0 or (self._final and more):
            return i
        return MORE if more or opens == MORE or r == MORE else NO

    def _value_text(self, call: Call, end: int) -> None:
        """Take text of a value up to ``end``."""
        i = self._i
        if end <= i:
            return
        text = self._buf[i:end]
        self._i = end
        if call.mode is ValueMode.STRING:
            self._say(call, escaped(text), end)
            return
        call.held.append(text)
        call.held_size += len(text)
        if call.held_size > CAP:
            self._notice("hold_overflow", call.value_fields.get("key", ""))
            self._as_string(call, end)
        elif call.mode is ValueMode.NULLABLE:
            if call.held_size > 64 or not _NULL.startswith("".join(call.held).strip()):
                self._as_string(call, end)
        elif call.mode is ValueMode.GUESS:
            reader = call.reader
            assert reader is not None
            rest = call.rest + text
            used = reader.read(rest, 0)
            reader.out = []
            call.rest = rest[used:]
            begins = call.held[0].lstrip()[:1] if not reader.stack else ""
            if reader.mode == ERROR or begins == '"' or (reader.mode == DONE and call.rest.strip()):
                self._as_string(call, end)

    def _as_string(self, call: Call, end: int) -> None:
        """What was held is a string after all."""
        text = "".join(call.held)
        call.held = []
        call.mode = ValueMode.STRING
        self._say(call, escaped(text), end)

    def _say(self, call: Call, fragment: str, end: int) -> None:
        """A piece of a string value goes out."""
        if not call.begun:
            call.begun = True
            fragment = f'{self._key(call)}"{fragment}'
            call.levels[-1].empty = False
        self._put_arguments(call, fragment, self._base + end)

    def _value_done(self, call: Call, i: int) -> None:
        """The value ends; reading goes on at ``i``."""
        if call.mode is ValueMode.GUESS:
            reader = call.reader
            assert reader is not None
            if reader.mode != DONE:
                reader.read(call.rest + " ", 0)  # what follows ends a number or a word
        if call.mode is not ValueMode.STRING:
            text = "".join(call.held)
            if call.mode is ValueMode.GUESS:
                assert call.reader is not None
                json, fits = (text.strip(), True) if call.reader.mode == DONE else (f'"{escaped(text)}"', True)
            elif call.mode is ValueMode.NULLABLE:
                json, fits = (_NULL if text.strip() == _NULL else f'"{escaped(text)}"'), True
            else:
                json, fits = decode(text, call.types)
            if not fits:
                self._notice("value_type", call.value_fields.get("key", ""))
            self._put_arguments(call, self._key(call) + json, self._base + self._i)
            call.levels[-1].empty = False
        else:
            self._say(call, '"', self._i)
        call.held = []
        call.reader = None
        self._i = i
        self._state = MEMBERS

    # -- between calls --------------------------------------------------------------------------------------------

    def _close(self) -> bool:
        """The arguments are over: the call's own closing is due."""
        call = self._call
        assert call is not None
        buf = self._buf
        suffix = call.form.suffix
        i = self._i
        if not suffix:
            self._end_call(call.status, self._base + i)
            return True
        j = SPACES.match(buf, i).end()  # type: ignore[union-attr]
        if j == len(buf) and not self._final:
            return False
        more = False
        for pattern in (suffix, *(s for s in self._plan.suffixes if s is not suffix)):
            r = pattern.match(buf, j, dict(call.fields))
            if r >= 0:
                self._i = r
                self._end_call(call.status, self._base + r)
                return True
            more = more or r == MORE
        if more and not self._final:
            return False
        self._notice("missing_close", call.name)
        end = len(buf) if more else max(p.progress(buf, j) for p in (suffix, *self._plan.suffixes))
        self._i = end if end > j else i
        self._end_call(call.status, self._base + self._i)
        return True

    def _leave_block(self) -> None:
        self._state = EDGE
        self._margin = max((b.trail for b in self._plan.blocks), key=len, default="")
        if self._resume:
            self._resume = False
            self._thinking = True
            at = max(self._at, 0)
            self._out.append(ReasoningStart(at, at))
        if self._thinking:
            self._state = REASONING

    def _block(self) -> bool:
        """Behind a call: another one, the block's closing, or something else."""
        buf = self._buf
        plan = self._plan
        i = self._i
        j = _SKIP.match(buf, i).end()  # type: ignore[union-attr]
        if plan.separator:
            r = plan.separator.match(buf, j, {})
            if r >= 0:
                j = _SKIP.match(buf, r).end()  # type: ignore[union-attr]
            elif r == MORE and not self._final:
                return False
        if j == len(buf):
            if self._final:
                self._i = j
                self._put_markup(self._base + j)
                return False
            if j - i <= CAP:
                return False
        more = False
        within = self._within
        for block in (within, *plan.block_suffixes) if within is not None and within.suffix else plan.block_suffixes:
            r = block.suffix.match(buf, j, {})
            if r == MORE and not self._final:
                return False
            if r >= 0 and not self._spelled(block.suffix.first, j):
                self._i = r
                self._put_markup(self._base + r)
                self._leave_block()
                return True
        # Behind a bare opening only declared names count, behind a marked one all do.
        inner = plan.inner if within is None or within.marked else within.inner or plan.inner_bare
        if self._plain:
            inner = []
        weak: tuple[Opening, int, dict[str, str]] | None = None
        for o in inner:
            fields: dict[str, str] = {}
            r = self._match_call(o, j, True, fields)
            if r >= 0 and "weak" in fields:
                weak = weak or (o, r, fields)
            elif r >= 0:
                return self._next_call(o, j, r, fields)
            elif r == MORE:
                more = True
                break
        if weak is not None and (not more or self._final):
            return self._next_call(weak[0], j, weak[1], weak[2])
        for suffix in plan.suffixes:
            r = suffix.match(buf, j, {})
            if r >= 0 and any(c.isalnum() for c in suffix.first):
                self._i = r
                self._put_markup(self._base + r)
                self._notice("stray_close", suffix.first)
                return True
            more = more or r == MORE
        if more and not self._final:
            return False
        opens = self._opens_other(j)
        if opens == MORE:
            return False
        if opens:
            self._i = j
            self._put_markup(self._base + j)
        if within is not None and within.suffix:
            part = max(within.suffix.progress(buf, j), j) if not more else len(buf)
            if not opens and part == j:
                self._put_markup(self._base + i)
                self._state = BLOCK_TEXT
                return True
            if part > j:
                self._i = part
                self._put_markup(self._base + part)
            self._notice("missing_close", within.suffix.first)
        self._leave_block()
        return True

    def _next_call(self, o: Opening, j: int, end: int, fields: dict[str, str]) -> bool:
        if self._refused(j):
            self._leave_block()
            return True
        self._put_markup(self._base + j)
        self._i = j
        self._open_call(o, j, end, fields)
        return True

    def _opens_other(self, j: int) -> int:
        """Whether something other than a call of this block begins at ``j``: 1, 0, or `MORE`."""
        more = False
        for o in self._plan.edge_plain:
            r = self._match(o, j, {})
            if r >= 0 and o.kind == END:
                r = self._end_counts(j, r)
            if r >= 0:
                return 1
            more = more or r == MORE
        opens = 0 if self._plain else self._opens_next(j)
        return 1 if opens == 1 else MORE if (more or opens == MORE) and not self._final else 0

    def _block_text(self) -> bool:
        """Text that stands inside a block: content, up to what ends it."""
        buf = self._buf
        i = self._i
        if self._at < self._base + i:
            self._put_markup(self._base + i)
        scan = self._plan.block_text
        pos = i
        while True:
            m = scan.find.search(buf, pos)
            p = len(buf) if m is None or (self._final and m.group() not in scan.triggers) else m.start()
            if p > i and not self._prose and not buf[i:p].isspace():
                self._notice("text_in_block")
            self._put_text(self._base + p)
            self._i = i = p
            if m is None or p == len(buf) or m.group() not in scan.triggers:
                return False
            r = self._block_text_ends(scan, p)
            if r == MORE and not self._final:
                return False
            if r == 1:
                return True
            pos = p + 1

    def _block_text_ends(self, scan: Scan, p: int) -> int:
        for o in scan.openings:
            fields: dict[str, str] = {}
            if o.kind == CALL and o.form is not None:
                r = NO if self._plain else self._match_call(o, p, False, fields)
                if r >= 0 and not self._refused(p):
                    self._state = BLOCK
                    self._open_call(o, p, r, fields)
                    return 1
                r = MORE if r == MORE else NO
            else:
                r = self._match(o, p, fields)
                if r >= 0 and o.kind == END:
                    r = self._end_counts(p, r)
                if r >= 0:
                    if o.kind == CALL:
                        self._put_markup(self._base + r)
                        self._i = r
                    self._leave_block()
                    return 1
            if r == MORE:
                return MORE
        return 0
