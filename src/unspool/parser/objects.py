"""Calls whose arguments are one literal, inside an object that is the call or by themselves; calls that went wrong."""

import json
import re

from ..dialect.patterns import MORE, NO, skip_space
from ..dialect.syntax import Syntax
from ..regex import Regex
from .call import AFTER, COLON, FIRST, KEY, Call
from .call import VALUE as OBJECT_VALUE
from .headers import ARGUMENT_KEYS, NULL
from .literals import DONE, ERROR, STRING, LiteralReader, Root
from .output import CLOSE, RECOVER
from .recovery import Recovery
from .wrapped import unwrapping

MAX_TOKEN = 1024

_STRINGS = {q: Regex(rf"{q}[^{q}\\]*+(?:\\.[^{q}\\]*+)*+{q}", re.S) for q in ('"', "'")}


class Objects(Recovery):
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
        if self._read_on(call, reader):
            return True
        if reader.mode == DONE:
            call.reader = None
            call.expects = AFTER
            if not skipped:
                self._complete(call, reader)
            return True
        if reader.mode == ERROR:
            if skipped or not call.started:
                self._let_out(call, self._i)
                call.reader = None
                return self._object_fails(call, self._i, reader.error)
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
        if self._read_on(call, reader):
            return True
        if reader.mode == DONE:
            self._complete(call, reader)
            self._state = CLOSE
            return True
        if reader.mode == ERROR:
            return self._arguments_fail(call, reader)
        return False

    def _read_on(self, call: Call, reader: LiteralReader) -> bool:
        """Read more of a literal and hand it on; true where a marker in an open string ended the call."""
        scan = self._string_ends(reader)
        buf = self._buf
        pos = self._i
        while True:
            m = None if scan is None else scan.find.search(buf, pos)
            if m is None:
                self._read_to(call, reader, len(buf))
                return False
            p = m.start()
            self._read_to(call, reader, p)
            if reader.mode >= DONE:
                return False
            if self._i == p and reader.mode == STRING:
                r = self._ends_string(p, m)
                if r == MORE:
                    return False
                if r >= 0:
                    self._string_cut(call, reader)
                    return True
            pos = p + 1

    def _read_to(self, call: Call, reader: LiteralReader, until: int) -> None:
        """Let the reader have the text up to ``until``."""
        buf = self._buf
        i = self._i
        end = reader.read(buf, i) if until == len(buf) else i + reader.read(buf[i:until], 0)
        self._i = end
        for kind, detail in reader.notes:
            self._notice(kind, detail)
        reader.notes.clear()
        fragment = reader.take()
        if call.role != "skip" and (fragment or end > i):
            self._put_json(call, fragment, self._base + end)

    def _put_json(self, call: Call, fragment: str, end: int) -> None:
        """JSON arguments go out, unless they may lie in a wrapping."""
        if not call.looked:
            call.looked = True
            call.unwrapping = unwrapping(self._schema(call.name)) if call.started else None
        watch = call.unwrapping
        if watch is not None:
            fragment = watch.push(fragment)
            if not watch.over:
                return
            call.unwrapping = None
            if watch.overflown:
                self._notice("hold_overflow", call.name)
        self._put_arguments(call, fragment, end)

    def _complete(self, call: Call, reader: LiteralReader) -> None:
        """The arguments are whole."""
        if call.unwrapping is not None:
            text = call.unwrapping.close()
            call.unwrapping = None
            self._put_arguments(call, text, self._base + self._i)
        call.complete = True
        self._note_repair(call, reader)

    # -- a marker in an open string -------------------------------------------------------------------------------

    def _string_cut(self, call: Call, reader: LiteralReader) -> None:
        """A closing marker stands in an open string: the value and the call end."""
        why = "a closing marker inside a value"
        if call.role == "skip" or not call.started:
            self._object_fails(call, self._i, why)
        elif not (self._repairing() and self._shut(call, reader)):
            self._fails(call, why)
            call.track = None
            call.within = ""

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
        if call.unwrapping is not None:
            tail = call.unwrapping.push(tail)
            tail += "" if call.unwrapping.over else call.unwrapping.close()
            call.unwrapping = None
        self._put_arguments(call, tail, self._base + self._i)
        call.complete = True
        call.reader = None
        call.status = "repaired"
        self._notice("repaired", "unclosed value")
        self._state = CLOSE
        return True
