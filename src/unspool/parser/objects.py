"""Calls whose arguments are one literal, inside an object that is the call or by themselves; calls that went wrong."""

import json
import re

from ..regex import Regex
from .call import AFTER, COLON, FIRST, KEY, Call
from .call import VALUE as OBJECT_VALUE
from .headers import ARGUMENT_KEYS, NULL, Headers
from .literals import DONE, ERROR, LiteralReader, Root, Syntax
from .output import CLOSE, OBJECT, RECOVER
from .patterns import MORE, NO, skip_space
from .plan import CALL, END

MAX_TOKEN = 1024
STRETCH = 4096

_STRINGS = {q: Regex(rf"{q}[^{q}\\]*+(?:\\.[^{q}\\]*+)*+{q}", re.S) for q in ('"', "'")}
_STRING_REST = {q: Regex(rf"[^{q}\\]*+(?:\\.[^{q}\\]*+)*+", re.S) for q in ('"', "'")}
_BRACKETS = Regex(r"[\"'{}\[\]()\\]")


class Objects(Headers):
    """Reads object-shaped calls and arguments of one piece."""

    __slots__ = ()

    # -- a call written as an object ------------------------------------------------------------------------------

    def _object(self) -> bool:
        call = self._call
        assert call is not None
        if call.reader is not None:
            return self._object_reading(call)
        buf = self._buf
        i = skip_space(buf, self._i)
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
            if c not in '{"n' and call.thought:
                return self._object_fails(call, i, "arguments that are no object")
            if call.name and not call.started and not self._announce_object(call, i):
                return True
            if c == "n":
                return self._null_arguments(call, i)
            if c != "{" and c != '"':
                return self._object_fails(call, i, "arguments that are no object")
            syntax = (
                Syntax.PYTHON
                if call.quote == "'" and call.form.shape is not None and call.form.shape.quote == "'"
                else Syntax.JSON
            )
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
            # In a thought a name alone makes no call.
            if role == "name" and value and not self._id_may_come(call) and (call.complete or not call.thought):
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
        if word == NULL:
            self._put_arguments(call, "{}", self._base + i + 4)
            call.complete = True
            call.expects = AFTER
            self._i = i + 4
            return True
        if NULL.startswith(word) and not self._final:
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
            i = skip_space(buf, i)
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
        if buf.startswith(NULL, i):
            self._i = i + 4
            self._put_arguments(call, "{}", self._base + i + 4)
            call.complete = True
            self._state = CLOSE
            return True
        closing = self._closing(i)
        if closing == MORE or NULL.startswith(buf[i:]):
            if self._final:
                self._i = len(buf)
            return False
        if closing >= 0 or not call.form.suffix:
            self._put_arguments(call, "{}", self._base + i)
            call.complete = True
            self._state = CLOSE
            return True
        return self._fails(call, "arguments that are no object")

    def _closing(self, i: int) -> int:
        """Whether something that closes a call, a block or the turn stands at ``i``."""
        more = False
        for pattern in self._plan.suffixes:
            r = self._marker(pattern, i, {})
            if r >= 0:
                return r
            more = more or r == MORE
        for block in self._plan.block_suffixes:
            r = self._marker(block.suffix, i, {})
            if r >= 0:
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
            j = skip_space(self._buf, i)
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
        # Inside a string that has gone wrong, markers are still its text.
        quote = "" if call.reader is None else call.reader.delimiter[:1]
        call.within = quote if quote in _STRING_REST else ""
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
        if call.within:
            i = self._string_over(call, i)
            if i < 0:
                return False
        pos = i
        while True:
            # A stretch at a time: brackets mostly end the call long before the next marker.
            until = min(len(buf), pos + STRETCH)
            m = self._plan.recover.find.search(buf, pos, until)
            limit = until if m is None else m.start()
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
            if until < len(buf) and (m is None or m.group() not in self._plan.recover.triggers):
                pos = limit
                continue
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

    def _string_over(self, call: Call, i: int) -> int:
        """Hand on the rest of the string that went wrong; where it ends, or `NO` where it goes on."""
        buf = self._buf
        m = _STRING_REST[call.within].match(buf, i)
        end = i if m is None else m.end()
        if end < len(buf) and buf[end] == call.within:
            self._raw(call, end + 1)
            call.within = ""
            return end + 1
        if end < len(buf) and self._final:
            end = len(buf)
        self._raw(call, end)  # a backslash at the end waits for what it escapes
        return NO

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
